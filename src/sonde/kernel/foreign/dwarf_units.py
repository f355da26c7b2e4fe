"""Which units of a program's debug information may say something of a name.

Debug information has no table of all names, and parsing all of a large program's takes minutes. A name is stored once
in .debug_str, and an entry refers to it by four bytes: only units with these bytes need be parsed.
"""

from __future__ import annotations

import time
from io import BytesIO
from sys import byteorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from elftools.dwarf.compileunit import CompileUnit
    from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DWARFInfo

_MOST = 64  # occurrences of a name's text; where there are more, all units may mean it


def units_naming(dwarf: DWARFInfo, name: str, end: float = float("inf")) -> Iterator[CompileUnit]:
    """The units in which an entry may have that name, and perhaps others, in the file's order, until
    time.process_time() is ``end``."""
    text = name.encode("utf-8", "surrogateescape") + b"\0"
    offsets = _find_all(_section_bytes(dwarf.debug_str_sec), text)  # it may be the tail of a longer string
    if dwarf.debug_str_offsets_sec is not None or len(offsets) > _MOST:  # clang's units refer to strings by index
        return dwarf.iter_CUs()
    return _units_containing(dwarf, [text, *[offset.to_bytes(4, byteorder) for offset in offsets]], end)


def units_referring(dwarf: DWARFInfo, entries: list[int], end: float) -> Iterator[CompileUnit]:
    """The units that may refer to one of these entries of other units, by offset, as link-time optimisation makes
    them."""
    return _units_containing(dwarf, [offset.to_bytes(4, byteorder) for offset in entries[:_MOST]], end)


def _units_containing(dwarf: DWARFInfo, needles: list[bytes], end: float) -> Iterator[CompileUnit]:
    data = _section_bytes(dwarf.debug_info_sec)
    wanted = [needle for needle in needles if needle in data]
    for unit in dwarf.iter_CUs() if wanted else ():
        if time.process_time() > end:
            return
        until = unit.cu_offset + unit.size
        if any(data.find(needle, unit.cu_offset, until) >= 0 for needle in wanted):
            yield unit


def _section_bytes(section: DebugSectionDescriptor | None) -> bytes:
    if section is None:
        return b""
    assert isinstance(section.stream, BytesIO)
    return section.stream.getvalue()


def _find_all(text: bytes, what: bytes) -> list[int]:
    offsets, at = [], text.find(what)
    while at >= 0:
        offsets.append(at)
        at = text.find(what, at + 1)
    return offsets
