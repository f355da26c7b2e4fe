"""Attaching programs: one function for each kind of attach point, and detaching in two steps.

A *link* keeps a program attached; closing it stops the program. Tracepoints and uprobes that go through perf events
also have the event, and closing those takes the kernel tens of milliseconds each (it waits, under one lock, for
everybody to leave the tracepoint). So :meth:`Links.detach_all` closes the links, and :meth:`Links.close`, called after
the last line has been printed, the events. Closing such a link waits as long, but many can wait at once.
"""

from __future__ import annotations

import errno
import os
from itertools import takewhile

from ...base.record import Record
from ...errors import AttachError, SondeError, SyscallError
from ...kernel import syscalls
from ...kernel.host import online_cpus
from ...kernel.places import TRACEFS_MOUNTS
from ...kernel.syscalls import Fd
from ...kinds import KINDS, kinds_with
from ...layouts.uapi import (
    BPF_TRACE_FENTRY,
    BPF_TRACE_FEXIT,
    BPF_TRACE_KPROBE_MULTI,
    BPF_TRACE_KPROBE_SESSION,
    BPF_TRACE_UPROBE_MULTI,
    HARDWARE_EVENTS,
    PERF_ATTR_DISABLED,
    PERF_ATTR_INHERIT,
    PERF_ATTR_INHERIT_THREAD,
    PERF_COUNT_SW_CPU_CLOCK,
    PERF_EVENT_IOC_ENABLE,
    PERF_EVENT_IOC_SET_BPF,
    PERF_TYPE_BREAKPOINT,
    PERF_TYPE_HARDWARE,
    PERF_TYPE_SOFTWARE,
    PERF_TYPE_TRACEPOINT,
    SOFTWARE_EVENTS,
)
from ...spec import Attach, KernelDetail, ProgramSpec, WatchDetail, detail_of, serves_all
from .programs import TRACING_MULTI, LoadedProgram, attach_cookie, probe_index
from .side_by_side import run_in_threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias


class Links:
    """Everything that one session has attached."""

    def __init__(self) -> None:
        self._links: list[tuple[Fd, bool, str]] = []  # (link, whether closing it waits, its name if it can miss)
        self._events: list[Fd] = []
        self._missed: list[tuple[str, int]] = []  # of links that are closed

    def __len__(self) -> int:
        return len(self._links)

    def hold_link(self, link: Fd, waits: bool = False, name: str = "") -> None:
        """Keep a link that needs no event. ``name``: the kernel counts what it misses, to be told under this name."""
        self._links.append((link, waits, name))

    def attach_to_event(self, program: Fd, event: Fd, cookie: int, start: bool = False, name: str = "") -> None:
        """Run ``program`` on a perf event; ``start``: the event was opened disabled, and closes quickly."""
        try:
            link = _link_event(program, event, cookie)
        except SondeError:
            event.close()
            raise
        self._events.append(event)
        self.hold_link(link, not start, "" if link is event else name)
        if start or link is event:
            syscalls.perf_event_ioctl(event, PERF_EVENT_IOC_ENABLE)

    def count_slow_links(self) -> int:
        """How many links the kernel closes one by one, with a pause for each."""
        return sum(waits for _, waits, _ in self._links)

    def detach_all(self, keep: int = 0) -> None:
        """Detach every program (but the first ``keep``); when this returns none of them is started any more."""
        going, self._links = self._links[keep:], self._links[:keep]
        self._missed += _missed_calls(going)
        for link, waits, _ in going:
            if not waits:
                link.close()
        run_in_threads(Fd.close, [link for link, waits, _ in going if waits])

    def missed_calls(self) -> list[tuple[str, int]]:
        """(name, calls) that the kernel could not report: too many at once, or nested (Linux 6.8)."""
        return self._missed + _missed_calls(self._links)

    def close(self) -> None:
        """Release the events too; slow, see above."""
        self.detach_all()
        while self._events:
            self._events.pop().close()


