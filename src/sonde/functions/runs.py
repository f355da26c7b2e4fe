"""The frame of a run: when it ends, how often it prints, what it says at the end."""

from __future__ import annotations

from ..compiler.lower.calls import Function
from ..types import NOTHING

ROWS = (
    Function("is_over", ("seconds:int",), None, "Whether the run has lasted so many seconds; never for 0.",
             "is_over($1)", library="runs"),
    Function("warn_count", ("count:map", "format:literal"), NOTHING,
             "Warn of what a map without keys counted, if it did, and clear it.",
             'warn_count(@lost, "%lld calls are not among these")', library="runs"),
    Function("at_intervals", ("seconds:map", "interval:int", "outputs:map", "count:int", "output:raw"), NOTHING,
             "In interval:s:1: do something every so many seconds, and exit after so many times, unless that is 0.",
             "at_intervals(@seconds, $1, @outputs, $2, print(@x))", library="runs"),
)
