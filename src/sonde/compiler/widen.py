"""Numbers that change in loops become unknown to the verifier, so that it does not follow every history of every
number.

``for $i : 0..200 { if (...) { $n++; } }``: after each iteration $n may have another value, and the verifier, which
tracks constants exactly, would follow 2^200 paths. A number that decides neither how long the loop runs nor where
memory is accessed is therefore added to a word of memory that is always zero, which only we know.
"""

from __future__ import annotations

from .dominators import Tree, find_predecessors, reachable_blocks, retreating_edges
from .flow import find_sources
from .ir import ALU, CALLS, BasicBlock, BpfFunction, MapAddr, Op, Program, Reg
from .liveness import Liveness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

BOUNDED = "for"  # name of a block that counts to a constant: the loop's other exits need not be known to end it
_NUMBERS = frozenset(("random", "boot_ns", "monotonic_ns", "pid_tgid", "uid_gid", "cgroup_id", "cpu", "jiffies"))


class NaturalLoop:
    """A natural loop: its head, and all of its blocks."""

    def __init__(self, head: BasicBlock, blocks: set[BasicBlock]) -> None:
        self.head, self.blocks = head, blocks

    @property
    def forks(self) -> bool:
        """Whether an iteration can go different ways."""
        return any(len(b.successors) > 1 and all(s in self.blocks for s in b.successors) for b in self.blocks)

    def bounds(self) -> set[int]:
        """Ids of the registers that decide when it ends."""
        exits = [self.head] if self.head.name == BOUNDED or self._counts() else \
            [b for b in self.blocks if any(s not in self.blocks for s in b.successors)]
        return {r.id for b in exits for r in b.ops[-1].registers()}

    def _counts(self) -> bool:
        """Whether its head compares a constant with a number that only changes by constants in one direction."""
        last = self.head.ops[-1]
        if last.kind != "branch" or type(last.args[0]) is not Reg or type(last.args[1]) is not int \
                or all(s in self.blocks for s in self.head.successors):
            return False
        counter = last.args[0]
        defined = _find_definitions(self.blocks)
        return counter in defined and all(_is_step(op, counter, defined) for op in defined[counter])


def _find_definitions(blocks: set[BasicBlock]) -> dict[Reg, list[Op]]:
    defined: dict[Reg, list[Op]] = {}
    for block in blocks:
        for op in block.ops:
            if op.dst is not None:
                defined.setdefault(op.dst, []).append(op)
    return defined


def _is_step(op: Op, counter: Reg, defined: dict[Reg, list[Op]]) -> bool:
    """Whether the value assigned to the counter is the counter plus or minus a constant."""
    made = _find_origin(op, counter, defined)
    if made.kind not in ("add", "sub") or type(made.args[1]) is not int:
        return False
    before = _find_origin(Op("mov", None, [made.args[0]]), counter, defined)
    return before.kind == "mov" and before.args[0] is counter


def _find_origin(op: Op, counter: Reg, defined: dict[Reg, list[Op]]) -> Op:
    """The operation after copies; a copy of the counter itself stays one."""
    while op.kind == "mov" and type(op.args[0]) is Reg and op.args[0] is not counter:
        sources = defined.get(op.args[0], [])
        if len(sources) != 1:
            break
        op = sources[0]
    return op


def widen_loops(program: Program, zero: Callable[[], MapAddr]) -> None:
    """Make numbers unknown at the head of each loop that carries them; ``zero()`` is a word that is 0."""
    for function in program.functions:
        _widen_function(function, zero)


def _widen_function(function: BpfFunction, zero: Callable[[], MapAddr]) -> None:
    loops = find_loops(function)
    forking = [loop for loop in loops if loop.forks]
    if not forking:
        return
    bounds = set().union(*[loop.bounds() for loop in loops])
    fixed = find_sources(function, bounds, lambda op: op.kind in CALLS or op.kind == "function")
    numbers = _find_numbers(function)
    liveness = Liveness(function)
    for loop in forking:
        live = liveness.before(loop.head)
        carried = {op.dst for b in loop.blocks for op in b.ops if op.dst is not None and op.dst.id in live}
        chosen = [r for r in carried if r.id in numbers and r.id not in fixed]
        if chosen:
            _insert_opaque_barrier(function, loop.head, sorted(chosen, key=lambda r: r.id), zero())


def find_loops(function: BpfFunction) -> list[NaturalLoop]:
    """Every natural loop, inner ones and outer ones."""
    blocks = reachable_blocks(function)
    edges = retreating_edges(blocks)
    if not edges:
        return []
    tree, before = Tree(blocks), find_predecessors(blocks)
    loops: dict[BasicBlock, set[BasicBlock]] = {}
    for block, head in edges:
        if tree.dominates(head, block):
            _collect_blocks(block, before, loops.setdefault(head, {head}))
    return [NaturalLoop(head, inside) for head, inside in loops.items()]


def _collect_blocks(back: BasicBlock, before: dict[BasicBlock, list[BasicBlock]], inside: set[BasicBlock]) -> None:
    """Add every block from which the loop's end is reached without passing its head."""
    pending = [back]
    while pending:
        block = pending.pop()
        if block not in inside:
            inside.add(block)
            pending += before[block]


def _find_numbers(function: BpfFunction) -> set[int]:
    """Registers that never hold a pointer: every definition is plain arithmetic."""
    defined = _find_definitions(set(function.blocks))
    numbers = {register.id for register in defined}
    changed = True
    while changed:
        odd = {r.id for r, ops in defined.items() if r.id in numbers and not all(_is_number(o, numbers) for o in ops)}
        numbers -= odd
        changed = bool(odd)
    return numbers


def _is_number(op: Op, numbers: set[int]) -> bool:
    if op.kind in ("mov", "add", "sub"):
        return all(type(a) is int or type(a) is Reg and a.id in numbers for a in op.args)
    if op.kind == "load":
        return op.size < 8 or type(op.args[0]) is MapAddr
    return op.kind in ALU or op.kind in ("neg", "swap", "sext", "zext") or op.kind == "call" and op.label in _NUMBERS


def _insert_opaque_barrier(function: BpfFunction, head: BasicBlock, registers: list[Reg], zero: MapAddr) -> None:
    hidden = function.reg("zero")
    hidden.defs = 1
    span = head.ops[0].span
    ops = [Op("load", hidden, [zero], span=span)]
    for register in registers:
        register.defs += 1
        ops.append(Op("add", register, [register, hidden], span=span))
    head.ops[:0] = ops
