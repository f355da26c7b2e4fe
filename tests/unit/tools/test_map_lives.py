"""Every key of a tool's map has a sure end: the table map_lives.txt says which, and agrees with the scripts."""

from __future__ import annotations

import fnmatch
from functools import cache
from pathlib import Path

import pytest

from map_lives import MapLife, read_lives, scripts
from sonde.base.record import Record
from sonde.language.map_sizes import MAP_SIZES

TABLE = Path(__file__).parents[1] / "map_lives.txt"
AGGREGATES = {"count", "sum", "hist", "lhist", "stats", "avg", "min", "max", "tseries"}
FEW = {"a CPU", "a disk", "a softirq", "an address family", "a protocol", "a folder of -d", "a slab cache",
       "the process"}


class Row(Record):
    """A line of the table."""

    of: str
    ends: list[str]
    size: str


def parse_row(line: str) -> tuple[tuple[str, str], Row]:
    head, of, ends, size = line.split(" | ")
    tool, name = head.split()
    return (tool, name), Row(of, ends.split(", "), size)


@cache
def rows() -> dict[tuple[str, str], Row]:
    lines = [line for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    table = dict(parse_row(line) for line in lines)
    assert len(table) == len(lines)
    return table


@cache
def lives() -> dict[tuple[str, str], MapLife]:
    return {(script, name): life for script, text in scripts().items()
            for name, life in read_lives(text, script).items()}


def is_among(end: str, points: list[str]) -> bool:
    """Whether one of a script's attach points is the one that a row names; "$1", which its user names, is empty."""
    return any(fnmatch.fnmatchcase(point, end.replace("$1", "").replace("$2", "")) for point in points)


def test_every_map_with_keys_has_a_row_and_every_row_a_map() -> None:
    assert sorted(lives()) == sorted(rows())


@pytest.mark.parametrize(("tool", "name"), sorted(rows()))
def test_a_key_ends_where_the_table_says(tool: str, name: str) -> None:
    row, life = rows()[tool, name], lives()[tool, name]
    first, *others = row.ends
    if first == "lru":
        assert life.kind.startswith("lru")
    elif first == "few":
        assert row.of in FEW and not others
    elif first == "result":
        assert not others and (set(life.counted) & AGGREGATES or life.cleared)
    else:
        others = row.ends
    assert all(is_among(end, life.deleted) for end in others), life.deleted
    assert MAP_SIZES.get(row.size, 0) == life.unit


@pytest.mark.parametrize(("tool", "name"), [key for key, row in sorted(rows().items()) if row.of == "a thread"])
def test_a_thread_may_end_within_what_is_measured(tool: str, name: str) -> None:
    """Functions of programs do not return in a thread that is killed, exit() never does, execve() may in another."""
    row, life = rows()[tool, name], lives()[tool, name]
    if any(point.startswith(("uprobe:", "raw_syscalls:")) for point in life.made) or "" in life.made:
        assert "sched:sched_process_exit" in row.ends
    if any(point.startswith(("raw_syscalls:", "syscalls:sys_enter_execve")) for point in life.made):
        assert "sched:sched_process_exec" in row.ends


def test_a_map_without_an_end_is_found() -> None:
    """The reading of scripts sees what the table's test depends on."""
    life = read_lives("let @x = hash(max_threads);\nmacro note(@m) { @m[tid] = nsecs; }\n"
                      "tracepoint:a:b { note(@x); @c[comm] = count(); }\nrawtracepoint:c { delete(@x, tid); }", "text")
    assert (life["@x"].made, life["@x"].deleted, life["@x"].unit) == (["a:b"], ["c"], MAP_SIZES["max_threads"])
    assert life["@c"].counted == ["count"] and not life["@c"].deleted
