"""The file of a recording: a head, then compressed blocks, each with a checksum over the whole file up to its end.

::

    16 bytes       MAGIC, whose last number is the version of the format
    blocks         tag (4 ASCII characters), u32 bytes packed, u32 bytes unpacked, u32 CRC-32; then zlib's data

Numbers are little-endian. The CRC-32 continues that of the block before it (of MAGIC for the first) over the block's
first 12 bytes and its data: a block that is damaged, missing, repeated or moved is detected.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from struct import Struct as Layout
from typing import BinaryIO

from ..errors import SondeError

MAGIC = b"sonde recording1"
LARGEST = 16 << 20  # bytes of a block, unpacked

_HEAD = Layout("<4sIII")
_START = Layout("<4sII")
_LEVEL = 4  # of zlib: half the time of its default for 2% more bytes


class RecordingError(SondeError):
    """The file is not a recording, or was changed. ``truncated``: it is merely incomplete, as after a crash."""

    def __init__(self, message: str, truncated: bool = False, hints: Sequence[str] = ()) -> None:
        super().__init__(message, hints)
        self.truncated = truncated


class BlockWriter:
    """Writes blocks to a file descriptor that the caller still owns. Each is complete in the file when the call
    returns."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._sum = zlib.crc32(MAGIC)
        self.bytes = 0  # written so far
        self._write(MAGIC)

    def write_block(self, tag: bytes, data: bytes) -> None:
        """Append a block. SondeError if it is larger than LARGEST; OSError if the disk is full."""
        if len(data) > LARGEST:
            raise SondeError(f"a recording has no place for {len(data)} bytes in one piece: {LARGEST} at most")
        packed = zlib.compress(data, _LEVEL)
        start = _START.pack(tag, len(packed), len(data))
        self._sum = zlib.crc32(packed, zlib.crc32(start, self._sum))
        self._write(_HEAD.pack(tag, len(packed), len(data), self._sum) + packed)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._descriptor, left):]
        self.bytes += len(data)


def read_blocks(file: BinaryIO, name: str) -> Iterator[tuple[bytes, bytes]]:
    """The (tag, data) of each block of the file called ``name``, one at a time. RecordingError where the file is
    damaged."""
    magic = file.read(len(MAGIC))
    if magic != MAGIC:
        if magic[:-1] == MAGIC[:-1] and magic[-1:].isdigit():
            raise RecordingError(f"{name} is a recording of format {magic[-1:].decode()}, "
                                 "and this Sonde reads format 1")
        raise RecordingError(f"{name} is no recording", truncated=bool(magic) and MAGIC.startswith(magic))
    number, before = 0, zlib.crc32(MAGIC)
    while head := file.read(_HEAD.size):
        number += 1
        if len(head) < _HEAD.size:
            raise RecordingError(f"{name} ends within block {number}", truncated=True)
        tag, packed_size, size, expected = _HEAD.unpack(head)
        if size > LARGEST or packed_size > LARGEST + (LARGEST >> 8):
            raise RecordingError(f"{name}: block {number} is damaged")
        packed = file.read(packed_size)
        if len(packed) < packed_size:
            raise RecordingError(f"{name} ends within block {number}", truncated=True)
        before = zlib.crc32(packed, zlib.crc32(head[:_START.size], before))
        if before != expected:
            raise RecordingError(f"{name}: block {number} is damaged")
        yield tag, _unpack(packed, size, f"{name}: block {number} is damaged")


def _unpack(packed: bytes, size: int, problem: str) -> bytes:
    """Data of exactly ``size`` bytes; takes no more memory, whatever the data says."""
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(packed, size + 1)
    except zlib.error:
        raise RecordingError(problem) from None
    if len(data) != size or not unpacker.eof or unpacker.unused_data:
        raise RecordingError(problem)
    return data
