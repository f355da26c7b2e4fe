"""Loads of what was just stored in the frame: a key is built in memory, where the map's helpers read it, and looked at
again at once, by a hash of it, say. What is put into scratch memory comes back as a mere number, as the verifier sees
it, and stays there: pointers are put there to be computed with."""

from __future__ import annotations

from .ir import EFFECTS, TERMINATORS, BasicBlock, BpfFunction, Op, Operand, Reg, Slot, SlotAt

MOST = 4  # values that are kept for loads: more would take the registers of others

Word = tuple[Slot, int, int]  # bytes of the frame: their slot, where they begin in it, how many


def forward_stores(function: BpfFunction) -> None:
    """Replace loads from the frame by the registers that the same block stored there."""
    exposed = {op.args[0] for block in function.blocks for op in block.ops if op.kind == "addr"}
    for block in function.blocks:
        _forward_in_block(block, {slot for slot in exposed if type(slot) is Slot})


def _forward_in_block(block: BasicBlock, exposed: set[Slot]) -> None:
    """``exposed``: slots whose address is in a register."""
    known: dict[Word, Operand] = {}
    for op in block.ops:
        base = op.args[0] if op.args else 0
        if op.kind == "load":
            if type(base) is Slot and (base, op.off, op.size) in known:
                _become_copy(op, known[base, op.off, op.size])
        elif op.kind == "store" and type(base) is Slot:
            _forget(known, base, op.off, op.size)
            value = op.args[1]
            if not base.scratch and (isinstance(value, int) or type(value) is Reg and value.defs == 1):
                known[base, op.off, op.size] = value
                if len(known) > MOST:
                    del known[next(iter(known))]
        elif op.kind == "store":
            for slot in exposed:
                _forget(known, slot, 0, slot.size)
        elif op.kind in EFFECTS - TERMINATORS and not op.pure:
            known.clear()
        else:
            for arg in op.args:
                if type(arg) is SlotAt:
                    _forget(known, arg.slot, 0, arg.slot.size)


def _forget(known: dict[Word, Operand], slot: Slot, start: int, size: int) -> None:
    """Bytes of a slot are no longer what they were."""
    for word in [word for word in known if word[0] is slot and word[1] < start + size and start < word[1] + word[2]]:
        del known[word]


def _become_copy(op: Op, value: Operand) -> None:
    """Have a load be the value that was stored there, cut to as many bytes."""
    op.kind = "mov" if op.size == 8 else "sext" if op.signed else "zext"
    op.args, op.bits, op.off, op.size, op.signed, op.pure = [value], op.size * 8, 0, 8, False, False
