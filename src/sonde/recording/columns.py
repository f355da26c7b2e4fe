"""Event records as columns and back: what makes a recording small, and replay fast.

A block of records holds, for each site with records in it, one column for each leaf of the record's fields. Bytes
between fields, after the NUL of a string or after the used part of a buf() are not kept: they are whatever the ring
held before.

Layout of a block's data, little-endian numbers::

    u32 records; u32 sites; then for each site: u32 site, u32 number of its records
    the order:    for each record the index of its site in that list, u16 (omitted if there is one site)
    the columns:  site after site, leaf after leaf: u32 bytes, then the column

    number column   a byte 'P': the numbers' bytes, all the lowest first, then all the next ...
                    a byte 'D': the same of the differences between numbers that never fall (u64 only)
    text column     u32 different texts; their lengths as u32 numbers; the texts; which one each record has, as numbers
                    of 1, 2 or 4 bytes, whichever suffices
    raw column      the bytes, record after record
"""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from operator import sub
from struct import Struct as Layout
from struct import error as StructError

from .. import types as t
from ..base.record import Value
from ..base.words import INT_CODES
from ..layouts.event_records import PROBE, TIME
from ..runtime.records.batch import Batch
from ..spec import EventSite, ScriptSpec
from ..types import Type
from .container import RecordingError

NUMBER, TEXT, BUFFER, RAW = "number", "text", "buffer", "raw"
MOST_RECORDS = 1 << 16   # of a block
MOST_BYTES = 32 << 20    # that the records of a block take when reassembled

_COUNT = Layout("<I")
_PAIR = Layout("<II")


class Leaf(Value):
    """A column: ``size`` bytes at ``offset`` of a record; ``kind`` is NUMBER, TEXT, BUFFER or RAW."""

    kind: str
    offset: int
    size: int


def record_leaves(site: EventSite) -> list[Leaf]:
    """The columns of a site's records: the probe, the time, then the fields' leaves."""
    return [Leaf(NUMBER, PROBE, 4), Leaf(NUMBER, TIME, 8),
            *[leaf for field in site.fields for leaf in type_leaves(field.type, field.offset)]]


def type_leaves(type: Type, offset: int) -> Iterator[Leaf]:
    """The columns of a value of ``type`` at ``offset``."""
    if isinstance(type, t.Tuple):
        for part, at in zip(type.of, type.offsets):
            yield from type_leaves(part, offset + at)
    elif isinstance(type, t.StackCopy):  # see recorder: a number stands for the registers and the stack
        yield from [Leaf(NUMBER, offset, 4), Leaf(NUMBER, offset + 8, 8)]
    elif isinstance(type, t.Stack | t.USym):
        yield from [Leaf(NUMBER, offset, 8), Leaf(NUMBER, offset + 8, 4), Leaf(NUMBER, offset + 12, 4)]
    elif isinstance(type, t.Str):
        yield Leaf(TEXT, offset, type.capacity)
    elif isinstance(type, t.Buf):
        yield Leaf(BUFFER, offset, type.size)
    elif type.size:
        scalar = isinstance(type, t.Scalar | t.Timestamp) and (type.size, False) in INT_CODES
        yield Leaf(NUMBER if scalar else RAW, offset, type.size)


# Numbers ------------------------------------------------------------------------------------------------------------

def shuffle_bytes(data: bytes, size: int) -> bytes:
    """Numbers of ``size`` bytes: all their lowest bytes, then all the next ..."""
    return data if size == 1 else b"".join([data[at::size] for at in range(size)])


def unshuffle_bytes(data: bytes, size: int) -> bytes:
    """The numbers again."""
    if size == 1:
        return data
    count, unshuffled = len(data) // size, bytearray(len(data))
    for at in range(size):
        unshuffled[at::size] = data[at * count:(at + 1) * count]
    return bytes(unshuffled)


def pack_numbers(data: bytes, size: int) -> bytes:
    """A number column, of numbers in native order."""
    if size == 8:
        numbers = memoryview(data).cast("Q").tolist()
        steps = list(map(sub, numbers[1:], numbers))
        if steps and min(steps) >= 0 and numbers[0]:
            return b"D" + shuffle_bytes(array("Q", [numbers[0], *steps]).tobytes(), 8)
    return b"P" + shuffle_bytes(data, size)


def unpack_numbers(column: bytes, size: int, count: int) -> bytes:
    """The numbers in native order. RecordingError if there are not ``count``."""
    if len(column) != 1 + count * size or column[:1] not in (b"P", b"D"):
        raise RecordingError("a column of numbers is not as long as it should be")
    data = unshuffle_bytes(column[1:], size)
    if column[:1] == b"P":
        return data
    if size != 8:
        raise RecordingError("a column of numbers has differences where it has none")
    try:
        return array("Q", accumulate(memoryview(data).cast("Q").tolist())).tobytes()
    except OverflowError:
        raise RecordingError("a column of numbers grows without end") from None


