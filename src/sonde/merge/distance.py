"""How far one source's distribution is from that of all others.

hist lhist        Wasserstein's distance (the earth mover's) between the shares of the buckets, in buckets: how far, on
                  average, a value would have to be moved. One bucket of hist() is a factor of two (or its k-th root).
count sum         total variation between the shares of the keys: 0 for the same shares, 1 for no key in common
other values none: a mean or an extreme is not a distribution
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TypeVar

from ..types import Aggregate

K = TypeVar("K")

WASSERSTEIN, VARIATION = "Wasserstein distance in buckets", "total variation of the keys' shares"


def wasserstein_distance(one: Sequence[int], other: Sequence[int]) -> float:
    """Wasserstein's distance of two histograms over the same buckets; 0 if one of them is empty."""
    own, theirs = sum(one), sum(other)
    if not own or not theirs:
        return 0.0
    return sum(abs(a / own - b / theirs) for a, b in zip(accumulate(one), accumulate(other)))


def total_variation(one: Sequence[int], other: Sequence[int]) -> float:
    """The total variation between two columns of counts of the same keys; 0 if one of them is empty."""
    own, theirs = sum(one), sum(other)
    if not own or not theirs:
        return 0.0
    return sum(abs(a / own - b / theirs) for a, b in zip(one, other)) / 2


def distance_name(aggregate: Aggregate | None) -> str:
    """The name of the distance for such values; "" if there is none."""
    if aggregate is None:
        return ""
    row = aggregate.row
    shares = row.total and row.number and not (aggregate.floating and row.sums)  # of whole numbers
    return WASSERSTEIN if row.buckets else VARIATION if shares else ""


def rank_sources(aggregate: Aggregate, parts: Mapping[str, Mapping[K, Sequence[int]]]) -> list[tuple[str, float]]:
    """(source, its distance from all others together), farthest first; ``parts`` are the words by source and key.
    Histograms of several keys are added up first. Negative sums count as 0."""
    if not distance_name(aggregate):
        return []
    if aggregate.row.buckets:
        columns = {source: _add_columns(words.values(), aggregate.words) for source, words in parts.items()}
        measure = wasserstein_distance
    else:
        keys = dict.fromkeys(key for words in parts.values() for key in words)
        columns = {source: [_count_of(words.get(key, (0,))[0]) for key in keys] for source, words in parts.items()}
        measure = total_variation
    whole = _add_columns(columns.values(), max(map(len, columns.values()), default=0))
    distances = [(source, measure(column, [all - own for all, own in zip(whole, column)]))
                 for source, column in columns.items()]
    return sorted(distances, key=lambda row: (-row[1], row[0]))


def _count_of(word: int) -> int:
    return word if word < 1 << 63 else 0


def _add_columns(columns: Iterable[Sequence[int]], width: int) -> list[int]:
    return [sum(column) for column in zip([0] * width, *columns)]
