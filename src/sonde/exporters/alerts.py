"""Alert rules for Prometheus: what Sonde says of its own losses, and what a script declares in a comment::

    // alert @usecs, @msecs p99 > 100ms for 10m: threads wait long for a CPU

The quantities are those of the map's metric: pNN of a histogram, ``average`` of a histogram or stats(), ``rate`` (a
second) of a counter, ``value`` of a gauge. A limit may have a unit of time or size.
"""

from __future__ import annotations

import re

from ..base.record import Value
from ..errors import UsageError
from .metrics import COUNTER, GAUGE, HISTOGRAM, SUMMARY, Family, counter_sample

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LINE = r"(?m)^[ \t]*// alert (.+)$"
_FORM = (r"(?P<maps>@\w*(?:, @\w*)*) (?P<quantity>p\d{1,2}(?:\.\d+)?|average|rate|value) > "
         r"(?P<limit>\d+(?:\.\d+)?)(?P<unit>[a-zA-Z%]*)(?: for (?P<time>\d+[smhd]))?: (?P<text>.+)")
_EXAMPLE = "for example: // alert @usecs p99 > 100ms for 10m: threads wait long for a CPU"
_SCALES = {"": 1.0, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "B": 1.0, "KB": 2.0**10, "MB": 2.0**20,
           "GB": 2.0**30, "%": 0.01}
_SPAN = "[5m]"
_OWN_SPAN = "[10m]"
_KINDS = {"average": (HISTOGRAM, SUMMARY), "rate": (COUNTER,), "value": (GAUGE,)}
_OWN = (  # name, metric, labels beside the instance, what it means
    ("SondeEventsLost", "lost_events", "probe", "Sonde lost events of {{ $labels.probe }}: its figures are too small"),
    ("SondeEventsSkipped", "skipped_events", "probe",
     "The kernel did not run Sonde's program for events of {{ $labels.probe }}"),
    ("SondeBudgetSpent", "withheld_events", "probe",
     "Sonde skips events of {{ $labels.probe }}, since its budget is spent"),
    ("SondeScriptFails", "failures", "message", "In Sonde's script: {{ $labels.message }}"),
)


class Alert(Value):
    """One rule. ``span`` is how long the expression has to hold, as Prometheus writes times."""

    name: str
    expression: str
    span: str
    summary: str
    description: str


class Declaration(Value):
    """What a comment says: of which maps, the quantity, its limit in the base unit and as written, for how long."""

    maps: tuple[str, ...]
    quantity: str
    limit: float
    written: str
    span: str
    text: str


def read_alerts(text: str) -> list[Declaration]:
    """The alerts that a script declares. UsageError about one of no such form."""
    declared = []
    for line in re.findall(_LINE, text):
        match = re.fullmatch(_FORM, line.rstrip())
        if match is None or match["unit"] not in _SCALES:
            raise UsageError(f"'// alert {line}' is no alert", [_EXAMPLE])
        limit = float(match["limit"]) * _SCALES[match["unit"]]
        declared.append(Declaration(tuple(match["maps"].split(", ")), match["quantity"], limit,
                                 match["limit"] + match["unit"], match["time"] or "0s", match["text"]))
    return declared


def make_alerts(name: str, text: str, families: Mapping[str, Family]) -> list[Alert]:
    """The rules of a script called ``name``; ``families`` are its metrics by the names of its maps."""
    from json import dumps
    alerts = [_declared_alert(each, families[map]) for each in read_alerts(text) for map in each.maps
              if map in families]
    this = ""  # of several services, this one
    if name:
        command = dumps(rf".*\b{re.escape(name)}\b.*")
        info = f"sonde_trace_info{{command=~{command}}}"
        this = f" and on (job, instance) {info}"
        alerts.append(Alert(f"Sonde{_camel(name)}Absent", f"absent({info})", "10m", f"No {name} of Sonde's is scraped",
                            "Is its service running, and scraped?"))
    for own, metric, label, summary in _OWN:
        query = f"sum by (job, instance, {label}) (increase(sonde_trace_{metric}_total{_OWN_SPAN})) > 0{this}"
        alerts.append(Alert(own, query, "0s", summary, "{{ $value }} in ten minutes on {{ $labels.instance }}"))
    alerts.append(Alert("SondeKeysLeftOut", f"sonde_trace_other_keys > 0{this}", "10m",
                        "Keys of {{ $labels.map }} have no label sets of their own",
                        "{{ $value }} keys on {{ $labels.instance }}: --keys, or fewer keys"))
    return alerts


def undeclared_maps(text: str, families: Mapping[str, Family]) -> list[str]:
    """The alerts that have no map in this run, as the script writes their maps."""
    return [", ".join(each.maps) for each in read_alerts(text) if not any(map in families for map in each.maps)]


def _declared_alert(each: Declaration, family: Family) -> Alert:
    wanted = _KINDS.get(each.quantity, (HISTOGRAM,))
    if family.kind not in wanted:
        raise UsageError(f"alert on {each.quantity} of {each.maps[0]}, whose metric is a {family.kind}",
                         [f"{each.quantity} is of a {' or a '.join(wanted)}"])
    limit = f"{each.limit:.9g}"
    name = "Sonde" + _camel(family.name.removeprefix("sonde_")) + _camel(each.quantity.replace(".", "_"))
    return Alert(name, f"{_quantity(each.quantity, family)} > {limit}", each.span,
                 f"{each.text[0].upper()}{each.text[1:]}",
                 f"{each.quantity} of {family.name} is {{{{ $value }}}}, above {each.written}, on "
                 "{{ $labels.instance }}")


def _quantity(quantity: str, family: Family) -> str:
    by, name = ", ".join(["job", "instance", *family.labels]), family.name
    if quantity == "rate":
        return f"sum by ({by}) (rate({counter_sample(name)}{_SPAN}))"
    if quantity == "value":
        return name
    if quantity == "average":
        return f"sum by ({by}) (rate({name}_sum{_SPAN})) / sum by ({by}) (rate({name}_count{_SPAN}))"
    share = float(quantity[1:]) / 100
    return f"histogram_quantile({share:.6g}, sum by (le, {by}) (rate({name}_bucket{_SPAN})))"


def _camel(text: str) -> str:
    return "".join([part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", text)])


def format_rules(name: str, alerts: Sequence[Alert]) -> str:
    """A file of rules for Prometheus; a string of JSON is one of YAML."""
    from json import dumps
    lines = ["groups:", f"  - name: {dumps(f'sonde-{name}' if name else 'sonde')}", "    rules:"]
    for alert in alerts:
        lines += [f"      - alert: {alert.name}", f"        expr: {dumps(alert.expression)}",
                  *([] if alert.span == "0s" else [f"        for: {alert.span}"]),
                  "        labels: {severity: warning}", "        annotations:",
                  f"          summary: {dumps(alert.summary)}", f"          description: {dumps(alert.description)}"]
    return "\n".join(lines) + "\n"
