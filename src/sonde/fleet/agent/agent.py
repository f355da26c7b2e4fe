"""The agent: the one part of a fleet that is privileged. It runs one script for one coordinator.

It is told a script's text, compiles it against its own kernel, says what the script's maps and events look like, waits
for the moment at which all hosts begin, and sends what comes: printed lines soon after they are made, what changed in
the maps with each window, all that is left at the end. What it may run is the policy's to say, whoever asks.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from ...errors import SondeError
from ...kinds import SITE_KINDS
from ...layouts.event_records import read_time
from ...library.policy import Audit, Policy
from ...library.run_loop import RunLoop
from ...merge.delta import Delta, Differ, Key, KeyNumbers, Words
from ...merge.portable import encode_value
from ...spec import MapSpec
from ...types import Aggregate
from ..transport.protocol import (
    PIECE_BYTES,
    PIECE_ROWS,
    Column,
    Frame,
    ProtocolError,
    delta_columns,
    encode_frame,
    shorten_lines,
)
from ..transport.shapes import describe_script
from .channel import Channel, CoordinatorGoneError
from .recorder import FULL, ColumnRecorder, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...base.json_checks import Json
    from ...library.trace import Trace
    from ...runtime.records.batch import Raw
    from ...runtime.records.events import MapReader
    from ...semantics.script_options import Options
    from ...source import Source
    from ...spec import ScriptSpec

ASKING = 60.0     # s without a ping in which a coordinator has to ask for a run, or for its beginning
PROMPT = 0.1      # s that a printed line waits for others, at most
CERTAIN = 100_000_000  # ns: records that are older have been read, and lie in order
_AT_END = -1      # in place of a site: the state at the end of a window


class SharedMap:
    """One of the script's maps as it is told to the coordinator."""

    def __init__(self, named: MapSpec, reader: MapReader) -> None:
        self.name = named.name
        self._reader = reader
        self.aggregate = named.value if isinstance(named.value, Aggregate) else None
        self._parts = [named.name, *([named.short] if named.short else [])]  # the kernel's maps that it is made of
        self._keys = KeyNumbers(self._text_of_key)
        self._differ = Differ(self.aggregate, self._keys)

    def _text_of_key(self, key: Key) -> bytes:
        assert isinstance(key, tuple)
        part, raw = key
        return encode_value(self._reader.map_decoder(part).decode_key(raw))

    def _read_items(self, then: str) -> list[tuple[Key, Words | bytes]]:
        items: list[tuple[Key, Words | bytes]] = []
        for part in self._parts:
            decoder = self._reader.map_decoder(part)
            items += [((part, key), value if self.aggregate is not None else encode_value(decoder.decode_value(value)))
                      for key, value in self._reader.read_raw(part, then)]
        return items

    def take_change(self) -> Delta:
        """What changed since the last time."""
        return self._differ.take_delta(self._read_items(""))

    def take_whole(self, then: str) -> Delta:
        """All that it holds, as a print() shows it; with ``then`` it is emptied or zeroed in the same step."""
        return Differ(self.aggregate, self._keys).take_delta(self._read_items(then))


