"""printf: the texts of many records of one site, by columns.

Each argument is read from all records at once, as a column. A column that is the same in all of them becomes a part of
the template, which then formats all records in one step::

    template = b"%d nswork %d\\n"
    return template * count % (12345, 1, 12346, 2, ...)
"""

from __future__ import annotations

from struct import iter_unpack

from ..layouts.event_records import MOST_FIXED, PROBE
from ..types import Int, Str

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    from ..spec import EventSite
    from .format import Site, Slot

    Column: TypeAlias = "list[Any]"
    Columns: TypeAlias = "Callable[[Rows], Column]"

_WORDS: dict[int, Any] = {1: "B", 2: "H", 4: "I", 8: "Q"}  # memoryview's codes of words, by size


def has_plain_fields(site: EventSite) -> bool:
    """Whether all fields are numbers and short texts, which records have whole."""
    return all(type(field.type) is Int or type(field.type) is Str and field.type.size <= MOST_FIXED
               for field in site.fields)


class Rows:
    """Records of one site in one buffer. ``size``: bytes of each, up to the end of its last fixed field."""

    def __init__(self, buffer: bytes, offsets: Sequence[int], size: int) -> None:
        self.buffer, self.offsets, self.count = buffer, offsets, len(offsets)
        if isinstance(offsets, range) and not (offsets.start | offsets.step | len(buffer)) & 7:
            self._view, self._start, self._step = memoryview(buffer), offsets.start, offsets.step
        else:
            packed = b"".join([buffer[at:at + size] for at in offsets])
            self._view, self._start, self._step = memoryview(packed), 0, size

    def column(self, slot: Slot) -> Column:
        """A field of all records, or its one value if that is the same in all of them."""
        data = self.field_bytes(slot.offset, slot.size)
        if data == (first := data[:slot.size]) * self.count:
            data = first
        code: Any = slot.code
        if code[-1] != "s":
            return memoryview(data).cast(code).tolist()
        return [text for text, in iter_unpack(code, data)] if data is not first else [first]

    def probe_numbers(self) -> bytes:
        """The index of each record's attach point, in 4 bytes each."""
        return self.field_bytes(PROBE, 4)

    def field_bytes(self, offset: int, size: int) -> bytes:
        """The bytes of a field of all records, one after another."""
        at, step = self._start + offset, self._step
        bits = at | step | size | 8
        word = bits & -bits
        words, at, step, each = self._view.cast(_WORDS[word]), at // word, step // word, size // word
        length = step * (self.count - 1) + 1
        if each == 1:
            return words[at:at + length:step].tobytes()
        packed = bytearray(size * self.count)
        parts = memoryview(packed).cast(_WORDS[word])
        for part in range(each):
            parts[part::each] = words[at + part:at + part + length:step]
        return bytes(packed)


class BlockFormat:
    """The function of one site from many records to their texts, joined. ``before`` each of them stands a text, and
    one of the ``numbers``."""

    def __init__(self, site: Site) -> None:
        self._texts, self._conversions = site.texts, site.conversions
        self._columns = [_compile_column(site, number) for number in range(len(site.arguments))]
        self._size = max([slot.offset + slot.size for slot in site.slots], default=0)

    def __call__(self, buffer: bytes, offsets: Sequence[int], before: bytes = b"",
                 numbers: Column | None = None) -> bytes:
        rows, template = Rows(buffer, offsets, self._size), self._texts[0]
        varying: list[Column] = []
        if numbers is not None:
            template, varying = before + b"%d" + template, [numbers]
        for conversion, column_of, text in zip(self._conversions, self._columns, self._texts[1:]):
            column = column_of(rows)
            if len(column) < rows.count:
                template += (conversion % column[0]).replace(b"%", b"%%") + text
            else:
                template += conversion + text
                varying.append(column)
        values: list[Any] = [None] * (len(varying) * rows.count)
        for number, column in enumerate(varying):
            values[number::len(varying)] = column
        return template * rows.count % tuple(values)


def _compile_column(site: Site, number: int) -> Columns:
    """The function to the column of an argument; of one element if it is the same in all records."""
    expression, slots = site.arguments[number], site.slots_of(number)
    if not slots:
        from_records: Callable[..., Column] = eval(f"lambda b, offsets: [{expression} for o in offsets]", site.names)
        return lambda rows: from_records(rows.buffer, rows.offsets)
    first, *others = slots
    if expression == first.variable:
        return lambda rows: rows.column(first)
    names = ", ".join([slot.variable for slot in slots])
    each = eval(f"lambda {names}: [{expression} for {names} in {f'zip({names})' if others else names}]", site.names)

    def read_column(rows: Rows) -> Column:
        columns = [rows.column(slot) for slot in slots]
        if number in site.checked and columns[1] == [0]:
            return columns[0]
        if len(set(map(len, columns))) > 1:
            columns = [column * rows.count if len(column) == 1 else column for column in columns]
        column: Column = each(*columns)
        return column
    return read_column
