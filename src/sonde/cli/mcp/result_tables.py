"""What a run has to show, as typed tables of plain data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from ... import types as t
from ...base.record import Record
from ...kinds import SITE_KINDS
from ...library.data_frames import (
    CATEGORY,
    DURATION,
    REAL,
    TIME,
    ColumnType,
    TableColumn,
    arrow_value,
    event_table,
    map_columns,
    row_sites,
)
from ...output.text import sort_items
from ...output.views.csv import iso_timestamp
from ...runtime.losses import Losses, describe_error, describe_skipped
from ...runtime.records.values import to_text
from ...source import shown_location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...base.json_checks import Json, JsonObject
    from ...library.traced_run import TracedRun
    from ...runtime.records.events import Event
    from ...runtime.records.values import Items

ROOM = 400_000       # characters of all rows of an answer
_CELL = 2000         # characters of a text
_EXACT = 1 << 53     # a larger integer is a text: readers of JSON round it
_PRINTS = 64         # of one map that are shown, the latest


class RunTables(Record):
    """The tables of a run; ``cut``: rows were left out."""

    tables: list[JsonObject]
    cut: bool


class _Room:
    """What is left of the characters of an answer."""

    def __init__(self) -> None:
        self.left = ROOM
        self.cut = False

    def take_rows(self, rows: Iterable[list[Json]], most: int) -> list[list[Json]]:
        """The rows that fit."""
        taken: list[list[Json]] = []
        for row in rows:
            size = len(json.dumps(row))
            if len(taken) == most or size > self.left:
                self.cut = True
                break
            self.left -= size
            taken.append(row)
        return taken


def plain_table(name: str, columns: Sequence[tuple[str, str]], rows: Sequence[list[Json]], most: int) -> JsonObject:
    """A table of plain cells, with (name, type) of each column."""
    return {"name": name, "columns": [{"name": each, "type": type, "unit": ""} for each, type in columns],
            "rows": [*rows[:most]], "total": len(rows)}


def run_tables(trace: TracedRun, rows: int) -> RunTables:
    """Read all events of a run that is over: tables of the rows and lines that it printed, of the maps that it printed,
    and of those that it had at its end, the largest values first."""
    reading = _Reading(trace, rows)
    for event in trace.events():
        reading.take_event(event)
    room = _Room()
    tables: list[JsonObject] = []

    def wall(time: int) -> int:
        return trace.context.wall_clock(time, "boot")
    if reading.row_count:
        columns = event_table(trace.spec, reading.rows, wall)
        tables.append(_as_table("events", columns, reading.row_count, rows, room))
    if reading.line_count:
        lines: list[list[Json]] = [[iso_timestamp(wall(time)) if time else "", text] for time, text in reading.lines]
        tables.append(plain_table("lines", (("time", TIME), ("text", "text")), room.take_rows(lines, rows), rows)
                      | {"total": reading.line_count})
    for name, prints in reading.prints.items():
        for time, items in prints[-_PRINTS:]:
            tables.append(_map_table(trace, name, items, rows, room) | {"printed": iso_timestamp(wall(time))})
    if trace.spec.config.print_maps_on_exit:
        for named in trace.spec.shown_maps:
            if items := trace.take_map(named.name):
                tables.append(_map_table(trace, named.name, items, rows, room))
    cut = room.cut or len(reading.rows) < reading.row_count or len(reading.lines) < reading.line_count or any(
        len(prints) > _PRINTS for prints in reading.prints.values())
    return RunTables(tables, cut)


class _Reading:
    """What was read of a run so far, no more of it than is shown."""

    def __init__(self, trace: TracedRun, most: int) -> None:
        self._spec = trace.spec
        self._sites = {index for index in row_sites(trace.spec) if trace.spec.sites[index].fields}
        self._most = most
        self.rows: list[Event] = []
        self.lines: list[tuple[int, str]] = []
        self.prints: dict[str, list[tuple[int, Items]]] = {}
        self.row_count = self.line_count = 0

    def take_event(self, event: Event) -> None:
        """One more event."""
        site = self._spec.sites[event.site]
        if event.site in self._sites:
            self.row_count += 1
            if self.row_count <= self._most:
                self.rows.append(event)
        elif event.kind == "print_map":
            name, items = event.args
            prints = self.prints.setdefault(name, [])
            prints.append((event.time, items))
            if len(prints) > _PRINTS + 1:  # one more, which says that there were others
                del prints[0]
        elif not SITE_KINDS[event.kind].silent:
            self.line_count += 1
            if self.line_count <= self._most:
                text = " ".join(map(to_text, event.args)) or "".join([part.literal for part in site.parts])
                self.lines.append((event.time, _cell_text(text.rstrip("\n"))))


def _map_table(trace: TracedRun, name: str, items: Items, rows: int, room: _Room) -> JsonObject:
    shown = list(reversed(sort_items(items, rows)))
    spec = trace.spec.find_map(name)
    if len(shown) < len(items):
        room.cut = True
    table = _as_table(name, map_columns(spec, shown), 0, rows * 65, room)  # a histogram has a row for each bucket
    table["total"] = len(items)
    table["about"] = spec.about
    return table


def _as_table(name: str, columns: Sequence[TableColumn], total: int, most: int, room: _Room) -> JsonObject:
    rows = room.take_rows(_plain_rows(columns), most)
    return {"name": name, "columns": [{"name": each.name, "type": _type_word(each.type), "unit": each.unit}
                                      for each in columns], "rows": rows, "total": total}


def _plain_rows(columns: Sequence[TableColumn]) -> Iterator[list[Json]]:
    for cells in zip(*[column.cells for column in columns]):
        yield [_plain_cell(arrow_value(cell, column.type) if cell is not None else None, column.type)
               for cell, column in zip(cells, columns)]


def _plain_cell(value: object, type: ColumnType = "") -> Json:
    """A cell as JSON has it: bytes in hexadecimal, times in ISO 8601."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if type == TIME or isinstance(type, t.Timestamp):
            return iso_timestamp(value)
        return int(value) if abs(value) <= _EXACT else str(value)
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, bytes):
        return value[:_CELL // 2].hex()
    if isinstance(value, list | tuple):
        return [_plain_cell(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _plain_cell(each) for name, each in value.items()}
    return _cell_text(str(value))


def _cell_text(text: str) -> str:
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return text if len(text) <= _CELL else text[:_CELL] + "…"


def _type_word(type: ColumnType) -> str:
    """What a reader may expect in the cells of a column."""
    if isinstance(type, str):
        return {TIME: "time", DURATION: "ns", CATEGORY: "text", REAL: "number"}[type]
    if isinstance(type, t.Int):
        return f"{'' if type.signed else 'u'}int{type.bits}"
    words = ((t.Timestamp, "time"), (t.Float, "number"), (t.Bool, "bool"), (t.Pointer, "address"), (t.Buf, "hex"),
             (t.Stack, "stack, outermost first"), (t.Array, "list"), (t.Tuple, "object"), (t.Struct, "object"))
    return next((word for kind, word in words if isinstance(type, kind)), "text")


def loss_table(losses: Losses) -> JsonObject:
    """Everything that was lost: a row for each cause."""
    rows: list[list[Json]] = [["lost", probe, count, "no room for the record, or the end came before"]
                              for probe, count in losses.records]
    rows += [["failed", str(shown_location(site.span) or "") if site.span else "", count, describe_error(site)]
             for site, count in losses.errors]
    rows += [["skipped", probe, count, describe_skipped(probe, count)] for probe, count in losses.skipped]
    if losses.withheld:
        rows += [["withheld", probe, count, "the budget was spent"] for probe, count in losses.withheld.events]
        rows += [["withheld", "", None, sentence] for sentence in losses.withheld.sentences]
    known = {describe_skipped(probe, count) for probe, count in losses.skipped}
    rows += [["noted", "", None, note] for note in losses.notes if note.split(": ", 1)[-1] not in known]
    return plain_table("losses", (("what", "text"), ("where", "text"), ("count", "int64"), ("message", "text")), rows,
                       len(rows))
