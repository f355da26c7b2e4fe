"""``-f csv``: maps and events as one table, as spreadsheets and data frames read it (RFC 4180, UTF-8).

The columns follow from the types: ``time`` if anything is printed while the script runs, ``table`` if there is more
than one map or event, the keys, the values. A histogram has a row for each bucket, a tseries() one for each interval.
What a tool prints under a heading has the columns of that heading; another heading begins another table. The last lines
of a file begin with ``#``: which run it is, and what was lost (pandas: ``comment="#"``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from ... import types as t
from ...runtime.maps.aggregates import Histogram, Stats
from ...runtime.maps.series import Series
from ...runtime.records.events import Event
from ...runtime.records.values import Items, ScriptValue, StackTrace, to_text, value_members
from ...spec import EventSite, FormatPart, MapSpec, ScriptSpec
from ..format import HARMLESS, compile_block
from ..table_rows import RowCell, has_tables, table_columns
from ..text import terminal_safe
from .stacks import frame_names
from .view import View as Base
from .view import comes_out, key_parts, key_types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...runtime.records.batch import Batch
    from ...runtime.records.values import DecodingContext
    from .view import RowsOf

CellValue = int | float | str
_HARMLESS = HARMLESS.translate(None, b'",')  # what stands in a cell as it is
_SECOND = 1_000_000_000  # ns


class CsvView(Base):
    """Rows as they come."""

    needs = "maps or events"
    example = "tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }"
    takes_rows = True

    def prepare(self) -> None:
        import csv
        has_rows = bool(self.target.table) or has_tables(self.spec) and not self.target.lead
        lines = {i for i, site in enumerate(self.spec.sites) if site.kind == "printf"} if has_rows else set()
        lead = self.target.lead
        self._events = {i: (*lead, *own_columns(site, lead)) for i, site in enumerate(self.spec.sites)
                        if self.shows_event(site) and i not in lines}
        self._maps = {m.name: (key_columns(m), value_columns(m)) for m in self.spec.shown_maps
                      if comes_out(m, self.spec, has_rows)}
        self._timed = any(site.kind in ("print_map", "printf", "print") for site in self.spec.sites)
        lead = self.target.table[:len(lead)]  # HOST, where there are many
        self._declared = [*lead, *table_columns(self.spec)] if has_rows and has_tables(self.spec) else []
        tables = len({site.table for site in self.spec.sites if site.table and site.fields}) or bool(lines)
        self._several = len(self._events) + len(self._maps) + tables > 1
        self._writer = csv.writer(self, lineterminator="\n")
        self._positions: dict[str, int] = {}
        if not lines or self._declared:
            self.heading(())

    def heading(self, names: Sequence[str], table: str = "") -> None:
        if self._positions and (table and self._declared or set(names) <= self._positions.keys()):
            return
        tables: list[Iterable[str]] = [*[keys for keys, _ in self._maps.values()], self._declared, names,
                                       *self._events.values(), *[values for _, values in self._maps.values()]]
        columns = dict.fromkeys(column for table in tables for column in table)
        self._positions = {column: i for i, column in enumerate(columns)}
        self._writer.writerow([*(["time"] if self._timed else []), *(["table"] if self._several else []), *columns])

    def row(self, cells: Sequence[RowCell], time: int, probe: str, table: str = "") -> None:
        names = [name for name, _, _ in cells]
        self.heading(names)
        self._write_row(time, table or self.target.title, names,
                        [terminal_safe(utf8(text)) for _, text, _ in cells])

    @classmethod
    def shows_map(cls, named: MapSpec, spec: ScriptSpec) -> bool:
        return True

    @classmethod
    def shows_event(cls, site: EventSite) -> bool:
        return site.shows and bool(site.fields)

    def add_map(self, named: MapSpec, items: Items, time: int, then: str) -> None:
        if named.name not in self._maps:
            return
        keys, values = self._maps[named.name]
        if items:
            self.heading(())
        for key, value in items:
            cells = [cell_value(part) for part in key_parts(key)]
            for row in value_rows(value, len(values)):
                self._write_row(time, named.name, keys + values, [*cells, *row])

    def add_event(self, event: Event, site: EventSite, text: str) -> None:
        args = event_values(event, site)
        lead = [getattr(event, name) for name in self.target.lead]
        self._write_row(event.time, event.probe, self._events[event.site], [cell_value(arg) for arg in [*lead, *args]])

    def compile_rows(self, index: int, site: EventSite, context: DecodingContext) -> RowsOf | None:
        plain = site.kind == "printf" and index in self._events and not self._several and not self.target.lead
        parts = [FormatPart("Z")]
        for field in site.fields if plain else ():
            if type(field.type) not in (t.Int, t.Str):
                return None
            number = ("d" if getattr(field.type, "signed", False) else "u") if isinstance(field.type, t.Int) else ""
            parts += [FormatPart(","), FormatPart("", number or "s", "", "ll" if number else "")]
        return self._block_of_rows([*parts, FormatPart("\n")], site, context) if plain else None

    @staticmethod
    def _block_of_rows(parts: list[FormatPart], site: EventSite, context: DecodingContext) -> RowsOf:
        block = compile_block(parts, site.fields, context, _HARMLESS)
        offset = context.wall_clock(0, "boot")

        def rows_of(batch: Batch) -> bytes | None:
            texts = []
            for start, stop, before, numbers in split_times(batch.times, offset):
                text = block(batch.buffer, batch.offsets[start:stop], before, numbers)
                if text is None:
                    return None
                texts.append(text)
            return b"".join(texts) if texts else None
        return rows_of

    def finish(self) -> None:
        self.heading(())
        self.write(self.run_comment())

    def _write_row(self, time: int, table: str, columns: Iterable[str], cells: Sequence[CellValue]) -> None:
        row: list[CellValue] = [""] * len(self._positions)
        for column, value in zip(columns, cells):
            row[self._positions[column]] = value
        lead = [iso_timestamp(self.context.wall_clock(time, "boot"))] if self._timed else []
        self._writer.writerow([*lead, *([table] if self._several else []), *row])


def key_columns(named: MapSpec) -> tuple[str, ...]:
    """The names of a map's key columns: those of a record, else what the script calls them, else key, or key1 ..."""
    types = key_types(named)
    if isinstance(named.key, t.Tuple) and named.key.names and types:
        return named.key.names
    labels = named.labels if len(named.labels) == len(types) else ("",) * len(types)
    taken = value_columns(named)
    return tuple([label if _free(label) and label not in taken else "key" if len(types) == 1 else f"key{i}"
                  for i, label in enumerate(labels, 1)])


