"""Tasks, as events of the scheduler show them."""

from __future__ import annotations

from ..compiler.lower.calls import Function

ROWS = (
    Function("is_dead", ("task:ptr",), None, "At sched_switch: whether a task leaves its CPU for good.",
             "is_dead(curtask)", library="tasks"),
)
