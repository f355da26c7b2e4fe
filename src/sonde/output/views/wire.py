"""The wire format of protocol buffers: a field's number and type, then a varint, eight bytes, or a length and that many
bytes. A number that is 0 or an empty string is the same as an absent field."""

from __future__ import annotations

import struct

from ...base.words import MASK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def varint(value: int) -> bytes:
    """Seven bits to a byte, the lowest ones first; of a negative number its 64 bits."""
    value &= MASK
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def number(field: int, value: int, always: bool = False) -> bytes:
    """A field that is a number; one that is one of several forms is there ``always``, also as 0."""
    return varint(field << 3) + varint(value) if value or always else b""


def message(field: int, content: bytes) -> bytes:
    """A field that is a message or a text."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def text(field: int, content: str) -> bytes:
    """A field that is a text."""
    return message(field, content.encode("utf-8", "replace")) if content else b""


def double(field: int, value: float) -> bytes:
    """A field that is a floating-point number."""
    return varint(field << 3 | 1) + struct.pack("<d", value)


def fixed64(field: int, value: int) -> bytes:
    """A field that is a number of eight bytes."""
    return varint(field << 3 | 1) + struct.pack("<Q", value) if value else b""


def packed(field: int, values: Iterable[int]) -> bytes:
    """A field that is several numbers."""
    return message(field, b"".join(map(varint, values)))
