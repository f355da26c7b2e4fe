"""Debug information of user programs: prototypes of functions and the places of source lines.

DWARF is read by pyelftools (the extra ``dwarf``), imported on first use. The information is in the file itself, or in
its separate debug file (see elf).
"""

from __future__ import annotations

import os
import time
from weakref import WeakKeyDictionary

from ...base.fast_stdlib import TypeVar, bisect_right
from ...base.installation import install_command
from ...errors import MachineError
from ...spec import SourceLine, SourceLines, UserPlace, UserPrototype
from ...types import Array, Str, Struct, StructField, Type, round_up
from . import dwarf_go, dwarf_places
from .dwarf_ranges import address_ranges, low_pc, unit_of
from .dwarf_types import (
    TypeConverter,
    attribute_number,
    attribute_text,
    attribute_value,
    find_origin,
    format_declaration,
    is_struct,
    name_of,
    qualified_name,
    referred_die,
    tagged_name,
)
from .dwarf_units import units_naming
from .elf import Elf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from elftools.dwarf.compileunit import CompileUnit
    from elftools.dwarf.die import DIE
    from elftools.dwarf.dwarfinfo import DWARFInfo
    from elftools.dwarf.lineprogram import LineState

T = TypeVar("T")
_SCOPES = ("DW_TAG_namespace", "DW_TAG_class_type", "DW_TAG_structure_type", "DW_TAG_union_type", "DW_TAG_module")
MISSING = "reading debug information needs pyelftools, which is not installed"


