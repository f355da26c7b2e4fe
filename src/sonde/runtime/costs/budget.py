"""``--budget``: keeps a script's programs within a share of one CPU's time.

An account in nanoseconds is credited with the share as time passes and debited with what the programs took: the
kernel's run times, what it spends around each run (see floor.py), and what this keeper itself takes. There are two ways
to spend less. Behind a closed *gate* (see spec.Gate), events are only counted. Where even that is more than half of the
share, the programs are *detached* until the account has recovered: then nothing counts what happens, and the time is
reported in place of a number.

The programs themselves close the gate as soon as the runs that the account can pay for are used up, and only a check of
the account opens it: however late that comes, no more is spent.
"""

from __future__ import annotations

import os
import threading
import time

from ...errors import AttachError, SondeError
from ...kinds import MOST_SLOW_LINKS
from ...layouts.shared_maps import BUDGET, BUDGET_HEAD, STATE
from ...spec import Attach, Gate, ScriptSpec
from ..attach import links as attaching
from ..losses import BudgetLosses
from ..maps.state import State
from .floor import Floor
from .statistics import stats_always_enabled, try_enable_statistics

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..attach.links import Links
    from ..attach.programs import LoadedProgram
    from ..maps.access import Map

RESERVE = 0.2       # s: the account holds the share of so much time at most: what a burst may take
LOOK = 200_000      # ns of CPU time that a look is taken to need at least
LOOKS = 0.2         # of the share: what looks take at most while nothing presses
QUIET = 0.05        # s: the shortest time between looks then
BUSY, SHORTEST = 0.01, 0.002  # s: the shortest while programs are kept back, and when the account is about to be empty
FORGETS = 0.2       # s: the half-life of the rate that events once came at
HELD = 80.0         # ns of a run that ends at the closed gate, statistics included
UNKNOWN = 1500.0    # ns that a run is taken to need before one was measured, or where the kernel does not measure
PRIORITY = -10      # of the keeper's thread, that it comes in time on a busy machine


def _raise_attach_error(error: AttachError, point: Attach) -> None:
    raise error


