"""What a script's programs cost, by the kernel's own count of their runs and run time."""

from __future__ import annotations

from ...base.record import Record
from ...errors import PrivilegeError
from ...spec import describe_method

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...kernel.syscalls import Fd
    from ..session import Session

_SYSCTL = "/proc/sys/kernel/bpf_stats_enabled"


class Cost(Record):
    """What a program took over ``seconds``: ``runs`` and ``time_ns`` are the kernel's run_cnt and run_time_ns, with the
    time that the measuring itself takes; ``skipped`` how often the kernel did not run it, since it was running on that
    CPU already."""

    runs: int
    time_ns: int
    skipped: int
    seconds: float

    @property
    def mean(self) -> float:
        """Nanoseconds of a run; 0 without any."""
        return self.time_ns / self.runs if self.runs else 0.0

    @property
    def share(self) -> float:
        """Of one CPU's time, 0 to the number of CPUs."""
        return self.time_ns / 1e9 / self.seconds if self.seconds else 0.0


class ProbeCost(Cost):
    """One program of a trace; one that serves several attach points is called after the first.

    ``lost`` are the records that found the ring full. ``method`` says to what it is attached where that is not the
    probe itself: a program on the raw tracepoint sys_enter runs at every system call.
    """

    probe: str
    method: str
    points: int
    lost: int


def enable_statistics() -> Fd | None:
    """Have the kernel count runs and their time while the descriptor is open. None where sysctl
    kernel.bpf_stats_enabled has it count always; PrivilegeError without CAP_SYS_ADMIN."""
    from ...kernel import syscalls
    try:
        return syscalls.enable_stats()
    except PrivilegeError as error:
        if stats_always_enabled():
            return None
        error.hints = [*error.hints, "or let root count for everyone: sysctl kernel.bpf_stats_enabled=1"]
        raise


def try_enable_statistics() -> Fd | None:
    """The same; None also where it is not permitted."""
    try:
        return enable_statistics()
    except PrivilegeError:
        return None


def stats_always_enabled() -> bool:
    """Whether sysctl kernel.bpf_stats_enabled is on."""
    try:
        with open(_SYSCTL, encoding="ascii") as file:
            return file.read().strip() == "1"
    except OSError:
        return False


def probe_costs(session: Session) -> list[ProbeCost]:
    """The cost of each of a session's programs since it attached, in the script's order."""
    lost = dict(session.losses().records)
    seconds = session.period.nanoseconds / 1e9
    costs = []
    for program in session.programs:
        info, points = program.program_info(), program.spec.attach
        missing = sum([lost.pop(point.name, 0) for point in points])
        costs.append(ProbeCost(
            info.run_count, info.run_time_ns, info.recursion_misses, seconds,
            probe=points[0].name if points else program.spec.name, method=describe_method(program.spec.method),
            points=len(points), lost=missing))
    return costs
