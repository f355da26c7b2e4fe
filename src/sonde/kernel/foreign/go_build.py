"""Which Go built a file.

``.go.buildinfo`` begins with a magic number, the size of a pointer and flags (debug/buildinfo of Go). From 1.18 on the
version follows at byte 32, with its length before it; before that there is a pointer to Go's string of it. Where that
is missing, the form of the table of functions tells which versions it may be.
"""

from __future__ import annotations

from sys import byteorder

from .elf import Elf
from .gopclntab import is_go, oldest_version, pointer_at

SECTION = ".go.buildinfo"
MAGIC = b"\xff Go buildinf:"
INLINE, OTHER_ORDER = 2, 1  # flags
MOST = 128  # bytes of a version


def go_version(elf: Elf) -> str:
    """``go1.19.8``; ``go1.16+`` where only the oldest one that it can be is known; "" if Go has not built the file."""
    if not is_go(elf):
        return ""
    section = elf.find_section(SECTION)
    head = elf.read(section.offset, 33 + MOST) if section is not None else b""
    text = ""
    if section is not None and head.startswith(MAGIC) and len(head) > 33:
        if head[15] & INLINE:
            size = head[32]
            text = _printable(head[33:33 + size]) if size < 128 else ""
        elif head[14] == 8 and bool(head[15] & OTHER_ORDER) == (byteorder == "big"):
            text = _string_at(elf, pointer_at(elf, section.address + 16))
    return text if text.startswith("go1.") else oldest_version(elf)


def _string_at(elf: Elf, address: int) -> str:
    """Go's string whose header is at an address."""
    offset = elf.address_to_offset(address)
    size = int.from_bytes(elf.read(offset - elf.start + 8, 8), byteorder) if offset is not None else 0
    text = elf.address_to_offset(pointer_at(elf, address)) if 0 < size <= MOST else None
    return _printable(elf.read(text - elf.start, size)) if text is not None else ""


def _printable(data: bytes) -> str:
    text = data.decode("ascii", "replace")
    return text if text.isprintable() else ""
