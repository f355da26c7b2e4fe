"""Where the code of a debug information entry is."""

from __future__ import annotations

from typing import cast

from .dwarf_types import attribute_number, attribute_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from elftools.dwarf.compileunit import CompileUnit
    from elftools.dwarf.die import DIE
    from elftools.dwarf.dwarfinfo import DWARFInfo


def unit_of(die: DIE) -> CompileUnit:
    """The unit of an entry; a type unit, which has the same interface, has no entry with code."""
    return cast("CompileUnit", die.cu)


def low_pc(die: DIE) -> int | None:
    """The address of a function's first instruction; DW_AT_ranges (hot and cold part) begins with it."""
    low = attribute_value(die, "low_pc")
    if isinstance(low, int):
        return low
    if "DW_AT_ranges" in die.attributes:
        unit = unit_of(die)
        ranges = address_ranges(unit.dwarfinfo, unit, die)
        return ranges[0][0] if ranges else None
    return None


def address_ranges(dwarf: DWARFInfo, unit: CompileUnit, die: DIE) -> list[tuple[int, int]]:
    """Address ranges of an entry."""
    low = attribute_value(die, "low_pc")
    if "DW_AT_high_pc" in die.attributes and isinstance(low, int):
        high = die.attributes["DW_AT_high_pc"]
        return [(low, high.value if high.form == "DW_FORM_addr" else low + high.value)]
    if "DW_AT_ranges" not in die.attributes:
        return []
    lists = dwarf.range_lists()
    if lists is None:
        return []
    base = attribute_number(unit.get_top_DIE(), "low_pc")
    ranges = []
    from elftools.dwarf.ranges import BaseAddressEntry
    for entry in lists.get_range_list_at_offset(attribute_number(die, "ranges"), cu=unit):
        if isinstance(entry, BaseAddressEntry):
            base = entry.base_address
        else:
            start = 0 if entry.is_absolute else base
            ranges.append((start + entry.begin_offset, start + entry.end_offset))
    return ranges
