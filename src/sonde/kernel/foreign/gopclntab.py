"""Functions of Go programs by the table that Go's runtime itself uses for stack traces: it stays in stripped files.

The format (debug/gosym/pclntab.go and cmd/link/internal/ld/pcln.go of Go): a magic number that tells the version, two
zeros, the size of an instruction and of a pointer; then words: the number of functions, of files, from 1.18 on where
the code begins, and from 1.16 on where the parts are. ``functab`` has (address, offset of a ``_func``) of each function
in order of address, and the end of the last one; a ``_func`` says where the name is, and from 1.16 on what kind of
function it is.
"""

from __future__ import annotations

import struct
from array import array
from sys import byteorder

from ...base.record import Record
from ...errors import MachineError
from .elf import PT_LOAD, Elf, Section, Strings
from .symbol_table import NAME, Functions, TooLargeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SECTIONS = (".gopclntab", ".data.rel.ro.gopclntab")
MODULE = ".go.module"         # runtime.moduledata, which has a section of its own from 1.26 on
MODULE_TEXT = 22 * 8          # in it, where the code begins (runtime/symtab.go)
MOST_FUNCTIONS = 1 << 20
MOST_NAMES = 24 << 20         # bytes of names that are compared
MOST_TRIES = 256              # positions at which a table without a section of its own may begin
MOST_SEARCHED = 96 << 20      # bytes in which it is searched for
MOST_RELOCATIONS = 48 << 20   # bytes
PORTION = 1 << 20
WINDOW = 1 << 16
_SHT_RELA = 4
_HOMES = (".data.rel.ro", ".rodata")  # where a linker of C's puts it
_NOTE = "Go"


class _Version(Record):
    """``words`` of the header; whether addresses are ``relative`` to where the code begins (32 bits); where in a
    ``_func`` the offset of the name and the kind of function are (0: nowhere)."""

    words: int
    relative: bool
    name: int
    kind: int


_VERSIONS = {0xFFFFFFFB: _Version(1, False, 8, 0), 0xFFFFFFFA: _Version(7, False, 8, 40),   # 1.2, 1.16
             0xFFFFFFF0: _Version(8, True, 4, 36), 0xFFFFFFF1: _Version(8, True, 4, 40)}    # 1.18, 1.20


_SINCE = {0xFFFFFFFB: "go1.2+", 0xFFFFFFFA: "go1.16+", 0xFFFFFFF0: "go1.18+", 0xFFFFFFF1: "go1.20+"}


