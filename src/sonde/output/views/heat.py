"""Histograms over time, from which the heat maps in the terminal, SVG and HTML are drawn."""

from __future__ import annotations

from copy import copy

from ...base.memory_budget import Memory
from ...base.record import Record
from ...runtime.maps.aggregates import Bucket, Histogram, quantile
from ...runtime.maps.series import Series
from ...runtime.records.values import Items, ScriptValue, key_text
from ...spec import MapSpec, ScriptSpec
from ...types import Aggregate
from ..text import element_label
from ..units import is_time, scale_value
from .view import is_printed, text_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


MOST_MAPS = 12  # of one map with keys, those with most values
MOST_SERIES = 40  # keys of a map of tseries(), those with the greatest values


QUANTILES = (0.5, 0.9, 0.99)


class HeatColumn(Record):
    """What was counted until ``time`` (nanoseconds since 1970), by row of the heat map; of a series the values of the
    interval that began then."""

    time: int
    counts: Sequence[int | None]


class Heat(Record):
    """One heat map: ``rows`` are ranges of values, least first, or the keys of a tseries(); the buckets' own counts
    mean nothing. Cells are counts, or with ``series`` the values of the tseries(), None where there is none."""

    name: str
    rows: list[Bucket] | list[str]
    columns: list[HeatColumn]
    series: bool = False
    symbol: str = ""  # of the unit of the values

    @property
    def greatest_count(self) -> int:
        """The greatest count of all cells."""
        return max(self._known_counts, default=0)

    @property
    def scale_floor(self) -> int:
        """From where the colours count: 0, or the least value if that is below."""
        return min(0, *self._known_counts, 0)

    @property
    def _known_counts(self) -> list[int]:
        return [count for column in self.columns for count in column.counts if count is not None]

    @property
    def row_totals(self) -> list[int]:
        """The counts of each row over the whole time; of a series the greatest value of each."""
        rows = [[column.counts[row] or 0 for column in self.columns] for row in range(len(self.rows))]
        return [max(row) if self.series else sum(row) for row in rows]

    @property
    def title(self) -> str:
        """The name with the unit."""
        return f"{self.name} ({self.symbol})" if self.symbol else self.name

    def say_cell(self, count: int | None) -> str:
        """What is in a cell: a count, or of a series a value with its unit."""
        return "none" if count is None else scale_value(count, self.symbol if self.series else "")

    @property
    def scale_ends(self) -> tuple[str, str]:
        """What the palest and the strongest colour stand for."""
        return self.say_cell(self.scale_floor if self.series else 1), self.say_cell(self.greatest_count)

    def percentiles(self, counts: Sequence[int | None]) -> str:
        """Those of a column's counts, or of all; "" of a series, which has none."""
        if self.series:
            return ""
        return percentiles(self.symbol, [Bucket(row.low, row.high, count or 0) for row, count in zip(self.rows, counts)
                                       if isinstance(row, Bucket)])

    @property
    def row_labels(self) -> list[str]:
        """What stands beside each row."""
        return [row if isinstance(row, str) else bucket_label(row, self.symbol) if is_time(self.symbol)
                else bucket_range(row) for row in self.rows]

    @property
    def row_spans(self) -> list[str]:
        """The rows as they are explained: ranges with their unit."""
        return [row if isinstance(row, str) else bucket_label(row, self.symbol) for row in self.rows]

    def colour_depth(self, count: int | None, levels: int) -> int:
        """The colour of a cell: 0 for nothing, else 1 .. levels."""
        if count is None or not count and not self.series:
            return 0
        lowest = self.scale_floor
        return max(1, colour_level(count - lowest, self.greatest_count - lowest, levels))


def percentiles(symbol: str, buckets: list[Bucket]) -> str:
    """``p50 3 µs, p90 12 µs, p99 1.5 ms`` of buckets of values in a unit; "" if they are empty."""
    floats = any(isinstance(bucket.high, float) for bucket in buckets)
    return ", ".join([f"p{100 * q:g} {f'{value:.3g}' if floats else scale_value(round(value), symbol)}"
                      for q in QUANTILES if (value := quantile(buckets, q)) is not None])


def is_histogram(named: MapSpec) -> bool:
    """A map of hist() or lhist()."""
    return isinstance(named.value, Aggregate) and named.value.row.buckets


