"""What every BPF program on the machine costs: differences of the kernel's run counts and run times."""

from __future__ import annotations

import os
import time

from ...base.numbers import parse_whole
from ...base.record import Record
from ...errors import SyscallError
from ...kernel import syscalls
from ...kernel.syscalls import Fd, ProgramInfo
from ...layouts.uapi import PROG_TYPE_NAMES
from ...types import Aggregate
from ..maps.aggregates import Histogram
from .statistics import Cost, enable_statistics

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

STEP = 0.001  # s between looks at one program
BITS = 2      # of the buckets of its histogram: four to each power of two


class ProgramCost(Cost):
    """Any program of the kernel. ``holders`` are processes with a descriptor of it or of its link."""

    id: int
    type: str
    name: str
    holders: list[str]


class Meter:
    """Measures all programs from its making on; close it. PrivilegeError without CAP_SYS_ADMIN.

    The programs that are there at the start are held, so that those which are unloaded meanwhile are counted too.
    """

    def __init__(self) -> None:
        self._statistics = enable_statistics()
        self._programs: dict[int, Fd] = {}
        self._before: dict[int, ProgramInfo] = {}
        self._began = time.monotonic_ns()
        try:
            self._hold_programs(new=False)
        except BaseException:
            self.close()
            raise

    def _hold_programs(self, new: bool) -> None:
        for number in syscalls.object_ids("program"):
            if number in self._programs:
                continue
            try:
                fd = syscalls.object_by_id("program", number)
            except SyscallError:  # it was unloaded just now
                continue
            self._programs[number] = fd
            if not new:  # what is new has counted from 0
                self._before[number] = syscalls.prog_info(fd)

    def program_costs(self) -> list[ProgramCost]:
        """Every program so far, the most expensive first."""
        self._hold_programs(new=True)
        seconds = (time.monotonic_ns() - self._began) / 1e9
        infos = {number: syscalls.prog_info(fd) for number, fd in self._programs.items()}
        held = program_holders()
        costs = []
        for number, info in infos.items():
            before = self._before.get(number)
            costs.append(ProgramCost(
                info.run_count - (before.run_count if before else 0),
                info.run_time_ns - (before.run_time_ns if before else 0),
                info.recursion_misses - (before.recursion_misses if before else 0), seconds,
                id=number, type=program_type_name(info.type), name=info.name, holders=held.get(number, [])))
        return sorted(costs, key=lambda cost: (-cost.time_ns, cost.id))

    def watch_program(self, number: int, seconds: float, stopped: Callable[[], bool]) -> Latency:
        """Look at one program each millisecond; its runs since the meter was made are counted."""
        fd, words = self._programs[number], Aggregate("hist", bits=BITS).words
        counts, runs, alone = [0] * words, 0, 0
        began = time.monotonic()
        before = self._before.get(number) or syscalls.prog_info(fd)
        ending = False
        while not ending:
            ending = stopped() or time.monotonic() - began >= seconds
            if not ending:
                time.sleep(STEP)
            now = syscalls.prog_info(fd)
            new = now.run_count - before.run_count
            if new > 0:
                counts[bucket_index((now.run_time_ns - before.run_time_ns) // new)] += new
                runs += new
                alone += new == 1
            before = now
        return Latency(Histogram(counts, BITS), runs, alone, time.monotonic() - began)

    def close(self) -> None:
        """Let go of the programs, stop counting."""
        for fd in self._programs.values():
            fd.close()
        self._programs = {}
        if self._statistics is not None:
            self._statistics.close()
            self._statistics = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def find_program(program: str) -> tuple[int, str] | None:
    """(id, name) of the program that is called ``id:NUMBER`` or by its name; None if there is none. The newest one if
    several have that name. PrivilegeError without CAP_SYS_ADMIN."""
    known: dict[int, str] = {}
    for number in syscalls.object_ids("program"):
        try:
            with syscalls.object_by_id("program", number) as fd:
                known[number] = syscalls.prog_info(fd).name
        except SyscallError:  # it was unloaded just now
            continue
    wanted = program.removeprefix("id:")
    if program != wanted:
        chosen = parse_whole(wanted)
        return (chosen, known[chosen]) if chosen in known else None
    numbers = [number for number, name in known.items() if name == program]
    return (max(numbers), program) if numbers else None


class Latency(Record):
    """``histogram`` of the nanoseconds of ``runs`` runs. ``alone`` of them are exact: all that were timed, or, of
    sampled ones, those that were the only one between two looks; each of the other sampled runs is counted with the
    mean of those that it was seen with. No histogram if nothing could be timed."""

    histogram: Histogram | None
    runs: int
    alone: int
    seconds: float


def bucket_index(value: int) -> int:
    """The place of a value in a histogram of ``BITS`` (types.Aggregate has the rule)."""
    if value < 2 << BITS:
        return value + 1
    power = value.bit_length() - 1
    return 1 + ((power - BITS + 1) << BITS) + (value >> power - BITS) - (1 << BITS)


def program_type_name(number: int) -> str:
    """A program type's name as the kernel has it."""
    return PROG_TYPE_NAMES[number] if number < len(PROG_TYPE_NAMES) else str(number)


def program_holders() -> dict[int, list[str]]:
    """The processes (``comm/pid``) that hold each program, directly or by a link, by the program's number."""
    holders: dict[int, list[str]] = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{fd}").startswith(("anon_inode:bpf-prog", "anon_inode:bpf_link")):
                    _note_holder(holders, pid, fd)
        except OSError:  # it has gone, or is none of ours
            continue
    return holders


def _note_holder(holders: dict[int, list[str]], pid: str, fd: str) -> None:
    with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii", errors="replace") as info:
        number = next((int(line.split()[1]) for line in info if line.startswith("prog_id:")), None)
    if number is None or pid == str(os.getpid()):
        return
    with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as comm:
        name = f"{comm.read().rstrip()}/{pid}"
    if name not in holders.setdefault(number, []):
        holders[number].append(name)
