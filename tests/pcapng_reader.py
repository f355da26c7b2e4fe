"""A strict reader of pcapng (draft-ietf-opsawg-pcapng), for files of one section."""

from __future__ import annotations

import struct
from typing import NamedTuple


class Packet(NamedTuple):
    interface: str
    description: str
    link: int
    time: int
    length: int
    data: bytes
    comment: str


def read_options(body: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while body:
        code, length = struct.unpack_from("=HH", body)
        if not code:
            assert length == 0 and len(body) == 4
            return found
        found[code] = body[4:4 + length]
        size = 4 + length + -length % 4
        assert not any(body[4 + length:size]), "padding"
        body = body[size:]
    raise AssertionError("options without an end")


def read_pcapng(data: bytes) -> list[Packet]:
    """Every packet; each block's length is said twice, each interface before its first packet."""
    packets, interfaces, first = [], [], True
    while data:
        kind, length = struct.unpack_from("=II", data)
        assert length % 4 == 0 and length >= 12 and struct.unpack_from("=I", data, length - 4) == (length,)
        body, data = data[8:length - 4], data[length:]
        assert (kind == 0x0A0D0D0A) == first, "one section, at the beginning"
        if first:
            assert struct.unpack_from("=IHHq", body) == (0x1A2B3C4D, 1, 0, -1)
            assert read_options(body[16:])[4].startswith(b"sonde ")
            first = False
        elif kind == 1:
            link, reserved, most = struct.unpack_from("=HHI", body)
            options = read_options(body[8:])
            assert reserved == 0 and most >= 65535 and options[9] == b"\x09"
            interfaces.append((options[2].decode(), options[3].decode(), link))
        else:
            assert kind == 6
            number, high, low, kept, whole = struct.unpack_from("=IIIII", body)
            assert kept <= whole and number < len(interfaces)
            end = 20 + kept + -kept % 4
            options = read_options(body[end:])
            packets.append(Packet(*interfaces[number], high << 32 | low, whole, body[20:20 + kept],
                                  options[1].decode()))
    return packets
