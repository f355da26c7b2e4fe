"""Tables: ``table name { column: format; ... }``, rows by ``name(values)``, the heading by ``heading(name)``.

A row is a printf() whose format is that of its columns, one after the other, with a blank between two unless the first
ends with one of ``JOINING`` or prints nothing (``%.0s``: a column of the data alone), or the second begins with a
line's end (a stack, below the row, without a name in the heading). The line goes on after a last column whose format
ends with a blank. A column whose condition does not hold is none: its format is left out, and its values are not looked
at. In the heading a column's name stands where its values stand in the rows.
"""

from __future__ import annotations

from ..language.ast import Expr, RowCall, TableColumn
from ..spec import Column, FormatPart
from ..types import Type
from .calls import check_call
from .context import CheckContext
from .formats import parse_format

JOINING = (" ", ":", ",", ";", "\t")


def check_row(context: CheckContext, node: RowCall) -> Type | None:
    """The rule of rows and headings: that of printf(), once it is known which columns are shown."""
    if not node.settled and not _settle_columns(context, node):
        return None
    return check_call(context, node)


def lay_out_columns(node: RowCall) -> tuple[list[FormatPart], str, list[Column]]:
    """The parts of a checked row's format, its table's name and columns."""
    if node.heading:
        return [FormatPart(str(_heading_text(node.columns)))], node.table, [Column(each.name) for each in node.columns]
    parts: list[FormatPart] = []
    columns: list[Column] = []
    for column, end in zip(node.columns, _separators(node.columns)):
        own = _column_parts(column)
        columns.append(Column(column.name, len(parts), len(parts) + len(own)))
        parts += own
        if end:
            parts.append(FormatPart(end))
    return parts, node.table, columns


def _settle_columns(context: CheckContext, node: RowCall) -> bool:
    """Leave out the columns that are not shown, with their values, and make the format; False after saying what is
    wrong."""
    shown: list[TableColumn] = []
    values: list[Expr] = []
    given, counted = node.args[1:], 0
    for column in node.columns:
        is_shown = _is_shown(context, column)
        if is_shown is None or not _has_format(context, column):
            return False
        width = sum(part.conversion != "" for part in _column_parts(column))
        if is_shown:
            shown.append(column)
            values += given[counted:counted + width]
        counted += width
    if not node.heading and len(given) != counted:
        context.error("arity", f"a row of {node.table} has {counted} values ({len(given)} provided)", node,
                      [f"its columns are {', '.join([column.name for column in node.columns])}"])
        return False
    node.columns, node.args, node.settled = shown, [node.args[0], *values], True
    node.args[0].value = _heading_text(shown).replace("%", "%%") if node.heading else "".join(
        [f"{column.format.const}{end}" for column, end in zip(shown, _separators(shown))])
    return True


def _is_shown(context: CheckContext, column: TableColumn) -> bool | None:
    if column.shown is None:
        return True
    if context.check_value(column.shown, "a condition") is None:
        return None
    if column.shown.const is None:
        context.error("not-constant", f"whether {column.name} is shown has to be known when the script is compiled",
                      column.shown, ["getopt() and exists() are"])
        return None
    return bool(column.shown.const)


def _has_format(context: CheckContext, column: TableColumn) -> bool:
    """Whether a column has a format with a conversion; it is said if not."""
    if context.check_value(column.format, "a format") is None:
        return False
    if not isinstance(column.format.const, str):
        context.error("not-constant", f"{column.name} needs a string literal as its format", column.format)
        return False
    parts = parse_format(column.format.const)
    broken = "\n" in column.format.const.removeprefix("\n")
    if isinstance(parts, str) or not any(part.conversion for part in parts) or broken:
        why = parts if isinstance(parts, str) else "a line ends only before a column" if broken \
            else "it prints no value"
        context.error("bad-format", f"the format of {column.name}: {why}", column.format)
        return False
    return True


def _column_parts(column: TableColumn) -> list[FormatPart]:
    parts = parse_format(str(column.format.const))
    assert not isinstance(parts, str)
    return parts


def _separators(columns: list[TableColumn]) -> list[str]:
    """What stands after each column: a blank, nothing, at the end the line's end."""
    formats = [str(column.format.const) for column in columns]
    printed = [at for at, column in enumerate(columns) if not is_unprinted(_column_parts(column))]
    ends = [""] * len(columns)
    for at in printed[:-1]:
        below = formats[printed[printed.index(at) + 1]].startswith("\n")
        ends[at] = "" if below or formats[at].endswith(JOINING) else " "
    if not printed:
        return ["\n", *ends[1:]]
    ends[printed[-1]] = "" if formats[printed[-1]].endswith(" ") else "\n"
    return ends


def is_unprinted(parts: list[FormatPart]) -> bool:
    """Whether a column is in the data alone."""
    return all(part.spec == ".0" for part in parts if part.conversion) and not any(part.literal for part in parts)


def _heading_text(columns: list[TableColumn]) -> str:
    named = [column for column in columns if not str(column.format.const).startswith("\n")]
    return "".join([_column_heading(column.name, _column_parts(column)) + end
                    for column, end in zip(named, _separators(named))]).removesuffix("\n") + "\n"


def _column_heading(name: str, parts: list[FormatPart]) -> str:
    """A column's name, as wide as its values, with what ends each of them (``:``, `` ->``)."""
    if is_unprinted(parts):
        return ""
    last = parts[-1].literal
    ending = last if not any(map(str.isalnum, last)) and last != parts[0].literal else ""  # quotes have no name
    widths = [part.spec.lstrip("-+ #0").partition(".")[0] for part in parts if part.conversion]
    first = next(part for part in parts if part.conversion)
    if not widths[0]:
        return name + ending
    width = sum(map(int, filter(None, widths))) + sum([len(part.literal) for part in parts]) - len(ending)
    return (name.ljust(width) if first.spec[:1] in ("-", "0") else name.rjust(width)) + ending
