"""The names of a script's expressions and maps where their values become columns, labels or members."""

from __future__ import annotations

from ..kinds import find_kind
from ..language.ast import (
    Assign,
    Block,
    Call,
    Cast,
    Clause,
    Expr,
    ExprStmt,
    FieldAccess,
    For,
    MapRef,
    Name,
    Script,
    Stmt,
    TupleExpr,
    Variable,
)
from .callees import Functions, row_of
from .nodes import Tree, walk_nodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def name_of_expression(expr: Expr) -> str:
    """What an expression is called: its last field, variable or builtin; that of a function's argument, or the
    function itself where that has none: ``str(args.path)`` is path, ``kstack(5)`` kstack. "" for what has no name."""
    if isinstance(expr, Cast):
        return name_of_expression(expr.operand)
    if isinstance(expr, Call) and expr.args:
        row = row_of(expr)
        return name_of_expression(expr.args[row.named_by if row is not None else 0]) or expr.name
    return expr.name.lstrip("$") if isinstance(expr, FieldAccess | Name | Variable | Call) else ""


def name_parts(parts: Sequence[Expr]) -> tuple[str, ...]:
    """A name for each, "" where it has none of its own: ``(comm, a.pid, b.pid)`` has comm alone."""
    names = [name_of_expression(part) for part in parts]
    return tuple([name if names.count(name) == 1 and name.isidentifier() else "" for name in names])


def name_keys(tree: Tree) -> dict[str, tuple[str, ...]]:
    """Names for the keys of each map, from its first use in the checked tree: ``@[comm, args.ret]`` has comm and
    ret."""
    names: dict[str, tuple[str, ...]] = {}
    for node in walk_nodes(tree):
        if isinstance(node, MapRef) and node.key is not None and node.name not in names:
            names[node.name] = name_parts(node.key.items if isinstance(node.key, TupleExpr) else [node.key])
    return names


def what_end_does(script: Script, functions: Functions) -> dict[str, str]:
    """What ``end`` does with maps that nothing prints, lest they be printed then: "clears" (the script keeps such a map
    for itself, as one that each clause which fills it works off), or "shows" (it clears what it, or an interval, goes
    through by a ``for``, to print it in a way of its own). A map that is cleared under a condition is shown when that
    does not hold, so it is none of them."""
    def given(tree: Tree, use: str) -> set[str]:
        """The maps that are given to functions that make this use of them."""
        return {node.args[0].name for node in walk_nodes(tree)
                if isinstance(node, Call) and node.name in functions and functions[node.name].on_map == use
                and node.args and isinstance(node.args[0], MapRef)}

    def left_filled(clause: Clause) -> set[str]:
        """The maps that it fills, and no ``for`` in it goes through and deletes from."""
        worked_off = {node.start.name for node in walk_nodes(clause) if isinstance(node, For)
                      and isinstance(node.start, MapRef) and node.start.name in given(node.body, "delete")}
        return _filled_maps(clause) - worked_off
    always = [statement for clause in _clauses_of(script, "end") if clause.predicate is None
              for statement in _unconditional(clause.body)]
    gone_through = {node.start.name for node in walk_nodes(_clauses_of(script, "end", "interval"))
                    if isinstance(node, For) and isinstance(node.start, MapRef)}
    own = _filled_maps(script.clauses).difference(*map(left_filled, script.clauses))
    return {name: "shows" if name in gone_through - own else "clears"
            for name in (given(always, "clear") | own) - given([script.clauses, script.functions], "print")}


def _unconditional(body: Sequence[Stmt]) -> Iterator[ExprStmt]:
    """The calls that are made whatever the values are, those of macros' blocks among them."""
    for statement in body:
        if isinstance(statement, Block):
            yield from _unconditional(statement.body)
        elif isinstance(statement, ExprStmt):
            yield statement


def _filled_maps(tree: Tree) -> set[str]:
    return {node.target.name for node in walk_nodes(tree)
            if isinstance(node, Assign) and isinstance(node.target, MapRef)}


def _clauses_of(script: Script, *kinds: str) -> list[Clause]:
    return [clause for clause in script.clauses
            if any((kind := find_kind(point.parts[0])) and kind.name in kinds for point in clause.points)]
