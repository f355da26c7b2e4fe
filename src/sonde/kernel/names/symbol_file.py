"""Functions of a file as a small ELF file of their own: the format of the symbol store, which any other tool can
read."""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...spec import UserFunction

ORIGIN = ".sonde.origin"  # the section with the path of the file that the symbols came from
_PT_LOAD = 1
_PROGBITS, _SYMTAB, _STRTAB, _NOTE, _NOBITS = 1, 2, 3, 7, 8
_ALLOCATED_CODE = 2 | 4   # SHF_ALLOC, SHF_EXECINSTR
_GLOBAL_FUNCTION = 1 << 4 | 2
_CODE = 1                 # the section that stands for all code; it has no bytes
_HEADER, _SEGMENT = struct.Struct("=16sHHIQQQIHHHHHH"), struct.Struct("=IIQQQQQQ")
_SECTION, _SYMBOL = struct.Struct("=IIQQQQIIQQ"), struct.Struct("=IBBHQQ")


def write_symbol_file(type: int, machine: int, loads: list[tuple[int, int, int]], build_id: bytes, origin: str,
                      functions: Iterable[UserFunction]) -> bytes:
    """The ELF file: ``loads`` are (first address, end, offset) of what is mapped of the original."""
    symbols, texts = bytearray(_SYMBOL.size), bytearray(b"\0")
    for function in functions:
        symbols += _SYMBOL.pack(len(texts), _GLOBAL_FUNCTION, 0, _CODE, function.address, function.size)
        texts += function.name.encode("utf-8", "surrogateescape") + b"\0"
    low, high = min([load[0] for load in loads], default=0), max([load[1] for load in loads], default=0)
    note = struct.pack("=III4s", 4, len(build_id), 3, b"GNU\0") + build_id + bytes(-len(build_id) % 4)
    parts = [(".text", _NOBITS, b"", 0), (".note.gnu.build-id", _NOTE, note, 0),
             (".symtab", _SYMTAB, bytes(symbols), 4), (".strtab", _STRTAB, bytes(texts), 0),
             (ORIGIN, _PROGBITS, origin.encode("utf-8", "surrogateescape"), 0)]
    names = b"\0" + b"".join([name.encode() + b"\0" for name, *_ in parts]) + b".shstrtab\0"
    start = _HEADER.size + _SEGMENT.size * len(loads)
    at, name_at, rows, body = start, 1, [bytes(_SECTION.size)], bytearray()
    for name, kind, data, link in [*parts, (".shstrtab", _STRTAB, names, 0)]:
        code = kind == _NOBITS
        rows.append(_SECTION.pack(name_at, kind, _ALLOCATED_CODE if code else 0, low if code else 0, at,
                                  high - low if code else len(data), link, 1 if kind == _SYMTAB else 0,
                                  4 if kind == _NOTE else 8,
                                  _SYMBOL.size if kind == _SYMTAB else 0))
        padded = data + bytes(-len(data) % 8)
        body += padded
        at, name_at = at + len(padded), name_at + len(name) + 1
    ident = b"\x7fELF" + (b"\2\1" if struct.pack("=H", 1)[0] else b"\2\2") + b"\1" + bytes(9)
    header = _HEADER.pack(ident, type, machine, 1, 0, _HEADER.size, at, 0, _HEADER.size, _SEGMENT.size, len(loads),
                          _SECTION.size, len(rows), len(rows) - 1)
    segments = [_SEGMENT.pack(_PT_LOAD, 5, offset, first, first, end - first, end - first, 1)
                for first, end, offset in loads]
    return header + b"".join(segments) + body + b"".join(rows)
