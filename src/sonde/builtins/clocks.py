"""Clocks."""

from __future__ import annotations

from ..compiler import helpers as h
from ..compiler.lower.calls import Builtin, helper_caller
from ..compiler.lower.clocks import elapsed_time, read_clock
from ..semantics.builtins import CLOCKS, ClockChoice, choice_checker
from ..types import (
    UINT64,
)

ROWS = (
    Builtin("nsecs", UINT64, "A timestamp in nanoseconds; by default since boot, time in suspend included.",
            pure=False, clock=True, call=choice_checker(ClockChoice, CLOCKS), arguments="[boot|monotonic|tai|sw_tai]",
            scalar=read_clock),
    Builtin("elapsed", UINT64, "Nanoseconds since everything was attached; in begin since that began.", pure=False,
            clock=True, scalar=elapsed_time),
    Builtin("jiffies", UINT64, "The kernel's jiffies.", pure=False,
            scalar=helper_caller(h.JIFFIES, "jiffies", pure=False)),
)
