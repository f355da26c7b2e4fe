"""Uncompressed members of ZIP archives: programs are mapped from there (APPNOTE.TXT, sections 4.3.7 to 4.3.16). No
process can run what is compressed."""

from __future__ import annotations

import os
import struct

from ...errors import MachineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_END = struct.Struct("<4s4H2IH")         # end of central directory: signature ..., size and offset of the directory
_ENTRY = struct.Struct("<4s6H3I5H2I")    # a file header of the central directory, without name, extra and comment
_LOCAL = 30  # bytes of a local file header, the last four of which are the sizes of name and extra after it
_MOST_COMMENT = 0xFFFF
MOST_DIRECTORY = 32 << 20  # bytes
MOST_MEMBERS, MOST_NAME = 8192, 200  # of a list


def find_member(descriptor: int, name: str) -> tuple[int, int]:
    """(offset, size) of a member within the archive; MachineError if it is missing or compressed."""
    wanted = name.encode("utf-8", "surrogateescape")
    for member, plain, size, where in _read_directory(descriptor):
        if member == wanted:
            if not plain:
                raise MachineError(f"{name} is compressed in the archive: no process runs it from there")
            return _skip_header(descriptor, where), size
    raise MachineError(f"the archive has no member {name}")


def list_members(descriptor: int) -> list[tuple[str, int, int]]:
    """(name, offset, size) of the members that are not compressed, the first MOST_MEMBERS of them."""
    members: list[tuple[str, int, int]] = []
    for name, plain, size, where in _read_directory(descriptor):
        if plain and len(members) < MOST_MEMBERS:
            members.append((name[:MOST_NAME].decode("utf-8", "replace"), _skip_header(descriptor, where), size))
    return members


def _read_directory(descriptor: int) -> Iterator[tuple[bytes, bool, int, int]]:
    """(name, whether it is uncompressed, size, offset of its header) of each member."""
    size = os.fstat(descriptor).st_size
    tail = os.pread(descriptor, _END.size + _MOST_COMMENT, max(0, size - _END.size - _MOST_COMMENT))
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < _END.size:
        raise MachineError("not a ZIP archive")
    _, _, _, _, _, length, start, _ = _END.unpack_from(tail, at)
    if length > MOST_DIRECTORY:
        raise MachineError("its directory is too large, or it is of the kind ZIP64")
    directory, at = os.pread(descriptor, length, start), 0
    while at + _ENTRY.size <= len(directory) and directory.startswith(b"PK\1\2", at):
        row = _ENTRY.unpack_from(directory, at)
        flags, method, stored, name_size, extra_size, comment_size, where = row[3], row[4], row[9], *row[10:13], row[16]
        at += _ENTRY.size
        yield directory[at:at + name_size], not (method or flags & 1), stored, where
        at += name_size + extra_size + comment_size


def _skip_header(descriptor: int, at: int) -> int:
    """The offset of a member's data, given that of its header."""
    header = os.pread(descriptor, _LOCAL, at)
    if len(header) < _LOCAL or not header.startswith(b"PK\3\4"):
        raise MachineError("a damaged ZIP archive")
    name_size, extra_size = int.from_bytes(header[-4:-2], "little"), int.from_bytes(header[-2:], "little")
    return at + _LOCAL + name_size + extra_size
