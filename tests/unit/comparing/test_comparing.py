"""Differences between runs: the tests against known answers, and how often they are wrong."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from sonde.comparing.findings import compare_runs
from sonde.comparing.report import parse_condition, report_text
from sonde.comparing.runs import COUNT, DISTRIBUTION, VALUE, Bounds, Label, Run, read_run
from sonde.comparing.significance import (
    adjust_for_many,
    kolmogorov_smirnov,
    mann_whitney,
    rate_test,
    student_tail,
    welch,
)
from sonde.errors import UsageError
from support import run_sonde

LATENCY = Label("@usecs", "", DISTRIBUTION)
CALLS = Label("@calls", "", COUNT)


# --- the tests against answers known otherwise --------------------------------------------------------------

def test_mann_whitney_agrees_with_counting_all_orders() -> None:
    """Exact: of all ways to divide ten numbers into five and five, how many are at least as far from even?"""
    for chosen in ((0, 1, 2, 3, 5), (0, 2, 4, 6, 8), (0, 1, 2, 3, 4), (1, 2, 3, 5, 6)):
        off = abs(sum(chosen) - 22.5)
        ways = [abs(sum(ranks) - 22.5) >= off for ranks in combinations(range(10), 5)]
        exact = sum(ways) / len(ways)
        pairs = [(int(i in chosen), int(i not in chosen)) for i in range(10)]
        assert mann_whitney(pairs) == pytest.approx(exact, abs=0.02)


def test_rates_agree_with_a_fair_coin() -> None:
    assert rate_test(5, 5) == pytest.approx(1)
    assert rate_test(0, 5) == pytest.approx(2 / 32)
    assert rate_test(1, 9) == pytest.approx(2 * 11 / 1024)
    assert rate_test(30, 90, 0.25) == pytest.approx(1, abs=0.1)
    assert rate_test(450, 550) == pytest.approx(rate_test(451, 550), rel=0.2)  # exact, and beyond that normal


@pytest.mark.parametrize(("t", "freedom", "chance"), [  # of tables of Student's distribution
    (12.706, 1, 0.05), (2.776, 4, 0.05), (3.169, 10, 0.01), (1.96, 100000, 0.05), (0, 7, 1), (2.228, 10, 0.05)])
def test_student(t: float, freedom: float, chance: float) -> None:
    assert student_tail(t, freedom) == pytest.approx(chance, rel=2e-3)


def test_welch() -> None:
    """Equal variances and sizes: Student's own test, t = 2 / sqrt(2 / 3), 4 degrees of freedom."""
    assert welch([1, 2, 3], [3, 4, 5]) == pytest.approx(student_tail(2 / (2 / 3) ** 0.5, 4))
    assert welch([5, 5], [5, 5]) == 1 and welch([5, 5], [6, 6]) == 0 and welch([1], [2, 3]) == 1


def test_kolmogorov_smirnov() -> None:
    """D = 0.192 for two samples of 100 lies near the 5 % point (1.358 / sqrt(50))."""
    pairs = [(50, 50), (19, 0), (31, 50)]
    assert kolmogorov_smirnov(pairs) == pytest.approx(0.05, abs=0.02)
    assert kolmogorov_smirnov([(10, 10)]) == 1 and kolmogorov_smirnov([(1000, 0), (0, 1000)]) < 1e-9


def test_benjamini_hochberg() -> None:
    """The example of the paper (1995): of fifteen p-values four are rejected at 0.05."""
    chances = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
               0.7590, 1.0]
    assert [q <= 0.05 for q in adjust_for_many(chances)] == [True] * 4 + [False] * 11
    assert adjust_for_many([]) == []


# --- how often they are wrong -------------------------------------------------------------------------------

def power_bucket(value: int) -> Bounds:
    return (value, value + 1) if value < 2 else (1 << value.bit_length() - 1, 1 << value.bit_length())


def synthetic_run(rng: random.Random, events: int, shift: float = 1.0, spread: float = 0.25,
                  buckets: bool = True) -> Run:
    """A run whose latencies are lognormal, with several counted keys."""
    run = Run("x", 1.0, {}, {})
    values = [int(1000 * shift * rng.lognormvariate(0, spread)) for _ in range(events)]
    run.add_buckets(LATENCY, Counter([power_bucket(v) if buckets else (v, v + 1) for v in values]).items())
    for key in range(10):
        rate = 5 * (key + 1)
        run.add_number(Label("@calls", str(key), COUNT), sum([rng.random() < rate / 1000 for _ in range(1000)]))
    return run


def test_pairs_without_a_difference_are_seldom_flagged() -> None:
    """1,000 pairs, eleven measurements each: at most 5 % of the pairs have any finding."""
    rng = random.Random(2026)
    flagged = sum([any(f.changed for f in compare_runs([synthetic_run(rng, 200)], [synthetic_run(rng, 200)]))
                   for _ in range(1000)])
    assert flagged <= 60


def test_repeats_without_a_difference_are_seldom_flagged() -> None:
    """Runs that differ from one another more than chance within them would have it: only repeats can know."""
    rng = random.Random(7)

    def side() -> list[Run]:
        return [synthetic_run(rng, 100, shift=rng.lognormvariate(0, 0.3)) for _ in range(4)]
    latencies = [next(f for f in compare_runs(side(), side()) if f.label == LATENCY) for _ in range(300)]
    assert sum([(f.chance or 0) <= 0.05 for f in latencies]) <= 0.06 * 300 + 6


