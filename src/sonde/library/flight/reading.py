"""A flight in the library: ``sonde.trace(script, flight="30s,64M")`` and its dumps."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from ...kernel.clocks import boot_time
from ...kinds import SITE_KINDS
from ...runtime.flight.dumps import CpuPart, Dump, make_dump
from ...runtime.flight.rings import Stretch, merge_stretches
from ...runtime.records.values import keep_stacks
from ...spec import EventSite, MapSpec, ScriptSpec
from ...types import Stack, Tuple, Type
from ..events import EventTable
from ..map_view import MapView
from ..run_loop import RunLoop, wait_for_work

if TYPE_CHECKING:
    from ...runtime.records.batch import Raw
    from ...runtime.records.events import Event
    from ...runtime.records.values import Items
    from ...runtime.session import Session
    from ..traced_run import TracedRun

PAUSE = 10.0  # s between two dumps for the script or a condition; users may ask at any time


def check_records(spec: ScriptSpec) -> None:
    """UsageError for a script with records that request actions: these would be carried out much later, and again with
    each dump."""
    site: EventSite | None = next((site for site in spec.sites if SITE_KINDS[site.kind].outside), None)
    if site is not None:
        raise UsageError(f"{site.span}: {site.kind}() has no place in a flight: what it asks for would be done "
                         "when a dump is given out, once for each")


@contextmanager
def _before_others() -> Iterator[None]:
    """Raise the priority of this process over others, which may be causing the storm that is to be copied while it
    lasts."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except OSError:
        pass  # not permitted: it takes its turn like any other
    try:
        yield
    finally:
        try:
            os.setpriority(os.PRIO_PROCESS, 0, before)
        except OSError:
            pass


def take_dump(trace: TracedRun, window: int, number: int, why: str, by: str) -> Dump:
    """The current contents of flight memory, no older than ``window`` ns. UsageError if there is none (any more)."""
    session = trace.session
    if session.flight is None:
        raise UsageError("the trace is closed: dumps can only be made before that")
    now = boot_time()
    since = max(now - window, session.flight.begun)
    with _before_others():
        return make_dump(session.flight.read_stretches(), since, trace.context.wall_clock, now, number, why, by,
                         session.losses().sentences)


def maps_in_dumps(spec: ScriptSpec) -> list[MapSpec]:
    """The maps that are part of each dump, by name."""
    shown = [named for named in spec.maps if named.name.startswith("@")]
    return sorted(shown, key=lambda named: named.name) if spec.config.print_maps_on_exit else []


def carry_out(trace: TracedRun, record: Raw) -> str | None:
    """Do what a program asks of user space while it flies: maps are not printed, but what is to be cleared or zeroed
    is. If it asks for a dump, the reason."""
    site = trace.spec.sites[record[0]]
    if site.kind == "dump":
        return str(site.data["why"])
    if SITE_KINDS[site.kind].empties:
        trace.act_on_site(record[0])
    elif site.then:
        trace.take_map(site.data["map"], site.then)
    return None


class FlightDump(EventTable):
    """What a flight held at one moment: the newest records of each CPU, merged in order of time.

    Iterate over it for its events, as often as you like while the trace is open (afterwards too, if they have no
    stacks); as a table it has what printf() and print() sent. ``len()`` is the number of records. ``number`` counts the
    flight's dumps, ``why`` and ``by`` say why it was requested and by what, ``when`` is in nanoseconds since 1970,
    ``cpus`` describe each CPU's part, ``lost`` is what the run had lost until then (sentences), and ``maps`` are as
    they were.
    """

    def __init__(self, trace: TracedRun, dump: Dump, held: Mapping[str, Items]) -> None:
        self._trace = trace
        self._dump = dump
        self._held = held
        self.number, self.why, self.by, self.when = dump.number, dump.why, dump.by, dump.when
        self.cpus: Sequence[CpuPart] = dump.parts
        self.lost: Sequence[str] = dump.lost

    def __len__(self) -> int:
        return self._dump.count

    def __str__(self) -> str:
        return "\n".join(self._dump.lines)

    def __repr__(self) -> str:
        return f"<dump {self.number} ({self.by}{f': {self.why}' if self.why else ''}): {len(self)} records>"

    def __iter__(self) -> Iterator[Event]:
        trace = self._trace
        if trace.session.flight is None and any(_has_stack(field.type) for site in trace.spec.sites
                                                for field in site.fields):
            raise UsageError("the trace is closed, and with it the kernel's table of stacks: read the dump before")
        portions = merge_stretches([Stretch(part.cpu, part.begin, part.end, list(part.batches), part.holes)
                                    for part in self._dump.stretches])
        for records in portions:
            yield from trace.decode_records(records)

    @property
    def maps(self) -> Mapping[str, MapView[Any, Any]]:
        """The script's maps by name, as they were when the dump was made."""
        trace = self._trace
        return {named.name: MapView(named.name, trace.take_map, self._held, named, trace)
                for named in maps_in_dumps(trace.spec)}