def value_columns(named: MapSpec) -> tuple[str, ...]:
    """The names of a map's value columns."""
    value = named.value
    if isinstance(value, t.Aggregate):
        return value.row.columns
    return _member_columns(value, "value") if value is not None else ("value",)


def event_columns(site: EventSite) -> tuple[str, ...]:
    """The names of an event's columns: what the format calls its conversions (``pid=%d``, ``pid: %d``), or what the
    script calls the value, or arg1 ..."""
    if site.kind == "print":
        return _member_columns(site.fields[0].type, site.fields[0].name or "value")
    if site.table:
        return tuple([column.name for column in site.columns])
    names: list[str] = []
    before = ""
    for part in site.parts:
        if not part.conversion:
            before += part.literal
            continue
        given = (_name_before(before), _free(site.fields[len(names)].name))
        names.append(next((name for name in given if name and name not in names), f"arg{len(names) + 1}"))
        before = ""
    return tuple(names)


def event_values(event: Event, site: EventSite) -> Sequence[ScriptValue]:
    """What printf() or print() sent: the arguments, the members of a struct, record or tuple, the cells of a table's
    row, or the value."""
    if site.kind == "print":
        return value_members(event.args[0])
    if not site.table:
        return event.args
    left = iter(event.args)
    return [_cell_of(site.parts[column.first:column.end], left) for column in site.columns]


