"""A script's maps as metrics: counters, gauges, histograms and summaries, with the keys as labels.

    count(), sum() of unsigned values      counter
    hist(), lhist()                        histogram; a bound is the greatest integer in its bucket, so counts are exact
    stats()                                summary: count and sum
    all other numbers                      gauge (also sums of signed values, which may go down, and count() and sum()
                                           in maps that the script fills anew each time before it clears them)

Times are told in seconds and sizes in bytes, whatever unit the map is in, and a metric's name ends with the unit.

What a script prints and clears at intervals is added up, so that counters never lose what came between two readings.
Each map has a limited number of label sets; later keys count as ``other`` for good, since a counter must not shrink (a
gauge may: keys that are gone make room).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import takewhile
from math import nextafter

from ..base.record import Record, Value
from ..base.words import divide_toward_zero
from ..library.data_frames import row_sites
from ..output.units import Unit, bare_name, in_base_unit, map_unit, named_unit
from ..output.views.csv import cell_value, key_columns
from ..output.views.view import key_parts
from ..runtime.losses import Losses, describe_error
from ..runtime.maps.aggregates import Histogram, Stats
from ..runtime.maps.series import Series
from ..runtime.provenance import Provenance
from ..runtime.records.values import Item, Items, ScriptValue
from ..spec import MapSpec, ScriptSpec
from ..types import Aggregate, Bool, Enum, Float, Int, Type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from ..runtime.maps.aggregate_values import AggregateValue

OTHER = "other"
MOST_STEPS = 64    # of a histogram of equal steps all of which are bounds from the start
MOST_PROBES = 100  # with a counter of lost events even while it is 0
COUNTER, GAUGE, HISTOGRAM, SUMMARY = "counter", "gauge", "histogram", "summary"
SECONDS, BYTES, RATE, NUMBER = "s", "By", "By/s", "1"  # UCUM's codes
EVENTS, MAPPINGS, PROCESSES, GROUPS, KEYS, FAILURES, ADDRESSES, FILES, STACKS, CALLS = (
    "{event}", "{mapping}", "{process}", "{group}", "{key}", "{failure}", "{address}", "{file}", "{stack}", "{call}")
_KINDS = {"count": COUNTER, "hist": HISTOGRAM, "lhist": HISTOGRAM, "stats": SUMMARY}

Labels = tuple[str, ...]
Point: TypeAlias = "float | Summary | Buckets"


class Buckets(Record):
    """A histogram: ``counts[i]`` values were at most ``bounds[i]`` and above the previous bound; the last count is of
    those above all bounds. ``sum`` is that of the values; None where it is not known, or could go down."""

    bounds: list[float]
    counts: list[int]
    sum: float | None = None

    @property
    def total(self) -> int:
        return sum(self.counts)


class Summary(Value):
    """How many values there were, and their sum."""

    count: int
    total: float


class Family(Record):
    """One metric: ``points`` are (label values, number | Buckets | Stats); ``unit`` is UCUM's code."""

    name: str
    kind: str
    help: str
    labels: Labels
    points: list[tuple[Labels, Point]]
    unit: str = NUMBER


def metric_kind(named: MapSpec) -> str:
    """The kind of metric for a map; "" if its values are not numbers."""
    value = named.value
    if is_state(named):
        return GAUGE
    if isinstance(value, Aggregate):
        return _KINDS.get(value.kind, COUNTER if value.kind == "sum" and not value.signed else GAUGE)
    return GAUGE if isinstance(value, Int | Float | Bool | Enum) else ""


def exported_maps(spec: ScriptSpec) -> list[MapSpec]:
    """The maps that a script shows. Where its head explains what that is (COLUMNS), a map of plain values that it does
    not name is the script's own affair."""
    lines = spec.source.text.split("\n")
    head = "".join([f"{line}\n" for line in takewhile(lambda line: line[:2] == "//", lines)])
    return [named for named in spec.shown_maps
            if isinstance(named.value, Aggregate) or "// COLUMNS\n" not in head or named.name in head]


def metric_maps(spec: ScriptSpec) -> list[MapSpec]:
    """Those of them that become metrics."""
    return [named for named in exported_maps(spec) if metric_kind(named)]


