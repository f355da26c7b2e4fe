"""Sonde as a library: compile a script, trace with it, read its events and maps.

::

    with sonde.trace('tracepoint:syscalls:sys_enter_openat { @[comm] = count(); }') as tracing:
        for event in tracing.events(timeout=5):
            print(event.kind, event.args)
        print(dict(tracing.maps["@"]))
"""

from __future__ import annotations

import os

from ..base.end_request import Ending
from ..base.memory_budget import Memory
from ..compiling import COSTLY, compile, compile_or_recall, live_world, mask_features, mask_refusals, script_environment
from ..errors import StandInError, UsageError, VerifierError
from ..kernel import notices
from ..kinds import KINDS
from ..layouts.event_records import DATA_RING
from ..layouts.shared_maps import FAMILY
from ..semantics.script_options import Options
from ..source import Source
from .traced_run import TracedRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import ParamSpec, TypeVar

    from ..compiling import Show
    from ..kernel.groups.lookup import Groups
    from ..runtime.attach.late_images import LateImages
    from ..runtime.maps.ahead import MapAhead
    from ..runtime.records.events import Event
    from ..runtime.session import Session
    from ..runtime.traced_command import Process
    from ..semantics.world import World
    from ..spec import ScriptSpec
    from .control_groups import GroupLog
    from .events import Events
    from .flight.reading import Dumps, FlightDump, TraceFlight
    from .process_family import FamilyLog
    from .traced_calls import TracedFunction

    P = ParamSpec("P")
    R = TypeVar("R")


