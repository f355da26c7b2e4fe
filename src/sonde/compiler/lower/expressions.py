"""Expressions: scalars to operands, everything else located in memory or written into it."""

from __future__ import annotations

from ...base.words import to_signed
from ...language.ast import (
    Binary,
    BlockExpr,
    BoolLiteral,
    Call,
    Cast,
    Expr,
    FieldAccess,
    FloatLiteral,
    Index,
    IntLiteral,
    MapRef,
    Name,
    Reference,
    RuledOut,
    Ternary,
    TupleAccess,
    Unary,
    Variable,
)
from ...types import BPF, Aggregate, Bool, Float, Int, Pointer, Type
from ..ir import MapAddr, Operand, Reg
from . import floats, memory
from .arithmetic import as_number, lower_arithmetic
from .calls import builtin_of, function_of
from .control.conditions import condition_value, is_condition, lower_if_value
from .control.ordering import value_before
from .control.subprograms import lower_function_call
from .control.variables import assign_variable
from .core import Lower, counts_at_expression, is_function_call, is_scalar
from .locations import field_value
from .maps import access
from .maps.aggregates import merged_value
from .state import Mem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# --- scalars ----------------------------------------------------------------------------------------------


@counts_at_expression
def scalar_value(lo: Lower, expr: Expr) -> Operand:
    """The canonical 64-bit value of a scalar expression."""
    if isinstance(expr.const, int):
        return to_signed(int(expr.const))
    if is_condition(expr):
        return condition_value(lo, expr)
    return _SCALARS[type(expr)](lo, expr)


def _lower_literal(lo: Lower, expr: Any) -> Operand:
    return to_signed(int(expr.value))


def _lower_variable(lo: Lower, expr: Variable) -> Operand:
    home = lo.state.variables[id(expr.slot)]
    if isinstance(home, Reg):
        return home
    return memory.read_scalar(lo, home, expr.slot.type)


def _lower_map_read(lo: Lower, expr: MapRef) -> Operand:
    info = access.info_of(lo, expr)
    return merged_value(lo, expr, info) if isinstance(info.value, Aggregate) else access.read_element(lo, expr)


def _lower_call(lo: Lower, expr: Call) -> Operand:
    if is_function_call(expr):
        return lower_function_call(lo, expr)
    row = function_of(expr)
    if row is None:
        return _lower_builtin(lo, expr)
    assert row.scalar is not None, expr
    return row.scalar(lo, expr)


def _lower_builtin(lo: Lower, expr: Reference) -> Operand:
    row = builtin_of(expr)
    assert row is not None and row.scalar is not None, expr
    return row.scalar(lo, expr)


def _lower_unary(lo: Lower, expr: Unary) -> Operand:
    if expr.op in ("++", "--"):
        return lower_step(lo, expr)
    if expr.op == "&":
        return _address_of(lo, expr.operand)
    if expr.op == "*":
        mem = lo.locate_value(expr)
        assert mem is not None and expr.type is not None
        return memory.read_scalar(lo, mem, expr.type)
    value = lo.scalar_value(expr.operand)
    if isinstance(expr.type, Float):
        return floats.negate(lo, value)
    assert expr.op in ("-", "~")
    value = lo.b.neg(value) if expr.op == "-" else lo.b.alu("xor", value, -1)
    type = expr.operand.type
    if isinstance(type, Int) and not type.signed and type.bits < 64:
        return lo.b.extend(value, type.bits, False)
    return value


def _address_of(lo: Lower, operand: Expr) -> Operand:
    mem = access.locate_element(lo, operand) if isinstance(operand, MapRef) else lo.locate_value(operand)
    assert mem is not None, operand
    return lo.b.address(mem.base, mem.off)


def _address_of_value(lo: Lower, value: Expr, type: Pointer) -> Operand:
    """The address of a variable, or of what a pointer points to; other values are stored in memory of their own
    first."""
    mem = lo.locate_value(value) if type.space != BPF or isinstance(value, Variable) else None
    if mem is None:
        assert value.type is not None
        mem = Mem(lo.b.slot(value.type.size, "kept"))
        lo.write_value(value, mem, value.type)
    address = lo.b.address(mem.base, mem.off)
    if mem.btf:
        lo.state.typed[address] = 0
    return as_number(lo, address)


def lower_step(lo: Lower, expr: Unary) -> Operand:
    """``++`` and ``--``; on a map this is one atomic operation, so concurrent steps are never lost."""
    amount = 1 if expr.op == "++" else -1
    target = expr.operand
    if isinstance(target.type, Pointer):
        amount *= max(target.type.to.size, 1)
    if isinstance(target, Variable):
        old = lo.b.mov(_lower_variable(lo, target))
        new = lo.normalise(lo.b.alu("add", old, amount), target.slot.type)
        assign_variable(lo, target, new)
        if expr.postfix:
            lo.b.barrier(old)
        return old if expr.postfix else _lower_variable(lo, target)
    assert isinstance(target, MapRef)
    return step_element(lo, target, amount, expr.postfix)


