"""The process that traces for another one, PID, so that nothing that it does itself is done by that: ``python -m
sonde.objectives.tracer PID ARGV``. Requests and answers are lines of JSON on its standard streams.

``{"do": "observe", "marks": [...]}`` attaches what the marks of a test run need; with ``"pid"`` it observes that
process at all times. ``{"do": "read"}`` answers what was seen since the last time; ``{"do": "trace", "script": ...}``
runs a script, and ``{"do": "stop"}`` answers its events and maps.
"""

from __future__ import annotations

import json
import os
import select
import sys

from ..compiling import live_world
from ..errors import CompileError, MachineError, SondeError
from ..library.trace import Trace, trace
from ..runtime.maps.aggregates import Histogram
from .rules import SEEN, parse_rules
from .script import write_script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ..base.json_checks import Json

_LOOK = 1.0  # s: between looks at what the session itself has to do
_CALLS = ("open", "openat", "openat2", "creat", "epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select",
          "pselect6")


def main() -> int:
    """Answer requests until the test run ends; the exit status."""
    if os.fork():
        return 0  # so that the tracer is no child of the other, and what it does is not taken for its own
    pid = int(sys.argv[1])
    del sys.argv[:2]  # the other's follow, which hints repeat
    tracer = _Tracer(pid)
    try:
        for line in _lines(pid, tracer.look):
            try:
                answer = tracer.answer(json.loads(line))
            except SondeError as error:
                answer = {"error": str(error) if isinstance(error, CompileError) else error.message,
                          "hints": list(error.hints), "lacks": isinstance(error, MachineError)}
            os.write(1, json.dumps(answer).encode("utf-8", "surrogateescape") + b"\n")
    except BrokenPipeError:
        pass
    finally:
        tracer.close()
    return 0


def _lines(pid: int, look: Callable[[], object]) -> Iterator[str]:
    """The requests, until the process ends: a child of it may have the other end of the pipe as well. In between it
    takes a ``look``, again and again."""
    try:
        process = os.pidfd_open(pid)
    except OSError:
        return
    buffer = b""
    while True:
        ready = select.select([0, process], [], [], _LOOK)[0]
        look()
        if not ready:
            continue
        if 0 not in ready:
            return
        data = os.read(0, 1 << 16)
        if not data:
            return
        buffer += data
        *lines, buffer = buffer.split(b"\n")
        yield from [line.decode("utf-8", "replace") for line in lines]


class _Tracer:
    """What is traced for the process ``pid``: that process or another one, its threads and its children."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._trace: Trace | None = None
        self._lost = ""
        self._observes = False

    def answer(self, request: dict[str, Any]) -> dict[str, Json]:
        if request["do"] == "observe":
            return self._observe(request["marks"], request.get("pid", 0))
        if request["do"] == "trace":
            self._enter(trace(request["script"], params=request["params"], pid=self._pid, follow=True))
            return {}
        return self._read() if request["do"] == "read" else self._stop()

    def close(self) -> None:
        if self._trace is not None:
            self._trace.close()
            self._trace = None

    def look(self) -> None:
        """Let an observing session do its own work: what it knows of mappings and processes that come and go."""
        if self._trace is not None and self._observes:
            for _ in self._trace.decode_records(self._trace.next_records(0)):
                pass  # the script sends nothing

    def _observe(self, marks: list[dict[str, Any]], pid: int) -> dict[str, Json]:
        """Attach; without Python stacks where these cannot be had, which the answer says."""
        rules = [parse_rules(mark) for mark in marks]
        world = live_world()
        has_call = {call: world.syscall_number(call) is not None
                    and world.tracepoint_format("syscalls", f"sys_enter_{call}") is not None for call in _CALLS}

        def observe(stacks: bool) -> None:
            self._enter(trace(write_script(rules, has_call, stacks, bool(pid)), pid=pid or self._pid, follow=True))
            self._observes = True
        try:
            observe(True)
        except CompileError as error:
            if not any("pystack" in item.message for item in error.diagnostics):
                raise
            observe(False)
            return {"placeless": error.message}
        return {}

    def _enter(self, run: Trace) -> None:
        run.attach()
        self._trace = run

    def _read(self) -> dict[str, Json]:
        """The maps' rows, which are removed; and what was missed, if anything was."""
        run = self._trace
        assert run is not None
        names = [named.name for named in run.spec.maps if named.name[1:] in SEEN]
        seen: Json = {name[1:]: [[plain(key), plain(value)] for key, value in run.take_map(name, "clear")]
                            for name in names}
        lost = str(run.losses) if run.losses else ""
        before, self._lost = self._lost, lost
        return {"seen": seen, "lost": lost if lost != before else "", "over": run.session.done}

    def _stop(self) -> dict[str, Json]:
        run = self._trace
        assert run is not None
        events: Json = [{"probe": event.probe, "time": event.time, "kind": event.kind, "args": plain(event.args)}
                  for event in [*run.events(0), *run.stop()]]
        maps: Json = {named.name: [[plain(part) for part in pair] for pair in run.maps[named.name].items()]
                for named in run.spec.maps if named.name.startswith("@")}
        lost = str(run.losses) if run.losses else ""
        self.close()
        return {"events": events, "maps": maps, "lost": lost}


def plain(value: object) -> Json:
    """A value as JSON has it: stacks as lists of functions, histograms as lists of (low, high, count)."""
    if value is None or isinstance(value, (bool, int, float)) and type(value) in (bool, int, float):
        return value
    if isinstance(value, Histogram):
        return [[plain(bucket.low), plain(bucket.high), bucket.count] for bucket in value.buckets]
    if (frames := getattr(value, "frames", None)) is not None:
        return [str(frame) for frame in frames]
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return int(value) if isinstance(value, int) else str(value)


if __name__ == "__main__":
    sys.exit(main())
