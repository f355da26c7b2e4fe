"""Only the units of debug information that may name something are parsed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support import compile_c

pytest.importorskip("elftools", reason="pyelftools is not installed")

from sonde.kernel.foreign import dwarf
from sonde.kernel.foreign.dwarf_units import units_naming
from sonde.kernel.foreign.elf import Elf

FIRST = """
struct shared_by_both { int a; } shared;
struct only_here { long b; char c[60]; } mine;
struct longer_than_tail { int x; } longer;
struct tail { short y; } short_one;
int other(void);
int main(void) { return other() + shared.a + (int)mine.b + longer.x + short_one.y; }
"""
SECOND = "struct shared_by_both { int a; } also_shared; int other(void) { return also_shared.a; }\n"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Elf:
    folder = tmp_path_factory.mktemp("units")
    (folder / "second.c").write_text(SECOND)
    path: Path = compile_c(FIRST, folder, "first", "-gdwarf-5", str(folder / "second.c"))
    return Elf(os.open(path, os.O_RDONLY), str(path))


@pytest.mark.parametrize(("name", "units", "size"), [
    ("shared_by_both", 2, 4), ("only_here", 1, 72), ("tail", 1, 2), ("longer_than_tail", 1, 4), ("nowhere", 0, None)])
def test_types_by_name(program: Elf, name: str, units: int, size: int | None) -> None:
    info = dwarf.debug_info(program)
    assert isinstance(info, dwarf.DebugInfo)
    assert len(list(units_naming(info.dwarf, name))) == units
    found = dwarf.named_type(program, f"struct {name}")
    assert (found and found.size) == size
    assert dwarf.named_type(program, f"union {name}") is None
