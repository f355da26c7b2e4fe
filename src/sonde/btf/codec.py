"""The BTF format (Documentation/bpf/btf.rst): constants, header, records; and a writer for program BTF.

A blob is a header, a type section and a string section. Type ids count from 1 (0 is ``void``); the ids
and string offsets of a *split* blob (a module's) continue those of its base (vmlinux).
"""

from __future__ import annotations

import mmap
import os
import struct

from ..base.record import Record
from ..errors import MachineError

MAGIC = 0xEB9F
(VOID, INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FUNC_PROTO, VAR, DATASEC,
 FLOAT, DECL_TAG, TYPE_TAG, ENUM64) = range(20)
KINDS = 20
MODIFIERS = frozenset((VOLATILE, CONST, RESTRICT, TYPE_TAG))

# Bytes that follow the 12 bytes every record starts with: a fixed part, and a part per element (vlen).
EXTRA = (0, 4, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 4, 0, 0)
EXTRA_EACH = (0, 0, 0, 0, 12, 12, 8, 0, 0, 0, 0, 0, 0, 8, 0, 12, 0, 0, 0, 12)

INT_SIGNED, INT_BOOL = 1, 4
FUNC_STATIC, FUNC_GLOBAL = 0, 1

HEADER = struct.Struct("=HBBIIIII")
RECORD = struct.Struct("=III")  # name_off, info (vlen:16, kind:5 at 24, kflag:1 at 31), size or type
WORD = struct.Struct("=I")
PAIR = struct.Struct("=II")
TRIPLE = struct.Struct("=III")


class Header(Record):
    """Where the sections are, as offsets from the start of the blob."""

    types: int
    types_end: int
    strings: int
    strings_end: int


PIECE = 16384