class DebugInfo:
    """The DWARF of one file. Use :func:`debug_info`, which caches them."""

    def __init__(self, elf: Elf, dwarf: DWARFInfo) -> None:
        self._elf = elf
        self.dwarf = dwarf
        self._types = TypeConverter()
        self._units: list[tuple[CompileUnit, list[tuple[int, int]]]] | None = None
        self._functions: dict[int, dict[int, DIE]] = {}  # of a unit (by its offset): address → entry
        self._cached: dict[tuple[str, int], Any] = {}

    def cached(self, key: tuple[str, int], make: Callable[[], T]) -> T:
        """The cached value for a key, computed on first use."""
        if key not in self._cached:
            self._cached[key] = make()
        value: T = self._cached[key]
        return value

    # units

    def compile_units(self) -> list[tuple[CompileUnit, list[tuple[int, int]]]]:
        """(compile unit, address ranges) of all of them."""
        if self._units is None:
            self._units = [(unit, address_ranges(self.dwarf, unit, unit.get_top_DIE()))
                           for unit in self.dwarf.iter_CUs()]
        return self._units

    def unit_at(self, address: int) -> CompileUnit | None:
        """The unit whose code an address is in."""
        table = self.dwarf.get_aranges()
        offset = table.cu_offset_at_addr(address) if table is not None else None
        if offset is not None:
            return self.dwarf.get_CU_at(offset)
        return next((unit for unit, ranges in self.compile_units()
                     if any(low <= address < high for low, high in ranges)), None)

    # functions

    def function_starting_at(self, address: int) -> tuple[CompileUnit, DIE] | None:
        """(unit, entry) of the function that begins at an address."""
        unit = self.unit_at(address)
        if unit is None:
            return None
        if unit.cu_offset not in self._functions:
            self._functions[unit.cu_offset] = {
                low: die for die in iter_subprograms(unit.get_top_DIE()) if (low := low_pc(die)) is not None}
        die = self._functions[unit.cu_offset].get(address)
        return (unit, die) if die is not None else None

    def function_prototype(self, address: int) -> UserPrototype | None:
        """Parameters and result of the function that begins at a virtual address; None if it is not described."""
        entry = self.function_starting_at(address)
        if entry is None:
            return None
        unit, die = entry
        entries = [child for child in die.iter_children() if child.tag == "DW_TAG_formal_parameter"]
        parameters = [child for child in entries if not dwarf_go.is_result(child)]
        described = [find_origin(parameter) for parameter in parameters]
        result = referred_die(find_origin(die, "type"), "type")
        kinds = [referred_die(parameter, "type") for parameter in described]
        names = [name_of(parameter) or f"arg{index}" for index, parameter in enumerate(described)]
        finder = dwarf_places.LocationFinder(self.dwarf, unit, die, self._elf.machine,
                                             self._keeps_convention(unit, address))
        places = dict(zip(names, finder.find_locations(parameters, kinds, result)))
        declared = [format_declaration(kind, name) for name, kind in zip(names, kinds)]
        prototype = UserPrototype(
            self._layout_values(die, "args", dict(zip(names, kinds)), places), places,
            self._types.convert_type(result) if result is not None else None,
            [*declared, format_declaration(result, "retval") if result is not None else "void"])
        if dwarf_go.made_by_go(unit):
            self._add_results(prototype, die, kinds, finder, [find_origin(child) for child in entries
                                                              if dwarf_go.is_result(child)])
        return prototype

    def _add_results(self, prototype: UserPrototype, die: DIE, parameters: list[DIE | None],
                     finder: dwarf_places.LocationFinder, results: list[DIE]) -> None:
        """The results of a function of Go. Those without a name are ``r0``, ``r1`` ..., by their positions."""
        kinds = [referred_die(result, "type") for result in results]
        names = [name if (name := name_of(result)).isidentifier() and name != "_" else f"r{index}"
                 for index, result in enumerate(results)]  # ~r1; ~b1 of one that is called _
        prototype.result_locations = dict(zip(names, finder.find_results(parameters, kinds)))
        prototype.results = self._layout_values(die, "results", dict(zip(names, kinds)), prototype.result_locations)
        declared = [format_declaration(kind, name) for name, kind in zip(names, kinds)]
        prototype.declarations[-1:] = [f"results ({', '.join(declared)})"] if results else ["void"]

    def _layout_values(self, die: DIE, kind: str, kinds: dict[str, DIE | None],
                       locations: dict[str, UserPlace]) -> Struct:
        """Those that can be read, as a struct with natural alignment."""
        at, placed = 0, list[StructField]()
        for name, described in kinds.items():
            type = self._types.convert_type(described)
            if locations[name].kind != "unknown" and type.size:
                at = round_up(at, type.align if not isinstance(type, Str | Array) else 1)
                placed.append(StructField(name, type, at))
                at += type.size
        members = tuple(placed)
        return Struct(f"_{kind}_{qualified_name(find_origin(die))}_{die.offset}", round_up(at, 8), lambda: members)

    def _keeps_convention(self, unit: CompileUnit, address: int) -> bool:
        """Whether a function gets its parameters as the calling convention says, used or not: GCC changes that in
        copies only, whose names it extends (``f.isra.0``, create_version_clone_with_body() in gcc/cgraphclones.cc)."""
        made_by = attribute_text(unit.get_top_DIE(), "producer")
        return made_by.startswith("GNU C") and "." not in self._symbol_at(address)

    def why_undescribed(self) -> str:
        """What is most likely about a function that has no entry."""
        for unit in self.dwarf.iter_CUs():
            attributes = unit.get_top_DIE().attributes
            if "DW_AT_dwo_name" in attributes or "DW_AT_GNU_dwo_name" in attributes:
                return "some of it is in .dwo files, which are not read: compile without -gsplit-dwarf"
        return "it may come from a part that was compiled without -g"

    def struct_members(self, entry: int) -> tuple[StructField, ...]:
        """The members of the struct that an entry describes."""
        return self._types.struct_members(self.dwarf.get_DIE_from_refaddr(entry))

    def named_type(self, name: str) -> Type | None:
        """``struct x`` or ``union x`` as in the first unit that defines it."""
        for unit in units_naming(self.dwarf, name.partition(" ")[2]):
            for die in unit.get_top_DIE().iter_children():
                if name_of(die) and is_struct(die) and tagged_name(die) == name \
                        and not attribute_value(die, "declaration"):
                    return self._types.convert_type(die)
        return None

    # source lines

    def source_lines(self, source: str, line: int, column: int) -> SourceLines:
        """Where the code of a line begins: one place for each function (or inlined copy of one) that has it."""
        rows: dict[str, list[tuple[CompileUnit, int]]] = {}
        near: set[int] = set()
        for unit, _ in self.compile_units():
            for path, state in line_rows(self.dwarf, unit, source):
                near.add(state.line)
                if state.line == line and (not column or state.column == column):
                    rows.setdefault(path, []).append((unit, state.address))
        if len(rows) > 1:
            return SourceLines(problem=f"several source files are called {source}",
                               hints=[f"write more of the path: {', '.join(sorted(rows)[:4])}"])
        if not rows:
            return self._explain_no_line(source, line, column, near)
        path, starts = next(iter(rows.items()))
        places: dict[int, tuple[int, str]] = {}
        for unit, address in sorted(starts, key=lambda row: row[1]):
            block, function = self._innermost_block(unit, address)
            places.setdefault(block, (address, function))
        return SourceLines([SourceLine(path, function, offset) for address, function in sorted(places.values())
                            if (offset := self._elf.address_to_offset(address)) is not None])

    def _explain_no_line(self, source: str, line: int, column: int, near: set[int]) -> SourceLines:
        if not near:
            known = sorted({os.path.basename(path) for unit, _ in self.compile_units()
                            for path in line_table_files(self.dwarf, unit).values()})
            from difflib import get_close_matches
            close = get_close_matches(os.path.basename(source), known, 3)
            return SourceLines(problem=f"no source file {source} is part of it",
                               hints=[f"did you mean {' or '.join(close)}?"] if close else [])
        if column and line in near:
            return SourceLines(problem=f"no code begins at column {column} of line {line}",
                               hints=["leave the column out to get the whole line"])
        nearest = sorted(sorted(near, key=lambda n: (abs(n - line), n))[:4])
        return SourceLines(problem=f"line {line} of {source} has no code",
                           hints=[f"the nearest lines that have are {', '.join(map(str, nearest))}"])

    def _innermost_block(self, unit: CompileUnit, address: int) -> tuple[int, str]:
        """(number of the innermost function or inlined copy that contains an address, the function's name)."""
        for die in iter_subprograms(unit.get_top_DIE()):
            if any(low <= address < high for low, high in address_ranges(self.dwarf, unit, die)):
                return self._innermost_inlined(unit, die,
                                               address), self._symbol_at(address) or name_of(find_origin(die, "name"))
        return 0, self._symbol_at(address)

    def _innermost_inlined(self, unit: CompileUnit, die: DIE, address: int) -> int:
        return int([die, *self.inlined_entries(unit, die, address)][-1].offset)

    def inlined_entries(self, unit: CompileUnit, die: DIE, address: int) -> list[DIE]:
        """The inlined copies in a function that contain an address, outermost first."""
        copies, pending = [], list(die.iter_children())
        while pending:
            child = pending.pop()
            if child.tag not in ("DW_TAG_inlined_subroutine", "DW_TAG_lexical_block"):
                continue
            if any(low <= address < high for low, high in address_ranges(self.dwarf, unit, child)):
                if child.tag == "DW_TAG_inlined_subroutine":
                    copies.append(child)
                pending = list(child.iter_children())
        return copies

    def probe_name(self, function: DIE) -> str:
        """The name by which a function with code can be probed."""
        low = low_pc(function)
        return (self._symbol_at(low) if low is not None else "") or name_of(find_origin(function))

    def _symbol_at(self, address: int) -> str:
        symbol = self._elf.function_at(address)
        return symbol[0] if symbol else ""


