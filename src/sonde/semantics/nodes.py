"""Walking and copying syntax trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from ..language.ast import Call, FieldAccess, Name, Node

T = TypeVar("T")


def walk(node: Any) -> Iterator[Node]:
    """``node`` and everything below it, outermost first."""
    pending = [node]
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(reversed(item))
        elif isinstance(item, Node):
            yield item
            pending.extend([v for v in reversed(item.values()) if isinstance(v, (Node, list))])


def copy(item: T) -> T:
    """A tree of its own: nodes and lists are new, what the checker found is left out of sight of the original."""
    if isinstance(item, list):
        return [copy(i) for i in item]  # type: ignore[return-value]
    if not isinstance(item, Node):
        return item
    new = object.__new__(type(item))
    for field in item._fields:
        value = getattr(item, field)
        setattr(new, field, copy(value) if isinstance(value, (Node, list)) else value)
    return new


class Use:
    """Which names a clause mentions, and which fields of ``args`` (None: all of it)."""

    def __init__(self, tree: Any) -> None:
        self.names: set[str] = set()
        self.fields: set[str] | None = set()
        members = set()
        for node in walk(tree):
            if isinstance(node, FieldAccess) and _is_args(node.operand):
                members.add(id(node.operand))
                if self.fields is not None:
                    self.fields.add(node.name)
            elif isinstance(node, (Name, Call)):
                self.names.add(node.name)
                if _is_args(node) and id(node) not in members:
                    self.fields = None

    @property
    def args(self) -> bool:
        return "args" in self.names


def _is_args(node: Any) -> bool:
    return isinstance(node, (Name, Call)) and node.name == "args"


