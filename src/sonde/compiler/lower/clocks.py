"""Reading the clocks."""

from __future__ import annotations

from ...errors import UsageError
from ...language.ast import Reference
from ...semantics.builtins import ClockChoice
from ...types import Int
from .. import helpers as h
from ..ir import MapAddr, Operand
from . import memory
from .core import Lower
from .state import Mem

CLOCKS = {"boot": h.BOOT_NS, "monotonic": h.KTIME_NS, "tai": h.TAI_NS}


def read_clock(lo: Lower, node: Reference) -> Operand:
    """``nsecs`` by the clock that was asked for."""
    clock = node.choice.clock if isinstance(node.choice, ClockChoice) else "boot"
    given = given_time(lo)
    if given is not None:
        return given
    if clock == "sw_tai" or clock == "tai" and not lo.unit.feature("helper_ktime_get_tai_ns"):
        return tai_time(lo)
    now = lo.b.call(CLOCKS[clock], [], f"{clock}_ns")
    if clock == "boot":
        lo.state.last_time = now
    return now


def given_time(lo: Lower) -> Operand | None:
    """The time from the map that BPFTRACE_DUMMY_TS_MAP names, with which tests of tseries() set the time. Records keep
    the true time."""
    name = lo.unit.checked.options.env.get("BPFTRACE_DUMMY_TS_MAP")
    if not name:
        return None
    info = lo.unit.checked.maps.get(name)
    if info is None or info.key is not None or not isinstance(info.value, Int) or info.value.signed:
        raise UsageError(f"BPFTRACE_DUMMY_TS_MAP: {name} is no map with an unsigned number and without keys")
    return memory.read_scalar(lo, Mem(MapAddr(name)), info.value)


def boot_time(lo: Lower) -> Operand:
    """The boot clock."""
    lo.state.last_time = lo.b.call(h.BOOT_NS, [], "boot_ns")
    return lo.state.last_time


def elapsed_time(lo: Lower, node: Reference) -> Operand:
    """Nanoseconds since everything was attached; runtime/tracing_clock.py has what it is before."""
    since = lo.b.alu("sub", boot_time(lo), lo.b.load(lo.unit.global_word("start_ns"), 0, 8))
    most = lo.b.load(lo.unit.global_word("most_elapsed"), 0, 8)
    result = lo.b.function.reg("elapsed")
    lo.select(result, lambda yes, no: lo.b.branch("jle", since, most, yes, no), lambda: since, lambda: most)
    return result


def tai_time(lo: Lower) -> Operand:
    """TAI nanoseconds: the boot clock plus the offset that user space measured."""
    given = given_time(lo)
    if given is not None:
        return given
    return lo.b.alu("add", boot_time(lo), lo.b.load(lo.unit.global_word("tai_offset"), 0, 8))
