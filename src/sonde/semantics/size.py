"""How large a program is: one that would take too long to compile is refused before anything is spent on it.

Counted are the parts of the syntax tree (a statement has three to six), once for each program that a clause makes and
for each turn of an ``unroll``. It takes a second for some 5,000 of them, and a quarter less in small programs, for some
passes of the compiler take longer for each operation of a large one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..language.ast import Call, IntLiteral, Node, Unroll
from ..language.diagnostics import Diagnostics
from .nodes import below

MOST_PARTS = 40_000
SMALL = 2_000  # parts of a program of which three count for four
CALL = 5  # parts that a call counts for: a printf() costs as much as two assignments
MOST_VISITS = 8 * MOST_PARTS  # of parts, until the types of maps and variables are known


def check_size(trees: Iterable[Any], diagnostics: Diagnostics) -> int:
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
                diagnostics.check()
        total, cost = total + parts, cost + _cost(parts)
    return total


def _cost(parts: int) -> int:
    return parts if parts > SMALL else parts * 3 // 4


def _parts(tree: Any) -> Iterator[tuple[Node, int]]:
    """Each part, and how many times it is compiled."""
    pending = [(tree, 1)]
    while pending:
        item, times = pending.pop()
        if isinstance(item, Node):
            yield item, times
            if isinstance(item, Unroll) and isinstance(item.count, IntLiteral):
                times *= max(item.count.value, 1)
        pending += [(part, times) for part in below(item)]
