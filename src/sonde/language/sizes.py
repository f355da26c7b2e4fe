"""What C compilers know of types when they meet a constant expression: sizes, offsets, alignments, casts."""

from __future__ import annotations

from ..types import UINT64, Array, Enum, Int, Pointer, Str, Struct, Type
from .ast import Call, Cast, Expr, FieldAccess, Index, IntLiteral, Name, OffsetOf, SizeOf, StrLiteral, TypeSyntax, Unary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

Resolve: TypeAlias = "Callable[[TypeSyntax], Type | None]"
ALIGN_OF = ("_Alignof", "alignof", "__alignof__", "__alignof")


def measure_constant(node: Expr, resolve: Resolve) -> int | None:
    """The value of an expression that only types decide; None for any other."""
    if isinstance(node, SizeOf):
        if isinstance(node.what, StrLiteral):
            return len(node.what.value.encode("utf-8", "surrogateescape")) + 1
        type = _type_of(node.what, resolve)
        return None if type is None else type.size
    if isinstance(node, Call) and node.name in ALIGN_OF and len(node.args) == 1:
        type = _type_of(node.args[0], resolve)
        return None if type is None else type.align
    if isinstance(node, OffsetOf):
        return _offset_of(_type_of(node.what, resolve), node.path)
    return None


def convert_constant(value: int, cast: Cast, resolve: Resolve) -> int | None:
    """A constant after a cast; None if the type is not known."""
    type = _type_of(cast.to, resolve)
    if not isinstance(type, (Int, Enum, Pointer)):
        return None
    value &= (1 << 8 * type.size) - 1
    signed = not isinstance(type, Pointer) and type.signed
    return value - (1 << 8 * type.size) if signed and value >> (8 * type.size - 1) else value


def _type_of(what: Expr | TypeSyntax, resolve: Resolve) -> Type | None:
    """The type of an expression that is not evaluated, as far as it is about members of types."""
    if isinstance(what, TypeSyntax):
        return _type_of(what.typeof, resolve) if what.typeof is not None else resolve(what)
    if isinstance(what, Name):
        return resolve(TypeSyntax(what.span, what.name))
    if isinstance(what, Cast):
        return _type_of(what.to, resolve)
    if isinstance(what, (SizeOf, OffsetOf)):
        return UINT64
    if isinstance(what, IntLiteral):
        return Int(64 if "l" in what.span.text.lower() else 32)
    if isinstance(what, Unary) and what.op == "*":
        return _element(_type_of(what.operand, resolve))
    if isinstance(what, Index):
        return _element(_type_of(what.operand, resolve))
    if isinstance(what, FieldAccess):
        struct = _type_of(what.operand, resolve)
        struct = struct.to if isinstance(struct, Pointer) else struct
        field = struct.field(what.name) if isinstance(struct, Struct) else None
        return None if field is None else field.type
    return None


def _element(type: Type | None) -> Type | None:
    if isinstance(type, Str):
        return Int(8)
    return type.to if isinstance(type, Pointer) else type.of if isinstance(type, Array) else None


def _offset_of(type: Type | None, path: list[str]) -> int | None:
    offset = 0
    for name in path:
        field = type.field(name) if isinstance(type, Struct) else None
        if field is None:
            return None
        offset, type = offset + field.offset, field.type
    return offset
