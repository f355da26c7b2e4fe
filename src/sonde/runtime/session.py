"""A script at work: from spec to attached programs, ordered records, losses, and back to nothing attached.

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
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from ..ending import Ending
from ..errors import AttachError, SondeError, VerifierError
from ..kernel import syscalls
from ..kernel.syscalls import Fd
from ..spec import (
    CONTROL_HEADER,
    CONTROL_RING,
    DATA_RING,
    STATE,
    Attach,
    EventField,
    MapSpec,
    ProgramSpec,
    ScriptSpec,
)
from . import links as attaching
from . import maps as mapping
from .child import Child, Process
from .delivery import REST, Delivery
from .links import Links
from .losses import Losses
from .maps import Map
from .order import Raw
from .programs import Program, apart, load, target_of
from .ringbuf import Ring, ring_bytes
from .signals import Signals

if TYPE_CHECKING:
    from .budget import Budget
    from .iterators import Iterators

ASKS = "SIGUSR1"
SLOW = 20  # links, the closing of which the results need not wait for


class Session:
    """Runs one ScriptSpec. ``done`` says that the script has ended, ``reason`` why: exit, signal, child, process,
    iterators (all of them have been read), begin (there is no other probe to wait for), or what :meth:`end` was given.

    ``values`` gives the spec's globals beyond those that the session knows (start_ns, cpid, self_pid, cpus).
    ``handle_signals``: SIGINT, SIGTERM and SIGHUP end the session (main thread only), and then ``ending`` says since
    when. ``process`` ends it by its own end; a Child is started when everything is attached. ``memory`` bounds the
    bytes of records that are held. ``budget``: the share of one CPU's time that the programs may take, if the script is
    compiled for one.
    """

    def __init__(self, spec: ScriptSpec, process: Process | None = None, values: Mapping[str, int] | None = None,
                 handle_signals: bool = False, run_statistics: bool = False, ending: Ending | None = None,
                 memory: int = 16 << 20, budget: float = 0.0) -> None:
        self.spec = spec
        self.ending = ending or Ending()
        self.process = process
        self.maps: dict[str, Map] = {}
        self.programs: list[Program] = []
        self.warnings: list[AttachError] = []  # attach points that were left out (missing_probes=warn)
        self.done = False
        self.reason = ""
        self.asked = False  # SIGUSR1 came, and no probe wants it: print the maps as they are
        self.status = 0  # of exit(), or of the child
        self.attached = 0
        self.detaching = 0  # links that close() will have to wait for, when the trace has been stopped without that
        self._values = dict(values or {})
        self._links = Links()
        self._memory = memory
        self._delivery = Delivery(spec, None, None, memory, self.ending)
        self._gated = Links()  # of the programs that a budget may detach
        self._budget: Budget | None = None
        self._share = budget if spec.gate is not None else 0.0
        self.tell: Callable[[str], object] = str  # is told, while the session waits, what cannot wait for its end
        self._idle: Any = None    # epoll of everything
        self._urgent: Any = None  # epoll of all but the rings
        self._woken = -1          # an eventfd: end() was called
        self._signals: Signals | None = None
        self._handle_signals = handle_signals
        self._statistics: Fd | None = None
        if run_statistics:
            from .statistics import enable
            self._statistics = enable()
        self._span = [0, 0]  # monotonic nanoseconds when all was attached, and when detaching began
        self._started = False
        self._stopped = False
        self._last_losses: Losses | None = None
        self._iterators: Iterators | None = None
        self._followed: Any = None  # a MappingLog
        self._unmatched: list[AttachError] = []  # of attach points that a pattern found
        self._exit_sites = {index for index, site in enumerate(spec.sites) if site.kind == "exit"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # starting

    def load(self) -> None:
        """Create the maps and load the programs; nothing runs yet. VerifierError, PrivilegeError, SondeError."""
        if self.maps:
            return
        cpus = mapping.possible_cpus()
        for spec in self.spec.maps:
            self.maps[spec.name] = mapping.create(self._sized(spec), cpus)
        self._delivery = Delivery(self.spec, self._ring(DATA_RING), self._ring(CONTROL_RING), self._memory, self.ending)
        self._set_globals()
        modules: dict[str, Fd | None] = {}
        try:
            for program in [part for spec in self.spec.programs for part in apart(spec)]:
                self._load_into(program, modules)
        finally:
            for fd in modules.values():
                if fd is not None:
                    fd.close()

    def _load_into(self, spec: ProgramSpec, modules: dict[str, Fd | None]) -> None:
        if spec.parts and not self._load_session(spec):
            for part in spec.parts:
                self._load_into(part, modules)
        if spec.parts:
            return
        module = spec.attach[0].extra.get("module", "vmlinux") if spec.attach_btf_id else "vmlinux"
        if module != "vmlinux" and module not in modules:
            modules[module] = target_of(module)
        try:
            self.programs.append(self._load_program(spec, attach_btf=modules.get(module)))
        except AttachError as error:
            self._missing(attaching.explain_load(spec.attach[0], error), spec.attach[0])

    def _load_session(self, spec: ProgramSpec) -> bool:
        """Load entry and return as one program; False if the kernel will not have it: then its parts say why."""
        try:
            self.programs.append(load(spec, self.maps, self.spec.config.license, self.spec.config.log_size,
                                      attaching.multi_type(spec)))
            return True
        except VerifierError:
            return False

    def _load_program(self, spec: ProgramSpec, multi: bool = True, attach_btf: Fd | None = None) -> Program:
        config = self.spec.config
        together = attaching.multi_type(spec) if multi else 0
        if together:
            try:
                return load(spec, self.maps, config.license, config.log_size, together)
            except VerifierError:
                pass  # kernels before that attach type refuse it; if the script is at fault the next load says so
        return load(spec, self.maps, config.license, config.log_size, attach_btf=attach_btf)

    def attach(self) -> None:
        """Run begin, then attach everything else and start the child. AttachError as config.missing_probes says."""
        self.load()
        self._watch()
        self._started = True
        self._run("begin")
        self._delivery.read_controls(self._notice)
        if self._share:
            from .budget import Budget
            self._budget = Budget(self._share, self.spec, self.maps, self._gated, self._wake)
        for program in attaching.in_order(self.programs):
            self._attach_program(program)
        self._sum_up()
        if not self.done:
            self._start_iterators()
        if not self.attached and self.warnings:
            raise AttachError("no probe could be attached", self.warnings[0].probe, self.warnings[0].errno,
                              [warning.message for warning in self.warnings[:5]])
        self._span[0] = time.monotonic_ns()
        if self.done:  # begin called exit()
            return
        if self._budget is not None:
            self._budget.start(self.programs)
        if isinstance(self.process, Child):
            self.process.start()
        elif not self._awaits_events():
            self._end("begin")

    def _awaits_events(self) -> bool:
        """Is there any program that may still run before end?"""
        return any(point.kind not in ("begin", "end") for program in self.programs for point in program.spec.attach)

    def _attach_program(self, program: Program) -> None:
        spec = program.spec
        links = self._gated if self._budget is not None and attaching.is_gated(spec) else self._links
        if attaching.multi_type(spec):
            if attaching.attach_multi(spec, program.fd, links):
                self.attached += len(spec.attach) * sum([part.clauses for part in spec.parts] or [spec.clauses])
                return
            if spec.parts:  # some function cannot be had: the parts find out which
                self._attach_parts(program)
                return
            program.fd.close()
            program.fd = self._load_program(spec, multi=False).fd
        self.attached += attaching.attach(spec, program.fd, links, self._missing) * spec.clauses

    def _attach_parts(self, program: Program) -> None:
        at = self.programs.index(program)
        program.close()
        self.programs[at:at + 1] = parts = [self._load_program(part) for part in program.spec.parts]
        for part in parts:
            self._attach_program(part)

    def _missing(self, error: AttachError, point: Attach) -> None:
        policy = self.spec.config.missing_probes
        if point.extra.get("wildcard"):
            self._unmatched.append(error)
        elif policy == "error":
            raise error
        elif policy == "warn":
            self.warnings.append(error)

    def _start_iterators(self) -> None:
        """They are all that such a script waits for."""
        for program in self.programs:
            point = program.spec.attach[0]
            if point.kind == "iter":
                if self._iterators is None:
                    from .iterators import Iterators
                    self._iterators = Iterators()
                if "pin" in point.extra:
                    self._iterators.pin(point.name, program.fd, point.extra["pin"])
                else:
                    self._iterators.add(point.name, program.fd)
        if self._iterators is not None:
            for waiting in (self._urgent, self._idle):
                waiting.register(self._iterators.fd, 1)
            self._iterators.start()

    @property
    def pinned(self) -> list[str]:
        """Files that were made for pinned iterators."""
        return self._iterators.pinned if self._iterators is not None else []

    def _sum_up(self) -> None:
        """One warning for all functions that a pattern found and that cannot be attached."""
        left, self._unmatched = self._unmatched, []
        if left:
            more = f" and {len(left) - 3} more" if len(left) > 3 else ""
            names = ", ".join(error.probe for error in left[:3])
            self.warnings.append(AttachError(
                f"left out, since the kernel cannot attach there: {names}{more}", left[0].probe, left[0].errno,
                [left[0].message]))

    def _sized(self, spec: MapSpec) -> MapSpec:
        """Rings get their size here: it is the machine's business."""
        if spec.type != "ringbuf" or spec.max_entries:
            return spec
        return MapSpec(spec.name, spec.type, 0, 0, ring_bytes(spec.name, self.spec.config.perf_rb_pages), spec.flags)

    def _rings(self) -> list[Ring]:
        return [ring for ring in (self._delivery.data, self._delivery.control) if ring is not None]

    def _ring(self, name: str) -> Ring | None:
        ring = self.maps.get(name)
        return Ring(ring.fd, ring.spec.max_entries, os.sysconf("SC_PAGE_SIZE")) if ring else None

    def _set_globals(self) -> None:
        names = self.spec.globals
        if not names:
            return
        known = {
            "start_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME),
            "cpid": self.process.pid if isinstance(self.process, Child) else 0,
            "self_pid": os.getpid(),
            "exiting": 0,
            "gate": 0,
            "allowance": 1 << 62,
            "zero": 0,
            "test_result": 0,
            "cpus": os.cpu_count() or 1,
        } | self._values
        unknown = [name for name in names if name not in known]
        if unknown:
            raise SondeError(f"no value is given for {', '.join(unknown)}")
        words = [known[name] & (1 << 64) - 1 for name in names]
        at = 8 * (len(self.spec.probes) + len(self.spec.errors))
        struct.pack_into(f"={len(words)}Q", self.maps[STATE].memory, at, *words)

    def follow(self, log: Any) -> None:
        """Read a log of mappings (or None) while the session waits; called before :meth:`attach`."""
        self._followed = log

    # waiting

    def _watch(self) -> None:
        import select

        wanted = [point.event for spec in self.spec.programs for point in spec.attach if point.kind == "self"]
        if self._handle_signals or wanted:
            self._signals = Signals(self.ending if self._handle_signals else None,
                                    {*wanted, *([ASKS] if self._handle_signals else [])})
        urgent = [self._signals.fd] if self._signals else []
        urgent += [self.process.fd] if self.process else []
        self._woken = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        urgent.append(self._woken)
        rings = [ring.fd.fileno() for ring in self._rings()]
        rings += self._followed.fds if self._followed is not None else []
        self._urgent, self._idle = select.epoll(), select.epoll()
        for fd in urgent:
            self._urgent.register(fd, select.EPOLLIN)
        for fd in urgent + rings:
            self._idle.register(fd, select.EPOLLIN)

    def poll(self, timeout: float | None = None) -> list[Raw]:
        """The next records in final order, as soon as there are some; [] after ``timeout`` seconds or when done."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            self._delivery.read_controls(self._notice)
            records, busy = self._delivery.take(), False
            if not records:
                busy = self._delivery.read()
                records = self._delivery.take()
            self._look_around()
            if records or self.done or self.asked:
                return records
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return []
            self._wait(left, busy)

    def fileno(self) -> int:
        """A descriptor that is readable when there is something for :meth:`poll`; for event loops."""
        return int(self._idle.fileno())

    @property
    def holding(self) -> bool:
        """Whether records have been read whose place in the order is not yet certain: poll again in a moment."""
        return bool(self._delivery)

    def _wait(self, left: float | None, busy: bool) -> None:
        """Sleep until there is something to do, but look at the rings no more often than each few milliseconds."""
        if not self._delivery:
            self._idle.poll(left)
            self._urgent.poll(REST if left is None else min(left, REST))
            return
        held = REST if busy else max(REST, self._delivery.patience())
        self._urgent.poll(held if left is None else min(left, held))

    def _look_around(self) -> None:
        """Signals, mappings, and the end of the process that is waited for."""
        if self._followed is not None:
            self._followed.read()
        if self._budget is not None:
            self._budget.give_notices(self._woken, self.tell)
        if self._signals is not None:
            for name in self._signals.take():
                self.asked |= not self._run("self", name) and name == ASKS
            if self._signals.interrupted:
                self._end("signal")
        if self._iterators is not None and self._iterators.done:
            if self._iterators.error is not None:
                raise self._iterators.error
            self._end("iterators")
        process = self.process
        if isinstance(process, Child):
            status = process.poll()
            if status is not None and not self.done:
                self.status = status
                self._end("child")
        elif process is not None and not self.done and process.ended():
            self._end("process")

    def _end(self, reason: str) -> None:
        if not self.done:
            self.done, self.reason = True, reason

    def end(self, reason: str) -> None:
        """End the script from outside, also from another thread: ``done`` from here on, with this ``reason``."""
        self._end(reason)
        self._wake()

    def _wake(self) -> None:
        """For one who waits in poll()."""
        if self._woken >= 0:
            os.eventfd_write(self._woken, 1)

    def _notice(self, site: int, buffer: bytes, offset: int) -> None:
        """A control record has been read: exit() is heeded at once, whatever was sent before it."""
        if site in self._exit_sites:
            self._exit(site, buffer, offset)

    def _exit(self, site: int, buffer: bytes, offset: int) -> None:
        """exit() was called: no program does anything any more; the record keeps its place in the order, and what was
        asked for before it happens while all is still attached."""
        if not self.done:
            field = next(iter(self.spec.sites[site].fields), None)
            self.status = _status(buffer, offset + (field.offset if field else CONTROL_HEADER), field)
            self._end("exit")
            self._span[1] = time.monotonic_ns()

    def global_word(self, name: str) -> int:
        """What is now in one of the spec's globals; 0 if it has none of that name."""
        if name not in self.spec.globals:
            return 0
        at = 8 * (len(self.spec.probes) + len(self.spec.errors) + self.spec.globals.index(name))
        return int.from_bytes(self.maps[STATE].memory[at:at + 8], sys.byteorder, signed=True)

    def rehearse(self, program: Program) -> tuple[list[Raw], bool]:
        """Run a program of kind test once: its records in order, and whether all went well: it returned 0, nothing
        failed in it, and it did not end the script with a status."""
        before = sum([count for _, count in self.losses().errors])
        self._set_globals()
        program.run()
        records = [record for batch in self._flush() for record in batch]
        failures = sum([count for _, count in self.losses().errors]) - before
        well = not self.global_word("test_result") and not failures and not self.status
        self.done, self.reason, self.status = False, "", 0
        return records, well

    def discard(self) -> None:
        """Throw away whatever programs have sent."""
        for _ in self._flush():
            pass
        self.done, self.reason, self.status = False, "", 0

    def _run(self, kind: str, event: str = "") -> bool:
        """Run the programs of this kind; False if there are none."""
        found = [program for program in self.programs for point in program.spec.attach
                 if point.kind == kind and (not event or point.event.removeprefix("SIG") == event.removeprefix("SIG"))]
        for program in found:
            program.run()
        return bool(found)

    # ending

    def stop(self) -> list[Raw]:
        """Detach, run end, and give out everything that is left, in order. What is not there is counted as lost."""
        return [record for batch in self.finish() for record in batch]

    def finish(self) -> Iterator[list[Raw]]:
        """As :meth:`stop`, a batch at a time. The first step detaches; "end" runs when all before it has been taken."""
        if self._stopped or not self._started:
            return
        self._stopped = True
        self.done = True
        self._span[1] = self._span[1] or time.monotonic_ns()
        if self.reason == "exit":
            yield from self._flush()
        if not self._silence():
            self._detach()
        if self.attached and not syscalls.wait_for_running_programs():
            time.sleep(0.02)
        yield from self._delivery.rest(self._notice)
        self._run("end")
        yield from self._delivery.rest(self._notice, hurried=False)

    def _detach(self) -> None:
        """Stop the programs; whoever might attach some of them again first."""
        if self._budget is not None:
            self._budget.stop()
        for links in (self._gated, self._links):
            links.stop()

    def _silence(self) -> bool:
        """Where detaching takes seconds: have the programs do nothing from now on, and leave it to :meth:`close`."""
        slow = self._gated.slow() + self._links.slow()
        if slow <= SLOW or "exiting" not in self.spec.globals:
            return False
        at = 8 * (len(self.spec.probes) + len(self.spec.errors) + self.spec.globals.index("exiting"))
        struct.pack_into("=Q", self.maps[STATE].memory, at, 1)
        self.detaching = slow
        return True

    def _flush(self) -> Iterator[list[Raw]]:
        return self._delivery.rest(self._notice)

    # figures

    def losses(self) -> Losses:
        """What was lost since the start, by cause; to be asked before :meth:`close`, which keeps the last answer."""
        if not self.maps and self._last_losses is not None:
            return self._last_losses
        probes, errors = len(self.spec.probes), len(self.spec.errors)
        counts = [0] * (probes + errors)
        if STATE in self.maps:
            counts = memoryview(self.maps[STATE].memory[:8 * len(counts)]).cast("Q").tolist()
        misses = [(self._name(program), program.info().recursion_misses) for program in self.programs]
        misses += self._links.missed()
        if self._budget is not None:
            misses += self._budget.missed()
        lost = [count + self._delivery.dropped[index] for index, count in enumerate(counts[:probes])]
        return Losses(records=[(name, n) for name, n in zip(self.spec.probes, lost) if n],
                      errors=[(site, n) for site, n in zip(self.spec.errors, counts[probes:]) if n],
                      skipped=[(name, n) for name, n in misses if n], late=self._delivery.late,
                      short=self._followed.short if self._followed is not None else 0,
                      unseen=self._followed.lost if self._followed is not None else 0,
                      withheld=self._budget.withheld() if self._budget is not None else None)

    def is_incomplete(self, name: str) -> bool:
        """Whether the budget kept back events that would have changed this map."""
        return self._budget is not None and bool(self.maps) and self._budget.is_incomplete(name)

    @property
    def traced_ns(self) -> int:
        """For how long everything has been attached."""
        begin, end = self._span
        return max((end or time.monotonic_ns()) - begin, 0) if begin else 0

    @property
    def started(self) -> int:
        """When all was attached, in nanoseconds since 1970; now, if that has not happened."""
        begin, now = self._span[0], time.monotonic_ns()
        return time.time_ns() - (now - (begin or now))

    @staticmethod
    def _name(program: Program) -> str:
        return program.spec.attach[0].name if program.spec.attach else program.spec.name

    def close(self) -> None:
        """Release everything; slow where perf events must be closed, so print first. Harmless twice."""
        if self._budget is not None:
            self._budget.stop()
        for links in (self._gated, self._links):
            links.close()
        if self._iterators is not None:
            self._iterators.close()
        if self.maps and len(self.maps) == len(self.spec.maps):
            self._last_losses = self.losses()
        for ring in self._rings():
            ring.close()
        self._delivery.data = self._delivery.control = None
        for thing in (*self.programs, *self.maps.values(), self.process, self._signals, self._urgent, self._idle,
                      self._statistics):
            if thing is not None:
                thing.close()
        self.programs, self.maps = [], {}
        if self._woken >= 0:
            os.close(self._woken)
            self._woken = -1
        self.process = self._signals = self._urgent = self._idle = self._statistics = None


def _status(buffer: bytes, offset: int, field: EventField | None) -> int:
    if field is None:
        return 0
    return int.from_bytes(buffer[offset:offset + field.type.size], sys.byteorder, signed=True)
