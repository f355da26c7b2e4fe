"""Statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...language.ast import (
    Assign,
    Block,
    BlockExpr,
    Break,
    Call,
    Continue,
    Expr,
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
from ...types import Aggregate, Pointer, Scalar, Type
from ..ir import MapAddr, Operand
from . import aggregates, expressions, maps, memory
from .core import Loop, Lower, Mem


def block(lo: Lower, body: list[Stmt]) -> None:
    """A run of statements; ``print(@m); clear(@m)`` becomes one request, taken in one step."""
    skip = False
    outer, lo.place = lo.place, None
    for i, stmt in enumerate(body):
        if skip:
            skip = False
            continue
        following = body[i + 1] if i + 1 < len(body) else None
        lo.b.span = stmt.span
        with lo.scope():
            if following is not None and _print_then(stmt, following):
                from .functions import print_map
                assert isinstance(stmt, ExprStmt) and isinstance(following, ExprStmt)
                assert isinstance(stmt.expr, Call) and isinstance(following.expr, Call)
                print_map(lo, stmt.expr, following.expr.name)
                skip = True
            else:
                _STATEMENTS[type(stmt)](lo, stmt)
        if lo.b.closed:
            break  # nothing behind a jump is reached
    lo.place = outer


def _print_then(first: Stmt, second: Stmt) -> bool:
    """print(@m) followed by clear(@m) or zero(@m)."""
    calls = [s.expr for s in (first, second) if isinstance(s, ExprStmt) and isinstance(s.expr, Call)]
    if len(calls) != 2 or calls[0].name != "print" or calls[1].name not in ("clear", "zero"):
        return False
    targets = [c.args[0] for c in calls if c.args]
    return len(targets) == 2 and all(isinstance(t, MapRef) and t.key is None for t in targets) \
        and targets[0].name == targets[1].name


def _expr(lo: Lower, stmt: ExprStmt) -> None:
    expr = stmt.expr
    if isinstance(expr, Ternary) and expr.then is not None and not isinstance(expr.type, Scalar):
        then, other = ExprStmt(stmt.span, expr.then), ExprStmt(stmt.span, expr.other)
        _expr(lo, then) if isinstance(expr.other, RuledOut) else _if(lo, If(stmt.span, expr.cond, [then], [other]))
        return
    if isinstance(expr, BlockExpr) and expr.value is not None:  # a macro's argument: its value may be none
        block(lo, expr.body)
        if not lo.b.closed:
            _expr(lo, ExprStmt(stmt.span, expr.value))
        return
    if isinstance(expr, Call):
        from .functions import STATEMENT_CALLS
        lowering = STATEMENT_CALLS.get(expr.name)
        if lowering is not None:
            lowering(lo, expr)
            return
    if isinstance(expr.type, Scalar):
        expressions.scalar(lo, expr)
    elif expr.type is not None and expr.type.size:
        expressions.locate_or_materialise(lo, expr)
    elif not isinstance(expr, TupleExpr):  # () is nothing at all
        expressions.scalar(lo, expr)


def _assign(lo: Lower, stmt: Assign) -> None:
    target = stmt.target
    if isinstance(target, MapRef):
        _assign_map(lo, target, stmt)
        return
    assert isinstance(target, Variable)
    if stmt.op != "=":
        old = expressions.before(lo, target, stmt.value)
        value = expressions.arithmetic(lo, stmt.op, old, expressions.scalar(lo, stmt.value), target, stmt.value,
                                       _compound_type(stmt, target.slot.type))
        expressions.assign_variable(lo, target, value)
        return
    set_variable(lo, target, stmt.value)


def set_variable(lo: Lower, target: Variable, value: Expr | None) -> None:
    """``$x = value``; without a value it becomes zero."""
    type = target.slot.type
    if isinstance(type, Scalar):
        expressions.assign_variable(lo, target, expressions.kept(lo, value) if value is not None else 0)
        return
    mem = lo.variables.get(id(target.slot))
    if mem is None:
        slot = lo.b.slot(type.size, target.name)
        mem = lo.variables[id(target.slot)] = Mem(slot)
    assert isinstance(mem, Mem)
    if value is None:
        memory.zero(lo, mem, type.size)
    else:
        expressions.replace(lo, target, value, mem, type)


def _assign_map(lo: Lower, target: MapRef, stmt: Assign) -> None:
    info = maps.info_of(lo, target)
    value = stmt.value
    if isinstance(info.value, Aggregate) and isinstance(value, Call) and value.name == info.value.kind:
        aggregates.update(lo, target, value)
    elif stmt.op == "=":
        maps.assign(lo, target, value)
    elif stmt.op in ("+", "-"):
        amount = expressions.before(lo, value, target.key)
        if isinstance(info.value, Pointer):
            amount = lo.b.alu("mul", amount, max(info.value.to.size, 1))
        if stmt.op == "-":
            amount = lo.b.neg(amount)
        expressions.step_map(lo, target, amount, postfix=True)
    else:
        _compound(lo, target, stmt, info)


def _compound(lo: Lower, target: MapRef, stmt: Assign, info: Any) -> None:
    """``@m[k] *= v``: read, compute, write; like bpftrace's not atomic."""
    value = expressions.before(lo, stmt.value, target.key)
    if target.key is None:
        where: Any = MapAddr(target.name)
        done = lo.b.block("updated")
    else:
        where, done = maps.element(lo, target)
    old = memory.read_scalar(lo, Mem(where), info.value)
    new = expressions.arithmetic(lo, stmt.op, old, value, target, stmt.value, _compound_type(stmt, info.value))
    lo.b.store(where, 0, new, info.value.size)
    if target.key is None:
        maps.mark(lo, target.name)
    lo.b.start(done)


