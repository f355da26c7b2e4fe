"""Aggregates: from words to values and drawings."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.runtime.maps.aggregate_values import aggregate_value
from sonde.runtime.maps.aggregates import Bucket, Histogram, LinearHistogram, Stats
from sonde.types import Aggregate

FULL = "|" + "@" * 52 + "|\n"


def bucket_of(value: int, bits: int) -> int:
    """The kernel side's rule, from types.Aggregate."""
    if value < 0:
        return 0
    if value < 1 << (bits + 1):
        return value + 1
    e = value.bit_length() - 1
    return 1 + ((e - bits + 1) << bits) + ((value >> (e - bits)) - (1 << bits))


def hist(*values: int, bits: int = 0) -> Histogram:
    type = Aggregate("hist", bits=bits)
    words = [0] * type.words
    for value in values:
        words[bucket_of(value, bits)] += 1
    found = aggregate_value(type, words)
    assert isinstance(found, Histogram)
    return found


def labels(histogram: Histogram) -> list[str]:
    return [row[:16].rstrip() for row in str(histogram).splitlines()]


@given(st.integers(-1, 2**64 - 1), st.integers(0, 5))
def test_every_value_lies_in_its_bucket(value: int, bits: int) -> None:
    (bucket,) = hist(value, bits=bits)
    assert (bucket.low is None or bucket.low <= value) and bucket.high is not None and value < bucket.high


@given(st.integers(0, 5))
def test_buckets_are_contiguous_and_reach_the_end(bits: int) -> None:
    buckets = hist(-1, 2**64 - 1, bits=bits).buckets
    assert all(a.high == b.low for a, b in pairwise(buckets))
    assert buckets[-1].high == 2**64 and len(buckets) == Aggregate("hist", bits=bits).words


def test_drawing() -> None:
    assert str(hist(-5, 0, 1, 2, 3)) == (
        "(..., 0)               1 |" + "@" * 26 + " " * 26 + "|\n"
        "[0]                    1 |" + "@" * 26 + " " * 26 + "|\n"
        "[1]                    1 |" + "@" * 26 + " " * 26 + "|\n"
        "[2, 4)                 2 " + FULL)
    assert str(hist()) == ""


@pytest.mark.parametrize(("value", "bits", "label"), [
    (512, 0, "[512, 1K)"), (1024, 0, "[1K, 2K)"), (2**19, 0, "[512K, 1M)"), (2**20, 0, "[1M, 2M)"),
    (2**39, 0, "[512G, 1T)"), (2**50, 0, "[1P, 2P)"), (2**63, 0, "[8E, 16E)"), (3, 1, "[3]"), (5, 1, "[4, 6)"),
    (1536, 1, "[1536, 2K)"), (1300, 2, "[1280, 1536)"), (5000, 2, "[4K, 5K)"), (63, 5, "[63]"), (64, 5, "[64, 66)"),
])
def test_labels(value: int, bits: int, label: str) -> None:
    assert labels(hist(value, bits=bits)) == [label]


def test_only_the_empty_ends_are_left_out() -> None:
    assert labels(hist(1, 9)) == ["[1]", "[2, 4)", "[4, 8)", "[8, 16)"]


def test_linear() -> None:
    type = Aggregate("lhist", low=0, high=100, step=10)
    words = [0] * type.words
    words[0], words[1], words[4], words[11] = 1, 1, 2, 1
    drawn = str(aggregate_value(type, words)).splitlines(keepends=True)
    assert drawn[0] == "(..., 0)               1 |" + "@" * 26 + " " * 26 + "|\n"
    assert drawn[1].startswith("[0, 10) ") and drawn[4] == "[30, 40)               2 " + FULL
    assert drawn[-1].startswith("[100, ...) ") and len(drawn) == 12


def test_linear_labels_are_short_where_every_step_is_a_multiple_of_1024() -> None:
    assert labels(LinearHistogram([0, 0, 0, 1, 0], 0, 3072, 1024)) == ["[2K, 3K)"]
    assert labels(LinearHistogram([0, 0, 1, 0], 0, 2000, 1000)) == ["[1000, 2000)"]
    assert labels(LinearHistogram([0, 1, 0], 1 << 20, 1 << 21, 1 << 20)) == ["[1M, 2M)"]
    assert labels(LinearHistogram([1, 0, 0], -2048, 2048, 4096)) == ["(..., -2K)"]


def test_buckets_and_quantiles() -> None:
    histogram = hist(4, 5, 6, 7)
    assert histogram.buckets == [Bucket(4, 8, 4)] and histogram.total == 4
    assert histogram.quantile(0.5) == 6 and histogram.quantile(1) == 8
    assert hist().quantile(0.5) is None and hist(-1).quantile(0.5) == 0
    assert hist(1) == hist(1) and hist(1) != hist(2)


def test_counts_can_be_scaled() -> None:
    assert hist(1, 1, 1, 1).draw(div=2) == "[1]                    2 " + FULL


@pytest.mark.parametrize(("type", "words", "value"), [
    (Aggregate("count"), [3], 3), (Aggregate("sum"), [2**64 - 5], -5),
    (Aggregate("sum", False), [2**64 - 5], 2**64 - 5),
    (Aggregate("sum"), [-5], -5), (Aggregate("min"), [2**64 - 3, 1], -3), (Aggregate("max"), [7, 1], 7),
    (Aggregate("max"), [7, 0], 0), (Aggregate("avg"), [2, 2**64 - 9], -4), (Aggregate("avg"), [0, 0], 0),
    (Aggregate("stats"), [3, 15], Stats(3, 5, 15)), (Aggregate("stats", False), [1, 2**63], Stats(1, 2**63, 2**63)),
])
def test_numbers(type: Aggregate, words: list[int], value: object) -> None:
    assert aggregate_value(type, words) == value


def test_stats_text() -> None:
    assert str(Stats(3, 5, 15)) == "{ .count = 3, .average = 5, .total = 15 }"
