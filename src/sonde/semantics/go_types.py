"""Go's own types, as its debug information describes them: strings, slices, maps and channels."""

from __future__ import annotations

from ..language.ast import Binary, Call, Expr, FieldAccess, IntLiteral, Reference, Ternary, TupleExpr
from ..spec import Attach
from ..types import Pointer, Struct, Type
from .nodes import is_args
from .user_probes import function_offset
from .world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

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


def is_go_error(type: Type | None) -> bool:
    """Whether it is Go's error: a table that says its type, and where its value is."""
    return isinstance(type, Struct) and type.name == "error" and type.field_names() == ["tab", "data"]


def types_distance(world: World, attach: Attach) -> int | None:
    """How far from the traced address of a function a Go program's types begin; None if that is not known."""
    start = function_offset(attach)
    symbol = world.user_object(attach.target, "runtime.types")
    function = next((each for each in world.user_functions(attach.target) if each.offset == start), None)
    return None if symbol is None or function is None else symbol[0] - function.address - (attach.offset - start)


def with_texts(node: Expr, type: Struct, knows_errors: Callable[[], bool]) -> Expr:
    """Of a string its text, of a parameter or result that is an error its type and text; of a struct that has strings a
    record with their texts, of any other the struct itself."""
    if is_go_text(type) or is_go_error(type) and _is_passed(node) and knows_errors():
        return Call(node.span, name="str", args=[node])
    whole = is_args(node) and any(is_go_error(field.type) for field in type.fields)
    if not _has_texts(type, 0) and not (whole and knows_errors()):
        return node
    names = type.field_names()
    return TupleExpr(node.span, items=[FieldAccess(node.span, operand=node, name=name) for name in names], names=names)


def _is_passed(node: Expr) -> bool:
    """Whether it is a parameter or a result, whose function is that of the probe."""
    return isinstance(node, FieldAccess) and is_args(node.operand) or \
        isinstance(node, Reference) and node.name == "retval"


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