class GoTable:
    """The table that begins at ``at`` in the file and has at most ``size`` bytes. MachineError if it is none."""

    def __init__(self, elf: Elf, at: int, size: int) -> None:
        self._elf, self._at, self._size = elf, at, size
        head = elf.read(at, 8)
        version = _VERSIONS.get(int.from_bytes(head[:4], byteorder))
        if version is None or head[4:6] != b"\0\0" or head[6:] not in (b"\1\x08", b"\2\x08", b"\4\x08"):
            raise MachineError("no table of Go's functions")
        self._version = version
        self.since = _SINCE[int.from_bytes(head[:4], byteorder)]
        words = [self._number(8 + 8 * index, 8) for index in range(version.words)]
        self.count = words[0]
        self._names, self._functions = (words[-5], words[-1]) if version.words > 1 else (0, 0)
        self._functab = self._functions if version.words > 1 else 16
        self._base = self._text_start(words[2]) if version.relative else 0
        if not 0 < self.count <= size // self._entry.size or max(self._names, self._functab) >= size:
            raise MachineError("a damaged table of Go's functions")
        if self.count > MOST_FUNCTIONS:
            raise TooLargeError(f"it has {self.count} functions, of which {MOST_FUNCTIONS} are read at most")

    @property
    def _entry(self) -> struct.Struct:
        return struct.Struct("=II" if self._version.relative else "=QQ")

    def _number(self, at: int, size: int) -> int:
        return int.from_bytes(self._elf.read(self._at + at, size), byteorder)

    def _text_start(self, stored: int) -> int:
        """Where the code begins: as the table says, or a relocation of it, or the module's description (from 1.26 on
        nothing else does), or else the section."""
        address = self._elf.offset_to_address(self._elf.start + self._at)
        text = stored or (pointer_at(self._elf, address + 24) if address is not None else 0)
        module, code = self._elf.find_section(MODULE), self._elf.find_section(".text")
        if not text and module is not None:
            text = pointer_at(self._elf, module.address + MODULE_TEXT)
        return text or (code.address if code is not None else 0)

    @property
    def names(self) -> Section:
        """The names, as a section of strings."""
        return Section("", 0, 0, self._at + self._names, self._size - self._names, 0, 0)

    def functions(self) -> Iterator[tuple[int, int, int]]:
        """(address, size, offset of its name) of each function, without wrappers that go by the name of what they
        call."""
        addresses, sizes, names, kinds = array("Q"), array("Q"), array("I"), array("B")
        window = _Window(self._elf, self._at, self._size)
        for address, end, offset in self._entries():
            at = self._functions + offset
            name = window.number(at + self._version.name, 4)
            if end < address or name >= self._size - self._names:
                continue
            addresses.append(address)
            sizes.append(end - address)
            names.append(name)
            kinds.append(window.number(at + self._version.kind, 1) if self._version.kind else 0)
        left_out = _wrappers(self._texts(names), kinds) if self._version.kind else frozenset()
        for index in range(len(addresses)):
            if index not in left_out:
                yield addresses[index], sizes[index], names[index]

    def _texts(self, names: array[int]) -> _Texts:
        size = min(self._size - self._names, MOST_NAMES)
        return _Texts(self._elf.read(self._at + self._names, size), names)

    def _entries(self) -> Iterator[tuple[int, int, int]]:
        """(address, end, offset of its _func) of each function."""
        row, step = self._entry, self._entry.size
        last: tuple[int, int] | None = None
        end = step * self.count + step // 2
        for at in range(0, end, PORTION):
            data = self._elf.read(self._at + self._functab + at, min(PORTION, end - at))
            data += bytes(-len(data) % step)  # the last address has no function
            for address, offset in row.iter_unpack(data):
                address += self._base
                if last is not None:
                    yield last[0], address, last[1]
                last = address, offset


class _Window:
    """Numbers of a table that are read in ascending order, mostly."""

    def __init__(self, elf: Elf, at: int, size: int) -> None:
        self._elf, self._at, self._size = elf, at, size
        self._start, self._data = 0, b""

    def number(self, at: int, size: int) -> int:
        inside = at - self._start
        if not 0 <= inside <= len(self._data) - size:
            if not 0 <= at <= self._size - size:
                return 0
            self._start, inside = at, 0
            self._data = self._elf.read(self._at + at, min(WINDOW, self._size - at))
        return int.from_bytes(self._data[inside:inside + size], byteorder)


class _Texts:
    """The names of functions by index, without an object for each."""

    def __init__(self, data: bytes, names: array[int]) -> None:
        self._data, self._names = data, names

    def name_at(self, index: int) -> bytes:
        at = self._names[index]
        end = self._data.find(b"\0", at, at + NAME)
        return self._data[at:end if end >= 0 else at + NAME]

    def equal_names(self) -> Iterator[list[int]]:
        """Indexes of functions of one name, of each name that occurs more than once."""
        order = [(hash(self.name_at(index)) & 0xFFFFFFFF) << 32 | index for index in range(len(self._names))]
        order.sort()
        alike: list[int] = []
        for before, after in zip(order, [*order[1:], 0]):
            first, second = before & 0xFFFFFFFF, after & 0xFFFFFFFF
            if before >> 32 == after >> 32 and self.name_at(first) == self.name_at(second):
                alike += [second] if alike else [first, second]
            elif alike:
                yield alike
                alike = []


