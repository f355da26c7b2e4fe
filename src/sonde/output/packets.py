"""Packets to files that every network tool reads (pcap: draft-ietf-opsawg-pcap)."""

from __future__ import annotations

import os
from struct import Struct

from ..errors import SondeError

_HEADER = Struct("=IHHiIII")  # magic, version, time zone, accuracy, longest packet, link type
_RECORD = Struct("=IIII")     # seconds, microseconds, bytes kept, bytes on the wire
MICROSECONDS, RAW_IP, LONGEST = 0xA1B2C3D4, 101, 65535


class PacketFile:
    """A pcap file of raw IP packets, open until the process ends; every packet is in it once it is written."""

    def __init__(self, path: str) -> None:
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        except (OSError, ValueError) as error:
            raise SondeError(f"skboutput: failed to open '{path}': {getattr(error, 'strerror', error)}") from None
        self._put(_HEADER.pack(MICROSECONDS, 2, 4, 0, 0, LONGEST, RAW_IP))

    def write(self, time: int, packet: bytes, length: int) -> None:
        """A packet of ``length`` bytes of which those in ``packet`` were kept, at Unix time in nanoseconds."""
        seconds, rest = divmod(time, 1_000_000_000)
        self._put(_RECORD.pack(seconds, rest // 1000, len(packet), max(length, len(packet))) + packet)

    def _put(self, data: bytes) -> None:
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
