"""Go's own types, as its debug information describes them: strings, slices, maps and channels."""

from __future__ import annotations

from ..language.ast import Binary, Call, Expr, FieldAccess, IntLiteral, Ternary, TupleExpr
from ..types import Pointer, Struct, Type

MOST_DEPTH = 8  # of structs within one another

_LENGTHS = {"hchan<": "qcount", "hash<": "count", "map<": "used"}  # of channels; of maps until 1.23, and from then on


def is_go_text(type: Type | None) -> bool:
    """Whether it is Go's string: where its bytes are, and how many."""
    return isinstance(type, Struct) and type.name == "string" and type.field_names() == ["str", "len"]


def text_arguments(node: Expr) -> list[Expr]:
    """The arguments of str() for a string of Go's: where it is, and its length with a NUL; 0 of an empty one, which may
    be nowhere."""
    length = FieldAccess(node.span, operand=node, name="len")
    size = Binary(node.span, op="+", left=length, right=IntLiteral(node.span, value=1))
    return [FieldAccess(node.span, operand=node, name="str"),
            Ternary(node.span, cond=length, then=size, other=IntLiteral(node.span, value=0))]


def with_texts(node: Expr, type: Struct) -> Expr:
    """Of a string its text, of a struct that has strings a record with their texts, of any other the struct itself."""
    if is_go_text(type):
        return Call(node.span, name="str", args=[node])
    if not _has_texts(type, 0):
        return node
    names = type.field_names()
    return TupleExpr(node.span, items=[FieldAccess(node.span, operand=node, name=name) for name in names], names=names)


def _has_texts(type: Type, depth: int) -> bool:
    """Whether a struct has strings that can be had by the names of its members."""
    if is_go_text(type):
        return True
    if not isinstance(type, Struct) or type.union or depth > MOST_DEPTH:
        return False
    named = [field.name for field in type.fields]
    return "" not in named and len({*named}) == len(named) and any(
        _has_texts(field.type, depth + 1) for field in type.fields)


def length_of(node: Expr, type: Type) -> Expr | None:
    """The expression for ``len(x)`` of Go's strings, slices, maps and channels; None for any other type. Nil has the
    length 0."""
    if is_go_text(type) or isinstance(type, Struct) and type.name.startswith("[]"):
        return FieldAccess(node.span, operand=node, name="len")
    if isinstance(type, Pointer) and isinstance(type.to, Struct):
        member = next((member for start, member in _LENGTHS.items() if type.to.name.startswith(start)), "")
        if member and type.to.field(member) is not None:
            length = FieldAccess(node.span, operand=node, name=member, arrow=True)
            return Ternary(node.span, cond=node, then=length, other=IntLiteral(node.span, value=0))
    return None
