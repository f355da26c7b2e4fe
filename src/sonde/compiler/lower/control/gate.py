"""The gate of ``--budget``, between a clause's predicate and its action: a few instructions while it is open.

Each CPU has a purse of runs in its own cache line. An empty one is filled from the allowance that user space sets,
``PURSE`` runs at a time, so that CPUs rarely collide there; a program that finds nothing left closes the gate, for all
programs at once. Only user space opens it: a tracer that gets no CPU time lets no events through.
"""

from __future__ import annotations

from ....layouts.shared_maps import BUDGET_HEAD as HEAD
from ...ir import MapAddr, Operand, Reg
from ..core import Lower
from ..tasks import slot_number

PURSE = 16


def count_run(lo: Lower) -> None:
    """Count another run of this clause, whatever becomes of the event. Losing a count now and then does no harm."""
    own = _own_slot(lo)
    lo.b.store(own, 8, lo.b.alu("add", lo.b.load(own, 8), 1))


def pass_gate(lo: Lower) -> None:
    """Go on if the gate is open; else count the event, by its attach point, and leave."""
    own = _own_slot(lo)
    ours, claim, spend, action = (lo.b.block(name, cold=name == "claim") for name in ("open", "claim", "spend", "act"))
    close, held = lo.b.block("close", cold=True), lo.b.block("held", cold=True)
    lo.b.branch("jeq", lo.b.load(lo.unit.global_word("gate"), 0), 0, ours, held)
    lo.b.start(ours)
    left = lo.b.function.reg("left")
    lo.b.set(left, lo.b.load(own, 0))
    lo.b.branch("jne", left, 0, spend, claim)
    lo.b.start(claim)
    allowance = lo.fetch_add(lo.b.address(lo.unit.global_word("allowance")), 0, lo.b.mov(-PURSE))
    lo.b.set(left, PURSE)
    lo.b.branch("jsgt", allowance, 0, spend, close)
    lo.b.start(close)
    lo.b.store(lo.b.address(lo.unit.global_word("gate")), 0, 1)
    lo.b.start(held)
    _count_held(lo, own)
    lo.b.jump(lo.state.done)
    lo.b.start(spend)
    lo.b.store(own, 0, lo.b.alu("sub", left, 1))
    lo.b.start(action)


def _own_slot(lo: Lower) -> Reg:
    """This CPU's slot of the budget's memory."""
    spec = lo.unit.budget()
    number = slot_number(lo, spec.cpus, lo.state.done)
    return lo.b.alu("add", lo.b.address(MapAddr(spec.name)), lo.b.alu("mul", number, spec.stride))


def _count_held(lo: Lower, own: Reg) -> None:
    """Count another event of this attach point that was held back."""
    index: Operand = lo.probe_index()
    if isinstance(index, int):
        lo.b.atomic_add(own, 8 * (HEAD + index), 1)
        return
    inside, on = lo.b.block("inside", cold=True), lo.b.block("counted", cold=True)
    lo.b.branch("jlt", index, len(lo.unit.probes), inside, on)
    lo.b.start(inside)
    lo.b.atomic_add(lo.b.alu("add", own, lo.b.alu("lsh", index, 3)), 8 * HEAD, 1)
    lo.b.start(on)
