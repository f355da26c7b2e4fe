"""Whether a kernel stack can be taken at a classic tracepoint of a system call.

Its programs used to get the registers of the process (perf_call_bpf_enter() in kernel/trace/trace_syscalls.c), from
which no kernel stack can be walked: bpf_get_stack() returns nothing, and no error. Newer kernels pass their own
registers. Neither type information nor the verifier tells which, so it is tried: one such program, one system call.
"""

from __future__ import annotations

import errno
import os

from ..asm import insn
from ..asm.assemble import assemble
from ..errors import SyscallError
from ..layouts import uapi
from . import syscalls
from .types import tracefs

_FP = 10  # the frame pointer


def _build_program(result: int) -> bytes:
    """r0 = bpf_get_stack(ctx, fp - 16, 16, 0); if r0 > 0, it is stored in the map ``result``."""
    value = insn.map_value(1, "", 0)
    value.imm = result
    return assemble([
        insn.alu("mov", 2, _FP), insn.alu("add", 2, imm=-16), insn.alu("mov", 3, imm=16), insn.alu("mov", 4),
        insn.call_helper(uapi.HELPERS["get_stack"]), insn.branch("jslt", 0, None, 1, "none"), value,
        insn.store(1, 0, 0, 8), "none", insn.alu("mov", 0), insn.exit_()]).code


def has_syscall_stacks() -> bool | None:
    """Whether it can; None if that could not be tried."""
    root = tracefs.find_tracefs()
    try:
        with open(f"{root}/events/syscalls/sys_enter_getppid/id", encoding="ascii") as file:
            number = int(file.read())
        with syscalls.map_create(uapi.MAP_TYPES["array"], 4, 8, 1, 0, "probe") as result, \
                syscalls.prog_load(uapi.PROG_TYPES["tracepoint"], _build_program(result.fileno()),
                                   "probe") as program, \
                syscalls.perf_event_open(uapi.PERF_TYPE_TRACEPOINT, number, cpu=0) as event, \
                syscalls.link_perf_event(program, event):
            os.getppid()
            return any(syscalls.map_lookup(result, bytes(4), 8) or b"")
    except SyscallError as error:
        return False if error.errno == errno.EINVAL else None  # before Linux 5.15 perf events have no links
    except OSError:
        return None
