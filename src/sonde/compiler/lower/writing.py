"""Writing values into memory."""

from __future__ import annotations

from ...language.ast import BlockExpr, Call, Cast, Expr, Reference, RuledOut, Ternary, TupleExpr
from ...semantics.nodes import is_args
from ...types import Scalar, Str, Struct, Tuple, Type
from . import memory
from .calls import builtin_of, function_of
from .control.conditions import lower_if_value
from .control.subprograms import write_function_result
from .conversion import convert_value
from .core import Lower, counts_at_expression, is_function_call, is_scalar
from .state import Mem
from .strings.texts import literal_bytes, write_literal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


@counts_at_expression
def write_value(lo: Lower, expr: Expr, mem: Mem, type: Type, pad: bool = True) -> None:
    """Write the expression's value as ``type`` to BPF memory. With ``pad`` every byte becomes defined, so that
    the memory can be a key or be compared; without it what follows a string's NUL is left as it is."""
    if isinstance(type, Scalar):
        lo.store_value(mem, type, lo.stored_value(expr))
    elif isinstance(expr, Ternary) and expr.then is not None:
        _choose_into(lo, expr, mem, type, pad)
    elif isinstance(expr, BlockExpr):
        if expr.value is not None:
            lo.lower_block(expr.body)
            lo.write_value(expr.value, mem, type, pad)
        else:
            lower_if_value(lo, expr.body, lambda value: lo.write_value(value, mem, type, pad))
    elif is_function_call(expr):
        assert isinstance(expr, Call)
        write_function_result(lo, expr, mem, type, pad)
    elif isinstance(expr, TupleExpr) and isinstance(type, Tuple):
        _tuple_into(lo, expr, mem, type, pad)
    elif isinstance(type, Str):
        expr = expr.operand if isinstance(expr, Cast) and isinstance(expr.operand.type, Str) else expr
        _write_string(lo, expr, mem, type, pad)
    elif is_args(expr):
        assert isinstance(type, Struct)
        _args_into(lo, mem, type)
    elif isinstance(expr, Reference) and lo.locate_value(expr) is None:
        _write_named(lo, expr, mem, type)
    elif isinstance(expr, Cast) and is_scalar(expr.operand.type):
        _number_into(lo, expr, mem, type)
    elif isinstance(expr, Cast) and expr.operand.type is not None:
        lo.write_value(expr.operand, mem, expr.operand.type, pad)  # other words for the same bytes
    else:
        _copy_into(lo, expr, mem, type, pad)


def _write_named(lo: Lower, expr: Reference, mem: Mem, type: Type) -> None:
    """A function's value, or a builtin's."""
    function, builtin = function_of(expr), builtin_of(expr)
    if function is not None:
        assert isinstance(expr, Call) and function.value is not None, expr
        function.value(lo, expr, mem, type)
    else:
        assert builtin is not None and builtin.value is not None, expr
        builtin.value(lo, expr, mem, type)


def _number_into(lo: Lower, expr: Cast, mem: Mem, type: Type) -> None:
    """``(uint8[8])number``: its bytes; a register holds all eight of a smaller number."""
    value, at = lo.scalar_value(expr.operand), 0
    while at < type.size:  # an array of bytes may lie anywhere
        step = type.size - at
        while (mem.off + at) % step or step & step - 1:
            step -= 1
        lower = at if lo.byte_order == "little" else type.size - at - step  # bytes of lower value
        lo.b.store(mem.base, mem.off + at, lo.b.alu("rsh", value, 8 * lower) if lower else value, step)
        at += step


def _args_into(lo: Lower, mem: Mem, type: Struct) -> None:
    """All arguments, laid out as their struct says."""
    memory.clear_bytes(lo, mem, type.size)
    for field in type.fields:
        if not field.name:
            continue
        value = lo.context.argument(lo, field)
        if isinstance(value, Mem):
            memory.copy_bytes(lo, value, mem.at(field.offset), field.type.size)
        elif isinstance(field.type, Scalar):
            lo.store_value(mem.at(field.offset), field.type, value)


def _choose_into(lo: Lower, expr: Ternary, mem: Mem, type: Type, pad: bool) -> None:
    assert expr.then is not None
    if isinstance(expr.other, RuledOut):
        return lo.write_value(expr.then, mem, type, pad)
    yes, no, join = lo.b.block("yes"), lo.b.block("no"), lo.b.block("join")
    with lo.region():
        lo.branch_on(expr.cond, yes, no)
        lo.b.start(yes)
        lo.write_value(expr.then, mem, type, pad)
    lo.b.jump(join)
    lo.b.start(no)
    with lo.region():
        lo.write_value(expr.other, mem, type, pad)
    lo.b.jump(join)
    lo.b.start(join)


def _tuple_into(lo: Lower, expr: TupleExpr, mem: Mem, type: Tuple, pad: bool) -> None:
    """The elements are evaluated as they are written, wherever they lie."""
    gaps = zip([0, *[at + element.size for at, element in zip(type.offsets, type.of)]], [*type.offsets, type.size])
    for end, start in gaps if pad else ():
        if start > end:
            lo.b.zero(mem.base, mem.off + end, start - end)
    for item, at in zip(expr.items, type.element_order(tuple(expr.names))):
        lo.write_value(item, mem.at(type.offsets[at]), type.of[at], pad)


def _copy_into(lo: Lower, expr: Expr, mem: Mem, type: Type, pad: bool) -> None:
    source = lo.locate_value(expr)
    assert source is not None and expr.type is not None, f"{expr!r} has no value in memory"
    convert_value(lo, source, expr.type, mem, type, pad)


def _write_builtin(lo: Lower, expr: Reference, write: Callable[[Lower, Reference, Mem], None], mem: Mem, type: Str,
                   pad: bool) -> None:
    """A builtin's text, by way of a copy where there is less room than it takes."""
    assert isinstance(expr.type, Str)
    own = expr.type.capacity
    if type.capacity < own:
        with lo.scope():
            whole = lo.temp(own, "text")
            write(lo, expr, whole)
            convert_value(lo, whole, expr.type, mem, type, pad)
        return
    write(lo, expr, mem)
    if pad and type.capacity > own:
        memory.clear_bytes(lo, mem.at(own), type.capacity - own)


def _write_string(lo: Lower, expr: Expr, mem: Mem, type: Str, pad: bool) -> None:
    """Write a string into memory of ``type.capacity`` bytes."""
    text = literal_bytes(expr)
    if text is not None:
        write_literal(lo, text, mem, type.capacity, pad)
        return
    builtin = builtin_of(expr)
    if isinstance(expr, Reference) and builtin is not None and builtin.text is not None:
        _write_builtin(lo, expr, builtin.text, mem, type, pad)
        return
    source = lo.locate_value(expr)
    if source is None:
        row = function_of(expr)
        assert row is not None and row.text is not None and isinstance(expr, Call) and isinstance(expr.type, Str), expr
        own = expr.type if expr.type.capacity < type.capacity else type  # str(p, 4) is short wherever it goes
        row.text(lo, expr, mem, own, pad)
        if pad and own is not type:
            memory.clear_bytes(lo, mem.at(own.capacity), type.capacity - own.capacity)
        return
    assert expr.type is not None
    convert_value(lo, source, expr.type, mem, type, pad)
