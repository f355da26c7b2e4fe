"""``--by container``: a task's container, pod or service in place of its name, wherever a script shows that."""

from __future__ import annotations

from ..base import regex_cache
from ..base.fast_stdlib import TypeVar
from ..language.ast import Binary, Call, Name, Node, StrLiteral, TableColumn
from .callees import Functions
from .nodes import Tree, walk_nodes

T = TypeVar("T")
_COLUMN = regex_cache.compile(r"\bCOMM( *)")  # a heading, with the room up to the next one


def show_groups(trees: Tree, by: str, functions: Functions) -> bool:
    """Replace ``comm`` by ``by`` wherever it is shown. Comparisons and searches keep it: a script may choose tasks by
    name and show their containers. Headings follow. False if nothing was replaced."""
    replaced = 0
    for node in list(walk_nodes(trees)):
        for field in node._fields:
            value = getattr(node, field)
            if isinstance(value, list):
                shown = [_shown(item, by) if _may_show(node, at, functions) else item for at, item in enumerate(value)]
                replaced += sum([new is not old for new, old in zip(shown, value)])
                value[:] = shown
            elif _may_show(node, 0, functions) and _shown(value, by) is not value:
                setattr(node, field, _shown(value, by))
                replaced += 1
        if isinstance(node, TableColumn):
            node.name = _COLUMN.sub(by.upper(), node.name)
        if isinstance(node, StrLiteral):
            node.value = _COLUMN.sub(lambda match: by.upper().ljust(4 + len(match[1])), node.value)
    return replaced > 0


def _may_show(node: Node, at: int, functions: Functions) -> bool:
    """Whether the node's value at a position is shown, or stored to be shown."""
    if isinstance(node, Call) and node.name in functions:
        return not functions[node.name].takes_text(at)
    return not (isinstance(node, Binary) and node.op in ("==", "!=", "<", ">", "<=", ">="))


def _shown(value: T, by: str) -> T | Name:
    return Name(value.span, name=by) if isinstance(value, Name) and value.name == "comm" else value