def _cell_of(parts: Sequence[FormatPart], left: Iterator[ScriptValue]) -> ScriptValue:
    """A column's value; of several conversions their text."""
    values = [(part, next(left)) if part.conversion else (part, None) for part in parts]
    given = [value for part, value in values if part.conversion]
    return given[0] if len(given) == 1 else "".join(
        [_digits(part, value) if part.conversion else part.literal for part, value in values]).strip()


def _digits(part: FormatPart, value: ScriptValue) -> str:
    width = part.spec.lstrip("-+ #")
    return f"{value:{width}}" if type(value) is int and width[:1] == "0" else to_text(value)


def own_columns(site: EventSite, taken: Sequence[str]) -> list[str]:
    """The names of an event's columns where others have ``taken`` some: those end with an underline."""
    return [f"{name}_" if name in taken else name for name in event_columns(site)]


def _free(name: str) -> str:
    """The script's name for a column, unless the table has a column of that name."""
    return "" if name in ("time", "table", "probe") else name


def _name_before(text: str) -> str:
    """``pid`` of ``pid=`` or ``pid: ``; "" if the text ends with neither."""
    stripped = text.rstrip(" ")
    if stripped[-1:] not in ("=", ":"):
        return ""
    words = stripped[:-1].rstrip(" ").replace(",", " ").replace("\n", " ").split(" ")
    return words[-1] if words[-1].isidentifier() else ""


def _member_columns(type: t.Type, single: str) -> tuple[str, ...]:
    if isinstance(type, t.Struct):
        return tuple(name for name in type.field_names())
    if isinstance(type, t.Tuple):
        return type.names or tuple(f"{single}{i}" for i in range(1, len(type.of) + 1))
    return (single,)


def value_rows(value: ScriptValue, columns: int) -> Iterator[list[CellValue]]:
    """The rows of a map's value, each with so many ``columns``."""
    if isinstance(value, Histogram):
        for bucket in value:
            yield ["" if bucket.low is None else bucket.low, "" if bucket.high is None else bucket.high, bucket.count]
    elif isinstance(value, Series):
        for point in value:
            yield [iso_timestamp(point.start), "" if point.value is None else point.value]
    elif isinstance(value, Stats):
        yield [value.count, value.average, value.total]
    else:
        yield [cell_value(part) for part in (value_members(value) if columns > 1 else (value,))]


def cell_value(value: ScriptValue) -> CellValue:
    """A value as a cell: numbers as numbers, stacks folded, anything else as its text."""
    if type(value) is int or type(value) is float:
        return value
    if isinstance(value, StackTrace):
        return ";".join(reversed(frame_names(value)))
    return terminal_safe(utf8(to_text(value)))


def utf8(text: str) -> str:
    """Text without bytes that are none."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def split_times(times: Sequence[int], offset: int) -> Iterator[tuple[int, int, bytes, list[int]]]:
    """Times in order, from one index to another, that ``offset`` makes times since 1970: the digits that stand before
    each of their timestamps, and as numbers the rest of them but for the ``Z``. None of times that are in no order."""
    at = 0 if sorted(times) == times else len(times)
    while at < len(times):
        wall = times[at] + offset
        length = len(str(wall % _SECOND))
        start = wall // _SECOND * _SECOND
        stop = bisect_left(times, start - offset + 10 ** length, at)
        before, start = iso_timestamp(start)[:-1 - length].encode(), start - offset
        yield at, stop, before, [time - start for time in times[at:stop]]
        at = stop


def iso_timestamp(wall: int) -> str:
    """ISO 8601 in UTC, with nanoseconds."""
    import time
    seconds, rest = divmod(wall, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:09}Z"
