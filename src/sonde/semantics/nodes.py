"""Walking and copying syntax trees."""

from __future__ import annotations

from ..base.fast_stdlib import TypeVar
from ..language.ast import Binary, Call, FieldAccess, Index, Node, Reference, Unary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, TypeAlias

T = TypeVar("T")
Tree: TypeAlias = "Node | Sequence[Tree] | None"


# Annotations of what is no node and has none in it.
_PLAIN = frozenset(("Callee | None", "Choice | None", "ScratchVar", "Span", "StructField | None", "Type | None", "bool",
                    "dict[str, int]", "dict[str, str]", "int",
                    "int | str | None", "list[int]", "list[str]", "str"))
_holders: dict[type, tuple[str, ...] | None] = {}  # type -> fields that nodes may be in, the last first; None: no node


def walk_nodes(node: Tree) -> Iterator[Node]:
    """A tree's nodes, outermost first."""
    pending: list[Any] = [node]
    while pending:
        item = pending.pop()
        kind = type(item)
        if kind is list:
            pending += item[::-1]
            continue
        fields = _holders[kind] if kind in _holders else _find_holders(kind)
        if fields is not None:
            yield item
            pending += [getattr(item, name) for name in fields]


def child_items(item: Any) -> list[Any]:
    """What is directly below a node or list, last first; some items are neither nodes nor lists."""
    kind = type(item)
    if kind is list:
        return item[::-1]  # type: ignore[no-any-return]
    fields = _holders[kind] if kind in _holders else _find_holders(kind)
    return [getattr(item, name) for name in fields or ()]


def _find_holders(kind: type) -> tuple[str, ...] | None:
    holders = None
    if issubclass(kind, Node):
        types: dict[str, str] = {}
        for base in reversed(kind.__mro__):
            types |= vars(base).get("__annotations__", {})
        holders = tuple([name for name in reversed(kind._fields) if types[name] not in _PLAIN])
    _holders[kind] = holders
    return holders


def copy_tree(item: T) -> T:
    """A deep copy: nodes and lists are new, and what the checker adds to it does not show in the original."""
    if isinstance(item, list):
        return [copy_tree(i) for i in item]  # type: ignore[return-value]
    if not isinstance(item, Node):
        return item
    new = object.__new__(type(item))
    for field in item._fields:
        value = getattr(item, field)
        setattr(new, field, copy_tree(value) if isinstance(value, (Node, list)) else value)
    return new


_SHOWING = ("printf", "print", "errorf", "warnf")
_COMPARING = ("==", "!=")
_VALUES = ("args", "results")


class Use:
    """Which names a clause mentions, which of them elsewhere than as what is shown or compared (``held``), and which
    fields of ``args`` or ``results`` (None: all of it)."""

    def __init__(self, tree: Tree) -> None:
        self.names: set[str] = set()
        self.held: set[str] = set()
        self.fields: set[str] | None = set()
        members: set[int] = set()
        passing: set[int] = set()
        for node in walk_nodes(tree):
            passing.update(map(id, _passing_items(node)))
            if isinstance(node, FieldAccess) and is_args(node.operand):
                members.add(id(node.operand))
                if self.fields is not None:
                    self.fields.add(node.name)
            elif isinstance(node, Reference):
                self.names.add(node.name)
                if id(node) not in passing:
                    self.held.add(node.name)
                if is_args(node) and id(node) not in members:
                    self.fields = None

    @property
    def uses_args(self) -> bool:
        return not self.names.isdisjoint(_VALUES)


def _passing_items(node: Node) -> Sequence[Any]:
    """What is directly below a node that shows or compares it."""
    if isinstance(node, Binary) and node.op in _COMPARING:
        return node.left, node.right
    return node.args if isinstance(node, Call) and node.name in _SHOWING else ()


def followed_results(tree: Tree) -> list[Reference]:
    """Each ``retval`` whose memory is read: ``retval->x``, ``retval[0]``, ``*retval``."""
    readers = [node for node in walk_nodes(tree) if isinstance(node, (FieldAccess, Index)) or
               isinstance(node, Unary) and node.op == "*"]
    return [node.operand for node in readers if isinstance(node.operand, Reference) and node.operand.name == "retval"]


def is_args(node: object) -> bool:
    """Whether a node is ``args`` or ``results``, the arguments or results as a whole."""
    return isinstance(node, Reference) and node.name in _VALUES


