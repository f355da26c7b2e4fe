"""Rows of a tool's table on their way from a host: names, texts, and which of them are numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...merge.portable import PortableError, decode_value, encode_value
from ...output.table_rows import RowCell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...runtime.records.values import ScriptValue


def encode_heading(names: Sequence[str]) -> bytes:
    """A heading's names."""
    return encode_value((tuple(names),))


def encode_row(cells: Sequence[RowCell]) -> bytes:
    """A row's cells."""
    return encode_value(tuple([tuple(part) for part in zip(*cells)]))


def read_row(value: bytes, columns: Collection[str]) -> tuple[tuple[str, ...], tuple[RowCell, ...]]:
    """The names of a heading, or the cells of a row; PortableError for what is neither, or has other ``columns``."""
    row = decode_value(value)
    parts = [_read_part(part) for part in row] if type(row) is tuple else []
    names = [name for name in parts[0] if isinstance(name, str) and name in columns] if parts else []
    if not names or len(names) != len(parts[0]):
        raise PortableError("a row of columns that the tool does not have")
    if len(parts) == 1:
        return tuple(names), ()
    if len(parts) != 3 or not len(names) == len(parts[1]) == len(parts[2]):
        raise PortableError("a row that is none")
    return (), tuple([_make_cell(*cell) for cell in zip(names, parts[1], parts[2])])


def _read_part(part: ScriptValue) -> tuple[ScriptValue, ...]:
    if type(part) is not tuple:
        raise PortableError("a row that is none")
    return part


def _make_cell(name: str, text: ScriptValue, number: ScriptValue) -> RowCell:
    if type(text) is not str:
        raise PortableError("a cell that is no text")
    return name, text, number is True and _is_number(text)


def _is_number(text: str) -> bool:
    """Whether a text can stand where JSON has a number: a host might send anything there."""
    whole, point, rest = text.removeprefix("-").partition(".")
    digits = (whole, rest) if point else (whole,)
    return all(part.isascii() and part.isdigit() for part in digits) and (whole == "0" or whole[0] != "0")