def _link_event(program: Fd, event: Fd, cookie: int) -> Fd:
    """A link; before Linux 5.15, which has none for events, the event itself, which holds the program then."""
    try:
        return syscalls.link_perf_event(program, event, cookie)
    except SyscallError as error:
        if error.errno != errno.EINVAL or cookie:
            raise
    syscalls.perf_event_ioctl(event, PERF_EVENT_IOC_SET_BPF, program.number)
    return event


def _missed_calls(links: list[tuple[Fd, bool, str]]) -> list[tuple[str, int]]:
    counts = [(name, syscalls.link_missed(link)) for link, _, name in links if name]
    return [(name, count) for name, count in counts if count]


def is_gated(program: ProgramSpec) -> bool:
    """Whether a budget may hold back or detach a program."""
    return not KINDS[program.attach[0].kind].exempt


def attach_order(programs: list[LoadedProgram]) -> list[LoadedProgram]:
    """The order in which to attach, so that programs of one place run in the script's order, and those that the clock
    runs come last."""
    kinds = [KINDS[program.spec.attach[0].kind] for program in programs]
    plain, turned, ticking = [
        [program for program, kind in zip(programs, kinds) if (kind.newest_first, kind.ticks) == which]
        for which in ((False, False), (True, False), (False, True))]
    return [*plain, *reversed(turned), *ticking]


Missing: TypeAlias = "Callable[[AttachError, Attach], None]"
Refused: TypeAlias = "dict[int, tuple[AttachError, Attach]]"  # attach points, by their indices
# (attach point, program, cookie, where to keep the link)
Attacher: TypeAlias = "Callable[[Attach, Fd, int, Links], None]"


def attach_program(spec: ProgramSpec, program: Fd, links: Links, missing: Missing) -> int:
    """Attach ``program`` to all attach points of ``spec``; says how many. One that fails is handed to ``missing``,
    which may raise."""
    if serves_all(spec.method):
        category, _, event = spec.method.partition(":")
        kind = "rawtracepoint" if category == "raw" else "tracepoint"
        point = Attach(kind, spec.attach[0].name, category, event)
        mark = spec.first_probe if spec.cookies else 0
        return len(spec.attach) * _try_attach(point, missing, ATTACHERS[kind], program, mark, links)
    if spec.method in TRACING_MULTI:
        wanted = len(spec.attach)
        refused = _attach_in_parts(spec, lambda members: _attach_traced_multi(spec, program, links, members),
                                   range(wanted))
        _leave_out(spec, refused, missing)
        return wanted - len(refused)
    done = 0
    for index, point in enumerate(spec.attach):
        if KINDS[point.kind].session or KINDS[point.kind].user and not point.target:  # late_images.py attaches it
            done += 1
        else:
            mark = attach_cookie(spec, index) if spec.cookies else 0
            attacher = ATTACHERS["rawtracepoint" if spec.method == "raw" else spec.method or point.kind]
            done += _try_attach(point, missing, attacher, program, mark, links)
    return done


def attach_multi(spec: ProgramSpec, program: Fd, links: Links, missing: Missing) -> bool:
    """Attach a program that was loaded for ``multi_attach_type(spec)`` to all its attach points, in one call, or per
    file; what the kernel refuses of a file's is left out, and handed to ``missing``.

    False, and nothing attached, if the kernel refuses any function of its own, or all of a program's: then attach one
    by one, to learn which.
    """
    kind = multi_attach_type(spec)
    if kind == BPF_TRACE_UPROBE_MULTI:
        return _attach_uprobes_multi(spec, program, links, missing)
    before = len(links)
    try:
        if spec.method in TRACING_MULTI:
            _attach_traced_multi(spec, program, links, range(len(spec.attach)))
        else:
            _attach_kprobes_multi(spec, program, links)
    except SyscallError:
        links.detach_all(before)
        return False
    return True


