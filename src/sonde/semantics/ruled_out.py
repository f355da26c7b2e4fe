"""Clauses ruled out before probes are looked for: by what the kernel has, by parameters not given."""

from __future__ import annotations

from ..language.ast import Binary, Call, Expr, StrLiteral, Unary
from ..spec import Config
from .callees import Functions
from .script_options import Options
from .world import World


def is_ruled_out(predicate: Expr | None, world: World, options: Options, config: Config, functions: Functions) -> bool:
    """Whether a predicate is always false because of what compile-time functions answer. Its clause is then dropped and
    costs nothing."""
    def answered(node: Call) -> bool | None:
        row = functions.get(node.name)
        if row is None or row.answer is None or not node.args or not isinstance(node.args[0], StrLiteral):
            return None
        return row.answer(node, world, options, config)

    def constant_value(node: Expr | None) -> bool | None:
        if isinstance(node, Call):
            return answered(node)
        if isinstance(node, Unary) and node.op == "!":
            inner = constant_value(node.operand)
            return None if inner is None else not inner
        if isinstance(node, Binary) and node.op in ("&&", "||"):
            sides = constant_value(node.left), constant_value(node.right)
            decisive = node.op == "||"
            return decisive if decisive in sides else None if None in sides else not decisive
        return None
    return constant_value(predicate) is False
