"""Rules of tests: reading them, and the verdict on what was seen."""

from __future__ import annotations

from typing import Any

import pytest

from sonde.errors import UsageError
from sonde.objectives.rules import CALLS, CONNECT, OPEN, Rules, format_duration, matches_path, parse_rules
from sonde.objectives.verdict import judge, shown_frames

STACK = ["inner (/w/test_a.py:3)", "test_a (/w/test_a.py:9)", "pytest_pyfunc_call (/x/_pytest/python.py:157)"]


@pytest.mark.parametrize("given", [
    {"no_connect": 1}, {"no_open": 5}, {"max_syscalls": {"fsync": -1}}, {"max_syscalls": {"fsync": True}},
    {"max_syscalls": {"fs ync": 1}}, {"max_syscalls": {'x" }': 1}}, {"max_syscalls": 5}, {"p99": {"read": 2}},
    {"p99": {"read": "2 miles"}}, {"p99": {"read": "0ms"}}, {"p99": {"read": "-1ms"}}, {"p99": {"read": "ms"}},
    {"no_stall": True},
    {"no_stall": "1e999s"}, {"nosuch": 1}, {"p99": {"read": "nanms"}},
])
def test_nonsense_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        parse_rules(given)


def test_rules_are_read() -> None:
    rules = parse_rules({"no_open": "/etc/**", "max_syscalls": {"fsync": 2}, "p99": {"read": "1.5ms"},
                         "no_stall": "2s"})
    assert (rules.connect, rules.open, rules.calls) == (True, ["/etc/**"], {"fsync": 2})
    assert (rules.p99, rules.stall) == ({"read": 1_500_000}, 2 * 10 ** 9)
    assert parse_rules({"no_connect": True, "no_open": ["/a", "/b"]}).bits == CONNECT | OPEN
    assert parse_rules({"max_syscalls": {"fsync": 0}}).bits == CALLS and Rules().bits == 0


@pytest.mark.parametrize(("path", "pattern", "fits"), [
    ("/etc/hosts", "/etc/**", True), ("/etc/a/b", "/etc/**", True), ("/etc", "/etc/**", True),
    ("/etc/a/b", "/etc/*", False),
    ("/etc/a", "/etc/*", True), ("/etcetera", "/etc/**", False), ("/a/b/c.py", "**/*.py", True),
    ("/etc/hosts", "/etc/h?sts", True),
    ("/x/etc/hosts", "/etc/**", False), ("/proc/1/maps", "/proc/*/maps", True),
])
def test_patterns_of_paths(path: str, pattern: str, fits: bool) -> None:
    assert matches_path(path, pattern) == fits


def row(*key: object, count: int = 1) -> list[object]:
    return [[*key, "python", 7, STACK], count]


def test_the_verdict_says_what_where_and_how_often() -> None:
    seen = {"opens": [row("/etc/hosts"), row("/etc/hosts", count=2), row("/usr/lib/x"), row("../etc/passwd")],
            "connects": [row("10.0.0.1", 80)], "connects6": [row("::1", 81)],
            "calls": [row("fsync", count=3), row("fdatasync", count=9)]}
    rules = parse_rules({"no_open": "/etc/**", "no_connect": True, "max_syscalls": {"fsync": 2, "sync": 0}})
    where = "by python (7)\n    inner (/w/test_a.py:3)\n    test_a (/w/test_a.py:9)"
    assert sorted(map(str, judge(rules, seen, "/w"))) == sorted([
        f"opened /etc/hosts (no_open='/etc/**')\n  3 times, {where}",
        f"opened ../etc/passwd (no_open='/etc/**')\n  once, {where}",
        f"connected to 10.0.0.1:80 (no_connect)\n  once, {where}",
        f"connected to ::1:81 (no_connect)\n  once, {where}",
        f"fsync() was called 3 times, and at most 2 is allowed\n  3 times, {where}"])
    assert not judge(Rules(), seen, "/w")


def test_a_percentile_is_exact() -> None:
    rules = parse_rules({"p99": {"read": "2ms"}})
    slow = [row("read", count=5_000_000), row("read", count=9_000_000), row("read", count=1_500_000)]
    for total, over, broken in ((100, 1, False), (100, 2, True), (1, 1, True), (99, 1, True), (300, 3, False),
                                (0, 0, False)):
        seen = {"total": [["read", total]], "slow": slow,
                "over": [[["read", 2_000_000], over], [["read", 1], total], [["write", 2_000_000], 99]]}
        verdict = judge(rules, seen, "/")
        assert bool(verdict) == broken
        assert not broken or str(verdict[0]).startswith(f"{over} of {total} call")
        assert not broken or "the longest took 9ms, by python (7)\n" in str(verdict[0])


def test_a_stall_has_its_longest_place() -> None:
    seen = {"stalls": [row(count=60_000_000), row(count=40_000_000)]}
    verdict = judge(parse_rules({"no_stall": "50ms"}), seen, "/")
    assert len(verdict) == 1
    assert str(verdict[0]).startswith("the event loop did not wait for 60ms, and at most 50ms is allowed")
    assert not judge(parse_rules({"no_stall": "70ms"}), {"stalls": [row(count=60_000_000)]}, "/")


def test_frames_end_at_pytest() -> None:
    assert shown_frames(STACK) == STACK[:2]
    assert [format_duration(n) for n in (5, 1500, 2e6, 3e9)] == ["5ns", "1.5us", "2ms", "3s"]
