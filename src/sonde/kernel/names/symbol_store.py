"""Symbols by build id, in the user's cache directory: they name functions of files that are gone, or have no symbols.

It contains small ELF files (symbol_file), written by Sonde and read by the reader of foreign files, and the debug files
fetched from a debuginfod server (debuginfod).
"""

from __future__ import annotations

from ...base import cache_dir
from ...base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..foreign.files import ElfFile

SYMBOLS, DEBUG = "symbols-", "debuginfo-"
MOST_FILES, MOST_BYTES = 1024, 256 << 20          # of the store; the least recently used is removed first
MOST_DEBUG_FILES, MOST_DEBUG_BYTES = 64, 1 << 30  # of debug files


class Entry(Record):
    """``used``: when it was last used, in seconds since 1970."""

    build_id: str
    size: int
    used: float


def open_symbols(build_id: bytes) -> int:
    """A descriptor of what the store has under a build id; -1 if there is nothing."""
    return _open(SYMBOLS, build_id)


def open_debug_file(build_id: bytes) -> int:
    """The same for a debug file."""
    return _open(DEBUG, build_id)


def names_of(build_id: bytes) -> list[str]:
    """What both are called in the cache directory."""
    return [prefix + build_id.hex() for prefix in (SYMBOLS, DEBUG)] if len(build_id) >= 8 else []


def _open(prefix: str, build_id: bytes) -> int:
    if len(build_id) < 8:
        return -1
    name = prefix + build_id.hex()
    descriptor = cache_dir.open_cached(name)
    if descriptor >= 0:
        cache_dir.touch_cached(name)
    return descriptor


def keep_symbols(file: ElfFile, origin: str) -> bool:
    """Put a file's functions into the store, unless they are there already; False if that fails. MachineError if
    the file cannot be read."""
    if len(file.build_id) < 8:
        return False
    descriptor = cache_dir.open_cached(SYMBOLS + file.build_id.hex())
    if descriptor >= 0:
        import os
        os.close(descriptor)
        return True
    return put_symbols(file.build_id, file.symbol_file(origin))


def put_symbols(build_id: bytes, contents: bytes) -> bool:
    """Store a symbol file; the least recently used make room. False if that fails."""
    if not cache_dir.write_cache(SYMBOLS + build_id.hex(), [contents]):
        return False
    cache_dir.thin_cache(SYMBOLS, MOST_FILES, MOST_BYTES)
    return True


def put_debug_file(build_id: bytes, parts: Iterable[bytes]) -> bool:
    """The same for a debug file; False also if ``parts`` raises OSError."""
    if not cache_dir.write_cache(DEBUG + build_id.hex(), parts):
        return False
    cache_dir.thin_cache(DEBUG, MOST_DEBUG_FILES, MOST_DEBUG_BYTES)
    return True


def drop_debug_file(build_id: bytes) -> None:
    """Remove the debug file of a build id."""
    cache_dir.drop_cached(DEBUG + build_id.hex())


def drop_symbols(build_id: str) -> bool:
    """Remove what is stored under a build id; whether there was anything."""
    symbols, debug = cache_dir.drop_cached(SYMBOLS + build_id), cache_dir.drop_cached(DEBUG + build_id)
    return symbols or debug


def list_symbols(prefix: str = SYMBOLS) -> list[Entry]:
    """The entries, most recently used first."""
    entries = [(name.removeprefix(prefix), size, used) for name, size, used in cache_dir.list_cached(prefix)]
    return [Entry(digits, size, used) for digits, size, used in entries
            if digits and len(digits) % 2 == 0 and not set(digits) - set("0123456789abcdef")]
