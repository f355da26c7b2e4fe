"""The tree as text, for ``-d ast``."""

from __future__ import annotations

from collections.abc import Sequence

from .ast import Clause, Expr, Node, Script, TypeSyntax

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CHECKED = frozenset(("type", "const", "slot", "callee", "choice", "field"))  # what the checker fills in
_TELLING = frozenset(("value", "number", "index"))  # shown even with their default value


def dump_script(script: Script) -> str:
    """One line per node: its class, its plain fields, and once it is checked ``:: [type]`` and ``= constant``."""
    lines: list[str] = []
    _add_node_lines(script, "", 0, lines)
    return "\n".join(lines) + "\n"


def dump_clauses(clauses: Sequence[Clause]) -> str:
    """The same for these clauses: once checked, each has its own copy of the tree."""
    lines: list[str] = []
    for clause in clauses:
        _add_node_lines(clause, "", 0, lines)
    return "\n".join(lines) + "\n"


def _add_node_lines(node: Node, label: str, depth: int, lines: list[str]) -> None:
    """The lines of a node and of what is below it; ``label`` is the name of the field that holds it."""
    plain: list[str] = []
    children: list[tuple[str, Any]] = []
    for name in node._fields:
        value = getattr(node, name)
        if name in ("span", "name_end") or value is None or value == [] \
                or (name in _CHECKED and isinstance(node, Expr)):
            continue
        if isinstance(value, TypeSyntax):
            plain.append(f"{name}={type_text(value)}")
        elif isinstance(value, Node) or (isinstance(value, list) and isinstance(value[0], Node)):
            children.append((name, value))
        elif name in _TELLING or value != node._defaults.get(name, ...):
            plain.append(f"{name}={value!r}")
    head = " ".join([type(node).__name__, *plain]) + _checked_result(node)
    lines.append("  " * depth + (f"{label}: " if label else "") + head)
    for name, value in children:
        _add_child_lines(name, value, depth + 1, lines)


def _add_child_lines(name: str, value: Any, depth: int, lines: list[str]) -> None:
    if isinstance(value, Node):
        _add_node_lines(value, name, depth, lines)
        return
    lines.append("  " * depth + f"{name}:")
    for item in value:
        if isinstance(item, TypeSyntax):
            lines.append("  " * (depth + 1) + f"TypeSyntax {type_text(item)}")
        else:
            _add_node_lines(item, "", depth + 1, lines)


def _checked_result(node: Node) -> str:
    """The type and constant that the checker gave an expression."""
    if not isinstance(node, Expr):
        return ""
    text = f" :: [{node.type}]" if node.type is not None else ""
    return text + (f" = {node.const!r}" if node.const is not None else "")


def type_text(written: TypeSyntax) -> str:
    """A type as the language writes it: ``struct sock *``, ``int8[8]``."""
    base = written.base if written.typeof is None else f"typeof({written.typeof.span.text})"
    stars = " " + "*" * written.pointers if written.pointers else ""
    return base + stars + "".join(f"[{dim or ''}]" for dim in written.dims) + "*" * written.outer