def explain_emptiness(spec: ScriptSpec, name: str) -> list[str]:
    """The lines that say that a script has nothing for metrics, and what to use instead; none if it has something."""
    if metric_maps(spec):
        return []
    rows, script = bool(row_sites(spec)), name or "SCRIPT"
    return [f"WARNING: no metrics but Sonde's own: {name or 'the script'} "
            f"{'prints rows, and keeps' if rows else 'keeps'} no numbers in maps",
            f"HINT: for its rows: sonde export --otlp-logs {script}, sonde export --parquet FILE {script}, "
            f"sonde -f json {script}, sonde serve {script}"
            if rows else "HINT: count in a map: @[comm] = count();"]


def is_additive(named: MapSpec) -> bool:
    """Whether values of the map can be added up."""
    return isinstance(named.value, Aggregate) and named.value.row.total


def is_state(named: MapSpec) -> bool:
    """Whether a map counts or sums up what there is at a moment, anew each time: such a number comes in place of the
    one before. What histograms and stats() have each time are samples, which add up."""
    return named.rebuilt and isinstance(named.value, Aggregate) and named.value.kind in ("count", "sum")


def add_values(one: AggregateValue, other: AggregateValue) -> AggregateValue:
    """The sum of two values of an additive map."""
    if isinstance(one, Histogram) and isinstance(other, Histogram):
        from copy import copy
        histogram = copy(one)
        histogram.counts = [a + b for a, b in zip(one.counts, other.counts)]
        if one.value_sum is not None and other.value_sum is not None:
            histogram.value_sum = one.value_sum + other.value_sum
        return histogram
    if isinstance(one, Stats) and isinstance(other, Stats):
        count, total = one.count + other.count, one.total + other.total
        average = total / max(count, 1) if isinstance(total, float) else divide_toward_zero(total, max(count, 1))
        return Stats(count, average, total)
    assert isinstance(one, int | float) and isinstance(other, int | float)
    return one + other


class MapMetric:
    """A map as a metric, from reading to reading."""

    def __init__(self, named: MapSpec, name: str, labels: Labels, most: int) -> None:
        self.named = named
        self.name = name
        self.labels = labels
        self.kind = metric_kind(named)
        self.unit = map_unit(named)
        self.others = 0  # keys without a label set of their own: now, or when the map was last cleared
        self._most = most
        self._gone: dict[Labels, AggregateValue] = {}  # what the script has cleared
        self._gone_others = 0
        self._adds_up = is_additive(named) and not is_state(named)  # over time
        self._latest: list[Item] | None = None  # of a map whose values do not, and that is cleared
        self._label_sets: dict[Labels, None] = {}
        # The buckets that have been used. Those of times are there from the start: rate() does not see the first events
        # of a bucket that came later.
        self._low, self._high = first_buckets(named.value, self.unit)

    def note_cleared(self, items: Items) -> None:
        """Note that the script emptied or zeroed the map, which contained this."""
        if not self._adds_up:
            self._latest = list(items) or ([] if is_state(self.named) else self._latest)
            return
        values, self._gone_others = self._cap_label_sets(items)
        _add_all(self._gone, values.items())

    def make_family(self, items: Items) -> Family:
        """The current metric, given the contents of the map."""
        if self._latest is not None:
            items = self._latest
        values, others = self._cap_label_sets(items)
        self.others = max(others, self._gone_others)
        _add_all(values, self._gone.items())
        code = self.unit.code if self.unit is not None else EVENTS if self.kind == COUNTER else NUMBER
        return Family(self.name, self.kind, help_text(self.named, self.unit), self.labels, self._make_points(values),
                      code)

    def _cap_label_sets(self, items: Iterable[Item]) -> tuple[dict[Labels, AggregateValue], int]:
        """(values by label sets, how many keys count as "other" or, if values cannot be added up, are left out)."""
        sums = is_additive(self.named)
        named = [(tuple([label_text(part) for part in key_parts(key)]), value) for key, value in items
                 if isinstance(value, int | float | Stats | Histogram | Series)]
        values: dict[Labels, AggregateValue] = {}
        if sums:
            _add_all(values, named)
        else:
            values.update(named)
        if not self._adds_up:
            self._label_sets = {labels: None for labels in self._label_sets if labels in values}
        room = self._most - len(self._label_sets)
        fresh = [labels for labels in values if labels not in self._label_sets]
        if room > 0:
            fresh.sort(key=lambda labels: -_sort_weight(values[labels]))
            self._label_sets.update(dict.fromkeys(fresh[:room]))
            fresh = fresh[room:]
        rest = [values.pop(labels) for labels in fresh]
        if sums:
            other = (OTHER,) * len(self.labels)
            _add_all(values, [(other, value) for value in rest])
        return values, len(rest)

    def _make_points(self, values: dict[Labels, AggregateValue]) -> list[tuple[Labels, Point]]:
        histograms = {labels: value for labels, value in values.items() if isinstance(value, Histogram)}
        if self.kind != HISTOGRAM:
            return [(labels, _to_point(value, self.unit)) for labels, value in values.items()]
        for value in histograms.values():
            used = [i for i, count in enumerate(value.counts) if count]
            if used:
                self._low, self._high = min(self._low, used[0]), max(self._high, used[-1])
        return [(labels, self._make_buckets(value)) for labels, value in histograms.items()]

    def _make_buckets(self, value: Histogram) -> Buckets:
        """The buckets, with the same bounds for all keys, so that they can be added up; they grow with the values."""
        if self._high < 0:
            return Buckets([], [0], _to_sum(value, self.unit))
        highs = [value.bucket_at(i).high for i in range(self._low, self._high + 1)]
        bounds = [_to_base(_greatest_below(high), self.unit) for high in highs if high is not None]
        counts = value.counts[self._low:self._high + 1]
        total = None if bounds and bounds[0] < 0 else _to_sum(value, self.unit)
        return Buckets(bounds, [*counts[:len(bounds)], sum(counts[len(bounds):])], total)


