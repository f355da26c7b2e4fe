"""Sonde as a library: compile a script, trace with it, read its events and maps.

::

    with sonde.trace('tracepoint:syscalls:sys_enter_openat { @[comm] = count(); }') as tracing:
        for event in tracing.events(timeout=5):
            print(event.kind, event.args)
        print(dict(tracing.maps["@"]))
"""

from __future__ import annotations

import os
import sys

from .ending import Ending
from .errors import UsageError, VerifierError
from .kernel import notices
from .memory import Memory
from .semantics.options import Options
from .source import Source
from .spec import FAMILY, ScriptSpec
from .unwinding import unwind_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Self, TypeAlias

    from .family import FamilyLog
    from .flight.reading import Dumps, FlightDump, TraceFlight
    from .group_log import GroupLog
    from .kernel.groups import Groups
    from .language.files import Files
    from .map_view import MapView
    from .output.outside import Outside
    from .reading import Events
    from .runtime.batch import Records
    from .runtime.child import Process
    from .runtime.events import Event, EventDecoder, MapReader
    from .runtime.losses import Losses
    from .runtime.provenance import Provenance
    from .runtime.session import Session
    from .runtime.values import DecodingContext, Items
    from .semantics.typed import CheckedScript
    from .semantics.world import World

Show: TypeAlias = "Callable[[str, str], None]"
DIRECT = ("rdonly_cast", "typed_arguments")  # features by which programs load kernel memory without a helper call
COSTLY = (*DIRECT, "atomic_fetch")  # features by which programs run faster, and the verifier has more to look at
RECURSION = 12000  # Python's own limit is too low for scripts that nest as deeply as language.cursor.MAX_DEPTH allows


def without(world: World, denied: Iterable[str]) -> World:
    """The World without some features: for --no-feature, and to compile again without direct loads."""
    found: Any = Without(world, frozenset(denied))
    less: World = found
    return less


class Without:
    """A World that denies some features."""

    def __init__(self, world: World, denied: frozenset[str]) -> None:
        self._world = world
        self._denied = denied

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    def has_feature(self, name: str) -> bool:
        return name not in self._denied and self._world.has_feature(name)


def live_world() -> World:
    """What can be asked of the running kernel."""
    from .kernel.world import LiveWorld
    return LiveWorld()


def compile(source: str | Source, options: Options | None = None, world: World | None = None,
            show: Show | None = None, verify: bool = False) -> ScriptSpec:
    """Compile a script; attaches nothing. Raises CompileError with every diagnostic.

    ``world`` describes the kernel that the script is for (default: the running one). ``show(stage, text)``
    gets each stage of the compiler as text; ``verify`` checks the intermediate code after each pass.
    """
    options = options or Options(env=script_environment())
    world = world or live_world()
    return _compile_source(source if isinstance(source, Source) else Source("stdin", source), options, world, show,
                           verify)[0]


def compile_or_recall(source: Source, options: Options) -> ScriptSpec:
    """What :func:`compile` gives for the running kernel; from the cache, if this script was compiled here before."""
    from .compiled import Witness, keep_compiled, load_compiled, script_key
    key = script_key(source, options)
    spec = load_compiled(key) if key else None
    if spec is None:
        witness = Witness(live_world())
        spec, looked = _compile_source(source, options, witness)
        if key and not looked and script_key(source, options) == key:
            keep_compiled(key, spec, witness)
    return spec


def _compile_source(source: Source, options: Options, world: World, show: Show | None = None,
                    verify: bool = False) -> tuple[ScriptSpec, bool]:
    """The spec, and whether the script's files were looked for in folders that are not Sonde's own."""
    if sys.getrecursionlimit() < RECURSION:
        sys.setrecursionlimit(RECURSION)
    from .language.files import Files
    files = Files(options.directories, options.headers, world.release)
    checked = check_source(source, options, world, show, files)
    from .compiler.pipeline import compile_checked
    return compile_checked(checked, world, show, verify), files.looked


