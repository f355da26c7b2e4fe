"""Tables: ``table name { column: format; ... }``."""

from __future__ import annotations

import csv
import io

import pytest

from compiled import compiled
from decoding import Names
from sonde.compiling.spec_codec import pack_spec, unpack_spec
from sonde.errors import CompileError
from sonde.fleet.transport.shapes import ShapeError, describe_script, read_shape
from sonde.output.table_rows import RowCell, Rows, table_cells
from sonde.output.views import Target
from sonde.output.views.csv import event_columns, event_values
from sonde.recording.container import RecordingError
from sonde.recording.layouts import plain_spec, read_spec
from sonde.runtime.records.events import Event
from sonde.source import Source
from sonde.spec import EventSite, FormatPart, ScriptSpec
from viewing import Run

TABLE = ('table t { TIME: "%-8s" if getopt("timestamp", false); PID: "%-7d"; "LAT(ms)": "%5lld.%03lld"; '
         'ADDR: getopt("wide", false) ? "%39s:" : "%15s:"; PORT: "%-5d"; FLAGS: "0x%llx"; WHY: "%.0s"; }\n')
ROW = 't(strftime("%H:%M:%S", nsecs), pid, (int64)1, (int64)2, ntop(1), 80, (uint64)255, comm);'


def compile_script(text: str, **options: str) -> ScriptSpec:
    return compiled(text, named=options)


def merged(site: EventSite) -> list[tuple[object, ...]]:
    """A site's format without the seams between its columns, nor the line's end."""
    found: list[FormatPart] = []
    for part in site.parts:
        if not part.conversion and found and not found[-1].conversion:
            found[-1] = FormatPart(found[-1].literal + part.literal)
        else:
            found.append(part)
    return [tuple(part.values()) for part in found if part.literal != "\n"]


@pytest.mark.parametrize(("options", "format", "values", "heading"), [
    ({}, "%-7d %5lld.%03lld %15s:%-5d 0x%llx%.0s", "pid, (int64)1, (int64)2, ntop(1), 80, (uint64)255, comm",
     "PID       LAT(ms)            ADDR:PORT  FLAGS\n"),
    ({"timestamp": "true", "wide": "true"}, "%-8s %-7d %5lld.%03lld %39s:%-5d 0x%llx%.0s",
     'strftime("%H:%M:%S", nsecs), pid, (int64)1, (int64)2, ntop(1), 80, (uint64)255, comm',
     f"TIME     PID       LAT(ms) {'ADDR':>39}:PORT  FLAGS\n"),
])
def test_a_row_is_the_printf_of_its_columns(options: dict[str, str], format: str, values: str, heading: str) -> None:
    head, row = compile_script(f"{TABLE}begin {{ heading(t); {ROW} }}", **options).sites
    as_printf, = compile_script(f'begin {{ $a = getopt("timestamp", false); $b = getopt("wide", false); '
                                f'printf("{format}\\n", {values}); }}', **options).sites
    assert "".join(part.literal for part in head.parts) == heading and not head.fields
    assert merged(row) == merged(as_printf) and row.size == as_printf.size
    assert row.table == head.table == "t"


@pytest.mark.parametrize(("columns", "heading", "row"), [
    ('A: "%s"; B: "\\n%s";', "A\n", "%s\n%s\n"),
    ('A: "%s"; W: "%.0s"; B: "\\n%s";', "A\n", "%s%.0s\n%s\n"),
    ('A: "%4d,"; B: "%s: "; C: "%-4s;"; D: "%s";', "   A,B: C   ;D\n", "%4d,%s: %-4s;%s\n"),
    ('A: "%08x"; B: "%5d%%"; C: "%5d ms"; D: "%d kB";', "A            B%        C D\n", "%08x %5d% %5d ms %d kB\n"),
    ('A: "\\"%-3s\\""; B: "%s loadavg: ";', "A     B\n", '"%-3s" %s loadavg: '),
])
def test_what_stands_between_columns(columns: str, heading: str, row: str) -> None:
    values = ", ".join(["1"] * columns.count("%") if "%%" not in columns else ["1"] * 4)
    head, line = compile_script(f"table t {{ {columns} }} begin {{ heading(t); t({values}); }}").sites
    assert "".join(part.literal for part in head.parts) == heading
    assert "".join(part.literal or f"%{part.spec}{part.conversion}" for part in line.parts) == row


