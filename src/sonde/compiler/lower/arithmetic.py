"""Arithmetic on scalars: as in C, with division that cannot fail, on numbers and pointers."""

from __future__ import annotations

from ...language.ast import Expr
from ...types import CTX, KERNEL, Pointer, Struct, Type
from ..ir import Operand, Reg
from . import memory
from .core import Lower, canonical_width, is_pointer, is_signed

_OPS = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor", "<<": "lsh"}


def lower_arithmetic(lo: Lower, op: str, left: Operand, right: Operand, a: Expr, b: Expr, type: Type | None) -> Operand:
    """``left op right`` with the operands' types deciding scaling and signedness."""
    if op in ("+", "-") and (is_pointer(a.type) or is_pointer(b.type)):
        return _pointer_arithmetic(lo, op, left, right, a, b)
    left = as_number(lo, left, a.type)
    if op in ("/", "%"):
        return lower_division(lo, op, left, right, canonical_width(type)[1])
    if op == ">>":
        return lo.normalise(lo.b.alu("arsh" if is_signed(a) else "rsh", left, right), type)
    return lo.normalise(lo.b.alu(_OPS[op], left, right), type)


def _pointer_arithmetic(lo: Lower, op: str, left: Operand, right: Operand, a: Expr, b: Expr) -> Operand:
    if isinstance(a.type, Pointer) and isinstance(b.type, Pointer):
        distance = lo.b.alu("sub", as_number(lo, left, a.type), as_number(lo, right, b.type))
        return lower_division(lo, "/", distance, max(a.type.to.size, 1), True)
    pointer, number, type = (left, right, a.type) if is_pointer(a.type) else (right, left, b.type)
    assert isinstance(type, Pointer)
    return lo.b.alu(_OPS[op], as_number(lo, pointer, type), lo.b.alu("mul", number, max(type.to.size, 1)))


def as_number(lo: Lower, pointer: Operand, type: Type | None = None) -> Operand:
    """A pointer that the verifier knows, or may know by its type, as a mere number that may be computed with: the
    difference of two pointers is one (adjust_reg_min_max_vals() in kernel/bpf/verifier.c); so is what lay in a map."""
    to = type.to if isinstance(type, Pointer) and type.space in ("", KERNEL) else None
    known = isinstance(to, Struct) and to.btf_id and (memory.loads_directly(lo) or memory.typed_loads(lo))
    known = known or isinstance(type, Pointer) and type.space == CTX
    if not isinstance(pointer, Reg) or pointer not in lo.state.typed and not known:
        return pointer
    task = lo.world.find_struct("task_struct")
    if lo.unit.feature("rdonly_cast") and task is not None:
        return lo.b.alu("sub", memory.typed_pointer(lo, pointer, task.btf_id), memory.typed_pointer(lo, 0, task.btf_id))
    slot = lo.b.function.slot(8, "plain", scratch=True)
    lo.b.store(slot, 0, pointer)
    return lo.b.load(slot, 0)


def lower_division(lo: Lower, op: str, left: Operand, right: Operand, is_signed: bool, quiet: bool = False) -> Operand:
    """Division and modulo; by zero the result is 1 and the place is counted."""
    kind = ("s" if is_signed else "") + ("div" if op == "/" else "mod")
    if isinstance(right, int) and right != 0:
        return divide_nonzero(lo, kind, left, right)
    result = lo.b.function.reg("quotient")
    lo.b.set(result, 0 if quiet else 1)
    fine, zero, on = lo.b.block("divide"), lo.b.block("by_zero", cold=True), lo.b.block("on")
    lo.b.branch("jne", right, 0, fine, zero)
    lo.b.start(fine)
    lo.b.set(result, divide_nonzero(lo, kind, left, right))
    lo.b.jump(on)
    lo.b.start(zero)
    if not quiet:
        lo.count_error("divide")
    lo.b.start(on)
    return result


def divide_nonzero(lo: Lower, kind: str, left: Operand, right: Operand) -> Operand:
    """Signed division without the instruction of v4 (Linux 6.6): by magnitude, the sign put back."""
    if not kind.startswith("s") or lo.unit.feature("isa_v4"):
        return lo.b.alu(kind, left, right)
    sign = lo.b.alu("arsh", left, 63)
    other = lo.b.alu("arsh", right, 63)
    magnitude = lo.b.alu("sub", lo.b.alu("xor", left, sign), sign)
    divisor = lo.b.alu("sub", lo.b.alu("xor", right, other), other)
    value = lo.b.alu(kind[1:], magnitude, divisor)
    sign = sign if kind == "smod" else lo.b.alu("xor", sign, other)
    return lo.b.alu("sub", lo.b.alu("xor", value, sign), sign)