def check_source(source: str | Source, options: Options, world: World, show: Show | None = None,
                 files: Files | None = None) -> CheckedScript:
    """A script parsed and checked, before anything is made of it. Raises CompileError with every diagnostic."""
    from .builtins import BUILTINS
    from .functions import FUNCTIONS
    from .language.diagnostics import FOUND_LATE, Diagnostics
    from .language.files import Files
    from .language.parser import parse_script
    from .semantics.check import check_script
    from .semantics.rows import Language
    if isinstance(source, str):
        source = Source("stdin", source)
    diagnostics = Diagnostics()
    script = parse_script(source, diagnostics, options.params,
                          files or Files(options.directories, options.headers, world.release))
    if show is not None:
        from .language.dump import dump_script
        show("ast", dump_script(script))
    diagnostics.items.sort(key=lambda item: item.code in FOUND_LATE)
    diagnostics.raise_if_errors()
    checked = check_script(script, source, world, options, diagnostics, Language(FUNCTIONS, BUILTINS))
    if show is not None:
        from .language.dump import dump_clauses
        show("types", dump_clauses([p.clause for p in checked.probes]))
    return checked


def format_source(source: str | Source, params: Sequence[str] = ()) -> str:
    """The script laid out evenly, with its comments. Raises CompileError if it cannot be parsed; files that it
    includes or imports need not be there."""
    from .language.diagnostics import Diagnostics
    from .language.files import Files
    from .language.format import format_script as lay_out
    from .language.parser import parse_script
    source = source if isinstance(source, Source) else Source("stdin", source)
    diagnostics = Diagnostics()
    script = parse_script(source, diagnostics, _Any(params), Files(release=os.uname().release))
    diagnostics.keep_only([d for d in diagnostics.items if d.code not in ("header-not-found", "import-not-found")])
    diagnostics.raise_if_errors()
    return lay_out(source, script)


class _Any(list[str]):
    """Parameters that a script is formatted without: $3 stays $3."""

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(index) if index < super().__len__() else f"${index + 1}"


def script_environment() -> dict[str, str]:
    """The environment's variables that configure scripts."""
    return {k: v for k, v in os.environ.items() if k.startswith(("BPFTRACE_", "SONDE_"))}