def _wrappers(texts: _Texts, kinds: array[int]) -> frozenset[int]:
    """Indexes of the functions that the compiler made to call another of the same name (from another calling
    convention): of all names that occur twice, most of those have one kind, whose number is each version's own."""
    alike = list(texts.equal_names())
    counts: dict[int, int] = {}
    for indexes in alike:
        for kind in {kinds[index] for index in indexes} - {0}:
            counts[kind] = counts.get(kind, 0) + 1
    wrapper = max(counts, key=lambda kind: counts[kind], default=-1)
    left_out: list[int] = []
    for indexes in alike:
        others = [index for index in indexes if kinds[index] == wrapper]
        left_out += others if len(others) < len(indexes) else others[1:]
    return frozenset(left_out)


def pointer_at(elf: Elf, address: int) -> int:
    """A pointer in the file's data: as it is there, or as the loader relocates it; 0 if there is none."""
    offset = elf.address_to_offset(address)
    value = int.from_bytes(elf.read(offset - elf.start, 8), byteorder) if offset is not None else 0
    wanted, left = struct.pack("=Q", address), MOST_RELOCATIONS
    for section in elf.sections if not value else ():
        if section.type == _SHT_RELA and left > 0:
            for at in range(0, min(section.size, left), 24 * (PORTION // 24)):
                data = elf.read(section.offset + at, min(24 * (PORTION // 24), section.size - at))
                row = data.find(wanted)
                while row >= 0 and row % 24:
                    row = data.find(wanted, row + 1)
                if row >= 0:
                    return int.from_bytes(data[row + 16:row + 24], byteorder)
            left -= section.size
    return value


def is_go(elf: Elf) -> bool:
    """Whether Go's linker made the file, or a part of it."""
    names = (".note.go.buildid", ".go.buildinfo", *SECTIONS)
    return any(section.name in names for section in elf.sections) or \
        any(owner == _NOTE for owner, _, _ in elf.read_notes())


def oldest_version(elf: Elf) -> str:
    """The oldest Go that makes such a table as the file has: ``go1.18+``."""
    table = open_table(elf)
    return table.since if table is not None else "go1.2+"


def open_table(elf: Elf) -> GoTable | None:
    """The table of a file; None if it has none that can be read."""
    for name in SECTIONS:
        section = elf.find_section(name)
        if section is not None:
            return _table_at(elf, section.offset, section.size)
    if not is_go(elf):
        return None
    parts = [(s.offset, s.size) for s in elf.sections if s.name in _HOMES] or [
        (s.offset, s.file_size) for s in elf.segments if s.type == PT_LOAD and not s.flags & 1]
    tries = (table for at, size in parts for begin in _starts(elf, at, min(size, MOST_SEARCHED))
             if (table := _table_at(elf, begin, at + size - begin)) is not None)
    return next(tries, None)


def _table_at(elf: Elf, at: int, size: int) -> GoTable | None:
    try:
        return GoTable(elf, at, size)
    except TooLargeError:
        raise
    except MachineError:
        return None


def _starts(elf: Elf, at: int, size: int) -> Iterator[int]:
    """Where a part of the file has what a table begins with."""
    heads = [magic.to_bytes(4, byteorder) + b"\0\0" for magic in _VERSIONS]
    tries = 0
    for begin in range(0, size, PORTION):
        data = elf.read(at + begin, min(PORTION + 8, size - begin))
        for head in heads:
            match = data.find(head)
            while match >= 0 and tries < MOST_TRIES:
                tries += 1
                yield at + begin + match
                match = data.find(head, match + 1)


class Program(Elf):
    """An ELF file with the functions of Go's table, too."""

    def _add_other_functions(self, functions: Functions, sources: list[Strings]) -> None:
        """Add the functions of a Go program that has been stripped."""
        table = open_table(self) if not self.has_symbols else None
        if table is None:
            return
        sources.append(Strings(self, table.names))
        base = len(sources) - 1 << 32
        for address, size, name in table.functions():
            if self.address_to_offset(address) is not None:
                functions.add(address, size, base | name)