def multi_attach_type(spec: ProgramSpec) -> int:
    """The attach type with which one link serves many attach points, attached and detached at once; 0 if none does.

    uprobe.multi (Linux 6.6) had a process filter by thread at first (fixed in 6.10), so with a filter it is for later
    kernels. kprobe.multi (5.18, if built with FPROBE) passes fewer registers than a kprobe, so one function is left to
    a kprobe; a return probe gains by it from 6.14 on, since any number of calls may be under way then.
    """
    if spec.method in TRACING_MULTI:
        return TRACING_MULTI[spec.method]
    if spec.parts:
        return BPF_TRACE_KPROBE_SESSION
    kinds = {spec.method or a.kind for a in spec.attach}
    if kinds and kinds <= set(kinds_with("user")):
        pids = {a.pid for a in spec.attach}
        return BPF_TRACE_UPROBE_MULTI if pids == {0} or len(pids) == 1 and _kernel_version() >= (6, 10) else 0
    if kinds == {"kretprobe"} or kinds == {"kprobe"} and len(spec.attach) > 1:
        return 0 if any(a.offset for a in spec.attach) or reads_beyond_multi(spec) else BPF_TRACE_KPROBE_MULTI
    return 0


def reads_beyond_multi(spec: ProgramSpec) -> bool:
    """Whether the program reads what kprobe.multi does not have since Linux 6.14: of the registers it has those that
    calls use (struct ftrace_regs), the others are what lay there before; and at returns until 6.17 there are no stack
    pointer and no stacks of the kernel: they end with the tracing's own frames, or are empty."""
    method = spec.method or spec.attach[0].kind
    return method in ("kprobe", "kretprobe") and (6, 14) <= _kernel_version() \
        and (spec.registers or spec.kernel_stacks and method == "kretprobe" and _kernel_version() < (6, 18))


def _kernel_version() -> tuple[int, int]:
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int("".join(takewhile(str.isdigit, minor)) or 0)


def _try_attach(point: Attach, missing: Missing, attacher: Attacher, program: Fd, cookie: int,
                links: Links) -> bool:
    try:
        attacher(point, program, cookie, links)
        return True
    except SyscallError as error:
        from .refusals import explain_attach_error
        missing(explain_attach_error(point, error), point)
    except AttachError as error:
        missing(error, point)
    return False


# ---- one function per kind

def _attach_raw_tracepoint(point: Attach, program: Fd, cookie: int, links: Links) -> None:
    links.hold_link(syscalls.raw_tracepoint_open(point.event, program, cookie))


def _attach_tracepoint(point: Attach, program: Fd, cookie: int, links: Links) -> None:
    event = syscalls.perf_event_open(PERF_TYPE_TRACEPOINT, tracepoint_id(point), cpu=0)
    links.attach_to_event(program, event, cookie)


def _attach_uprobe(point: Attach, program: Fd, cookie: int, links: Links) -> None:
    from .refusals import semaphore
    pmu = _probe_pmu("uprobe")
    config = 1 << pmu.return_bit if _replaces_return(point) else 0
    config |= semaphore(point) << pmu.counter_shift
    from ...kernel.foreign.opening import path_for_kernel
    before = len(links)
    with path_for_kernel(point.target) as path:
        try:
            for offset, mark in places_of(point, cookie):
                event = syscalls.perf_event_open(pmu.type, config, pid=point.pid or -1, cpu=-1 if point.pid else 0,
                                                 config1=os.fsencode(path), config2=offset)
                links.attach_to_event(program, event, mark)
        except SondeError:
            links.detach_all(before)
            raise


def _replaces_return(point: Attach) -> bool:
    """Whether a return is probed by the kernel's return probe."""
    return point.kind == "uretprobe" and not point.exits


def places_of(point: Attach, cookie: int) -> list[tuple[int, int]]:
    """(offset in the file, cookie) of all instructions that a probe in a user program is set at. A return instruction's
    cookie has the way from the function's beginning in its high half."""
    if not point.exits:
        return [(point.offset, cookie)]
    return [(offset, cookie | (offset - point.offset & 0xFFFFFFFF) << 32) for offset in point.exits]


