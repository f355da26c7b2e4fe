"""From the words of an aggregate to its value."""

from __future__ import annotations

from ...base.words import divide_toward_zero, read_word
from ...types import Aggregate
from .aggregates import Histogram, LinearHistogram, Stats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from .series import Series

AggregateValue: TypeAlias = "int | float | Stats | Histogram | Series"


def aggregate_value(type: Aggregate, words: Sequence[int], signed: bool | None = None) -> AggregateValue:
    """The value of an aggregate's words, which are merged over the CPUs; sums may be given modulo 2**64.

    ``signed`` overrides the type's own. A min() or max() that was never set is 0, as bpftrace prints it.
    """
    signed = type.signed if signed is None else signed
    kind = type.kind
    if type.row.buckets:
        return _histogram(type, words)
    if type.floating:
        from .float_aggregates import float_aggregate
        return float_aggregate(type, words)
    if kind == "tseries":
        from .series import make_series
        return make_series(type, words)
    if kind == "count":
        return words[0]
    if kind == "sum":
        return read_word(words[0], signed)
    if kind in ("min", "max"):
        return read_word(words[0], signed) if words[1] else 0
    count, total = words[0], read_word(words[1], signed)
    average = divide_toward_zero(total, count) if count else 0
    return average if kind == "avg" else Stats(count, average, total)


def _histogram(type: Aggregate, words: Sequence[int]) -> AggregateValue:
    """The histogram of buckets, and the sum that may follow them."""
    counts, total = words[:type.buckets], words[type.buckets:]
    if type.floating:
        from .float_aggregates import float_histogram, read_sum
        histogram = float_histogram(type, counts)
        if total:
            histogram.value_sum = read_sum(total)
        return histogram
    histogram = Histogram(counts, type.bits) if type.kind == "hist" else \
        LinearHistogram(counts, type.low, type.high, type.step)
    if total:
        histogram.value_sum = read_word(total[0], True)
    return histogram
