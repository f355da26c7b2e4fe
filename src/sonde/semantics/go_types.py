"""Go's own types, as its debug information describes them: strings, slices, maps and channels."""

from __future__ import annotations

from ..language.ast import Binary, Call, Expr, FieldAccess, IntLiteral, Reference, Ternary, TupleExpr, Unary
from ..spec import Attach
from ..types import Pointer, Struct, Type
from .nodes import is_args
from .user_probes import function_offset
from .world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MOST_DEPTH = 8  # of structs within one another
MOST_STRUCTS = 64  # that are looked through for an error

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


def reaches_error(type: Type) -> bool:
    """Whether an error is a value's type, or that of a member, of what it points to as well; True where that takes long
    to tell."""
    waiting, seen = [type], set[str]()
    for each in waiting:  # which grows
        if is_go_error(each) or len(seen) > MOST_STRUCTS:
            return True
        if isinstance(each, Pointer):
            waiting.append(each.to)
        elif isinstance(each, Struct) and not is_go_text(each) and each.name not in seen:
            seen.add(each.name)
            waiting += [field.type for field in each.fields]
    return False


def with_texts(node: Expr, type: Struct, knows_errors: Callable[[], bool]) -> Expr:
    """Of a string its text, of an error that parameters or results lead to its type and text; of a struct that has
    either a record with their texts, of any other the struct itself."""
    if is_go_text(type) or is_go_error(type) and _is_passed(node) and knows_errors():
        return Call(node.span, name="str", args=[node])
    if not _has_member(type, is_go_text, 0) and not (
            _has_member(type, is_go_error, 0) and _is_passed(node) and knows_errors()):
        return node
    names = type.field_names()
    return TupleExpr(node.span, items=[FieldAccess(node.span, operand=node, name=name) for name in names], names=names)


def _is_passed(node: Expr) -> bool:
    """Whether it is a parameter or a result, whose function is that of the probe, or these lead to it."""
    while not (is_args(node) or isinstance(node, Reference) and node.name == "retval"):
        if not isinstance(node, FieldAccess) and not (isinstance(node, Unary) and node.op == "*"):
            return False
        node = node.operand
    return True


def _has_member(type: Type, wanted: Callable[[Type], bool], depth: int) -> bool:
    """Whether a value is ``wanted``, or a struct with one that can be had by the names of its members."""
    if wanted(type):
        return True
    if not isinstance(type, Struct) or type.union or depth > MOST_DEPTH:
        return False
    named = [field.name for field in type.fields]
    return "" not in named and len({*named}) == len(named) and any(
        _has_member(field.type, wanted, depth + 1) for field in type.fields)


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
