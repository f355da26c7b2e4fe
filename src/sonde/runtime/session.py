"""A running script: from spec to attached programs, ordered records, losses, and back to nothing attached.

::

    with Session(spec) as session:
        session.attach()                       # maps, begin, probes
        while not session.done:
            for site, buffer, offset in session.poll(0.5):
                ...
        for site, buffer, offset in session.stop():   # detached, end has run, rings are empty
            ...
        session.losses(); session.maps["@x"].items()
    # leaving closes what is slow to close
"""

from __future__ import annotations

import os
import sys
import time

from ..base.end_request import Ending
from ..errors import AttachError
from ..kernel import syscalls
from ..kernel.clocks import boot_time
from ..kernel.syscalls import Fd
from ..kinds import KINDS, MOST_SLOW_LINKS
from ..layouts.event_records import CONTROL_HEADER, CONTROL_RING, DATA_RING
from ..layouts.shared_maps import CALLS, COUNTING, DISCOVERED, FAMILY, FLIGHT, STATE
from ..spec import EventField, ScriptSpec
from .attach.attachments import Attachments
from .attach.links import runs_on_cpus
from .attach.loading import Loader
from .attach.programs import LoadedProgram
from .losses import Losses
from .maps.access import Map
from .maps.full_maps import LOOK, FullMap, FullMaps
from .maps.state import State
from .period import TracedPeriod
from .records.batch import Raw, Records
from .records.delivery import Delivery
from .records.ringbuf import Ring
from .signals import Signals
from .tracing_clock import FOREVER, TracingClock
from .waiting import Waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from mmap import mmap
    from typing import Self

    from .attach.cpu_watch import CpuWatch
    from .attach.links import Links
    from .costs.budget import Budget
    from .flight.flight_memory import FlightMemory
    from .maps.ahead import MapAhead
    from .traced_command import Child, Process
    from .waiting import FollowedLog

ASKS, DUMPS = "SIGUSR1", "SIGUSR2"