def step_element(lo: Lower, target: MapRef, amount: Operand, postfix: bool) -> Operand:
    """Add to an element, inserting it if need be; the old or the new value."""
    info = access.info_of(lo, target)
    result = lo.b.function.reg("old")
    lo.b.set(result, 0)
    size = max(info.value.size, 4)
    with lo.scope():
        if target.key is None:
            where: Reg | MapAddr = MapAddr(target.name)
            done = lo.b.block("updated")
        else:
            where, done = access.find_or_insert(lo, target)
        if info.value.size in (4, 8):
            lo.b.set(result, lo.fetch_add(where, 0, amount, size))
        else:
            old = memory.read_scalar(lo, Mem(where), info.value)
            lo.b.set(result, old)
            lo.b.store(where, 0, lo.b.alu("add", old, amount), info.value.size)
        if target.key is None:
            access.mark_set(lo, target.name)
        lo.b.start(done)
    old_value = lo.normalise(result, info.value)
    return old_value if postfix else lo.normalise(lo.b.alu("add", old_value, amount), info.value)


def _lower_binary(lo: Lower, expr: Binary) -> Operand:
    left = value_before(lo, expr.left, expr.right)
    right = lo.scalar_value(expr.right)
    return lower_arithmetic(lo, expr.op, left, right, expr.left, expr.right, expr.type)


def _lower_ternary(lo: Lower, expr: Ternary) -> Operand:
    result = lo.b.function.reg("ternary")
    if expr.then is None:  # a ?: b
        value = lo.scalar_value(expr.cond)
        lo.select(result, lambda yes, no: lo.b.branch("jne", value, 0, yes, no), lambda: value,
                  lambda: lo.scalar_value(expr.other))
        return result
    then, other = expr.then, expr.other
    if isinstance(other, RuledOut):
        return lo.scalar_value(then)
    lo.select(result, lambda yes, no: lo.branch_on(expr.cond, yes, no), lambda: lo.scalar_value(then),
              lambda: lo.scalar_value(other))
    return lo.normalise(result, expr.type) if expr.type != then.type else result


def _lower_field(lo: Lower, expr: FieldAccess) -> Operand:
    value = field_value(lo, expr)
    assert not isinstance(value, Mem), expr.name
    return value


def _read_located(lo: Lower, expr: Expr) -> Operand:
    mem = lo.locate_value(expr)
    assert mem is not None and expr.type is not None
    return memory.read_scalar(lo, mem, expr.type)


def _lower_cast(lo: Lower, expr: Cast) -> Operand:
    source = expr.operand.type
    assert expr.type is not None
    if not is_scalar(source):
        if isinstance(expr.type, Pointer):
            return _address_of_value(lo, expr.operand, expr.type)
        first = memory.read_scalar(lo, lo.place_value(expr.operand), expr.type)
        return lo.normalise(first, expr.type) if isinstance(expr.type, Bool) else first  # a string is true if not empty
    value = lo.scalar_value(expr.operand)
    if isinstance(source, Float) or isinstance(expr.type, Float):
        return _convert_number(lo, value, source, expr.type)
    return lo.normalise(value if isinstance(expr.type, Pointer) else as_number(lo, value, source), expr.type)


def _convert_number(lo: Lower, value: Operand, have: Type | None, type: Type) -> Operand:
    """A cast from or to a floating-point type."""
    if not isinstance(type, Float):
        return floats.double_to_integer(lo, value, type)
    return value if isinstance(have, Float) else floats.integer_to_double(lo, value, have)


def _lower_block_value(lo: Lower, expr: BlockExpr) -> Operand:
    if expr.value is not None:
        lo.lower_block(expr.body)
        return lo.scalar_value(expr.value)
    result = lo.b.function.reg("if")
    lower_if_value(lo, expr.body, lambda value: lo.b.set(result, lo.normalise(lo.scalar_value(value), expr.type)))
    return result


_SCALARS: dict[type, Callable[[Lower, Any], Operand]] = {
    IntLiteral: _lower_literal, FloatLiteral: floats.lower_literal, BoolLiteral: _lower_literal,
    Name: _lower_builtin, Variable: _lower_variable,
    MapRef: _lower_map_read, Call: _lower_call, Unary: _lower_unary, Binary: _lower_binary, Ternary: _lower_ternary,
    FieldAccess: _lower_field, TupleAccess: _read_located, Index: _read_located, Cast: _lower_cast,
    BlockExpr: _lower_block_value,
}


# --- conditions -------------------------------------------------------------------------------------------

# --- fields -----------------------------------------------------------------------------------------------


# --- places -----------------------------------------------------------------------------------------------


# --- writing ----------------------------------------------------------------------------------------------