# Texts --------------------------------------------------------------------------------------------------------------

def pack_texts(texts: Sequence[bytes]) -> bytes:
    """A text column."""
    different = list(dict.fromkeys(texts))
    number = {text: index for index, text in enumerate(different)}
    width = _index_width(len(different))
    lengths = array("I", map(len, different)).tobytes()
    indices = array(INT_CODES[width, False], map(number.__getitem__, texts)).tobytes()
    return b"".join([_COUNT.pack(len(different)), shuffle_bytes(lengths, 4), *different, shuffle_bytes(indices, width)])


def unpack_texts(column: bytes, size: int, count: int) -> tuple[list[bytes], list[int]]:
    """The different texts, and which of them each record has. RecordingError if one is longer than ``size``."""
    try:
        different, = _COUNT.unpack_from(column)
    except StructError:
        raise RecordingError("a column of texts is too short") from None
    if different > count:
        raise RecordingError("a column of texts has more than there are records")
    lengths = array("I", unshuffle_bytes(column[4:4 + 4 * different], 4)).tolist()
    starts = list(accumulate(lengths, initial=4 + 4 * different))
    width = _index_width(different)
    if len(lengths) != different or len(column) != starts[-1] + count * width or max(lengths, default=0) > size:
        raise RecordingError("a column of texts is not as long as it should be")
    indices = array(INT_CODES[width, False], unshuffle_bytes(column[starts[-1]:], width)).tolist()
    if indices and max(indices) >= different:
        raise RecordingError("a column of texts names one that it does not have")
    return [column[a:b] for a, b in pairwise(starts)], indices


def _index_width(different: int) -> int:
    return 1 if different <= 1 << 8 else 2 if different <= 1 << 16 else 4


# Blocks -------------------------------------------------------------------------------------------------------------

class SiteColumns:
    """The records of one site in a block, or on their way into one."""

    def __init__(self, site: EventSite) -> None:
        self.size = site.size
        self.leaves = record_leaves(site)

    def pack(self, records: list[bytes]) -> list[bytes]:
        """The columns of records of ``size`` bytes each."""
        data = b"".join(records)
        return [self._pack_leaf(leaf, records, data) for leaf in self.leaves]

    def _pack_leaf(self, leaf: Leaf, records: list[bytes], data: bytes) -> bytes:
        first, last = leaf.offset, leaf.offset + leaf.size
        if leaf.kind == NUMBER:
            numbers = bytearray(len(records) * leaf.size)
            for at in range(leaf.size):
                numbers[at::leaf.size] = data[first + at::self.size]
            return pack_numbers(bytes(numbers), leaf.size)
        if leaf.kind == TEXT:
            return pack_texts([record[first:last].partition(b"\0")[0] for record in records])
        if leaf.kind == BUFFER:
            used = [4 + min(int.from_bytes(record[first:first + 4], sys.byteorder), leaf.size - 4)
                    for record in records]
            return pack_texts([record[first:first + length] for record, length in zip(records, used)])
        return b"".join([record[first:last] for record in records])

    def unpack(self, site: int, count: int, columns: Sequence[bytes]) -> Iterator[bytes]:
        """The records, with zeros where nothing was kept."""
        codes, end = "=I", 4
        values: list[Iterator[int] | Iterator[bytes]] = [iter([site] * count)]
        for leaf, column in sorted(zip(self.leaves, columns), key=lambda pair: pair[0].offset):
            codes += f"{leaf.offset - end}x{INT_CODES[leaf.size, False] if leaf.kind == NUMBER else f'{leaf.size}s'}"
            end = leaf.offset + leaf.size
            values.append(unpack_leaf(leaf, column, count))
        return map(Layout(codes + f"{self.size - end}x").pack, *values)


def unpack_leaf(leaf: Leaf, column: bytes, count: int) -> Iterator[int] | Iterator[bytes]:
    """The values of a column: unsigned numbers, or bytes."""
    if leaf.kind == NUMBER:
        return iter(array(INT_CODES[leaf.size, False], unpack_numbers(column, leaf.size, count)))
    if leaf.kind in (TEXT, BUFFER):
        texts, indices = unpack_texts(column, leaf.size, count)
        return map(texts.__getitem__, indices)
    if len(column) != count * leaf.size:
        raise RecordingError("a column is not as long as it should be")
    return iter([column[at:at + leaf.size] for at in range(0, len(column), leaf.size)])


def read_column(leaf: Leaf, column: bytes, count: int, type: Type) -> array[int] | list[bytes]:
    """The values of a column of texts, or of signed or unsigned numbers."""
    if leaf.kind == NUMBER:
        code = INT_CODES[leaf.size, False]
        return array(code.lower() if getattr(type, "signed", False) else code, unpack_numbers(column, leaf.size, count))
    texts, indices = unpack_texts(column, leaf.size, count)
    return list(map(texts.__getitem__, indices))


