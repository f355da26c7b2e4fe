"""Conditions: expressions whose value is decided by control flow."""

from __future__ import annotations

from ....language.ast import Binary, Call, Expr, ExprStmt, If, MapRef, Stmt, Unary
from ....semantics import convert
from ....types import UINT8, Str, Symbol
from ...ir import BasicBlock, Operand
from .. import memory
from ..calls import function_of
from ..core import Lower, is_scalar
from ..groups import branch_on_group
from ..maps import access
from ..strings import copies
from ..strings.words import branch_on_bytes
from .float_conditions import branch_on_floats
from .ordering import value_before

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_COMPARE = {"==": ("jeq", "jeq"), "!=": ("jne", "jne"), "<": ("jslt", "jlt"), "<=": ("jsle", "jle"),
            ">": ("jsgt", "jgt"), ">=": ("jsge", "jge")}


def is_condition(expr: Expr) -> bool:
    """Whether the value is decided by control flow."""
    row = function_of(expr)
    if row is not None:
        return row.condition is not None
    return isinstance(expr, Binary) and (expr.op in ("&&", "||") or expr.op in _COMPARE) \
        or isinstance(expr, Unary) and expr.op == "!"


def branch_on(lo: Lower, expr: Expr, yes: BasicBlock, no: BasicBlock) -> None:
    """Branch on an expression. Facts learned on the way to ``yes`` stay known there; the caller starts it next."""
    row = function_of(expr)
    if isinstance(expr.const, int):
        lo.b.jump(yes if expr.const else no)
    elif isinstance(expr, Unary) and expr.op == "!":
        with lo.region():
            lo.branch_on(expr.operand, no, yes)
    elif isinstance(expr, Binary) and expr.op == "&&":
        more = lo.b.block("and")
        lo.branch_on(expr.left, more, no)
        lo.b.start(more)
        lo.branch_on(expr.right, yes, no)
    elif isinstance(expr, Binary) and expr.op == "||":
        more = lo.b.block("or")
        with lo.region():
            lo.branch_on(expr.left, yes, more)
        lo.b.start(more)
        with lo.region():
            lo.branch_on(expr.right, yes, no)
    elif isinstance(expr, Binary) and expr.op in _COMPARE:
        branch_on_comparison(lo, expr, yes, no)
    elif isinstance(expr, MapRef) and is_scalar(access.info_of(lo, expr).value):
        access.branch_on_element(lo, expr, yes, no)
    elif isinstance(expr, Call) and row is not None and row.condition is not None:
        row.condition(lo, expr, yes, no)
    elif isinstance(expr.type, Str):
        text = lo.place_value(expr)
        lo.b.branch("jne", memory.read_scalar(lo, text, UINT8), 0, yes, no)
    else:
        lo.b.branch("jne", lo.scalar_value(expr), 0, yes, no)


def condition_value(lo: Lower, expr: Expr) -> Operand:
    """A condition as 0 or 1."""
    result = lo.b.function.reg("bool")
    lo.select(result, lambda yes, no: lo.branch_on(expr, yes, no), lambda: 1, lambda: 0)
    return result


def branch_on_comparison(lo: Lower, expr: Binary, yes: BasicBlock, no: BasicBlock) -> None:
    """``==`` and the others, on scalars, strings, or anything compared byte by byte."""
    left, right = expr.left, expr.right
    if expr.compare == "group":
        _branch_on_group(lo, expr, yes, no)
        return
    if expr.compare == "float":
        branch_on_floats(lo, expr, yes, no)
        return
    if is_scalar(left.type) and is_scalar(right.type):
        if _is_probe_name(left) or _is_probe_name(right):
            copies.branch_on_probe(lo, left if _is_probe_name(left) else right,
                                  right if _is_probe_name(left) else left, expr.op, yes, no)
            return
        signs, unsigns = _COMPARE[expr.op]
        cond = signs if expr.compare == "signed" else unsigns
        lo.b.branch(cond, value_before(lo, left, right), lo.scalar_value(right), yes, no)
        return
    if expr.op == "!=":
        yes, no = no, yes
    if _is_probe_name(left) or _is_probe_name(right):
        probe, text = (left, right) if _is_probe_name(left) else (right, left)
        copies.branch_on_probe(lo, probe, text, "==", yes, no)
    elif isinstance(left.type, Str) or isinstance(right.type, Str):
        copies.branch_on_equal_strings(lo, left, right, yes, no)
    else:
        _equal_values(lo, left, right, yes, no)


def _branch_on_group(lo: Lower, expr: Binary, yes: BasicBlock, no: BasicBlock) -> None:
    """A container, pod or service and a name; no name at all is what is in none."""
    group, text = (expr.left, expr.right) if isinstance(expr.left.type, Symbol) else (expr.right, expr.left)
    assert isinstance(group.type, Symbol) and isinstance(text.const, str)
    if (expr.op == "==") != bool(text.const):
        yes, no = no, yes
    branch_on_group(lo, (group.type.kind,), text.const, yes, no)


def _is_probe_name(expr: Expr) -> bool:
    return isinstance(expr.type, Symbol) and expr.type.kind == "probe"


def _equal_values(lo: Lower, left: Expr, right: Expr, yes: BasicBlock, no: BasicBlock) -> None:
    """Tuples, records and arrays: equal when their bytes are, both built with one layout."""
    assert left.type is not None and right.type is not None
    merged = convert.merge_types(left.type, right.type)  # wide enough for the elements of both
    type = convert.plain_type(merged) if merged is not None else max(left.type, right.type, key=lambda t: t.size)
    with lo.scope():
        copies = []
        for side in (left, right):
            mem = lo.temp(type.size)
            lo.write_value(side, mem, type)
            copies.append(mem)
        branch_on_bytes(lo, copies[0], copies[1], type.size, yes, no)


def lower_if_value(lo: Lower, body: list[Stmt], give: Callable[[Expr], None]) -> None:
    """``if c { a } else { b }`` as a value: ``give`` takes the expression that ends the branch."""
    last = body[-1]
    lo.lower_block(body[:-1])
    if isinstance(last, ExprStmt):
        give(last.expr)
        return
    assert isinstance(last, If)
    yes, no, join = lo.b.block("then"), lo.b.block("else"), lo.b.block("join")
    with lo.region():
        lo.branch_on(last.cond, yes, no)
        lo.b.start(yes)
        lower_if_value(lo, last.then, give)
    if not lo.b.closed:
        lo.b.jump(join)
    lo.b.start(no)
    with lo.region():
        lower_if_value(lo, last.other, give)
    lo.b.start(join)
