"""Comparisons of which a side at least is a floating-point number."""

from __future__ import annotations

from ....language.ast import Binary, Expr
from ....types import Float, Int
from ...ir import BasicBlock, Operand
from ..core import Lower, canonical_width
from ..floats import branch_on_nan, constant_key, key_of_integer, order_key
from .ordering import value_before

_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_JUMPS = {"<": "jslt", "<=": "jsle", ">": "jsgt", ">=": "jsge", "==": "jeq"}


def branch_on_floats(lo: Lower, expr: Binary, yes: BasicBlock, no: BasicBlock) -> None:
    """A comparison of which a side at least is a floating-point number: exact, also beside integers; with a NaN only
    ``!=`` holds."""
    left, right, op = expr.left, expr.right, expr.op
    values = [value_before(lo, left, right), lo.scalar_value(right)]
    if not isinstance(left.type, Float):
        left, right, op, values = right, left, _SWAPPED[op], values[::-1]
    if op == "!=":
        op, yes, no = "==", no, yes
    for side, bits in zip((left, right), values):
        if isinstance(side.type, Float) and not isinstance(bits, int):
            number = lo.b.block("number")
            branch_on_nan(lo, bits, no, number)
            lo.b.start(number)
    key = order_key(lo, values[0])
    if isinstance(right.type, Float):
        lo.b.branch(_JUMPS[op], key, order_key(lo, values[1]), yes, no)
        return
    floor, ceiling = _keys_around(lo, values[1], right)
    if op == "==" and floor is not ceiling:
        exact = lo.b.block("exact")
        lo.b.branch("jeq", floor, ceiling, exact, no)
        lo.b.start(exact)
    lo.b.branch(_JUMPS[op], key, floor if op in ("<=", ">") else ceiling, yes, no)


def _keys_around(lo: Lower, value: Operand, node: Expr) -> tuple[Operand, Operand]:
    """The keys of the largest double that is not above an integer, and of the smallest that is not below."""
    bits, signed = canonical_width(node.type)
    if isinstance(node.const, int):
        return _constant_keys(node.const)
    key, rest = key_of_integer(lo, value, signed)
    if isinstance(node.type, Int) and bits <= 32:
        return key, key
    minus, plus, on = lo.b.block("minus", cold=True), lo.b.block("plus"), lo.b.block("on")
    floor, ceiling = lo.b.function.reg("floor"), lo.b.function.reg("ceiling")
    lo.b.set(floor, key)
    lo.b.set(ceiling, key)
    more = lo.flag("jne", rest, 0)
    lo.b.branch("jslt", key, 0, minus, plus)
    lo.b.start(minus)
    lo.b.set(floor, lo.b.alu("sub", key, more))
    lo.b.jump(on)
    lo.b.start(plus)
    lo.b.set(ceiling, lo.b.alu("add", key, more))
    lo.b.start(on)
    return floor, ceiling


def _constant_keys(value: int) -> tuple[int, int]:
    nearest = float(value)
    key = constant_key(nearest)
    return key - (int(nearest) > value), key + (int(nearest) < value)
