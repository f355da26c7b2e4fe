"""The source code that an address belongs to, by debug information: the function, and those inlined there."""

from __future__ import annotations

from ...base.fast_stdlib import bisect_right
from ...errors import MachineError
from ...spec import UserPrototype
from .dwarf import MISSING, DebugInfo, debug_info, innermost_entries, line_table_files
from .dwarf_types import attribute_number, attribute_text, find_origin, name_of
from .elf import Elf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from elftools.dwarf.compileunit import CompileUnit
    from elftools.dwarf.die import DIE

MOST = 32  # levels of inlining

Place = tuple[str, str, int]  # function, source file, line
# addresses at which lines begin, ascending; for each the file's index and the line, 0 where code ends
Rows = tuple[list[int], list[tuple[int, int]]]


def code_places(elf: Elf, address: int) -> list[Place]:
    """The function of an address after those inlined there, innermost first; [] if it is not known."""
    info = debug_info(elf)
    if isinstance(info, UserPrototype):
        if info.problem == MISSING:
            raise MachineError(info.problem, info.hints)
        return []
    try:
        return _find_places(info, address)
    except MemoryError:
        raise
    except Exception:  # pyelftools on a damaged file may raise anything: then nothing is known
        return []


def _find_places(info: DebugInfo, address: int) -> list[Place]:
    unit = info.unit_at(address)
    if unit is None:
        return []
    entries = innermost_entries(info, unit, address)[-MOST:]
    files = info.cached(("files", unit.cu_offset), lambda: line_table_files(info.dwarf, unit))
    file, line = _line_at(info, unit, address)
    frames: list[Place] = []
    for entry in reversed(entries):
        frames.append((_name(entry), files.get(file, ""), line))
        file, line = attribute_number(entry, "call_file", -1), attribute_number(entry, "call_line")
    return frames or ([("", files.get(file, ""), line)] if line else [])


def _name(entry: DIE) -> str:
    """The linkage name, where that differs from the source's."""
    linked = attribute_text(find_origin(entry, "linkage_name"), "linkage_name")
    return linked or name_of(find_origin(entry))


def _line_at(info: DebugInfo, unit: CompileUnit, address: int) -> tuple[int, int]:
    """(index of the file, line) of an address; line 0 where it is not known."""
    addresses, rows = info.cached(("lines", unit.cu_offset), lambda: _read_rows(info, unit))
    at = bisect_right(addresses, address) - 1
    return rows[at] if at >= 0 else (-1, 0)


def _read_rows(info: DebugInfo, unit: CompileUnit) -> Rows:
    program = info.dwarf.line_program_for_CU(unit)
    rows: list[tuple[int, int, int, int]] = []
    for entry in program.get_entries() if program is not None else ():
        state = entry.state
        if state is not None:
            # where one sequence of code ends another may begin; of several rows for one address the last counts
            rows.append((state.address, 0 if state.end_sequence else 1, state.file,
                         0 if state.end_sequence else state.line))
    rows.sort(key=lambda row: row[:2])
    return [row[0] for row in rows], [(row[2], row[3]) for row in rows]