def test_a_column_that_is_not_shown_costs_nothing() -> None:
    """Its value is not even looked at: the kernel may not have what it reads."""
    site, = compile_script('table t { A: "%d" if getopt("a", false); B: "%d"; } '
                           'begin { t(curtask->no_such_member, 1); }').sites
    assert [column.name for column in site.columns] == ["B"] and len(site.fields) == 1


class Sink:
    def __init__(self) -> None:
        self.headings: list[tuple[list[str], str]] = []
        self.rows: list[tuple[list[RowCell], str]] = []
        self.texts: list[bytes] = []
        self.write_text = self.texts.append

    def write_heading(self, names: list[str], table: str = "") -> None:
        self.headings.append((names, table))

    def write_row(self, cells: list[RowCell], table: str = "") -> None:
        self.rows.append((cells, table))


def test_cells_have_the_types_of_their_values() -> None:
    spec = compile_script(f'{TABLE}begin {{ printf("Hello %d\\n", 1); heading(t); {ROW} }}')
    hello, _, row = spec.sites
    assert [(cell.name, cell.number) for cell in table_cells(row)] == [
        ("PID", True), ("LAT(ms)", True), ("ADDR", False), ("PORT", True), ("FLAGS", False), ("WHY", False)]
    sink = Sink()
    rows = Rows((), Names(), sink, True)  # type: ignore[arg-type]
    record = bytearray(row.size)
    for field, value in zip(row.fields, (7, 12, 5, None, 80, 0xffff)):
        if value is not None:
            record[field.offset:field.offset + field.type.size] = value.to_bytes(field.type.size, "little")
    for site in spec.sites:
        rows.row_handler(site)(bytes(record) + bytes(hello.size), 0)
    (cells, table), = sink.rows
    assert table == "t" and [cell for cell in cells if cell[0] != "ADDR"] == [
        ("PID", "7", True), ("LAT(ms)", "12.005", True), ("PORT", "80", True), ("FLAGS", "0xffff", False),
        ("WHY", "", False)]
    assert sink.headings == [([column.name for column in row.columns], "t")]
    assert len(sink.texts) == 1 and rows.unplaced == 0, "what is no row is passed on, and nothing that is missing"


@pytest.mark.parametrize(("format", "values", "text", "number"), [
    ("%-7d", [7], "7", True), ("%05d", [7], "7", True), ("%+d", [7], "7", True), ("%3d%%", [7], "7", True),
    ("x=%-4u;", [7], "7", True), ("%d", [-7], "-7", True), ("%2d.%03d", [7, 5], "7.005", True),
    ("%d/%d", [7, 5], "7/5", False), ("%d.%d.%d", [1, 2, 3], "1.2.3", False), ("id=%d,%d", [7, 5], "id=7,5", False),
    ("0x%-8x", [255], "0xff", False), ("flags=0%o", [8], "010", False), ("%08x", [255], "000000ff", False),
])
def test_the_text_of_a_cell(format: str, values: list[int], text: str, number: bool) -> None:
    given = ", ".join([str(value) for value in values])
    site, = compile_script(f'table t {{ A: "{format}"; }} begin {{ t({given}); }}').sites
    record = bytearray(site.size)
    for field, value in zip(site.fields, values):
        size = field.type.size
        record[field.offset:field.offset + size] = value.to_bytes(size, "little", signed=value < 0)
    cell, = table_cells(site)
    assert (cell.compile_text(Names())(bytes(record), 0), cell.number) == (text, number)


def test_events_have_a_value_for_each_column() -> None:
    _, row = compile_script(f"{TABLE}begin {{ heading(t); {ROW} }}").sites
    event = Event("printf", (7, 12, 5, "::1", 80, 255, "why"), "begin", 1, 1)
    assert event_columns(row) == ("PID", "LAT(ms)", "ADDR", "PORT", "FLAGS", "WHY")
    assert list(event_values(event, row)) == [7, "12.005", "::1", 80, 255, "why"]