def first_buckets(value: Type | None, unit: Unit | None) -> tuple[int, int]:
    """The first and the last bucket that a histogram's metric has before it has values: of lhist(), those between its
    bounds, if they are few; of times by power of two, from 1 microsecond (or 1, of coarser units) to 8 seconds."""
    if isinstance(value, Aggregate) and not value.floating:
        if value.kind == "lhist" and value.buckets <= MOST_STEPS:
            return 1, value.buckets - 2
        if value.kind == "hist" and not value.bits and unit is not None and unit.base == "seconds":
            parts = unit.parts // unit.times
            return max(parts // 10**6, 1).bit_length() + 1, (8 * parts).bit_length() + 1
    return 1 << 30, -1


def _to_sum(value: Histogram, unit: Unit | None) -> float | None:
    """The sum of the values in the base unit; None if it is not known, or not a number."""
    total = value.value_sum
    return None if total is None or total != total else _to_base(total, unit)


def _greatest_below(high: float) -> float:
    """The greatest value of a bucket that ends before ``high``."""
    return high - 1 if isinstance(high, int) else nextafter(high, float("-inf"))


def _add_all(values: dict[Labels, AggregateValue], more: Iterable[tuple[Labels, AggregateValue]]) -> None:
    """Add ``more`` to the values of an additive map."""
    for labels, value in more:
        values[labels] = add_values(values[labels], value) if labels in values else value


def label_text(part: ScriptValue) -> str:
    """A key as a label's value."""
    return str(cell_value(part))


def _sort_weight(value: AggregateValue) -> float:
    weight = value if isinstance(value, int | float) else value.total
    return weight if weight == weight else 0


def _to_base(value: float, unit: Unit | None) -> float:
    """A value in the base unit: an integer as long as nothing is divided."""
    if unit is None:
        return value
    return value * unit.times if unit.parts == 1 else value * unit.times / unit.parts


def _to_point(value: AggregateValue, unit: Unit | None) -> float | Summary:
    assert not isinstance(value, Histogram)
    if isinstance(value, Stats):
        return Summary(value.count, _to_base(value.total, unit))
    if isinstance(value, Series):
        value = next((p.value for p in reversed(value.points) if p.value is not None), 0)
    return _to_base(value if isinstance(value, float) else int(value), unit)


class Gatherer:
    """All metrics of a running script: its maps, and what was lost. Call it from one thread at a time.

    ``read(map, then)`` reads a map and clears or zeroes it.
    """

    def __init__(self, spec: ScriptSpec, read: Callable[[str, str], Items],
                 losses: Callable[[], Losses], prefix: str = "", most: int = 1000,
                 run: Callable[[], Provenance] | None = None) -> None:
        self._read = read
        self._run = run
        self._losses = losses
        self.maps: dict[str, MapMetric] = {}
        # A counter that exists only once something was lost could not be monitored.
        self._quiet = dict.fromkeys(spec.probes if len(spec.probes) <= MOST_PROBES else [], 0)
        taken = set[str]()
        # The values of these are not numbers.
        self.left_out = [named.name for named in exported_maps(spec) if not metric_kind(named)]
        for named in metric_maps(spec):
            kind, name = metric_kind(named), metric_name(prefix, named)
            ending = f"_{unit.base}" if (unit := map_unit(named)) is not None else ""
            while taken & _sample_names(name, kind):
                name = f"{name.removesuffix(ending)}_map{ending}"
            taken |= _sample_names(name, kind)
            self.maps[named.name] = MapMetric(named, name, label_names(spec.source.text, named), most)

    def read_map(self, name: str, then: str) -> Items:
        """Read a map for the script, which clears or zeroes it if ``then`` says so: nothing in it is lost."""
        items = self._read(name, then)
        if then and name in self.maps:
            self.maps[name].note_cleared(items)
        return items

    def describe_families(self) -> dict[str, Family]:
        """The metrics of the maps by their names, without values."""
        return {name: metric.make_family([]) for name, metric in self.maps.items()}

    def gather_families(self) -> list[Family]:
        """All current metrics."""
        families = [metric.make_family(self._read(name, "")) for name, metric in self.maps.items()]
        losses = self._losses()
        lost = self._quiet | dict(losses.records)
        own = [
            Family("lost_events", COUNTER, "events that found the ring full", ("probe",),
                   [((probe,), count) for probe, count in lost.items()], EVENTS),
            Family("skipped_events", COUNTER, "events for which the kernel did not run the program", ("probe",),
                   [((probe,), count) for probe, count in losses.skipped], EVENTS),
            Family("withheld_events", COUNTER, "events that were skipped since the budget was spent", ("probe",),
                   [((probe,), count) for probe, count in (losses.withheld.events if losses.withheld else [])], EVENTS),
            Family("detached_seconds", COUNTER, "for how long probes were detached since the budget was spent", (),
                   [((), losses.withheld.detached_ns / 1e9 if losses.withheld else 0)], SECONDS),
            Family("late_events", COUNTER, "events that came out of order", (), [((), losses.late)], EVENTS),
            Family("short_stacks", COUNTER, "user stacks that were not followed to their end", (),
                   [((), losses.short)], STACKS),
            Family("early_stacks", COUNTER, "Python stacks of processes that were not known yet", (),
                   [((), losses.early)], STACKS),
            Family("unreturned_calls", GAUGE, "calls that have not returned", ("function",),
                   [((name,), count) for name, count in losses.unreturned], CALLS),
            Family("unseen_mappings", COUNTER, "mappings of processes that were not seen", (),
                   [((), losses.unseen)], MAPPINGS),
            Family("shared_addresses", COUNTER, "addresses at which a process had one program after another", (),
                   [((), losses.shared)], ADDRESSES),
            Family("unplaced_events", COUNTER, "events before it was known whose control group it is", ("name",),
                   [((name,), count) for name, count in (*losses.unplaced, *losses.unnamed)], EVENTS),
            Family("strayed_processes", COUNTER, "processes of -p or -c that could not be followed", (),
                   [((), losses.strayed)], PROCESSES),
            Family("uncovered_files", COUNTER, "files that had no probes when followed processes mapped them", (),
                   [((), losses.uncovered)], FILES),
            Family("unknown_groups", COUNTER, "control groups that could not be followed", (),
                   [((), losses.unknown)], GROUPS),
            Family("failures", COUNTER, "failures in the script, by line", ("kind", "line", "message"),
                   _failure_counts(losses), FAILURES),
            Family("other_keys", GAUGE, "keys without a label set of their own", ("map",),
                   [((name,), metric.others) for name, metric in self.maps.items() if metric.labels], KEYS)]
        if self._run is not None:
            own += _run_families(self._run())
        for family in own:
            family.name = f"sonde_trace_{family.name}"
        return families + own


def _run_families(run: Provenance) -> list[Family]:
    """What identifies a run."""
    return [Family("info", GAUGE, "the run: always 1", ("command", "host", "kernel"),
                   [((run.command, run.host, run.kernel), 1)]),
            Family("start_time_seconds", GAUGE, "when it began: seconds since 1970", (),
                   [((), run.started / 1e9)], SECONDS),
            Family("traced_seconds", GAUGE, "for how long everything has been attached", (),
                   [((), run.seconds)], SECONDS)]


def _failure_counts(losses: Losses) -> list[tuple[Labels, Point]]:
    sums: dict[Labels, int] = {}
    for site, count in losses.errors:
        line = site.span.source.line_and_column(site.span.start)[0] if site.span is not None else 0
        labels = (site.kind, str(line), describe_error(site))
        sums[labels] = sums.get(labels, 0) + count
    return [*sums.items()]


def counter_sample(name: str) -> str:
    """The name of a counter's samples in Prometheus."""
    return f"{name.removesuffix('_total')}_total"


def _sample_names(name: str, kind: str) -> set[str]:
    """The names of a metric and of its samples in Prometheus: two metrics must not share one."""
    ends = {COUNTER: ["_total"], HISTOGRAM: ["_bucket", "_count", "_sum"], SUMMARY: ["_count", "_sum"]}
    stem = name.removesuffix("_total") if kind == COUNTER else name
    return {stem, *[stem + end for end in ends.get(kind, [])]}


# Where a comment names the keys of a map: in COLUMNS of the head, or in a note on the map.
_DECLARED_KEYS = r"(?m)^//   (?:@\w*\[[\w, ]*\], )*{0}\[([A-Z0-9_, ]+)\](?:,|  )|^[ \t]*// {0}\[([\w, ]+)\]: "
_RESERVED = {"le", "quantile"}  # labels that mean something else


def label_names(text: str, named: MapSpec) -> Labels:
    """The names of a map's labels: those of its keys as the script declares them (``// @sent[COMM, PORT]: bytes``, or
    so in COLUMNS), in small letters, else as it writes the keys. Each is valid in Prometheus, and there is one of
    each."""
    names = list(key_columns(named))
    for match in re.finditer(_DECLARED_KEYS.format(re.escape(named.name)), text):
        declared = [part.strip().lower() for part in (match[1] or match[2]).split(",")]
        if len(declared) == len(names) and all(declared):
            names = declared
            break
    labels: list[str] = []
    for name in names:
        label = "".join([c if c.isascii() and c.isalnum() else "_" for c in name]).lstrip("_") or "key"
        while label[0].isdigit() or label in _RESERVED or label in labels:
            label = f"_{label}" if label[0].isdigit() else f"{label}_"
        labels.append(label)
    return tuple(labels)


def help_text(named: MapSpec, unit: Unit | None) -> str:
    """What the script says of a map, in the unit of its metric; else which map it is."""
    if not named.about:
        return f"map {named.name}" + (f", in {unit.base}" if unit is not None else "")
    return in_base_unit(named.about, unit) if unit is not None else named.about


def metric_name(prefix: str, named: MapSpec) -> str:
    """``sonde_tcplife_bytes`` of map ``@bytes`` of tcplife.bt, ``sonde_runqlat_seconds`` of ``@usecs`` of runqlat.bt.
    It follows from the prefix, the map's name and its unit alone."""
    stem = "".join([c if c.isascii() and c.isalnum() else "_" for c in prefix])
    unit, own = map_unit(named), named.name.removeprefix("@")
    if unit is not None:
        own = bare_name(own) if named_unit(named.name) is not None else own
        if metric_kind(named) == COUNTER and own.split("_")[-1] == "total":
            own = own.removesuffix("total").rstrip("_")  # a counter's samples have it at their end
        own = f"{own}_{unit.base}" if own else unit.base
    name = "_".join(part for part in ("sonde", stem, own) if part)
    return name if name != "sonde" and not name.startswith("sonde_trace_") else f"{name}_map"
