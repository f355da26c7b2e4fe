"""The order of evaluation, where it is observable."""

from __future__ import annotations

from ....language.ast import BlockExpr, Call, Expr, ScratchVar, Unary, Variable
from ....semantics.callees import deletes_key
from ....semantics.nodes import walk_nodes
from ...ir import Operand
from ..core import Lower, is_function_call
from .variables import set_variable


def must_run_first(expr: Expr) -> bool:
    """Whether an expression has effects that a lost record must not suppress, or may end the program."""
    return any(isinstance(n, BlockExpr) or isinstance(n, Unary) and n.op in ("++", "--") or is_function_call(n)
               or isinstance(n, Call) and deletes_key(n) for n in walk_nodes(expr))


def value_before(lo: Lower, expr: Expr, following: Expr | None) -> Operand:
    """The value of ``expr`` as it is before ``following`` is evaluated, which may change a variable in it."""
    value = lo.scalar_value(expr)
    return lo.b.mov(value) if following is not None and must_run_first(following) else value


def evaluate_once(lo: Lower, expr: Expr) -> Variable:
    """The value of ``expr`` as a variable of its own: evaluated now, and only once."""
    assert expr.type is not None
    variable = Variable(expr.span, name="value", slot=ScratchVar("value", expr.type, expr.span))
    variable.type = expr.type
    set_variable(lo, variable, expr)
    return variable
