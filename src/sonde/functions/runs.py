"""The frame of a run: when it ends, how often it prints, what it says at the end."""

from __future__ import annotations

from ..compiler.lower.calls import Function
from ..types import NOTHING

ROWS = (
    Function("is_over", ("seconds:int",), None, "Whether the run has lasted so many seconds; never for 0.",
             "is_over($1)", library="runs"),
    Function("warn_count", ("count:map", "format:literal"), NOTHING,
             "Print a warning with the count of a map without keys, unless it is 0, and clear the map.",
             'warn_count(@lost, "%lld calls are not among these")', library="runs"),
    Function("at_intervals", ("seconds:map", "interval:int", "outputs:map", "count:int", "output:raw"), NOTHING,
             "In interval:s:1: run an action every so many seconds, and exit after so many times, unless that is 0.",
             "at_intervals(@seconds, $1, @outputs, $2, print(@x))", library="runs"),
)
