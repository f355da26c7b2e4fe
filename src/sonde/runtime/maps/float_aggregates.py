"""What the map value functions collected of floating-point numbers; the words are those of types.Aggregate."""

from __future__ import annotations

from struct import pack, unpack

from ...base.words import to_signed
from ...types import FLOAT_LOW, FLOAT_SUM, Aggregate
from .aggregates import Histogram, LinearHistogram, Stats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_LEAST = 5e-324  # the least number above 0


def float_histogram(type: Aggregate, counts: Sequence[int]) -> Histogram:
    """The histogram of its buckets."""
    if type.kind == "hist":
        return FloatHistogram(counts, type.bits)
    return FloatLinearHistogram(counts, type.low, type.high, type.step, type.units)


def float_aggregate(type: Aggregate, words: Sequence[int]) -> float | Stats:
    """The value of the words of other aggregates. A min() or max() that was never set is 0."""
    if type.kind in ("min", "max"):
        return float_of_key(to_signed(words[0])) if words[1] else 0.0
    if type.kind == "sum":
        return read_sum(words)
    count, limbs = words[0], words[-FLOAT_SUM:]
    average = read_sum(limbs, count) if count else 0.0
    return average if type.kind == "avg" else Stats(count, average, read_sum(limbs))


def float_of_key(key: int) -> float:
    """The number of a key; see compiler/lower/floats.py."""
    magnitude: float = unpack("=d", pack("=Q", abs(key)))[0]
    return magnitude if key >= 0 or magnitude != magnitude else -magnitude


def read_sum(words: Sequence[int], parts: int = 1) -> float:
    """The double nearest to a part of a sum."""
    nans, above, below, *limbs = words
    if nans or above and below:
        return float("nan")
    if above or below:
        return float("inf" if above else "-inf")
    total = sum([to_signed(limb) << 32 * index for index, limb in enumerate(limbs)])
    return total / (parts << 64)


class _FloatBounds(Histogram):
    """What histograms of floating-point numbers have in common."""

    holds_floats = True

    def _label_width(self, labels: Sequence[str]) -> int:
        return max([16, *[len(label) + 1 for label in labels]])

    def _format_label(self, index: int) -> str:
        return format_range(*self._bucket_bounds(index))


class FloatHistogram(_FloatBounds):
    """Counts of floating-point numbers by power of two, below 1 too. Its last bucket, of NaNs, has no bounds."""

    def _used_range(self) -> list[int]:
        return _without_gaps(self.counts, 3)

    def _bucket_bounds(self, index: int) -> tuple[int | float | None, int | float | None]:
        last = len(self.counts) - 1
        if index in (0, last):
            return None, None if index else 0.0
        low = 0.0 if index == 1 else _LEAST if index == 2 else self._power(index - 3)
        return low, None if index == last - 1 else _LEAST if index == 1 else self._power(index - 2)

    def _power(self, step: int) -> float:
        """The lower bound of a bucket."""
        whole, part = divmod(step, 1 << self.bits)
        return float((1 << self.bits) + part) * 2.0 ** (FLOAT_LOW - self.bits + whole)

    def _format_label(self, index: int) -> str:
        return "[0]" if index == 1 else super()._format_label(index)


class FloatLinearHistogram(_FloatBounds, LinearHistogram):
    """Counts of floating-point numbers in steps; the bounds are in units of 1 / ``units``. Its last bucket, of NaNs,
    has no bounds."""

    def __init__(self, counts: Sequence[int], low: int, high: int, step: int, units: int = 1) -> None:
        super().__init__(counts, low, high, step)
        self.units = units

    def _used_range(self) -> list[int]:
        return _without_gaps(self.counts)

    def _bucket_bounds(self, index: int) -> tuple[int | float | None, int | float | None]:
        last = len(self.counts) - 1
        if index == last:
            return None, None
        start = self.low + (index - 1) * self.step
        return (None if index == 0 else start / self.units,
                None if index == last - 1 else (start + self.step) / self.units)


def _without_gaps(counts: Sequence[int], apart: int = 0) -> list[int]:
    """From the first bucket in use to the last; of those ``apart`` at the beginning, and that of the NaNs, only what is
    in use."""
    last = len(counts) - 1
    filled = [index for index in range(apart, last) if counts[index]]
    return [*[index for index in range(apart) if counts[index]],
            *(range(filled[0], filled[-1] + 1) if filled else ()), *([last] if counts[last] else ())]


def format_range(low: float | None, high: float | None) -> str:
    """``[0.25, 0.5)``, ``[nan]``."""
    if low is None and high is None:
        return "[nan]"
    if low is None:
        return f"(..., {format_bound(high or 0.0)})"
    start = "(0" if low == _LEAST else f"[{format_bound(low)}"
    return f"{start}, {format_bound(high)})" if high is not None else f"{start}, ...)"


_MANY = 7  # digits


def format_bound(bound: float) -> str:
    """A bound, with a suffix of 1024 where that is whole."""
    suffix = ""
    for each in "KMGTPE":
        if not bound or bound % 1024:
            break
        bound, suffix = bound / 1024, each
    return f"{bound:.{_MANY}g}{suffix}"
