"""Statements."""

from __future__ import annotations

from ...language.ast import (
    Assign,
    Block,
    BlockExpr,
    Break,
    Call,
    Continue,
    ExprStmt,
    For,
    If,
    MapRef,
    Return,
    RuledOut,
    Stmt,
    Ternary,
    TupleExpr,
    Unroll,
    VarDecl,
    Variable,
    While,
)
from ...semantics import convert
from ...semantics.operators import number_of
from ...semantics.typed import ScriptMap, WholeMap
from ...types import Pointer, Scalar, Type
from ..ir import BasicBlock, MapAddr, Reg
from . import expressions, memory
from .arithmetic import lower_arithmetic
from .calls import function_of
from .control.loops import is_short, lower_for, lower_long_while
from .control.ordering import value_before
from .control.subprograms import return_value
from .control.variables import assign_variable, set_variable
from .core import Lower
from .maps import access, aggregates
from .records import request_print
from .state import LoopTargets, Mem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def lower_block(lo: Lower, body: list[Stmt]) -> None:
    """A run of statements; ``print(@m); clear(@m)`` becomes one request, taken in one step."""
    skip = False
    outer, lo.expression_span = lo.expression_span, None
    for i, stmt in enumerate(body):
        if skip:
            skip = False
            continue
        following = body[i + 1] if i + 1 < len(body) else None
        lo.b.span = stmt.expr.span if isinstance(stmt, ExprStmt) else stmt.span  # without its semicolon
        with lo.scope():
            printed, emptied = _on_whole_map(stmt), _on_whole_map(following)
            if printed and emptied and printed[1].map == emptied[1].map \
                    and printed[0] == "print" and emptied[0] in ("clear", "zero"):
                request_print(lo, printed[1], emptied[0])
                skip = True
            else:
                _STATEMENTS[type(stmt)](lo, stmt)
        if lo.b.closed:
            break  # nothing after a jump is reached
    lo.expression_span = outer


def _on_whole_map(stmt: Stmt | None) -> tuple[str, WholeMap] | None:
    """The action of a statement on a whole map, and the map."""
    call = stmt.expr if isinstance(stmt, ExprStmt) else None
    row = function_of(call)
    return (row.on_map, call.choice) if isinstance(call, Call) and row is not None \
        and isinstance(call.choice, WholeMap) else None


def _lower_expression(lo: Lower, stmt: ExprStmt) -> None:
    expr = stmt.expr
    if isinstance(expr, Ternary) and expr.then is not None and not isinstance(expr.type, Scalar):
        then, other = ExprStmt(stmt.span, expr.then), ExprStmt(stmt.span, expr.other)
        if isinstance(expr.other, RuledOut):
            _lower_expression(lo, then)
        else:
            _lower_if(lo, If(stmt.span, expr.cond, [then], [other]))
        return
    if isinstance(expr, BlockExpr) and expr.value is not None:  # a macro's argument: its value may be none
        lo.lower_block(expr.body)
        if not lo.b.closed:
            _lower_expression(lo, ExprStmt(stmt.span, expr.value))
        return
    row = function_of(expr)
    if row is not None and row.statement is not None:
        assert isinstance(expr, Call)
        row.statement(lo, expr)
        return
    if isinstance(expr.type, Scalar):
        lo.scalar_value(expr)
    elif expr.type is not None and expr.type.size:
        lo.place_value(expr)
    elif not isinstance(expr, TupleExpr):  # () is nothing at all
        lo.scalar_value(expr)


def _lower_assignment(lo: Lower, stmt: Assign) -> None:
    target = stmt.target
    if isinstance(target, MapRef):
        _assign_map(lo, target, stmt)
        return
    assert isinstance(target, Variable)
    if stmt.op != "=":
        old = value_before(lo, target, stmt.value)
        value = lower_arithmetic(lo, stmt.op, old, lo.scalar_value(stmt.value), target, stmt.value,
                                       _compound_type(stmt, target.slot.type))
        assign_variable(lo, target, value)
        return
    set_variable(lo, target, stmt.value)


def _assign_map(lo: Lower, target: MapRef, stmt: Assign) -> None:
    info = access.info_of(lo, target)
    value = stmt.value
    row = function_of(value)
    if row is not None and row.aggregate:
        assert isinstance(value, Call)
        aggregates.update_aggregate(lo, target, value)
    elif stmt.op == "=":
        access.assign_element(lo, target, value)
    elif stmt.op in ("+", "-"):
        amount = value_before(lo, value, target.key)
        if isinstance(info.value, Pointer):
            amount = lo.b.alu("mul", amount, max(info.value.to.size, 1))
        if stmt.op == "-":
            amount = lo.b.neg(amount)
        expressions.step_element(lo, target, amount, postfix=True)
    else:
        _assign_compound(lo, target, stmt, info)


