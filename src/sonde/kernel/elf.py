"""ELF64 files: functions, data symbols, sections, and file offset ↔ virtual address.

Only what tracing needs. Symbols come from .symtab and .dynsym; where a file has been stripped, from its separate
debug file (by build id or .gnu_debuglink), or from the compressed small symbol table in .gnu_debugdata.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Iterator
from stat import S_ISREG

from ..errors import EnvironmentProblem
from ..record import Record
from ..spec import UserFunction
from . import places

ET_EXEC, ET_DYN = 2, 3
PT_LOAD, PT_NOTE = 1, 4
SHT_SYMTAB, SHT_NOTE, SHT_NOBITS, SHT_DYNSYM = 2, 7, 8, 11
STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_TLS, STT_GNU_IFUNC = 0, 1, 2, 6, 10
NT_GNU_BUILD_ID = 3

_HEADER = struct.Struct("=16xHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("=IIQQQQQQ")
_SECTION = struct.Struct("=IIQQQQIIQQ")
_SYMBOL = struct.Struct("=IBBHQQ")
_NOTE = struct.Struct("=III")
_FUNCTIONS = frozenset((STT_FUNC, STT_GNU_IFUNC))
_OBJECTS = frozenset((STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_GNU_IFUNC))


class Segment(Record):
    """A program header."""

    type: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int


class Section(Record):
    """A section header; ``link`` is the index of a related section (a symbol table's strings)."""

    name: str
    type: int
    address: int
    offset: int
    size: int
    link: int
    entry_size: int


class Symbol(Record):
    """A symbol with a definition; ``kind`` is an STT_ number."""

    name: str
    address: int
    size: int
    kind: int


class Elf:
    """One file. Use :func:`open_elf`, which keeps them.

    Parts are read when they are needed and the file is not held open; it is not mapped either, for a
    mapped file that somebody truncates kills its reader.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        ident = self.read(0, 16)
        if ident[:4] != b"\x7fELF":
            raise EnvironmentProblem(f"{path}: not an ELF file")
        if ident[4:6] != (b"\2\1" if struct.pack("=H", 1)[0] else b"\2\2"):
            raise EnvironmentProblem(f"{path}: only 64-bit ELF files of this machine's byte order can be traced")
        kind, machine, _, _, segments, sections, _, _, _, segment_count, _, section_count, names = (
            self._rows(_HEADER, 0, 1)[0])
        self.type = kind
        self.machine = machine
        self.segments = self._read_segments(segments, segment_count)
        self.sections = self._read_sections(sections, section_count, names)
        self._functions: list[UserFunction] | None = None
        self._objects: dict[str, tuple[int, int]] | None = None
        self._starts: list[int] = []
        self._sorted: list[UserFunction] | None = None

    # the format

    def read(self, at: int, size: int) -> bytes:
        """Bytes of the file; fewer if it is cut off. EnvironmentProblem if it cannot be read."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                size = min(size, os.fstat(fd).st_size - at)
                return os.pread(fd, size, at) if size > 0 and at >= 0 else b""
            finally:
                os.close(fd)
        except OSError as error:
            raise EnvironmentProblem(f"{self.path}: {error.strerror}") from None

    def _rows(self, layout: struct.Struct, at: int, count: int) -> list[tuple[int, ...]]:
        data = self.read(at, layout.size * count)
        if len(data) != layout.size * count:
            raise EnvironmentProblem(f"{self.path}: truncated or damaged ELF file")
        return list(layout.iter_unpack(data))

    def _read_segments(self, at: int, count: int) -> list[Segment]:
        return [Segment(kind, flags, offset, address, file_size, memory_size)
                for kind, flags, offset, address, _, file_size, memory_size, _ in self._rows(_SEGMENT, at, count)]

    def _read_sections(self, at: int, count: int, names: int) -> list[Section]:
        if not at:
            return []  # stripped of its section headers
        rows = self._rows(_SECTION, at, count)
        strings = self.read(rows[names][4], rows[names][5]) if names < len(rows) else b""
        return [Section(strings[r[0]:].partition(b"\0")[0].decode("latin-1"), r[1], r[3], r[4],
                        0 if r[1] == SHT_NOBITS else r[5], r[6], r[9]) for r in rows]

    def section(self, name: str) -> Section | None:
        """The first section of that name."""
        return next((s for s in self.sections if s.name == name), None)

    def contents(self, section: Section) -> bytes:
        """A section's bytes (fewer if the file is cut off)."""
        return self.read(section.offset, section.size)

    def notes(self) -> Iterator[tuple[str, int, bytes]]:
        """(owner, type, description) of every note."""
        blocks = [(s.offset, s.size) for s in self.sections if s.type == SHT_NOTE]
        blocks = blocks or [(s.offset, s.file_size) for s in self.segments if s.type == PT_NOTE]
        for at, size in blocks:
            yield from parse_notes(self.read(at, size))

    @property
    def build_id(self) -> bytes:
        """The GNU build id; empty if there is none."""
        return next((desc for owner, kind, desc in self.notes() if (owner, kind) == ("GNU", NT_GNU_BUILD_ID)), b"")

    # places

    def offset(self, address: int) -> int | None:
        """File offset of a virtual address; None if the file does not hold it."""
        for s in self.segments:
            if s.type == PT_LOAD and s.address <= address < s.address + s.file_size:
                return address - s.address + s.offset
        return None

    def address(self, offset: int) -> int | None:
        """Virtual address of a file offset; None if it is not loaded."""
        for s in self.segments:
            if s.type == PT_LOAD and s.offset <= offset < s.offset + s.file_size:
                return offset - s.offset + s.address
        return None

    # symbols

    def symbols(self, kinds: frozenset[int] = _OBJECTS) -> Iterator[Symbol]:
        """Defined symbols of some kinds, from .symtab and .dynsym; the same one may come twice."""
        for table in self.sections:
            if table.type in (SHT_SYMTAB, SHT_DYNSYM) and table.link < len(self.sections):
                yield from self._table(table, kinds)

    def _table(self, table: Section, kinds: frozenset[int]) -> Iterator[Symbol]:
        strings = self.contents(self.sections[table.link])
        data = self.contents(table)
        for name, info, _, section, value, size in _SYMBOL.iter_unpack(data[:len(data) // 24 * 24]):
            if info & 0xF in kinds and section and value and name:
                end = strings.find(b"\0", name)
                if end > name:
                    text = strings[name:end].decode("utf-8", "replace")
                    # "memcpy@@GLIBC_2.14": a version is not part of the name
                    yield Symbol(text.partition("@")[0] or text, value, size, info & 0xF)

    def functions(self) -> list[UserFunction]:
        """Functions that lie in this file, debug files consulted, in order of address and name, each once."""
        if self._functions is None:
            found: dict[tuple[int, str], UserFunction] = {}
            for file in self._symbol_files():
                for symbol in file.symbols(_FUNCTIONS):
                    offset = self.offset(symbol.address)
                    if offset is not None:
                        found.setdefault((symbol.address, symbol.name),
                                         UserFunction(symbol.name, symbol.address, offset, symbol.size))
            self._functions = [found[key] for key in sorted(found)]
        return self._functions

    def object(self, name: str) -> tuple[int, int] | None:
        """(address, size) of a data or function symbol."""
        if self._objects is None:
            self._objects = {}
            for file in self._symbol_files():
                for symbol in file.symbols():
                    if self._objects.get(symbol.name, (0, 0))[1] == 0:
                        self._objects[symbol.name] = (symbol.address, symbol.size)
        return self._objects.get(name)

    def function_at(self, address: int) -> tuple[str, int] | None:
        """(name, offset into it) of the function that holds a virtual address.

        Assembly routines have no size; such a one reaches to the next function.
        """
        if self._sorted is None:
            by_address: dict[int, UserFunction] = {}
            for function in self.functions():
                known = by_address.get(function.address)
                if known is None or _plainer(function, known):
                    by_address[function.address] = function
            self._sorted = list(by_address.values())
            self._starts = list(by_address)
        at = bisect_right(self._starts, address) - 1
        for candidate in reversed(self._sorted[max(0, at - 8):at + 1]):  # a sized one may enclose others
            inside = address - candidate.address
            if inside < candidate.size or (candidate.size == 0 and candidate is self._sorted[at]):
                return candidate.name, inside
        return None

    # separate debug information

    def with_debug_info(self) -> Elf | None:
        """The file that has the DWARF of this one: itself, or its separate debug file; None if there is none."""
        if self.section(".debug_info") or self.section(".zdebug_info"):
            return self
        debug = self._debug_file()
        return debug if debug is not None and debug.section(".debug_info") else None

    def _symbol_files(self) -> list[Elf]:
        """This file and whatever else has symbols of it."""
        if any(s.type == SHT_SYMTAB for s in self.sections):
            return [self]
        more = self._debug_file() or self._small_symbols()
        return [self, more] if more is not None else [self]

    def _small_symbols(self) -> Elf | None:
        """An ELF file of symbols within this one, compressed by xz."""
        section = self.section(".gnu_debugdata")
        if section is None:
            return None
        import lzma
        try:
            return Inner(self.path, lzma.decompress(self.contents(section)))
        except (lzma.LZMAError, EOFError, EnvironmentProblem):
            return None

    def _debug_file(self) -> Elf | None:
        build_id = self.build_id
        for path in self._debug_candidates(build_id):
            if path != self.path and os.path.isfile(path):
                try:
                    debug = open_elf(path)
                except EnvironmentProblem:
                    continue
                if debug.build_id == build_id:
                    return debug
        return None

    def _debug_candidates(self, build_id: bytes) -> list[str]:
        found = []
        if build_id:
            digits = build_id.hex()
            found += [f"{top}/.build-id/{digits[:2]}/{digits[2:]}.debug" for top in places.debug_directories]
        link = self.section(".gnu_debuglink")
        if link and build_id:  # without a build id nothing cheap tells whether the file belongs to this one
            name = self.contents(link).partition(b"\0")[0].decode("utf-8", "surrogateescape")
            where = os.path.dirname(os.path.realpath(self.path))
            if name and "/" not in name:
                found += [f"{where}/{name}", f"{where}/.debug/{name}",
                          *[f"{top}{where}/{name}" for top in places.debug_directories]]
        return found


class Inner(Elf):
    """An ELF file in memory, found in the file at ``path``."""

    def __init__(self, path: str, data: bytes) -> None:
        self._data = data
        super().__init__(path)

    def read(self, at: int, size: int) -> bytes:
        return self._data[at:at + size] if size > 0 and at >= 0 else b""


def _plainer(new: UserFunction, old: UserFunction) -> bool:
    """Which alias of one address people know: sized, without leading underscores, short."""
    def rank(f: UserFunction) -> tuple[bool, int, int, str]:
        return f.size == 0, len(f.name) - len(f.name.lstrip("_")), len(f.name), f.name

    return rank(new) < rank(old)


def parse_notes(data: bytes) -> Iterator[tuple[str, int, bytes]]:
    """(owner, type, description) of the notes in a note section."""
    at = 0
    while at + _NOTE.size <= len(data):
        name_size, size, kind = _NOTE.unpack_from(data, at)
        at += _NOTE.size
        owner = data[at:at + name_size].rstrip(b"\0").decode("latin-1")
        at += (name_size + 3) & ~3
        yield owner, kind, data[at:at + size]
        at += (size + 3) & ~3


_open: dict[str, tuple[tuple[int, ...], Elf]] = {}
_same: dict[tuple[int, ...], Elf] = {}  # by what tells files apart, whatever their paths


def open_elf(path: str) -> Elf:
    """The file, from the cache unless it changed; one that has been read and is gone stays known.

    EnvironmentProblem if it is unreadable or no ELF64 file.
    """
    try:
        stat = os.stat(path)
    except OSError as error:
        if path in _open:
            return _open[path][1]
        raise EnvironmentProblem(f"{path}: {error.strerror}") from None
    if not S_ISREG(stat.st_mode):
        raise EnvironmentProblem(f"{path}: not an ELF file")
    stamp = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    known = _open.get(path)
    if known is None or known[0] != stamp:
        if stamp not in _same or not os.path.exists(_same[stamp].path):
            _same[stamp] = Elf(path)
        known = _open[path] = stamp, _same[stamp]
    return known[1]


def is_elf(path: str) -> bool:
    """Whether a file starts as ELF files do."""
    try:
        with open(path, "rb", buffering=0) as file:
            return os.path.isfile(path) and file.read(4) == b"\x7fELF"
    except OSError:
        return False
