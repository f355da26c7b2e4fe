"""Views: what a script collects as flame graphs, heat maps, graphs, tables and traces (``-f NAME``).

Each view is a module of this package with a class ``View``; it is imported on use. A view says from the types of the
script's maps and events what it shows; everything else that the script prints stays text.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence

from ...base.end_request import Ending
from ...base.memory_budget import Memory
from ...base.record import Record
from ...errors import UsageError
from ...kinds import SITE_KINDS
from ...layouts.event_records import read_probe, read_time
from ...runtime.provenance import Provenance
from ...spec import EventSite, MapSpec, ScriptSpec
from .. import Handler, Output, Printer, Take, make_output
from ..outside import Outside
from ..progress import make_progress
from ..stream import FULL, LINE, Stream
from ..table_rows import RowCell, Rows, has_tables
from ..text import encode_text
from .view import View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from ...runtime.records.batch import Batch, Records
    from ...runtime.records.values import DecodingContext
    from .view import RowsOf

# The name of each view, in the order in which they are listed: its module, and what it makes of a script.
VIEWS = {
    "folded": "stacks as lines that flame-graph scripts read",
    "flamegraph": "stacks as a flame graph, SVG",
    "lines": "Python stacks beside the lines of the source; as HTML, CSV or JSON by the name of the file",
    "pprof": "stacks as a profile for pprof, compressed",
    "otlp": "stacks as OpenTelemetry profiles, which are in development",
    "heatmap": "histograms over time: on the terminal, or as SVG or HTML by the name of the file",
    "dot": "pairs as a graph for Graphviz",
    "html": "everything on one page",
    "csv": "maps and events as a table",
    "perfetto": "events on a time line, for ui.perfetto.dev",
    "pcapng": "packets with their steps, for Wireshark",
}
TEXT = ("text", "json")
FORMATS = (*TEXT, *VIEWS)



class Target(Record):
    """Where a view goes: ``path`` is "" for standard output; ``colours`` 0, 256 or 1 << 24 of a terminal. A file
    names the command in its comments, for those who read it later."""

    path: str = ""
    columns: int = 80
    colours: int = 0
    title: str = ""
    unit: str = ""  # of the weights
    table: tuple[str, ...] = ()  # the columns that a tool explains
    lead: tuple[str, ...] = ()   # what of an event stands in front of what it printed: "host" where there are many
    is_file: bool = True
    form: str = ""    # of -f lines, if not that of the file's name
    source: str = ""  # the source file to show as a whole: the end of its path
    memory: int = Memory().views  # bytes of what may be collected until the end

    @property
    def suffix(self) -> str:
        """The file's, in lower case, with its dot."""
        return os.path.splitext(self.path)[1].lower()


def refuse_format(name: str, formats: Sequence[str]) -> NoReturn:
    """UsageError: -f takes these, and not ``name``."""
    from difflib import get_close_matches
    raise UsageError(f'Invalid output format "{name}"', [
        *[f"did you mean {close}?" for close in get_close_matches(name, formats, 1)],
        f"-f takes {', '.join(formats[:-1])} or {formats[-1]}"])


def view_class(name: str) -> type[View]:
    """The class of a view; UsageError if there is none of that name."""
    if name not in VIEWS:
        refuse_format(name, (*FORMATS, "recording"))
    from importlib import import_module
    view: type[View] = getattr(import_module(f".{name}", __name__), f"{name.capitalize()}View")
    return view


def fitting_views(spec: ScriptSpec) -> list[str]:
    """The views that have something to show of a script."""
    return [name for name in VIEWS if view_fits(view_class(name), spec)]


def view_fits(view: type[View], spec: ScriptSpec) -> bool:
    """Whether a view shows any map or event of a script."""
    return any(view.shows_map(m, spec) for m in spec.shown_maps) \
        or any(view.shows_event(site) for site in spec.sites)


def check_view(name: str, spec: ScriptSpec) -> type[View]:
    """The class of the view, if it fits the script; else UsageError with what does, and an example."""
    view = view_class(name)
    if view_fits(view, spec):
        return view
    others = fitting_views(spec)
    raise UsageError(f"-f {name} shows {view.needs}, and this script has none",
                     [f"for example: sonde -f {name} -e '{view.example}'",
                      f"what fits this script: {', '.join([*TEXT, *others])}"])


