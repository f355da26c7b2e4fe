"""Floating-point numbers in expressions: compared, converted, and not reckoned with."""

from __future__ import annotations

from ..language import ast
from ..language.ast import Expr
from ..types import BOOL, DOUBLE, FLOAT, Enum, Float, Int, Type
from . import convert
from .context import CheckContext

NO_ARITHMETIC = ["programs in the kernel have no floating point: scaled(x, 1000) is x in thousandths, an integer"]
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


def check_float(context: CheckContext, node: ast.FloatLiteral) -> Type:
    return DOUBLE


def converts_float(have: Type, to: Type) -> bool:
    """Whether a cast from or to a floating-point type is one: integers become doubles alone."""
    return isinstance(have, (Float, Int, Enum)) and isinstance(to, (Float, Int)) and (to != FLOAT or have == FLOAT)


def float_operation(context: CheckContext, node: Expr, op: str, first: tuple[Expr, Type], second: tuple[Expr, Type]
                    ) -> Type | None:
    """The type of ``first op second``, of which one at least is a floating-point number."""
    if op in _COMPARISONS:
        if isinstance(node, ast.Binary) and all(isinstance(type, (Float, Int, Enum)) for _, type in (first, second)):
            node.compare = "float"
            return BOOL
        context.error("type-mismatch", f"Type mismatch for '{op}': comparing {convert.type_name(first[1])} with "
                      f"{convert.type_name(second[1])}", node)
        return BOOL
    context.error("floating-point", f"The {op} operator can not be used on expressions of types "
                  f"{convert.type_name(first[1])}, {convert.type_name(second[1])}", node, NO_ARITHMETIC)
    return None
