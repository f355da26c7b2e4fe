"""What the map value functions collected, as Python values that print themselves as bpftrace does.

``aggregate_value`` turns the words of an Aggregate (types.py), summed over the CPUs, into an int (count, sum,
min, max, avg), a ``Stats``, a ``Histogram``, a ``LinearHistogram`` or a ``Series``.
"""

from __future__ import annotations

from struct import pack, unpack

from ...base.record import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BAR = 52  # characters of the longest bar


class Bucket(Value):
    """Values from ``low`` (None: from the beginning) up to, not including, ``high`` (None: without end); with neither,
    NaNs. The bounds are integers where the values are."""

    low: int | float | None
    high: int | float | None
    count: int


class Stats(Value):
    """What stats() collected: integers, or of floating-point numbers a float for average and total."""

    count: int
    average: int | float
    total: int | float

    def __str__(self) -> str:
        return f"{{ .count = {self.count}, .average = {self.average}, .total = {self.total} }}"


class Drawing:
    """A value of several lines; ``kind`` is the type of its JSON objects."""

    kind = ""

    @property
    def total(self) -> int:
        """How much was collected; 0 if nothing was."""
        raise NotImplementedError

    def draw(self, div: int = 1) -> str:
        """The rows, each with its line end; counts divided by ``div`` as print() can ask for."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        """The drawing, for notebooks; it has no markup in it."""
        return f"<pre>{self.draw()}</pre>"


class Histogram(Drawing):
    """Counts by power of two, each power cut into ``2**bits`` buckets; iterates over the buckets in use.

    ``counts`` has every bucket: negative values first, then upwards (the layout of types.Aggregate).
    """

    kind = "hist"
    divides = True  # its counts, by print()'s divisor
    holds_floats = False  # it counts floating-point numbers
    value_sum: int | float | None = None  # of the values, where the map has it (Options.sums)

    def __init__(self, counts: Sequence[int], bits: int = 0) -> None:
        self.counts = list(counts)
        self.bits = bits

    @property
    def total(self) -> int:
        """How many values were counted."""
        return sum(self.counts)

    @property
    def buckets(self) -> list[Bucket]:
        """From the first bucket that is not empty to the last."""
        return [Bucket(*self._bucket_bounds(i), self.counts[i]) for i in self._used_range()]

    def bucket_at(self, index: int) -> Bucket:
        """The bucket of ``counts[index]``."""
        return Bucket(*self._bucket_bounds(index), self.counts[index])

    def __iter__(self) -> Iterator[Bucket]:
        return iter(self.buckets)

    def _used_range(self) -> Sequence[int]:
        filled = [i for i, count in enumerate(self.counts) if count]
        return range(filled[0], filled[-1] + 1) if filled else range(0)

    def _bucket_bounds(self, index: int) -> tuple[int | float | None, int | float | None]:
        if index == 0:
            return None, 0
        return self._bucket_low(index - 1), self._bucket_low(index)

    def _bucket_low(self, step: int) -> int:
        """Least value of the bucket that is ``step`` places above the one of zero."""
        if step < 2 << self.bits:
            return step
        return _bucket_mantissa(step, self.bits) << (step >> self.bits) - 1

    def _format_label(self, index: int) -> str:
        if index == 0:
            return "(..., 0)"
        if index <= 2 << self.bits:
            return f"[{index - 1}]"
        return f"[{self._format_bound(index - 1)}, {self._format_bound(index)})"

    def _format_bound(self, step: int) -> str:
        """A bound with the largest suffix of 1024 that keeps it exact for all bounds of its power."""
        if step < 2 << self.bits:
            return str(step)
        shift = (step >> self.bits) - 1
        return f"{_bucket_mantissa(step, self.bits) << shift % 10}{'KMGTPE'[shift // 10 - 1] if shift >= 10 else ''}"

    def quantile(self, q: float) -> float | None:
        """The value that a share ``q`` (0..1) of all lie below, by straight lines within buckets; None if empty."""
        return quantile(self.buckets, q)

    def draw(self, div: int = 1) -> str:
        """The rows, each with its line end; counts divided by ``div`` as print() can ask for."""
        div = div if self.divides else 1
        shown = [(self._format_label(i), self.counts[i] // div) for i in self._used_range()]
        most, wide = max([count for _, count in shown], default=0), self._label_width([label for label, _ in shown])
        return "".join([f"{label:<{wide}}{count:>8} |{'@' * _bar_length(count, most):<{BAR}}|\n"
                        for label, count in shown])

    def _label_width(self, labels: Sequence[str]) -> int:
        """The characters that a row begins with, as in bpftrace."""
        return 16

    def __str__(self) -> str:
        return self.draw()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.total}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Histogram) and other.__dict__ == self.__dict__

    __hash__ = None  # type: ignore[assignment]


class LinearHistogram(Histogram):
    """Counts in steps from ``low`` up to ``high``, with what lies outside at both ends."""

    divides = False  # as in bpftrace

    def __init__(self, counts: Sequence[int], low: int, high: int, step: int) -> None:
        super().__init__(counts)
        self.low, self.high, self.step = low, high, step

    def _bucket_bounds(self, index: int) -> tuple[int | float | None, int | float | None]:
        if index == 0:
            return None, self.low
        if index == len(self.counts) - 1:
            return self.high, None
        start = self.low + (index - 1) * self.step
        return start, start + self.step

    def _format_label(self, index: int) -> str:
        low, high = self._bucket_bounds(index)
        if low is None or high is None:
            return f"(..., {self._format_limit(self.low)})" if low is None \
                else f"[{self._format_limit(self.high)}, ...)"
        return f"[{self._format_limit(low)}" + (f", {self._format_limit(high)})" if self.step > 1 else "]")

    def _format_limit(self, bound: float) -> str:
        number = int(bound)
        if self.step % 1024 or not number or number % 1024:
            return str(number)
        return f"{number >> 20}M" if number % (1 << 20) == 0 else f"{number >> 10}K"


def _bucket_mantissa(step: int, bits: int) -> int:
    return (1 << bits) + (step & (1 << bits) - 1)


def _bar_length(count: int, most: int) -> int:
    """Length of a bar, in the single precision that bpftrace computes it in (1/52 of 52 may then be 0)."""
    if not most:
        return 0
    ratio = _round_to_single(_round_to_single(count) / _round_to_single(most))
    return int(_round_to_single(ratio * BAR))


def _round_to_single(number: float) -> float:
    single: float = unpack("f", pack("f", number))[0]
    return single


def quantile(buckets: Sequence[Bucket], q: float) -> float | None:
    rank = q * sum(b.count for b in buckets)
    for bucket in buckets:
        if bucket.count and rank <= bucket.count:
            if bucket.low is None or bucket.high is None:
                return bucket.high if bucket.low is None else bucket.low
            return bucket.low + (bucket.high - bucket.low) * rank / bucket.count
        rank -= bucket.count
    return None
