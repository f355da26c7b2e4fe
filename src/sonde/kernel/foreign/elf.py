"""ELF files: functions, data symbols, sections, and file offset ↔ virtual address.

Only what tracing needs. Symbols come from .symtab and .dynsym; where a file has been stripped, from its separate
debug file, or from the compressed small symbol table in .gnu_debugdata. Everything in a file may be forged, so
everything has a size beyond which it is not read.
"""

from __future__ import annotations

import os
import struct
from sys import byteorder

from ...arch import NARROW_MACHINES
from ...base.fast_stdlib import cached_property
from ...base.record import Record
from ...errors import MachineError
from .elf_forms import FORMS, Table
from .symbol_table import NAME, Functions, TooLargeError, function_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ET_EXEC = 2
PT_LOAD, PT_NOTE = 1, 4
SHT_SYMTAB, SHT_NOTE, SHT_NOBITS, SHT_DYNSYM = 2, 7, 8, 11
STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_GNU_IFUNC = 0, 1, 2, 10
NT_GNU_BUILD_ID = 3
DT_NEEDED, DT_RPATH, DT_RUNPATH = 1, 15, 29

_NOTE = struct.Struct("=III")
_FUNCTIONS = frozenset((STT_FUNC, STT_GNU_IFUNC))
_OBJECTS = frozenset((STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_GNU_IFUNC))

# bytes of ...
MOST_READ = 64 << 20      # anything that is read at once
MOST_SYMBOLS = 24 << 20   # a table of symbols: a million of them
MOST_NOTES = 4 << 20      # all notes together
MOST_XZ = 24 << 20        # .gnu_debugdata, unpacked and while unpacking
SMALL_STRINGS = 4 << 20   # strings that are kept in memory as a whole
SECTION_NAME = 64
MOST_DYNAMIC = 1 << 16
MOST_NEEDED = 256         # libraries
MOST_PATH = 4096
MOST_SEGMENTS = 1170      # 64 KiB of headers: the kernel executes no file with more


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