def iter_subprograms(top: DIE, end: float = 0.0) -> Iterator[DIE]:
    """Functions of a unit, those in namespaces and classes included; until time.process_time() is ``end``, if given."""
    pending = [top]
    while pending:
        for child in pending.pop().iter_children():
            if end and time.process_time() > end:
                return
            if child.tag == "DW_TAG_subprogram":
                yield child
            elif child.tag in _SCOPES and child.has_children:
                pending.append(child)


def innermost_entries(info: DebugInfo, unit: CompileUnit, address: int) -> list[DIE]:
    """The function of a unit that contains an address, and the inlined copies in it that do, from the outside in."""
    functions = info.cached(("functions", unit.cu_offset), lambda: sorted(
        [(low, high, die.offset, die) for die in iter_subprograms(unit.get_top_DIE())
         for low, high in address_ranges(info.dwarf, unit, die)]))
    at = bisect_right(functions, address, key=lambda row: row[0]) - 1
    if at < 0 or address >= functions[at][1]:
        return []
    die = functions[at][3]
    return [die, *info.inlined_entries(unit, die, address)]


def line_table_files(dwarf: DWARFInfo, unit: CompileUnit) -> dict[int, str]:
    """Source files of a unit's line table by their index in it."""
    program = dwarf.line_program_for_CU(unit)
    if program is None:
        return {}
    header, old = program.header, program.header.version < 5
    directories = [_decode_text(d) for d in header.include_directory]
    home = _decode_text(attribute_value(unit.get_top_DIE(), "comp_dir") or b"")
    if old:
        directories.insert(0, home)
    files = {}
    for index, entry in enumerate(header.file_entry):
        number = entry.dir_index if entry.dir_index is not None else 0
        directory = directories[number] if number < len(directories) else ""
        files[index + old] = os.path.normpath(os.path.join(home, directory, _decode_text(entry.name)))
    return files


