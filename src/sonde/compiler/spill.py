"""Values that fit neither registers nor the frame move to the program's scratch memory.

Only plain numbers may: the verifier knows nothing about the contents of a map's memory, so whatever becomes an address
or a call's argument, or decides how often a loop runs, stays.
"""

from __future__ import annotations

from .allocate import allocate_registers
from .dominators import reachable_blocks, retreating_edges
from .flow import find_sources
from .ir import CALLS, BpfFunction, Op, Program, Reg
from .liveness import Liveness
from .place import FRAME, SPILL_ROOM

MARGIN = 32  # bytes for what placing the scratch memory adds
ROUNDS = 4


def spill_to_scratch(program: Program) -> None:
    """Move what does not fit, function by function. The callbacks' frames lie on top of the main function's."""
    levels = program.levels()
    for function in program.functions:
        main = function is program.functions[0]
        room = (FRAME if not levels else 320) if main else 192 // max(levels, 1)
        for _ in range(ROUNDS):
            if not _spill_some(function, room - MARGIN if main else room):
                break


def _spill_some(function: BpfFunction, room: int) -> bool:
    """Spill the values of as many spill slots as exceed the room; returns whether there were any."""
    frame = sum((s.size + 7) // 8 * 8 for s in function.slots if not s.scratch)
    spills = max(room - frame, SPILL_ROOM) // 8
    if _most_live(function) <= spills:
        return False
    allocation = allocate_registers(function)
    excess = allocation.spills - spills
    if excess <= 0:
        return False
    fixed = _find_fixed(function)
    spilled = [r for r, home in allocation.homes.items() if home < 0 and r.id not in fixed]
    slots = set(sorted({allocation.homes[r] for r in spilled})[:excess])
    spilled_now = [r for r in spilled if allocation.homes[r] in slots]
    for reg in spilled_now:
        _spill_register(function, reg)
    return bool(spilled_now)


def _most_live(function: BpfFunction) -> int:
    """No fewer than the values that are ever live at once: a block's operations define the rest."""
    if len(function.registers) <= SPILL_ROOM // 8:
        return 0
    liveness = Liveness(function)
    return max([liveness.count_after(block) + len(block.ops) for block in function.blocks])


def _find_fixed(function: BpfFunction) -> set[int]:
    """Ids of the registers that flow into addresses, calls and, where there are loops, conditions."""
    sinks = CALLS | {"barrier", "exit"} | ({"branch"} if retreating_edges(reachable_blocks(function)) else set())
    return find_sources(function, {p.id for p in function.params}, lambda op: op.kind in sinks)


def _spill_register(function: BpfFunction, reg: Reg) -> None:
    """Store the value wherever it is defined, load it wherever it is used."""
    slot = function.slot(8, "spilled")
    slot.scratch = True
    for block in function.blocks:
        ops: list[Op] = []
        for op in block.ops:
            if any(arg is reg for arg in op.args):
                loaded = function.reg(reg.name)
                loaded.defs = 1
                ops.append(Op("load", loaded, [slot], span=op.span))
                op.args = [loaded if arg is reg else arg for arg in op.args]
            ops.append(op)
            if op.dst is reg:
                op.dst = function.reg(reg.name)
                op.dst.defs = 1
                ops.append(Op("store", None, [slot, op.dst], span=op.span))
        block.ops = ops
