"""Calls of functions, one within the other, from call to return: of programs, which may leave them otherwise, too."""

from __future__ import annotations

from ..compiler.lower.calls import Function
from ..types import INT64, NOTHING, UINT64

ROWS = (
    Function("caller", (), INT64, "The current thread, or goroutine; below 0 the idle thread of each CPU.", "caller()",
             library="calls"),
    Function("stack_end", (), UINT64, "The end of a program's stack at a probe of a function; where Go may move the "
             "stack, counted from its beginning.", "stack_end()", library="calls"),
    Function("enter_call", ("depth:map", "calls:map", "left:map", "more:any?"), NOTHING,
             "At a call: begin a call of the current thread, (time, stack, address, more), inside its calls so far.",
             "enter_call(@depth, @calls, @left, func)", library="calls"),
    Function("return_call", ("depth:map", "calls:map", "left:map", "call:var", "action:raw"), NOTHING,
             "At a return: run an action with the call that ends.",
             "enter_call(@depth, @calls, @left); return_call(@depth, @calls, @left, $call, print(nsecs - $call.0))",
             library="calls"),
    Function("leave_calls", ("depth:map", "calls:map", "left:map", "who:int", "sp:int", "pc:int"), NOTHING,
             "End a thread's calls that began below an end of the stack, and count them.",
             "enter_call(@depth, @calls, @left); leave_calls(@depth, @calls, @left, caller(), (uint64)0, (uint64)0)",
             library="calls"),
    Function("end_calls", ("depth:map", "calls:map", "left:map"), NOTHING, "End all calls of the current thread.",
             "enter_call(@depth, @calls, @left); end_calls(@depth, @calls, @left)", library="calls"),
    Function("tell_left", ("calls:map", "left:map"), NOTHING, "Say how many calls did not return.",
             "enter_call(@depth, @calls, @left); end_calls(@depth, @calls, @left); tell_left(@calls, @left)",
             library="calls"),
)