class Trace(TracedRun):
    """A script that traces. Enter it to attach, leave it to detach; then maps and losses can still be read."""

    _flight: TraceFlight | None = None
    again: Callable[[], Trace] | None = None  # makes another one of the same script and arguments

    def __init__(self, source: str | Source, options: Options | None = None, process: Process | None = None,
                 world: World | None = None, handle_signals: bool = False, run_statistics: bool = False,
                 show: Show | None = None, memory: Memory | None = None, budget: float = 0.0,
                 compiler: Callable[[Source, Options], ScriptSpec] = compile_or_recall) -> None:
        source = source if isinstance(source, Source) else Source("stdin", source)
        options = options or Options(env=script_environment())
        memory = memory or Memory()
        options.gated = budget > 0
        options.unwind_rows = memory.unwind_rows
        self.process, self.ending = process, Ending()
        options.command = process.program if process is not None else ""
        notices.follow_ending(self.ending)
        try:
            spec = compiler(source, options) if world is None and show is None else \
                compile(source, options, world, show)
        except BaseException:
            self.ending.over = True
            self._release_process()
            raise
        super().__init__(source, options, spec, memory, self.ending, process)
        self._world = world
        self._handle_signals = handle_signals
        self._statistics = run_statistics
        self._budget = budget
        self._group_log: GroupLog | None = None
        self._family_log: FamilyLog | None = None
        self._late_images: LateImages | None = None
        self._entered = False
        self._tell: Callable[[str], object] = str  # as the session's own
        self._groups_until = 0  # the id of the youngest control group, before this trace looked at them

    def __call__(self, function: Callable[P, R]) -> TracedFunction[P, R]:
        """As a decorator: each call of ``function`` (or coroutine) is traced, from its begin to its end, by a trace of
        its own. The result has the last one's ``tracing`` and ``events``. UsageError where that makes no sense."""
        from .traced_calls import trace_calls
        if self.again is None or hasattr(self.process, "start"):
            self.close()
            raise UsageError("a function's calls are traced by sonde.trace(...) without command=")
        return trace_calls(function, self, self.again)

    @property
    def world(self) -> World:
        """What the script is compiled for."""
        if self._world is None:
            self._world = live_world()
        return self._world

    def load(self) -> None:
        """Make the maps and load the programs; nothing runs yet. :meth:`attach` does it too."""
        self._begin(attach=False)

    def attach(self) -> None:
        """Load, run ``begin``, attach everything. VerifierError, PrivilegeError, AttachError ..."""
        if self._entered or self.ending.over:
            raise UsageError("a trace is entered once: sonde.trace() makes another")
        self._entered = True
        self._begin(attach=True)

    def _begin(self, attach: bool) -> None:
        try:
            while not self._try_begin(attach):
                pass
        except BaseException:
            self.ending.over = True
            self._close_context()
            if self._session is not None:
                self._session.close()
            self._release_process()
            raise

    def _try_begin(self, attach: bool) -> bool:
        """False if it is to be tried again: the kernel did not take an fentry or fexit in place of a kprobe or
        kretprobe, and the script was compiled without it. Of what ``begin`` has sent meanwhile nothing was read."""
        try:
            if self._session is None:
                self._load_session()
            if attach:
                if self.clears_at_once:
                    self._clear_at_once()
                self.session.attach()
        except StandInError as error:
            self._close_context()
            self.session.process = None  # stays ours
            self.session.close()
            self._tell = self.session.tell
            self._session = None
            self._world = mask_refusals(self.world, error.functions)
            self.spec = compile(self.source, self.options, self._world)
            return False
        return True

    def _close_context(self) -> None:
        for thing in (self._group_log, self._late_images, self._family_log, self._context):
            if thing is not None:
                thing.close()
        self._group_log = self._family_log = self._late_images = None

    def _release_process(self) -> None:
        """A command that was forked and waits for its probes must not wait for ever."""
        if self.process is not None:
            self.process.close()

    def _load_session(self) -> None:
        ring = self._begin_ring()
        try:
            self._session = self._new_session(ring)
        except BaseException:
            if ring is not None:
                ring.close()
            raise
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
        self.spec = compile(self.source, self.options, mask_features(self.world, COSTLY))
        self._session = self._new_session()
        try:
            self._session.load()
        except VerifierError:
            raise error from None

    def _begin_ring(self) -> MapAhead | None:
        """The data ring, made while the rest of what a session takes is imported."""
        named = next((named for named in self.spec.maps if named.name == DATA_RING), None)
        if named is None:
            return None
        from ..runtime.maps.ahead import MapAhead
        from ..runtime.records.ringbuf import sized_ring
        return MapAhead(sized_ring(named, self.spec.config.perf_rb_pages))

    def _new_session(self, ring: MapAhead | None = None) -> Session:
        from ..runtime.session import Session
        made = Session(self.spec, self.process, self._global_values(), self._handle_signals, self._statistics,
                       self.ending, self.memory.records, self._budget, ring)
        made.tell = self._tell
        return made

    def _global_values(self) -> dict[str, int]:
        wanted = self.spec.globals
        values = {"cpid": self.options.cpid} if self.options.cpid else {}
        if "pidns_dev" in wanted:
            info = os.stat("/proc/self/ns/pid")
            values |= {"pidns_dev": info.st_dev, "pidns_ino": info.st_ino}
        if "tai_offset" in wanted:
            from ..kernel.host import tai_clock_offset
            values["tai_offset"] = tai_clock_offset()
        if "groups_until" in wanted:
            from ..kernel.procfs import Cgroups
            values["groups_until"] = self._groups_until = max(Cgroups().all_ids(), default=0)
        return values

    def _bind_session(self) -> None:
        from ..runtime.context import LiveContext
        self._context = context = LiveContext(self.spec, self.session.maps, memory=self.memory)
        self.session.follow(context.mapping_log)
        self.session.follow(context.unwind_tables)
        context.prepare_process(self.process)
        if context.groups is not None:
            self._group_log = self._follow_groups(context.groups)
            self.session.follow(self._group_log)
        if FAMILY in self.session.maps:
            self._family_log = self._follow_family()
            self.session.follow(self._family_log)
            self._late_images = self._watch_for_images()
            self.session.follow(self._late_images)
        if self.process is not None and not hasattr(self.process, "start"):  # a command's program is not yet there
            context.remember_process(self.process.pid)

    def _follow_groups(self, groups: Groups) -> GroupLog:
        """Names of the control groups that come and go while this script runs, and answers for its filters."""
        from ..errors import CompileError, MissingFeatureError
        from ..kernel.procfs import cgroup2_mount_point
        from ..runtime.session import Session
        from .control_groups import FOLLOW, GroupLog, follow_options
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
        """What the process of -p or -c starts, from now on, and has started where the programs cannot know it."""
        from .process_family import FamilyLog
        return FamilyLog(self.session.maps, self._global_values(),
                         bool(self.options.pid) or self.options.knows_family)

    def _watch_for_images(self) -> LateImages | None:
        """Sets user probes in files that the processes of the family map for the first time."""
        programs = self.session.programs
        if not any(KINDS[point.kind].user for program in programs for point in program.spec.attach):
            return None
        from ..runtime.attach.late_images import LateImages
        return LateImages(programs, self.session.late_links, self.options.cpid,
                          not hasattr(self.process, "start"), lambda: self.session.done)

    # flight

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

    def events(self, timeout: float | None = None) -> Events:
        if self._flight is not None:
            raise UsageError("what a flight sends stays in the kernel: dump() and dumps() give it out")
        return super().events(timeout)

    def stop(self) -> list[Event]:
        return super().stop() if self._flight is None else self._flight.take_last()

    def close(self) -> None:
        """Detach if need be, keep the maps' last contents, release everything."""
        self.ending.over = True
        if self._session is None:
            self._release_process()
            return
        try:
            if self._context is not None and self.session.maps:
                self._keep_results()
        finally:
            self._close_context()
            self.session.close()

    def _keep_results(self) -> None:
        """What the maps hold and what was lost, for those who ask afterwards."""
        for records in self.drain_batches():
            for _ in self.decode_records(records):
                pass
        for name in [m.name for m in self.spec.maps if m.name.startswith("@") and self.keeps_maps]:
            self._final[name] = list(self.take_map(name))
            self._incomplete |= {name} if self.session.is_incomplete(name) else set()
            from ..runtime.records.values import keep_stacks
            keep_stacks([key for key, _ in self._final[name]])
        self._losses = self.session.losses()


