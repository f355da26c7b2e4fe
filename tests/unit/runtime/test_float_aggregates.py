"""Aggregates of floating-point numbers: from words to values, and what their histograms look like."""

from __future__ import annotations

import math
import struct
from itertools import pairwise

import pytest

from sonde.runtime.maps.aggregate_values import aggregate_value
from sonde.runtime.maps.aggregates import Stats
from sonde.runtime.maps.float_aggregates import FloatHistogram, FloatLinearHistogram, float_of_key, read_sum
from sonde.runtime.maps.merge import add_states, apply_signs, merge_states, subtract_state
from sonde.runtime.records.values import SingleFloat
from sonde.types import Aggregate

MASK = (1 << 64) - 1


def words_of(value: float) -> list[int]:
    """A sum's words: its limbs have the sign of the value."""
    units = int(abs(value) * 2.0 ** 32) << 32
    limbs = [(units >> 32 * index) & 0xFFFFFFFF for index in range(5)]
    return [0, 0, 0, *[limb if value >= 0 else -limb & MASK for limb in limbs]]


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 0.5, -1234.25, 2.0 ** 70, -2.0 ** 79])
def test_sums(value: float) -> None:
    assert read_sum(words_of(value)) == value
    assert read_sum(words_of(value), 4) == value / 4


def test_what_a_sum_could_not_add() -> None:
    for counts, want in (((0, 1, 0), math.inf), ((0, 0, 2), -math.inf), ((0, 1, 1), math.nan), ((3, 0, 0), math.nan)):
        have = read_sum([*counts, 5, 0, 0, 0, 0])
        assert have == want or have != have and want != want


def test_merging_is_exact_over_cpus_and_times() -> None:
    type = Aggregate("stats", floating=True)
    states = [[1, *words_of(value)] for value in (0.5, -0.75, 3.0, -2.5)]
    data = b"".join([struct.pack(f"={type.words}Q", *state) for state in states])
    merged = apply_signs(type, merge_states(type, data, len(states)))[0]
    assert aggregate_value(type, merged) == Stats(4, 0.0625, 0.25)
    assert aggregate_value(type, add_states(type, [merged, merged])) == Stats(8, 0.0625, 0.5)
    gained = subtract_state(merged, states[1])  # what came after -0.75 was there
    assert aggregate_value(type, gained) == Stats(3, 1 / 3, 1.0)


@pytest.mark.parametrize("value", [0.0, 1.5, -1.5, 5e-324, -5e-324, math.inf, -math.inf])
def test_extremes_by_key(value: float) -> None:
    bits, = struct.unpack("=Q", struct.pack("=d", abs(value)))
    assert float_of_key(bits if value >= 0 else -bits) == value
    for kind, key in (("max", (1 << 63) - 1), ("min", -(1 << 63) + 1)):
        found = aggregate_value(Aggregate(kind, floating=True), (key, 1))
        assert found != found  # a NaN
    assert aggregate_value(Aggregate("min", floating=True), (0, 0)) == 0.0


def test_buckets_of_powers() -> None:
    counts = [0] * Aggregate("hist", floating=True).words
    counts[0] = counts[1] = counts[2] = counts[-1] = counts[-2] = 1
    counts[3 + 39], counts[3 + 41], counts[3 + 50] = 1, 2, 1  # 0.5, 2 and 1024
    histogram = FloatHistogram(counts)
    labels = [line.rpartition("|")[0].rpartition("|")[0].split("  ")[0] for line in histogram.draw().splitlines()]
    assert labels[:8] == ["(..., 0)", "[0]", "(0, 9.094947e-13)", "[0.5, 1)", "[1, 2)", "[2, 4)", "[4, 8)", "[8, 16)"]
    assert "[1K, 2K)" in labels and labels[-2:] == ["[16E, ...)", "[nan]"]
    bounds = [(bucket.low, bucket.high) for bucket in histogram]
    assert bounds[:4] == [(None, 0.0), (0.0, 5e-324), (5e-324, 2.0 ** -40), (0.5, 1.0)]
    assert bounds[-2:] == [(2.0 ** 64, None), (None, None)]
    assert all(one[1] == other[0] for one, other in pairwise(bounds[3:-2]))


@pytest.mark.parametrize("bits", range(6))
def test_finer_buckets_follow_one_another(bits: int) -> None:
    type = Aggregate("hist", bits=bits, floating=True)
    histogram = FloatHistogram([0] * 3 + [1] * (type.words - 5) + [0, 0], bits)
    buckets = histogram.buckets
    assert buckets[0].low == 2.0 ** -40 and buckets[-1].high == 2.0 ** 64 and len(buckets) == 104 << bits
    assert all(one.high == other.low for one, other in pairwise(buckets))
    assert 8 * type.words <= 32768  # the most that the kernel gives an element on each CPU


def test_steps() -> None:
    type = Aggregate("lhist", low=0, high=20, step=5, floating=True, units=10)
    histogram = aggregate_value(type, [1, 0, 2, 0, 0, 3, 4])
    assert isinstance(histogram, FloatLinearHistogram) and type.words == 7
    assert [(bucket.low, bucket.high, bucket.count) for bucket in histogram] == [
        (None, 0.0, 1), (0.0, 0.5, 0), (0.5, 1.0, 2), (1.0, 1.5, 0), (1.5, 2.0, 0), (2.0, None, 3), (None, None, 4)]
    assert histogram.draw().startswith("(..., 0)  ") and "\n[2, ...)  " in histogram.draw()


@pytest.mark.parametrize(("value", "text"), [
    (0.1, "0.1"), (1.5, "1.5"), (16777216.0, "16777216.0"), (3.4028234663852886e38, "3.4028235e+38"), (1e-45, "1e-45"),
    (-0.0, "-0.0"), (math.inf, "inf"), (math.nan, "nan")])
def test_a_float_has_the_fewest_digits(value: float, text: str) -> None:
    single, = struct.unpack("f", struct.pack("f", value))
    assert str(SingleFloat(single)) == text
