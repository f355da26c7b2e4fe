"""A script's run as its readers see it: records, events, maps and losses, whether the script is running or was
recorded."""

from __future__ import annotations

from ..base.end_request import Ending
from ..base.memory_budget import Memory
from ..errors import UsageError, VerifierError
from ..kinds import SITE_KINDS
from ..semantics.script_options import Options
from ..source import Source
from ..spec import ScriptSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Self

    from ..output.outside import Outside
    from ..runtime.losses import Losses
    from ..runtime.provenance import Provenance
    from ..runtime.records.batch import Records
    from ..runtime.records.events import Event, EventDecoder, MapReader
    from ..runtime.records.values import DecodingContext, Items
    from ..runtime.session import Session
    from ..runtime.traced_command import Process
    from .events import Events
    from .map_view import MapView

_NOT_ATTACHED = "the trace is not attached: use it as a context manager"


class TracedRun:
    """What a run has to show. Enter it to let it begin, leave it to end it; then maps and losses can still be read."""

    def __init__(self, source: Source, options: Options, spec: ScriptSpec, memory: Memory | None = None,
                 ending: Ending | None = None, process: Process | None = None) -> None:
        self.source = source
        self.options = options
        self.spec = spec
        self.memory = memory or Memory()
        self.ending = ending or Ending()
        self.process = process
        self.outside: Outside | None = None  # performs the side effects of printing; None: on this machine
        self.words: Sequence[str] = ()  # of the command line that asked for it, if one did
        self.run_seconds = 0.0  # for which it is to run; 0: until its end
        self.keeps_maps = True  # are maps to be read once more at the end, for those who look at them afterwards?
        self.retried: VerifierError | None = None  # why it was compiled once more, without compiling.COSTLY
        self.clears_at_once = False  # to be set before it begins: see _clear_at_once()
        self._cleared_at_once: set[int] = set()  # sites
        self._session: Session | None = None
        self._context: DecodingContext | None = None
        self._reader: MapReader | None = None
        self._decoder: EventDecoder | None = None
        self._final: dict[str, Items] = {}
        self._incomplete: set[str] = set()  # of the maps in _final
        self._losses: Losses | None = None

    def attach(self) -> None:
        """Let it begin."""
        raise NotImplementedError

    def close(self) -> None:
        """End it, keep the maps' last contents, release everything."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.attach()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        self.attach()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    @property
    def session(self) -> Session:
        """The running session; UsageError before :meth:`attach`."""
        if self._session is None:
            raise UsageError(_NOT_ATTACHED)
        return self._session

    @property
    def context(self) -> DecodingContext:
        """What turns addresses and numbers into names."""
        assert self._context is not None
        return self._context

    @property
    def map_reader(self) -> MapReader:
        """What reads the maps; UsageError before :meth:`attach`."""
        if self._reader is None:
            if self._context is None:
                raise UsageError(_NOT_ATTACHED)
            from ..runtime.records.events import MapReader
            self._reader = MapReader(self.session.maps, self._context)
        return self._reader

    # records: raw and in order

    def next_records(self, timeout: float | None = None) -> Records:
        """The next records (site, buffer, offset), in order; none after ``timeout`` seconds or at the end."""
        return self.session.poll(timeout)

    def drain_records(self) -> Iterator[tuple[int, bytes, int]]:
        """Detach with the first step, give what is left, run ``end`` when all of that has been taken, and give that."""
        for records in self.drain_batches():
            yield from records

    def drain_batches(self) -> Iterator[Records]:
        """The same, as many at a time as come together."""
        return self.session.stop_in_batches()

    def when_reading(self, tell: Callable[[str, int, int], object]) -> None:
        """Have ``tell(map, elements read, of how many)`` called while a large map is read."""
        self.map_reader.progress = tell

    def take_map(self, name: str, then: str = "") -> Items:
        """A map's pairs; with ``then`` "clear" or "zero" it is emptied or zeroed in the same step."""
        return self.map_reader(name, then)

    def knows_map(self, name: str) -> bool:
        """Whether what a map holds now can be read. A recording has what was read of it while it was made: not what
        ``clear()`` and ``zero()`` empty unread."""
        return True

    def keeps_samples(self, show: Callable[[], object]) -> bool:
        """Whether this trace itself looks at maps that the script does not print, and calls ``show`` when it has."""
        return False

    def _clear_at_once(self) -> None:
        """Have maps emptied when the script asks for it, not in its turn among what it prints, which comes some 20 ms
        later: what is counted in between is lost to a script that has gone through the map by a ``for``. Not those
        that print() is given, whole or an element of them: it reads them in its turn."""
        printed = {site.data["map"] for site in self.spec.sites
                   if "map" in site.data and not SITE_KINDS[site.kind].empties}
        self._cleared_at_once = {index for index, site in enumerate(self.spec.sites)
                                 if SITE_KINDS[site.kind].empties and site.data["map"] not in printed}
        self.session.act_at_once(self._cleared_at_once, self._empty_map)

    def act_on_site(self, site: int) -> None:
        """Carry out a clear() or zero()."""
        if site not in self._cleared_at_once:
            self._empty_map(site)

    def _empty_map(self, site: int) -> None:
        spec = self.spec.sites[site]
        if SITE_KINDS[spec.kind].empties:
            named = self.session.maps[spec.data["map"]]
            for kernel_map in [named, self.session.maps[named.spec.short]] if named.spec.short else [named]:
                kernel_map.clear() if spec.kind == "clear" else kernel_map.zero()

    # events

    def events(self, timeout: float | None = None) -> Events:
        """Typed events in order, until the script ends or ``timeout`` seconds have passed: for ``for``, ``async for``,
        or as a table (``to_pandas()`` ...).

        A ``print(@map)`` is an event of kind ``print_map`` whose args are the map's name and its pairs.
        """
        from .events import Events
        return Events(self, timeout)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events())

    def __aiter__(self) -> AsyncIterator[Event]:
        return self.events().__aiter__()

    def decode_records(self, records: Iterable[tuple[int, bytes, int]]) -> Iterator[Event]:
        """The events of records; what the script asks for on the way (print a map, clear it) is done."""
        from ..runtime.records.values import keep_stacks
        decoder = self._decoder or self._new_decoder()
        for site, buffer, offset in records:
            event = decoder.decode(buffer, offset)
            if event.kind == "print_map":
                data = self.spec.sites[site].data
                event.args = (data["map"], self.take_map(data["map"], self.spec.sites[site].then))
            elif SITE_KINDS[event.kind].empties:
                self.act_on_site(site)
            if not SITE_KINDS[event.kind].silent:
                keep_stacks(event.args)
                yield event

    def _new_decoder(self) -> EventDecoder:
        from ..runtime.records.events import EventDecoder
        self._decoder = EventDecoder(self.spec, self.context)
        return self._decoder

    def stop(self) -> list[Event]:
        """Detach, run ``end``, and give the events that are left."""
        return list(self.decode_records(self.drain_records()))

    def show(self, timeout: float | None = None, every: float = 0.5) -> None:
        """In a notebook: the maps, drawn again and again in one output until the script ends or ``timeout`` seconds
        have passed; interrupting the cell ends it too. Needs IPython."""
        from .notebook import show_maps
        show_maps(self, timeout, every)

    def run(self, callback: Callable[[Event], object] | None = None, timeout: float | None = None) -> Self:
        """Trace until the script ends or ``timeout`` seconds have passed, calling back for each event."""
        for event in self.events(timeout):
            if callback is not None:
                callback(event)
        return self

    # results

    def is_incomplete(self, name: str) -> bool:
        """Whether events that would have changed this map were kept back by the budget."""
        if name in self._final:
            return name in self._incomplete
        return self._session is not None and self._session.is_incomplete(name)

    @property
    def maps(self) -> Mapping[str, MapView[Any, Any]]:
        """The script's maps by name (``@``, ``@x``)."""
        from .map_view import MapView
        return {m.name: MapView(m.name, self.take_map, self._final, m, self) for m in self.spec.maps
                if m.name.startswith("@")}

    @property
    def status(self) -> int:
        """What exit() was called with."""
        return self.session.status

    @property
    def losses(self) -> Losses:
        """Everything that was lost, by cause."""
        return self._losses if self._losses is not None else self.session.losses()

    @property
    def provenance(self) -> Provenance:
        """Which run this is: the command, host, time and duration, and what was lost."""
        from shlex import join

        from ..runtime.provenance import describe_run
        command = join(["sonde", *self.words]) if self.words else f"sonde: {self.source.text}"
        return describe_run(command, self.session, self.losses, self.run_seconds)
