"""Packets to files that every network tool reads (pcap: draft-ietf-opsawg-pcap).

skboutput() needs no --unsafe. So a script can harm no file with it: it creates new files, and replaces the caller's
earlier captures, nothing else.
"""

from __future__ import annotations

import os
import stat
from struct import Struct

from ..base.trusted_files import open_guarded, own_users
from ..errors import SondeError

_HEADER = Struct("=IHHiIII")  # magic, version, time zone, accuracy, longest packet, link type
_RECORD = Struct("=IIII")     # seconds, microseconds, bytes kept, bytes on the wire
MICROSECONDS, RAW_IP, LONGEST = 0xA1B2C3D4, 101, 65535
_MAGICS = {magic.to_bytes(4, order) for magic in (MICROSECONDS, 0xA1B23C4D) for order in ("little", "big")}


class PacketFile:
    """A pcap file of raw IP packets, open until the process ends; every packet is in it once it is written."""

    def __init__(self, path: str) -> None:
        try:
            self._descriptor = _open_capture(path)
        except (OSError, ValueError) as error:
            raise SondeError(f"skboutput: failed to open '{path}': {getattr(error, 'strerror', error)}") from None
        self._write_bytes(_HEADER.pack(MICROSECONDS, 2, 4, 0, 0, LONGEST, RAW_IP))

    def write(self, time: int, packet: bytes, length: int) -> None:
        """A packet of ``length`` bytes of which those in ``packet`` were kept, at Unix time in nanoseconds."""
        seconds, rest = divmod(time, 1_000_000_000)
        self._write_bytes(_RECORD.pack(seconds, rest // 1000, len(packet), max(length, len(packet))) + packet)

    def _write_bytes(self, data: bytes) -> None:
        try:
            os.write(self._descriptor, data)
        except OSError as error:
            raise SondeError(f"skboutput: {error.strerror}") from None

    def close(self) -> None:
        """Give the file back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.close()


def _open_capture(path: str) -> int:
    """A new file, or an earlier capture, emptied. OSError for any other file: it would be lost."""
    try:
        return open_guarded(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        pass
    descriptor = open_guarded(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        _check_capture(descriptor)
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_capture(descriptor: int) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size and os.read(descriptor, 4) not in _MAGICS:
        raise FileExistsError(0, "it is there already, and is no capture that could be replaced")
    if status.st_uid not in own_users():
        raise PermissionError(0, "it belongs to another user")