def test_csv_has_one_heading_for_several_tables() -> None:
    """Their rows are told apart by the column ``table``; those of a map that the script keeps are not there."""
    spec = compile_script('config = { print_maps_on_exit = false } table a { PID: "%d"; } table b { a; X: "x=%d"; } '
                          "begin { heading(a); @own[comm] = 1; a(1); b(2, 3); }")
    run = Run("csv", spec, Target(title="x"))
    run.view.heading(["PID"], "a")
    run.view.row([("PID", "1", True)], 5, "begin", "a")
    run.view.row([("PID", "2", True), ("X", "3", True)], 6, "begin", "b")
    rows = list(csv.reader(io.StringIO(run.finish())))
    assert [row[1:] for row in rows] == [["table", "PID", "X"], ["a", "1", ""], ["b", "2", "3"]]


def test_tables_are_in_every_form_of_a_compiled_script() -> None:
    spec = compile_script(f"{TABLE}begin {{ heading(t); {ROW} }}")
    cached = unpack_spec(pack_spec(spec))
    recorded = read_spec(plain_spec(spec))
    shape = read_shape(describe_script(spec), Source("x", spec.source.text))
    for found in (cached, recorded, shape):
        assert [(site.table, [[*column.values()] for column in site.columns]) for site in found.sites] == [
            (site.table, [[*column.values()] for column in site.columns]) for site in spec.sites]


@pytest.mark.parametrize("column", [["x", 0, 99], ["x", 3, 1], ["x", 1, 1]])
def test_columns_from_elsewhere_are_checked(column: list[str | int]) -> None:
    spec = compile_script('table t { A: "%d"; } begin { t(1); }')
    described = describe_script(spec)
    sites = described["sites"]
    assert isinstance(sites, list) and isinstance(sites[0], dict)
    sites[0]["columns"] = [list(column)]
    with pytest.raises(ShapeError):
        read_shape(described, Source("x", ""))
    plain = plain_spec(spec)
    assert isinstance(plain["sites"], list) and isinstance(plain["sites"][0], dict)
    plain["sites"][0]["columns"] = [{"is": "Column", "name": "x", "first": column[1], "end": column[2]}]
    with pytest.raises(RecordingError):
        read_spec(plain)


@pytest.mark.parametrize(("text", "message"), [
    ('table t { A: "%d"; B: "%d"; } begin { t(1); }', "a row of t has 2 values (1 provided)"),
    ('table t { A: "%d"; } begin { t(1, 2); }', "a row of t has 1 values (2 provided)"),
    ('table t { A: "%d"; } begin { t("x"); }', "unsupported format specifier"),
    ('table t { A: "no value"; } begin { t(1); }', "it prints no value"),
    ('table t { A: "%d\\n"; } begin { t(1); }', "a line ends only before a column"),
    ('table t { A: "%d" if pid == 1; } begin { t(1); }', "has to be known when the script is compiled"),
    ('table t { A: comm; } begin { t(1); }', "needs a string literal"),
    ('table t { A: "%d"; A: "%d"; } begin { t(1, 2); }', "two columns are called A"),
    ('table t { A: "%d"; } table t { A: "%d"; } begin { t(1); }', "there is another t"),
    ('table printf { A: "%d"; } begin { printf(1); }', "there is another printf"),
    ('table t { b; } begin { t(1); }', "there is no table b before this one"),
    ('table t { A "%d"; } begin { t(1); }', "expected ':'"),
    ('table t { A: "%d" } begin { t(1); }', "expected ';'"),
    ('table t { A: "%d"; } begin { $x = t(1); }', "t"),
    ('table t { A: "%d"; } begin { heading(u); }', "Unknown function: 'heading'"),
])
def test_what_is_no_table(text: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_script(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", [
    "macro table(x) { x + 1 } begin { print(table(1)); }",
    "macro heading() { 1 } macro heading(x) { x } begin { print(heading(2)); print(heading()); }",
    "fn heading($x: int64): int64 { return $x; } begin { print(heading(2)); }",
    "struct table { int table; } begin { $table = (struct table *)0; @table = $table.table; print(1); }",
    "table=begin { print(1); }",
])
def test_its_words_are_not_reserved(text: str) -> None:
    assert compile_script(text).sites


def test_a_macro_takes_a_table() -> None:
    spec = compile_script('table a { A: "%d"; } table b { B: "%d"; } macro both(t, n) { t(n); t(n + 1); } '
                          "begin { both(a, 1); both(b, 2); }")
    assert [site.table for site in spec.sites] == ["a", "a", "b", "b"]
