"""Scripts of somebody who may read what the kernel hands them, and no memory of their own choosing: where a script
makes an address itself. With one it could read any page of the machine, those of other users' processes among them."""

from __future__ import annotations

from ..language.ast import Assign, Binary, Call, Cast, Index, Node, Unary
from ..types import BPF, Array, Int, NoneType, Pointer, Struct, Type
from .nodes import Tree, walk_nodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..language.cdecl import Definition
    from ..language.diagnostics import Diagnostics

HINTS = ["members of args and of the structs that they point to can be read: args.sk->sk_family",
         "others = true in the policy permits it"]
_MOVERS = ("kptr", "uptr", "container_of")  # to another address space, or another address
_READERS = ("str", "buf", "macaddr", "words", "join", "str_join")  # of what lies at an address


def report_forged(trees: Iterable[Tree], definitions: Iterable[Definition], diagnostics: Diagnostics) -> None:
    """An error for each address that the script makes. Sonde's own macros and tools may."""
    for definition in definitions:
        if not definition.span.source.internal:
            diagnostics.error("forged-address", "the policy does not let scripts define types of their own",
                              definition.span, HINTS)
    for node in [node for tree in trees for node in walk_nodes(tree)]:
        if not node.span.source.internal and (what := _describe_forging(node)):
            diagnostics.error("forged-address", f"the policy does not let scripts make addresses: {what}", node.span,
                              HINTS)


def _describe_forging(node: Node) -> str:
    """How a node makes an address; "" if it does not."""
    if isinstance(node, Cast) and isinstance(node.type, Pointer):
        given = node.operand.type
        return _describe_cast(given, node.type.to) if isinstance(given, Pointer) else "a number cast to a pointer"
    if isinstance(node, Binary) and isinstance(node.type, Pointer):
        return "a pointer and a number added up"
    if isinstance(node, Unary) and node.op in ("++", "--") and isinstance(node.operand.type, Pointer) \
            or isinstance(node, Assign) and node.op != "=" and isinstance(node.target.type, Pointer):
        return "a pointer that is moved"
    if isinstance(node, Index) and (isinstance(node.operand.type, Pointer) or
                                    isinstance(node.operand.type, Array) and not node.operand.type.count):
        return "an index of a pointer"
    return _describe_call(node) if isinstance(node, Call) else ""


def _describe_cast(given: Pointer, to: Type) -> str:
    """Of a pointer to a pointer: to a struct that begins with the other is fine, and so is ``void *`` to any struct."""
    if given.space == BPF:
        return "a pointer to memory of the script's own is cast"
    if not isinstance(to, Struct):
        return "" if isinstance(to, NoneType) else "a pointer cast to one to plain numbers"
    if isinstance(given.to, NoneType) or _begins_with(to, given.to) or _begins_with(given.to, to):
        return ""
    return "a pointer cast to one to another struct"


def _begins_with(outer: Type, inner: Type) -> bool:
    while isinstance(outer, Struct) and isinstance(inner, Struct):
        if outer.name == inner.name:
            return True
        first = outer.field(next(iter(outer.field_names()), ""))
        if first is None:
            return False
        outer = first.type
    return False


def _describe_call(node: Call) -> str:
    if node.name in _MOVERS:
        return f"{node.name}()"
    is_number = node.name in _READERS and bool(node.args) and isinstance(node.args[0].type, Int)
    return f"{node.name}() of a number" if is_number else ""
