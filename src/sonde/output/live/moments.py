"""What the charts of a page show: of each look at a map the values of its greatest keys, and what each range of their
histograms gained since the look before; of time series the intervals that have ended."""

from __future__ import annotations

from collections import deque
from heapq import nlargest

from ...base.record import Record
from ...runtime.maps.aggregates import Histogram
from ...runtime.maps.series import SECOND, Series
from ...runtime.records.values import ScriptValue
from ..text import element_label, terminal_safe
from ..views.csv import utf8

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...runtime.records.values import Item
    Range = tuple[int | float | None, int | float | None]
    Values = Mapping[ScriptValue, int | float | None]
    Gains = tuple[tuple[int | float | None, int | float | None, int], ...]

MOST_CHARTED = 24    # keys of a map at a look: those with the greatest values, and as many that were among them
MOST_HEATS = 8       # of them, whose histograms are followed
MOST_RANGES = 64     # of a histogram: of one with more, only those that gained
MOST_WAITING = 240  # looks, or intervals, that nobody has taken
SHORTEST = SECOND // 20  # ns: of the intervals that are drawn


class Point(Record):
    """A key's ``value`` at a look; ``gains`` are (low, high, count) of its histogram."""

    id: str
    value: int | float
    gains: tuple[tuple[int | float | None, int | float | None, int], ...] = ()


class Moment(Record):
    """A look: ``time`` in seconds since the start, and the keys that had a value."""

    time: float
    points: tuple[Point, ...]


class Moments:
    """Those of a map that have not been taken yet."""

    def __init__(self) -> None:
        self._waiting: deque[Moment] = deque(maxlen=MOST_WAITING)
        self._before: dict[ScriptValue, dict[Range, int]] = {}
        self._charted: set[ScriptValue] = set()
        self._looked = 0  # when the look before was, in nanoseconds since 1970
        self._ended = 0   # when the last interval ended that was added

    def add_look(self, time: float, items: Sequence[Item], weights: Values, values: Values,
                 known: Mapping[ScriptValue, object] | None) -> None:
        """``values`` are drawn of the keys with the greatest ``weights``; ``known`` are those of the look before: None
        if there was none, empty if the contents are what came since."""
        contents = dict(items)
        totals = {key: weight for key, weight in weights.items() if weight is not None}
        greatest = nlargest(MOST_CHARTED, totals, key=totals.__getitem__)
        greatest = nlargest(2 * MOST_CHARTED, {*greatest, *(self._charted & totals.keys())}, key=totals.__getitem__)
        self._charted = {*greatest}  # goes on while it lasts, so that lines have no holes where keys change places
        heated = [key for key in greatest if isinstance(contents[key], Histogram)][:MOST_HEATS]
        gains = {key: self._gains_of(key, contents[key], known) for key in heated}
        self._before = {key: self._before[key] for key in heated}
        self._waiting.append(Moment(time, tuple([
            Point(terminal_safe(utf8(element_label("", key))), value, gains.get(key, ()))
            for key in greatest if (value := values.get(key)) is not None])))

    def add_intervals(self, time: float, now: int, items: Sequence[Item]) -> None:
        """What tseries() collected in the intervals that had ended at the look before, which ``items``, read since,
        have whole; of the keys with the greatest values. ``now`` is the ``time`` of the look in nanoseconds since 1970.
        """
        series = {key: value for key, value in items
                  if isinstance(value, Series) and value.values and value.interval >= SHORTEST}
        ended: dict[int, list[Point]] = {}
        for key in nlargest(MOST_CHARTED, series, key=lambda key: max(series[key].values.values())):
            for epoch, value in series[key].values.items():
                end = (epoch + 1) * series[key].interval + series[key].wall
                if self._ended < end <= self._looked:
                    ended.setdefault(end, []).append(Point(terminal_safe(utf8(element_label("", key))), value))
        for end in sorted(ended):
            self._waiting.append(Moment(time - (now - end) / SECOND, tuple(ended[end])))
            self._ended = end
        self._looked = now

    def _gains_of(self, key: ScriptValue, value: ScriptValue, known: Mapping[ScriptValue, object] | None) -> Gains:
        """What each range of a histogram gained; one that has less than before began again from 0. Of one that is not
        followed yet nothing says when its contents came, unless it is new."""
        counts = {(bucket.low, bucket.high): bucket.count for bucket in value} if isinstance(value, Histogram) else {}
        before = self._before.get(key) if known is None or key in known else {}
        self._before[key] = counts
        if before is None:
            return ()
        if any(counts.get(bounds, 0) < count for bounds, count in before.items()):
            before = {}
        few = len(counts) <= MOST_RANGES
        return tuple([(low, high, gain) for (low, high), count in counts.items()
                      if ((gain := count - before.get((low, high), 0)) or few) and (low, high) != (None, None)])

    def forget(self) -> None:
        """There were too many keys to follow."""
        self._before, self._charted = {}, set()

    def take(self) -> tuple[Moment, ...]:
        """Those that came since this was called last, which are not given again."""
        taken = tuple(self._waiting)
        self._waiting.clear()
        return taken