def trace(source: str, *, params: Sequence[str] = (), pid: int = 0, command: str | Sequence[str] | None = None,
          unsafe: bool = False, world: World | None = None, handle_signals: bool = False,
          memory: int | None = None, budget: float = 0.0, container: str = "", flight: str = "",
          follow: bool = False) -> Trace:
    """Compile ``source`` (a script's text) for tracing; use the result as a context manager, or as a decorator.

    ``params`` are $1, $2 ...; ``pid`` limits it to a process and ends with it; ``command`` is started when the
    probes are attached, and its end ends the trace; ``memory`` bounds, in bytes, what is held beyond maps and rings
    (128 MiB). ``budget`` is the share of one CPU's time that the programs may take (0.02 is ``--budget 2%``; 0: no
    budget); what it kept back is in ``losses.withheld``. ``container`` limits it to the tasks in the container, pod or
    service of that name, as ``-C`` does. ``flight`` ("30s", "5m,256M") keeps what the script sends in the kernel, until
    ``dump()`` gives out the latest. ``follow``: what the process of ``pid`` or ``command`` has started and starts is
    traced as well, as with ``--follow``, and nothing else. Raises UsageError and CompileError at once, and
    PrivilegeError, MissingFeatureError, AttachError or VerifierError on entering.
    """
    given = dict(locals())
    from .argument_checks import check_arguments
    check_arguments(source=source, params=params, pid=pid, command=command, memory=memory, budget=budget,
                    container=container, flight=flight, follow=follow)
    if follow and not pid and command is None:
        raise UsageError("follow=True follows a process: pid=... or command=...")
    window = region = 0
    if flight:
        from .flight.settings import parse_flight
        window, region = parse_flight(flight)
    process: Process | None = None
    if command is not None:
        from ..runtime.traced_command import Child
        process = Child(command)
    elif pid:
        from ..runtime.traced_command import Process as Watched
        process = Watched(pid)
    options = Options(params=list(params), pid=pid, group=container,
                      cpid=process.pid if process and (follow or command is not None) else 0, family=follow,
                      unsafe=unsafe, timed=True,
                      env=script_environment(), flight=region)
    run = Trace(Source("stdin", source), options, process, world, handle_signals,
                  memory=Memory(memory) if memory else None, budget=budget)
    run.again = lambda: trace(**given)
    if flight:
        try:
            run.fly(window)
        except UsageError:
            run.close()
            raise
    return run
