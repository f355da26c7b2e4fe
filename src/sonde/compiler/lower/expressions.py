"""Expressions: scalars to operands, everything else located in memory or written into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...language.ast import (
    Binary,
    BlockExpr,
    BoolLiteral,
    Call,
    Cast,
    Expr,
    FieldAccess,
    Index,
    IntLiteral,
    MapRef,
    Name,
    RuledOut,
    Ternary,
    TupleAccess,
    TupleExpr,
    Unary,
    Variable,
)
from ...semantics import convert
from ...semantics.nodes import walk
from ...semantics.typed import ScratchVar
from ...types import KERNEL, UINT8, Array, Buf, Inet, Pointer, Scalar, Str, Struct, StructField, Tuple, Type
from ..ir import Block, MapAddr, Operand, Reg
from ..optimize import signed
from . import builtins, maps, memory, records, strings
from .arithmetic import arithmetic, divide, plain
from .core import Lower, Mem, is_function_call, is_scalar, placed, width

# --- scalars ----------------------------------------------------------------------------------------------


@placed
def scalar(lo: Lower, expr: Expr) -> Operand:
    """The canonical 64-bit value of a scalar expression."""
    if isinstance(expr.const, int):
        return signed(int(expr.const))
    if is_condition(expr):
        return condition_value(lo, expr)
    return _SCALARS[type(expr)](lo, expr)


def _literal(lo: Lower, expr: Any) -> Operand:
    return signed(int(expr.value))


def _variable(lo: Lower, expr: Variable) -> Operand:
    place = lo.variables[id(expr.slot)]
    if isinstance(place, Reg):
        return place
    return memory.read_scalar(lo, place, expr.slot.type)


def _map(lo: Lower, expr: MapRef) -> Operand:
    return maps.read(lo, expr)


def _call(lo: Lower, expr: Call) -> Operand:
    from .functions import SCALAR_CALLS
    if expr.name in lo.probe.functions:
        from .subprograms import call
        return call(lo, expr)
    lowering = SCALAR_CALLS.get(expr.name)
    if lowering is not None:
        return lowering(lo, expr)
    return builtins.scalar_builtin(lo, expr)


def _unary(lo: Lower, expr: Unary) -> Operand:
    if expr.op in ("++", "--"):
        return step(lo, expr)
    if expr.op == "&":
        return _address_of(lo, expr.operand)
    if expr.op == "*":
        place = locate(lo, expr)
        assert place is not None and expr.type is not None
        return memory.read_scalar(lo, place, expr.type)
    value = scalar(lo, expr.operand)
    assert expr.op in ("-", "~")
    value = lo.b.neg(value) if expr.op == "-" else lo.b.alu("xor", value, -1)
    bits, signed = width(expr.operand.type)
    return value if signed else lo.b.extend(value, bits, False) if bits < 64 else value


def kept(lo: Lower, expr: Expr) -> Operand:
    """The value of an expression as it is printed or kept in a variable, a tuple or a map: a narrow number that was
    negated or complemented has the bits of its own width and no sign there, while it is computed with as C does."""
    value = scalar(lo, expr)
    if isinstance(expr, Unary) and expr.op in ("-", "~") and expr.const is None:
        bits, _ = width(expr.operand.type)
        return lo.b.extend(value, bits, False) if bits < 64 else value
    return value


def _address_of(lo: Lower, operand: Expr) -> Operand:
    place = maps.locate_value(lo, operand) if isinstance(operand, MapRef) else locate(lo, operand)
    assert place is not None, operand
    return lo.b.address(place.base, place.off)


def step(lo: Lower, expr: Unary) -> Operand:
    """``++`` and ``--``; on a map this is one atomic operation, so concurrent steps are never lost."""
    amount = 1 if expr.op == "++" else -1
    target = expr.operand
    if isinstance(target.type, Pointer):
        amount *= max(target.type.to.size, 1)
    if isinstance(target, Variable):
        old = lo.b.mov(_variable(lo, target))
        new = lo.normalise(lo.b.alu("add", old, amount), target.slot.type)
        assign_variable(lo, target, new)
        if expr.postfix:
            lo.b.barrier(old)
        return old if expr.postfix else _variable(lo, target)
    assert isinstance(target, MapRef)
    return step_map(lo, target, amount, expr.postfix)


def step_map(lo: Lower, target: MapRef, amount: Operand, postfix: bool) -> Operand:
    """Add to an element, inserting it if need be; the old or the new value."""
    info = maps.info_of(lo, target)
    result = lo.b.function.reg("old")
    lo.b.set(result, 0)
    size = max(info.value.size, 4)
    with lo.scope():
        if target.key is None:
            where: Any = MapAddr(target.name)
            done = lo.b.block("updated")
        else:
            where, done = maps.element(lo, target)
        if info.value.size in (4, 8):
            lo.b.set(result, lo.b.fetch_add(where, 0, amount, size))
        else:
            old = memory.read_scalar(lo, Mem(where), info.value)
            lo.b.set(result, old)
            lo.b.store(where, 0, lo.b.alu("add", old, amount), info.value.size)
        if target.key is None:
            maps.mark(lo, target.name)
        lo.b.start(done)
    old_value = lo.normalise(result, info.value)
    return old_value if postfix else lo.normalise(lo.b.alu("add", old_value, amount), info.value)


def _binary(lo: Lower, expr: Binary) -> Operand:
    left = before(lo, expr.left, expr.right)
    right = scalar(lo, expr.right)
    return arithmetic(lo, expr.op, left, right, expr.left, expr.right, expr.type)


def before(lo: Lower, expr: Expr, following: Expr | None) -> Operand:
    """The value of ``expr`` as it is before ``following`` is evaluated, which may change a variable in it."""
    value = scalar(lo, expr)
    return lo.b.mov(value) if following is not None and records.must_run_first(following) else value


def evaluated(lo: Lower, expr: Expr) -> Variable:
    """The value of ``expr`` as a variable of its own: evaluated now, and only once."""
    from .statements import set_variable
    assert expr.type is not None
    kept = Variable(expr.span, name="value", slot=ScratchVar("value", expr.type, expr.span))
    kept.type = expr.type
    set_variable(lo, kept, expr)
    return kept


def _ternary(lo: Lower, expr: Ternary) -> Operand:
    result = lo.b.function.reg("ternary")
    if expr.then is None:  # a ?: b
        value = scalar(lo, expr.cond)
        lo.select(result, lambda yes, no: lo.b.branch("jne", value, 0, yes, no), lambda: value,
                  lambda: scalar(lo, expr.other))
        return result
    then, other = expr.then, expr.other
    if isinstance(other, RuledOut):
        return scalar(lo, then)
    lo.select(result, lambda *to: condition(lo, expr.cond, *to), lambda: scalar(lo, then), lambda: scalar(lo, other))
    return lo.normalise(result, expr.type) if expr.type != then.type else result


def _field(lo: Lower, expr: FieldAccess) -> Operand:
    value = field_value(lo, expr)
    assert not isinstance(value, Mem), expr.name
    return value


def _in_memory(lo: Lower, expr: Expr) -> Operand:
    place = locate(lo, expr)
    assert place is not None and expr.type is not None
    return memory.read_scalar(lo, place, expr.type)


def _cast(lo: Lower, expr: Cast) -> Operand:
    source = expr.operand.type
    if not is_scalar(source):
        place = locate_or_materialise(lo, expr.operand)
        assert expr.type is not None
        return memory.read_scalar(lo, place, expr.type)
    value = scalar(lo, expr.operand)
    return lo.normalise(value if isinstance(expr.type, Pointer) else plain(lo, value, source), expr.type)


def _block(lo: Lower, expr: BlockExpr) -> Operand:
    from .statements import block, if_value
    if expr.value is not None:
        block(lo, expr.body)
        return scalar(lo, expr.value)
    result = lo.b.function.reg("if")
    if_value(lo, expr.body, lambda value: lo.b.set(result, lo.normalise(scalar(lo, value), expr.type)))
    return result


_SCALARS: dict[type, Callable[[Lower, Any], Operand]] = {
    IntLiteral: _literal, BoolLiteral: _literal, Name: builtins.scalar_builtin, Variable: _variable, MapRef: _map,
    Call: _call, Unary: _unary, Binary: _binary, Ternary: _ternary, FieldAccess: _field, TupleAccess: _in_memory,
    Index: _in_memory, Cast: _cast, BlockExpr: _block,
}


# --- conditions -------------------------------------------------------------------------------------------

_COMPARE = {"==": ("jeq", "jeq"), "!=": ("jne", "jne"), "<": ("jslt", "jlt"), "<=": ("jsle", "jle"),
            ">": ("jsgt", "jgt"), ">=": ("jsge", "jge")}


def is_condition(expr: Expr) -> bool:
    """Whether the value is decided by control flow."""
    if isinstance(expr, Call):
        from .functions import CONDITION_CALLS
        return expr.name in CONDITION_CALLS
    return isinstance(expr, Binary) and (expr.op in ("&&", "||") or expr.op in _COMPARE) \
        or isinstance(expr, Unary) and expr.op == "!"


def condition(lo: Lower, expr: Expr, yes: Block, no: Block) -> None:
    """Branch on an expression. Facts learned on the way to ``yes`` stay known there; the caller starts it next."""
    if isinstance(expr.const, int):
        lo.b.jump(yes if expr.const else no)
    elif isinstance(expr, Unary) and expr.op == "!":
        with lo.region():
            condition(lo, expr.operand, no, yes)
    elif isinstance(expr, Binary) and expr.op == "&&":
        more = lo.b.block("and")
        condition(lo, expr.left, more, no)
        lo.b.start(more)
        condition(lo, expr.right, yes, no)
    elif isinstance(expr, Binary) and expr.op == "||":
        more = lo.b.block("or")
        with lo.region():
            condition(lo, expr.left, yes, more)
        lo.b.start(more)
        with lo.region():
            condition(lo, expr.right, yes, no)
    elif isinstance(expr, Binary) and expr.op in _COMPARE:
        compare(lo, expr, yes, no)
    elif isinstance(expr, MapRef) and is_scalar(maps.info_of(lo, expr).value):
        maps.condition(lo, expr, yes, no)
    elif isinstance(expr, Call) and is_condition(expr):
        from .functions import CONDITION_CALLS
        CONDITION_CALLS[expr.name](lo, expr, yes, no)
    elif isinstance(expr.type, Str):
        place = locate_or_materialise(lo, expr)
        lo.b.branch("jne", memory.read_scalar(lo, place, UINT8), 0, yes, no)
    else:
        lo.b.branch("jne", scalar(lo, expr), 0, yes, no)


def condition_value(lo: Lower, expr: Expr) -> Operand:
    """A condition as 0 or 1."""
    result = lo.b.function.reg("bool")
    lo.select(result, lambda yes, no: condition(lo, expr, yes, no), lambda: 1, lambda: 0)
    return result


def compare(lo: Lower, expr: Binary, yes: Block, no: Block) -> None:
    """``==`` and the others, on scalars, strings, or anything compared byte by byte."""
    left, right = expr.left, expr.right
    if is_scalar(left.type) and is_scalar(right.type):
        if _is_probe_name(left) or _is_probe_name(right):
            strings.compare_probe(lo, left if _is_probe_name(left) else right,
                                  right if _is_probe_name(left) else left, expr.op, yes, no)
            return
        signs, unsigns = _COMPARE[expr.op]
        cond = signs if expr.compare == "signed" else unsigns
        lo.b.branch(cond, before(lo, left, right), scalar(lo, right), yes, no)
        return
    if expr.op == "!=":
        yes, no = no, yes
    if _is_probe_name(left) or _is_probe_name(right):
        probe, text = (left, right) if _is_probe_name(left) else (right, left)
        strings.compare_probe(lo, probe, text, "==", yes, no)
    elif isinstance(left.type, Str) or isinstance(right.type, Str):
        strings.equal(lo, left, right, yes, no)
    else:
        _equal_values(lo, left, right, yes, no)


def _is_probe_name(expr: Expr) -> bool:
    from ...types import Symbol
    return isinstance(expr.type, Symbol) and expr.type.kind == "probe"


def _equal_values(lo: Lower, left: Expr, right: Expr, yes: Block, no: Block) -> None:
    """Tuples, records and arrays: equal when their bytes are, both built with one layout."""
    assert left.type is not None and right.type is not None
    merged = convert.merge(left.type, right.type)  # wide enough for the elements of both
    type = convert.plain(merged) if merged is not None else max(left.type, right.type, key=lambda t: t.size)
    with lo.scope():
        places = []
        for side in (left, right):
            mem = lo.temp(type.size)
            into(lo, side, mem, type)
            places.append(mem)
        from .words import equal_bytes
        equal_bytes(lo, places[0], places[1], type.size, yes, no)


# --- fields -----------------------------------------------------------------------------------------------


def field_value(lo: Lower, expr: FieldAccess) -> Operand | Mem:
    """A member: its value if it is a scalar, else where it lies."""
    field = expr.field
    if isinstance(expr.operand, (Name, Call)) and expr.operand.name == "args":
        assert field is not None
        return lo.context.argument(lo, field)  # type: ignore[no-any-return]
    operand_type = expr.operand.type
    if field is None and isinstance(operand_type, Tuple):  # a record's member
        return tuple_element(lo, expr.operand, operand_type.names.index(expr.name), operand_type)
    assert field is not None
    if isinstance(operand_type, Pointer):
        base = memory.pointee(lo, scalar(lo, expr.operand), operand_type, lo.context.default_space)
    else:
        base = locate_or_materialise(lo, expr.operand)
    return member(lo, base, field, operand_type)


def member(lo: Lower, base: Mem, field: StructField, owner: Type | None) -> Operand | Mem:
    if isinstance(field.type, Scalar):
        struct = owner.to if isinstance(owner, Pointer) else owner
        return memory.read_field(lo, base, field, isinstance(struct, Struct) and _may_be_union(struct, field))
    return base.at(field.offset)


def _may_be_union(struct: Struct, field: StructField) -> bool:
    """Whether another member shares the field's place, so that the verifier may take that one's type."""
    if struct.union:
        return True
    return all(f.name != field.name for f in struct.fields)  # reached through an anonymous member


def tuple_element(lo: Lower, operand: Expr, index: int, type: Tuple) -> Operand | Mem:
    place = locate_or_materialise(lo, operand)
    element = type.of[index]
    at = place.at(type.offsets[index])
    return memory.read_scalar(lo, at, element) if isinstance(element, Scalar) else at


# --- places -----------------------------------------------------------------------------------------------


@placed
def locate(lo: Lower, expr: Expr) -> Mem | None:
    """Where the value already lies; None if it has to be made."""
    if isinstance(expr, Variable):
        place = lo.variables[id(expr.slot)]
        return place if isinstance(place, Mem) else None
    if isinstance(expr, MapRef):
        return maps.locate_value(lo, expr) if not is_scalar(expr.type) else None
    if isinstance(expr, FieldAccess):
        value = field_value(lo, expr) if not is_scalar(expr.type) or isinstance(expr.operand.type, Tuple) else None
        return value if isinstance(value, Mem) else None
    if isinstance(expr, TupleAccess):
        type = expr.operand.type
        assert isinstance(type, Tuple)
        return locate_or_materialise(lo, expr.operand).at(type.offsets[expr.index])
    if isinstance(expr, Unary) and expr.op == "*":
        assert isinstance(expr.operand.type, Pointer)
        return memory.pointee(lo, scalar(lo, expr.operand), expr.operand.type, lo.context.default_space)
    if isinstance(expr, Index) and isinstance(expr.operand.type, Tuple):
        assert isinstance(expr.index.const, int)
        return locate_or_materialise(lo, expr.operand).at(expr.operand.type.offsets[expr.index.const])
    if isinstance(expr, Index):
        return locate_element(lo, expr)
    if isinstance(expr, Cast) and isinstance(expr.operand.type, (Array, Struct)) and not is_scalar(expr.type):
        return locate(lo, expr.operand)
    if isinstance(expr, (Name, Call)) and builtins.is_string_builtin(expr):
        return builtins.text_memory(lo, expr)
    return None


def locate_element(lo: Lower, expr: Index) -> Mem:
    """``a[i]`` on an array (bounds are the checker's or, for an index only known at run time, ours) or pointer."""
    operand = expr.operand
    if isinstance(operand.type, Pointer):
        base = memory.pointee(lo, scalar(lo, operand), operand.type, lo.context.default_space)
        element, count = operand.type.to, 0
    else:
        base = locate_or_materialise(lo, operand)
        assert isinstance(operand.type, (Array, Str))
        element, count = (operand.type.of, operand.type.count) if isinstance(operand.type, Array) \
            else (UINT8, operand.type.capacity)
    if isinstance(expr.index.const, int):
        return base.at(expr.index.const * element.size)
    index = scalar(lo, expr.index)
    if count:
        index = _bounded(lo, index, count)
    address = lo.b.address(base.base, base.off)
    if base.space == KERNEL and base.btf:
        # The verifier allows no variable offset into a typed object: read with the helper.
        address = plain(lo, address if address in lo.typed else _typed(lo, address))  # type: ignore[assignment]
    return Mem(lo.b.alu("add", address, lo.b.alu("mul", index, element.size)), 0, base.space)


def _typed(lo: Lower, address: Operand) -> Operand:
    assert isinstance(address, Reg)
    lo.typed[address] = 0
    return address


def _bounded(lo: Lower, index: Operand, count: int) -> Operand:
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


def locate_or_materialise(lo: Lower, expr: Expr) -> Mem:
    """Where the value lies, in temporary memory if need be."""
    place = locate(lo, expr)
    if place is None:
        assert expr.type is not None
        place = lo.temp(expr.type.size)
        into(lo, expr, place, expr.type)
    return place


# --- writing ----------------------------------------------------------------------------------------------


@placed
def into(lo: Lower, expr: Expr, mem: Mem, type: Type, pad: bool = True) -> None:
    """Write the expression's value as ``type`` to BPF memory. With ``pad`` every byte becomes defined, so that
    the memory can be a key or be compared; without it what follows a string's NUL is left as it is."""
    if isinstance(type, Scalar):
        lo.store_value(mem, type, kept(lo, expr))
    elif isinstance(expr, Ternary) and expr.then is not None:
        _choose_into(lo, expr, mem, type, pad)
    elif isinstance(expr, BlockExpr):
        from .statements import block, if_value
        if expr.value is not None:
            block(lo, expr.body)
            into(lo, expr.value, mem, type, pad)
        else:
            if_value(lo, expr.body, lambda value: into(lo, value, mem, type, pad))
    elif is_function_call(expr):
        from .subprograms import call_into
        assert isinstance(expr, Call)
        call_into(lo, expr, mem, type, pad)
    elif isinstance(expr, TupleExpr) and isinstance(type, Tuple):
        _tuple_into(lo, expr, mem, type, pad)
    elif isinstance(type, Str):
        expr = expr.operand if isinstance(expr, Cast) and isinstance(expr.operand.type, Str) else expr
        strings.into(lo, expr, mem, type, pad)
    elif isinstance(expr, (Name, Call)) and expr.name == "args":
        assert isinstance(type, Struct)
        _args_into(lo, mem, type)
    elif isinstance(expr, (Name, Call)) and locate(lo, expr) is None:
        from .functions import VALUE_CALLS
        VALUE_CALLS[expr.name](lo, expr, mem, type)
    elif isinstance(expr, Cast) and is_scalar(expr.operand.type):
        _number_into(lo, expr, mem, type)
    elif isinstance(expr, Cast) and expr.operand.type is not None:
        into(lo, expr.operand, mem, expr.operand.type, pad)  # other words for the same bytes
    else:
        _copy_into(lo, expr, mem, type, pad)


def replace(lo: Lower, target: Variable | MapRef, value: Expr, mem: Mem, type: Type) -> None:
    """Write a new value over that of ``target``, in place unless it is made of the old one."""
    if isinstance(value, (Variable, MapRef)) or not any(_same_place(target, node) for node in walk(value)):
        into(lo, value, mem, type)
        return
    with lo.scope():
        made = lo.temp(type.size)
        into(lo, value, made, type)
        memory.copy(lo, made, mem, type.size)


def _same_place(target: Variable | MapRef, node: object) -> bool:
    if isinstance(target, Variable):
        return isinstance(node, Variable) and node.slot is target.slot
    return isinstance(node, MapRef) and node.name == target.name


def _number_into(lo: Lower, expr: Cast, mem: Mem, type: Type) -> None:
    """``(uint8[8])number``: its bytes; a register holds all eight of a smaller number."""
    value, at = scalar(lo, expr.operand), 0
    while at < type.size:  # an array of bytes may lie anywhere
        step = type.size - at
        while (mem.off + at) % step or step & step - 1:
            step -= 1
        lo.b.store(mem.base, mem.off + at, lo.b.alu("rsh", value, 8 * at) if at else value, step)
        at += step


def _args_into(lo: Lower, mem: Mem, type: Struct) -> None:
    """All arguments, laid out as their struct says."""
    memory.zero(lo, mem, type.size)
    for field in type.fields:
        if not field.name:
            continue
        value = lo.context.argument(lo, field)
        if isinstance(value, Mem):
            memory.copy(lo, value, mem.at(field.offset), field.type.size)
        elif isinstance(field.type, Scalar):
            lo.b.store(mem.base, mem.off + field.offset, value, field.type.size)


def _choose_into(lo: Lower, expr: Ternary, mem: Mem, type: Type, pad: bool) -> None:
    assert expr.then is not None
    if isinstance(expr.other, RuledOut):
        return into(lo, expr.then, mem, type, pad)
    yes, no, join = lo.b.block("yes"), lo.b.block("no"), lo.b.block("join")
    with lo.region():
        condition(lo, expr.cond, yes, no)
        lo.b.start(yes)
        into(lo, expr.then, mem, type, pad)
    lo.b.jump(join)
    lo.b.start(no)
    with lo.region():
        into(lo, expr.other, mem, type, pad)
    lo.b.jump(join)
    lo.b.start(join)


def _tuple_into(lo: Lower, expr: TupleExpr, mem: Mem, type: Tuple, pad: bool) -> None:
    """The elements are evaluated as they are written, wherever they lie."""
    gaps = zip([0, *[at + element.size for at, element in zip(type.offsets, type.of)]], [*type.offsets, type.size])
    for end, start in gaps if pad else ():
        if start > end:
            lo.b.zero(mem.base, mem.off + end, start - end)
    for item, at in zip(expr.items, type.ordered(tuple(expr.names))):
        into(lo, item, mem.at(type.offsets[at]), type.of[at], pad)


def _copy_into(lo: Lower, expr: Expr, mem: Mem, type: Type, pad: bool) -> None:
    source = locate(lo, expr)
    assert source is not None and expr.type is not None, f"{expr!r} has no value in memory"
    copy_from(lo, source, expr.type, mem, type, pad)


def copy_from(lo: Lower, source: Mem, have: Type, mem: Mem, type: Type, pad: bool) -> None:
    """A value of type ``have`` that lies in memory, as a ``type``: see :func:`into`."""
    if isinstance(type, Tuple) and isinstance(have, Tuple) and type != have:
        convert_tuple(lo, source, have, mem, type)
        return
    size = min(type.size, have.size)
    if source.btf and isinstance(have, Struct):  # a word may reach from a member into the padding behind it
        memory.read_bytes(lo, Mem(source.base, source.off, KERNEL), size, mem)
    else:
        memory.copy(lo, source, mem, size)
    if isinstance(type, Str) and have.size > type.size:
        lo.b.store(mem.base, mem.off + type.size - 1, 0, 1)
    if pad and type.size > have.size:
        lo.b.zero(mem.base, mem.off + have.size, type.size - have.size)


def convert_tuple(lo: Lower, source: Mem, have: Tuple, mem: Mem, want: Tuple) -> None:
    """Element by element where the layouts differ (wider integers, longer strings)."""
    memory.zero(lo, mem, want.size)
    for number, b, to in zip(have.ordered(want.names), want.of, want.offsets):
        a, at = have.of[number], have.offsets[number]
        if isinstance(b, Scalar):
            lo.store_value(mem.at(to), b, memory.read_scalar(lo, source.at(at), a))
        elif isinstance(a, Tuple) and isinstance(b, Tuple) and a != b:
            convert_tuple(lo, source.at(at), a, mem.at(to), b)
        else:
            memory.copy(lo, source.at(at), mem.at(to), min(a.size, b.size))


def assign_variable(lo: Lower, target: Variable, value: Operand) -> None:
    """Set a scalar variable."""
    place = lo.variables.get(id(target.slot))
    if place is None:
        place = Mem(lo.b.slot(8, target.name)) if id(target.slot) in lo.addressed else \
            lo.b.function.reg(f"${target.name}")
        lo.variables[id(target.slot)] = place
    value = lo.normalise(value, target.slot.type)
    if isinstance(place, Reg):
        lo.b.set(place, value)
        return
    if id(target.slot) in lo.counted and isinstance(value, Reg):
        value = lo.b.alu("add", value, lo.b.load(lo.unit.global_word("zero"), 0, 8))
    lo.store_value(place, target.slot.type, value)


__all__ = ["Buf", "Inet", "arithmetic", "assign_variable", "condition", "convert_tuple", "divide", "into", "locate",
           "locate_or_materialise", "plain", "scalar", "step_map"]
