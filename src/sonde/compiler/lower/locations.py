"""Where values are: members, elements, what pointers point to."""

from __future__ import annotations

from ...language.ast import Cast, Expr, FieldAccess, Index, MapRef, Reference, TupleAccess, Unary, Variable
from ...semantics.nodes import is_args
from ...types import KERNEL, UINT8, Array, Pointer, Scalar, Str, Struct, StructField, Tuple, Type
from ..ir import Operand, Reg
from . import memory
from .arithmetic import as_number
from .calls import builtin_of
from .core import Lower, counts_at_expression, is_scalar
from .maps import access
from .state import Mem


def field_value(lo: Lower, expr: FieldAccess) -> Operand | Mem:
    """A member: its value if it is a scalar, else where it lies."""
    field = expr.field
    if is_args(expr.operand):
        assert field is not None
        return lo.context.argument(lo, field)  # type: ignore[no-any-return]
    operand_type = expr.operand.type
    if field is None and isinstance(operand_type, Tuple):  # a record's member
        return tuple_element(lo, expr.operand, operand_type.names.index(expr.name), operand_type)
    assert field is not None
    if isinstance(operand_type, Pointer):
        base = memory.locate_pointee(lo, lo.scalar_value(expr.operand), operand_type, lo.context.default_space)
    else:
        base = lo.place_value(expr.operand)
    return read_member(lo, base, field, operand_type)


def read_member(lo: Lower, base: Mem, field: StructField, owner: Type | None) -> Operand | Mem:
    if isinstance(field.type, Scalar):
        struct = owner.to if isinstance(owner, Pointer) else owner
        return memory.read_field(lo, base, field, isinstance(struct, Struct) and _may_be_union(struct, field))
    return base.at(field.offset)


def _may_be_union(struct: Struct, field: StructField) -> bool:
    """Whether another member overlaps the field, so that the verifier may take that member's type."""
    if struct.union:
        return True
    return all(f.name != field.name for f in struct.fields)  # reached through an anonymous member


def tuple_element(lo: Lower, operand: Expr, index: int, type: Tuple) -> Operand | Mem:
    mem = lo.place_value(operand)
    element = type.of[index]
    at = mem.at(type.offsets[index])
    return memory.read_scalar(lo, at, element) if isinstance(element, Scalar) else at


@counts_at_expression
def locate_value(lo: Lower, expr: Expr) -> Mem | None:
    """The memory in which the value already lies; None if it has to be computed."""
    if isinstance(expr, Variable):
        home = lo.state.variables[id(expr.slot)]
        return home if isinstance(home, Mem) else None
    if isinstance(expr, MapRef):
        return access.locate_element(lo, expr) if not is_scalar(expr.type) else None
    if isinstance(expr, FieldAccess):
        value = field_value(lo, expr) if not is_scalar(expr.type) or isinstance(expr.operand.type, Tuple) else None
        return value if isinstance(value, Mem) else None
    if isinstance(expr, TupleAccess):
        type = expr.operand.type
        assert isinstance(type, Tuple)
        return lo.place_value(expr.operand).at(type.offsets[expr.index])
    if isinstance(expr, Unary) and expr.op == "*":
        assert isinstance(expr.operand.type, Pointer)
        return memory.locate_pointee(lo, lo.scalar_value(expr.operand), expr.operand.type, lo.context.default_space)
    if isinstance(expr, Index) and isinstance(expr.operand.type, Tuple):
        assert isinstance(expr.index.const, int)
        return lo.place_value(expr.operand).at(expr.operand.type.offsets[expr.index.const])
    if isinstance(expr, Index):
        return locate_element(lo, expr)
    if isinstance(expr, Cast) and isinstance(expr.operand.type, (Array, Struct)) and not is_scalar(expr.type):
        return lo.locate_value(expr.operand)
    builtin = builtin_of(expr)
    if isinstance(expr, Reference) and builtin is not None and builtin.locate is not None:
        return builtin.locate(lo, expr)
    return None


def locate_element(lo: Lower, expr: Index) -> Mem:
    """``a[i]`` on an array (bounds are the checker's or, for an index only known at run time, ours) or pointer."""
    operand = expr.operand
    if isinstance(operand.type, Pointer):
        base = memory.locate_pointee(lo, lo.scalar_value(operand), operand.type, lo.context.default_space)
        element, count = operand.type.to, 0
    else:
        base = lo.place_value(operand)
        assert isinstance(operand.type, (Array, Str))
        element, count = (operand.type.of, operand.type.count) if isinstance(operand.type, Array) \
            else (UINT8, operand.type.capacity)
    if isinstance(expr.index.const, int):
        return base.at(expr.index.const * element.size)
    index = lo.scalar_value(expr.index)
    if count:
        index = _bound_index(lo, index, count)
    address = lo.b.address(base.base, base.off)
    if base.space == KERNEL and base.btf:
        # The verifier allows no variable offset into a typed object: read with the helper.
        address = as_number(lo, address if address in lo.state.typed else _forget_type(lo, address))  # type: ignore[assignment]
    return Mem(lo.b.alu("add", address, lo.b.alu("mul", index, element.size)), 0, base.space)


def _forget_type(lo: Lower, address: Operand) -> Operand:
    assert isinstance(address, Reg)
    lo.state.typed[address] = 0
    return address


def _bound_index(lo: Lower, index: Operand, count: int) -> Operand:
    """An index in range; outside it counts as an error and reads element 0."""
    result = lo.b.function.reg("index")
    lo.b.set(result, index)
    outside, on = lo.b.block("outside", cold=True), lo.b.block("on")
    lo.b.branch("jlt", result, count, on, outside)
    lo.b.start(outside)
    lo.count_error("index")
    lo.b.set(result, 0)
    lo.b.start(on)
    return result
