"""Rows of unwind tables, against what binutils says of the same files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from bisect import bisect_right

import pytest

from sonde import unwinding as table
from sonde.kernel.foreign import files
from sonde.kernel.foreign.elf import PT_LOAD, Elf
from sonde.kernel.foreign.frames import UnwindTable
from sonde.kernel.foreign.unwind_rows import pack_rows

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the rules are x86_64's")

LIBC = "/lib/x86_64-linux-gnu/libc.so.6"
BASES = {table.SP: "rsp", table.BP: "rbp"}


def read_rows(path: str) -> tuple[list[tuple[int, int, int]], list[int], list[int]]:
    """(address, end, offset) of what is loaded; offsets and rules of all rows."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        elf = Elf(descriptor, path)
        packed, following = pack_rows(UnwindTable(elf), 0, elf.address_to_offset)
        loads = [(s.address, s.address + s.file_size, s.offset) for s in elf.segments if s.type == PT_LOAD]
    finally:
        os.close(descriptor)
    assert following == 0
    rows = list(table.ROW.iter_unpack(packed))
    return loads, [offset for offset, _ in rows], [rule for _, rule in rows]


def tell_rule(rule: int) -> tuple[str, str]:
    """(CFA, rbp) as readelf writes them; rbp is "" where it is kept."""
    kind, words = rule & table.KIND_BITS, rule >> table.WORDS_SHIFT
    saved = rule >> table.SAVED_SHIFT & table.SAVED_BITS
    words -= 1 << 16 if words >> 15 else 0
    base = BASES.get(kind, "exp")
    where = "" if saved == table.KEPT else "exp" if saved == table.AT_BP else f"c-{8 * saved}"
    return (f"{base}{8 * words:+}", where) if kind in BASES else ("exp", "")


def expected_rows(path: str) -> list[tuple[int, str, str, str]]:
    """(address, CFA, rbp, return address) of every line that readelf has."""
    text = subprocess.run(["readelf", "--debug-dump=frames-interp", path], capture_output=True, text=True, check=False,
                          env={**os.environ, "LC_ALL": "C"}).stdout
    found, columns = [], list[str]()
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["LOC"]:
            columns = words[1:]
        elif re.match(r"[0-9a-f]{16} \S+ ", line) and len(words) == len(columns) + 1:
            row = dict(zip(columns, words[1:]))
            saved = row.get("rbp", "u")
            if int(words[0], 16):  # a CIE's has none
                found.append((int(words[0], 16), row["CFA"], "" if saved == "u" else saved, row["ra"]))
    return found


@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf")
def test_rules_are_those_of_readelf() -> None:
    if not os.path.exists(LIBC):
        pytest.skip(f"no {LIBC}")
    loads, offsets, rules = read_rows(LIBC)
    assert offsets == sorted(offsets)
    compared = 0
    for address, cfa, saved, back in expected_rows(LIBC):
        offset = next(address - low + start for low, high, start in loads if low <= address < high)
        rule = rules[bisect_right(offsets, offset) - 1]
        if back == "u":
            assert rule == table.OUTERMOST
        elif cfa != "exp" and back == "c-8" and cfa.startswith(("rsp", "rbp")):
            assert tell_rule(rule) == (cfa, saved), hex(address)
            compared += 1
        elif cfa != "exp":
            assert rule & table.KIND_BITS == table.UNKNOWN, hex(address)
    assert compared > 10_000


def test_each_kind_of_rule_is_there() -> None:
    """Functions, what lies between them, those that nothing has called, signal frames, the PLT."""
    if not os.path.exists(LIBC):
        pytest.skip(f"no {LIBC}")
    kinds = {rule & table.KIND_BITS for rule in read_rows(LIBC)[2]}
    assert {table.NO_TABLE, table.OUTERMOST, table.SP, table.BP, table.PLT, table.SIGNAL} <= kinds


def test_pages_of_a_large_file_make_one_table() -> None:
    path = os.path.realpath(LIBC)
    if not os.path.exists(path):
        pytest.skip(f"no {LIBC}")
    file, rows, following = files.open_elf(path), b"", 0
    while not rows or following:
        found = file.unwind_rows(following)
        assert found is not None
        rows, following = rows + found[0], found[1]
    assert [offset for offset, _ in table.ROW.iter_unpack(rows)] == read_rows(path)[1]


@pytest.mark.parametrize(("memory", "rows"), [(128 << 20, 1 << 21), (32 << 20, 1 << 19), (100 << 20, 1 << 20)])
def test_room_is_an_eighth_of_the_memory(memory: int, rows: int) -> None:
    assert table.unwind_rows(memory) == rows