class Elf:
    """One file, by its descriptor, which the caller still owns. Parts are read when needed; it is not mapped: a mapped
    file that somebody truncates kills its reader. ``path`` is its name in messages, ``debug`` its separate debug file.
    As a member of an archive it begins at ``start``, and the offsets of its addresses are the archive's."""

    def __init__(self, descriptor: int, path: str = "", start: int = 0, size: int | None = None) -> None:
        self.descriptor = descriptor
        self.path = path
        self.start = start
        self._size = size
        self.debug: Elf | None = None
        ident = self.read(0, 16)
        if ident[:4] != b"\x7fELF":
            raise MachineError("not an ELF file")
        form = FORMS.get(ident[4]) if len(ident) == 16 else None
        if form is None or ident[5] != (1 if byteorder == "little" else 2):
            raise MachineError("only ELF files of this machine's byte order can be traced")
        self.form = form
        kind, machine, _, _, segments, sections, _, _, _, segment_count, _, section_count, names = (
            self._read_rows(form.header, 0, 1)[0])
        self.type = kind
        self.machine = machine
        if form.word != 8 and machine not in NARROW_MACHINES:
            raise MachineError("only 64-bit ELF files, and 32-bit ones of x86, can be traced")
        self.segments = self._read_segments(segments, segment_count)
        self.sections = self._read_sections(sections, section_count, names)
        self._loads = [(s.address, s.address + s.file_size, start + s.offset)
                       for s in self.segments if s.type == PT_LOAD]
        self._functions: Functions | None = None
        self._indirect: list[tuple[int, int]] = []  # (address, index of its name) of the resolvers among them

    # the format

    def read(self, at: int, size: int) -> bytes:
        """Bytes of the file; fewer if it is cut off. MachineError if it cannot be read."""
        try:
            whole = os.fstat(self.descriptor).st_size - self.start
            size = min(size, (whole if self._size is None else min(whole, self._size)) - at)
            if size <= 0 or at < 0:
                return b""
            if size > MOST_READ:
                raise TooLargeError(f"a part of it has {size} bytes, of which {MOST_READ} are read at most")
            return os.pread(self.descriptor, size, self.start + at)
        except OSError as error:
            raise MachineError(f"{error.strerror}") from None

    def _read_rows(self, table: Table, at: int, count: int) -> list[tuple[int, ...]]:
        data = self.read(at, table.size * count)
        if len(data) != table.size * count:
            raise MachineError("truncated or damaged ELF file")
        return list(table.unpack_rows(data))

    def _read_segments(self, at: int, count: int) -> list[Segment]:
        if count > MOST_SEGMENTS:
            raise TooLargeError(f"it has {count} program headers; no program that runs has more than {MOST_SEGMENTS}")
        rows = self._read_rows(self.form.segment, at, count)
        return [Segment(kind, flags, offset, address, file_size, memory_size)
                for kind, flags, offset, address, _, file_size, memory_size, _ in rows]

    def _read_sections(self, at: int, count: int, names: int) -> list[Section]:
        if not at:
            return []  # its section headers have been stripped
        rows = self._read_rows(self.form.section, at, count)
        strings = self.read(rows[names][4], min(rows[names][5], SECTION_NAME * count)) if names < len(rows) else b""
        return [Section(strings[r[0]:r[0] + SECTION_NAME].partition(b"\0")[0].decode("latin-1"), r[1], r[3], r[4],
                        0 if r[1] == SHT_NOBITS else r[5], r[6], r[9]) for r in rows]

    def find_section(self, name: str) -> Section | None:
        """The first section of that name."""
        return next((s for s in self.sections if s.name == name), None)

    def section_bytes(self, section: Section) -> bytes:
        """A section's bytes (fewer if the file is cut off)."""
        return self.read(section.offset, section.size)

    def read_notes(self) -> Iterator[tuple[str, int, bytes]]:
        """(owner, type, description) of every note."""
        blocks = [(s.offset, s.size) for s in self.sections if s.type == SHT_NOTE]
        blocks = blocks or [(s.offset, s.file_size) for s in self.segments if s.type == PT_NOTE]
        left = MOST_NOTES
        for at, size in blocks:
            data = self.read(at, min(size, left))
            yield from parse_notes(data)
            left -= len(data)

    @property
    def build_id(self) -> bytes:
        """The GNU build id; empty if there is none."""
        note = next((desc for owner, kind, desc in self.read_notes() if (owner, kind) == ("GNU", NT_GNU_BUILD_ID)),
                    b"")
        return note[:64]

    @property
    def debug_link(self) -> str:
        """The file name in .gnu_debuglink; "" if there is none."""
        link = self.find_section(".gnu_debuglink")
        text = self.read(link.offset, min(link.size, 256)).partition(b"\0")[0] if link else b""
        return text.decode("utf-8", "surrogateescape")

    @cached_property
    def dynamic_entries(self) -> list[tuple[int, int]]:
        """(tag, value) of each row of .dynamic; [] if the file has none."""
        dynamic = self.find_section(".dynamic")
        data = self.read(dynamic.offset, min(dynamic.size, MOST_DYNAMIC)) if dynamic is not None else b""
        return [(tag, value) for tag, value in self.form.dynamic.unpack_rows(data)]

    def dynamic_texts(self, *tags: int) -> list[str]:
        """The strings that rows of .dynamic name."""
        dynamic = self.find_section(".dynamic")
        if dynamic is None or not dynamic.link < len(self.sections):
            return []
        strings = self.sections[dynamic.link]
        offsets = [strings.offset + at for tag, at in self.dynamic_entries if tag in tags][:MOST_NEEDED]
        texts = [self.read(offset, MOST_PATH).partition(b"\0")[0] for offset in offsets]
        return [text.decode("utf-8", "surrogateescape") for text in texts]

    @property
    def needed(self) -> tuple[list[str], list[str]]:
        """The sonames of the libraries that it needs, and the folders in which they are looked for first."""
        return self.dynamic_texts(DT_NEEDED), [
            each for text in self.dynamic_texts(DT_RPATH, DT_RUNPATH) for each in text.split(":")]

    # places

    def address_to_offset(self, address: int) -> int | None:
        """File offset of a virtual address; None if it is not in the file."""
        for low, high, offset in self._loads:
            if low <= address < high:
                return address - low + offset
        return None

    def offset_to_address(self, offset: int) -> int | None:
        """Virtual address of a file offset; None if it is not loaded."""
        for low, high, start in self._loads:
            if start <= offset < start + high - low:
                return offset - start + low
        return None

    # symbols

    def functions(self) -> Functions:
        """Functions in this file, from debug files too."""
        if self._functions is None:
            sources: list[Strings] = []
            functions = Functions(lambda text: sources[text >> 32].name_at(text & 0xFFFFFFFF))
            for file in self._symbol_files():
                for table, strings in file._symbol_tables():
                    sources.append(Strings(file, strings))
                    base = len(sources) - 1 << 32
                    for name, kind, value, size in file._read_symbols(table, _FUNCTIONS):
                        if self.address_to_offset(value) is not None:
                            functions.add(value, size, base | name)
                            if kind == STT_GNU_IFUNC:
                                self._indirect.append((value, base | name))
            self._add_other_functions(functions, sources)
            functions.sort_by_address()
            self._functions = functions
        return self._functions

    def _add_other_functions(self, functions: Functions, sources: list[Strings]) -> None:
        """Add functions that are in no table of symbols; their names are in one more of the sources."""

    def indirect_functions(self) -> list[tuple[str, int]]:
        """(name, address of its resolver) of each function whose code is chosen when the file is loaded (gABI's
        STT_GNU_IFUNC), in order of address."""
        names = self.functions().name_of
        return sorted({(names(text), address) for address, text in self._indirect}, key=lambda row: (row[1], row[0]))

    def function_at(self, address: int) -> tuple[str, int] | None:
        """(name, offset into it) of the function that contains a virtual address."""
        _, _, rows = self.functions().functions_around(address)
        return function_in(rows, [row[0] for row in rows], address)

    def find_object(self, name: str) -> tuple[int, int] | None:
        """(address, size) of a data or function symbol; one with a size is preferred."""
        symbol: tuple[int, int] | None = None
        for file in self._symbol_files():
            for table, strings in file._symbol_tables():
                wanted = Strings(file, strings).find_name(name)
                for text, _, value, size in file._read_symbols(table, _OBJECTS) if wanted else ():
                    if text in wanted:
                        symbol = value, size
                        if size:
                            return symbol
        return symbol

    def _symbol_tables(self) -> Iterator[tuple[Section, Section]]:
        """(symbols, their strings) of .symtab and .dynsym."""
        for table in self.sections:
            if table.type in (SHT_SYMTAB, SHT_DYNSYM) and table.link < len(self.sections):
                if table.size > MOST_SYMBOLS:
                    raise TooLargeError(f"a symbol table has {table.size} bytes, "
                                        f"of which {MOST_SYMBOLS} are read at most")
                yield table, self.sections[table.link]

    def _read_symbols(self, table: Section, kinds: frozenset[int]) -> Iterator[tuple[int, int, int, int]]:
        """(offset of its name, kind, address, size) of defined symbols of some kinds; the same one may come twice."""
        for name, info, _, section, value, size in self.read_table(table, self.form.symbol):
            if info & 0xF in kinds and section and value and name:
                yield name, info & 0xF, value, size

    def undefined_symbols(self, table: Section, names: frozenset[str]) -> dict[int, str]:
        """The symbols of these names that a table has but the file lacks, by their numbers."""
        strings = Strings(self, self.sections[table.link]) if table.link < len(self.sections) else None
        texts = {at: name for name in names for at in strings.find_name(name)} if strings is not None else {}
        return {index: texts[name] for index, (name, _, _, section, _, _)
                in enumerate(self.read_table(table, self.form.symbol)) if not section and name in texts}

    def read_table(self, section: Section, table: Table) -> Iterator[tuple[int, ...]]:
        """The rows of a section, which is read in portions."""
        portion = table.size << 15
        for at in range(0, section.size, portion):
            data = self.read(section.offset + at, min(portion, section.size - at))
            yield from table.unpack_rows(data)
            if len(data) < portion:
                return

    # separate debug information

    @property
    def has_symbols(self) -> bool:
        """Whether the file has not been stripped."""
        return any(s.type == SHT_SYMTAB for s in self.sections)

    @property
    def has_debug_info(self) -> bool:
        """Whether it has DWARF."""
        return any(s.name in (".debug_info", ".zdebug_info") for s in self.sections)

    def with_debug_info(self) -> Elf | None:
        """The file that has the DWARF of this one: itself, or its separate debug file; None if there is none."""
        return next((file for file in (self, self.debug) if file is not None and file.has_debug_info), None)

    def _symbol_files(self) -> list[Elf]:
        """This file and any other with symbols for it."""
        more = None if self.has_symbols else self.debug or self._open_mini_debug_info()
        return [self, more] if more is not None else [self]

    def _open_mini_debug_info(self) -> Elf | None:
        """The ELF file of symbols embedded in this one, compressed by xz."""
        section = self.find_section(".gnu_debugdata")
        if section is None:
            return None
        import lzma
        try:
            unpacker = lzma.LZMADecompressor(memlimit=MOST_XZ)
            data = unpacker.decompress(self.section_bytes(section), MOST_XZ)
            if not unpacker.eof:
                raise TooLargeError(f"its .gnu_debugdata has more than {MOST_XZ} bytes")
            return Inner(data)
        except (lzma.LZMAError, EOFError):
            return None


