"""Tasks, as events of the scheduler show them."""

from __future__ import annotations

from ..compiler.lower.calls import Function

ROWS = (
    Function("is_dead", ("task:ptr",), None, "At sched_switch: whether a task leaves its CPU for good.",
             "is_dead(curtask)", library="tasks"),
    Function("compat_call", ("numbers:literal?", "socket_numbers:literal?"), None,
             "At a raw sys_enter: whether a 32-bit program makes the call, one of these, or one of socketcall().",
             'compat_call("362,364", "3,5")', probes=("rawtracepoint",), library="tasks"),
    Function("is_forked", (), None, "Whether the current process was forked by its parent and runs the same program as "
             "that: a worker of a pool, not a program of its own.", "is_forked()", library="tasks"),
    Function("role", (), None, "What the current process is for, among those of its family: what it has named itself "
             "(setproctitle), a worker of Python's multiprocessing or joblib, else its arguments.", "@[role()]",
             library="tasks"),
)