def _attach_uprobes_multi(spec: ProgramSpec, program: Fd, links: Links, missing: Missing) -> bool:
    groups: dict[tuple[str, bool], list[int]] = {}
    for index, point in enumerate(spec.attach):
        if point.target:  # else it waits for a file: see late_images.py
            groups.setdefault((point.target, _replaces_return(point)), []).append(index)
    refused: Refused = {}
    for group in groups.values():
        refused |= _attach_in_parts(spec, lambda members: _link_uprobes(spec, program, links, members), group)
    if len(refused) == len(spec.attach):
        return False
    _leave_out(spec, refused, missing)
    return True


def _link_uprobes(spec: ProgramSpec, program: Fd, links: Links, members: Sequence[int]) -> None:
    """One link for places in one file."""
    from ...kernel.foreign.opening import path_for_kernel
    from .refusals import semaphore
    points = [spec.attach[index] for index in members]
    places = [(offset, cookie, semaphore(point)) for index, point in zip(members, points)
              for offset, cookie in places_of(point, probe_index(spec, index))]
    offsets, cookies, counters = [list(column) for column in zip(*places)]
    with path_for_kernel(points[0].target) as path:
        links.hold_link(syscalls.link_uprobe_multi(program, path, offsets, cookies, counters if any(counters) else None,
                                                   points[0].pid, _replaces_return(points[0])), waits=True)


def _attach_kprobe(point: Attach, program: Fd, cookie: int, links: Links) -> None:
    pmu = _probe_pmu("kprobe")
    module = "" if point.target in ("", "vmlinux") else f"{point.target}:"
    event = syscalls.perf_event_open(pmu.type, 1 << pmu.return_bit if KINDS[point.method].returns else 0, cpu=0,
                                     config1=f"{module}{point.event}".encode() if point.event else 0,
                                     config2=point.offset)
    links.attach_to_event(program, event, cookie, name=point.name)


def _attach_kprobes_multi(spec: ProgramSpec, program: Fd, links: Links) -> None:
    cookies = [attach_cookie(spec, index) for index in range(len(spec.attach))]
    first = spec.attach[0]
    links.hold_link(syscalls.link_kprobe_multi(program, [point.event for point in spec.attach], cookies,
                                               returns=KINDS[first.method].returns, session=bool(spec.parts)),
                    waits=True, name=first.name)


def _attach_fentry(point: Attach, program: Fd, cookie: int, links: Links) -> None:
    """The function is the program's own attach_btf_id. Before Linux 5.19 there was another call for it."""
    try:
        at = BPF_TRACE_FEXIT if KINDS[point.kind].returns else BPF_TRACE_FENTRY
        link = syscalls.link_tracing(program, at, cookie)
    except SyscallError as error:
        if error.errno != errno.EINVAL or cookie:
            raise
        link = syscalls.raw_tracepoint_open("", program)
    links.hold_link(link, waits=True)


def _attach_traced_multi(spec: ProgramSpec, program: Fd, links: Links, members: Sequence[int]) -> None:
    links.hold_link(syscalls.link_tracing_multi(
        program, TRACING_MULTI[spec.method], [detail_of(spec.attach[index], KernelDetail).btf_id for index in members],
        [attach_cookie(spec, index) for index in members]), waits=True)


def _attach_in_parts(spec: ProgramSpec, attach: Callable[[Sequence[int]], None], members: Sequence[int]) -> Refused:
    """Attach to the places that the kernel takes, by as few links as that needs; those that it does not, and why. A
    refusal takes the kernel some 60 ms, in which others can wait for theirs."""
    refused: Refused = {}
    halves: list[Sequence[int]] = []

    def attach_part(part: Sequence[int]) -> None:
        try:
            attach(part)
        except SyscallError as error:
            from .refusals import OF_THE_FILE, explain_attach_error
            points = [spec.attach[index] for index in part]
            if len(part) == 1 or KINDS[points[0].kind].user and error.errno in OF_THE_FILE:
                refused.update({index: (explain_attach_error(point, error), point)
                                for index, point in zip(part, points)})
            else:
                middle = len(part) // 2
                halves.extend((part[:middle], part[middle:]))

    attach_part(members)
    while halves:
        parts = halves.copy()
        halves.clear()
        run_in_threads(attach_part, parts)
    return refused