def is_series(named: MapSpec) -> bool:
    """A map of tseries()."""
    return isinstance(named.value, Aggregate) and named.value.kind == "tseries"


def shows_heat(named: MapSpec, spec: ScriptSpec) -> bool:
    """A map of histograms that the script prints while it runs."""
    return is_histogram(named) and is_printed(named, spec)


_CELL = 250    # bytes of a histogram, without its counts and the texts in its key
LEFT_OUT = "[left out: --memory]"  # the key of all for which there was no room
_FEWEST = 16   # columns that are kept whatever they take


class HeatCollector:
    """Collects what the script prints of one map of histograms.

    Printing that takes the contents away gives a column; printing that leaves them there, the difference to the
    contents before.
    """

    def __init__(self, name: str, memory: int = Memory().views, symbol: str = "") -> None:
        self.name = name
        self._symbol = symbol
        self._memory = memory  # bytes: beyond it neighbouring columns become one
        self._bytes = 0
        self._room = memory
        self._keys: set[ScriptValue] = set()
        self._columns: list[tuple[int, dict[ScriptValue, Histogram]]] = []
        self._before: dict[ScriptValue, Histogram] = {}

    def add_items(self, items: Items, wall: int, then: str) -> None:
        """The map's contents at ``wall``; see View.map."""
        now = {key: value for key, value in items if isinstance(value, Histogram)}
        gained = {key: _subtract_counts(value, self._before[key]) if key in self._before else value
                  for key, value in now.items()}
        self._before = {} if then in ("clear", "zero") else now
        gained = self._admit(gained)
        if then != "final" or any(value.total for value in gained.values()):
            self._columns.append((wall, gained))
            self._bytes += _bytes_of(gained)
            while self._bytes > self._memory and len(self._columns) > _FEWEST:
                self._halve_columns()

    def _admit(self, gained: dict[ScriptValue, Histogram]) -> dict[ScriptValue, Histogram]:
        """The same, with the keys that there is no room for under one key. Each admitted key has room in _FEWEST
        columns."""
        admitted: dict[ScriptValue, Histogram] = {}
        for key, value in gained.items():
            if key not in self._keys:
                size = _FEWEST * _bytes_of({key: value})
                if size > self._room:
                    key = LEFT_OUT
                else:
                    self._room -= size
                    self._keys.add(key)
            admitted[key] = _add_counts(admitted[key], value) if key in admitted else value
        return admitted

    def _halve_columns(self) -> None:
        """Merge columns in pairs: only detail of time is lost."""
        merged = []
        for at in range(0, len(self._columns), 2):
            wall, both = self._columns[at]
            for later, histograms in self._columns[at + 1:at + 2]:
                wall = later
                both = both | {key: _add_counts(both[key], value) if key in both else value
                               for key, value in histograms.items()}
            merged.append((wall, both))
        self._columns = merged
        self._bytes = sum([_bytes_of(histograms) for _, histograms in merged])

    def on_map_cleared(self) -> None:
        """The map has been emptied."""
        self._before = {}

    @property
    def title(self) -> str:
        """The map's name with its unit."""
        return f"{self.name} ({self._symbol})" if self._symbol else self.name

    @property
    def heats(self) -> list[Heat]:
        """A heat map for each key, the one with most values first."""
        sums: dict[ScriptValue, Histogram] = {}
        for _, histograms in self._columns:
            for key, value in histograms.items():
                sums[key] = _add_counts(sums[key], value) if key in sums else value
        keys = sorted(sums, key=lambda key: -sums[key].total)
        return [self._build_heat(key, sums[key]) for key in keys if sums[key].total]

    def _build_heat(self, key: ScriptValue, total: Histogram) -> Heat:
        rows = total.buckets
        first = next(i for i, count in enumerate(total.counts) if count)
        used = slice(first, first + len(rows))
        empty = [0] * len(rows)
        columns = [HeatColumn(wall, histograms[key].counts[used] if key in histograms else empty)
                   for wall, histograms in self._columns]
        return Heat(element_label(self.name, key).replace("\n", " "), rows, columns, symbol=self._symbol)


def _bytes_of(column: dict[ScriptValue, Histogram]) -> int:
    return sum([_CELL + text_bytes(key) + 8 * len(value.counts) for key, value in column.items()])


