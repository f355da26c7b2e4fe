"""One host of a fleet, as the coordinator knows it: what state it is in, its clock, and what of it counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from time import monotonic, time_ns

from ...base.record import Record
from ...errors import SondeError
from ...merge.delta import Delta
from ...merge.sequence import Sequence as InOrder
from ...merge.table import KeyTexts, SourceKeys
from ...spec import ScriptSpec
from ..transport.connection import Connection, UnreachableError
from ..transport.protocol import FROM_AGENT, Column, Decoder, Frame, ProtocolError, encode_frame, read_delta
from ..transport.shapes import ShapeReader
from .log import LEFT, SILENCED, Log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...base.json_checks import Json

CONNECTING, COMPILING, READY, TRACING = "connecting", "compiling", "ready", "tracing"
SILENT = "silent"      # was tracing, and is not waited for until it says something
ENDED, MISSING = "ended", "missing"
AT_END = -1            # a map frame's site: what changed in a window, not what a print() shows
MOST_OPEN = 1 << 26    # bytes of a window that is not yet complete


class HostUpdate(Record):
    """A frame of events from a host, or of a map with its ``delta``; ``wall`` is its time by our clock."""

    frame: Frame
    wall: int
    delta: Delta | None = None


class HostClock:
    """How far a host's clock is ahead of ours, in nanoseconds, by the ping that took the least time; ``error`` is half
    of that, the most by which it can be wrong."""

    def __init__(self) -> None:
        self.offset = 0
        self.error = 1 << 62

    def add_answer(self, sent: int, wall: int, now: int) -> None:
        """A ping was answered: sent and received by our clock, answered by theirs."""
        if 0 <= (now - sent) // 2 < self.error:
            self.error = (now - sent) // 2
            self.offset = wall - (sent + now) // 2

    def ours(self, wall: int) -> int:
        """A moment of their clock by ours."""
        return max(wall - self.offset, 0)


class Member:
    """A host. ``tell`` gets what counts, in order and each once; what it gets at once counts as a whole or not at all.
    """

    def __init__(self, number: int, name: str, address: str,
                 tell: Callable[[Member, list[HostUpdate]], object], log: Log) -> None:
        self.number = number
        self.name = name
        self.address = address
        self.state = CONNECTING
        self.reason = ""        # why it is missing
        self.cause = ""         # the same without its name
        self.hints: list[str] = []
        self.connection: Connection | None = None
        self.clock = HostClock()
        self.spec: ScriptSpec | None = None
        self.kernel = self.boot = ""
        self.warnings: list[str] = []
        self.windows = 0        # that are complete
        self.began = 0          # by our clock
        self.until = 0          # by our clock: all before has come
        self.heard = monotonic()
        self.lost = 0           # events
        self.losses: list[str] = []
        self.status = 0
        self.ending = ""        # why its run has ended
        self.seconds = 0.0
        self._tell = tell
        self._log = log
        self._decoder = Decoder(FROM_AGENT)
        self._sequence: InOrder[Frame] = InOrder()
        self._keys: dict[str, SourceKeys] = {}
        self._open: list[HostUpdate] = []
        self._open_bytes = 0
        self._pinged = 0.0
        self._former: Connection | None = None  # that was hung up

    def __repr__(self) -> str:
        return f"<{self.name}: {self.state}{f' ({self.reason})' if self.reason else ''}>"

    @property
    def is_live(self) -> bool:
        """Whether more may come from it."""
        return self.state not in (ENDED, MISSING)

    @property
    def is_absent(self) -> bool:
        """Whether it is not, or at present not, in the result."""
        return self.state in (SILENT, MISSING)

    @property
    def repeated(self) -> int:
        """Frames that came more than once."""
        return self._sequence.repeated

    def keys_of(self, name: str, texts: KeyTexts) -> SourceKeys:
        """The keys of a map as this host numbers them; ``texts`` are shared by all hosts."""
        return self._keys.setdefault(name, SourceKeys(texts))

    # sending

    def send(self, kind: str, columns: Sequence[Column] = (), **fields: Json) -> None:
        """Send a frame, if it is there."""
        self.send_bytes(encode_frame(kind, columns, **fields))

    def send_bytes(self, frame: bytes) -> None:
        """Send the bytes of a frame, if it is there."""
        if self.connection is not None and self.is_live:
            try:
                self.connection.write_bytes(frame)
            except UnreachableError as error:
                self.leave(error.message)

    def ask_clock(self, pause: float) -> None:
        """Send a ping, if the last one is ``pause`` seconds ago; a second, where none was answered yet."""
        known = self.clock.error < 1 << 61
        if self.state != CONNECTING and monotonic() - self._pinged > (pause if known else min(pause, 1.0)):
            self._pinged = monotonic()
            self.send("ping", sent=time_ns())

    # receiving

    def receive(self, data: bytes, shapes: ShapeReader, now: int) -> Iterator[Frame]:
        """Take in bytes that came ``now``; gives the frames that are the coordinator's matter. What makes no sense is
        the end."""
        try:
            for frame in self._decoder.feed_bytes(data):
                if frame.kind != "pong":  # which says nothing about the trace
                    self.heard = monotonic()
                if "sequence" in frame.fields:
                    for each in self._sequence.accept_part(frame["sequence"], frame):
                        self._take_part(each)
                elif self._handle_frame(frame, shapes, now):
                    yield frame
        except SondeError as error:
            self.leave(error.message, error.hints)

    def _handle_frame(self, frame: Frame, shapes: ShapeReader, now: int) -> bool:
        """Take in a frame that has no number; whether the coordinator has to know."""
        if frame.kind == "pong":
            self.clock.add_answer(frame["sent"], frame["wall"], now)
            return False
        if frame.kind == "refused":
            self.leave(frame["message"], frame["hints"])
        elif frame.kind == "hello" and self.state == CONNECTING:
            self.state, self.kernel, self.boot = COMPILING, clean_line(frame["kernel"]), frame["boot"]
        elif frame.kind == "ready" and self.state == COMPILING:
            self.state, self.warnings, self.spec = READY, frame["warnings"], shapes.read_text(frame.bytes_at(0))
        elif frame.kind == "started" and self.state == READY:
            self.state = TRACING
            self.began = self.until = self.clock.ours(frame["wall"])
        else:
            raise ProtocolError(f"{frame.kind} while {self.state}")
        return True

    def _take_part(self, frame: Frame) -> None:
        if self.state == SILENT:
            self.state, self.reason = TRACING, ""
        if self.state != TRACING:
            raise ProtocolError(f"{frame.kind} while {self.state}")
        if frame.kind == "events":
            self._take_events(frame)
        elif frame.kind == "map":
            self._take_map(frame)
        elif frame.kind == "window":
            self._take_window(frame)
        else:
            self.state, self.status, self.ending = ENDED, frame["status"], clean_line(frame["reason"])
            self.seconds = float(frame["seconds"])

    def _take_events(self, frame: Frame) -> None:
        walls = frame.columns[0]
        if any(len(column) != len(walls) for column in (*frame.columns[1:4], frame.columns[5])):
            raise ProtocolError("events: columns of different lengths")
        self.until = max(self.until, self.clock.ours(walls[-1]) if walls else 0)
        self._tell(self, [HostUpdate(frame, self.until)])

    def _take_map(self, frame: Frame) -> None:
        """A piece of a window, or of a print(), whose pieces follow one another."""
        update = HostUpdate(frame, self.clock.ours(frame["wall"]), read_delta(frame))
        self._open.append(update)
        self._open_bytes += sum([len(column) for column in frame.columns])
        if self._open_bytes > MOST_OPEN:
            raise ProtocolError(f"a window of more than {MOST_OPEN} bytes")
        if frame["site"] != AT_END and frame["last"]:
            printed = [each for each in self._open if each.frame["site"] != AT_END]
            self._open = [each for each in self._open if each.frame["site"] == AT_END]
            self._open_bytes -= sum([len(column) for each in printed for column in each.frame.columns])
            self._tell(self, printed)

    def _take_window(self, frame: Frame) -> None:
        """What came before it is complete, and counts: all of it, or nothing."""
        updates, self._open, self._open_bytes = self._open, [], 0
        self._tell(self, updates)
        self.windows += 1
        self.lost, self.losses = frame["lost"], [clean_line(line) for line in frame["losses"]]
        self.until = max(self.until, self.clock.ours(frame["until"]))

    # the end

    def leave(self, reason: str, hints: list[str] | None = None) -> None:
        """It is missing from now on; what it has told in complete windows stays."""
        if self.is_live:
            self._log.note(LEFT, 0, self.number, pack_reason(reason, hints or []))
            self._give_reason(reason)
            self.state, self.hints, self._open = MISSING, hints or [], []

    def fall_silent(self, reason: str) -> None:
        """It is missing until it says something, and then again in the result with all that it tells."""
        self._log.note(SILENCED, 0, self.number, pack_reason(reason, []))
        self._give_reason(reason)
        self.state = SILENT

    def _give_reason(self, reason: str) -> None:
        windows = f", after {self.windows} window{'s' * (self.windows != 1)}" if self.windows else ""
        self.reason = clean_line(reason) + windows
        self.cause = re.sub(rf"(?<![\w.-]){re.escape(self.name)}(?![\w-])", "*", self.reason)

    def hang_up(self) -> None:
        """The connection has ended: by itself, or now. The process that it was is for :meth:`release`."""
        connection, self.connection = self.connection, None
        if connection is None:
            return
        connection.hang_up()
        self._former = connection
        if self.is_live:
            connection.await_exit(0.5)
            lines = connection.read_stderr()
            self.leave(_reason_of(connection, self.state, lines, self._decoder.pending), lines[:-1])

    def release(self, seconds: float) -> None:
        """Let the process of the connection end, in so many seconds by itself."""
        if self._former is not None:
            self._former.await_exit(seconds)
            self._former.release()
            self._former = None


def pack_reason(reason: str, hints: Sequence[str]) -> bytes:
    """As a log has it."""
    from json import dumps
    return dumps([reason, *hints]).encode()


def clean_line(text: str) -> str:
    """A host's words as one line that steers no terminal and breaks no file's comment."""
    from ...output.text import terminal_safe
    return terminal_safe(" ".join(text.split()))[:400]


def _reason_of(connection: Connection, state: str, lines: list[str], pending: bytes) -> str:
    """Why a connection ended that was not to end, in a few words."""
    last = clean_line(lines[-1])[:200] if lines else ""
    if state != CONNECTING:
        return f"connection lost while {state}" + (f": {last}" if last else "")
    status = connection.exit_status
    if status == 127 or "sonde: not found" in last or "No module named sonde" in last or "sonde: command not" in last:
        return "there is no sonde: --push brings it"
    if status == 255:
        return f"ssh: {last.removeprefix('ssh: ') or 'no connection'}"
    return last or (f"no frame, but {pending!r}" if pending else "it has ended without a word")
