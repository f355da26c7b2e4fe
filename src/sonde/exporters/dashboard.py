"""A dashboard for Grafana of a script's metrics: the JSON that its import takes (the classic model)."""

from __future__ import annotations

from .metrics import BYTES, COUNTER, HISTOGRAM, RATE, SECONDS, SUMMARY, Family, counter_sample
from .prometheus import prometheus_unit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from ..base.json_checks import JsonObject

    Targets: TypeAlias = "list[tuple[str, str]]"

SCHEMA = 39           # version of Grafana's model, as of Grafana 11
MOST_LINES = 10       # in a panel
_WIDTH, _HEIGHT = 24, 8  # of the grid, of a panel
_SOURCE: JsonObject = {"type": "prometheus", "uid": "${datasource}"}
_HERE = '{instance=~"$instance"}'
_SPAN = "[$__rate_interval]"
_UNITS = {SECONDS: "s", BYTES: "bytes", RATE: "Bps"}
_RATES = {SECONDS: "percentunit", BYTES: "Bps"}  # of counters; seconds of each second are a share
_QUANTILES = (("0.5", "p50"), ("0.9", "p90"), ("0.99", "p99"))
_OWN = (  # what Sonde says of itself, with the labels by which it says it
    ("Events lost", "lost_events_total", "probe", "events that found the ring full"),
    ("Events skipped", "skipped_events_total", "probe", "events for which the kernel did not run the program"),
    ("Events withheld", "withheld_events_total", "probe", "events that were skipped since the budget was spent"),
    ("Failures", "failures_total", "message", "failures in the script"),
)


def make_dashboard(name: str, purpose: str, families: list[Family]) -> JsonObject:
    """The dashboard of a script called ``name``; ``families`` are its metrics, without Sonde's own."""
    panels = _Grid()
    for family in families:
        _add_panels(panels, family)
    panels.add_row("Sonde itself: what these figures lack")
    for title, metric, label, help in _OWN:
        query = f"sum by ({label}) (increase(sonde_trace_{metric}{_HERE}{_SPAN}))"
        panels.add_lines(title, help, "short", [(query, f"{{{{{label}}}}}")], _WIDTH // len(_OWN))
    first = sample_name(families[0]) if families else "sonde_trace_info"
    uid = "".join([c if c.isascii() and c.isalnum() else "-" for c in f"sonde-{name or 'script'}"])
    return {"uid": uid[:40], "title": f"Sonde: {name or 'script'}", "description": purpose, "tags": ["sonde"],
            "timezone": "browser", "editable": True, "graphTooltip": 1, "schemaVersion": SCHEMA, "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"}, "annotations": {"list": []}, "links": [],
            "templating": {"list": _variables(first)}, "panels": [*panels.made]}


def sample_name(family: Family) -> str:
    """The name of a sample that each label set of a metric has."""
    return f"{family.name}_count" if family.kind in (HISTOGRAM, SUMMARY) else \
        counter_sample(family.name) if family.kind == COUNTER else family.name


def _variables(metric: str) -> list[JsonObject]:
    return [{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0},
            {"name": "instance", "label": "Instance", "type": "query", "datasource": _SOURCE, "hide": 0, "refresh": 2,
             "query": f"label_values({metric}, instance)", "multi": True, "includeAll": True, "allValue": ".*",
             "current": {"text": "All", "value": "$__all"}, "sort": 1}]


def _add_panels(panels: _Grid, family: Family) -> None:
    by = ", ".join(family.labels)
    title = family.name.removeprefix("sonde_").removesuffix(f"_{prometheus_unit(family)}").replace("_", " ")
    lines = " / ".join([f"{{{{{label}}}}}" for label in family.labels]) or title
    unit = "percentunit" if prometheus_unit(family) == "ratio" else _UNITS.get(family.unit, "short")
    if family.kind == COUNTER:
        query = f"sum by ({by}) (rate({sample_name(family)}{_HERE}{_SPAN}))"
        rate = _RATES.get(family.unit, "cps")
        panels.add_lines(f"{title}, per second", family.help, rate, [(_top(query, by), lines)])
    elif family.kind == HISTOGRAM:
        _add_histogram(panels, family, title, unit, lines)
    elif family.kind == SUMMARY:
        sums, counts = [f"sum by ({by}) (rate({family.name}_{end}{_HERE}{_SPAN}))" for end in ("sum", "count")]
        panels.add_lines(f"{title}, average", family.help, unit, [(_top(f"{sums} / {counts}", by), lines)])
        panels.add_lines(f"{title}, how many per second", family.help, "cps", [(_top(counts, by), lines)])
    else:
        query = f"max by ({by}) ({family.name}{_HERE})" if by else f"max by (instance) ({family.name}{_HERE})"
        panels.add_lines(title, family.help, unit, [(_top(query, by or "instance"), lines if by else "{{instance}}")])