class Showing:
    """A view of one run: the view's own output, and the text output for the rest of what the script prints.

    With ``path`` the view goes to that file and text to standard output; else the view goes to standard output and
    text to standard error.
    """

    def __init__(self, name: str, spec: ScriptSpec, path: str = "", quiet: bool = False, title: str = "",
                 unit: str = "", ending: Ending | None = None, memory: Memory | None = None,
                 table: Sequence[str] = (), form: str = "", source: str = "") -> None:
        self._name, self._form, self._source = name, form, source
        self._class = check_view(name, spec)
        self._path = path
        name = os.path.basename(spec.source.name)
        self._title = title or (name.removesuffix(".bt") if name != "stdin" else "")
        self._unit = unit
        self._table = tuple(table)
        self._quiet = quiet
        self._view: View | None = None
        self._printer: ViewPrinter | None = None
        self.stream: Stream | None = None
        self._ending = ending
        self._memory = (memory or Memory()).views
        self.text: Output = make_output("text", 1 if path else 2, 2, LINE, quiet, ending)

    def open(self, descriptor: int) -> Output:
        """The view goes to ``descriptor``; the output for everything else. UsageError if that cannot take it."""
        if self._class.binary and os.isatty(descriptor):
            raise UsageError(f"-f {self._name} is no text for a terminal", ["-o FILE, or a pipe, takes it"])
        self.stream = Stream(descriptor, FULL, self._ending)
        return self.text

    def make_printer(self, spec: ScriptSpec, context: DecodingContext, take: Take,
                     act: Callable[[int], object], warnings: bool = True,
                     outside: Outside | None = None) -> ViewPrinter:
        """The printer that feeds the view."""
        assert self.stream is not None
        stream, where = self.stream, view_target(self.stream.descriptor, self._path, self._title)
        where.unit, where.memory, where.table = self._unit, self._memory, self._table
        where.form, where.source = self._form, self._source

        def write_view(content: str | bytes) -> None:
            stream.write(content if isinstance(content, bytes) else encode_text(content))
            stream.flush()
        self._view = self._class(spec, context, write_view, where)
        self._view.bar = make_progress(self._quiet)
        self._printer = ViewPrinter(spec, context, self.text, take, act, self._view, warnings, outside)
        return self._printer

    def sample_maps(self) -> None:
        """Look at the maps that the script itself does not print."""
        if self._printer is not None:
            self._printer.sample_maps()

    def render_picture(self, columns: int, rows: int) -> list[str]:
        """What has been collected so far, as lines for a terminal with so much room."""
        return self._view.render_picture(columns, rows) if self._view is not None else []

    def finish(self, run: Provenance) -> None:
        """All has been collected in this run: let the view write what it has not written yet."""
        if self._view is not None and self._printer is not None:
            if unplaced := self._printer.unplaced_lines:
                lines = "1 line is no row" if unplaced == 1 else f"{unplaced} lines are no rows"
                message = f"{lines} of the table: printed as text"
                self.text.write_note(f"WARNING: {message}")
                run.lost.append(message)
            self._view.run = run
            self._view.finish()
            if self._view.left_out:
                self.text.write_note(f"WARNING: {self._view.left_out} elements left out for want of room: see --memory")

    @property
    def is_empty(self) -> bool:
        """Whether it is a picture that shows nothing."""
        return self._view is not None and self._view.is_empty

    def close(self) -> None:
        """Write everything out."""
        if self.stream is not None:
            self.stream.flush(True)
            self.stream.close()


def view_target(descriptor: int, path: str, title: str = "") -> Target:
    """What is known about where a view goes."""
    if path or not os.isatty(descriptor):
        return Target(path, 80, 0, title, is_file=stat.S_ISREG(os.fstat(descriptor).st_mode))
    try:
        columns = os.get_terminal_size(descriptor).columns
    except OSError:
        columns = 80
    term = os.environ.get("TERM", "dumb")
    colours = 0 if term == "dumb" or "NO_COLOR" in os.environ else 256
    if colours and os.environ.get("COLORTERM", "") in ("truecolor", "24bit"):
        colours = 1 << 24
    return Target("", columns or 80, colours, title, is_file=False)


class _Lines:
    """Gives a view the rows of a tool's table, with the time and probe of the record that they come from."""

    def __init__(self, view: View, write_text: Callable[[bytes], object]) -> None:
        self.write_heading = view.heading
        self.write_text = write_text
        self.time, self.probe = 0, ""
        self._row = view.row

    def write_row(self, cells: Sequence[RowCell], table: str = "") -> None:
        self._row(cells, self.time, self.probe, table)