def _leave_out(spec: ProgramSpec, refused: Refused, missing: Missing) -> None:
    """Forget attach points that the kernel refuses: a budget may attach the others again."""
    accepted = [index for index in range(len(spec.attach)) if index not in refused]
    if accepted:
        numbers = [probe_index(spec, index) for index in accepted]
        spec.attach, spec.numbers = [spec.attach[index] for index in accepted], numbers
    for error, point in refused.values():
        missing(error, point)


def _attach_interval(point: Attach, program: Fd, cookie: int, links: Links) -> None:
    """A timer on one CPU: the program runs once per period, wherever the machine is busy."""
    attach_to_cpu(point, program, cookie, links, online_cpus()[0])


def _attach_sampling(point: Attach, program: Fd, cookie: int, links: Links) -> None:
    """A timer, an event that is counted or a breakpoint, on every CPU or on every thread of one process; a timer counts
    a thread's own time."""
    if point.pid:
        _attach_to_threads(point, program, cookie, links)
        return
    for cpu in online_cpus():
        attach_to_cpu(point, program, cookie, links, cpu)


def runs_on_cpus(point: Attach) -> bool:
    """Whether an attach point has an event on every CPU, or a timer on one."""
    return ATTACHERS.get(point.kind) in (_attach_interval, _attach_sampling) and not point.pid


def attach_to_cpu(point: Attach, program: Fd, cookie: int, links: Links, cpu: int) -> None:
    """One event of a point that runs on CPUs."""
    links.attach_to_event(program, _open_event(point, cpu), cookie, start=True)


def _open_event(point: Attach, cpu: int) -> Fd:
    event = _find_event(point)
    return syscalls.perf_event_open(event.type, event.config, cpu=cpu, sample_period=event.period,
                                    flags=PERF_ATTR_DISABLED, **event.more)


class _PerfEvent(Record):
    """What perf_event_open(2) is given: ``period`` in ns or events; ``more`` are fields of perf_event_attr."""

    type: int
    config: int
    period: int
    more: dict[str, int] = {}


def _find_event(point: Attach) -> _PerfEvent:
    if KINDS[point.kind].ticks:
        return _PerfEvent(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, point.period)
    if point.kind == "watchpoint":  # each access fires
        watch = detail_of(point, WatchDetail)
        return _PerfEvent(PERF_TYPE_BREAKPOINT, 0, 1,
                          {"config1": point.offset, "config2": watch.length, "bp_type": watch.mode})
    return _PerfEvent(*_find_counter(point), max(1, point.period))


def _find_counter(point: Attach) -> tuple[int, int]:
    """Its type and number for perf_event_open(2)."""
    kind, table = ((PERF_TYPE_SOFTWARE, SOFTWARE_EVENTS) if point.kind == "software"
                   else (PERF_TYPE_HARDWARE, HARDWARE_EVENTS))
    config = table.get(point.event)
    if config is None:
        raise AttachError(f"{point.name}: the kernel has no {point.kind} event {point.event}", point.name, errno.ENOENT,
                          [f"known are {', '.join(sorted(table))}"])
    return kind, config


def try_counter(point: Attach) -> None:
    """Open a hardware event as attaching does, and close it at once: AttachError if this machine has none."""
    try:
        for cpu in online_cpus():
            _open_event(point, cpu).close()
    except SyscallError as error:
        from .refusals import NO_COUNTER, explain_attach_error
        if error.errno in NO_COUNTER:
            raise explain_attach_error(point, error) from None


