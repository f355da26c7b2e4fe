"""The dispatch of expression rules by node."""

from __future__ import annotations

from ..language import ast
from ..types import Type
from . import expressions as rules
from .calls import check_call
from .context import CheckContext
from .convert import NO_TYPE, plain_type
from .floats import check_float
from .operators import check_binary, check_ternary, check_unary
from .tables import check_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_RULES: dict[type, Callable[..., Type | None]] = {
    ast.IntLiteral: rules.check_int, ast.FloatLiteral: check_float,
    ast.StrLiteral: rules.check_str, ast.BoolLiteral: rules.check_bool,
    ast.Name: rules.check_name, ast.Positional: rules.check_positional, ast.Variable: rules.check_variable,
    ast.MapRef: rules.check_map, ast.Call: check_call, ast.Unary: check_unary, ast.Binary: check_binary,
    ast.Ternary: check_ternary, ast.FieldAccess: rules.check_field, ast.TupleAccess: rules.check_tuple_access,
    ast.RowCall: check_row, ast.Index: rules.check_index, ast.Cast: rules.check_cast, ast.TupleExpr: rules.check_tuple,
    ast.SizeOf: rules.check_sizeof, ast.OffsetOf: rules.check_offsetof, ast.BlockExpr: rules.check_block,
}


def check_expression(context: CheckContext, node: ast.Expr) -> Type | None:
    """Type of ``node``. The tree gets the plain type, the caller one that may be :class:`~.convert.Flexible`."""
    rule = _RULES.get(type(node))
    if rule is None:
        context.error("no-value", NO_TYPE, node)
        return None
    node.const = None
    result = rule(context, node)
    if result is not None and context.types.structs:
        result = context.types.replace_hidden(result)
    node.type = None if result is None else plain_type(result)
    return result
