"""Rows of tables, for all formats but text.

A script says what its tables are (``table name { ... }``): then each row's cells are known, and whatever else it
prints is no row. Of a tool without a table one generic rule makes rows. A line that a tool prints consists of *cells*,
separated by the blanks, commas and colons in the printf's format. A line
whose cells are all names of columns that the tool explains is a heading; each later line with as many cells is a row,
an object with a member for each column. So ``printf("%-7d %s:%d\\n", ...)`` under the heading ``PID ADDR:PORT`` gives
``{"PID": 1, "ADDR": "::1", "PORT": 80}``. Without a heading the explained columns themselves name the cells.
"""

from __future__ import annotations

from ..base.fast_stdlib import Protocol
from ..runtime.records.values import DecodingContext
from ..spec import Column, EventField, EventSite, FormatPart, ScriptSpec
from ..types import Bool
from .format import Format, compile_format

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_BETWEEN = " \t,:\n"
_NUMBERS, _BASES = ("d", "i", "u"), ("x", "X", "o")


RowCell = tuple[str, str, bool]  # column, text, whether it is a number


class Sink(Protocol):
    """Who wants the rows; what is no row comes as text."""

    def write_heading(self, names: Sequence[str], table: str = "") -> None: ...
    def write_row(self, cells: Sequence[RowCell], table: str = "") -> None: ...
    @property
    def write_text(self) -> Callable[[bytes], object]: ...


class Cell:
    """A cell of one printf: its parts with their fields; ``number`` if its text is one."""

    def __init__(self) -> None:
        self.parts: list[FormatPart] = []
        self.fields: list[EventField] = []

    @property
    def is_text(self) -> bool:
        """Is it without any conversion? Then it is decoration."""
        return not self.fields

    @property
    def is_number(self) -> bool:
        """12 or 0.345, by the format: a string that looks so is none."""
        return self.parts[0].conversion != "" and self.parts[0].spec[:1] not in ("0", "+") and all(
            part.conversion.lstrip("hljzt") in ("d", "i", "u") if part.conversion else part.literal == "."
            for part in self.parts)

    def compile_cell(self, context: DecodingContext) -> Format:
        return compile_format(self.parts, self.fields, context)


def split_cells(parts: Sequence[FormatPart], fields: Sequence[EventField]) -> list[Cell]:
    """The cells of a format."""
    cells: list[Cell] = []
    open = False  # does the next piece belong to the last cell?
    left = iter(fields)
    for part in parts:
        if part.conversion:
            field = next(left)
            if part.spec != ".0":  # %.0s: a column that an option leaves out
                cell = _current_cell(cells, open)
                cell.parts.append(part)
                cell.fields.append(field)
                open = True
            continue
        for piece in _split_pieces(part.literal):
            if piece in _BETWEEN:
                open = False
            else:
                _current_cell(cells, open).parts.append(FormatPart(literal=piece))
                open = True
    return [cell for cell in cells if not cell.is_text]


def _current_cell(cells: list[Cell], open: bool) -> Cell:
    if not open:
        cells.append(Cell())
    return cells[-1]


def _split_pieces(literal: str) -> list[str]:
    """Separators one by one, what stands between them whole."""
    pieces = [""]
    for char in literal:
        if char in _BETWEEN:
            pieces += [char, ""]
        else:
            pieces[-1] += char
    return [piece for piece in pieces if piece]


def check_columns(columns: Sequence[Column], parts: Sequence[FormatPart]) -> None:
    """ValueError if those of a row from elsewhere are not parts of its format, one after the other."""
    last = 0
    for column in columns:
        if not last <= column.first < column.end <= len(parts) \
                or not any(part.conversion for part in parts[column.first:column.end]):
            raise ValueError(f"no column: {column.name}")
        last = column.end


def has_tables(spec: ScriptSpec) -> bool:
    """Does a script declare what its rows are? Then what else it prints is none."""
    return any(site.table for site in spec.sites)


def table_columns(spec: ScriptSpec) -> list[str]:
    """The columns of the tables that a script has rows of, each name once."""
    return [*dict.fromkeys(column.name for site in spec.sites if site.fields for column in site.columns)]