class Budget:
    """Watches over programs, which hang on ``links``, in a thread of its own between :meth:`start` and :meth:`stop`.
    What has to be said at once is put into ``notices``, and ``wake`` is called."""

    def __init__(self, share: float, spec: ScriptSpec, maps: dict[str, Map], links: Links,
                 wake: Callable[[], object]) -> None:
        assert spec.gate is not None
        self.share = share
        self.gate: Gate = spec.gate
        self._lock = threading.Lock()  # of the links
        self._spec, self._maps, self._links = spec, maps, links
        self._state = State(spec, maps[STATE])
        self._wake = wake  # who waits for notices
        self._statistics = try_enable_statistics()
        self._measured = self._statistics is not None or stats_always_enabled()
        self.notices: list[str] = []
        gated = [program for program in spec.programs if attaching.is_gated(program)]
        self._floor = Floor(gated)
        self._programs: list[LoadedProgram] = []
        self._around = [self._floor.overhead_ns(program) for program in gated]
        self._look = 0.0         # ns of CPU time that a look takes here
        self._balance = self._full / 2
        self._each = UNKNOWN + max(self._around, default=0.0)  # ns of a run that is let through, all about it included
        self._before: list[tuple[int, int]] = []
        self._rate = 0.0         # runs a second, whatever became of them
        self._peak = 0.0         # the same, and slow to forget: a flood that pauses comes back
        self._granted = 0        # runs that were allowed since the last look
        self._runs = self._held_before = 0
        self._own = 0            # ns of this thread's CPU time at the last look
        self._last = self._begun = 0
        self._detached_at = 0    # when the programs were detached; 0: they are attached
        self._detached_ns = 0
        self._spent = 0.0
        self._dropped: dict[str, int] = {}
        self._notified: set[str] = set()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._open_gate()

    # life

    def start(self, programs: list[LoadedProgram]) -> None:
        """All ``programs`` are attached: begin to watch."""
        self._programs = [program for program in programs if attaching.is_gated(program.spec)]
        self._before = [(0, 0)] * len(self._programs)
        self._around = [self._floor.overhead_ns(program.spec) for program in self._programs]
        self._last = self._begun = time.monotonic_ns()
        self._thread = threading.Thread(target=self._keep_budget, name="sonde-budget", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No more looks; the programs stay as they are, but are not measured any longer. Harmless twice."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._detached_at:
            self._detached_ns += time.monotonic_ns() - self._detached_at
            self._detached_at = 0
        if self._statistics is not None:
            self._statistics.close()

    def _keep_budget(self) -> None:
        try:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), PRIORITY)
        except OSError:
            pass  # not permitted: it takes its turn like everybody
        self._own = time.thread_time_ns()
        wait = BUSY / 2  # nobody knows yet what comes
        try:
            while not self._ending.wait(wait):
                wait = self._check_account()
            self._settle_account()
        except SondeError as error:  # what is attached by now stays, behind the closed gate
            self._shut_gate()
            self._queue_notice("ended",
                               f"WARNING: {self.name} cannot attach again what it has detached: {error.message}")

    @property
    def name(self) -> str:
        """As the user wrote it."""
        return f"--budget {100 * self.share:.4g}%"

    # looking

    @property
    def _quiet(self) -> float:
        """Seconds between looks while nothing presses."""
        return max(max(self._look, LOOK) / (LOOKS * self.share * 1e9), QUIET)

    @property
    def _full(self) -> float:
        """What the account holds at most: so much, too, that half of it pays for several looks."""
        return max(self.share * RESERVE * 1e9, 2 * self._look / LOOKS)

    def _check_account(self) -> float:
        """Settle the account and act on it; seconds until the next look."""
        self._settle_account()
        if self._detached_at:
            missing = self._full - self._balance
            if missing > self._full / 4:
                return max(missing / (self.share * 1e9), BUSY)
            self._reattach_programs()
            return self._seconds_until_empty()
        shut = self._state.read_global("gate") != 0
        if shut and self._held_before:
            self._queue_notice("events",
                               f"WARNING: {self.name} is spent: events are being skipped, and counted; maps that "
                                 "they would change are incomplete")
        if self._balance <= 0 or shut and self._balance < self._full / 2:
            self._shut_gate()
            credit, counting = self.share * 1e9, self._rate * self._held_run_cost()  # ns per second
            if counting > credit / 2 and self._links.count_slow_links() <= MOST_SLOW_LINKS:
                self._detach_programs()
            missing = self._full / 2 - self._balance + self._look
            return min(max(missing / max(credit - counting, credit / 2), BUSY), self._quiet)
        if shut:
            self._drop_elements(self.gate.unguarded)
        self._open_gate()
        return self._seconds_until_empty()

    def _seconds_until_empty(self) -> float:
        """How soon the account is empty if events go on as they came, but no sooner than a look can be paid for."""
        spending, soonest = self._peak * self._each, max(self._look / (self.share * 1e9), SHORTEST)
        return min(max(self._balance / spending, soonest), self._quiet) if spending > 0 else self._quiet

    def _held_run_cost(self) -> float:
        return HELD + max(self._around, default=0.0)

    def _settle_account(self) -> None:
        """Credit the time that has passed, debit what was taken in it."""
        now, own = time.monotonic_ns(), time.thread_time_ns()
        passed, held = self._count_granted_runs(), sum(self._held_events())
        took, runs = self._measured_run_times() if self._measured else self._assumed_run_times(passed)
        elapsed = max(now - self._last, 1)
        if passed:
            # What runs with a false predicate took is part of the price of those that were let through.
            price = max(took - (held - self._held_before) * self._held_run_cost(), took * 0.1) / passed
            self._each += (max(price, 10.0) - self._each) / 2
        if not self._detached_at:
            self._rate = runs * 1e9 / elapsed
            self._peak = max(self._rate, self._peak * 0.5 ** (elapsed / (FORGETS * 1e9)))
        spent = took + max(own - self._own, 0)
        self._spent += spent
        self._balance = min(self._balance + self.share * elapsed - spent, self._full)
        self._last, self._own, self._held_before = now, own, held
        self._look += (time.thread_time_ns() - own - self._look) / 2

    def _measured_run_times(self) -> tuple[float, int]:
        """(nanoseconds, runs) since the last look, by the kernel's statistics."""
        took, runs = 0.0, 0
        for number, program in enumerate(self._programs):
            info = program.program_info()
            time_before, runs_before = self._before[number]
            new = info.run_count - runs_before
            took += info.run_time_ns - time_before + new * self._around[number]
            runs += new
            self._before[number] = info.run_time_ns, info.run_count
        return took, runs

    def _assumed_run_times(self, passed: int) -> tuple[float, int]:
        """The same where the kernel keeps no statistics: the programs' own count of their runs, at fixed prices."""
        runs, _ = self._read_counts()
        new, self._runs = runs - self._runs, runs
        around = max(self._around, default=0.0)
        return passed * UNKNOWN + new * (HELD + around), new

    def _count_granted_runs(self) -> int:
        """How many runs were let through since the last look, up to what the CPUs have in their purses."""
        left = max(self._state.read_global("allowance"), 0)
        taken, self._granted = max(self._granted - left, 0), left
        return taken

    # gate

    def _open_gate(self) -> None:
        """Allow the runs that the account can pay for."""
        self._granted = max(int(self._balance / self._each), 1)
        self._state.write_global("allowance", self._granted)
        self._state.write_global("gate", 0)

    def _shut_gate(self) -> None:
        self._state.write_global("gate", 1)
        self._state.write_global("allowance", 0)
        self._granted = 0

    def _detach_programs(self) -> None:
        self._queue_notice("detached",
                           f"WARNING: {self.name} cannot pay for counting this many events: probes are detached "
                               "for part of the time")
        with self._lock:
            self._detached_at = time.monotonic_ns()
            self._links.close()

    def _reattach_programs(self) -> None:
        """All of them behind the closed gate, so that they begin together."""
        self._drop_elements(self.gate.pairs)
        with self._lock:
            for program in self._programs:
                self._attach_program(program)
            self._settle_account()
            self._detached_ns += time.monotonic_ns() - self._detached_at
            self._detached_at = 0
        self._open_gate()

    def _attach_program(self, program: LoadedProgram) -> None:
        spec = program.spec
        if not (attaching.multi_attach_type(spec)
                and attaching.attach_multi(spec, program.fd, self._links, _raise_attach_error)):
            attaching.attach_program(spec, program.fd, self._links, _raise_attach_error)

    def _drop_elements(self, names: list[str]) -> None:
        """Empty maps of beginnings whose end may have been missed."""
        for name in names:
            for each in (name, self._maps[name].spec.short):
                if each:
                    self._dropped[name] = self._dropped.get(name, 0) + len(self._maps[each].read_and_clear())

    def _queue_notice(self, what: str, text: str) -> None:
        if what not in self._notified:
            self._notified.add(what)
            self.notices.append(text)
            self._wake()

    def give_notices(self, woken: int, tell: Callable[[str], object]) -> None:
        """Say what there is to say, if ``woken``, an eventfd, tells that there is."""
        try:
            os.eventfd_read(woken)
        except BlockingIOError:
            return
        while self.notices:
            tell(self.notices.pop(0))

    # words that programs and runtime share

    def _held_events(self) -> list[int]:
        """Events that found the gate closed, by probe."""
        return self._read_counts()[1]

    def _read_counts(self) -> tuple[int, list[int]]:
        """What the programs have counted: their runs, and the events that found the gate closed, by probe."""
        memory = self._maps[BUDGET]
        stride, count = memory.spec.stride // 8, len(self._spec.probes)
        with memoryview(memory.memory) as view, view.cast("Q") as words:
            slots = [words[at:at + BUDGET_HEAD + count].tolist() for at in range(0, memory.spec.cpus * stride, stride)]
        _, runs, *held = map(sum, zip(*slots))
        return runs, held

    # figures

    def missed_calls(self) -> list[tuple[str, int]]:
        """Links.missed_calls() of the budget's links."""
        with self._lock:
            return self._links.missed_calls()

    def withheld(self) -> BudgetLosses:
        """What was kept back so far."""
        with self._lock:  # else the keeper may be about to count the same time
            now = time.monotonic_ns()
            detached_ns = self._detached_ns + (now - self._detached_at if self._detached_at else 0)
        return BudgetLosses(self.share, [(name, n) for name, n in zip(self._spec.probes, self._held_events()) if n],
                        detached_ns, now - self._begun if self._begun else 0, int(self._spent),
                        sorted((name, n) for name, n in self._dropped.items() if n))

    def is_incomplete(self, name: str) -> bool:
        """Whether events were kept back that would have changed this map."""
        probes = self.gate.touched.get(name)
        if not probes:
            return False
        if self._detached_ns or self._detached_at:
            return True
        held = self._held_events()
        return any(held[probe] for probe in probes)