def _attach_to_threads(point: Attach, program: Fd, cookie: int, links: Links) -> None:
    """One event for each thread; threads that start later inherit it. Before Linux 5.13 processes do, too, and the
    program looks whose event it is."""
    wanted = _find_event(point)
    for thread in _thread_ids(point):
        try:
            event = _open_inherited(wanted, thread)
        except SyscallError as error:
            if error.errno == errno.ESRCH and thread != point.pid:
                continue  # it has ended meanwhile
            raise
        links.attach_to_event(program, event, cookie, start=True)


def _open_inherited(event: _PerfEvent, thread: int) -> Fd:
    flags = PERF_ATTR_DISABLED | PERF_ATTR_INHERIT
    try:
        return syscalls.perf_event_open(event.type, event.config, pid=thread, sample_period=event.period,
                                        flags=flags | PERF_ATTR_INHERIT_THREAD, **event.more)
    except SyscallError as error:
        if error.errno != errno.EINVAL:
            raise
    return syscalls.perf_event_open(event.type, event.config, pid=thread, sample_period=event.period, flags=flags,
                                    **event.more)


def _thread_ids(point: Attach) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(f"/proc/{point.pid}/task"))
    except OSError:
        raise AttachError(f"{point.name}: there is no process {point.pid}", point.name, errno.ESRCH) from None


ATTACHERS: dict[str, Attacher] = {
    "tracepoint": _attach_tracepoint,
    "rawtracepoint": _attach_raw_tracepoint,
    "kprobe": _attach_kprobe,
    "kretprobe": _attach_kprobe,
    "fentry": _attach_fentry,
    "fexit": _attach_fentry,
    "uprobe": _attach_uprobe,
    "uretprobe": _attach_uprobe,
    "usdt": _attach_uprobe,
    "interval": _attach_interval,
    "profile": _attach_sampling,
    "software": _attach_sampling,
    "hardware": _attach_sampling,
    "watchpoint": _attach_sampling,
}


# ---- facts of this machine

def tracepoint_id(point: Attach) -> int:
    """The number of a tracepoint in tracefs; AttachError if it or tracefs is not there."""
    for root in TRACEFS_MOUNTS:
        try:
            with open(f"{root}/events/{point.target}/{point.event}/id", encoding="utf-8") as file:
                return int(file.read())
        except FileNotFoundError:
            continue
        except OSError as error:
            raise AttachError(f"{point.name}: cannot read tracefs: {error.strerror}", point.name, error.errno or 0,
                              ["run as root, or give read access to /sys/kernel/tracing"]) from None
    if not any(os.path.isdir(f"{root}/events") for root in TRACEFS_MOUNTS):
        raise AttachError(f"{point.name}: tracefs is not mounted", point.name, errno.ENOENT,
                          ["mount -t tracefs nodev /sys/kernel/tracing"])
    raise AttachError(f"{point.name}: this kernel has no such tracepoint", point.name, errno.ENOENT,
                      [f"list them with: sonde -l 'tracepoint:{point.target}:*'"])


class ProbePmu(Record):
    """perf's "uprobe" or "kprobe": its number as a type, the bit of config that means "on return", and by how much
    a semaphore's offset is shifted there."""

    type: int
    return_bit: int
    counter_shift: int


def _probe_pmu(name: str) -> ProbePmu:
    root = f"/sys/bus/event_source/devices/{name}"
    try:
        with open(f"{root}/type", encoding="utf-8") as file:
            kind = int(file.read())
        semaphore = _config_bit(f"{root}/format/ref_ctr_offset") if name == "uprobe" else 0
        return ProbePmu(kind, _config_bit(f"{root}/format/retprobe"), semaphore)
    except OSError:
        raise AttachError(f"{name}: this kernel is built without {name}s", name, errno.ENODEV,
                          [f"CONFIG_{name.upper()}_EVENTS is needed"]) from None


def _config_bit(path: str) -> int:
    """``config:32-63`` → 32."""
    with open(path, encoding="utf-8") as file:
        return int(file.read().strip().partition(":")[2].partition("-")[0])