class Session:
    """Runs one ScriptSpec. ``done`` says that the script has ended, ``reason`` why: exit, signal, child, process,
    iterators (all of them have been read), begin (there is no other probe to wait for), or what :meth:`request_end` was
    given.

    ``values`` gives the spec's globals beyond those that the session knows (start_ns, cpid, self_pid, cpus).
    ``handle_signals``: SIGINT, SIGTERM and SIGHUP end the session (main thread only), and then ``ending`` says since
    when. ``process`` ends it by its own end; a Child is started when everything is attached. ``memory`` bounds the
    bytes of records that are held. ``budget``: the share of one CPU's time that the programs may take, if the script is
    compiled for one. ``ring``: the data ring, if somebody has begun to make it.
    """

    def __init__(self, spec: ScriptSpec, process: Process | None = None, values: Mapping[str, int] | None = None,
                 handle_signals: bool = False, run_statistics: bool = False, ending: Ending | None = None,
                 memory: int = 16 << 20, budget: float = 0.0, ring: MapAhead | None = None) -> None:
        self.spec = spec
        self.ending = ending or Ending()
        self.process = process
        self.maps: dict[str, Map] = {}
        self.programs: list[LoadedProgram] = []
        self.done = False
        self.reason = ""
        self.maps_requested = False  # SIGUSR1 came, and no probe wants it: print the maps as they are
        self.flight: FlightMemory | None = None  # of a script that is compiled for it
        self.waiting = Waiting()
        self.period = TracedPeriod()
        self.status = 0  # of exit(), or of the child
        self.detaching = 0  # links that close() will have to wait for, when the trace has been stopped without that
        self._values = dict(values or {})
        self._attachments = Attachments(spec.config)
        self._loader = Loader(spec, self.maps, self._attachments.miss, ring)
        self._state: State | None = None
        self._memory = memory
        self._delivery = Delivery(spec, None, None, memory, self.ending)
        self._budget: Budget | None = None
        self._share = budget if spec.gate is not None else 0.0
        self.tell: Callable[[str], object] = str  # is told, while the session waits, what cannot wait for its end
        self.tell_full: Callable[[FullMap], object] = lambda full: self.tell(f"WARNING: {full}")
        self._full_maps = FullMaps(spec)
        self._cpu_watch: CpuWatch | None = None  # of a script with programs that run on each CPU
        self._signals: Signals | None = None
        self._handle_signals = handle_signals
        self._statistics: Fd | None = None
        if run_statistics:
            from .costs.statistics import enable_statistics
            self._statistics = enable_statistics()
        self._started = False
        self._stopped = False
        self._last_losses: Losses | None = None
        self._exit_sites = {index for index, site in enumerate(spec.sites) if site.kind == "exit"}
        self._act_at_once: dict[int, Callable[[int], object]] = {}  # by site: see act_at_once()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # starting

    def load(self) -> None:
        """Create the maps and load the programs; nothing runs yet. VerifierError, PrivilegeError, SondeError."""
        if self._state is not None:
            return
        self._loader.create_maps()
        self._state = State(self.spec, self.maps[STATE])
        self._delivery = Delivery(self.spec, self._open_ring(DATA_RING), self._open_ring(CONTROL_RING), self._memory,
                                  self.ending)
        if FLIGHT in self.maps:
            from .flight.flight_memory import FlightMemory
            self.flight = FlightMemory(self.spec, self.maps, self._state)
        self._set_globals()
        self.programs = self._loader.load_programs()

    def attach(self) -> None:
        """Run begin, then attach everything else and start the child. AttachError as config.missing_probes says."""
        self.load()
        self._watch_descriptors()
        self._started = True
        assert self._state is not None
        clock = TracingClock(self._state)
        self._run_programs("begin")
        clock.pause()
        if self.flight is not None:
            self.flight.keep_beginning()
        self._delivery.read_controls(self._handle_control)
        if self._share:
            from .costs.budget import Budget
            self._budget = Budget(self._share, self.spec, self.maps, self._attachments.gated, self.waiting.wake)
        mappings = self._map_probed_files()
        try:
            self._attachments.attach_all(self.programs, self._loader, self._budget is not None, clock.go_on)
        finally:
            for mapping in mappings:
                mapping.close()
        if not self.done:
            self._start_iterators()
        self._attachments.require_any()
        self._cpu_watch = self._watch_cpus()
        self._count_calls(1)
        self.period.begin()
        if self.done:  # begin called exit()
            return
        if self._budget is not None:
            self._budget.start(self.programs)
        if (child := self._child()) is not None:
            child.start()
        elif not self._awaits_events():
            self._set_done("begin")

    def _map_probed_files(self) -> list[mmap]:
        points = [point for program in self.programs for point in program.spec.attach if KINDS[point.kind].user]
        if not points:
            return []
        from .attach.probed_files import map_probed_files
        return map_probed_files(points, self.process)

    def _count_calls(self, counting: int) -> None:
        """Begin (1) or end (0) to count calls and returns: only while all probes are attached."""
        if self._state is not None and self.spec.calls:
            self._state.write_global(COUNTING, counting)

    def _unreturned_calls(self) -> list[tuple[str, int]]:
        """How many calls of functions have not returned, at the end; [] before."""
        if self._state is None or not self.done:
            return []
        counts = [(each.name, self._state.read_global(f"{CALLS}{each.begun}")
                   - sum([self._state.read_global(f"{CALLS}{number}") for number in each.ended]))
                  for each in self.spec.calls]
        return [(name, count) for name, count in counts if count > 0]

    def _awaits_events(self) -> bool:
        """Is there any program that may still run before end?"""
        return any(point.kind not in ("begin", "end") for program in self.programs for point in program.spec.attach)

    def _start_iterators(self) -> None:
        """They are all that such a script waits for."""
        iterators = self._attachments.start_iterators(self.programs)
        if iterators is not None:
            self.waiting.add_urgent(iterators.fd)

    @property
    def attached(self) -> int:
        """How many attach points there are, each counted for each of its clauses."""
        return self._attachments.count

    @property
    def late_links(self) -> list[Links]:
        """To be filled by who attaches programs to more places while the session runs."""
        return self._attachments.late

    @property
    def warnings(self) -> list[AttachError]:
        """Attach points that were left out (missing_probes=warn)."""
        return self._attachments.warnings

    @property
    def pinned(self) -> list[str]:
        """Files that were made for pinned iterators."""
        iterators = self._attachments.iterators
        return iterators.pinned if iterators is not None else []

    def _all_rings(self) -> list[Ring]:
        return [ring for ring in (self._delivery.data, self._delivery.control) if ring is not None]

    def _open_ring(self, name: str) -> Ring | None:
        ring = self.maps.get(name)
        return Ring(ring.fd, ring.spec.max_entries, os.sysconf("SC_PAGE_SIZE")) if ring else None

    def _set_globals(self) -> None:
        known = {
            "start_ns": boot_time(),
            "most_elapsed": FOREVER,
            "cpid": child.pid if (child := self._child()) is not None else 0,
            "self_pid": os.getpid(),
            "exiting": 0,
            "gate": 0,
            "allowance": 1 << 62,
            "zero": 0,
            "test_result": 0,
            "dump_requested": 0,
            "dumps_held": 0,
            "cpus": os.cpu_count() or 1,
            COUNTING: 0,
        }
        known |= dict.fromkeys([name for name in self.spec.globals if name.startswith((DISCOVERED, CALLS))], 0)
        known |= self._values
        assert self._state is not None
        self._state.write_globals(known)

    def follow(self, log: FollowedLog | None) -> None:
        """Read a log (or None) while the session waits; called before :meth:`attach`."""
        self.waiting.logs += [log] if log is not None else []

    def take_unordered(self) -> Records:
        """What is in the data ring, in its order: for one who asks for no other, and does not :meth:`poll`."""
        data = self._delivery.data
        return Records([data.read_records()] if data is not None else [])

    @property
    def ring_fds(self) -> list[int]:
        """Readable when there is something in a ring."""
        return [ring.fd.fileno() for ring in self._all_rings()]

    # waiting

    def _watch_descriptors(self) -> None:
        wanted = [point.event for spec in self.spec.programs for point in spec.attach if point.kind == "self"]
        if self._handle_signals or wanted:
            self._signals = Signals(self.ending if self._handle_signals else None,
                                    {*wanted, *([ASKS] if self._handle_signals else []),
                                     *([DUMPS] if self._handle_signals and self.flight is not None else [])})
        urgent = [self._signals.fd] if self._signals else []
        urgent += [self.process.fd] if self.process else []
        control = self._delivery.control
        self.waiting.watch(urgent, self.ring_fds, control.fd.fileno() if control is not None else -1)
        if self._act_at_once and control is not None:
            self.waiting.add_prompt(control.fd.fileno())

    def poll(self, timeout: float | None = None) -> Records:
        """The next records in final order, as soon as there are some; none after ``timeout`` seconds or when done."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            self._delivery.read_controls(self._handle_control)
            records, busy = self._delivery.take_records(), False
            if not records and (timeout == 0 or not self._delivery.seconds_until_due()):
                busy = self._delivery.read_data()
                records = self._delivery.take_records()
            self._handle_outside_events()
            if records or self.done or self.maps_requested:
                return records
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return Records()
            if self._full_maps or self._cpu_watch:
                left = LOOK if left is None else min(left, LOOK)
            self.waiting.sleep_until_work(self._delivery, left, busy)

    @property
    def is_holding(self) -> bool:
        """Whether records have been read whose place in the order is not yet certain: poll again in a moment."""
        return bool(self._delivery)

    def _handle_outside_events(self) -> None:
        """Signals, logs that are followed, and the end of the process that is waited for."""
        for log in self.waiting.logs:
            log.drain_rings()
        if self._full_maps.is_due and self._state is not None:
            for full in self._full_maps.find_full(self._state.read_counts()[1]):
                self.tell_full(full)
        if self._cpu_watch is not None and self._cpu_watch.is_due:
            self._tell_cpus()
        if self._budget is not None:
            self._budget.give_notices(self.waiting.woken, self.tell)
        if self._signals is not None:
            for name in self._signals.take_names():
                self.maps_requested |= not self._run_programs("self", name) and name == ASKS
                if self.flight is not None and name == DUMPS:
                    self.flight.dump_requested = True
            if self._signals.interrupted:
                self._set_done("signal")
        iterators = self._attachments.iterators
        if iterators is not None and iterators.done:
            if iterators.error is not None:
                raise iterators.error
            self._set_done("iterators")
        process, child = self.process, self._child()
        if child is not None:
            status = child.poll()
            if status is not None and not self.done:
                self.status = status
                self._set_done("child")
        elif process is not None and not self.done and process.has_ended():
            self._set_done("process")

    def _watch_cpus(self) -> CpuWatch | None:
        if not any(runs_on_cpus(point) for program in self.programs for point in program.spec.attach):
            return None
        from .attach.cpu_watch import CpuWatch
        return CpuWatch(self.programs, self._attachments.links, self._budget is not None)

    def _tell_cpus(self) -> None:
        for change in self._cpu_watch.follow_cpus() if self._cpu_watch is not None else []:
            self.tell(f"WARNING: {change}")

    def _child(self) -> Child | None:
        """The process, if it is a command of the session's own."""
        if self.process is None:
            return None
        from .traced_command import Child
        return self.process if isinstance(self.process, Child) else None

    def _set_done(self, reason: str) -> None:
        if not self.done:
            self.done, self.reason = True, reason

    def request_end(self, reason: str) -> None:
        """End the script from outside, also from another thread: ``done`` from here on, with this ``reason``."""
        self._set_done(reason)
        self.waiting.wake()

    def act_at_once(self, sites: Iterable[int], act: Callable[[int], object]) -> None:
        """To be called before :meth:`attach`: call ``act(site)`` as soon as a control record of these sites is there,
        not in its turn only."""
        self._act_at_once = dict.fromkeys(sites, act)

    def _handle_control(self, site: int, buffer: bytes, offset: int) -> None:
        """A control record has been read: exit() is heeded at once, whatever was sent before it."""
        if site in self._exit_sites:
            self._handle_exit(site, buffer, offset)
        if site in self._act_at_once:
            self._act_at_once[site](site)

    def _handle_exit(self, site: int, buffer: bytes, offset: int) -> None:
        """exit() was called: no program does anything any more; the record keeps its place in the order, and what was
        asked for before it happens while all is still attached. In ``end`` it only changes the status."""
        if self.reason and not self.ending.in_end:  # it has ended for another; "" also while stop() drains
            return
        field = next(iter(self.spec.sites[site].fields), None)
        self.status = _exit_status(buffer, offset + (field.offset if field else CONTROL_HEADER), field)
        self.done, self.reason = True, "exit"
        self.period.end()

    def run_test_program(self, program: LoadedProgram) -> tuple[list[Raw], bool]:
        """Run a program of kind test once: its records in order, and whether all went well: it returned 0, nothing
        failed in it, and it did not end the script with a status."""
        assert self._state is not None
        before = sum([count for _, count in self.losses().errors])
        self._set_globals()
        program.run()
        records = [record for batch in self._drain_rings() for record in batch]
        failures = sum([count for _, count in self.losses().errors]) - before
        well = not self._state.read_global("test_result") and not failures and not self.status
        self.done, self.reason, self.status = False, "", 0
        return records, well

    def discard_records(self) -> None:
        """Throw away whatever programs have sent."""
        for _ in self._drain_rings():
            pass
        self.done, self.reason, self.status = False, "", 0

    def _run_programs(self, kind: str, event: str = "") -> bool:
        """Run the programs of this kind; False if there are none."""
        signal = event.removeprefix("SIG")
        programs = [program for program in self.programs for point in program.spec.attach
                    if point.kind == kind and (not event or point.event.removeprefix("SIG") == signal)]
        for program in programs:
            program.run()
        return bool(programs)

    # ending

    def stop(self) -> list[Raw]:
        """Detach, run end, and give out everything that is left, in order. What is not there is counted as lost."""
        return [record for batch in self.stop_in_batches() for record in batch]

    def _may_still_run(self) -> bool:
        """Whether a program that was detached may be at work: not one that only this thread has run."""
        kinds = [KINDS[program.attach[0].kind] for program in self.spec.programs] if self.attached else []
        return any(not (kind.own or kind.exercise) for kind in kinds)

    def stop_in_batches(self) -> Iterator[Records]:
        """As :meth:`stop`, a batch at a time. The first step detaches; "end" runs when all before it has been taken."""
        if self._stopped or not self._started:
            return
        self._stopped = True
        self.done = True
        self._tell_cpus()
        self._count_calls(0)
        self.period.end()
        if self.reason == "exit":
            yield from self._drain_rings()
        if not self._silence_programs():
            self._detach_programs()
        if self._may_still_run() and not syscalls.wait_for_running_programs():
            time.sleep(0.02)
        yield from self._delivery.drain_rings(self._handle_control)
        moment = boot_time()
        self.ending.in_end = self._run_programs("end")
        if self.flight is not None:
            yield from self.flight.read_since(moment)
        yield from self._delivery.drain_rings(self._handle_control, hurried=False)

    def _detach_programs(self) -> None:
        """Stop the programs; whoever might attach some of them again first."""
        if self._budget is not None:
            self._budget.stop()
        self._attachments.stop()

    def _silence_programs(self) -> bool:
        """Where detaching takes seconds: have the programs do nothing from now on, and leave it to :meth:`close`."""
        slow = self._attachments.slow_links()
        if slow <= MOST_SLOW_LINKS or self._state is None or not self._state.has_global("exiting"):
            return False
        self._state.write_global("exiting", 1)
        self.detaching = slow
        return True

    def _drain_rings(self) -> Iterator[Records]:
        return self._delivery.drain_rings(self._handle_control)

    # figures

    def losses(self) -> Losses:
        """What was lost since the start, by cause; to be asked before :meth:`close`, which keeps the last answer."""
        if not self.maps and self._last_losses is not None:
            return self._last_losses
        lost, failed = self._state.read_counts() if self._state is not None else ([], [])
        misses = [(self._program_name(program), program.program_info().recursion_misses) for program in self.programs]
        misses += self._attachments.links.missed_calls()
        if self._budget is not None:
            misses += self._budget.missed_calls()
        lost = [count + self._delivery.dropped[index] for index, count in enumerate(lost)]
        losses = Losses(records=[(name, n) for name, n in zip(self.spec.probes, lost) if n],
                        errors=[(site, n) for site, n in zip(self.spec.errors, failed) if n],
                        skipped=[(name, n) for name, n in misses if n], late=self._delivery.late,
                        withheld=self._budget.withheld() if self._budget is not None else None,
                        unreturned=self._unreturned_calls(),
                        at_least=FAMILY in self.maps or self._child() is None)
        for log in self.waiting.logs:
            log.count_losses(losses)
        return losses

    def is_incomplete(self, name: str) -> bool:
        """Whether the budget kept back events that would have changed this map."""
        return self._budget is not None and bool(self.maps) and self._budget.is_incomplete(name)

    @staticmethod
    def _program_name(program: LoadedProgram) -> str:
        return program.spec.attach[0].name if program.spec.attach else program.spec.name

    def close(self) -> None:
        """Release everything; slow where perf events must be closed, so print first. Harmless twice."""
        if self._budget is not None:
            self._budget.stop()
        self._attachments.close()
        try:
            if self.maps and len(self.maps) == len(self.spec.maps):
                self._last_losses = self.losses()
        finally:
            self._release_all()

    def _release_all(self) -> None:
        self._loader.close()
        for ring in self._all_rings():
            ring.close()
        if self.flight is not None:
            self.flight.close()
        self.flight = None
        self._delivery.data = self._delivery.control = None
        for thing in (*self.programs, *self.maps.values(), self.process, self._signals, self.waiting,
                      self._statistics):
            if thing is not None:
                thing.close()
        self.programs, self.maps = [], {}
        self._state = self.process = self._signals = self._statistics = None


def _exit_status(buffer: bytes, offset: int, field: EventField | None) -> int:
    if field is None:
        return 0
    return int.from_bytes(buffer[offset:offset + field.type.size], sys.byteorder, signed=True)
