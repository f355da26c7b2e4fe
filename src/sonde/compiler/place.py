"""Where slots live: small ones in the frame, large ones in the program's per-CPU scratch memory.

The frame has 512 bytes for the main function and its callbacks together; scratch memory is an array map of one element
with a part for each CPU. A program that can be preempted on its CPU (a uprobe) instead claims one of several parts; see
``define_scratch`` in lower/program.py.
"""

from __future__ import annotations

from .ir import BpfFunction, Op, Program, Reg, Slot, SlotAt

FRAME = 512
SPILL_ROOM = 64  # kept for spilled registers


def place_slots(program: Program) -> None:
    """Give each slot an offset: in the frame, or from the function's ``scratch_base``."""
    levels = program.levels()
    for function in program.functions:
        main = function is program.functions[0]
        room = (FRAME - SPILL_ROOM if not levels else 256) if main else max(32, (FRAME - 320) // max(levels, 1) - 32)
        _move_to_scratch(function, room)
        at = 0
        for slot in function.slots:
            if slot.scratch:
                slot.offset = program.scratch_size
                program.scratch_size += (slot.size + 7) // 8 * 8
            else:
                at += (slot.size + 7) // 8 * 8
                slot.offset = -at
        _rewrite_operands(function, function.scratch_base)


def _move_to_scratch(function: BpfFunction, room: int) -> None:
    """Move the largest slots to scratch memory until the others fit into ``room`` bytes."""
    frame = [s for s in function.slots if not s.scratch]
    staying = sorted((s for s in frame if not s.pinned), key=lambda s: s.size)
    total = sum((s.size + 7) // 8 * 8 for s in frame)
    while total > room and staying:
        slot = staying.pop()
        slot.scratch = True
        total -= (slot.size + 7) // 8 * 8


def _rewrite_operands(function: BpfFunction, base: Reg) -> None:
    """Operations on scratch slots become operations on ``base`` plus an offset."""
    for block in function.blocks:
        ops: list[Op] = []
        for op in block.ops:
            for i, arg in enumerate(op.args):
                slot = arg.slot if isinstance(arg, SlotAt) else arg
                if not isinstance(slot, Slot) or not slot.scratch:
                    continue
                if isinstance(arg, SlotAt):
                    address = function.reg("at")
                    address.defs = 1
                    ops.append(Op("add", address, [base, slot.offset + arg.off], span=op.span))
                    op.args[i] = address
                elif op.kind == "addr":
                    op.kind, op.args, op.off = "add", [base, slot.offset + op.off], 0
                    break
                else:
                    op.args[i] = base
                    op.off += slot.offset
            ops.append(op)
        block.ops = ops