class Inner(Elf):
    """An ELF file in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        super().__init__(-1)

    def read(self, at: int, size: int) -> bytes:
        return self._data[at:at + size] if size > 0 and at >= 0 else b""


class Strings:
    """The strings of a symbol table, in memory if they are small."""

    def __init__(self, file: Elf, section: Section) -> None:
        self._file, self._section = file, section
        self._text = file.section_bytes(section) if section.size <= SMALL_STRINGS else None

    def name_at(self, at: int) -> str:
        """The name that begins there; "memcpy@@GLIBC_2.14" is memcpy: a version is not part of the name."""
        if self._text is not None:
            raw = self._text[at:at + NAME]
        else:
            raw = self._file.read(self._section.offset + at, min(NAME, self._section.size - at))
        text = raw.partition(b"\0")[0].decode("utf-8", "replace")
        return text.partition("@")[0] or text

    def find_name(self, name: str) -> set[int]:
        """Where a name, with or without a version, may begin."""
        text = self._file.section_bytes(self._section) if self._text is None else self._text
        offsets: set[int] = set()
        if not name:
            return offsets
        for what in (name.encode("utf-8", "surrogateescape") + end for end in (b"\0", b"@")):
            at = text.find(what)
            while at >= 0:
                offsets.add(at)
                at = text.find(what, at + 1)
        return offsets


def parse_notes(data: bytes) -> Iterator[tuple[str, int, bytes]]:
    """(owner, type, description) of the notes in a note section."""
    at = 0
    while at + _NOTE.size <= len(data):
        name_size, size, kind = _NOTE.unpack_from(data, at)
        at += _NOTE.size
        owner = data[at:at + min(name_size, SECTION_NAME)].rstrip(b"\0").decode("latin-1")
        at += (name_size + 3) & ~3
        yield owner, kind, data[at:at + size]
        at += (size + 3) & ~3
