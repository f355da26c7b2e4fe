"""A fleet as a library has it: what :class:`sonde.Trace` is for one host."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from ..errors import MachineError
from ..library.argument_checks import check_arguments
from ..library.map_view import MapView
from ..library.tabular import Tabular
from ..runtime.losses import Losses
from ..source import Source
from .state.coordinator import Fleet
from .state.gathered import FleetState
from .state.member import Member
from .state.results import HostEvent, MergedPrint, merged_spec
from .transport.connection import Transport, pack_sonde
from .transport.hosts import expand_hosts
from .transport.request import FleetRequest
from .views.show import ABOUT, describe_fleet_run

if TYPE_CHECKING:
    import distributed

    from ..library.data_frames import TableColumn
    from ..runtime.provenance import Provenance

_LOOK, _SOON = 0.25, 0.05  # s between two looks at a fleet, and at one that has not begun


class FleetTrace:
    """A script that traces on many hosts. Enter it to begin, leave it to end; then maps and losses can still be read.

    ``maps`` are merged, as far as the hosts have told; events have a ``host``, and their ``time`` is nanoseconds since
    1970 by this machine's clock. ``members`` tells of each host, ``missing`` of those that are not in the result, and
    ``str()`` says both in a line.
    """

    def __init__(self, fleet: FleetState) -> None:
        self._fleet = fleet
        self._ready: deque[HostEvent | MergedPrint] = deque()

    def __enter__(self) -> Self:
        """MachineError if not one host can begin."""
        while self._is_starting:
            self._ready += self._fleet.poll(_LOOK)
        return self._begin()

    @property
    def _is_starting(self) -> bool:
        return not self._fleet.begun and not self._fleet.done

    def _begin(self) -> Self:
        fleet = self._fleet
        if not fleet.started_at:
            fleet.close()
            raise MachineError(str(self), [hint for member in fleet.missing[:1] for hint in member.hints])
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        from ..library.run_loop import wait_readable
        while self._is_starting:
            self._ready += self._fleet.poll(0)
            await wait_readable(self.fileno(), _SOON)
        return self._begin()

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    def __str__(self) -> str:
        return self._fleet.describe_state()

    def __iter__(self) -> Iterator[HostEvent]:
        return iter(self.events())

    def __aiter__(self) -> AsyncIterator[HostEvent]:
        return self.events().__aiter__()

    def events(self, timeout: float | None = None) -> FleetEvents:
        """Events of all hosts in order of time, until all have ended or ``timeout`` seconds have passed. A print(@map)
        of all hosts is one event of kind ``print_map`` whose args are the map's name and its merged pairs."""
        return FleetEvents(self, timeout)

    def next_events(self, timeout: float) -> list[HostEvent]:
        """The next ones; [] after so many seconds or at the end."""
        if not self._ready:
            self._ready += self._fleet.poll(timeout)
        events = [_as_event(item) for item in self._ready]
        self._ready.clear()
        return events

    def run(self, callback: Callable[[HostEvent], object] | None = None, timeout: float | None = None) -> Self:
        """Trace until all hosts have ended or ``timeout`` seconds have passed, calling back for each event."""
        for event in self.events(timeout):
            if callback is not None:
                callback(event)
        return self

    def stop(self) -> list[HostEvent]:
        """Have all hosts end, and give what is left; takes two seconds at most."""
        self._fleet.stop()
        events: list[HostEvent] = []
        while not self._fleet.done or self._ready:
            events += self.next_events(0.5)
        return events

    def close(self) -> None:
        """End if need be, and hang up."""
        self._ready.extend(self.stop())
        self._fleet.close()

    # results

    @property
    def done(self) -> bool:
        """Whether all hosts have come to their end."""
        return self._fleet.done

    @property
    def maps(self) -> Mapping[str, MapView[Any, Any]]:
        """The script's maps by name, merged; plain values stand under their host."""
        spec = self._fleet.results.spec
        this: Any = self
        merged = merged_spec(spec, self._fleet.results.by_host) if spec is not None else None
        return {m.name: MapView(m.name, self._fleet.results.pairs_of, {}, m, this)
                for m in (merged.maps if merged else [])}

    def outliers(self, name: str) -> list[tuple[str, float]]:
        """(host, distance from the rest) of a map, the farthest first; for a fleet that was made with ``outliers``."""
        return self._fleet.results.rank_hosts(name)[1]

    @property
    def members(self) -> Sequence[Member]:
        """All hosts: name, state, reason, clock, windows, losses."""
        return self._fleet.members

    @property
    def missing(self) -> dict[str, str]:
        """The hosts that are not, or not to the end, in the result, with the reason."""
        return {member.name: member.reason for member in self._fleet.missing}

    @property
    def losses(self) -> Losses:
        """Events that were lost, by host; what else was lost is in each member's ``losses``."""
        return Losses([(member.name, member.lost) for member in self._fleet.members if member.lost], [], [])

    @property
    def status(self) -> int:
        """What exit() was called with."""
        return self._fleet.status

    @property
    def provenance(self) -> Provenance:
        """Which run this is."""
        return describe_fleet_run(self._fleet, f"sonde: {self._fleet.request.source.text}")

    def is_incomplete(self, name: str) -> bool:
        """Whether a budget kept back events of this map on any host."""
        return self._fleet.results.is_incomplete(name)

    def fileno(self) -> int:
        """A descriptor for event loops; see :meth:`Fleet.fileno`."""
        return self._fleet.fileno()


