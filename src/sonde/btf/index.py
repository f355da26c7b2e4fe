"""Where each type of a BTF blob is, and which types have a name: built by one walk, then kept on disk.

vmlinux has some 130,000 types, and Python needs 0.1 s to walk them. The result is four flat tables, which the next
start reads from the cache directory and searches in place.

File: magic, counts (u64 each), then the tables, each padded to 8 bytes::

    kinds        u8 per type, by id - first
    offsets      u32 per type: its record's place in the type section
    names        u64 per named type: crc32(name) << 32 | id, ascending
    enumerators  u64 per enum constant: crc32(name) << 32 | id of its enum, ascending
"""

from __future__ import annotations

import mmap
import os
import struct
from zlib import crc32

from ..base.cache_dir import read_cache, write_cache
from ..base.fast_stdlib import bisect_left
from ..errors import MachineError
from .codec import ENUM, ENUM64, EXTRA, EXTRA_EACH, KINDS, PAIR, RECORD, TRIPLE, Blob, Header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_MAGIC = b"SondeBTF"
_VERSION = 1
SMALL = 1 << 15  # bytes of a module's BTF
_HEAD = struct.Struct("=8sQQQQ")  # magic, version, types, names, enumerators


class TypeIndex:
    """The four tables of one blob; ``first`` is the id of its first type (1, or one past the base's last)."""

    def __init__(self, first: int, kinds: Sequence[int], offsets: Sequence[int], names: Sequence[int],
                 enumerators: Sequence[int]) -> None:
        self.first = first
        self.kinds = kinds
        self.offsets = offsets
        self.names = names
        self.enumerators = enumerators

    def __len__(self) -> int:
        return len(self.offsets)

    def candidate_ids(self, name: str) -> list[int]:
        """Ids of types whose name may be ``name`` (the hash agrees)."""
        return _find_by_hash(self.names, name)

    def candidate_enums(self, name: str) -> list[int]:
        """Ids of enums that may have the constant ``name``."""
        return _find_by_hash(self.enumerators, name)

    def ids_of_kinds(self, wanted: frozenset[int]) -> Iterator[int]:
        """Ids of all types of some kinds, ascending."""
        first = self.first
        return (first + i for i, kind in enumerate(self.kinds) if kind in wanted)


def _find_by_hash(table: Sequence[int], name: str) -> list[int]:
    digest = crc32(name.encode("utf-8", "surrogateescape")) << 32
    at = bisect_left(table, digest)
    ids = []
    while at < len(table) and table[at] >> 32 == digest >> 32:
        ids.append(table[at] & 0xFFFFFFFF)
        at += 1
    return ids


def build_index(blob: Blob, header: Header, first: int = 1, base_string: Callable[[int], bytes] | None = None,
                string_base: int = 0, name: str = "BTF") -> TypeIndex:
    """Walk the type section. For a split blob, ``base_string`` gives the strings below offset ``string_base``.

    Raises MachineError if the records are malformed.
    """
    from array import array
    data = blob.ensure_range(0, len(blob))
    kinds, offsets = bytearray(), array("I")
    named, constants = array("I"), array("I")  # string offset, id, string offset, id ...
    enums: list[int] = []
    unpack, at, end, start = RECORD.unpack_from, header.types, header.types_end, header.types
    while at + 12 <= end:
        name_off, info, _ = unpack(data, at)
        kind = info >> 24 & 0x1F
        if kind >= KINDS:
            raise MachineError(f"{name}: type {first + len(kinds)} has kind {kind}, which is unknown to Sonde")
        if name_off:
            named.append(name_off)
            named.append(first + len(kinds))
        if kind == ENUM or kind == ENUM64:
            enums.append(first + len(kinds))
        kinds.append(kind)
        offsets.append(at - start)
        at += 12 + EXTRA[kind] + (info & 0xFFFF) * EXTRA_EACH[kind]
    if at != end:
        raise MachineError(f"{name}: the last type is cut off")
    digest = _make_hasher(data, header, base_string, string_base)
    for enum in enums:
        at = start + offsets[enum - first]
        for offset in _constant_names(data, at, kinds[enum - first]):
            constants.extend((offset, enum))
    tables = [array("Q", sorted([digest(flat[n]) << 32 | flat[n + 1] for n in range(0, len(flat), 2)]))
              for flat in (named, constants)]
    return TypeIndex(first, kinds, offsets, tables[0], tables[1])


