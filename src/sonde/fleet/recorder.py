"""The output of an agent: what the script prints, kept for the next frame instead of written."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..merge.portable import LONGEST, PortableError, encode_value
from ..output import Printer
from ..output.text import encode_text
from ..runtime.events import EventDecoder
from .protocol import encode_frame, pack_texts

if TYPE_CHECKING:
    from ..api import Trace

FULL = 1 << 20   # bytes of texts after which a frame is due
_PARTS = 200     # bytes of an event beside its texts


class Recorder:
    """Prints records into the columns of an ``events`` frame. ``with_args``: the values of printf's arguments, too.
    It stands in for an Output; maps that records print are the agent's matter."""

    escape: Callable[[str], str] | None = None  # what steers terminals is made harmless where the terminal is
    error_escape: Callable[[str], str] | None = None

    def __init__(self, trace: Trace, with_args: bool) -> None:
        self._trace = trace
        self._decode = EventDecoder(trace.spec, trace.context).decode
        self._with_args = with_args
        self._text = b""
        self._value = b""
        self.notes: list[str] = []
        out: Any = self
        self._printer = Printer(trace.spec, trace.context, out, trace.take_map, trace.options.warnings)
        self._printer.ending = trace.ending
        self._start_frame()

    def _start_frame(self) -> None:
        self._walls, self._sites, self._probes = array("Q"), array("I"), array("I")
        self._texts: list[bytes] = []
        self._values: list[bytes] = []
        self.size = 0  # bytes of the frame, roughly

    def record_event(self, site: int, buffer: Any, offset: int) -> None:
        """Print a record; nothing comes of one that prints nothing."""
        self._text = self._value = b""
        self._printer.print_records([(site, buffer, offset)], self._trace.act_on_site)
        if not self._text and not self._value:
            return
        event = self._decode(buffer, offset)
        if self._with_args and not self._value:
            self._value = encode_value(event.args)
        if len(self._value) > LONGEST:
            raise PortableError(f"a value of {len(self._value)} bytes: {LONGEST} are the most that can be sent")
        self._walls.append(self._trace.context.wall_clock(event.time, "boot"))
        self._sites.append(site)
        self._probes.append(int.from_bytes(buffer[offset + 4:offset + 8], sys.byteorder))
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

    def write_value(self, value: Any) -> None:
        self._value = encode_value(value)

    def report_located(self, severity: str, text: bytes, span: Any) -> None:
        self._text += text

    def write_note(self, message: str) -> None:
        self.notes.append(message)

    def write_map(self, name: str, items: Sequence[tuple[Any, Any]], *rest: Any, **named: Any) -> None:
        """Of what is a map to nobody but the printer (nstat)."""
        self._value = encode_value(tuple([part for item in items for part in item]))

    def flush(self, end: bool = False) -> None:
        """Nothing waits for anything here."""


def lines_of(notes: Iterable[str]) -> list[str]:
    """Notes as single lines."""
    return [line for note in notes for line in note.splitlines()]