class FleetEvents(Tabular):
    """The events of a fleet: for ``for``, ``async for``, or as a table with the column ``host``."""

    def __init__(self, trace: FleetTrace, timeout: float | None) -> None:
        self._fleet_trace = trace
        this: Any = trace
        self._trace = this
        self._deadline = None if timeout is None else monotonic() + timeout
        self._iterator: Iterator[HostEvent] | None = None

    def __iter__(self) -> Iterator[HostEvent]:
        if self._iterator is None:
            self._iterator = self._read_events()
        return self._iterator

    def __next__(self) -> HostEvent:
        return next(iter(self))

    def _left(self) -> float:
        return _LOOK if self._deadline is None else min(_LOOK, self._deadline - monotonic())

    def _read_events(self) -> Iterator[HostEvent]:
        trace = self._fleet_trace
        while (left := self._left()) > 0:
            events = trace.next_events(left)
            yield from events
            if trace.done and not events:
                return

    async def __aiter__(self) -> AsyncIterator[HostEvent]:
        """The same without blocking the event loop."""
        from ..library.run_loop import wait_readable
        trace = self._fleet_trace
        while (left := self._left()) > 0:
            events = trace.next_events(0)
            for event in events:
                yield event
            if trace.done and not events:
                return
            if not events:
                await wait_readable(trace.fileno(), left)

    def _columns(self) -> list[TableColumn]:
        from ..library import data_frames
        from ..library.loss_warning import warn_of_losses
        data_frames.import_extra("pyarrow", "tables")
        spec = self._fleet_trace._fleet.results.spec
        assert spec is not None
        rows = [event for event in self if event.site >= 0 and data_frames.is_row(spec.sites[event.site])]
        warn_of_losses(self._trace)
        return data_frames.event_table(spec, rows, lambda wall: wall, ABOUT)


def _as_event(item: HostEvent | MergedPrint) -> HostEvent:
    if isinstance(item, HostEvent):
        return item
    return HostEvent("print_map", (item.name, item.pairs), "", item.time, -1, host="", text=b"")


def fleet(hosts: str | Iterable[str] | distributed.Client, source: str, *, params: Sequence[str] = (),
          window: float = 1.0, seconds: float = 0.0, budget: float = 0.0, unsafe: bool = False, by_host: bool = False,
          outliers: bool = False, push: bool = False, ssh: Sequence[str] = ("ssh",), agent: str = "sonde",
          socket: str = "", every: bool = False, parallel: int = 64, patience: float = 10.0, record: str = ""
          ) -> FleetTrace:
    """Trace with ``source`` (a script's text) on ``hosts``; use the result as a context manager.

    Hosts are what -H of ``sonde fleet`` takes: names, ranges, files, ``local:NAME``; several in a list. Or a
    ``distributed.Client``: then they are its workers, one of each machine (all with ``every``), beside whom agents
    listen on ``socket`` (/run/sonde/agent.socket). ``params`` are $1, $2 ...; each ``window`` seconds the hosts tell
    what changed in their maps; ``seconds`` is for how long to trace (0: until it is stopped). ``by_host`` keeps hosts
    apart in the maps. ``push`` sends Sonde to hosts that have none; ``ssh`` and ``agent`` are the commands here and
    there. ``record`` is a file that keeps the run for ``sonde replay``. UsageError for hosts that make no sense,
    MachineError on entering if not one host can begin.
    """
    check_arguments(source=source, params=params, budget=budget)
    request = FleetRequest(Source("stdin", source), list(params), {}, window, seconds, budget, unsafe, True)
    transport: Transport
    if isinstance(hosts, str) or not hasattr(hosts, "scheduler_info"):
        names = expand_hosts([hosts] if isinstance(hosts, str) else hosts)
        transport = Transport(ssh, agent, pack_sonde() if push else b"")
    else:
        from .transport.dask import SOCKET_PATH, DaskTransport
        transport = DaskTransport(hosts, socket or SOCKET_PATH, every)
        names = transport.hosts
    log = None
    if record:
        from ..base.trusted_files import open_guarded
        from .recording import FleetRecorder, describe_fleet
        file = open_guarded(record, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        log = FleetRecorder(file, describe_fleet(names, request, by_host, outliers, "sonde.fleet", {}))
    return FleetTrace(Fleet(names, request, transport, parallel, patience, by_host, outliers, log))
