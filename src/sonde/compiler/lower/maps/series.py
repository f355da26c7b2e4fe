"""tseries(): a ring of intervals per CPU, brought up to date by each write."""

from __future__ import annotations

from ....language.ast import Call, MapRef
from ....types import Aggregate
from ...ir import BasicBlock, Operand
from ..clocks import tai_time
from ..control.ordering import value_before
from ..core import Lower
from ..state import Mem
from . import access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

STAMP, VALUE, EXTRA = 0, 8, 16  # words of an interval, see types.Aggregate
INTERVAL_BYTES = 24


def update_series(lo: Lower, ref: MapRef, call: Call) -> None:
    """``@m[k] = tseries(n, interval, count, agg)``."""
    aggregate = access.info_of(lo, ref).value
    assert isinstance(aggregate, Aggregate)
    value = value_before(lo, call.args[0], ref.key)
    time = tai_time(lo)
    epoch = lo.b.alu("div", time, aggregate.low)
    where, done = access.own_words(lo, ref)
    number = lo.b.alu("mod", epoch, aggregate.high)
    inside = lo.b.block("inside")
    lo.b.branch("jlt", number, aggregate.high, inside, done)  # always; the verifier wants it said
    lo.b.start(inside)
    mem = Mem(lo.b.alu("add", where, lo.b.alu("mul", number, INTERVAL_BYTES)))
    fresh, same = lo.b.block("fresh", cold=True), lo.b.block("same")
    stamp = lo.b.alu("add", epoch, 1)
    lo.b.branch("jeq", lo.b.load(mem.base, STAMP), stamp, same, fresh)
    lo.b.start(fresh)
    lo.b.store(mem.base, STAMP, stamp)
    lo.b.store(mem.base, VALUE, value)
    lo.b.store(mem.base, EXTRA, 1 if aggregate.agg == "avg" else time)
    lo.b.jump(done)
    lo.b.start(same)
    _AGAIN[aggregate.agg](lo, mem, aggregate, value, time, done)
    lo.b.start(done)


def _keep_last(lo: Lower, mem: Mem, aggregate: Aggregate, value: Operand, time: Operand, done: BasicBlock) -> None:
    lo.b.store(mem.base, VALUE, value)
    lo.b.store(mem.base, EXTRA, time)


def _add_to_sum(lo: Lower, mem: Mem, aggregate: Aggregate, value: Operand, time: Operand, done: BasicBlock) -> None:
    lo.b.atomic_add(mem.base, VALUE, value)


def _add_to_average(lo: Lower, mem: Mem, aggregate: Aggregate, value: Operand, time: Operand, done: BasicBlock) -> None:
    lo.b.atomic_add(mem.base, VALUE, value)
    lo.b.atomic_add(mem.base, EXTRA, 1)


def _keep_extreme(lo: Lower, mem: Mem, aggregate: Aggregate, value: Operand, time: Operand, done: BasicBlock) -> None:
    sign = "s" if aggregate.signed else ""
    take = lo.b.block("take")
    lo.b.branch(f"j{sign}lt" if aggregate.agg == "min" else f"j{sign}gt", value, lo.b.load(mem.base, VALUE), take, done)
    lo.b.start(take)
    lo.b.store(mem.base, VALUE, value)


_AGAIN: dict[str, Callable[[Lower, Mem, Aggregate, Operand, Operand, BasicBlock], None]] = {
    "": _keep_last, "sum": _add_to_sum, "avg": _add_to_average, "min": _keep_extreme, "max": _keep_extreme}
