"""Where the code of an entry of debug information lies."""

from __future__ import annotations

from typing import Any

from .dwarf_types import attribute_value


def low_pc(die: Any) -> int | None:
    """The address of a function's first instruction; DW_AT_ranges (hot and cold part) begins with that."""
    low = attribute_value(die, "low_pc")
    if isinstance(low, int):
        return low
    if "DW_AT_ranges" in die.attributes:
        ranges = address_ranges(die.cu.dwarfinfo, die.cu, die)
        return ranges[0][0] if ranges else None
    return None


def address_ranges(dwarf: Any, unit: Any, die: Any) -> list[tuple[int, int]]:
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
    base = attribute_value(unit.get_top_DIE(), "low_pc", 0)
    found = []
    for entry in lists.get_range_list_at_offset(attribute_value(die, "ranges"), cu=unit):
        if hasattr(entry, "base_address"):
            base = entry.base_address
        else:
            start = 0 if entry.is_absolute else base
            found.append((start + entry.begin_offset, start + entry.end_offset))
    return found