class Trace:
    """A script that traces. Enter it to attach, leave it to detach; then maps and losses can still be read."""

    _flight: TraceFlight | None = None

    def __init__(self, source: str | Source, options: Options | None = None, process: Process | None = None,
                 world: World | None = None, handle_signals: bool = False, run_statistics: bool = False,
                 show: Show | None = None, memory: Memory | None = None, budget: float = 0.0) -> None:
        self.source = source if isinstance(source, Source) else Source("stdin", source)
        self.options = options or Options(env=script_environment())
        self.options.gated = budget > 0
        self.options.unwind_rows = unwind_rows((memory or Memory()).total)
        self.process = process
        self._world = world
        self.ending = Ending()
        notices.follow_ending(self.ending)
        try:
            self.spec = compile_or_recall(self.source, self.options) if world is None and show is None else \
                compile(self.source, self.options, world, show)
        except BaseException:
            self.ending.over = True
            self._release_process()
            raise
        self.retried: VerifierError | None = None  # why the script was compiled again, without COSTLY
        self._session: Session | None = None
        self._handle_signals = handle_signals
        self.memory = memory or Memory()
        self._statistics = run_statistics
        self._budget = budget
        self._context: DecodingContext | None = None
        self._group_log: GroupLog | None = None
        self._family_log: FamilyLog | None = None
        self._groups_until = 0  # the id of the youngest control group, before this trace looked at them
        self._reader: MapReader | None = None
        self._decoder: EventDecoder | None = None
        self.outside: Outside | None = None  # what stands for this machine where events are printed; None: it itself
        self._final: dict[str, Items] = {}
        self._incomplete: set[str] = set()  # of the maps in _final
        self._losses: Losses | None = None
        self.words: Sequence[str] = ()  # of the command line that asked for it, if one did
        self.keeps_maps = True  # are maps to be read once more at the end, for those who look at them afterwards?

    @property
    def world(self) -> World:
        """What the script is compiled for."""
        if self._world is None:
            self._world = live_world()
        return self._world

    # life

    def __enter__(self) -> Self:
        self.attach()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def load(self) -> None:
        """Make the maps and load the programs; nothing runs yet. :meth:`attach` does it too."""
        self._begin(attach=False)

    def attach(self) -> None:
        """Load, run ``begin``, attach everything. VerifierError, PrivilegeError, AttachError ..."""
        self._begin(attach=True)

    def _begin(self, attach: bool) -> None:
        try:
            if self._session is None:
                self._load_session()
            if attach:
                self.session.attach()
        except BaseException:
            self.ending.over = True
            self._close_context()
            if self._session is not None:
                self._session.close()
            self._release_process()
            raise

    def _close_context(self) -> None:
        for thing in (self._group_log, self._family_log, self._context):
            if thing is not None:
                thing.close()
        self._group_log = self._family_log = None

    def _release_process(self) -> None:
        """A command that was forked and waits for its probes must not wait for ever."""
        if self.process is not None:
            self.process.close()

    def _load_session(self) -> None:
        self._session = self._new_session()
        try:
            self._session.load()
        except VerifierError as error:
            if self.options.count_reads or not any(self.world.has_feature(name) for name in COSTLY):
                raise
            self._session.process = None  # stays ours
            self._session.close()
            self._compile_plainly(error)
        self._bind_session()

    def _compile_plainly(self, error: VerifierError) -> None:
        """The verifier did not accept a direct load of kernel memory, or gave up: read memory with helper calls, and
        keep elements of maps nowhere but in the kernel's hash."""
        self.retried = error
        self.spec = compile(self.source, self.options, without(self.world, COSTLY))
        self._session = self._new_session()
        try:
            self._session.load()
        except VerifierError:
            raise error from None

    def _new_session(self) -> Session:
        from .runtime.session import Session
        return Session(self.spec, self.process, self._global_values(), self._handle_signals, self._statistics,
                       self.ending,
                       self.memory.records, self._budget)

    def _global_values(self) -> dict[str, int]:
        wanted = self.spec.globals
        values: dict[str, int] = {}
        if "pidns_dev" in wanted:
            info = os.stat("/proc/self/ns/pid")
            values = {"pidns_dev": info.st_dev, "pidns_ino": info.st_ino}
        if "tai_offset" in wanted:
            from .kernel.host import tai_clock_offset
            values["tai_offset"] = tai_clock_offset()
        if "groups_until" in wanted:
            from .kernel.procfs import Cgroups
            values["groups_until"] = self._groups_until = max(Cgroups().all_ids(), default=0)
        return values

    def _bind_session(self) -> None:
        from .runtime.context import LiveContext
        from .runtime.events import EventDecoder, MapReader
        self._context = context = LiveContext(self.spec, self.session.maps, memory=self.memory)
        self.session.follow(context.mapping_log)
        self.session.follow(context.unwind_tables)
        context.prepare_unwinding(self.process)
        if context.groups is not None:
            self._group_log = self._follow_groups(context.groups)
            self.session.follow(self._group_log)
        if FAMILY in self.session.maps:
            self._family_log = self._follow_family()
            self.session.follow(self._family_log)
        if self.process is not None and not hasattr(self.process, "start"):  # a command's program is not yet there
            context.remember_process(self.process.pid)
        self._reader = MapReader(self.session.maps, self._context)
        self._decoder = EventDecoder(self.spec, self._context)

    def _follow_groups(self, groups: Groups) -> GroupLog:
        """Names of the control groups that come and go while this script runs, and answers for its filters."""
        from .errors import CompileError, MissingFeatureError
        from .group_log import FOLLOW, GroupLog, follow_options
        from .kernel.procfs import cgroup2_mount_point
        from .runtime.session import Session
        if cgroup2_mount_point() is None:
            raise MissingFeatureError("containers, pods and services are known by control groups of version 2, and "
                                      "there are none here", "cgroup2", ["mount -t cgroup2 none /sys/fs/cgroup"])
        try:
            spec = compile_or_recall(FOLLOW, follow_options(self.spec))
        except CompileError as error:
            raise MissingFeatureError("control groups can be followed where type information has the arguments of raw "
                                      "tracepoints (Linux 5.18)", "typed_arguments") from error
        return GroupLog(Session(spec), self.spec, self.session.maps, groups, self._groups_until)

    def _follow_family(self) -> FamilyLog:
        """What the command of -c starts, from now on."""
        from .family import FOLLOW, FamilyLog
        from .runtime.session import Session
        assert self.process is not None
        values = self._global_values() | {"cpid": self.process.pid}
        return FamilyLog(Session(compile_or_recall(FOLLOW, Options()), values=values), self.session.maps)

    @property
    def session(self) -> Session:
        """The running session; UsageError before :meth:`attach`."""
        if self._session is None:
            raise UsageError("the trace is not attached: use it as a context manager")
        return self._session

    @property
    def context(self) -> DecodingContext:
        """What turns addresses and numbers into names."""
        assert self._context is not None
        return self._context

    @property
    def map_reader(self) -> MapReader:
        """What reads the maps."""
        assert self._reader is not None
        return self._reader

    def when_reading(self, tell: Callable[[str, int, int], object]) -> None:
        """Have ``tell(map, elements read, of how many)`` called while a large map is read."""
        self.map_reader.progress = tell

    def take_map(self, name: str, then: str = "") -> Items:
        """A map's pairs; with ``then`` "clear" or "zero" it is emptied or zeroed in the same step."""
        return self.map_reader(name, then)

    # records, for the command line: raw and in order

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

    def keeps_samples(self, show: Callable[[], object]) -> bool:
        """Whether this trace itself looks at maps that the script does not print, and calls ``show`` when it has."""
        return False

    def act_on_site(self, site: int) -> None:
        """Carry out a clear() or zero()."""
        spec = self.spec.sites[site]
        if spec.kind in ("clear", "zero"):
            named = self.session.maps[spec.data["map"]]
            for kernel_map in [named, self.session.maps[named.spec.short]] if named.spec.short else [named]:
                kernel_map.clear() if spec.kind == "clear" else kernel_map.zero()

    # events, for programs

    def events(self, timeout: float | None = None) -> Events:
        """Typed events in order, until the script ends or ``timeout`` seconds have passed: for ``for``, ``async for``,
        or as a table (``to_pandas()`` ...).

        A ``print(@map)`` is an event of kind ``print_map`` whose args are the map's name and its pairs.
        """
        from .reading import Events
        if self._flight is not None:
            raise UsageError("what a flight sends stays in the kernel: dump() and dumps() give it out")
        return Events(self, timeout)

    @property
    def _flying(self) -> TraceFlight:
        if self._flight is None:
            raise UsageError("there is no flight recorder: trace(..., flight=\"30s\")")
        return self._flight

    def fly(self, window: int) -> None:
        """The script is compiled for flight memory: dumps go back ``window`` ns. UsageError if it cannot fly."""
        from .flight.reading import TraceFlight
        self._flight = TraceFlight(self, window)

    def dump(self, why: str = "") -> FlightDump:
        """Of a flight: what was sent lately. The flight stays armed; the next dump may have some of it again."""
        return self._flying.dump(why)

    def dumps(self, timeout: float | None = None) -> Dumps:
        """Of a flight: the dumps that the script's dump("why") asks for, until it ends or ``timeout`` seconds have
        passed."""
        return self._flying.follow(timeout)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events())

    def __aiter__(self) -> AsyncIterator[Event]:
        return self.events().__aiter__()

    async def __aenter__(self) -> Self:
        self.attach()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    def decode_records(self, records: Iterable[tuple[int, bytes, int]]) -> Iterator[Event]:
        """The events of records; what the script asks for on the way (print a map, clear it) is done."""
        from .runtime.values import keep_stacks
        assert self._decoder is not None
        for site, buffer, offset in records:
            event = self._decoder.decode(buffer, offset)
            if event.kind == "print_map":
                data = self.spec.sites[site].data
                event.args = (data["map"], self.take_map(data["map"], data.get("then") or ""))
            elif event.kind in ("clear", "zero"):
                self.act_on_site(site)
            if event.kind not in ("exit", "clear", "zero"):
                keep_stacks(event.args)
                yield event

    def stop(self) -> list[Event]:
        """Detach, run ``end``, and give the events that are left."""
        return list(self.decode_records(self.drain_records())) if self._flight is None else self._flight.take_last()

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

        from .runtime.provenance import describe_run
        command = join(["sonde", *self.words]) if self.words else f"sonde: {self.source.text}"
        return describe_run(command, self.session, self.losses)

    def close(self) -> None:
        """Detach if need be, keep the maps' last contents, release everything."""
        self.ending.over = True
        if self._session is None:
            self._release_process()
            return
        if self._reader is not None and self.session.maps:
            from .runtime.values import keep_stacks
            for _ in self.decode_records(self.drain_records()):
                pass
            for name in [m.name for m in self.spec.maps if m.name.startswith("@") and self.keeps_maps]:
                self._final[name] = list(self.take_map(name))
                self._incomplete |= {name} if self.session.is_incomplete(name) else set()
                keep_stacks([key for key, _ in self._final[name]])
            self._losses = self.session.losses()
        self._close_context()
        self.session.close()