def _compound_type(stmt: Assign, target: Type) -> Type:
    """Type of ``x op value`` in ``x op= value``: a division is unsigned as soon as one of the two is."""
    have, give = convert.as_int(target), number_of(stmt.value, stmt.value.type)
    if stmt.op not in ("/", "%") or have is None or give is None:
        return target
    return convert.division(have, give)


def _declare(lo: Lower, stmt: VarDecl) -> None:
    if stmt.target.slot.type is not None and stmt.target.slot.type.size:
        set_variable(lo, stmt.target, stmt.value)


def _block(lo: Lower, stmt: Block) -> None:
    block(lo, stmt.body)


def _if(lo: Lower, stmt: If) -> None:
    yes, on = lo.b.block("then"), lo.b.block("on")
    no = lo.b.block("else") if stmt.other else on
    with lo.region():
        expressions.condition(lo, stmt.cond, yes, no)
        lo.b.start(yes)
        block(lo, stmt.then)
    if not lo.b.closed:
        lo.b.jump(on)
    if stmt.other:
        lo.b.start(no)
        with lo.region():
            block(lo, stmt.other)
    lo.b.start(on)


def if_value(lo: Lower, body: list[Stmt], give: Callable[[Expr], None]) -> None:
    """``if c { a } else { b }`` as a value: ``give`` takes the expression that ends the branch."""
    last = body[-1]
    block(lo, body[:-1])
    if isinstance(last, ExprStmt):
        give(last.expr)
        return
    assert isinstance(last, If)
    yes, no, join = lo.b.block("then"), lo.b.block("else"), lo.b.block("join")
    with lo.region():
        expressions.condition(lo, last.cond, yes, no)
        lo.b.start(yes)
        if_value(lo, last.then, give)
    if not lo.b.closed:
        lo.b.jump(join)
    lo.b.start(no)
    with lo.region():
        if_value(lo, last.other, give)
    lo.b.start(join)


def _loop(lo: Lower, leave: Any, again: Any, body: Callable[[], None]) -> None:
    lo.loops.append(Loop(leave, again))
    with lo.region():
        body()
    lo.loops.pop()


def _while(lo: Lower, stmt: While) -> None:
    from .loops import is_short, while_loop
    if not is_short(lo.unit, stmt):
        while_loop(lo, stmt)
        return
    head, body, leave = lo.b.block("while"), lo.b.block("body"), lo.b.block("leave")
    lo.forget()
    lo.last_time = None
    lo.b.start(head)
    with lo.region():
        expressions.condition(lo, stmt.cond, body, leave)
        lo.b.start(body)
        _loop(lo, leave, head, lambda: block(lo, stmt.body))
    if not lo.b.closed:
        lo.b.jump(head)
    lo.forget()
    lo.b.start(leave)


def _unroll(lo: Lower, stmt: Unroll) -> None:
    leave = lo.b.block("leave")
    assert isinstance(stmt.count.const, int)
    for _ in range(stmt.count.const):
        again = lo.b.block("again")
        _loop(lo, leave, again, lambda: block(lo, stmt.body))
        lo.b.start(again)
    lo.b.start(leave)


def _break(lo: Lower, stmt: Break) -> None:
    lo.b.jump(lo.loops[-1].leave)


def _continue(lo: Lower, stmt: Continue) -> None:
    lo.b.jump(lo.loops[-1].again)


def _return(lo: Lower, stmt: Return) -> None:
    if lo.subprogram is not None:
        from .subprograms import return_value
        return_value(lo, stmt)
        return
    value = expressions.scalar(lo, stmt.value) if stmt.value is not None and isinstance(stmt.value.type, Scalar) else 0
    if lo.attach[0].kind == "test":
        lo.b.store(lo.unit.global_word("test_result"), 0, value)
    leave_program(lo, value)


def leave_program(lo: Lower, value: Operand = 0) -> None:
    """End the action; from a callback by way of a flag that the loop's owner looks at."""
    if lo.b.function is lo.function:
        assert lo.done is not None
        lo.b.jump(lo.done)
        return
    assert lo.frame is not None
    lo.b.store(lo.frame.base, lo.frame.off + 8, 1)
    lo.b.exit(1)


def _for(lo: Lower, stmt: For) -> None:
    from .loops import for_loop
    for_loop(lo, stmt)


_STATEMENTS: dict[type, Callable[[Lower, Any], None]] = {
    ExprStmt: _expr, Assign: _assign, VarDecl: _declare, Block: _block, If: _if, While: _while, Unroll: _unroll,
    For: _for, Break: _break, Continue: _continue, Return: _return,
}

__all__ = ["block", "if_value", "leave_program", "set_variable"]
