"""tseries(): merging over CPUs, and the drawing (as bpftrace's documentation shows it)."""

from __future__ import annotations

import pytest

from sonde.runtime.maps.series import SECOND, Series, make_series, merge_series
from sonde.types import Aggregate

MASK = (1 << 64) - 1


def ring(agg: str, signed: bool = True) -> Aggregate:
    return Aggregate("tseries", signed, 0, 100_000_000, 2, 1, agg)


@pytest.mark.parametrize(("agg", "expected"), [("", 7), ("sum", 4), ("min", -3), ("max", 7), ("avg", 1)])
def test_cpus_are_combined(agg: str, expected: int) -> None:
    extra = 2 if agg == "avg" else 500
    words = [10, -3 & MASK, 1 if agg == "avg" else 400, 0, 0, 0, 10, 7, extra, 0, 0, 0]
    kind = ring(agg)
    merged = merge_series(kind, [words[:6], words[6:]])
    assert make_series(kind, merged).values == {9: expected}


def test_a_later_interval_replaces_an_earlier_one() -> None:
    kind = ring("sum")
    merged = merge_series(kind, [[10, 5, 0, 9, 1, 0], [12, 6, 0, 11, 2, 0]])
    assert make_series(kind, merged).values == {11: 6, 10: 2}


def test_intervals_that_are_over_are_left_out() -> None:
    assert make_series(ring("sum"), [10, 5, 0, 3, 1, 0]).values == {9: 5}


def test_drawing_with_zero_in_between() -> None:
    series = Series(100_000_000, {1: -5, 2: -4, 4: 5})
    rows = series.draw().splitlines()
    assert rows[0] == "             -5                                                  5" == rows[-1]
    assert rows[1] == "hh:mm:ss.ms  |___________________________________________________|"
    assert [row[13:] for row in rows[2:-2]] == [
        "*                         .                         | -5",
        "|    *                    .                         | -4",
        "|                         .                         | -",
        "|                         .                         * 5",
    ]
    assert rows[-2] == "             v___________________________________________________v"


def test_one_value_only() -> None:
    rows = Series(SECOND, {1: 3}).draw().splitlines()
    assert rows[0].split() == ["2", "4"]
    assert rows[1].startswith("hh:mm:ss.ns        |") and rows[2].endswith(" |" + " " * 25 + "*" + " " * 25 + "| 3")


def test_scales_end_at_the_bars() -> None:
    rows = Series(1_500_000_000, {1: -2, 2: 10, 4: 110}).draw().splitlines()
    assert rows[0] == " " * 9 + "-2" + " " * 48 + "110"
    assert [row.partition(" ")[0] for row in rows[1:-2]] == ["hh:mm:ss", *[row[:8] for row in rows[2:-2]]]
    assert Series(1_000, {1: 1, 2: 2}).draw().splitlines()[1].startswith("hh:mm:ss.μs    |_")


def test_dates() -> None:
    assert Series(SECOND, {}).format_date(1_500_000_000) == "1970-01-01 00:00:01.500000000"


@pytest.mark.parametrize(("interval", "digits"), [(SECOND, 0), (1_500_000_000, 0), (20_000_000, 3), (1500, 6), (7, 9),
                                                  (2_000, 6)])
def test_times_are_as_exact_as_the_interval(interval: int, digits: int) -> None:
    series = Series(interval, {1: 0, 2: 0})
    assert series.digits == digits and Series(interval, {1: 0}).digits == 9
    assert len(series.format_time(0)) == 8 + (digits + 1 if digits else 0)


def test_nothing_recorded() -> None:
    assert make_series(ring(""), [0] * 6).draw() == "<no data>"
    assert list(Series(SECOND, {})) == []


def test_times_of_no_calendar_are_shown() -> None:
    """As a host that is not honest may send them."""
    series = Series(1 << 60, {1 << 62: 1, -(1 << 62): 2})
    assert series.format_date(1 << 122).startswith("2116-02-20")
    assert series.format_date(-1 << 122).startswith("1970-01-01")
    assert series.format_time(1 << 122) and make_series(ring("sum"), [(1 << 64) - 1, 5, 0, 3, 1, 0]).draw()
