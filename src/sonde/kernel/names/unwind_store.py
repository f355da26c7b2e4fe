"""Unwind tables in the user's cache directory: those of a large program take many seconds to make.

A build id is what a file says of itself, so an entry is for one file: by its build id, and by device, inode, size and
times (``stamp``), which another user's file cannot have too. A damaged entry is thrown away.
"""

from __future__ import annotations

from struct import Struct as Layout
from zlib import crc32

from ...base import cache_dir
from ...layouts.unwind_format import ROW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..foreign.files import ElfFile

PREFIX = "unwind-"
MOST_FILES, MOST_BYTES = 64, 512 << 20  # the least recently used is removed first
_HEAD = Layout("=8sIIQ")                # what it is, checksums of name and rows, how many rows
_MAGIC = b"sonde\0u1"                   # to be changed with the form of the rows


def read_rows(file: ElfFile) -> bytes | None:
    """What is kept of a file; None if there is nothing."""
    name = _name_of(file)
    content = cache_dir.read_cache(name)
    if content is None:
        return None
    rows = content[_HEAD.size:]
    if content[:_HEAD.size] != _head_of(name, rows) or len(rows) % ROW.size:
        cache_dir.drop_cached(name)
        return None
    cache_dir.touch_cached(name)
    return rows


def keep_rows(file: ElfFile, rows: bytes) -> None:
    """Keep the rows of a file; the least recently used make room. Nothing if that fails."""
    name = _name_of(file)
    if cache_dir.write_cache(name, [_head_of(name, rows), rows]):
        cache_dir.thin_cache(PREFIX, MOST_FILES, MOST_BYTES)


def _name_of(file: ElfFile) -> str:
    return f"{PREFIX}{file.build_id[:20].hex()}-{'-'.join([f'{number:x}' for number in file.stamp])}"


def _head_of(name: str, rows: bytes) -> bytes:
    return _HEAD.pack(_MAGIC, crc32(name.encode()), crc32(rows), len(rows) // ROW.size)
