"""Which maps a program leaves filled: those that it fills and does not clear afterwards."""

from __future__ import annotations

from ..language.ast import Assign, Block, BlockExpr, Call, ExprStmt, MapRef, Unary
from .callees import row_of
from .nodes import child_items
from .typed import CheckedProbe, WholeMap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def left_filled(item: Any) -> set[str]:
    """The maps that a tree may leave filled: it sets elements of them, and no later statement of the same block clears
    them whatever the values are."""
    if isinstance(item, list):
        left = set[str]()
        for part in item:
            left = left - _cleared(part) | left_filled(part)
        return left
    own = item.target if isinstance(item, Assign) else \
        item.operand if isinstance(item, Unary) and item.op in ("++", "--") else None
    left = {own.name} if isinstance(own, MapRef) else set[str]()
    return left.union(*map(left_filled, child_items(item)))


def _cleared(item: Any) -> set[str]:
    """The maps that a statement clears whatever the values are; those of a macro's block among them."""
    if isinstance(item, ExprStmt):
        return _cleared(item.expr)
    if isinstance(item, Block | BlockExpr):
        return set[str]().union(*map(_cleared, item.body))
    if isinstance(item, Call) and isinstance(item.choice, WholeMap):
        row = row_of(item)
        return {item.choice.map} if row is not None and row.on_map in ("clear", "zero") else set()
    return set()


def rebuilt_maps(probes: list[CheckedProbe]) -> set[str]:
    """The maps that programs fill anew each time, show and clear: they have what holds at that moment, not what came
    since they were cleared. ``end`` may leave such a map filled, for it is shown once more then."""
    cleared = {name for probe in probes for name in probe.facts.written & probe.facts.cleared}
    return cleared.difference(*[probe.facts.left for probe in probes
                                if any(point.kind != "end" for point in probe.attach)]) if cleared else cleared