def _with_counts(histogram: Histogram, counts: list[int]) -> Histogram:
    changed = copy(histogram)
    changed.counts = counts
    return changed


def _add_counts(one: Histogram, other: Histogram) -> Histogram:
    return _with_counts(one, [a + b for a, b in zip(one.counts, other.counts)])


def _subtract_counts(now: Histogram, before: Histogram) -> Histogram:
    """What was gained; a map that has been emptied in between starts again."""
    gained = [a - b for a, b in zip(now.counts, before.counts)]
    return now if min(gained, default=0) < 0 else _with_counts(now, gained)


def series_heat(name: str, items: Items) -> Heat | None:
    """A map of tseries(): a row for each key, those with the greatest values on top; None if nothing was recorded."""
    series = [(key, value) for key, value in items if isinstance(value, Series) and value.total]
    if not series:
        return None
    series.sort(key=lambda item: max(item[1].values.values(), key=abs))
    series = series[-MOST_SERIES:]
    values = [{point.start: point.value for point in value} for _, value in series]
    interval = series[0][1].interval
    starts = range(min(map(min, values)), max(map(max, values)) + 1, interval)
    columns = [HeatColumn(start, [row.get(start) for row in values]) for start in starts]
    labels = ["value" if key is None else key_text(key).replace("\n", " ") for key, _ in series]
    return Heat(name, labels, columns, True)


def squeeze_columns(heat: Heat, most: int) -> Heat:
    """The same with at most so many columns: neighbours are added up; of a series the greatest is taken."""
    step = -(-len(heat.columns) // most)
    if step <= 1:
        return heat
    groups = [heat.columns[at:at + step] for at in range(0, len(heat.columns), step)]
    join = _greatest_known if heat.series else _sum_known
    columns = [HeatColumn(group[-1].time,
                          [join([column.counts[row] for column in group]) for row in range(len(heat.rows))])
               for group in groups]
    return Heat(heat.name, heat.rows, columns, heat.series, heat.symbol)


def _sum_known(values: list[int | None]) -> int:
    return sum([value or 0 for value in values])


def _greatest_known(values: list[int | None]) -> int | None:
    return max([value for value in values if value is not None], default=None)


def latest_columns(heat: Heat, most: int) -> Heat:
    """The same with at most so many columns: the last ones."""
    return Heat(heat.name, heat.rows, heat.columns[-most:], heat.series, heat.symbol)


def colour_level(count: int, most: int, levels: int) -> int:
    """0 for nothing, else 1 .. levels: by the square root, that small counts can be told from none."""
    return max(1, min(levels, round(levels * (count / most) ** 0.5))) if count > 0 else 0


def bucket_bound(value: int) -> str:
    """A bound of a bucket, with a suffix of 1024 where that is exact."""
    size, suffix = value, ""
    for each in "KMGTPE":
        if not size or size % 1024:
            break
        size, suffix = size // 1024, each
    return f"{size}{suffix}"


def bucket_range(row: Bucket) -> str:
    """A row's range of values."""
    if isinstance(row.low, float) or isinstance(row.high, float) or row.low is row.high is None:
        from ...runtime.maps.float_aggregates import format_range
        return format_range(row.low, row.high)
    if row.low is None:
        return f"(..., {bucket_bound(row.high or 0)})"
    if row.high is None:
        return f"[{bucket_bound(row.low)}, ...)"
    return f"[{bucket_bound(row.low)}]" if row.high - row.low == 1 \
        else f"[{bucket_bound(row.low)}, {bucket_bound(row.high)})"


def bucket_label(row: Bucket, symbol: str) -> str:
    """A row's range with the unit; times in the one that suits them: ``[524 µs, 1.05 ms)`` of [512K, 1M) ns. Bytes come
    in powers of two, which the plain range has: ``[4K, 8K) B``."""
    if not is_time(symbol):
        return f"{bucket_range(row)} {symbol}".rstrip()
    low, high = ["..." if bound is None else scale_value(bound, symbol) for bound in (row.low, row.high)]
    if row.low is None:
        return f"(..., {high})"
    return f"[{low}]" if row.high is not None and row.high - row.low == 1 else f"[{low}, {high})"


def local_time(wall: int) -> str:
    """The local time of day."""
    import time
    return time.strftime("%H:%M:%S", time.localtime(wall // 1_000_000_000))