class TableCell:
    """A cell of a table's row. Of one conversion it is the value, whatever is printed around it: a number by ``diu``;
    in other bases (addresses, flags) the digits with their 0x, as text; and quotes around a text belong to it. Of
    several it is their text, which is a number if they are one with a point."""

    def __init__(self, name: str, parts: Sequence[FormatPart], fields: Sequence[EventField]) -> None:
        self.name = name
        self.fields = fields
        at = [index for index, part in enumerate(parts) if part.conversion]
        inner = list(parts[at[0]:at[-1] + 1])
        integers = all(part.conversion in _NUMBERS if part.conversion else part.literal == "." for part in inner)
        self.number = integers and len(at) <= 2 and not isinstance(fields[0].type, Bool)
        self.parts = inner if self.number else list(parts)
        if len(at) == 1:
            self.parts = _value_alone(parts, inner[0])

    def compile_text(self, context: DecodingContext) -> Callable[[bytes, int], str]:
        """What makes the text of a record's cell."""
        form = compile_format(self.parts, self.fields, context)
        return lambda buffer, offset: form(buffer, offset).decode("utf-8", "surrogateescape").strip()


def _value_alone(parts: Sequence[FormatPart], only: FormatPart) -> list[FormatPart]:
    """What makes the text of the one value of a column."""
    before, after = (parts[at].literal for at in (0, -1))
    if only.conversion in _BASES:
        prefix = next((prefix for prefix in ("0x", "0") if before.endswith(prefix)), "")
        return [FormatPart(prefix), only]
    bare = FormatPart("", only.conversion, "", only.length)
    return [FormatPart(before), bare, FormatPart(after)] if before == after and before else [bare]


def table_cells(site: EventSite) -> list[TableCell]:
    """The cells of a table's row."""
    cells = []
    for column in site.columns:
        before, own = ([part for part in parts if part.conversion]
                       for parts in (site.parts[:column.first], site.parts[column.first:column.end]))
        cells.append(TableCell(column.name, site.parts[column.first:column.end],
                               site.fields[len(before):len(before) + len(own)]))
    return cells


class Rows:
    """What a script prints with printf, as rows. ``columns`` are those that a tool explains, which is asked only of one
    that has no table (``declared``: it has)."""

    def __init__(self, columns: Sequence[str], context: DecodingContext, out: Sink, declared: bool = False) -> None:
        self.declared = declared
        self.columns = [name for column in columns for name in column.split(":")]
        self.context = context
        self.out = out
        self.heading: list[str] = []
        self.unplaced = 0  # lines with values that are neither a heading nor a row: they went on as text

    def row_handler(self, site: EventSite) -> Callable[[bytes, int], object]:
        """Prints one record of ``site``."""
        if site.table:
            return self._table_handler(site)
        if self.declared:
            form, write = compile_format(site.parts, site.fields, self.context), self.out.write_text
            return lambda buffer, offset: write(form(buffer, offset))
        whole = compile_format(site.parts, site.fields, self.context)
        cells = split_cells(site.parts, site.fields)
        makers = [(cell.compile_cell(self.context), cell.is_number) for cell in cells]
        out, explained = self.out, set(self.columns)

        def print_row(buffer: bytes, offset: int) -> None:
            text = whole(buffer, offset)
            words = text.decode("utf-8", "replace").replace(":", " ").replace(",", " ").split()
            names = [word for word in words if any(map(str.isalnum, word))]
            if names and set(names) <= explained:
                self.heading = names
                out.write_heading(names)
                return
            heading = self.heading or self.columns
            if not makers or len(heading) != len(makers):
                self.unplaced += bool(makers)
                out.write_text(text)
                return
            values = [form(buffer, offset).decode("utf-8", "surrogateescape").strip() for form, _ in makers]
            out.write_row([(name, value, number) for name, value, (_, number) in zip(heading, values, makers)])
        return print_row

    def _table_handler(self, site: EventSite) -> Callable[[bytes, int], object]:
        out, table = self.out, site.table
        if not site.fields:
            names = [column.name for column in site.columns]
            return lambda buffer, offset: out.write_heading(names, table)
        makers = [(cell.name, cell.compile_text(self.context), cell.number) for cell in table_cells(site)]
        return lambda buffer, offset: out.write_row([(name, text(buffer, offset), number)
                                                     for name, text, number in makers], table)