@pytest.mark.parametrize("buckets", [True, False], ids=["histogram", "values"])
def test_a_shift_of_a_tenth_is_found(buckets: bool) -> None:
    """In 95 of 100 pairs of 1,000 events each, whose spread is a quarter of the median."""
    rng = random.Random(11)
    found = 0
    for _ in range(200):
        findings = compare_runs([synthetic_run(rng, 1000, 1.0, 0.25, buckets)],
                                [synthetic_run(rng, 1000, 1.1, 0.25, buckets)])
        found += next(f for f in findings if f.label == LATENCY).changed
    assert found >= 190


def test_counts_are_compared_by_the_second() -> None:
    """Twice as many in twice the time is no difference; as many in half the time is."""
    sides = ((1, 500), (2, 1000), (0.5, 500))
    one, longer, faster = (Run("x", seconds, {CALLS: count}, {}) for seconds, count in sides)
    assert not compare_runs([one], [longer])[0].changed
    assert compare_runs([one], [faster])[0].changed and compare_runs([one], [faster])[0].ratio == 2


def test_values_are_not_tested_without_repeats() -> None:
    label = Label("@total", "", VALUE)
    one, other = Run("x", 1, {label: 5}, {}), Run("x", 1, {label: 500}, {})
    assert compare_runs([one], [other])[0].chance is None
    assert compare_runs([one, one], [other, other])[0].changed


# --- files, reports and conditions --------------------------------------------------------------------------

def json_file(path: Path, calls: int, values: list[int]) -> Path:
    held = Counter(map(power_bucket, values))
    buckets = [{"min": low, "max": (high or 0) - 1, "count": n} for (low, high), n in held.items()]
    lines = [{"type": "attached_probes", "count": 1, "data": {"probes": 1}},
             {"type": "map", "data": {"@calls": {"read": 1}}},
             {"type": "map", "data": {"@calls": {"read": calls, "big": str(1 << 60)}}},
             {"type": "hist", "data": {"@usecs": {"read": buckets}}},
             {"type": "stats", "data": {"@s": {"count": 4, "average": 5, "total": 20}}},
             {"type": "run", "data": {"command": "sonde x", "host": "h", "seconds": 2.0}}]
    path.write_text("".join([json.dumps(line) + "\n" for line in lines]))
    return path


def test_json_is_read(tmp_path: Path) -> None:
    run = read_run(str(json_file(tmp_path / "a", 7, [3, 3, 9])))
    assert run.seconds == 2 and run.title == "sonde x on h"
    assert run.numbers == {Label("@calls", "read", VALUE): 7, Label("@calls", "big", VALUE): 1 << 60,
                           Label("@s.count", "", COUNT): 4, Label("@s.average", "", VALUE): 5}
    assert run.distributions == {Label("@usecs", "read", DISTRIBUTION): {(2, 4): 2, (8, 16): 1}}


def test_a_shift_is_reported_and_fails(tmp_path: Path) -> None:
    rng = random.Random(5)
    before, after = ([int(1000 * shift * rng.lognormvariate(0, 0.3)) for _ in range(1000)] for shift in (1, 1.4))
    one, other = json_file(tmp_path / "a", 5, before), json_file(tmp_path / "b", 5, after)
    done = run_sonde("diff", str(one), str(other), "--fail-if", "p50 > 1.1x")
    assert done.returncode == 2 and "@usecs[read]" in done.stderr
    assert "@usecs[read]: p50" in done.stdout and "Mann-Whitney" in done.stdout and "[1024, 2048)" in done.stdout
    assert run_sonde("diff", str(one), str(other), "--fail-if", "p50 > 3x").returncode == 0
    same = run_sonde("diff", str(one), str(one), "-f", "json", "--fail-if", "p50 > 0.5x")
    plain = json.loads(same.stdout)["data"]
    assert same.returncode == 0 and not any(f["changed"] for f in plain["findings"])
    assert run_sonde("diff", str(one), str(one)).stdout.count("Nothing differs by more than noise.") == 1


@pytest.mark.parametrize(("text", "metric", "above", "limit"), [
    ("p99 > 1.1x", "p99", True, 1.1), ("@x count < -20%", "count", False, 0.8), ("value>2x", "value", True, 2.0),
    ("p99.9 > +10%", "p99.9", True, 1.1)])
def test_conditions(text: str, metric: str, above: bool, limit: float) -> None:
    found = parse_condition(text)
    assert (found.metric, found.above, found.limit) == (metric, above, pytest.approx(limit))


@pytest.mark.parametrize("text", ["", "p99", "p99 > 3", "x > 1x", "p99 = 1x", "p999 > 1x"])
def test_what_is_no_condition(text: str) -> None:
    with pytest.raises(UsageError):
        parse_condition(text)


@pytest.mark.parametrize(("arguments", "message"), [
    (["a"], "takes two recordings"), (["a", "/no/such"], "No such file"), (["a", "garbage"], "neither a recording nor"),
    (["a", "a", "-f", "html"], "prints text or json"), (["a", "a", "--fail-if", "x"], "--fail-if takes"),
    (["--baseline", "true", "-c", "true"], "a script to run beside both"), (["a", "a", "-p", "1"], "has no --pid")])
def test_what_makes_no_sense_is_refused(arguments: list[str], message: str, tmp_path: Path) -> None:
    json_file(tmp_path / "a", 1, [1])
    (tmp_path / "garbage").write_text('{"type": "map"}\n[]\n')
    places = [str(tmp_path / word) if word in ("a", "garbage") else word for word in arguments]
    done = run_sonde("diff", *places)
    assert done.returncode == 1 and message in done.stderr


def test_a_report_shortens_what_is_the_same() -> None:
    numbers: dict[Label, float] = {Label("@n", str(key), COUNT): 5 for key in range(100)}
    run = Run("x", 1.0, numbers, {})
    text = report_text(compare_runs([run], [run]), [run], [run])
    assert "... and 80 more" in text and len(text.splitlines()) < 30
