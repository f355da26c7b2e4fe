"""Calls of functions, one within the other, from call to return: of programs, which may leave them otherwise, too."""

from __future__ import annotations

from ..compiler.ir import Operand
from ..compiler.lower.calls import Function
from ..compiler.lower.core import Lower
from ..compiler.lower.tasks import process_id
from ..language.ast import Call
from ..types import INT64, NOTHING, UINT64


def _lower_running(lo: Lower, call: Call) -> Operand:
    """A thread's number; of an idle task, whose number all CPUs' have, one below 0 by CPU; of a goroutine its process
    and where it is described, which is below 1 << 44 and is another's when it is over."""
    b, goroutine = lo.b, lo.scalar_value(call.args[0])
    result, thread, idle, on = b.function.reg("running"), b.block("thread"), b.block("idle"), b.block("running")
    if goroutine != 0:
        some = b.block("goroutine")
        b.branch("jne", goroutine, 0, some, thread)
        b.start(some)
        b.set(result, b.alu("xor", b.alu("lsh", process_id(lo), 41), b.alu("rsh", goroutine, 3)))
        b.jump(on)
        b.start(thread)
    number = lo.scalar_value(call.args[1])
    b.set(result, number)
    b.branch("jne", number, 0, on, idle)
    b.start(idle)
    b.set(result, b.alu("sub", -1, b.cpu_number()))
    b.start(on)
    return result

ROWS = (
    Function("running", ("goroutine:int", "thread:int"), INT64, "That goroutine, or for 0 the thread; below 0 the idle "
             "thread of each CPU.", "running(goroutine, tid)", scalar=_lower_running, machine=True),
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
    Function("leave_calls", ("depth:map", "calls:map", "who:int", "sp:int", "pc:int"), INT64,
             "End a thread's calls that began below an end of the stack; the number of those that go on.",
             "enter_call(@depth, @calls, @left); _ = leave_calls(@depth, @calls, caller(), (uint64)0, (uint64)0)",
             library="calls"),
    Function("end_calls", ("depth:map", "calls:map"), NOTHING, "End all calls of the current thread.",
             "enter_call(@depth, @calls, @left); end_calls(@depth, @calls)", library="calls"),
    Function("tell_left", ("left:map", "calls:map?"), NOTHING, "Say how many calls did not return.",
             "enter_call(@depth, @calls, @left); end_calls(@depth, @calls); tell_left(@left)",
             library="calls"),
    Function("say_left", ("left:int",), NOTHING, "Say that so many calls did not return, unless that is 0.",
             "say_left(3)", library="calls"),
)
