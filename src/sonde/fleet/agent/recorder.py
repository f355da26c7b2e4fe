"""The output of an agent: what the script prints, kept for the next frame instead of written."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...layouts.event_records import read_probe
from ...merge.portable import LONGEST, PortableError, encode_value
from ...output import Handler, Printer, Take
from ...output.table_rows import RowCell, Rows, has_tables
from ...output.text import encode_text, line_safe
from ...runtime.records.events import EventDecoder
from ..state.rows import encode_heading, encode_row
from ..transport.protocol import encode_frame, pack_texts

if TYPE_CHECKING:
    from ...library.trace import Trace
    from ...runtime.records.values import DecodingContext, Items, ScriptValue
    from ...source import Span
    from ...spec import EventSite, ScriptSpec

FULL = 1 << 20   # bytes of texts after which a frame is due
_PARTS = 200     # bytes of an event beside its texts


class ColumnRecorder:
    """Prints records into the columns of an ``events`` frame. ``with_args``: the values of printf's arguments, too;
    ``columns`` are those of a tool's table, whose rows come as cells in the place of arguments.
    It stands in for an Output; maps that records print are the agent's matter."""

    escape: Callable[[str], str] | None = staticmethod(line_safe)
    takes_rows = False
    escape_lines: Callable[[str], str] | None = None  # what steers terminals is made harmless where the terminal is

    def __init__(self, trace: Trace, with_args: bool, columns: Sequence[str] = ()) -> None:
        self._trace = trace
        self._decode = EventDecoder(trace.spec, trace.context).decode
        self._with_args = with_args
        self._as_rows = bool(columns)
        self._text = b""
        self._value = b""
        self.notes: list[str] = []
        out: Any = self
        printer = RowPrinter if columns else Printer
        self._printer = printer(trace.spec, trace.context, out, trace.take_map, trace.options.warnings, columns)
        self._printer.ending = trace.ending
        self._start_frame()

    def _start_frame(self) -> None:
        self._walls, self._sites, self._probes = array("Q"), array("I"), array("I")
        self._texts: list[bytes] = []
        self._values: list[bytes] = []
        self.size = 0  # bytes of the frame, roughly

    def record_event(self, site: int, buffer: bytes, offset: int) -> None:
        """Print a record; nothing comes of one that prints nothing."""
        self._text = self._value = b""
        self._printer.print_records([(site, buffer, offset)], self._trace.act_on_site)
        if not self._text and not self._value:
            return
        event = self._decode(buffer, offset)
        if self._with_args and not self._value and not (self._as_rows and event.kind == "printf"):
            self._value = encode_value(event.args)
        if len(self._value) > LONGEST:
            raise PortableError(f"a value of {len(self._value)} bytes: {LONGEST} are the most that can be sent")
        self._walls.append(self._trace.context.wall_clock(event.time, "boot"))
        self._sites.append(site)
        self._probes.append(read_probe(buffer, offset))
        self._texts.append(self._text)
        self._values.append(self._value)
        self.size += len(self._text) + len(self._value) + _PARTS

    def take_frame(self, sequence: int) -> bytes:
        """The frame of what has been printed since the last one."""
        columns = [self._walls, self._sites, self._probes, *pack_texts(self._texts), *pack_texts(self._values)]
        self._start_frame()
        return encode_frame("events", columns, sequence=sequence)

    # what Printer asks of an output

    def write_text(self, text: bytes) -> None:
        self._text += text

    def write_time(self, text: str) -> None:
        self._text += encode_text(text)

    def write_joined(self, text: str) -> None:
        self._text += encode_text(text + "\n")

    def write_file_content(self, content: bytes) -> None:
        self._text += content

    def write_command_output(self, output: bytes, more: bool = False) -> None:
        self._text += output if more else output + b"\n"

    def write_heading(self, names: Sequence[str], table: str = "") -> None:
        self._value = encode_heading(names)

    def write_row(self, cells: Sequence[RowCell], table: str = "") -> None:
        self._value = encode_row(cells)

    def write_value(self, value: ScriptValue) -> None:
        self._value = encode_value(value)

    def report_located(self, severity: str, text: bytes, span: Span | None) -> None:
        self._text += text

    def write_note(self, message: str) -> None:
        self.notes.append(message)

    def write_map(self, name: str, items: Items, *rest: object, **named: object) -> None:
        """Of what is a map to nobody but the printer (nstat)."""
        self._value = encode_value(tuple([part for item in items for part in item]))

    def flush(self, end: bool = False) -> None:
        """Nothing waits for anything here."""


class RowPrinter(Printer):
    """Prints the lines of a tool's table as text and as rows."""

    joins_lines = False

    def __init__(self, spec: ScriptSpec, context: DecodingContext, out: Any, take: Take, warnings: bool,
                 columns: Sequence[str]) -> None:
        sink: Any = _Cells(out)
        self._cells = Rows(columns, context, sink, has_tables(spec))
        super().__init__(spec, context, out, take, warnings)

    def _printf_handler(self, site: EventSite) -> Handler:
        plain = super()._printf_handler(site)
        if site.data.get("severity"):
            return plain
        cells = self._cells.row_handler(site)

        def print_both(buffer: bytes, offset: int) -> None:
            plain(buffer, offset)
            cells(buffer, offset)
        return print_both


class _Cells:
    """Who wants rows alone: the text is written anyway."""

    def __init__(self, out: ColumnRecorder) -> None:
        self.write_heading, self.write_row = out.write_heading, out.write_row

    def write_text(self, text: bytes) -> None:
        """It has been."""


def lines_of(notes: Iterable[str]) -> list[str]:
    """Notes as single lines."""
    return [line for note in notes for line in note.splitlines()]
