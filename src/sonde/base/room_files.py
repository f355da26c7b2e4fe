"""A room of the package, or a folder's scripts, as one file, which an archive compresses much better than each of many.

It is a dictionary, written by ``marshal``: paths from the package's parent on, and the bytes of each file.
"""

from __future__ import annotations

import marshal

SUFFIX = ".room"
MARSHAL = 2  # its version that every Python reads, and that writes the same bytes each time


def pack_room(files: dict[str, bytes]) -> bytes:
    """The file of a room."""
    return marshal.dumps(files, MARSHAL)


def unpack_room(data: bytes) -> dict[str, bytes]:
    """What ``pack_room`` packed."""
    files: dict[str, bytes] = marshal.loads(data)
    return files
