"""The reader's answers, one function for each row of ``questions``: from files to plain data."""

from __future__ import annotations

import os
from sys import byteorder

from ...errors import MachineError
from ...layouts.cpython import DEBUG_OFFSETS
from ...types import Struct, StructField
from ..names.symbol_file import ORIGIN
from . import demangle as mangled
from . import go_build, indirect, ld_cache, return_hazards, usdt
from .archive import find_member, list_members
from .dwarf_numbers import DamagedTablesError
from .eh_frame import MOST_RULES, UnwindTable
from .elf import Elf
from .function_ends import FunctionReader
from .gopclntab import Program
from .opening import MEMBER
from .process_pages import UnreadableError
from .python_look import Look, pack_look
from .symbol_table import JitMapTable
from .types_by_wire import pack_type
from .unwind_rows import pack_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...base.json_checks import Json
    from ...spec import UserPlace
    from .python_task_lists import Modules


MOST_SOURCE = 2 << 20  # bytes of a source file
LONGEST_LINE = 400     # characters that are shown of a line
_NARROW = "the debug information of 32-bit programs is not read for arguments"


class Subject:
    """A file that is asked about, and what has been read from it."""

    def __init__(self, descriptors: list[int], path: str) -> None:
        _, _, self._member = path.partition("\0")  # see opening.name_member
        self.path = path.replace("\0", MEMBER)
        self.descriptors = descriptors  # of the file, and of its debug file if there is one
        self._elf: Elf | None = None
        self._frames: UnwindTable | None = None
        self._functions: FunctionReader | None = None
        self.jit: JitMapTable | None = None
        self.modules: Modules = {}  # of a Python process

    @property
    def elf(self) -> Elf:
        if self._elf is None:
            extent = find_member(self.descriptors[0], self._member) if self._member else (0, None)
            self._elf = Program(self.descriptors[0], self.path, *extent)
            self._elf.debug = Elf(self.descriptors[1], self.path) if len(self.descriptors) > 1 else None
        return self._elf

    @property
    def unwind_table(self) -> UnwindTable:
        if self._frames is None:
            self._frames = UnwindTable(self.elf)
        return self._frames

    @property
    def function_reader(self) -> FunctionReader:
        if self._functions is None:
            self._functions = FunctionReader(self.elf)
        return self._functions

    def read(self, at: int, size: int) -> bytes:
        """Bytes of a file that is not ELF."""
        return os.pread(self.descriptors[0], size, at)


def describe(subject: Subject) -> Json:
    elf = subject.elf
    segments = [(s.type, s.flags, elf.start + s.offset, s.address, s.file_size, s.memory_size) for s in elf.segments]
    return (elf.type, elf.machine, segments, elf.build_id.hex(),
            elf.has_symbols, elf.has_debug_info, elf.debug_link)


def functions(subject: Subject, first: int) -> Json:
    return subject.elf.functions().function_page(first, subject.elf.address_to_offset)


def indirect_functions(subject: Subject) -> Json:
    return subject.elf.indirect_functions()


def indirect_slots(subject: Subject, names: list[str]) -> Json:
    return indirect.indirect_slots(subject.elf, names)


def origin(subject: Subject) -> Json:
    section = subject.elf.find_section(ORIGIN)
    text = subject.elf.read(section.offset, min(section.size, 4096)) if section is not None else b""
    return text.decode("utf-8", "surrogateescape")


def archive_members(subject: Subject) -> Json:
    return list_members(subject.descriptors[0])


def needed(subject: Subject) -> Json:
    return subject.elf.needed


def return_hazard(subject: Subject) -> Json:
    return return_hazards.return_hazard(subject.elf)


def go_version(subject: Subject) -> Json:
    return go_build.go_version(subject.elf)


def function_ends(subject: Subject, offsets: list[int]) -> Json:
    return subject.function_reader.read_ends(offsets)


def object(subject: Subject, name: str) -> Json:
    return subject.elf.find_object(name)


def around(subject: Subject, address: int) -> Json:
    return subject.elf.functions().functions_around(address)


def jit_around(subject: Subject, address: int) -> Json:
    if subject.jit is None:
        subject.jit = JitMapTable(subject.read)
    return subject.jit.functions.functions_around(address)


def text_lines(subject: Subject) -> Json:
    """Python's default encoding; what is not valid in it is taken for Latin-1."""
    data = subject.read(0, MOST_SOURCE + 1)
    if len(data) > MOST_SOURCE:
        raise MachineError(f"it has more than {MOST_SOURCE >> 20} MiB")
    data = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return [line[:LONGEST_LINE] for line in text.split("\n")]


def memory_words(subject: Subject, addresses: list[int]) -> Json:
    return [_word_of_memory(subject, address) for address in addresses]


