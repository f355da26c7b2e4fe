"""Where a function without code of its own went: the copies that the compiler inlined into its callers.

Debug information describes each copy (DW_TAG_inlined_subroutine, DWARF 5 chapter 3.3.8), but has no table of them. Only
the units that may name the function, and those that refer to an entry found there, are read.
"""

from __future__ import annotations

import os
import time

from ...spec import Inlined, UserPrototype
from .dwarf import DebugInfo, debug_info, declaring_file, iter_subprograms, line_rows
from .dwarf_ranges import address_ranges
from .dwarf_types import attribute_number, attribute_text, attribute_value, find_origin, name_of, qualified_name
from .dwarf_units import units_naming, units_referring
from .elf import Elf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from elftools.dwarf.compileunit import CompileUnit
    from elftools.dwarf.die import DIE

# A unit, a function of it, and the copy of another that is inlined in it.
Copy: TypeAlias = "tuple[CompileUnit, DIE, DIE]"

SECONDS = 5.0  # of CPU time for reading units; what has been found by then is the answer
MOMENT = 0.3  # the same of a brief search
_BRIEF_BYTES = 128 << 10  # of .debug_info: a brief search does not begin with more
_BRIEF_COPIES, _BRIEF_UNIT = 50, 128 << 10  # with more copies, or in a larger unit, it looks for no line
_WITHIN = ("DW_TAG_lexical_block", "DW_TAG_inlined_subroutine", "DW_TAG_try_block", "DW_TAG_catch_block")


def inlined_copies(elf: Elf, name: str, brief: bool = False) -> Inlined | None:
    """The answer of World.inlined_copies; ``name`` is the function's, its linkage name, or one with C++ namespaces."""
    section = elf.find_section(".debug_info")
    if brief and (section is None or section.size > _BRIEF_BYTES):
        return None
    info = debug_info(elf)
    if isinstance(info, UserPrototype):
        return None
    try:
        copies = _Search(info, name, MOMENT if brief else SECONDS).find_copies()
        if not copies:
            return None
        callers = {info.probe_name(function) for _, function, _ in copies}
        short = len(copies) <= _BRIEF_COPIES and all(unit.size <= _BRIEF_UNIT for unit, _, _ in copies)
        return Inlined(sorted(callers - {""}), len(copies), _first_line(info, copies) if short or not brief else "")
    except MemoryError:
        raise
    except Exception:  # pyelftools on a damaged file may raise anything: then nothing is known
        return None


class _Search:
    """One search for a function, within a bound of CPU time."""

    def __init__(self, info: DebugInfo, name: str, seconds: float) -> None:
        self._end = time.process_time() + seconds
        self._dwarf = info.dwarf
        self._name = name
        self._own: list[int] = []  # offsets of the function's own entries

    def find_copies(self) -> list[Copy]:
        """(unit, function, the copy inlined into that function), in the order of the file."""
        copies: dict[int, Copy] = {}
        read = set[int]()
        for unit in self._candidate_units():
            if time.process_time() > self._end:
                break
            if unit.cu_offset not in read:
                read.add(unit.cu_offset)
                copies.update((copy.offset, (unit, function, copy)) for function, copy in self._copies_in_unit(unit))
        return [copies[offset] for offset in sorted(copies)]

    def _candidate_units(self) -> Iterator[CompileUnit]:
        yield from units_naming(self._dwarf, self._name.rpartition("::")[2], self._end)
        yield from units_referring(self._dwarf, self._own, self._end)  # which the former had

    def _copies_in_unit(self, unit: CompileUnit) -> Iterator[tuple[DIE, DIE]]:
        for function in iter_subprograms(unit.get_top_DIE(), self._end):
            if self._is_wanted(function):
                self._own.append(function.offset)
            pending = list(function.iter_children())
            while pending and time.process_time() < self._end:
                entry = pending.pop()
                if entry.tag in _WITHIN:
                    pending += entry.iter_children()
                    if entry.tag == "DW_TAG_inlined_subroutine" and self._is_wanted(entry):
                        yield function, entry

    def _is_wanted(self, entry: DIE) -> bool:
        named = find_origin(entry)
        if "::" in self._name:
            return qualified_name(named) == self._name
        return self._name in (name_of(named), _linker_name(entry))


def _linker_name(entry: DIE) -> str:
    return attribute_text(find_origin(entry, "linkage_name"), "linkage_name")


def _first_line(info: DebugInfo, copies: list[Copy]) -> str:
    """``file.c:12``: the function's first line that has code in every copy; "" if there is none."""
    declared = find_origin(copies[0][2], "decl_line")
    path, begin = declaring_file(info.dwarf, declared), attribute_number(declared, "decl_line")
    end = min([line for function in iter_subprograms(declared.cu.get_top_DIE())
               if (line := attribute_number(function, "decl_line")) > begin
               and attribute_value(function, "decl_file") == attribute_value(declared, "decl_file")], default=1 << 32)
    common: set[int] | None = None
    rows: dict[int, list[tuple[int, int]]] = {}  # of a unit: (line, address)
    for unit, _, copy in copies if path else ():
        if unit.cu_offset not in rows:
            rows[unit.cu_offset] = [(row.line, row.address) for _, row in line_rows(info.dwarf, unit, path)
                                    if begin <= row.line < end]
        within = address_ranges(info.dwarf, unit, copy)
        lines = {line for line, address in rows[unit.cu_offset] if any(low <= address < high for low, high in within)}
        common = lines if common is None else common & lines
    return f"{os.path.basename(path)}:{min(common)}" if common else ""
