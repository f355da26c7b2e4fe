"""Merging per-CPU states of aggregates."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.base.words import to_signed
from sonde.runtime.maps.merge import apply_signs, merge_states, subtract_state
from sonde.types import Aggregate

words = st.integers(0, 2**64 - 1)


def packed(*numbers: int) -> bytes:
    return struct.pack(f"={len(numbers)}Q", *[n & 2**64 - 1 for n in numbers])


def merged(aggregate: Aggregate, data: bytes, cpus: int) -> list[tuple[int, ...]]:
    return apply_signs(aggregate, merge_states(aggregate, data, cpus))


def test_counts_add_up() -> None:
    assert merged(Aggregate("count"), packed(3, 4, 10, 20), 2) == [(7,), (30,)]


def test_sums_wrap_and_have_a_sign() -> None:
    assert merged(Aggregate("sum"), packed(-5, 2), 2) == [(-3,)]
    assert merged(Aggregate("sum", signed=False), packed(-5, 2), 2) == [(2**64 - 3,)]
    assert merged(Aggregate("sum", signed=False), packed(2**64 - 1, 2), 2) == [(1,)]


@pytest.mark.parametrize(("kind", "signed", "expected"), [
    ("min", True, -2), ("max", True, 9), ("min", False, 9), ("max", False, 2**64 - 2)])
def test_extremes_skip_unset_cpus(kind: str, signed: bool, expected: int) -> None:
    assert merged(Aggregate(kind, signed), packed(9, 1, 0, 0, -2, 1), 3) == [(expected, 1)]


def test_extremes_that_were_never_set() -> None:
    assert merged(Aggregate("min"), packed(0, 0, 5, 0), 2) == [(0, 0)]


def test_averages_add_counts_and_totals() -> None:
    assert merged(Aggregate("avg"), packed(2, -10, 1, 4), 2) == [(3, -6)]
    assert merged(Aggregate("stats", signed=False), packed(2, 10, 1, 4), 2) == [(3, 14)]


def test_histograms_add_bucket_by_bucket() -> None:
    aggregate = Aggregate("lhist", low=0, high=10, step=5)
    assert aggregate.words == 4
    assert merged(aggregate, packed(1, 2, 3, 4, 10, 20, 30, 40), 2) == [(11, 22, 33, 44)]


@given(st.sampled_from([1, 3, 29, 30, 31, 64]), st.integers(1, 5), st.integers(1, 4), st.randoms())
def test_histograms_of_any_width(buckets: int, cpus: int, keys: int, chance: random.Random) -> None:
    """Each word is the sum of the CPUs' words, modulo 2^64, also where some CPUs have nothing."""
    aggregate = Aggregate("lhist", low=0, high=buckets, step=1)
    width = aggregate.words
    numbers = [[[chance.choice([0, 1, chance.getrandbits(64)]) for _ in range(width)] if chance.random() < 0.6
                else [0] * width for _ in range(cpus)] for _ in range(keys)]
    data = packed(*[word for key in numbers for state in key for word in state])
    sums = [tuple([sum(column) % 2**64 for column in zip(*key)]) for key in numbers]
    assert merge_states(aggregate, data, cpus) == merge_states(aggregate, memoryview(data), cpus) == sums


@pytest.mark.parametrize("aggregate", [Aggregate("count"), Aggregate("lhist", low=0, high=100, step=1)])
def test_no_elements(aggregate: Aggregate) -> None:
    assert merge_states(aggregate, b"", 4) == []


@given(st.lists(words, min_size=4, max_size=4), st.lists(words, min_size=4, max_size=4))
def test_subtracting_what_was_there_leaves_what_came(old: list[int], new: list[int]) -> None:
    aggregate = Aggregate("stats")
    base = merge_states(aggregate, packed(*old), 2)[0]
    total = merge_states(aggregate, packed(*[a + b for a, b in zip(old, new)]), 2)[0]
    assert subtract_state(total, base) == merge_states(aggregate, packed(*new), 2)[0]


@given(words)
def test_signs(word: int) -> None:
    assert to_signed(word) == struct.unpack("=q", struct.pack("=Q", word))[0]
