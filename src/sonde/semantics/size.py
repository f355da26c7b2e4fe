"""How large a program is: one that would take too long to compile is refused before any time is spent on it.

The parts of the syntax tree are counted (a statement has three to six), once for each program that a clause makes and
for each iteration of an ``unroll``. Compiling some 5,000 of them takes a second, and a quarter less in small programs,
because some passes of the compiler take longer per operation in a large one.
"""

from __future__ import annotations

from ..language.ast import Call, Expr, IntLiteral, Node, Unroll
from ..language.diagnostics import Diagnostics
from ..types import Array, Scalar, Struct, Tuple, Type
from .callees import row_of
from .nodes import Tree, child_items, walk_nodes
from .typed import ScriptMap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

MOST_PARTS = 40_000
SMALL = 2_000  # parts of a program of which three count for four
CALL = 5  # parts that a call counts for: a printf() costs as much as two assignments
MOST_VISITS = 8 * MOST_PARTS  # of parts, until the types of maps and variables are known

# Of a printed value, or one in a map: so many numbers and texts are in it. The tracer holds all of them at a time.
MOST_VALUES = 2 << 20
STRUCT = 8  # that a struct counts for, beside its members


def check_size(trees: Iterable[Tree], diagnostics: Diagnostics) -> int:
    """The number of parts. Raises :class:`~sonde.errors.CompileError`, at the one that is too much."""
    total = cost = 0
    for tree in trees:
        parts = 0
        for item, times in _parts(tree):
            parts += times * (CALL if isinstance(item, Call) else 1)
            if cost + _cost(parts) > MOST_PARTS:
                diagnostics.error("program-too-large", f"The program is too large: more than {MOST_PARTS} parts, "
                                  "each turn of an unroll counted", item.span,
                                  ["for ($i : 0..100) { } and while are loops, where unroll repeats what is in it",
                                   "a clause with several attach points may be a program for each"])
                diagnostics.raise_if_errors()
        total, cost = total + parts, cost + _cost(parts)
    return total


def _cost(parts: int) -> int:
    return parts if parts > SMALL else parts * 3 // 4


def _parts(tree: Tree) -> Iterator[tuple[Node, int]]:
    """Each part, and how many times it is compiled."""
    pending: list[tuple[Any, int]] = [(tree, 1)]
    while pending:
        item, times = pending.pop()
        if isinstance(item, Node):
            yield item, times
            if isinstance(item, Unroll) and isinstance(item.count, IntLiteral):
                times *= max(item.count.value, 1) if item.count.value <= 100 else 1  # more is refused
        pending += [(part, times) for part in child_items(item)]


def check_values(trees: Iterable[Tree], maps: Iterable[ScriptMap], diagnostics: Diagnostics) -> None:
    """Refuse what would take gigabytes when it is printed: a struct of millions of structs."""
    sent = [node for node in walk_nodes(list(trees))
            for row in [row_of(node)] if row is not None and row.sends == "data"]
    printed = [(arg.type, arg.span) for node in sent if isinstance(node, Call) for arg in node.args
               if isinstance(arg, Expr)]
    for type, span in printed + [(type, held.span) for held in maps for type in (held.key, held.value)]:
        if type is not None and not isinstance(type, Scalar) and (count := _values_in(type)) > MOST_VALUES:
            diagnostics.error("value-too-large", f"The value is too large: it has {count} parts, of which "
                              f"{MOST_VALUES} can be printed", span, ["print some of its members"])


def _values_in(type: Type, known: dict[int, int] | None = None) -> int:
    """``known``: what was counted of structs, by their id: each of many may have the next one twice."""
    known = {} if known is None else known
    if isinstance(type, Array):
        return type.count * _values_in(type.of, known)
    if isinstance(type, Tuple):
        return sum([_values_in(part, known) for part in type.of])
    if not isinstance(type, Struct):
        return 1
    if id(type) not in known:
        known[id(type)] = STRUCT + sum([_values_in(field.type, known) for field in type.fields])
    return known[id(type)]
