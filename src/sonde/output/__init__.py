"""What people see: each kind of event site turned into calls of a text or JSON output."""

from __future__ import annotations

import sys

from ..base.end_request import Ending
from ..base.fast_stdlib import Protocol
from ..layouts.event_records import read_time
from ..source import shown_location
from ..spec import EventField, EventSite, MapSpec, ScriptSpec
from ..types import Aggregate, Buf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeAlias

    from ..runtime.costs.statistics import ProbeCost
    from ..runtime.flight.dumps import Dump
    from ..runtime.losses import BudgetLosses, Losses
    from ..runtime.maps.full_maps import FullMap
    from ..runtime.provenance import Provenance
    from ..runtime.records.batch import Batch, Records
    from ..runtime.records.values import DecodingContext, Item, Items, ScriptValue
    from ..source import Span
    from ..spec import FormatPart
    from .cut import OnCut
    from .format import Escape, Escapes, FormatMany, Frame
    from .outside import Outside, PacketSink
    from .row_groups import RowGroups
    from .table_rows import Rows

Handler: TypeAlias = "Callable[[bytes, int], object]"  # (buffer, offset of a record)
# (map, "" | "clear" | "zero") -> its (key, value) pairs
Take: TypeAlias = "Callable[[str, str], Items]"


class Output(Protocol):
    """The common face of TextOutput and JsonOutput."""

    @property
    def joins_text(self) -> bool:
        """Whether the texts of several printf() may come as one."""

    @property
    def takes_rows(self) -> bool:
        """Whether it is JSON, where a row of a table is an object."""

    @property
    def frame(self) -> Frame | None:
        """What the output puts around each text of printf(), if it joins them."""

    @property
    def escape(self) -> Escape | None: ...
    @property
    def escape_lines(self) -> Escape | None: ...
    @property
    def write_text(self) -> Callable[[bytes], object]: ...
    @property
    def write_texts(self) -> Callable[[bytes], object]: ...
    def flush(self, end: bool = False) -> None: ...
    def close(self) -> None: ...
    @property
    def unread(self) -> int: ...
    def report_attached(self, probes: int) -> None: ...
    def report_lost_events(self, count: int) -> None: ...
    def write_note(self, message: str) -> None: ...
    def report_runtime_error(self, message: str, span: Span | None, helper: str = "", retcode: int = 0,
                             count: int = 1) -> None: ...
    def report_located(self, severity: str, text: bytes, span: Span | None) -> None: ...
    def report_statistics(self, costs: Sequence[ProbeCost]) -> None: ...
    def write_separator(self) -> None: ...
    def write_provenance(self, run: Provenance) -> None: ...
    def write_dump_head(self, dump: Dump) -> None: ...
    def write_time(self, text: str) -> None: ...
    def write_joined(self, text: str) -> None: ...
    def write_file_content(self, content: bytes) -> None: ...
    def write_command_output(self, output: bytes, more: bool = False) -> None: ...
    def write_value(self, value: ScriptValue) -> None: ...
    def report_withheld(self, withheld: BudgetLosses) -> None: ...
    def report_unreturned(self, losses: Losses) -> None: ...
    def report_full_map(self, full: FullMap) -> None: ...

    def write_map(self, name: str, items: Items, top: int = 0, div: int = 1,
            kind: str = "map", incomplete: bool = False) -> None: ...