class Blob:
    """The bytes of a BTF file, read piece by piece on demand; the file is not held open.

    (vmlinux's can be mapped from 6.16 on, but the kernel then sets up all of its 1,300 pages: 2.7 ms.)
    """

    def __init__(self, path: str, size: int) -> None:
        self._path = path
        self._size = size
        self._bytes = mmap.mmap(-1, max(size, 1))  # zero pages: only those written to use memory
        self._have = bytearray(size // PIECE + 1)

    def __len__(self) -> int:
        return self._size

    def ensure_range(self, start: int, stop: int) -> mmap.mmap:
        """The whole file's buffer, valid from ``start`` to ``stop``. Raises MachineError."""
        have, first = self._have, start // PIECE
        if not have[first] or stop - start > PIECE - start % PIECE:
            last = min((stop - 1) // PIECE + 1, len(have))
            if 0 in have[first:last]:
                self._read_pieces(first, last)
        return self._bytes

    def _read_pieces(self, first: int, last: int) -> None:
        at, end = first * PIECE, min(last * PIECE, self._size)
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                with memoryview(self._bytes) as view:
                    while at < end:
                        count = os.preadv(fd, [view[at:end]], at)
                        if count <= 0:
                            raise MachineError(f"{self._path}: became shorter while it was read")
                        at += count
            finally:
                os.close(fd)
        except OSError as error:
            raise MachineError(f"{self._path}: {error.strerror}") from None
        self._have[first:last] = b"\1" * (last - first)


def read_blob(path: str) -> Blob:
    """A BTF file, not yet read; raises MachineError if there is none."""
    try:
        return Blob(path, os.stat(path).st_size)
    except OSError as error:
        raise MachineError(f"{path}: {error.strerror}") from None


def memory_blob(data: bytes) -> Blob:
    """BTF that is in memory already."""
    blob = Blob("", len(data))
    blob._bytes[:len(data)] = data
    blob._have = bytearray(b"\1") * len(blob._have)
    return blob


def parse_header(blob: Blob, name: str = "BTF") -> Header:
    """The header of ``blob``; raises MachineError, naming ``name``, if this is not usable BTF."""
    if len(blob) < HEADER.size:
        raise MachineError(f"{name}: not BTF: only {len(blob)} bytes")
    magic, _version, _flags, length, types, types_len, strings, strings_len = HEADER.unpack_from(
        blob.ensure_range(0, HEADER.size), 0)
    if magic != MAGIC:
        swapped = magic == int.from_bytes(MAGIC.to_bytes(2, "little"), "big")
        raise MachineError(f"{name}: BTF of the other byte order" if swapped else f"{name}: not BTF")
    header = Header(length + types, length + types + types_len, length + strings, length + strings + strings_len)
    if length < HEADER.size or max(header.types_end, header.strings_end) > len(blob):
        raise MachineError(f"{name}: truncated BTF")
    return header


class Writer:
    """Builds a small BTF blob; methods return type ids."""

    def __init__(self) -> None:
        self._types = bytearray()
        self._strings = bytearray(b"\0")
        self._known: dict[str, int] = {"": 0}
        self.count = 0

    def add_string(self, text: str) -> int:
        """Offset of ``text`` in the string section."""
        at = self._known.get(text)
        if at is None:
            at = self._known[text] = len(self._strings)
            self._strings += text.encode("utf-8", "replace").replace(b"\0", b"?") + b"\0"
        return at

    def add_record(self, kind: int, name: str, value: int, extra: bytes = b"", vlen: int = 0,
                   kflag: bool = False) -> int:
        """Append one record; ``value`` is its size or type id."""
        self._types += RECORD.pack(self.add_string(name), vlen | kind << 24 | kflag << 31, value) + extra
        self.count += 1
        return self.count

    def add_integer(self, name: str, size: int, signed: bool = True) -> int:
        """An integer of ``size`` bytes."""
        return self.add_record(INT, name, size, WORD.pack((INT_SIGNED if signed else 0) << 24 | size * 8))

    def add_pointer(self, to: int) -> int:
        """A pointer to type ``to`` (0: void)."""
        return self.add_record(PTR, "", to)

    def add_prototype(self, returns: int, params: list[tuple[str, int]]) -> int:
        """A function prototype of (name, type id) parameters."""
        extra = b"".join([PAIR.pack(self.add_string(n), t) for n, t in params])
        return self.add_record(FUNC_PROTO, "", returns, extra, len(params))

    def add_function(self, name: str, proto: int, linkage: int = FUNC_GLOBAL) -> int:
        """A function; ``linkage`` is FUNC_STATIC or FUNC_GLOBAL."""
        return self.add_record(FUNC, name, proto, vlen=linkage)

    def build_blob(self) -> bytes:
        """The finished BTF."""
        header = HEADER.pack(MAGIC, 1, 0, HEADER.size, 0, len(self._types), len(self._types), len(self._strings))
        return header + self._types + self._strings


Line = tuple[int, str, str, int, int]  # instruction index, file, text of the line, line, column
_LINE_INFO = struct.Struct("=IIII")


def build_program_btf(name: str, lines: list[Line],
                      functions: list[tuple[int, str]] | None = None,
                      separate: dict[str, int] | None = None) -> tuple[bytes, bytes, bytes]:
    """What BPF_PROG_LOAD takes to know the script's lines: (BTF, func_info records, line_info records).

    The program is one function ``int name(void *ctx)``, or ``functions``: (first instruction, name) of itself and its
    callbacks. ``separate`` has those that take and return numbers only, with how many they take: the verifier checks
    these once, whatever they are called with. ``lines`` ascend by instruction index; the kernel requires a line for
    the first instruction of a function, so the first entry is moved there and the other functions get that of the line
    before. struct bpf_func_info is {insn_off, type_id}; struct bpf_line_info {insn_off, file_name_off, line_off,
    line << 10 | column} (include/uapi/linux/bpf.h).
    """
    writer = Writer()
    proto = writer.add_prototype(writer.add_integer("int", 4), [("ctx", writer.add_pointer(0))])
    # STATIC suffices; GLOBAL makes the verifier check a function and its calls apart, the arguments by their BTF types.
    starts = sorted(functions or [(0, name)])
    infos = []
    for at, title in starts:
        count = (separate or {}).get(title, -1)
        made = writer.add_function(_make_identifier(title), proto, FUNC_STATIC) if count < 0 else \
            writer.add_function(_make_identifier(title), _number_prototype(writer, count), FUNC_GLOBAL)
        infos.append(PAIR.pack(at, made))
    if lines:
        at_start = [max([line for line in lines if line[0] <= at], default=lines[0]) for at, _ in starts[1:]]
        lines = sorted([*lines, *[(at, *line[1:]) for (at, _), line in zip(starts[1:], at_start) if line[0] != at]])
    records: list[bytes] = []
    last = -1
    for index, file, text, line, column in lines:
        if index <= last:
            continue
        at = index if records else 0
        position = min(line, (1 << 22) - 1) << 10 | min(column, (1 << 10) - 1)
        records.append(_LINE_INFO.pack(at, writer.add_string(file), writer.add_string(text), position))
        last = index
    return writer.build_blob(), b"".join(infos), b"".join(records)


def _number_prototype(writer: Writer, count: int) -> int:
    """Of a function of ``count`` numbers that returns one."""
    number = writer.add_integer("long", 8)
    return writer.add_prototype(number, [(f"p{at}", number) for at in range(count)])


def _make_identifier(name: str) -> str:
    """A C identifier made of ``name``: the kernel refuses any other function name."""
    text = "".join([c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name])
    return text if text and not text[0].isdigit() else "_" + text
