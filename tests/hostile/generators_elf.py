"""ELF files as nobody's compiler makes them: bombs that are small on disk and large for whoever reads them."""

from __future__ import annotations

import lzma
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from go_tables import make_table

TEXT, BASE = 0x1000, 0x401000  # the code's offset and address; 0x1000 bytes
SYMTAB, STRTAB, NOTE, PROGBITS = 2, 3, 7, 1
COMPRESSED = 0x800
MIB = 1 << 20


class Part(NamedTuple):
    """A section: its contents, or with a ``size`` beyond them a hole behind them."""

    name: str
    kind: int = PROGBITS
    data: bytes = b""
    size: int = 0
    link: int = 0
    flags: int = 0
    address: int = 0


def write_elf(path: Path, parts: Sequence[Part], names_size: int = 0, headers: bytes = b"", code: int = 0x1000) -> Path:
    """An executable with ``code`` bytes of code at BASE and these sections (numbered from 1). ``names_size`` makes the
    table of section names that large, by a hole; ``headers`` are section headers of one's own behind the usual ones."""
    names, rows, at = b"\0", [bytes(64)], 0x2000 + code
    with path.open("wb") as file:
        for part in parts:
            size = max(part.size, len(part.data))
            file.seek(at)
            file.write(part.data)
            rows.append(_header(len(names), part.kind, part.flags, part.address, at, size, part.link))
            names += part.name.encode() + b"\0"
            at += (size + 15) & ~15
        rows.append(_header(len(names), STRTAB, 0, 0, at, max(names_size, len(names) + 10), 0))
        names += b".shstrtab\0"
        file.seek(at)
        file.write(names)
        at += (max(names_size, len(names)) + 15) & ~15
        file.seek(at)
        file.write(b"".join(rows) + headers)
        file.truncate(max(file.tell(), 0x2000 + code))
        file.seek(0)
        ident = b"\x7fELF\2\1\1" + bytes(9)
        file.write(struct.pack("=16sHHIQQQIHHHHHH", ident, 2, 62, 1, BASE, 64, at, 0, 64, 56, 1, 64,
                               len(rows) + len(headers) // 64, len(rows) - 1))
        file.write(struct.pack("=IIQQQQQQ", 1, 5, TEXT, BASE, 0, code, code, 0x1000))
        file.seek(TEXT)
        file.write(b"\xc3" * code)
    return path


def _header(name: int, kind: int, flags: int, address: int, at: int, size: int, link: int) -> bytes:
    return struct.pack("=IIQQQQIIQQ", name, kind, flags, address, at, size, link, 0, 8, 24 if kind == SYMTAB else 0)


def symbol(name: int, address: int = BASE, size: int = 16) -> bytes:
    """A function's row of a symbol table."""
    return struct.pack("=IBBHQQ", name, 0x12, 0, 1, address, size)


def with_symbols(path: Path, names: Sequence[bytes]) -> Path:
    """Functions of 16 bytes, one after the other from BASE on."""
    text, rows = bytearray(1), bytearray(24)
    for index, name in enumerate(names):
        rows += symbol(len(text), BASE + 16 * index)
        text += name + b"\0"
    return write_elf(path, [Part(".symtab", SYMTAB, bytes(rows), link=2), Part(".strtab", STRTAB, bytes(text))],
                     code=max(0x1000, 16 * len(names)))


# ---- symbols

def one_name_of_a_megabyte(path: Path) -> Path:
    """4,000 functions that share it."""
    rows = bytes(24) + b"".join([symbol(1, BASE + index) for index in range(4000)])
    return write_elf(path, [Part(".symtab", SYMTAB, rows, link=2), Part(".strtab", STRTAB, b"\0" + b"n" * MIB + b"\0")])


def symbols_in_a_hole(path: Path) -> Path:
    """A table of 2 GiB that has no block on disk."""
    return write_elf(path, [Part(".symtab", SYMTAB, b"", 2 << 30, link=2), Part(".strtab", STRTAB, b"\0f\0")])


def strings_in_a_hole(path: Path) -> Path:
    """A million functions, whose names are all over 2 GiB of nothing."""
    rows = bytes(24) + b"".join([symbol(1 + index * 2000, BASE + index % 4096) for index in range(1_000_000)])
    return write_elf(path, [Part(".symtab", SYMTAB, rows, link=2), Part(".strtab", STRTAB, b"\0f\0", 2 << 30)])


def go_functions_in_a_hole(path: Path) -> Path:
    """Go's table of a million functions, of which there is nothing but the number."""
    table = make_table("1.20", [("f", BASE, 0)], BASE + 8)
    return write_elf(path, [Part(".gopclntab", data=table[:8] + struct.pack("=Q", 1_000_000) + table[16:],
                                 size=1 << 30)])


def go_functions_all_over(path: Path) -> Path:
    """Go's table of 500,000 functions whose blocks are each as far from the last as they can be."""
    head = make_table("1.20", [("f", BASE, 0)], BASE + 8)[:8]
    rows = b"".join([struct.pack("=II", index % 4096, (index * 40503 << 11) % (1 << 29)) for index in range(500_000)])
    words = struct.pack("=8Q", 500_000, 0, BASE, 72, 0, 0, 0, 72)
    return write_elf(path, [Part(".gopclntab", data=head + words + rows, size=1 << 30)])


def one_table_many_times(path: Path) -> Path:
    """60,000 sections that are the same table of 200,000 functions."""
    rows = bytes(24) + b"".join([symbol(1, BASE + index % 4096) for index in range(200_000)])
    again = _header(1, SYMTAB, 0, 0, 0x3000, len(rows), 2)
    return write_elf(path, [Part(".symtab", SYMTAB, rows, link=2), Part(".strtab", STRTAB, b"\0f\0")],
                     headers=again * 60_000)


def section_names_in_a_hole(path: Path) -> Path:
    """65,000 sections, whose names are all over 256 MiB of nothing."""
    headers = b"".join([_header(index * 4000, PROGBITS, 0, 0, 0, 0, 0) for index in range(65_000)])
    return write_elf(path, [], names_size=256 * MIB, headers=headers)


def xz_bomb(path: Path, size: int = 1024 * MIB) -> Path:
    """.gnu_debugdata that is a GiB when it is unpacked."""
    pack = lzma.LZMACompressor(preset=0)
    data = b"".join([pack.compress(bytes(MIB)) for _ in range(size // MIB)]) + pack.flush()
    return write_elf(path, [Part(".gnu_debugdata", data=data)])


def exponential_name(levels: int = 40) -> bytes:
    """A C++ name of some 500 bytes for a function whose parameters are pointers to functions of the ones before: the
    text doubles with each."""
    def refer(number: int) -> bytes:
        digits = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        number -= 1
        text = b"" if number < 0 else digits[number % 36:number % 36 + 1]
        return b"S" + (digits[number // 36:number // 36 + 1] if number >= 36 else b"") + text + b"_"

    name, last = b"_Z1fPFvvE", 1  # S_ is the function, S0_ the pointer to it
    for _ in range(levels):
        name += b"PFv" + refer(last) * 2 + b"E"
        last += 2
    return name


# ---- unwind tables

def frames(path: Path, data: bytes, size: int = 0) -> Path:
    return write_elf(path, [Part(".eh_frame", data=data, size=size, address=0x500000)])


def _record(body: bytes) -> bytes:
    return struct.pack("=I", len(body)) + body


def long_number(path: Path) -> Path:
    """A code alignment factor of 800,000 bytes."""
    common = _record(struct.pack("=IB", 0, 1) + b"\0" + b"\x80" * 800_000 + b"\1\x78\x10")
    return frames(path, common + _record(struct.pack("=IQQ", len(common) + 4, BASE, 0x1000)))


def endless_program(path: Path) -> Path:
    """An entry for all code, whose instructions are 24 MiB of nothing: DW_CFA_nop."""
    common = _record(struct.pack("=IB", 0, 1) + b"\0\1\x78\x10")
    at, length = len(common), 24 * MIB
    head = struct.pack("=II", length, at + 4) + struct.pack("=QQ", BASE, 0x1000)
    return frames(path, common + head, at + 4 + length)


def states_without_end(path: Path) -> Path:
    """An entry that remembers its state ten million times, with a hundred rules in it."""
    common = _record(struct.pack("=IB", 0, 1) + b"\0\1\x78\x10")
    rules = b"".join([bytes((0x05,)) + bytes((0x80 | n & 0x7F, 1, n)) for n in range(120)])
    program = rules + b"\x0a" * 10_000_000
    return frames(path, common + _record(struct.pack("=IQQ", len(common) + 4, BASE, 0x1000) + program))


# ---- debug information (DWARF 4, by hand)

_ABBREVIATIONS = bytes((
    1, 0x11, 1, 0x11, 0x01, 0x12, 0x07, 0, 0,           # compile unit: low_pc addr, high_pc data8
    2, 0x2E, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0,  # subprogram: name string, low_pc, high_pc
    3, 0x05, 0, 0x03, 0x08, 0x49, 0x13, 0, 0,           # formal parameter: name, type ref4
    4, 0x24, 0, 0x03, 0x08, 0x0B, 0x0B, 0x3E, 0x0B, 0, 0,  # base type: name, size, encoding
    5, 0x15, 1, 0, 0,                                   # subroutine type
    6, 0x05, 0, 0x49, 0x13, 0, 0,                       # parameter of it: type
    7, 0x0F, 0, 0x49, 0x13, 0, 0,                       # pointer: type
    8, 0x01, 1, 0x49, 0x13, 0, 0,                       # array: type
    9, 0x21, 0, 0x2F, 0x06, 0, 0,                       # its length: upper bound data4
    10, 0x03, 0, 0x03, 0x0E, 0, 0,                      # an entry with its name in .debug_str
    0))


def dwarf(path: Path, types: bytes, last: int, more: Sequence[Part] = ()) -> Path:
    """A function ``f`` at BASE whose parameter has the type at ``last``, an offset in the unit, among ``types``, which
    begin at TYPES."""
    body = types + bytes((2,)) + b"f\0" + struct.pack("=QQ", BASE, 16) + bytes((3,)) + b"x\0" + struct.pack("=I", last)
    unit = struct.pack("=HIB", 4, 0, 8) + bytes((1,)) + struct.pack("=QQ", BASE, 0x1000) + body + b"\0\0"
    return write_elf(path, [Part(".symtab", SYMTAB, bytes(24) + symbol(1), link=2), Part(".strtab", STRTAB, b"\0f\0"),
                            Part(".debug_info", data=_record(unit)), Part(".debug_abbrev", data=_ABBREVIATIONS), *more])


TYPES = 11 + 17  # the unit's header and first entry


def doubling_declarator(path: Path, levels: int = 60) -> Path:
    """A parameter whose C declaration has 2^60 parts: pointers to functions of two pointers to functions of ..."""
    types = bytes((4,)) + b"int\0\4\5"
    last = TYPES
    for _ in range(levels):
        function = TYPES + len(types)
        types += bytes((5,)) + (bytes((6,)) + struct.pack("=I", last)) * 2 + b"\0"
        last = TYPES + len(types)
        types += bytes((7,)) + struct.pack("=I", function)
    return dwarf(path, types, last)


def immense_array(path: Path, dimensions: int = 60_000) -> Path:
    """A parameter that is an array of 60,000 dimensions of 2^32 each."""
    types = bytes((4,)) + b"int\0\4\5"
    last = TYPES + len(types)
    types += bytes((8,)) + struct.pack("=I", TYPES) + (bytes((9,)) + b"\xfe\xff\xff\xff") * dimensions + b"\0"
    return dwarf(path, types, last)


def debug_string_bomb(path: Path, size: int = 1400 * MIB) -> Path:
    """.debug_str of 1.4 GiB that zlib made small."""
    pack = zlib.compressobj(1)
    data = b"".join([pack.compress(bytes(MIB)) for _ in range(size // MIB)]) + pack.flush()
    head = struct.pack("=IIQQ", 1, 0, size, 1)
    return dwarf(path, bytes((4,)) + b"int\0\4\5", TYPES, [Part(".debug_str", data=head + data, flags=COMPRESSED)])


# ---- static probes

def probe_note(name: str, arguments: bytes, address: int = BASE) -> bytes:
    """A note of <sys/sdt.h>: provider ``app``."""
    body = struct.pack("=QQQ", address, 0, 0) + b"app\0" + name.encode() + b"\0" + arguments + b"\0"
    return struct.pack("=III8s", 8, len(body), 3, b"stapsdt\0") + body + bytes(-len(body) % 4)


def with_notes(path: Path, notes: Sequence[bytes]) -> Path:
    return write_elf(path, [Part(".note.stapsdt", NOTE, b"".join(notes))])