def _constant_names(data: mmap.mmap, at: int, kind: int) -> list[int]:
    """String offsets of the constants of the enum at ``at``."""
    element = TRIPLE if kind == ENUM64 else PAIR
    size = (RECORD.unpack_from(data, at)[1] & 0xFFFF) * element.size
    return [fields[0] for fields in element.iter_unpack(data[at + 12:at + 12 + size])]


def _make_hasher(data: mmap.mmap, header: Header, base_string: Callable[[int], bytes] | None,
                 string_base: int) -> Callable[[int], int]:
    """A function from string offset to crc32."""
    start, end, find = header.strings - string_base, header.strings_end, data.find

    def hash_string(offset: int) -> int:
        if base_string and offset < string_base:
            return crc32(base_string(offset))
        at = start + offset
        stop = find(b"\0", at, end)
        return crc32(data[at:stop if stop >= 0 else end])

    return hash_string


def load_or_build_index(blob: Blob, header: Header, key: str, first: int = 1,
                        base_string: Callable[[int], bytes] | None = None, string_base: int = 0,
                        name: str = "BTF") -> TypeIndex:
    """The index from the cache, or built (see :func:`build_index`) and then cached. Works without a writable cache."""
    index = _load_index(f"btf-{key}.index", header, first) if key else None
    if index is None:
        index = build_index(blob, header, first, base_string, string_base, name)
        if key:
            _save_index(f"btf-{key}.index", index)
    return index


def module_key(base: str, blob: Blob) -> str:
    """What distinguishes a module's BTF from any other: the kernel's key and its whole contents. "" if it is not to be
    cached: without a kernel's key, or so small that building takes no longer than looking for a file."""
    return f"{base}-{crc32(blob.ensure_range(0, len(blob))):08x}-{len(blob):x}" if base and len(blob) >= SMALL else ""


def kernel_key(header_bytes: bytes, size: int) -> str:
    """What distinguishes one kernel's BTF from another's: its header and size, the kernel's build id and its
    release."""
    try:
        with open("/sys/kernel/notes", "rb") as file:
            notes = file.read()
    except OSError:
        notes = b""
    uname = os.uname()
    digest = crc32(f"{uname.release} {uname.version} {uname.machine}".encode(), crc32(notes, crc32(header_bytes)))
    return f"{digest:08x}-{size:x}"


def _pad_to_words(size: int) -> bytes:
    return bytes(-size % 8)


def _save_index(file: str, index: TypeIndex) -> None:
    from array import array
    tables = [bytes(bytearray(index.kinds)), array("I", index.offsets).tobytes(), array("Q", index.names).tobytes(),
              array("Q", index.enumerators).tobytes()]
    head = _HEAD.pack(_MAGIC, _VERSION, len(index.offsets), len(index.names), len(index.enumerators))
    parts = [head]
    for table in tables:
        parts += [table, _pad_to_words(len(table))]
    write_cache(file, parts)


def _load_index(file: str, header: Header, first: int) -> TypeIndex | None:
    """The index in a cache file; None if there is none, or it cannot belong to this blob."""
    view = memoryview(read_cache(file) or b"")
    if len(view) < _HEAD.size:
        return None
    magic, version, types, names, enumerators = _HEAD.unpack_from(view, 0)
    at, tables = _HEAD.size, []
    for size in (types, types * 4, names * 8, enumerators * 8):
        tables.append(view[at:at + size])
        at += size + -size % 8
    if (magic, version, at) != (_MAGIC, _VERSION, len(view)) or not types:
        return None
    offsets = tables[1].cast("I")
    if header.types + offsets[types - 1] + 12 > header.types_end:
        return None
    return TypeIndex(first, tables[0], offsets, tables[2].cast("Q"), tables[3].cast("Q"))
