"""The script's own functions (``fn``): each becomes a BPF function of the program that calls it.

Numbers and pointers are passed in registers, anything else as the address of a copy; the address where a result that
is no number shall be written comes behind the arguments. A function that needs the program's context, or may end the
program, gets the caller's frame too, last of all (see :mod:`.loops` for what is in it).
"""

from __future__ import annotations

from ...language.ast import Call, Clause, Return, Variable
from ...semantics.nodes import walk
from ...semantics.typed import CheckedFunction
from ...types import NoneType, Scalar, Type
from ..builder import Builder
from ..ir import Function, Operand
from . import loops, memory
from .conversion import convert_value
from .core import Lower, Mem, is_function_call
from .variables import assign_variable

RETURNING = 3  # in the frame: a callback is leaving its function with a value


def calls_functions(clause: Clause) -> bool:
    return any(is_function_call(node) for node in walk([clause.predicate, clause.body]))


def call_into(lo: Lower, node: Call, mem: Mem, type: Type, pad: bool) -> None:
    """A result that is no number, into memory."""
    have = lo.probe.functions[node.name].result
    with lo.scope():
        made = lo.temp(have.size, "result")
        memory.zero(lo, made, have.size)
        call(lo, node, made)
        convert_value(lo, made, have, mem, type, pad)


def call(lo: Lower, node: Call, result_at: Mem | None = None) -> Operand:
    """The function's result; the program ends behind the call if the function says so."""
    made = lo.probe.functions[node.name]
    label = lo.subprograms.get(node.name) or _define(lo, made)
    args: list[Operand] = []
    for parameter, arg in zip(made.params, node.args):
        if isinstance(parameter.type, Scalar):
            args.append(lo.normalise(lo.scalar_value(arg), parameter.type))
        else:
            copy = lo.temp(parameter.type.size, parameter.name)
            lo.write_value(arg, copy, parameter.type)
            args.append(lo.operand_address(copy))
    if result_at is None and not isinstance(made.result, (Scalar, NoneType)):  # nobody wants it
        result_at = lo.temp(made.result.size, "result")
    if result_at is not None:
        args.append(lo.operand_address(result_at))
    if made.frame:
        assert lo.frame is not None
        args.append(lo.operand_address(lo.frame))
    lo.forget()
    lo.last_time = None
    result = lo.b.function_call(label, args)
    if made.frame:
        _end_if_told(lo)
    return result


def _end_if_told(lo: Lower) -> None:
    assert lo.frame is not None and lo.done is not None
    ended, on = lo.b.block("ended", cold=True), lo.b.block("on")
    lo.b.branch("jne", lo.b.load(lo.frame.base, lo.frame.off + 8), 0, ended, on)
    lo.b.start(ended)
    if lo.b.function is lo.function:
        lo.b.jump(lo.done)
    else:
        lo.b.exit(1)
    lo.b.start(on)


def _define(lo: Lower, made: CheckedFunction) -> str:
    """Lower the function, once in each program; its label."""
    function = Function(f"fn_{made.name}", len(made.params) + made.by_address + made.frame)
    lo.subprograms[made.name] = function.name
    saved = {name: getattr(lo, name) for name in _STATE}
    lo.program.functions.append(function)
    outer_span = lo.b.span
    lo.function, lo.b = function, Builder(function)
    lo.b.span = outer_span
    lo.scratch = lo.scratch_base()
    lo.bases[function] = lo.scratch
    lo.variables, lo.lookups, lo.typed, lo.loops, lo.temps = {}, {}, {}, [], [[]]
    lo.frame, lo.frame_vars, lo.frame_pointers, lo.counted, lo.carried = None, set(), {}, set(), {}
    lo.last_time, lo.dispatch, lo.subprogram = None, None, made
    lo.done = lo.b.block("done")
    outer = Mem(function.params[-1]) if made.frame else None
    lo.ctx = lo.b.load(outer.base, 0) if outer is not None else 0
    for parameter, register in zip(made.params, function.params):
        if id(parameter) in lo.addressed and isinstance(parameter.type, Scalar):
            assign_variable(lo, Variable(parameter.span, name=parameter.name, slot=parameter), register)
        elif isinstance(parameter.type, Scalar):
            lo.variables[id(parameter)] = lo.b.mov(register, f"${parameter.name}")
        else:
            lo.variables[id(parameter)] = Mem(register)
    lo.result_at = function.params[len(made.params)] if made.by_address else None
    _body(lo, made, outer)
    for name, value in saved.items():
        setattr(lo, name, value)
    return function.name


_STATE = ("function", "b", "ctx", "scratch", "variables", "lookups", "typed", "loops", "temps", "frame", "frame_vars",
          "frame_pointers", "counted", "carried", "last_time", "dispatch", "done", "subprogram", "result_at",
          "return_at")


def _body(lo: Lower, made: CheckedFunction, outer: Mem | None) -> None:
    if loops.has_callbacks(lo.unit, made.clause) or calls_functions(made.clause):
        loops.prepare_frame(lo, made.clause)
        if lo.result_at is not None:
            assert lo.frame is not None
            lo.b.store(lo.frame.base, lo.frame.off + lo.return_at, lo.result_at)
    lo.lower_block(made.clause.body)
    if not lo.b.closed:
        lo.b.exit(0)
    assert lo.done is not None
    lo.b.start(lo.done)
    if lo.frame is not None:
        _leave_with_value(lo)
    if outer is not None:
        lo.b.store(outer.base, 8, 1)
    lo.b.exit(0)


def _leave_with_value(lo: Lower) -> None:
    """A callback of this function may have met a ``return``."""
    assert lo.frame is not None
    returning, ending = lo.b.block("returning"), lo.b.block("ending")
    lo.b.branch("jeq", lo.b.load(lo.frame.base, lo.frame.off + 8), RETURNING, returning, ending)
    lo.b.start(returning)
    assert lo.subprogram is not None
    lo.b.exit(0 if lo.subprogram.by_address else lo.b.load(lo.frame.base, lo.frame.off + lo.return_at))
    lo.b.start(ending)


def return_value(lo: Lower, node: Return) -> None:
    """``return`` in a function."""
    assert lo.subprogram is not None
    value: Operand = 0
    within = lo.b.function is lo.function
    if lo.subprogram.by_address:
        assert node.value is not None
        if within:
            place = lo.result_at
        else:
            assert lo.frame is not None
            place = lo.b.load(lo.frame.base, lo.frame.off + lo.return_at)
        lo.write_value(node.value, Mem(place), lo.subprogram.result)
    elif node.value is not None and not isinstance(lo.subprogram.result, NoneType):
        value = lo.normalise(lo.scalar_value(node.value), lo.subprogram.result)
    if within:
        lo.b.exit(value)
        return
    assert lo.frame is not None
    if not lo.subprogram.by_address:
        lo.b.store(lo.frame.base, lo.frame.off + lo.return_at, value)
    lo.b.store(lo.frame.base, lo.frame.off + 8, RETURNING)
    lo.b.exit(1)
