"""Numbers of another kind than they were."""

from __future__ import annotations

from ..compiler.ir import Operand
from ..compiler.lower.calls import Function
from ..compiler.lower.core import Lower
from ..compiler.lower.floats import multiply_rounded
from ..language.ast import Call
from ..semantics.callees import Types
from ..semantics.context import CheckContext
from ..types import INT64, Type

_MOST = (1 << 32) - 1


def _check_scaled(context: CheckContext, node: Call, types: Types) -> Type | None:
    """An int64."""
    factor = node.args[1].const
    if 1 <= factor <= _MOST:
        return INT64
    context.error("bad-argument", f"scaled() multiplies by 1 to {_MOST}, not {factor}", node.args[1])
    return None


def _lower_scaled(lo: Lower, call: Call) -> Operand:
    value = lo.scalar_value(call.args[0])
    return multiply_rounded(lo, value, call.args[1].const)


ROWS = (
    Function("scaled", ("x:float", "n:number"), None,
             "A floating-point number times ``n``, rounded to an integer: scaled(x, 1000) is x in thousandths.",
             "scaled(1.5, 1000)", _check_scaled, scalar=_lower_scaled),
)