class BlockOfRecords:
    """A block that was read: its sites, the number of records of each, and their columns as in the file."""

    def __init__(self, spec: ScriptSpec, data: bytes) -> None:
        try:
            self._read(spec, data)
        except StructError:
            raise RecordingError("a block of records is too short") from None

    def _read(self, spec: ScriptSpec, data: bytes) -> None:
        self.count, sites = _PAIR.unpack_from(data)
        if not 0 < self.count <= MOST_RECORDS or not 0 < sites <= len(spec.sites):
            raise RecordingError("a block has more records or sites than it can have")
        self.sites = [_PAIR.unpack_from(data, 8 * (i + 1)) for i in range(sites)]
        at = 8 * (sites + 1)
        if sum(count for _, count in self.sites) != self.count or len({site for site, _ in self.sites}) != sites \
                or max(site for site, _ in self.sites) >= len(spec.sites):
            raise RecordingError("a block's records are not those of its sites")
        if sum(count * spec.sites[site].size for site, count in self.sites) > MOST_BYTES:
            raise RecordingError("a block has more bytes than it can have")
        self.order: list[int] = []
        if sites > 1:
            self.order = array("H", unpack_numbers(data[at:at + 1 + 2 * self.count], 2, self.count)).tolist()
            at += 1 + 2 * self.count
            if Counter(self.order) != {index: count for index, (_, count) in enumerate(self.sites)}:
                raise RecordingError("the order of a block's records is not that of its sites")
        self._shapes = [SiteColumns(spec.sites[site]) for site, _ in self.sites]
        self.columns: list[list[bytes]] = []
        for shape in self._shapes:
            self.columns.append([])
            for _ in shape.leaves:
                length, = _COUNT.unpack_from(data, at)
                self.columns[-1].append(data[at + 4:at + 4 + length])
                at += 4 + length
        if at != len(data):
            raise RecordingError("a block of records is not as long as it should be")

    def site_columns(self) -> Iterator[tuple[int, int, list[Leaf], list[bytes]]]:
        """(site, number of records, leaves, columns as in the file) of each site."""
        for (site, count), shape, columns in zip(self.sites, self._shapes, self.columns):
            yield site, count, shape.leaves, columns

    def last_time(self) -> int:
        """The time of the last record, in nanoseconds of the boot clock."""
        site = self.order[-1] if self.order else 0
        return int.from_bytes(unpack_numbers(self.columns[site][1], 8, self.sites[site][1])[-8:], sys.byteorder)

    def records(self) -> Batch:
        """The records, in order."""
        each = [shape.unpack(site, count, columns)
                for shape, (site, count), columns in zip(self._shapes, self.sites, self.columns)]
        if len(each) == 1:
            size, site = self._shapes[0].size, self.sites[0][0]
            times = array("Q", unpack_numbers(self.columns[0][1], 8, self.count)).tolist()
            return Batch(0, b"".join(each[0]), times, site, range(0, size * self.count, size))
        names, nexts = [site for site, _ in self.sites], [records.__next__ for records in map(iter, each)]
        records = [nexts[index]() for index in self.order]
        times = [int.from_bytes(record[8:16], sys.byteorder) for record in records]
        offsets = list(accumulate(map(len, records), initial=0))[:-1]
        return Batch(0, b"".join(records), times, [names[index] for index in self.order], offsets)


class RecordGatherer:
    """Collects records one by one, and makes a block of them."""

    def __init__(self, spec: ScriptSpec) -> None:
        self._shapes = [SiteColumns(site) for site in spec.sites]
        self._sizes = [site.size for site in spec.sites]
        self._records: dict[int, list[bytes]] = {}
        self._order: list[int] = []
        self.bytes = 0  # of the records so far

    def __len__(self) -> int:
        return len(self._order)

    def add_records(self, site: int, records: list[bytes]) -> None:
        """Take records of a site, each of ``spec.sites[site].size`` bytes."""
        self._order += [site] * len(records)
        self.bytes += sum(map(len, records))
        self._records.setdefault(site, []).extend(records)

    def take_block(self) -> bytes:
        """The records so far as a block's data; starts over."""
        sites = sorted(self._records)
        parts = [_PAIR.pack(len(self._order), len(sites)),
                 *[_PAIR.pack(site, len(self._records[site])) for site in sites]]
        if len(sites) > 1:
            index_of = {site: index for index, site in enumerate(sites)}
            parts.append(pack_numbers(array("H", map(index_of.__getitem__, self._order)).tobytes(), 2))
        for site in sites:
            for column in self._shapes[site].pack(self._records[site]):
                parts += [_COUNT.pack(len(column)), column]
        self._records, self._order, self.bytes = {}, [], 0
        return b"".join(parts)