def _has_stack(type: Type) -> bool:
    return isinstance(type, Stack) or isinstance(type, Tuple) and any(map(_has_stack, type.of))


class TraceFlight:
    """A trace in flight: makes its dumps, and serves the script's dump(). ``window``: how far back dumps go, in ns."""

    def __init__(self, trace: TracedRun, window: int) -> None:
        check_records(trace.spec)
        self._trace = trace
        self._window = window
        self._made = 0
        self._requested: deque[str] = deque()  # by the script; not answered yet
        self._last: list[Event] = []       # what ``end`` has sent
        self._rests = False                # dump() waits for permission to ask again
        self._armed_at = 0.0               # monotonic: when it may

    def dump(self, why: str, by: str = "dump") -> FlightDump:
        """A dump of the current records."""
        self._listen(0)
        return self._make(why, by)

    def _make(self, why: str, by: str) -> FlightDump:
        trace = self._trace
        held: dict[str, Items] = {}
        if trace.session.flight is not None:
            for named in maps_in_dumps(trace.spec):
                held[named.name] = list(trace.take_map(named.name))
                for pair in held[named.name]:
                    keep_stacks(pair)
        dump = FlightDump(trace, take_dump(trace, self._window, self._made + 1, why, by), held)
        self._made += 1
        return dump

    def _listen(self, timeout: float | None) -> None:
        """Wait for the script's requests, at most this long, and carry them out; a request for a dump is noted."""
        session = self._trace.session
        if not session.done:
            self._carry_out(RunLoop(self._trace).read(timeout))
        if session.done and session.flight is not None:
            self.drain()

    def _carry_out(self, records: Iterable[Raw]) -> None:
        for record in records:
            why = carry_out(self._trace, record)
            if why is not None:
                self._requested.append(why)
                self._rests, self._armed_at = True, time.monotonic() + PAUSE

    def drain(self) -> None:
        """Detach, and keep what ``end`` sends."""
        trace = self._trace
        for event in trace.decode_records(trace.drain_records()):
            if event.kind == "dump":
                self._requested.append(trace.spec.sites[event.site].data["why"])
            else:
                self._last.append(event)

    def take_last(self) -> list[Event]:
        """What ``end`` has sent; only once."""
        self.drain()
        last, self._last = self._last, []
        return last

    def _arm(self) -> None:
        """Let the script ask again, if it is time."""
        if self._rests and time.monotonic() >= self._armed_at:
            self._rests = False
            if self._trace.session.flight is not None:
                self._trace.session.flight.take_held_dumps()

    def _next(self, timeout: float | None) -> tuple[FlightDump | None, bool]:
        """The dump that the script requests within this many seconds, and whether it may request more."""
        session = self._trace.session
        loop = RunLoop(self._trace, timeout)
        while not self._requested and not session.done:
            self._arm()
            is_last = loop.is_over()
            self._listen(loop.shorten(max(self._armed_at - time.monotonic(), 0.001) if self._rests else None))
            if is_last and not self._requested and not session.done:
                return None, True
        if not self._requested:
            return None, False
        return self._make(self._requested.popleft(), "dump()"), True

    def follow(self, timeout: float | None) -> Dumps:
        """The dumps that the script requests."""
        return Dumps(self._next, self._trace.session, timeout)


class Dumps:
    """The dumps that a script's ``dump("why")`` requests, until it ends or ``timeout`` seconds have passed: for ``for``
    and ``async for``. The script is served once in ten seconds, as with ``--flight``."""

    def __init__(self, take: Callable[[float | None], tuple[FlightDump | None, bool]], session: Session,
                 timeout: float | None) -> None:
        self._take = take
        self._session = session
        self._timeout = timeout

    def _deadline(self) -> float | None:
        return None if self._timeout is None else time.monotonic() + self._timeout

    def __iter__(self) -> Iterator[FlightDump]:
        deadline = self._deadline()
        while True:
            dump, more = self._take(None if deadline is None else max(0.0, deadline - time.monotonic()))
            if dump is not None:
                yield dump
            elif not more or deadline is not None and time.monotonic() >= deadline:
                return

    async def __aiter__(self) -> AsyncIterator[FlightDump]:
        deadline = self._deadline()
        while True:
            dump, more = self._take(0)
            left = PAUSE if deadline is None else deadline - time.monotonic()
            if dump is not None:
                yield dump
            elif not more or left <= 0:
                return
            else:
                await wait_for_work(self._session, min(left, PAUSE))