def _assign_compound(lo: Lower, target: MapRef, stmt: Assign, info: ScriptMap) -> None:
    """``@m[k] *= v``: read, compute, write; like bpftrace's not atomic."""
    value = value_before(lo, stmt.value, target.key)
    if target.key is None:
        where: Reg | MapAddr = MapAddr(target.name)
        done = lo.b.block("updated")
    else:
        where, done = access.find_or_insert(lo, target)
    old = memory.read_scalar(lo, Mem(where), info.value)
    new = lower_arithmetic(lo, stmt.op, old, value, target, stmt.value, _compound_type(stmt, info.value))
    lo.b.store(where, 0, new, info.value.size)
    if target.key is None:
        access.mark_set(lo, target.name)
    lo.b.start(done)


def _compound_type(stmt: Assign, target: Type) -> Type:
    """Type of ``x op value`` in ``x op= value``: a division is unsigned as soon as one of the two is."""
    have, give = convert.as_int(target), number_of(stmt.value, stmt.value.type)
    if stmt.op not in ("/", "%") or have is None or give is None:
        return target
    return convert.division_type(have, give)


def _lower_declaration(lo: Lower, stmt: VarDecl) -> None:
    if stmt.target.slot.type is not None and stmt.target.slot.type.size:
        set_variable(lo, stmt.target, stmt.value)


def _lower_scope(lo: Lower, stmt: Block) -> None:
    lo.lower_block(stmt.body)


def _lower_if(lo: Lower, stmt: If) -> None:
    yes, on = lo.b.block("then"), lo.b.block("on")
    no = lo.b.block("else") if stmt.other else on
    with lo.region():
        lo.branch_on(stmt.cond, yes, no)
        lo.b.start(yes)
        lo.lower_block(stmt.then)
    if not lo.b.closed:
        lo.b.jump(on)
    if stmt.other:
        lo.b.start(no)
        with lo.region():
            lo.lower_block(stmt.other)
    lo.b.start(on)


def _in_loop(lo: Lower, leave: BasicBlock, again: BasicBlock, body: Callable[[], None]) -> None:
    lo.state.loops.append(LoopTargets(leave, again))
    with lo.region():
        body()
    lo.state.loops.pop()


def _lower_while(lo: Lower, stmt: While) -> None:
    if not is_short(lo.unit, stmt):
        lower_long_while(lo, stmt)
        return
    head, body, leave = lo.b.block("while"), lo.b.block("body"), lo.b.block("leave")
    lo.forget()
    lo.state.last_time = None
    lo.b.start(head)
    with lo.region():
        lo.branch_on(stmt.cond, body, leave)
        lo.b.start(body)
        _in_loop(lo, leave, head, lambda: lo.lower_block(stmt.body))
    if not lo.b.closed:
        lo.b.jump(head)
    lo.forget()
    lo.b.start(leave)


def _lower_unroll(lo: Lower, stmt: Unroll) -> None:
    leave = lo.b.block("leave")
    assert isinstance(stmt.count.const, int)
    for _ in range(stmt.count.const):
        again = lo.b.block("again")
        _in_loop(lo, leave, again, lambda: lo.lower_block(stmt.body))
        lo.b.start(again)
    lo.b.start(leave)


def _lower_break(lo: Lower, stmt: Break) -> None:
    lo.b.jump(lo.state.loops[-1].leave)


def _lower_continue(lo: Lower, stmt: Continue) -> None:
    lo.b.jump(lo.state.loops[-1].again)


def _lower_return(lo: Lower, stmt: Return) -> None:
    subprogram = lo.state.sharing.subprogram
    if subprogram is not None:
        return_value(lo, stmt, subprogram)
        return
    value = lo.scalar_value(stmt.value) if stmt.value is not None and isinstance(stmt.value.type, Scalar) else 0
    if lo.attach[0].kind == "test":
        lo.b.store(lo.unit.global_word("test_result"), 0, value)
    lo.leave_program()


def _lower_for(lo: Lower, stmt: For) -> None:
    lower_for(lo, stmt)


_STATEMENTS: dict[type, Callable[[Lower, Any], None]] = {
    ExprStmt: _lower_expression, Assign: _lower_assignment, VarDecl: _lower_declaration, Block: _lower_scope,
    If: _lower_if, While: _lower_while, Unroll: _lower_unroll, For: _lower_for, Break: _lower_break,
    Continue: _lower_continue, Return: _lower_return,
}