class Agent:
    """Serves one coordinator on a channel, for a user whom the policy has been asked about."""

    def __init__(self, channel: Channel, policy: Policy, audit: Audit) -> None:
        self._channel = channel
        self._policy = policy
        self._audit = audit

    def serve(self) -> int:
        """One run from beginning to end; the exit status."""
        from ...base.version import __version__
        machine = os.uname()
        self._send("hello", host=machine.nodename[:256], boot=_boot_id(), kernel=machine.release[:256],
                   machine=machine.machine[:256], sonde=__version__)
        try:
            request = self._channel.next_frame("run", ASKING)
        except CoordinatorGoneError:
            return 0
        text = request.bytes_at(0).decode("utf-8", "surrogateescape")
        try:
            trace = self._make_trace(request, text)
        except SondeError as error:
            self._audit.write_script("refused", text, run=request["run"], why=error.message)
            if not isinstance(error, CoordinatorGoneError):
                self._refuse(error)
            return 1
        self._audit.write_script("started", text, run=request["run"])
        return self._run_trace(trace, request)

    def _send(self, kind: str, columns: Sequence[Column] = (), **fields: Json) -> None:
        self._channel.send_frame(encode_frame(kind, columns, **fields))

    def _refuse(self, error: SondeError) -> None:
        from ...errors import CompileError
        hints = error.hints
        if isinstance(error, CompileError):
            hints = lines_of(diagnostic.render() for diagnostic in error.diagnostics)
        self._send("refused", message=error.message[:1000], hints=shorten_lines(hints))

    def _make_trace(self, request: Frame, text: str) -> Trace:
        """The trace of what is asked for, compiled. SondeError if it does not compile, or is not allowed."""
        from ...base.memory_budget import Memory
        from ...library.trace import Trace
        from ...semantics.script_options import Options
        from ...source import Source
        options = Options(params=request["params"], named=request["named"], unsafe=request["unsafe"], timed=True,
                          advice=not request["tool"])
        self._policy.restrict_options(options)
        source = Source(request["name"], text, request["tool"])
        self._policy.check_source(source)
        trace = Trace(source, options, handle_signals=True, memory=Memory(self._policy.memory << 20),
                      budget=self._policy.allowed_budget(request["budget"]), compiler=self._compile)
        self._policy.check_script(trace.spec)
        return trace

    def _compile(self, source: Source, options: Options) -> ScriptSpec:
        from ...compiling.compile_child import compile_apart
        return compile_apart(source, options, self._channel.check_end)

    def _run_trace(self, trace: Trace, request: Frame) -> int:
        run, reason = request["run"], "failed"
        try:
            trace.load()
            shape = _json_bytes(describe_script(trace.spec))
            self._send("ready", [shape], warnings=shorten_lines([warning.render() for warning in trace.spec.warnings]))
            at = self._channel.next_frame("start", ASKING)["at"]
            self._wait_until(at)
            at_work = AgentRun(trace, self._channel, request, self._policy.allowed_seconds(request["seconds"]))
            at_work.notes += self._policy.describe_limits(request["seconds"], request["budget"])
            reason = at_work.trace_windows()
        except CoordinatorGoneError as error:
            reason = error.message
        except ProtocolError as error:
            reason = f"protocol: {error.message}"
        except SondeError as error:
            reason = error.message
            self._refuse(error)
        finally:
            trace.keeps_maps = False
            trace.close()
            self._audit.write_line("ended", run=run, reason=reason)
        return 0

    def _wait_until(self, at: int) -> None:
        """Sleep until a moment (Unix nanoseconds) less than a minute ahead. CoordinatorGoneError if the end is
        requested first."""
        while (left := at - time.time_ns()) > 0 and not self._channel.stopped:
            time.sleep(min(left / 1e9, 0.05))
            if left > ASKING * 1e9:
                raise CoordinatorGoneError("the common beginning lies more than a minute ahead: the clocks differ")
        if self._channel.stopped:
            raise CoordinatorGoneError(self._channel.stopped)


