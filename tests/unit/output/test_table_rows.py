"""A tool's table as objects."""

from __future__ import annotations

import pytest

from sonde.output.table_rows import Rows, split_cells
from sonde.runtime.records.values import DecodingContext
from sonde.spec import EventField, EventSite, FormatPart
from sonde.types import Int, Str


def conversion(letter: str, spec: str = "") -> FormatPart:
    return FormatPart(conversion=letter, spec=spec)


def literal(text: str) -> FormatPart:
    return FormatPart(literal=text)


NUMBER, TEXT = EventField(Int(32, True), 16), EventField(Str(16), 24)


def test_blanks_commas_and_colons_separate() -> None:
    parts = [conversion("d", "-7"), literal(" "), conversion("s"), literal(":"), conversion("d"), literal(", end\n")]
    found = split_cells(parts, [NUMBER, TEXT, NUMBER])
    assert [len(cell.parts) for cell in found] == [1, 1, 1]
    assert [cell.is_number for cell in found] == [True, False, True]


def test_what_touches_is_one_cell() -> None:
    found = split_cells([conversion("d"), literal("."), conversion("d", "03"), literal(" "), conversion("s"),
                         literal(">")],
                        [NUMBER, NUMBER, TEXT])
    assert [len(cell.fields) for cell in found] == [2, 1]
    assert [cell.is_number for cell in found] == [True, False]


@pytest.mark.parametrize("conversions", [["d"], ["lld"], ["u", "lld"]])
def test_numbers_of_any_length(conversions: list[str]) -> None:
    parts = [part for c in conversions for part in (literal("."), conversion(c))][1:]
    assert [cell.is_number for cell in split_cells(parts, [NUMBER] * len(conversions))] == [True]


def test_a_column_of_no_width_is_left_out() -> None:
    found = split_cells([conversion("s", ".0"), conversion("d", "-7"), literal(" "), conversion("s")],
                        [TEXT, NUMBER, TEXT])
    assert [(cell.fields, cell.is_number) for cell in found] == [([NUMBER], True), ([TEXT], False)]


@pytest.mark.parametrize("parts", [
    [conversion("x")], [conversion("d", "04")], [conversion("d", "+")], [conversion("d"), literal("/")],
])
def test_no_numbers(parts: list[FormatPart]) -> None:
    fields = [NUMBER] * sum(bool(part.conversion) for part in parts)
    assert [cell.is_number for cell in split_cells(parts, fields)] == [False]


def test_text_alone_is_decoration() -> None:
    assert split_cells([literal("Tracing. Ctrl-C ends.\n")], []) == []
    assert len(split_cells([conversion("s"), literal(" -> "), conversion("s")], [TEXT, TEXT])) == 2


def test_lines_that_fit_no_heading_are_counted() -> None:
    """Those with values: a sentence without any is nothing that a table could lack."""
    class Collecting:
        def __init__(self) -> None:
            self.rows: list[object] = []
            self.write_heading = self.write_row = self.write_text = self.rows.append

    sink = Collecting()
    rows = Rows(["PID", "COMM"], DecodingContext(), sink)
    number = EventField(Int(32, True), 16)
    for parts, fields in (([literal("Tracing.\n")], []), ([conversion("d"), literal(" forks\n")], [number])):
        rows.row_handler(EventSite("printf", None, fields, 24, parts))(bytes(24), 0)
    assert rows.unplaced == 1 and sink.rows == [b"Tracing.\n", b"0 forks\n"]