class ViewPrinter(Printer):
    """Gives the maps and events that a view shows to it, and prints the rest."""

    joins_lines = False

    def __init__(self, spec: ScriptSpec, context: DecodingContext, out: Output, take: Take,
                 act: Callable[[int], object], view: View, warnings: bool = True,
                 outside: Outside | None = None) -> None:
        from ...runtime.records.events import EventDecoder
        self.view = view
        self._act = act
        self._decode = EventDecoder(spec, context).decode
        self._maps = {m.name: m for m in spec.shown_maps}
        self._last = 0  # time of the latest record that has one
        self._lines = _Lines(view, out.write_text)
        takes_rows = view.takes_rows and (view.target.table or has_tables(spec))
        self._tool = Rows(view.target.table, context, self._lines, has_tables(spec)) if takes_rows else None
        self._rows: dict[int, RowsOf | None] = {}  # by site
        super().__init__(spec, context, out, take, warnings, outside=outside)

    def print_batches(self, records: Records, act: Callable[[int], object]) -> None:
        """Print records; many of one site as the view writes them, where it can."""
        for batch in records.batches:
            site = self._site_of_all(batch)
            text = None if site is None else self._text_of_many(batch, site)
            if text is None:
                self.print_records(batch, act)
            else:
                self.view.write(text)
                self._last = batch.times[-1]

    def _text_of_many(self, batch: Batch, index: int) -> bytes | None:
        if index not in self._rows:
            self._rows[index] = self.view.compile_rows(index, self.spec.sites[index], self.context)
        rows = self._rows[index]
        return rows(batch) if rows is not None else None

    @property
    def unplaced_lines(self) -> int:
        """Lines with values that were printed as text, since they fit no heading."""
        return self._tool.unplaced if self._tool is not None else 0

    def print_final_maps(self) -> None:
        """The maps at the end: to the view, and those that it does not show as text."""
        self.print_final_rows()
        for name, spec in self._maps.items() if self.spec.config.print_maps_on_exit else ():
            items = self.take(name, "")
            if self.view.shows_map(spec, self.spec):
                self.view.add_map(spec, items, self.context.boot_time(), "final")
            elif items:
                self.out.write_map(name, items)

    def sample_maps(self) -> None:
        """Give the view the maps that it wants to see while the script runs."""
        for name, spec in self._maps.items():
            if self.view.shows_map(spec, self.spec) and self.view.wants_samples(spec):
                self.view.add_map(spec, self.take(name, ""), self.context.boot_time(), "")

    def _site_handler(self, site: EventSite) -> Handler | None:
        named = self._maps.get(site.data.get("map", ""))
        if named is not None and SITE_KINDS[site.kind].of_map and self.view.shows_map(named, self.spec):
            return self._map_handler(site, named)
        plain = super()._site_handler(site)
        if self._tool is not None and site.kind == "printf" and "severity" not in site.data:
            return self._row_handler(self._tool.row_handler(site))
        return self._event_handler(site, plain) if self.view.shows_event(site) else plain

    def _row_handler(self, handle_row: Handler) -> Handler:
        def handle(buffer: bytes, offset: int) -> None:
            self._lines.time, self._lines.probe = self._time_of(buffer, offset), self._probe_of(buffer, offset)
            handle_row(buffer, offset)
        return handle

    def _map_handler(self, site: EventSite, named: MapSpec) -> Handler:
        view, take, act, then = self.view, self.take, self._act, site.then
        if site.kind == "print_map" or site.kind == "clear" and named.at_end == "shows":
            return lambda buffer, offset: view.add_map(named, take(named.name, then), self._time_of(buffer, offset),
                                                       then)
        index = next(i for i, each in enumerate(self.spec.sites) if each is site)

        def clear_and_tell(buffer: bytes, offset: int) -> None:
            act(index)
            view.on_map_cleared(named)
        return clear_and_tell

    def _event_handler(self, site: EventSite, plain: Handler | None) -> Handler:
        from ..format import compile_format
        view, decode = self.view, self._decode
        form = compile_format(site.parts, site.fields, self.context) if site.parts else None
        also_text = plain if view.keeps_text else None

        def feed_event(buffer: bytes, offset: int) -> None:
            event = decode(buffer, offset)
            event.time = self._time_of(buffer, offset)
            view.add_event(event, site, form(buffer, offset).decode("utf-8", "surrogateescape") if form else "")
            if also_text is not None:
                also_text(buffer, offset)
        return feed_event

    def _probe_of(self, buffer: bytes, offset: int) -> str:
        number = read_probe(buffer, offset)
        return self.spec.probes[number] if number < len(self.spec.probes) else ""

    def _time_of(self, buffer: bytes, offset: int) -> int:
        """Nanoseconds of the boot clock; a record without a time comes right after the one before it."""
        self._last = read_time(buffer, offset) or self._last
        return self._last