class AgentRun:
    """A script at work for a coordinator."""

    def __init__(self, trace: Trace, channel: Channel, request: Frame, seconds: float) -> None:
        self._trace = trace
        self._channel = channel
        self._window = request["window"] or 1.0
        self._end = seconds
        self._request = request
        self._sequence = 0
        self._printed: dict[int, int] = {}  # by site of a print(@map): how often
        self._maps: dict[str, SharedMap] = {}
        self.notes: list[str] = []          # to be told with the losses

    def trace_windows(self) -> str:
        """Attach, send what comes until the end, and what is left; why it ended."""
        trace, channel = self._trace, self._channel
        channel.when_stopped = lambda reason: trace.session.request_end(reason)
        trace.session.tell = self.notes.append
        trace.attach()
        self.notes += [f"WARNING: {warning.message}" for warning in trace.session.warnings]
        self._recorder = ColumnRecorder(trace, self._request["args"], self._request["table"])
        self._maps = {m.name: SharedMap(m, trace.map_reader) for m in trace.spec.maps if m.name.startswith("@")}
        channel.send_frame(encode_frame("started", wall=time.time_ns(), probes=trace.session.attached))
        if channel.stopped:
            trace.session.request_end(channel.stopped)
        self._follow_session()
        self._handle_records(trace.drain_records())
        self._send_window(final=True)
        session = trace.session
        self._send("end", reason=session.reason or channel.stopped, status=session.status if session.reason == "exit"
                   else 0, seconds=session.period.nanoseconds / 1e9)
        return session.reason

    def _follow_session(self) -> None:
        session, started = self._trace.session, time.monotonic()
        due = started + self._window

        def longest_wait() -> float:
            left = min(due, started + self._end) - time.monotonic()
            return max(0.0, min(left, PROMPT) if self._recorder.size else left)

        for records in RunLoop(self._trace, longest_wait=longest_wait):
            self._handle_records(records)
            if self._recorder.size and not records:
                self._send_events()
            now = time.monotonic()
            if now >= due:
                self._send_window()
                due = max(due + self._window, now)
            if now >= started + self._end:
                session.request_end("seconds")

    def _handle_records(self, records: Iterable[Raw]) -> None:
        sites = self._trace.spec.sites
        for site, buffer, offset in records:
            kind = sites[site].kind
            if kind == "print_map":
                self._send_printed(site, read_time(buffer, offset))
            elif SITE_KINDS[kind].empties:
                self._trace.act_on_site(site)
            elif kind != "exit":
                self._recorder.record_event(site, buffer, offset)
                if self._recorder.size > FULL:
                    self._send_events()

    def _send(self, kind: str, columns: Sequence[Column] = (), **fields: Json) -> None:
        self._channel.send_frame(encode_frame(kind, columns, sequence=self._sequence, **fields))
        self._sequence += 1

    def _send_events(self) -> None:
        self._channel.send_frame(self._recorder.take_frame(self._sequence))
        self._sequence += 1

    def _send_printed(self, site: int, at: int) -> None:
        """The map of a print(), whole, and how many prints of this place there were before it."""
        data = self._trace.spec.sites[site].data
        turn = self._printed[site] = self._printed.get(site, -1) + 1
        if self._recorder.size:
            self._send_events()
        wall = self._trace.context.wall_clock(at, "boot") if at else time.time_ns()
        self._send_delta(data["map"], self._maps[data["map"]].take_whole(data.get("then") or ""), site, turn, wall)

    def _send_window(self, final: bool = False) -> None:
        """What changed in the maps, and what was lost so far. Plain values, which nobody adds up, come at the end, but
        where somebody looks on."""
        if self._recorder.size:
            self._send_events()
        now = time.time_ns()
        for named in self._trace.spec.shown_maps:
            shared = self._maps[named.name]
            if final or shared.aggregate is not None or self._request["live"]:
                self._send_delta(named.name, shared.take_change(), _AT_END, 0, now)
        losses = self._trace.session.losses()
        lines = self.notes + lines_of(self._recorder.notes) + losses.sentences + lines_of([losses.unreturned_line])
        held = self._trace.session.is_holding and not final
        self._send("window", until=now if final else now - CERTAIN * (10 if held else 1),
                   lost=sum([count for _, count in losses.records]), losses=shorten_lines(lines))

    def _send_delta(self, name: str, delta: Delta, site: int, turn: int, wall: int) -> None:
        """A delta in as many frames as it takes; the last one is empty if need be."""
        pieces = list(delta.split_pieces(PIECE_ROWS, PIECE_BYTES)) or [delta]
        incomplete = self._trace.session.is_incomplete(name)
        if not delta and site == _AT_END:
            return
        for number, piece in enumerate(pieces, 1):
            self._send("map", delta_columns(piece), map=name, site=site, turn=turn, wall=wall,
                       last=number == len(pieces), incomplete=incomplete)


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _json_bytes(value: Json) -> bytes:
    from json import dumps
    return dumps(value, separators=(",", ":")).encode()
