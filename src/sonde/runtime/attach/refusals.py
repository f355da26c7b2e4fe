"""Why the kernel does not attach a program: what it answers, in words that help."""

from __future__ import annotations

import errno
import os

from ...errors import AttachError, SyscallError
from ...kinds import KINDS
from ...spec import Attach, KernelDetail, StaticDetail

NO_COUNTER = (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV)
# What would be said of any other place in the file, too.
OF_THE_FILE = (errno.EPERM, errno.ENOENT, errno.ESRCH, errno.ENOMEM, errno.EACCES, errno.ENFILE, errno.EMFILE)
ENOTSUPP = 524  # the kernel's own: arch_uprobe_analyze_insn() in arch/x86/kernel/uprobes.c


def semaphore(point: Attach) -> int:
    """The counter that the kernel keeps while a static probe is traced; 0 if there is none."""
    return point.detail.semaphore if isinstance(point.detail, StaticDetail) else 0


def explain_attach_error(point: Attach, error: SyscallError) -> AttachError:
    """An attach failure in words that help."""
    why, hints = _attach_error_reason(point, error.errno)
    return AttachError(f"{point.name}: {why or error.message}", point.name, error.errno, hints)


def explain_load_error(point: Attach, error: AttachError) -> AttachError:
    """The same for a function that a program cannot be loaded for."""
    from ...kernel.types.functions import function_obstacle
    why, hints = function_obstacle(point.event, point.detail.module if isinstance(point.detail, KernelDetail) else "",
                                    point.kind)
    return AttachError(f"{point.name}: {why}" if why else error.message, point.name, error.errno,
                       [*hints, f"the kernel says: {error.message.removeprefix(point.name + ': ')}"] if why else hints)


def _attach_error_reason(point: Attach, number: int) -> tuple[str, list[str]]:
    if KINDS[point.kind].user:
        return _uprobe_reason(point, number)
    if point.kind == "hardware" and number in NO_COUNTER:
        return "this machine has no such hardware counter", ["virtual machines often have none; software: events work"]
    if point.kind in ("tracepoint", "rawtracepoint") and number == errno.ENOENT:
        return "this kernel has no such tracepoint", [
            f"its module may not be loaded; list them with: sonde -l '{point.kind}:*{point.event}*'"]
    if point.kind == "tracepoint" and number == errno.E2BIG:
        return "the kernel runs at most 64 programs on one tracepoint", ["stop other tracers, or use rawtracepoint:"]
    if point.kind == "watchpoint" and number == errno.ENOENT:
        return "the kernel has no watchpoints on this CPU architecture (CONFIG_HAVE_HW_BREAKPOINT)", []
    if point.kind == "watchpoint" and number in (errno.EINVAL, errno.ENOSPC, errno.EOPNOTSUPP):
        return _watchpoint_reason(number)
    if KINDS[point.kind].function:
        return _function_reason(point, number)
    return _general_reason(point, number)


def _general_reason(point: Attach, number: int) -> tuple[str, list[str]]:
    if number == errno.ESRCH:
        return f"there is no process {point.pid}", []
    if number in (errno.EMFILE, errno.ENFILE):
        return "too many open files", ["raise the limit: ulimit -n 65536"]
    return "", []


def _function_reason(point: Attach, number: int) -> tuple[str, list[str]]:
    from ...kernel.types.functions import forbidden_functions, function_obstacle, section_obstacle
    if number in (errno.ENOENT, errno.ESRCH, errno.EBUSY):
        why, hints = function_obstacle(point.event, point.target, point.kind)
        return why or f"the kernel has no function {point.event} that can be probed", hints or [
            "the compiler may have inlined it"]
    if number == errno.EADDRNOTAVAIL:
        return f"there are several functions {point.event}", ["name its module: kprobe:module:function"]
    if why := section_obstacle(point.event) or ("their own work needs it" if point.event in forbidden_functions()
                                                else ""):
        probes = point.kind if KINDS[point.kind].typed else "kprobes"
        return f"{point.event} is off limits to {probes}: {why}", []
    if number in (errno.EINVAL, errno.EILSEQ):
        return f"{point.event} cannot be probed at offset {point.offset}", ["some functions are off limits to kprobes"]
    return _general_reason(point, number)


def _watchpoint_reason(number: int) -> tuple[str, list[str]]:
    if number == errno.ENOSPC:
        return "all of the CPU's watchpoints are taken", ["it has four, which debuggers use too"]
    return "the kernel cannot watch this address in this way", [
        "the address is a multiple of the length; the kernel's own code and entry areas cannot be watched"]


def _uprobe_reason(point: Attach, number: int) -> tuple[str, list[str]]:
    from ...kernel.foreign.opening import split_member
    try:
        size = os.stat(split_member(point.target)[0]).st_size
    except OSError:
        size = -1
    if number == errno.ENOENT or size < 0:
        return f"there is no file {point.target}", []
    if number == errno.EINVAL and point.offset >= size:
        return f"offset {point.offset:#x} of {point.target} is not executable code", [
            "was the file replaced since it was read?"]
    if number == errno.EINVAL:  # uprobe_register() of Linux: "ref_ctr_offset mismatch" in its log
        return "the kernel has another probe at this instruction, with " + (
            "another semaphore or none" if semaphore(point) else "the semaphore of a static probe"), [
            "it is another script's, or was left by a tracer that was killed while it detached (a line of dmesg has "
            "'leaking uprobe'): then a copy of the file can be traced, and this one after a restart"]
    if number in (errno.EIO, errno.ENOEXEC, ENOTSUPP):
        return f"the instruction at offset {point.offset:#x} of {point.target} cannot be probed", []
    return _general_reason(point, number)
