"""Registers: liveness, then linear scan with holes (after Poletto and Sarkar, Wimmer and Mössenböck) over r1-r4 and
r6-r9.

r0 and r5 stay free as the emitter's temporaries: spilled values pass through them. A value that is live across a call
must be in r6-r9 or in memory; any other may be in r1-r4 too.
"""

from __future__ import annotations

from ..base.fast_stdlib import bisect_left, bisect_right, insort_right
from ..base.record import Record
from .ir import CALLS, BasicBlock, BpfFunction, Op, Reg
from .liveness import Liveness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SAVED = (6, 7, 8, 9)
SCRATCHED = (1, 2, 3, 4)


class Interval(Record):
    """Where ``reg`` is live: ranges of positions, first and last included, in ascending order with holes between."""

    reg: Reg
    ranges: list[tuple[int, int]]
    hints: list[int | Reg]
    crosses: bool = False

    @property
    def start(self) -> int:
        return self.ranges[0][0]

    @property
    def end(self) -> int:
        return self.ranges[-1][1]


class Allocation(Record):
    """``homes[reg]`` is a physical register, or -1 - n for spill slot n."""

    homes: dict[Reg, int]
    spills: int


def live_intervals(function: BpfFunction) -> list[Interval]:
    """One interval per register, by start; operation i reads at position 2i and writes at 2i + 1."""
    liveness = Liveness(function)
    ranges: dict[int, list[tuple[int, int]]] = {}
    hints: dict[int, list[int | Reg]] = {}
    calls: list[int] = []
    at = 0
    for block in function.blocks:
        for id, range in _in_block(block, at, liveness.after(block)):
            known = ranges.setdefault(id, [])
            if known and known[-1][1] >= range[0] - 1:
                known[-1] = known[-1][0], max(known[-1][1], range[1])
            else:
                known.append(range)
        for op in block.ops:
            _collect_hints(op, hints)
            if op.kind in CALLS:
                calls.append(at)
            at += 2
    for i, param in enumerate(function.params):
        first = ranges.setdefault(param.id, [(-1, -1)])
        first[0] = -1, first[0][1]
        hints.setdefault(param.id, []).insert(0, i + 1)
    intervals = [Interval(function.registers[id], parts, hints.get(id, []), _crosses_call(parts, calls))
                 for id, parts in ranges.items()]
    return sorted(intervals, key=lambda i: i.start)


def _in_block(block: BasicBlock, first: int, out: list[int]) -> list[tuple[int, tuple[int, int]]]:
    """(register id, range) of everything that is live in a block, each register's ranges in ascending order."""
    position = first + 2 * len(block.ops)
    ends = dict.fromkeys(out, position - 1)
    live = []
    for op in reversed(block.ops):
        position -= 2
        if op.dst is not None:
            live.append((op.dst.id, (position + 1, ends.pop(op.dst.id, position + 1))))
        for arg in op.args:
            if type(arg) is Reg:
                ends.setdefault(arg.id, position)
    live += [(id, (first, end)) for id, end in ends.items()]
    live.reverse()
    return live


def _collect_hints(op: Op, hints: dict[int, list[int | Reg]]) -> None:
    """Registers that save a move: a call's argument where the call wants it, a result where its operand was."""
    for n, arg in enumerate(op.args):
        if type(arg) is Reg:
            if op.kind in CALLS:
                hints.setdefault(arg.id, []).append(n + 1)
            elif op.dst is not None and n == 0:
                hints.setdefault(arg.id, []).append(op.dst)
    if op.dst is not None and op.args and type(op.args[0]) is Reg and op.kind not in CALLS:
        hints.setdefault(op.dst.id, []).insert(0, op.args[0])


def _crosses_call(ranges: list[tuple[int, int]], calls: list[int]) -> bool:
    """Whether a call happens while the register is live, other than as the call's own argument or result."""
    for start, end in ranges:
        index = bisect_left(calls, start)
        if index < len(calls) and calls[index] < end:
            return True
    return False


class Location:
    """A physical register or spill slot: the ranges in which it is taken, and by whom."""

    def __init__(self) -> None:
        self._taken: list[tuple[int, int, int]] = []  # start, end, register id
        self._by: dict[int, Interval] = {}

    def holders(self, interval: Interval) -> set[int]:
        """Ids of the registers that are live here at the same time."""
        return set(self._overlaps(interval))

    def is_free(self, interval: Interval) -> bool:
        return next(self._overlaps(interval), None) is None

    def _overlaps(self, interval: Interval) -> Iterator[int]:
        taken = self._taken
        for start, end in interval.ranges:
            at = max(bisect_right(taken, (start,)) - 1, 0)
            while at < len(taken) and taken[at][0] <= end:
                if taken[at][1] >= start:
                    yield taken[at][2]
                at += 1

    def take(self, interval: Interval) -> None:
        self._by[interval.reg.id] = interval
        for start, end in interval.ranges:
            insort_right(self._taken, (start, end, interval.reg.id))

    def give(self, id: int) -> Interval:
        """Free what a register had taken; its interval."""
        interval = self._by.pop(id)
        self._taken = [taken for taken in self._taken if taken[2] != id]
        return interval

    def last(self, id: int) -> int:
        return self._by[id].end


def allocate_registers(function: BpfFunction) -> Allocation:
    """Assign every register a home: a physical register or a spill slot."""
    homes: dict[Reg, int] = {}
    registers = {number: Location() for number in (*SCRATCHED, *SAVED)}
    spilled: list[Interval] = []
    for interval in live_intervals(function):
        choice = _choose_register(interval, registers, homes)
        if choice is None:
            choice = _evict_interval(interval, registers, spilled)
        if choice is None:
            spilled.append(interval)
        else:
            homes[interval.reg] = choice
            registers[choice].take(interval)
    slots: list[Location] = []
    for interval in sorted(spilled, key=lambda i: i.start):
        number = next((n for n, slot in enumerate(slots) if slot.is_free(interval)), len(slots))
        if number == len(slots):
            slots.append(Location())
        slots[number].take(interval)
        homes[interval.reg] = -1 - number
    return Allocation(homes, len(slots))


def _evict_interval(interval: Interval, registers: dict[int, Location], spilled: list[Interval]) -> int | None:
    """The register whose only holder is needed longest, freed by spilling that; None if this one lives longer."""
    best, choice = interval.end, None
    for number in SAVED if interval.crosses else SCRATCHED + SAVED:
        holders = registers[number].holders(interval)
        if len(holders) == 1 and registers[number].last(next(iter(holders))) > best:
            best, choice = registers[number].last(next(iter(holders))), number
    if choice is not None:
        spilled.append(registers[choice].give(registers[choice].holders(interval).pop()))
    return choice


def _choose_register(interval: Interval, registers: dict[int, Location], homes: dict[Reg, int]) -> int | None:
    """A free register that the interval may use, by hint if possible."""
    allowed = SAVED if interval.crosses else SCRATCHED + SAVED
    for hint in interval.hints:
        wanted = hint if isinstance(hint, int) else homes.get(hint, 0)
        if wanted in allowed and registers[wanted].is_free(interval):
            return wanted
    for number in allowed:
        if registers[number].is_free(interval):
            return number
    return None
