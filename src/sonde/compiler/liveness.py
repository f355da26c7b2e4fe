"""Which registers are live at the end of each block: what a later block reads before it writes it."""

from __future__ import annotations

from .ir import BasicBlock, BpfFunction, Reg


class Liveness:
    """Most registers are used only in the block that defines them. The others, those that a block reads without having
    written them, are numbered among themselves, so that sets of them are short integers."""

    def __init__(self, function: BpfFunction) -> None:
        uses = {block: _uses(block) for block in function.blocks}
        self._ids = sorted({id for used, _ in uses.values() for id in used})  # by number
        number = {id: at for at, id in enumerate(self._ids)}
        reads = {block: sum([1 << number[id] for id in used]) for block, (used, _) in uses.items()}
        unwritten = {block: ~sum([1 << number[id] for id in written if id in number])
                     for block, (_, written) in uses.items()}
        self._after = dict.fromkeys(function.blocks, 0)
        before = dict(reads)
        backwards = [(block, block.successors) for block in reversed(function.blocks)]
        changed = True
        while changed:
            changed = False
            for block, following in backwards:
                out = 0
                for child in following:
                    out |= before[child]
                if out != self._after[block]:
                    self._after[block] = out
                    before[block] = reads[block] | out & unwritten[block]
                    changed = True

    def after(self, block: BasicBlock) -> list[int]:
        """Ids of the registers that are live where the block ends."""
        live, ids = self._after[block], []
        while live:
            low = live & -live
            ids.append(self._ids[low.bit_length() - 1])
            live ^= low
        return ids

    def before(self, block: BasicBlock) -> set[int]:
        """Ids of the registers that are live where the block starts."""
        used, written = _uses(block)
        return used | set(self.after(block)) - written

    def count_after(self, block: BasicBlock) -> int:
        return self._after[block].bit_count()


def _uses(block: BasicBlock) -> tuple[set[int], set[int]]:
    """Ids of the registers that a block reads before it writes them, and of those that it writes."""
    used: set[int] = set()
    written: set[int] = set()
    for op in block.ops:
        for arg in op.args:
            if type(arg) is Reg and arg.id not in written:
                used.add(arg.id)
        if op.dst is not None:
            written.add(op.dst.id)
    return used, written
