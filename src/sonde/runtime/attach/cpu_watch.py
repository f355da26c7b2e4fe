"""What runs on each CPU, when CPUs come and go while a script runs."""

from __future__ import annotations

import time

from ...errors import MachineError, SondeError
from ...kernel.host import online_cpus
from ..maps.full_maps import LOOK
from .links import Links, attach_to_cpu, is_gated, runs_on_cpus
from .programs import attach_cookie

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...kernel.syscalls import Fd
    from ...spec import Attach
    from .programs import LoadedProgram


class CpuWatch:
    """Attaches to CPUs that come online. The kernel takes the events of a CPU that goes offline away for good
    (``perf_event_exit_cpu`` in kernel/events/core.c), so that one which returns is a new one. ``links`` keeps what is
    attached; ``budgeted``: what a budget may detach is attached by that again, and not here."""

    def __init__(self, programs: list[LoadedProgram], links: Links, budgeted: bool) -> None:
        self._sampled: list[tuple[Attach, Fd, int]] = []  # attach points of each CPU, their programs and cookies
        self._timers: list[tuple[Attach, Fd, int]] = []   # those of one
        self._left: list[str] = []
        for program in programs:
            spec = program.spec
            for index, point in enumerate(spec.attach):
                if not runs_on_cpus(point):
                    continue
                cookie = attach_cookie(spec, index) if spec.cookies else 0
                if budgeted and is_gated(spec):
                    self._left.append(point.name)
                else:
                    (self._timers if point.kind == "interval" else self._sampled).append((point, program.fd, cookie))
        self._links = links
        self._online = online_cpus()
        self._timer_cpu = self._online[0]
        self._blind = False  # the last look saw nothing
        self._next = time.monotonic() + LOOK

    @property
    def is_due(self) -> bool:
        """Whether it is time for another look."""
        return time.monotonic() >= self._next

    def follow_cpus(self) -> list[str]:
        """Attach to those that came since the last look, and move timers off one that went: what to tell of it."""
        self._next = time.monotonic() + LOOK
        before = self._online
        try:
            self._online = online_cpus()
        except MachineError as error:  # no reason to end the trace; without a descriptor, say
            first, self._blind = not self._blind, True
            return [f"CPUs that come online are not seen: {error.message}"] if first else []
        self._blind = False
        if before == self._online:
            return []
        changes = []
        for cpu in self._online:
            if cpu not in before:
                changes += self._attach_all(self._sampled, cpu, f"CPU {cpu} came online: {{}} runs there from now on")
                changes += [f"CPU {cpu} came online: {name} does not run there until the budget attaches it again"
                         for name in self._left]
        if self._timer_cpu not in self._online:
            gone, self._timer_cpu = self._timer_cpu, self._online[0]
            changes += self._attach_all(self._timers, self._timer_cpu,
                                        f"CPU {gone} went offline: {{}} runs on CPU {self._timer_cpu} from now on")
        return changes

    def _attach_all(self, attachments: list[tuple[Attach, Fd, int]], cpu: int, text: str) -> list[str]:
        changes = []
        for point, program, cookie in attachments:
            try:
                attach_to_cpu(point, program, cookie, self._links, cpu)
                changes.append(text.format(point.name))
            except SondeError as error:
                changes.append(f"{point.name} cannot run on CPU {cpu}: {error.message}")
        return changes
