"""usdt: arguments are where the program's compiler put them."""

from __future__ import annotations

from ....spec import UsdtArgument
from ....types import Int
from ...ir import Operand
from .. import memory
from ..core import Lower
from ..state import Mem
from .contexts import Context, UserFunctionContext


class StaticProbe(UserFunctionContext):
    """``arguments`` are those of one place; the checker gave places whose arguments differ programs of their own."""

    def __init__(self, arguments: list[UsdtArgument]) -> None:
        self.arguments = arguments

    def fresh(self) -> Context:
        return StaticProbe(self.arguments)

    def arg(self, lo: Lower, number: int) -> Operand:
        where = self.arguments[number]
        type = Int(8 * where.size, where.signed)
        if where.kind == "constant":
            return lo.normalise(where.offset, type)
        value = self.register(lo, where.base)
        if where.kind == "register":
            return lo.normalise(lo.b.alu("rsh", value, where.shift) if where.shift else value, type)
        if where.index >= 0:
            value = lo.b.alu("add", value, lo.b.alu("mul", self.register(lo, where.index), where.scale))
        return memory.read_scalar(lo, Mem(lo.b.alu("add", value, where.offset), 0, self.default_space), type)
