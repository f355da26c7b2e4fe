"""An executable definition of legal IR: run after every pass in tests (and under ``SONDE_CHECK_IR=1``)."""

from __future__ import annotations

from .dominators import find_predecessors, reachable_blocks
from .ir import (
    ALU,
    CALLS,
    CONDITIONS,
    FUNCTIONS,
    MEMORY,
    TERMINATORS,
    BasicBlock,
    BpfFunction,
    MapAddr,
    MapFd,
    Op,
    Program,
    Reg,
    Slot,
    SlotAt,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection


class IllegalIRError(AssertionError):
    """An operation breaks a rule of :mod:`ir`."""


_ARITY = {"mov": 1, "neg": 1, "swap": 1, "sext": 1, "zext": 1, "load": 1, "store": 2, "atomic_add": 2, "xchg": 2,
          "fetch_add": 2, "cmpxchg": 3, "addr": 1, "func": 0, "barrier": 1, "jump": 0, "branch": 2, "exit": 1}


REACHED, PLACED = "reached", "placed"  # no function is unused; no operation names a slot of scratch memory


def check_program(program: Program, facts: Collection[str] = ()) -> None:
    """Raise :class:`IllegalIRError` on the first broken rule; ``facts`` are rules that hold from some pass on."""
    for function in program.functions:
        for block in function.blocks:
            _check_block(function, block)
            if PLACED in facts:
                _check_placed(function, block)
        _check_definitions(function)
    if REACHED in facts:
        called = {op.label for f in program.functions for b in f.blocks for op in b.ops if op.kind in FUNCTIONS}
        unused = [f.name for f in program.functions[1:] if f.name not in called]
        if unused:
            raise IllegalIRError(f"nothing calls {unused[0]}")


def _check_placed(function: BpfFunction, block: BasicBlock) -> None:
    for op in block.ops:
        for arg in op.args:
            slot = arg.slot if isinstance(arg, SlotAt) else arg
            if isinstance(slot, Slot) and slot.scratch:
                _raise_illegal(function, block, op, "its slot is in scratch memory")


def _raise_illegal(function: BpfFunction, block: BasicBlock, op: Op, why: str) -> None:
    raise IllegalIRError(f"{function.name} {block!r}: {op!r}: {why}")


def _check_block(function: BpfFunction, block: BasicBlock) -> None:
    if not block.ops or block.ops[-1].kind not in TERMINATORS:
        raise IllegalIRError(f"{function.name} {block!r} has no end")
    for op in block.ops:
        arity = 2 if op.kind in ALU else _ARITY.get(op.kind)
        if arity is None and op.kind not in CALLS:
            _raise_illegal(function, block, op, "unknown kind")
        if arity is not None and len(op.args) != arity or len(op.args) > 5:
            _raise_illegal(function, block, op, "wrong number of operands")
        if op.kind in TERMINATORS and op is not block.ops[-1]:
            _raise_illegal(function, block, op, "terminator inside a block")
        if op.kind == "branch" and (op.cond not in CONDITIONS or op.then is None or op.other is None):
            _raise_illegal(function, block, op, "incomplete branch")
        if op.kind in MEMORY:
            _check_memory(function, block, op)
        if op.kind in ("swap", "sext", "zext") and op.bits not in (8, 16, 32, 64):
            _raise_illegal(function, block, op, "bad width")
        for arg in op.args[0 if op.kind not in CALLS else len(op.args):]:
            if isinstance(arg, (SlotAt, MapFd)):
                _raise_illegal(function, block, op, "operand only for calls")


def _check_memory(function: BpfFunction, block: BasicBlock, op: Op) -> None:
    base = op.args[0]
    if op.size not in (1, 2, 4, 8):
        _raise_illegal(function, block, op, "bad size")
    if isinstance(base, Slot):
        if not 0 <= op.off or op.off + op.size > base.size:
            _raise_illegal(function, block, op, "outside of its slot")
        if op.off % op.size and not base.scratch:
            _raise_illegal(function, block, op, "misaligned")
    elif not isinstance(base, (Reg, MapAddr)):
        _raise_illegal(function, block, op, "not an address")


def _check_definitions(function: BpfFunction) -> None:
    """Every register is written on every way to each of its uses (forward data flow over sets of registers as bits)."""
    blocks = reachable_blocks(function)
    preds = find_predecessors(blocks)
    everything = (1 << len(function.registers)) - 1
    written = {b: sum({1 << op.dst.id for op in b.ops if op.dst is not None}) for b in blocks}
    known = dict.fromkeys(blocks, everything)
    known[blocks[0]] = sum(1 << p.id for p in function.params)
    changed = True
    while changed:
        changed = False
        for block in blocks[1:]:
            new = everything
            for pred in preds[block]:
                new &= known[pred] | written[pred]
            changed = changed or new != known[block]
            known[block] = new
    for block in blocks:
        have = known[block]
        for op in block.ops:
            for arg in op.args:
                if type(arg) is Reg and not have >> arg.id & 1:
                    _raise_illegal(function, block, op, f"{arg!r} is used before it is defined")
            if op.dst is not None:
                have |= 1 << op.dst.id
