"""Clauses that fire together are one program, whatever the kind of their probe."""

from __future__ import annotations

import pytest

from compiled import compiled

COUNTS = "{{ @{name} = count(); }}"


def served(script: str, kernel: str = "6.18") -> list[tuple[list[str], int]]:
    """For each program its attach points' last words, and how many clauses it is made of."""
    return [([point.event or point.name for point in program.attach], program.clauses)
            for program in compiled(script, kernel).programs]


@pytest.mark.parametrize("place", [
    "kprobe:vfs_read", "kretprobe:vfs_read", "fentry:vfs_read", "fexit:vfs_read", "rawtracepoint:sched_switch",
    "tracepoint:sched:sched_switch", "interval:s:1", "profile:hz:99", "software:page-faults:100"])
def test_two_clauses_of_a_place_are_one_program(place: str) -> None:
    programs = compiled(f"{place} {{ @a = count(); }} {place} /pid == 1/ {{ @b = count(); }}").programs
    assert [(len(program.attach), program.clauses) for program in programs] == [(1, 2)]


def test_patterns_are_divided_by_the_clauses_that_fire() -> None:
    script = ("kprobe:vfs_read, kprobe:vfs_write { @a = count(); } kprobe:vfs_write { @b = count(); } "
              "kprobe:vfs_open, kprobe:vfs_write { @c = count(); }")
    assert served(script) == [(["vfs_read"], 1), (["vfs_write"], 3), (["vfs_open"], 1)]


def test_a_clause_with_a_loop_stands_between_the_others() -> None:
    loop = "kprobe:vfs_read { $i = 0; while ($i < 10) { $i++; } @b = $i; }"
    script = f"kprobe:vfs_read {{ @a++ }} {loop} kprobe:vfs_read {{ @c++ }}"
    assert served(script) == [(["vfs_read"], 1)] * 3


def test_one_way_for_all_clauses_of_a_tracepoint() -> None:
    """One prints the record as a whole, which only the tracepoint itself has: the other takes it from there, too."""
    counting = "tracepoint:sched:sched_switch { @a = count(); }"
    whole = "tracepoint:sched:sched_switch { print(args); }"
    assert compiled(counting).programs[0].method == "raw"
    assert [(program.method, program.clauses) for program in compiled(counting + whole).programs] == [("", 2)]