def declaring_file(dwarf: DWARFInfo, entry: DIE) -> str:
    """The source file in which an entry is declared; "" if that is not given."""
    return line_table_files(dwarf, unit_of(entry)).get(attribute_number(entry, "decl_file", -1), "")


def _decode_text(raw: object) -> str:
    return raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else str(raw)


def line_rows(dwarf: DWARFInfo, unit: CompileUnit, source: str) -> Iterator[tuple[str, LineState]]:
    """(source file's path, row) of a unit's line table, for files whose path ends in ``source``: rows that a debugger
    would stop at."""
    tail = os.path.normpath(source)
    wanted = {number: path for number, path in line_table_files(dwarf, unit).items()
              if path == tail or path.endswith("/" + tail.lstrip("/")) and not tail.startswith("/")}
    program = dwarf.line_program_for_CU(unit) if wanted else None
    for entry in program.get_entries() if program is not None else ():
        state = entry.state
        if state is not None and not state.end_sequence and state.is_stmt and state.file in wanted and state.address:
            yield wanted[state.file], state


# ---- opening


def debug_info(elf: Elf) -> DebugInfo | UserPrototype:
    """The debug information of a file, or (as a prototype's ``problem``) why there is none; read once."""
    known = _known.get(elf)
    if known is None:
        known = _known[elf] = _open_debug_info(elf)
    return known


_known: WeakKeyDictionary[Elf, DebugInfo | UserPrototype] = WeakKeyDictionary()


def _open_debug_info(elf: Elf) -> DebugInfo | UserPrototype:
    file = elf.with_debug_info()
    if file is None:
        return UserPrototype(problem=f"{elf.path} has no debug information",
                             hints=["compile it with -g, or install its debug package"])
    if file.start:
        return UserPrototype(problem=f"the debug information of {elf.path} is not read: it is a member of an archive")
    try:
        from elftools.elf.elffile import ELFFile
    except ImportError:
        return UserPrototype(problem=MISSING, hints=[install_command("dwarf")])
    try:
        with os.fdopen(os.dup(file.descriptor), "rb") as stream:
            return DebugInfo(elf, ELFFile(stream).get_dwarf_info(relocate_dwarf_sections=False))
    except MemoryError:
        raise
    except Exception as problem:  # pyelftools on a damaged file may raise anything
        return UserPrototype(problem=unreadable_message(file.path, problem))


def unreadable_message(path: str, problem: Exception) -> str:
    """The message about damaged debug information."""
    return f"the debug information of {path} cannot be read: {str(problem)[:200] or type(problem).__name__}"


def user_prototype(elf: Elf, offset: int) -> UserPrototype:
    """The answer of World.user_prototype."""
    info = debug_info(elf)
    if isinstance(info, UserPrototype):
        return info
    try:
        address = elf.offset_to_address(offset)
        return address is not None and info.function_prototype(address) or UserPrototype(
            problem=f"the debug information of {elf.path} does not describe this function",
            hints=[info.cached(("undescribed", 0), info.why_undescribed)])
    except MemoryError:
        raise
    except Exception as problem:
        return UserPrototype(problem=unreadable_message(elf.path, problem))


def source_lines(elf: Elf, source: str, line: int, column: int) -> SourceLines:
    """The answer of World.source_lines."""
    info = debug_info(elf)
    if isinstance(info, UserPrototype):
        return SourceLines(problem=info.problem, hints=info.hints)
    try:
        return info.source_lines(source, line, column)
    except MemoryError:
        raise
    except Exception as problem:
        return SourceLines(problem=unreadable_message(elf.path, problem))


def struct_members(elf: Elf, entry: int) -> tuple[StructField, ...]:
    """The members of the struct that an entry describes."""
    return _ask(elf, lambda info: info.struct_members(entry))


def named_type(elf: Elf, name: str) -> Type | None:
    """The struct or union of that name."""
    return _ask(elf, lambda info: info.named_type(name))


def _ask(elf: Elf, question: Callable[[DebugInfo], T]) -> T:
    """The answer from a file's debug information. MachineError."""
    info = debug_info(elf)
    if isinstance(info, UserPrototype):
        raise MachineError(info.problem, info.hints)
    try:
        return question(info)
    except MemoryError:
        raise
    except Exception as problem:
        raise MachineError(unreadable_message(elf.path, problem)) from None