def _add_histogram(panels: _Grid, family: Family, title: str, unit: str, lines: str) -> None:
    """All values by size and time, then percentiles: of all, or the highest by labels."""
    bucket = f"{family.name}_bucket{_HERE}{_SPAN}"
    panels.add_heatmap(title, family.help, unit, f"sum by (le) (increase({bucket}))")
    by = ", ".join(family.labels)
    if by:
        query = f"histogram_quantile(0.99, sum by (le, {by}) (rate({bucket})))"
        return panels.add_lines(f"{title}, p99", family.help, unit, [(_top(query, by), lines)])
    sums, counts = [f"sum(rate({family.name}_{end}{_HERE}{_SPAN}))" for end in ("sum", "count")]
    targets = [(f"histogram_quantile({q}, sum by (le) (rate({bucket})))", legend) for q, legend in _QUANTILES]
    panels.add_lines(f"{title}, percentiles", family.help, unit, [*targets, (f"{sums} / {counts}", "average")])


def _top(query: str, by: str) -> str:
    return f"topk({MOST_LINES}, {query})" if by else query


class _Grid:
    """Panels side by side, row below row."""

    def __init__(self) -> None:
        self.made: list[JsonObject] = []
        self._x = self._y = 0

    def _add(self, kind: str, title: str, width: int, height: int, more: JsonObject) -> None:
        if self._x + width > _WIDTH:
            self._x, self._y = 0, self._y + _HEIGHT
        position: JsonObject = {"x": self._x, "y": self._y, "w": width, "h": height}
        self.made.append({"id": len(self.made) + 1, "type": kind, "title": title, "gridPos": position, **more})
        self._x += width

    def add_row(self, title: str) -> None:
        """A line across with a title."""
        if self._x:
            self._x, self._y = 0, self._y + _HEIGHT
        self._add("row", title, _WIDTH, 1, {"collapsed": False, "panels": []})
        self._x, self._y = 0, self._y + 1

    def add_lines(self, title: str, help: str, unit: str, queries: Targets, width: int = _WIDTH // 2) -> None:
        """Lines over time; each query with its legend."""
        self._add("timeseries", title, width, _HEIGHT, {
            "description": help, "datasource": _SOURCE, "targets": _targets(queries, "time_series"),
            "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {
                "drawStyle": "line", "fillOpacity": 10, "showPoints": "never"}}, "overrides": []},
            "options": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
                        "tooltip": {"mode": "multi", "sort": "desc"}}})

    def add_heatmap(self, title: str, help: str, unit: str, query: str) -> None:
        """How many values of which size, over time."""
        self._add("heatmap", title, _WIDTH // 2, _HEIGHT, {
            "description": help, "datasource": _SOURCE, "targets": _targets([(query, "{{le}}")], "heatmap"),
            "fieldConfig": {"defaults": {}, "overrides": []},
            "options": {"calculate": False, "cellGap": 1, "yAxis": {"unit": unit},
                        "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64, "exponent": 0.5, "fill": "orange",
                                  "reverse": False},
                        "legend": {"show": True}, "tooltip": {"show": True, "yHistogram": True}}})


def _targets(queries: Targets, format: str) -> list[JsonObject]:
    return [{"refId": chr(ord("A") + index), "datasource": _SOURCE, "expr": query, "legendFormat": legend,
             "format": format, "range": True} for index, (query, legend) in enumerate(queries)]
