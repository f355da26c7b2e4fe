"""Watchpoints on memory, and iterators over the kernel's objects."""

from __future__ import annotations

import posixpath

from ..arch import ARCHES
from ..base import regex_cache
from ..kinds import KINDS
from ..language.ast import AttachPoint
from ..language.diagnostics import Diagnostics
from ..layouts.uapi import ITERATORS_OF_ONE
from ..spec import Attach, KernelDetail, WatchDetail
from .finder import ProbeFinder, describe_bad_number, is_pattern, parse_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

BPF_FILES = "/sys/fs/bpf"  # where a BPF file system is mounted
LENGTHS = (1, 2, 4, 8)
MODES = {"r": 1, "w": 2, "x": 4}  # HW_BREAKPOINT_R, _W, _X of include/uapi/linux/hw_breakpoint.h


def expand_watchpoint(finder: ProbeFinder, point: AttachPoint, parts: list[str]) -> list[Attach]:
    """``watchpoint:address:length:mode``; instead of the address a symbol, of the process (-p) or the kernel."""
    if len(parts) != 3:
        return finder.report_part_count(point, "3", "watchpoint:address:length:mode, as in watchpoint:0x10000000:8:rw")
    where, length, mode = parts[0], parse_number(parts[1]), parts[2]
    if length is None:
        return finder.error("probe-form", f"Invalid length argument: {describe_bad_number(parts[1])}", point)
    if length not in LENGTHS:
        return finder.error("probe-form", "watchpoint length must be one of (1,2,4,8)", point)
    why = _mode_problem(finder, mode)
    if why:
        message, *hints = why.split("\n")
        return finder.error("probe-form", message, point, hints)
    pid = finder.options.own_process
    address = parse_number(where)
    if address is None:
        address = finder.world.process_symbol(pid, where) if pid else finder.world.kernel_symbol(where)
        if address is None:
            side = f"process {pid}" if pid else "the kernel"
            if finder.options.is_followed:
                side = "--follow watches the kernel's memory: it"
            return finder.report_missing(point, [
                f"{side} has no symbol '{where}'",
                "give an address" + ("" if pid else ", or a process with -p whose symbol it is")],
                f"Invalid function/address argument: {describe_bad_number(where)}")
    if finder.options.is_followed and address < 1 << 63:
        return finder.error("probe-form", "a watchpoint is at an address of one process: --follow is not for it", point,
                            ["without --follow, -p PID watches one of them"])
    if address == 0:
        return finder.error("probe-form", "watchpoint must be attached to a non-zero address", point)
    if mode == "x":
        length = ARCHES[finder.world.arch].execute_length or length  # what the kernel wants, whatever was asked for
    elif address % length and not finder.options.compile_only:
        return finder.error("probe-form", f"watchpoint address {address:#x} is not a multiple of its length, {length}",
                            point)
    bits = sum(MODES[letter] for letter in mode)
    return [Attach("watchpoint", f"watchpoint:{':'.join(parts)}", event=where, offset=address, pid=pid,
                   detail=WatchDetail(length, bits))]


def _mode_problem(finder: ProbeFinder, mode: str) -> str:
    if not mode or set(mode) - set(MODES) or len(set(mode)) != len(mode):
        return "watchpoint modes may not be duplicated" if mode and not set(mode) - set(MODES) else \
            "watchpoint mode must be combination of (r,w,x)"
    if "x" in mode and len(mode) > 1:
        return f"invalid watchpoint mode: {mode}\nx stands alone"
    if mode == "r" and not ARCHES[finder.world.arch].watches_reads:
        return f"invalid watchpoint mode: {mode}\nsupported modes: x,w,rw"
    return ""


def expand_iterator(finder: ProbeFinder, point: AttachPoint, parts: list[str]) -> list[Attach]:
    """``iter:kind[:pin]``: the kernel's ``bpf_iter_KIND``, whose context is ``struct bpf_iter__KIND``."""
    if parts == [""]:
        return finder.error("probe-form", "iter  not available for your kernel version.", point, ["write iter:kind"])
    if not 1 <= len(parts) <= 2 or not parts[0]:
        return finder.error("probe-form", "iter probe type takes 2 arguments (1 optional)", point, [
            "write iter:kind or iter:kind:pin, as in iter:task, or iter:task:list for a file /sys/fs/bpf/list"])
    if finder.points > 1:
        return finder.error("probe-form", "iter probe only supports one attach point.", point)
    name = parts[0]
    known = available_iterators(finder)
    if name not in known:
        return finder.report_missing(point, [
            *finder.did_you_mean("iter:", name, known), f"it has: {', '.join(known) or 'none'}"],
            "iter probe type does not support wildcards" if is_pattern(name) else
            f"iter {name} not available for your kernel version.")
    context = finder.world.find_struct(f"bpf_iter__{name}")
    if (finder.options.pid or finder.options.family) and (context is None or context.field("task") is None):
        option = "--follow" if finder.options.family else "-p"
        return finder.error("iter-pid", f"iter:{name} goes over objects that belong to no process: {option} cannot "
                            "choose among them", point, ["it works with iter:task, iter:task_file and iter:task_vma"])
    detail = KernelDetail(finder.world.kfunc_id(f"bpf_iter_{name}"), "vmlinux")
    if len(parts) == 2:
        if not parts[1] or "\0" in parts[1] or parts[1].endswith("/"):
            return finder.error("probe-form", f"iter:{name}: a pin is a file's name", point)
        detail.pin = posixpath.join(BPF_FILES, parts[1])
    return [Attach("iter", f"iter:{':'.join(parts)}", event=name, pid=finder.options.lone_process, detail=detail)]


def available_iterators(finder: ProbeFinder) -> list[str]:
    """Kinds that need nothing more than their name; those over one map's or cgroup's elements do."""
    return [kind for kind in iterator_kinds(finder.world.struct_names()) if finder.world.kfunc_id(f"bpf_iter_{kind}")]


def iterator_kinds(structs: Sequence[str]) -> list[str]:
    """The kinds among the kernel's structs ``bpf_iter__KIND``."""
    kinds = [m[1] for m in [regex_cache.fullmatch(r"bpf_iter__(\w+)", name) for name in structs] if m]
    return sorted(name for name in kinds if name not in ITERATORS_OF_ONE)


def check_mixed(attach: Sequence[Attach], diagnostics: Diagnostics) -> None:
    """An iterator runs once and ends; nothing else may wait for events beside it."""
    others = [a.name for a in attach if not (KINDS[a.kind].iterates or KINDS[a.kind].own)]
    if others and any(KINDS[a.kind].iterates for a in attach):
        diagnostics.error("iter-mixed", f"iter probes cannot be mixed with others: {others[0]}", None,
                          ["begin and end may stand beside them"])
