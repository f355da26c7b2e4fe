"""The script's own functions (``fn``): each becomes a BPF function of the program that calls it.

Numbers and pointers are passed in registers, anything else as the address of a copy; the address at which to write a
result that is not a number comes after the arguments. A function that needs the program's context, or may end the
program, also gets the caller's frame, last of all (see :mod:`.loops` for what is in it).
"""

from __future__ import annotations

from ....language.ast import Call, Clause, Return, Variable
from ....semantics.nodes import walk_nodes
from ....semantics.typed import CheckedFunction
from ....types import NoneType, Scalar, Type
from ...ir import Operand
from .. import memory
from ..conversion import convert_value
from ..core import Lower, is_function_call
from ..state import CONTEXT, ENDING, OUTCOME, RETURNING, FunctionState, Mem, Sharing
from . import loops
from .variables import assign_variable


def calls_functions(clause: Clause) -> bool:
    return any(is_function_call(node) for node in walk_nodes([clause.predicate, clause.body]))


def write_function_result(lo: Lower, node: Call, mem: Mem, type: Type, pad: bool) -> None:
    """A result that is no number, into memory."""
    have = lo.probe.functions[node.name].result
    with lo.scope():
        made = lo.temp(have.size, "result")
        memory.clear_bytes(lo, made, have.size)
        lower_function_call(lo, node, made)
        convert_value(lo, made, have, mem, type, pad)


def lower_function_call(lo: Lower, node: Call, result_at: Mem | None = None) -> Operand:
    """The function's result; the program ends after the call if the function says so."""
    made = lo.probe.functions[node.name]
    label = lo.subprograms.get(node.name) or _define_function(lo, made)
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
        args.append(lo.operand_address(lo.frame))
    lo.forget()
    lo.state.last_time = None
    result = lo.b.function_call(label, args)
    if made.frame:
        _leave_if_ended(lo)
    return result


def _leave_if_ended(lo: Lower) -> None:
    ended, on = lo.b.block("ended", cold=True), lo.b.block("on")
    lo.b.branch("jne", lo.load_outcome(), 0, ended, on)
    lo.b.start(ended)
    lo.leave_function()
    lo.b.start(on)


def _define_function(lo: Lower, made: CheckedFunction) -> str:
    """Lower the function, once in each program; its label."""
    function = lo.add_function(f"fn_{made.name}", len(made.params) + made.by_address + made.frame)
    lo.subprograms[made.name] = function.name
    probe_offset = lo.state.sharing.probe_offset  # of whoever calls it: all have it there
    result_address = function.params[len(made.params)] if made.by_address else None
    with lo.building(FunctionState(function, lo.b.span, Sharing(made, result_address))) as state:
        outer = Mem(function.params[-1]) if made.frame else None
        state.context = lo.b.load(outer.base, CONTEXT) if outer is not None else 0
        if outer is not None and probe_offset:
            state.probe_index = lo.b.load(outer.base, probe_offset)
        for parameter, register in zip(made.params, function.params):
            if id(parameter) in lo.probe.facts.addressed and isinstance(parameter.type, Scalar):
                assign_variable(lo, Variable(parameter.span, name=parameter.name, slot=parameter), register)
            elif isinstance(parameter.type, Scalar):
                state.variables[id(parameter)] = lo.b.mov(register, f"${parameter.name}")
            else:
                state.variables[id(parameter)] = Mem(register)
        _lower_function_body(lo, made, outer)
    return function.name


def _lower_function_body(lo: Lower, made: CheckedFunction, outer: Mem | None) -> None:
    sharing = lo.state.sharing
    if loops.has_callbacks(lo.unit, made.clause) or calls_functions(made.clause):
        loops.prepare_frame(lo, made.clause)
        if sharing.result_address is not None:
            lo.b.store(lo.frame.base, lo.frame.off + sharing.result_offset, sharing.result_address)
    lo.lower_block(made.clause.body)
    if not lo.b.closed:
        lo.b.exit(0)
    lo.b.start(lo.state.done)
    if lo.state.frame is not None:
        _leave_with_value(lo, made)
    if outer is not None:
        lo.b.store(outer.base, OUTCOME, ENDING)
    lo.b.exit(0)


def _leave_with_value(lo: Lower, made: CheckedFunction) -> None:
    """Return here, if a callback of this function executed a ``return``."""
    returning, ending = lo.b.block("returning"), lo.b.block("ending")
    lo.b.branch("jeq", lo.load_outcome(), RETURNING, returning, ending)
    lo.b.start(returning)
    lo.b.exit(0 if made.by_address else lo.b.load(lo.frame.base, lo.frame.off + lo.state.sharing.result_offset))
    lo.b.start(ending)


def return_value(lo: Lower, node: Return, made: CheckedFunction) -> None:
    """``return`` in a function."""
    sharing = lo.state.sharing
    value: Operand = 0
    if made.by_address:
        assert node.value is not None
        address = lo.b.load(lo.frame.base, lo.frame.off + sharing.result_offset) if lo.state.is_callback \
            else sharing.result_address
        assert address is not None
        lo.write_value(node.value, Mem(address), made.result)
    elif node.value is not None and not isinstance(made.result, NoneType):
        value = lo.normalise(lo.scalar_value(node.value), made.result)
    lo.destroy_iterators()
    if not lo.state.is_callback:
        lo.b.exit(value)
        return
    if not made.by_address:
        lo.b.store(lo.frame.base, lo.frame.off + sharing.result_offset, value)
    lo.store_outcome(RETURNING)
    lo.b.exit(1)
