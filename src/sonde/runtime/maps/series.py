"""What tseries() collected: values by interval of time, merged over the CPUs and drawn as bpftrace does."""

from __future__ import annotations

from ...base.record import Value
from ...base.words import MASK, divide_toward_zero, read_word
from ...types import AGGREGATES, Aggregate
from .aggregates import Drawing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WIDTH = 52  # places between the least and the greatest value
SECOND = 1_000_000_000
LAST = 1 << 62  # ns: the year 2116
_WORDS = 3  # stamp (epoch + 1; 0: nothing is there), value, extra


class Point(Value):
    """One interval: ``start`` in nanoseconds since 1970 (UTC), ``value`` None where nothing was recorded."""

    start: int
    value: int | None


class Series(Drawing):
    """Values over time; iterates over its points, from the first interval that has a value to the last.

    ``wall`` is added to TAI nanoseconds to get Unix time: whole seconds.
    """

    kind = "tseries"

    def __init__(self, interval: int, values: dict[int, int], wall: int = 0) -> None:
        self.interval = interval
        self.values = values  # by epoch: TAI nanoseconds / interval
        self.wall = wall

    @property
    def total(self) -> int:
        """How many intervals have a value."""
        return len(self.values)

    @property
    def points(self) -> list[Point]:
        """Every interval between the first and the last that have values."""
        if not self.values:
            return []
        epochs = range(min(self.values), max(self.values) + 1)
        return [Point(epoch * self.interval + self.wall, self.values.get(epoch)) for epoch in epochs]

    def __iter__(self) -> Iterator[Point]:
        return iter(self.points)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Series) and other.__dict__ == self.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Series of {len(self.values)}>"

    @property
    def digits(self) -> int:
        """Digits after the second that are shown: 0, 3, 6 or 9, by the interval; 9 where there is one point only."""
        return next((d for d in (0, 3, 6) if self.interval >= 10 ** (9 - d) and len(self.values) > 1), 9)

    def format_time(self, start: int) -> str:
        """The local time of day of a point."""
        import time
        seconds, rest = _split_moment(start)
        fraction = f".{rest:09}"[:1 + self.digits] if self.digits else ""
        return time.strftime("%H:%M:%S", time.localtime(seconds)) + fraction

    def format_date(self, start: int) -> str:
        """Date and time (UTC) of a point, to the nanosecond."""
        import time
        seconds, rest = _split_moment(start)
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds)) + f".{rest:09}"

    def draw(self, div: int = 1) -> str:
        """The rows between their scales, each with its line end."""
        points = self.points
        known = [p.value for p in points if p.value is not None]
        if not known:
            return "<no data>"
        low, high = min(known), max(known)
        if low == high:
            low, high = low - 1, high + 1
        column = 8 + (1 + self.digits if self.digits else 0)
        scale = f"{'':{column}} {low}{high:>{WIDTH + 1 - len(str(low))}}\n"
        unit = {0: "", 3: ".ms", 6: ".μs", 9: ".ns"}[self.digits]
        head = f"{'hh:mm:ss' + unit:<{column - (self.digits == 6)}} |{'_' * (WIDTH - 1)}|\n"  # bpftrace counts μ as two
        rows = [f"{self.format_time(p.start):<{column}} {_draw_row(p.value, low, high)}\n" for p in points]
        return scale + head + "".join(rows) + f"{'':{column}} v{'_' * (WIDTH - 1)}v\n" + scale

    def __str__(self) -> str:
        return self.draw()


def _split_moment(start: int) -> tuple[int, int]:
    """Seconds and nanoseconds of what may come from another host, and then be no time of any calendar."""
    return divmod(min(max(start, 0), LAST), SECOND)


def _draw_row(value: int | None, low: int, high: int) -> str:
    """The place of a value between the bounds; a dot marks zero where values lie on both sides of it."""
    cells = ["|", *" " * (WIDTH - 1), "|"]
    if low < 0 < high:
        cells[_cell_index(0, low, high)] = "."
    if value is not None:
        cells[_cell_index(value, low, high)] = "*"
    return f"{''.join(cells)} {'-' if value is None else value}"


def _cell_index(value: int, low: int, high: int) -> int:
    return (value - low) * WIDTH // (high - low)


def merge_series(aggregate: Aggregate, states: list[list[int]]) -> tuple[int, ...]:
    """Merge one element's per-CPU rings: the latest epoch at each place wins; what shares it is combined."""
    merged = states[0]
    for state in states[1:]:
        for at in range(0, aggregate.words, _WORDS):
            theirs = state[at:at + _WORDS]
            if theirs[0] > merged[at]:
                merged[at:at + _WORDS] = theirs
            elif theirs[0] and theirs[0] == merged[at]:
                merged[at + 1:at + _WORDS] = _combine_values(aggregate, merged[at + 1:at + _WORDS], theirs[1:])
    return tuple(merged)


def _combine_values(aggregate: Aggregate, ours: Sequence[int], theirs: Sequence[int]) -> Sequence[int]:
    """(value, extra) of one interval from two CPUs."""
    merges = AGGREGATES[aggregate.agg].merges if aggregate.agg else ""
    if merges == "add":
        return [(ours[0] + theirs[0]) & MASK, ours[1] + theirs[1] if aggregate.agg == "avg" else 0]
    if not merges:
        return ours if ours[1] >= theirs[1] else theirs
    first = read_word(ours[0], aggregate.signed) <= read_word(theirs[0], aggregate.signed)
    return ours if first == (merges == "least") else theirs


def make_series(aggregate: Aggregate, words: Sequence[int]) -> Series:
    """The series of merged words. What is older than the newest interval by a whole ring is over."""
    newest = max(words[::_WORDS], default=0) - 1
    values: dict[int, int] = {}
    for at in range(0, len(words), _WORDS):
        stamp, value, extra = words[at:at + _WORDS]
        epoch = stamp - 1
        if stamp and epoch > newest - aggregate.high:
            number = read_word(value, aggregate.signed)
            values[epoch] = divide_toward_zero(number, extra) if aggregate.agg == "avg" and extra else number
    return Series(aggregate.low, values)
