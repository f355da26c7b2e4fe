"""Rows of unwind tables, against what binutils says of the same files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from bisect import bisect_right

import pytest

from sonde.arch import ARCHES
from sonde.base.memory_budget import UNWIND_ROW, Memory
from sonde.kernel.foreign import files
from sonde.kernel.foreign.eh_frame import UnwindRow, UnwindTable
from sonde.kernel.foreign.elf import PT_LOAD, Elf
from sonde.kernel.foreign.unwind_rows import LinkRules, pack_rows
from sonde.layouts import unwind_format as table

LIBC = "/lib/x86_64-linux-gnu/libc.so.6"
# Of aarch64: this machine's, or that of the vm tier's guests, if they have been here.
LIBCS_LINKED = ("/lib/aarch64-linux-gnu/libc.so.6", os.path.expanduser(
    "~/.cache/sonde-vm/root-bookworm-arm64/usr/lib/aarch64-linux-gnu/libc.so.6"))
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


def tell_linked_rule(rule: int) -> tuple[str, str, str]:
    """(CFA, x29, return address) as readelf writes them, but for a frame pointer that is lost: "lost"."""
    kind, words = rule & table.KIND_BITS, rule >> table.DISTANCE_SHIFT
    lies = rule >> table.LIES_SHIFT & table.LIES_BITS
    saved = "" if kind in (table.SP_KEPT, table.BP_KEPT) else "lost" if kind in (table.SP_GONE, table.BP_GONE) else \
        f"c-{8 * lies + 8}"
    return f"{'x29' if kind & 1 else 'sp'}{8 * words:+}", saved, f"c-{8 * lies}" if lies else ""


def expected_rows(path: str, frame_pointer: str = "rbp") -> list[tuple[int, str, str, str]]:
    """(address, CFA, frame pointer, return address) of every line that readelf has."""
    text = subprocess.run(["readelf", "--debug-dump=frames-interp", path], capture_output=True, text=True, check=False,
                          env={**os.environ, "LC_ALL": "C"}).stdout
    found, columns = [], list[str]()
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["LOC"]:
            columns = words[1:]
        elif re.match(r"[0-9a-f]{16} \S+ ", line) and len(words) == len(columns) + 1:
            row = dict(zip(columns, words[1:]))
            saved = row.get(frame_pointer, "u")
            if int(words[0], 16):  # a CIE's has none
                found.append((int(words[0], 16), row["CFA"], "" if saved == "u" else saved, row.get("ra", "")))
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


@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf")
def test_rules_where_calls_leave_the_return_address_in_a_register() -> None:
    libc = next(filter(os.path.exists, LIBCS_LINKED), None)
    if libc is None:
        pytest.skip("no C library of aarch64 is here")
    loads, offsets, rules = read_rows(libc)
    assert offsets == sorted(offsets)
    compared = unknown = 0
    for address, cfa, saved, back in expected_rows(libc, "x29"):
        offset = next(address - low + start for low, high, start in loads if low <= address < high)
        rule = rules[bisect_right(offsets, offset) - 1]
        if rule & table.KIND_BITS in (table.OUTERMOST, table.UNKNOWN):  # readelf says "u" of undefined, too
            unknown += 1
            continue
        base, pointer, lies = tell_linked_rule(rule)
        wanted = "" if back == "u" else back
        assert (base, lies) == (cfa, wanted) and pointer in (saved, "lost"), hex(address)
        compared += 1
    assert compared > 5000 and unknown < 20


def linked_rule(cfa: object, **rules: tuple[str, object]) -> int:
    """That of a row, as binutils' names of registers say it."""
    return LinkRules(ARCHES["aarch64"]).rule_of(UnwindRow(cfa, {int(name[1:]): rule for name, rule in rules.items()}))


def test_rules_of_a_machine_with_a_link_register() -> None:
    assert linked_rule((31, 0)) == table.pack_linked_rule(table.SP_KEPT)
    assert linked_rule((31, 48), x29=("offset", -48), x30=("offset", -40)) == table.pack_linked_rule(table.SP, 6, 5)
    assert linked_rule((29, 48), x29=("offset", -48), x30=("offset", -40)) == table.pack_linked_rule(table.BP, 6, 5)
    assert linked_rule((31, 32), x30=("offset", -24)) == table.pack_linked_rule(table.SP_KEPT, 4, 3)
    assert linked_rule((31, 32), x29=("offset", -8), x30=("offset", -32)) == table.pack_linked_rule(table.SP_GONE, 4, 4)
    assert linked_rule((31, 16), x29=("offset", -16)) == table.pack_linked_rule(table.SP_GONE, 2)
    large = linked_rule((31, 40032), x29=("offset", -40032), x30=("offset", -40024))
    assert large == table.pack_linked_rule(table.SP, 5004, 5003) and tell_linked_rule(large)[0] == "sp+40032"
    assert linked_rule((31, 0), x30=("undefined", 0)) == table.pack_rule(table.OUTERMOST)
    for cfa, back in (((5, 16), -8), ((31, -16), -8), ((31, 12), -8), (b"\x8f\x00", -8), ((31, 16), 8),
                      ((31, 1 << 20), -8), ((31, 16), -8 << 14)):
        assert linked_rule(cfa, x30=("offset", back)) == table.pack_rule(table.UNKNOWN)
    assert linked_rule((31, 16), x30=("expression", b"")) == table.pack_rule(table.UNKNOWN)


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
    assert Memory(memory).unwind_rows == rows and table.ROW.size == UNWIND_ROW