def trace(source: str, *, params: Sequence[str] = (), pid: int = 0, command: str | Sequence[str] | None = None,
          unsafe: bool = False, world: World | None = None, handle_signals: bool = False,
          memory: int | None = None, budget: float = 0.0, container: str = "", flight: str = "") -> Trace:
    """Compile ``source`` (a script's text) for tracing; use the result as a context manager.

    ``params`` are $1, $2 ...; ``pid`` limits it to a process and ends with it; ``command`` is started when the
    probes are attached, and its end ends the trace; ``memory`` bounds, in bytes, what is held beyond maps and rings
    (128 MiB). ``budget`` is the share of one CPU's time that the programs may take (0.02 is ``--budget 2%``; 0: no
    budget); what it kept back is in ``losses.withheld``. ``container`` limits it to the tasks in the container, pod or
    service of that name, as ``-C`` does. ``flight`` ("30s", "5m,256M") keeps what the script sends in the kernel, until
    ``dump()`` gives out the latest. Raises CompileError at once, and PrivilegeError,
    MissingFeatureError, AttachError or VerifierError on entering.
    """
    window = region = 0
    if flight:
        from .flight.settings import parse_flight
        window, region = parse_flight(flight)
    process: Process | None = None
    if command is not None:
        from .runtime.child import Child
        process = Child(command)
    elif pid:
        from .runtime.child import Process as Watched
        process = Watched(pid)
    options = Options(params=list(params), pid=pid, group=container,
                      cpid=process.pid if command is not None and process else 0, unsafe=unsafe, timed=True,
                      env=script_environment(), flight=region)
    found = Trace(Source("stdin", source), options, process, world, handle_signals,
                  memory=Memory(memory) if memory else None, budget=budget)
    if flight:
        try:
            found.fly(window)
        except UsageError:
            found.close()
            raise
    return found
