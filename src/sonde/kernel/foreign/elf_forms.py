"""The two classes of ELF files, of 64 and 32 bits: the same tables with other widths, and in part another order."""

from __future__ import annotations

import struct
from operator import itemgetter

from ...base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    Row: TypeAlias = "tuple[int, ...]"

SHT_RELA, SHT_REL = 4, 9


class Table(Record):
    """Rows of one layout; ``order`` gives their fields the order that those of 64-bit files have."""

    layout: struct.Struct
    order: Callable[[Row], Row] | None = None

    @property
    def size(self) -> int:
        """Bytes of a row."""
        return self.layout.size

    def unpack_rows(self, data: bytes) -> Iterator[Row]:
        """The rows; what is less than one at the end is left out."""
        rows = self.layout.iter_unpack(data[:len(data) // self.size * self.size])
        return rows if self.order is None else map(self.order, rows)


class Form(Record):
    """A class of files: ``word`` is the bytes of an address. The fields that rows have:

    header: type, machine, version, entry, program headers, section headers, flags, header's size, then size and number
    of program headers and of section headers, and the section of their names. segment: type, flags, offset, address,
    physical address, size in the file and in memory, alignment. section: name, type, flags, address, offset, size,
    link, info, alignment, size of an entry. symbol: name, info, other, section, value, size. dynamic: tag, value.
    relocation: where, info, addend (none in tables of type SHT_REL: the addend is where the address will be); the info
    has the symbol's number above its type, which has ``type_bits``.
    """

    word: int
    header: Table
    segment: Table
    section: Table
    symbol: Table
    dynamic: Table
    relocation: dict[int, Table]  # by the type of their section
    type_bits: int
    note_addresses: struct.Struct  # the three of a static probe


def _table(layout: str, *order: int) -> Table:
    return Table(struct.Struct(layout), itemgetter(*order) if order else None)


FORMS = {
    2: Form(8, _table("=16xHHIQQQIHHHHHH"), _table("=IIQQQQQQ"), _table("=IIQQQQIIQQ"), _table("=IBBHQQ"),
            _table("=qQ"), {SHT_RELA: _table("=QQq"), SHT_REL: _table("=QQ")}, 32, struct.Struct("=QQQ")),
    1: Form(4, _table("=16xHHIIIIIHHHHHH"), _table("=IIIIIIII", 0, 6, 1, 2, 3, 4, 5, 7), _table("=IIIIIIIIII"),
            _table("=IIIBBH", 0, 3, 4, 5, 1, 2), _table("=iI"), {SHT_RELA: _table("=IIi"), SHT_REL: _table("=II")}, 8,
            struct.Struct("=III")),
}
