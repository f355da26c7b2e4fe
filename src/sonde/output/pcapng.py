"""Packets in files of the form pcapng, with what is to be said of each (draft-ietf-opsawg-pcapng)."""

from __future__ import annotations

import struct

ETHERNET, RAW_IP = 1, 101  # LINKTYPE_ETHERNET, LINKTYPE_RAW
LONGEST = 262144           # bytes of a packet, as tcpdump has it
_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6  # types of blocks
_BYTE_ORDER = 0x1A2B3C4D
_COMMENT, _NAME, _DESCRIPTION, _APPLICATION, _RESOLUTION = 1, 2, 3, 4, 9  # options
_NANOSECONDS = 9           # of the resolution: a power of ten
_MOST = 65535              # bytes of an option


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _options(*given: tuple[int, bytes]) -> bytes:
    """Options, and the end of them."""
    return b"".join([struct.pack("=HH", code, len(value)) + _padded(value) for code, value in given]) + bytes(4)


def _block(kind: int, body: bytes) -> bytes:
    length = 12 + len(body)
    return struct.pack("=II", kind, length) + body + struct.pack("=I", length)


def _text(text: str) -> bytes:
    """As UTF-8, which options are; what does not fit is cut off between characters."""
    data = text.encode("utf-8", "replace")
    return data if len(data) <= _MOST else data[:_MOST].decode("utf-8", "ignore").encode()


class Pcapng:
    """The blocks of a file, one after another."""

    def __init__(self, application: str) -> None:
        self._start = _block(_SECTION, struct.pack("=IHHq", _BYTE_ORDER, 1, 0, -1)
                             + _options((_APPLICATION, _text(application))))
        self._interfaces: dict[tuple[str, str, int], int] = {}

    def start(self) -> bytes:
        """What a file begins with; b"" the second time."""
        begun, self._start = self._start, b""
        return begun

    def packet_blocks(self, interface: tuple[str, str, int], time: int, packet: tuple[bytes, int],
                      comment: str) -> bytes:
        """A packet: its bytes, of ``packet[1]`` that it had, at Unix time in nanoseconds. The first of an interface
        (name, description, link type) describes that as well."""
        before = self.start()
        if interface not in self._interfaces:
            self._interfaces[interface] = len(self._interfaces)
            name, description, link = interface
            before += _block(_INTERFACE, struct.pack("=HHI", link, 0, LONGEST) + _options(
                (_NAME, _text(name)), (_DESCRIPTION, _text(description)), (_RESOLUTION, bytes((_NANOSECONDS,)))))
        data, length = packet
        head = struct.pack("=IIIII", self._interfaces[interface], time >> 32, time & 0xFFFFFFFF, len(data),
                           max(length, len(data)))
        return before + _block(_PACKET, head + _padded(data) + _options((_COMMENT, _text(comment))))
