"""What the kernel spends around a program, measured here because its run-time statistics leave it out.

Under a hypervisor a uprobe's trap can take twenty times as long as elsewhere, so a table would not do. Two things are
measured, in this process only, before a trace attaches: a raw system-call tracepoint and, where uprobes are used, a
uprobe. The other ways to attach are taken as multiples of these.
"""

from __future__ import annotations

import os
from itertools import repeat
from time import perf_counter_ns

from ...asm import insn
from ...errors import SondeError
from ...kernel import syscalls
from ...kernel.libc import address_of_function
from ...layouts.uapi import PROG_TYPES
from ...spec import Attach, ProgramSpec
from ..attach.links import ATTACHERS, Links

ROUNDS, CALLS, LEAST = 40, 200, 20.0  # LEAST nanoseconds: less is noise
TRAPS = 5
# Nanoseconds where nothing could be measured: what a machine of today takes, not the fastest.
RAW, TRAP, INTERRUPT = 50.0, 3000.0, 3000.0
# Multiples of the raw tracepoint, or of the trap, that the other ways to run a program take.
_HOOKS = {"tracepoint": 3, "kprobe": 4, "kretprobe": 8, "fexit": 2}
_TRAPS = {"uprobe": 1, "usdt": 1, "uretprobe": 2}
_NOTHING = insn.alu("mov", 0).encode() + insn.exit_().encode()


class Floor:
    """What is spent around one run of a program."""

    def __init__(self, programs: list[ProgramSpec]) -> None:
        kinds = {point.kind for program in programs for point in program.attach}
        self.raw = _measure_overhead(Attach("rawtracepoint", "", event="sys_enter"), "raw_tracepoint", CALLS, RAW)
        self.trap = _measure_overhead(_find_own_function(), "kprobe", TRAPS, TRAP) if kinds & _TRAPS.keys() else TRAP

    def overhead_ns(self, program: ProgramSpec) -> float:
        """Nanoseconds of a run that the statistics do not have."""
        kind = program.attach[0].kind
        if program.type == "perf_event":
            return INTERRUPT
        if kind in _TRAPS:
            return self.trap * _TRAPS[kind]
        return self.raw * (_HOOKS.get(program.method or kind, 1) if program.type != "raw_tracepoint" else 1)


def _measure_overhead(point: Attach | None, kind: str, calls: int, usual: float) -> float:
    """What getppid() takes longer with an empty program at ``point``, less what the statistics see of it; ``usual``
    where the kernel does not allow that."""
    if point is None:
        return usual
    links = Links()
    try:
        with syscalls.prog_load(PROG_TYPES[kind], _NOTHING, "sonde_floor") as program:
            before = _measure_fastest_call(calls)
            ATTACHERS[point.kind](point, program, 0, links)
            after = _measure_fastest_call(calls)
            info = syscalls.prog_info(program)
    except SondeError:
        return usual
    finally:
        links.close()
    return max(after - before - (info.run_time_ns / info.run_count if info.run_count else 0.0), LEAST)


def _measure_fastest_call(calls: int) -> float:
    """Nanoseconds of a getppid() in the fastest of ``ROUNDS`` times so many."""
    best = 1e9
    for _ in range(ROUNDS):
        begin = perf_counter_ns()
        for _ in repeat(None, calls):
            os.getppid()
        best = min(best, (perf_counter_ns() - begin) / calls)
    return best


def _find_own_function() -> Attach | None:
    """getppid() of this process's C library; None if its file cannot be told."""
    address = address_of_function("getppid")
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            for line in maps:
                span, _, offset, _, inode, *path = line.split(maxsplit=5)
                begin, end = (int(part, 16) for part in span.split("-"))
                if begin <= address < end and inode != "0" and path:
                    return Attach("uprobe", "getppid", target=path[0].rstrip("\n"),
                                  offset=address - begin + int(offset, 16), pid=os.getpid())
    except OSError:
        pass
    return None