class Printer:
    """A script's event sites, bound to an output.

    ``handlers[site]`` prints one record; it is None for the sites that only the session can act on (clear, zero,
    exit). ``take`` reads a map, and empties or zeroes it in the same step when asked to. ``columns`` are those of a
    tool without a table, whose lines become objects in JSON. ``outside`` does what is done beyond the output.
    """

    joins_lines = True  # is a printf() of plain text output just written?

    def __init__(self, spec: ScriptSpec, context: DecodingContext, out: Output, take: Take, warnings: bool = True,
                 columns: Sequence[str] = (), outside: Outside | None = None) -> None:
        self._outside = outside
        self.spec = spec
        self.context = context
        self.out = out
        self.take = take
        self.warnings = warnings
        self.commands_left = 0  # of system(): not run, for the run was to end
        self.ending = Ending()  # the run's, if it has one
        declared = any(site.table for site in spec.sites)
        self.rows = _make_rows(columns, context, out, declared) if columns or declared else None
        self._files: dict[str, PacketSink] = {}  # of skboutput(), by path
        self.is_incomplete: Callable[[str], bool] = _never_incomplete  # whether a budget kept back events of a map
        self._joined: dict[int, FormatMany | None] = {}  # by site
        self._cut: set[str] = set()  # sites of which was said that numbers do not fit
        self.handlers: list[Handler | None] = [self._site_handler(site) for site in spec.sites]
        self.groups: RowGroups | None = None

    def group_rows(self, room: int) -> None:
        """From now on, rows of tables that agree in the script's columns of ``group_rows`` are printed together;
        ``room`` is how many bytes of them may wait."""
        from .row_groups import RowGroups
        write, plain = self.out.write_text, self.rows is None and self.joins_lines
        separate = (lambda: write(b"\n")) if plain else (lambda: None)
        self.groups = RowGroups(self.spec, self.context, self.handlers, separate, room)

    @property
    def outside(self) -> Outside:
        """What does what is done beyond the output: this machine, unless something else was given."""
        if self._outside is None:
            from .outside import Outside
            self._outside = Outside()
        return self._outside

    def print_batches(self, records: Records, act: Callable[[int], object]) -> None:
        """As :meth:`print_records`; what one printf() made in a row is formatted in one go."""
        for batch in records.batches:
            site = self._site_of_all(batch)
            several = None if site is None else self._format_of_many(site)
            if several is None:
                self.print_records(batch, act)
            else:
                self.out.write_texts(several(batch.buffer, batch.offsets))

    def _site_of_all(self, batch: Batch) -> int | None:
        """The site of many records that may be printed as they come; None if they have to be looked at one by one."""
        return batch.sites if isinstance(batch.sites, int) and len(batch) > 1 and self.groups is None else None

    def _format_of_many(self, index: int) -> FormatMany | None:
        """What makes the text of many records of a site; None if that has to be done one by one."""
        if index not in self._joined:
            from .format import compile_format_of_many
            site = self.spec.sites[index]
            plain = self.joins_lines and self.out.joins_text and self.rows is None
            self._joined[index] = compile_format_of_many(site.parts, site.fields, self.context, self._escapes(site),
                                                        self._cut_warning(site), self.out.frame) \
                if plain and site.kind == "printf" and not site.data.get("severity") else None
        return self._joined[index]

    def print_records(self, records: Iterable[tuple[int, bytes, int]], act: Callable[[int], object]) -> None:
        """Print records, each a site with the place of its data; ``act(site)`` does what only the session can."""
        handlers = self.handlers if self.groups is None else self.groups.handlers
        for site, buffer, offset in records:
            handler = handlers[site]
            if handler is not None:
                handler(buffer, offset)
            else:
                act(site)

    def print_final_maps(self) -> None:
        """The end: a pause, and every map of the script, by name, unless it says otherwise."""
        self.print_final_rows()
        self.out.write_separator()
        if self.spec.config.print_maps_on_exit:
            self.print_maps()

    def print_final_rows(self) -> None:
        """The rows that still wait for others of their group."""
        if self.groups is not None:
            self.groups.print_all()
            if self.groups.parts and self.warnings:
                self.out.write_note(f"WARNING: {self.groups.parts} groups of rows came in several parts: more than a "
                                    "second lay between two rows, or there was no room for more (see --memory)")

    def print_maps(self) -> None:
        """Every map of the script, by name, as it is now."""
        for name in sorted([m.name for m in self.spec.maps if m.name.startswith("@")]):
            self.out.write_map(name, self.take(name, ""), kind=json_kind(self.spec.find_map(name)),
                         incomplete=self.is_incomplete(name))

    def _site_handler(self, site: EventSite) -> Handler | None:
        makers: dict[str, Callable[[EventSite], Handler]] = {
            "printf": self._printf_handler, "print": self._print_handler, "time": self._time_handler,
            "join": self._join_handler, "cat": self._cat_handler,
            "system": self._system_handler, "nstat": self._nstat_handler, "print_map": self._print_map_handler,
            "skboutput": self._packets_handler}
        make = makers.get(site.kind)
        return make(site) if make else None

    def _printf_handler(self, site: EventSite) -> Handler:
        from .format import compile_format
        severity = site.data.get("severity", "")
        form = compile_format(site.parts, site.fields, self.context, self._escapes(site), self._cut_warning(site))
        if severity:
            located, span = self.out.report_located, site.span
            if severity == "WARNING" and not self.warnings:
                return lambda buffer, offset: None
            return lambda buffer, offset: located(severity, form(buffer, offset), span)
        if self.rows is not None:
            return self.rows.row_handler(site)
        printf = self.out.write_text
        return lambda buffer, offset: printf(form(buffer, offset))

    def _escapes(self, site: EventSite) -> Escapes | None:
        """What is to be done with the values of a printf()."""
        from .format import Escapes
        escape = self.out.escape
        return Escapes(escape, self.out.escape_lines, frozenset(site.data.get("own") or ())) if escape else None

    def _cut_warning(self, site: EventSite) -> OnCut | None:
        """What says once that a printf() shows another number than it was given."""
        if not self.warnings or site.span is None:
            return None
        location, warned, out = str(site.span), self._cut, self.out
        head = f"{location}: " if shown_location(site.span) is not None else ""

        def say_once(part: FormatPart, value: int) -> None:
            if location in warned:
                return
            warned.add(location)
            out.write_note(f"{head}WARNING: %{part.conversion} shows 32 bits, and {value} has more")
            out.write_note(f"HINT: %ll{part.conversion} shows 64 bits")
        return say_once

    def _print_handler(self, site: EventSite) -> Handler:
        from ..runtime.records.decoders import make_decoder
        from ..runtime.records.values import OwnText
        field, value = site.fields[0], self.out.write_value
        decode, at = make_decoder(field.type, self.context), field.offset
        name, take = site.data.get("map", ""), self.take
        if name:  # an element of an aggregate, by its key
            return lambda buffer, offset: value(_find_element(take(name, ""), decode(buffer, offset + at)))
        if site.data.get("own"):
            return lambda buffer, offset: value(OwnText(decode(buffer, offset + at)))
        return lambda buffer, offset: value(decode(buffer, offset + at))

    def _time_handler(self, site: EventSite) -> Handler:
        from ..runtime.records.values import strftime
        format, out, context = site.data["format"], self.out, self.context

        def print_time(buffer: bytes, offset: int) -> None:
            when = read_time(buffer, offset) or context.boot_time()
            out.write_time(strftime(format, context.wall_clock(when, "boot")))
        return print_time

    def _join_handler(self, site: EventSite) -> Handler:
        field, out, separator = site.fields[0], self.out, site.data["separator"]
        decode, at, escape = _bytes_decoder(field), field.offset, out.escape or str

        def print_joined(buffer: bytes, offset: int) -> None:
            strings = decode(buffer, offset + at).removesuffix(b"\0").split(b"\0")
            out.write_joined(separator.join([escape(s.decode("utf-8", "surrogateescape")) for s in strings]))
        return print_joined

    def _cat_handler(self, site: EventSite) -> Handler:
        from .format import compile_format
        form = compile_format(site.parts, site.fields, self.context)
        limit, out = self.spec.config.max_cat_bytes, self.out

        def print_file(buffer: bytes, offset: int) -> None:
            path = form(buffer, offset)
            try:
                out.write_file_content(self.outside.read_file(path, limit))
            except (OSError, ValueError) as error:  # ValueError: a NUL in the path
                reason = error.strerror if isinstance(error, OSError) else str(error)
                out.write_note(f"ERROR: failed to open file '{path.decode('utf-8', 'replace')}' ({reason})")
        return print_file

    def _system_handler(self, site: EventSite) -> Handler:
        from .format import compile_format
        form, out = compile_format(site.parts, site.fields, self.context), self.out

        def show_output(printed: bytes, more: bool) -> None:
            out.write_command_output(printed, more)
            out.flush(True)

        def run_and_print(buffer: bytes, offset: int) -> None:
            if not self.outside.may_run(self.ending):
                self.commands_left += 1
                return
            out.flush(True)
            command = form(buffer, offset)
            try:
                self.outside.run_command(command, show_output, self.ending)
            except (OSError, ValueError) as error:
                out.write_note(f"ERROR: {error}\nHINT: this command: {command.decode('utf-8', 'replace')}")
        return run_and_print

    def _nstat_handler(self, site: EventSite) -> Handler:
        take_growth, show = self.outside.network_growth(), self.out.write_map
        return lambda buffer, offset: show("@nstat", take_growth())

    def _packets_handler(self, site: EventSite) -> Handler:
        path = site.data["path"]
        file = self._files.get(path) or self._files.setdefault(path, self.outside.open_packets(path))
        decode, at, length_at = _bytes_decoder(site.fields[0]), site.fields[0].offset, site.fields[1].offset
        context = self.context

        def write_packet(buffer: bytes, offset: int) -> None:
            length = int.from_bytes(buffer[offset + length_at:offset + length_at + 4], sys.byteorder)
            file.write(context.wall_clock(read_time(buffer, offset), "boot"), decode(buffer, offset + at), length)
        return write_packet

    def _print_map_handler(self, site: EventSite) -> Handler:
        name, then, take, show = site.data["map"], site.then, self.take, self.out.write_map
        top, div = site.data.get("top") or 0, site.data.get("div") or 1
        named = self.spec.find_map(name)
        unset, kind = unset_items(named, self.context), json_kind(named)
        return lambda buffer, offset: show(name, take(name, then) or unset, top, div, kind, self.is_incomplete(name))


