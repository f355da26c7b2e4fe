"""Whether a kernel stack can be taken at a classic tracepoint of a system call.

Its programs were given the registers of the process (perf_call_bpf_enter() in kernel/trace/trace_syscalls.c), from
where there is no kernel stack to walk: bpf_get_stack() gives nothing, and no error. Newer kernels give their own
registers. Neither type information nor the verifier tells, so it is tried: one such program, one system call.
"""

from __future__ import annotations

import os
import struct

from .. import uapi
from ..errors import SyscallError
from . import syscalls, tracefs

_INSN = struct.Struct("=BBhi")
_GET_STACK = 67


def _program(result: int) -> bytes:
    """r0 = bpf_get_stack(ctx, fp - 16, 16, 0); if r0 > 0, it is stored in the map ``result``."""
    return b"".join([_INSN.pack(*insn) for insn in (
        (0xBF, 0xA2, 0, 0), (0x07, 2, 0, -16), (0xB7, 3, 0, 16), (0xB7, 4, 0, 0), (0x85, 0, 0, _GET_STACK),
        (0xC5, 0, 3, 1), (0x18, uapi.BPF_PSEUDO_MAP_VALUE << 4 | 1, 0, result), (0, 0, 0, 0), (0x7B, 0x01, 0, 0),
        (0xB7, 0, 0, 0), (0x95, 0, 0, 0))])


def available() -> bool | None:
    """None if it could not be tried."""
    root = tracefs.find()
    try:
        with open(f"{root}/events/syscalls/sys_enter_getppid/id", encoding="ascii") as file:
            number = int(file.read())
        with syscalls.map_create(uapi.MAP_TYPES["array"], 4, 8, 1, 0, "probe") as result, \
                syscalls.prog_load(uapi.PROG_TYPES["tracepoint"], _program(result.fileno()), "probe") as program, \
                syscalls.perf_event_open(uapi.PERF_TYPE_TRACEPOINT, number, cpu=0) as event, \
                syscalls.link_perf_event(program, event):
            os.getppid()
            return any(syscalls.map_lookup(result, bytes(4), 8) or b"")
    except (OSError, SyscallError):
        return None