def python_tasks(subject: Subject, words: dict[str, int], major: int, minor: int, all: bool) -> Json:
    look = Look(subject.descriptors[0], words, (major, minor), subject.modules)
    try:
        if all:
            look.take()
        else:
            look.find_libraries()
    except UnreadableError:
        raise MachineError("its interpreter cannot be read: it is just starting, ending, or changing") from None
    return pack_look(look)


def _word_of_memory(subject: Subject, address: int) -> int:
    try:
        return int.from_bytes(subject.read(address, 8), byteorder)
    except (OSError, OverflowError):
        return 0


def static_probes(subject: Subject) -> Json:
    return [(p.provider, p.name, p.offset, p.semaphore, [a.values() for a in p.arguments])
            for p in usdt.read_usdt_probes(subject.elf)]


def unwind_rows(subject: Subject, first: int) -> Json:
    if subject.elf.form.word != 8 or subject.elf.find_section(".eh_frame") is None:
        return False, "", 0
    try:
        rows, following = pack_rows(subject.unwind_table, first, subject.elf.address_to_offset)
    except DamagedTablesError as problem:
        raise MachineError(f"its unwind table is damaged: {problem}") from None
    return True, rows.hex(), following


def frame_row(subject: Subject, address: int) -> Json:
    if subject.elf.form.word != 8:
        return None  # their registers have other numbers
    try:
        entry = subject.unwind_table.find_row(address)
    except DamagedTablesError as problem:
        raise MachineError(f"its unwind table is damaged: {problem}") from None
    if entry is None:
        return None
    row, signal, return_register = entry
    if len(row.rules) > MOST_RULES:
        raise MachineError("its unwind table is damaged: too many registers")
    rules = [(register, kind, value if isinstance(value, int) else 0, value.hex() if isinstance(value, bytes) else "")
             for register, (kind, value) in row.rules.items()]
    is_text = isinstance(row.cfa, bytes)
    return None if is_text else row.cfa, row.cfa.hex() if is_text else "", rules, signal, return_register


def interpreter(subject: Subject) -> Json:
    elf = subject.elf
    if elf.form.word != 8:
        return None  # its objects have other layouts than those that programs read
    runtime, code_type, version = [elf.find_object(name) for name in ("_PyRuntime", "PyCode_Type", "Py_Version")]
    if runtime is None or code_type is None:
        return None
    number = _read_at(elf, version[0], 8) if version is not None else b""  # from 3.11 on
    return (int.from_bytes(number, byteorder), runtime[0], code_type[0], _read_at(elf, runtime[0], DEBUG_OFFSETS).hex())


def _read_at(elf: Elf, address: int, size: int) -> bytes:
    offset = elf.address_to_offset(address)
    return elf.read(offset - elf.start, size) if offset is not None else b""


def demangle(_: None, names: list[str]) -> Json:
    if not mangled.is_available() and any(name.startswith(mangled.CPP) for name in names):
        return None
    return [mangled.demangle(name) for name in names]


def loader_cache(subject: Subject, machine: str) -> Json:
    return list(ld_cache.parse_ld_cache(subject.read(0, ld_cache.MOST), machine).items())


def prototype(subject: Subject, offset: int) -> Json:
    from . import dwarf

    if subject.elf.form.word != 8:
        return _NARROW, [], _pack_values(None, {}), None, [], _pack_values(None, {})
    signature = dwarf.user_prototype(subject.elf, offset)
    return (signature.problem, signature.hints, _pack_values(signature.args, signature.places),
            pack_type(signature.result) if signature.result is not None else None, signature.declarations,
            _pack_values(signature.results, signature.result_locations))


def _pack_values(values: Struct | None, locations: dict[str, UserPlace]) -> Json:
    return (values.name if values else "", values.size if values else 0,
            [(f.name, pack_type(f.type), f.offset) for f in values.fields] if values else [],
            [(name, (location.kind, location.registers, location.offset, location.why))
             for name, location in locations.items()])


def members(subject: Subject, entry: int) -> Json:
    from . import dwarf

    return [_pack_field(field) for field in dwarf.struct_members(subject.elf, entry)]


def named_type(subject: Subject, name: str) -> Json:
    from . import dwarf

    if subject.elf.form.word != 8:
        return None  # its pointers have other sizes than those of our types
    type = dwarf.named_type(subject.elf, name)
    return pack_type(type) if type is not None else None


def _pack_field(field: StructField) -> Json:
    return field.name, pack_type(field.type), field.offset, field.bit_offset, field.bit_size


def source_lines(subject: Subject, source: str, line: int, column: int) -> Json:
    from . import dwarf

    lines = dwarf.source_lines(subject.elf, source, line, column)
    return lines.problem, lines.hints, [row.values() for row in lines.places]


def code_places(subject: Subject, address: int) -> Json:
    from . import dwarf_frames

    return dwarf_frames.code_places(subject.elf, address)


def inlined(subject: Subject, name: str, brief: bool) -> Json:
    from . import dwarf_inlined

    copies = dwarf_inlined.inlined_copies(subject.elf, name, brief)
    return copies.values() if copies is not None else None