def _bytes_decoder(field: EventField) -> Callable[[bytes, int], bytes]:
    from ..runtime.records.decoders import make_buffer_decoder
    assert isinstance(field.type, Buf)
    return make_buffer_decoder(field.type)


def _never_incomplete(name: str) -> bool:
    return False


def json_kind(named: MapSpec) -> str:
    """The type of the JSON objects of a map of numbers."""
    return "stats" if isinstance(named.value, Aggregate) and named.value.kind in ("avg", "stats") else "map"


def unset_items(named: MapSpec, context: DecodingContext) -> list[Item]:
    """What print() shows of a map without keys that has no value: zero."""
    value = named.value
    if named.key is not None or value is None:
        return []
    if not isinstance(value, Aggregate):
        from ..runtime.records.decoders import make_decoder
        return [(None, make_decoder(value, context)(bytes(value.size), 0))]
    return unset_aggregate(value)


def unset_aggregate(value: Aggregate) -> list[Item]:
    """The same of a map with an aggregate."""
    from ..runtime.maps.aggregate_values import aggregate_value
    from ..runtime.maps.aggregates import Drawing
    zero = aggregate_value(value, [0] * value.words)
    return [] if isinstance(zero, Drawing) else [(None, zero)]


def _find_element(items: Items, key: ScriptValue) -> ScriptValue:
    return next((value for have, value in items if have == key), "")


def _make_rows(columns: Sequence[str], context: DecodingContext, out: Output, declared: bool) -> Rows | None:
    if not out.takes_rows:
        return None
    from .json import JsonOutput
    from .table_rows import Rows
    assert isinstance(out, JsonOutput)
    return Rows(columns, context, out, declared)


def make_output(form: str, out: int, err: int, buffering: str = "line", quiet: bool = False,
           ending: Ending | None = None) -> Output:
    """The output of ``-f form`` (text or json) to two file descriptors."""
    from .stream import NONE, Stream
    streams = Stream(out, buffering, ending), Stream(err, NONE, ending)
    if form == "json":
        from .json import JsonOutput
        return JsonOutput(*streams, quiet)
    from .text import TextOutput
    return TextOutput(*streams, quiet)
