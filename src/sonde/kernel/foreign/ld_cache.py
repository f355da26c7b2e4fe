"""The loader's cache of libraries, /etc/ld.so.cache (glibc; sysdeps/generic/dl-cache.h)."""

from __future__ import annotations

import struct

from ...arch import find_arch

MOST = 16 << 20       # bytes of the file
MOST_TEXT = 4096      # of a name or path
MOST_ENTRIES = 20_000
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_CACHE_HEAD = struct.Struct("=20sIIB3xI12x")  # magic, entries, bytes of strings, flags, extensions
_CACHE_ENTRY = struct.Struct("=iIIIQ")  # flags, soname, path, kernel version, hwcap


def parse_ld_cache(data: bytes, machine: str) -> dict[str, str]:
    """The entries for one architecture; of several variants of a library the baseline one."""
    start = data.find(_CACHE_MAGIC)  # the older format may precede it
    if start < 0 or len(data) < start + _CACHE_HEAD.size:
        return {}
    arch = find_arch(machine)
    count = min(_CACHE_HEAD.unpack_from(data, start)[1], MOST_ENTRIES)
    rows = data[start + _CACHE_HEAD.size:start + _CACHE_HEAD.size + count * _CACHE_ENTRY.size]
    libraries: dict[str, str] = {}
    for flags, soname, path, _, hwcap in _CACHE_ENTRY.iter_unpack(rows[:len(rows) // 24 * 24]):
        if (arch is None or flags == arch.loader_flags) and not hwcap:
            libraries.setdefault(_string_at(data, start + soname), _string_at(data, start + path))
    libraries.pop("", None)
    return libraries


def _string_at(data: bytes, at: int) -> str:
    end = data.find(b"\0", at, at + MOST_TEXT)
    return data[at:end].decode("utf-8", "surrogateescape") if end >= 0 else ""
