"""Numbers as encoded in unwind tables and DWARF expressions."""

from __future__ import annotations

import struct

# DW_EH_PE_: the form of a number in the low four bits, above them what it is relative to
_ULEB128, _SLEB128, _FORM, _BASE, _PC_RELATIVE, _OMIT = 0x01, 0x09, 0x0F, 0x70, 0x10, 0xFF
_FORMATS = {0x00: "Q", 0x02: "H", 0x03: "I", 0x04: "Q", 0x0A: "h", 0x0B: "i", 0x0C: "q"}


class DamagedTablesError(Exception):
    """The tables or the stack are malformed."""


class Numbers:
    """Numbers in bytes from ``at`` to ``end``; ``base`` is the address of the first byte."""

    def __init__(self, data: bytes, base: int, at: int, end: int) -> None:
        self.data, self.base, self.at, self.end = data, base, at, end

    def read_byte(self) -> int:
        if self.at >= self.end:
            raise DamagedTablesError("an entry is cut off")
        self.at += 1
        return self.data[self.at - 1]

    def read_uleb128(self) -> int:
        return self._read_leb128()[0]

    def read_sleb128(self) -> int:
        value, bits = self._read_leb128()
        return value - (1 << bits) if value >> bits - 1 else value

    def _read_leb128(self) -> tuple[int, int]:
        """A number, seven bits to the byte, lowest first, and how many bits it was written in."""
        value = bits = 0
        while bits < 70:  # ten bytes hold 64 bits
            byte = self.read_byte()
            value |= (byte & 0x7F) << bits
            bits += 7
            if byte < 0x80:
                return value & (1 << 64) - 1, min(bits, 64)
        raise DamagedTablesError("a number has more than 64 bits")

    def read_fixed(self, code: str) -> int:
        size = struct.calcsize("=" + code)
        if self.at + size > self.end:
            raise DamagedTablesError("an entry is cut off")
        self.at += size
        return int(struct.unpack_from("=" + code, self.data, self.at - size)[0])

    def read_pointer(self, encoding: int) -> int:
        """A number or address in one of the encodings of DW_EH_PE_."""
        if encoding == _OMIT:
            return 0
        address = self.base + self.at
        form = encoding & _FORM
        value = self.read_uleb128() if form == _ULEB128 else self.read_sleb128() if form == _SLEB128 \
            else self.read_fixed(_FORMATS.get(form, "Q"))
        if encoding & _BASE == _PC_RELATIVE and value:
            value += address
        return value & (1 << 64) - 1

    def read_block(self) -> bytes:
        size = self.read_uleb128()
        self.at += size
        if self.at > self.end:
            raise DamagedTablesError("an entry is cut off")
        return self.data[self.at - size:self.at]
