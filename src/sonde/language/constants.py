"""Constant integer expressions: enum values, array sizes, and the conditions of ``#if``."""

from __future__ import annotations

from ..base.words import MASK, divide_toward_zero
from .ast import Binary, BoolLiteral, Expr, IntLiteral, Ternary, Unary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class NotConstantError(Exception):
    """The expression has no value here; carries the node without one."""

    def __init__(self, node: Expr) -> None:
        super().__init__()
        self.node = node


def evaluate_constant(node: Expr, lookup: Callable[[Expr], int | None]) -> int:
    """The value of an expression; ``lookup`` answers for names and calls. Raises :class:`NotConstantError`."""
    if isinstance(node, (IntLiteral, BoolLiteral)):
        return int(node.value)
    if isinstance(node, Unary) and node.op in _UNARY:
        return _UNARY[node.op](evaluate_constant(node.operand, lookup))
    if isinstance(node, Binary):
        left = evaluate_constant(node.left, lookup)
        if node.op == "&&" and not left or node.op == "||" and left:
            return int(bool(left))
        right = evaluate_constant(node.right, lookup)
        if (node.op in ("/", "%") and right == 0) or (node.op in ("<<", ">>") and not 0 <= right < 64):
            raise NotConstantError(node)
        return _wrap_64_bits(_BINARY[node.op](left, right))
    if isinstance(node, Ternary) and node.then is not None:
        return evaluate_constant(node.then if evaluate_constant(node.cond, lookup) else node.other, lookup)
    value = lookup(node)
    if value is None:
        raise NotConstantError(node)
    return value


def _wrap_64_bits(value: int) -> int:
    """A value truncated to 64 bits; unsigned only where it does not fit otherwise."""
    return value if -(1 << 63) <= value < 1 << 64 else value & MASK


_UNARY: dict[str, Callable[[int], int]] = {"-": lambda a: -a, "~": lambda a: ~a, "!": lambda a: int(not a)}
_BINARY: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": divide_toward_zero,
    "%": lambda a, b: a - divide_toward_zero(a, b) * b, "&": lambda a, b: a & b, "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b, "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b,
    "&&": lambda a, b: int(bool(a and b)), "||": lambda a, b: int(bool(a or b)),
    "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b), "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b), ">": lambda a, b: int(a > b), ">=": lambda a, b: int(a >= b),
}
