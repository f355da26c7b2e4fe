"""Several clauses in one program.

Clauses at one place run in the script's order, which the kernel keeps for some kinds of probe and reverses for others.
And each entry has a cost: ten nanoseconds for a raw tracepoint's program (and all system calls share two raw
tracepoints), far more for a uprobe. Clauses that fire together therefore become one program, in which the end of one is
the beginning of the next. They share only the context, which is kept on the stack.
"""

from __future__ import annotations

from ..asm import insn as asm
from ..asm.relax import Item
from ..base.record import Record
from .emit import FP

STACK = 512
EXIT = asm.exit_().code
# Longer programs stay apart: jumps and what the verifier explores add up.
LONGEST = 4096
MOST_MAPS = 64  # of a program (MAX_USED_MAPS in include/linux/bpf_verifier.h)


class SymbolicProgram(Record):
    """A clause's program as symbolic instructions. Those with an equal ``key`` fire together and share one program
    unless one wants to be ``alone``; None: nobody else fires there."""

    items: list[Item]
    depth: int  # bytes of stack
    key: object
    alone: bool = False


def group_programs(programs: list[SymbolicProgram]) -> list[list[int]]:
    """Indices of the programs, those to be joined together, in order of their first. One that stays apart stands
    between those before it and those after it."""
    groups: list[list[int]] = []
    open: dict[object, tuple[list[int], set[str]]] = {}  # those that others can still join, and their maps
    for index, program in enumerate(programs):
        if program.key is None or program.alone or len(program.items) > LONGEST or program.depth > STACK - 8:
            groups.append([index])
            open.pop(program.key, None)
            continue
        maps = {item.map for item in program.items if isinstance(item, asm.Insn) and item.map}
        group, used = open.get(program.key, ([], set()))
        if not group or sum(len(programs[i].items) for i in group) + len(program.items) > LONGEST \
                or len(used | maps) > MOST_MAPS:
            group, used = open[program.key] = [], set()
            groups.append(group)
        group.append(index)
        used |= maps
    return groups


def join_programs(programs: list[SymbolicProgram]) -> SymbolicProgram:
    """One after the other."""
    if len(programs) == 1:
        return programs[0]
    depth = max(program.depth for program in programs) + 8
    items: list[Item] = []
    for number, program in enumerate(programs):
        head, *rest = program.items
        assert isinstance(head, str)
        if number == 0:
            items += [head, asm.store(FP, -depth, 1, 8)]
        else:
            items += [_join_clause(number), asm.load(1, FP, -depth, 8)]
        items += _renumber_labels(rest, number, number + 1 < len(programs))
    return SymbolicProgram(items, depth, programs[0].key)


def _join_clause(number: int) -> str:
    return f"clause {number}"


def _renumber_labels(items: list[Item], number: int, goes_on: bool) -> list[Item]:
    """With labels that only this clause has, and a jump to the following one where its program would end."""
    moved: list[Item] = []
    for item in items:
        if isinstance(item, str):
            moved.append(f"{number} {item}")
        elif goes_on and item.code == EXIT:
            moved.append(asm.jump(_join_clause(number + 1)))
        elif item.label:
            label = f"{number} {item.label}"
            moved.append(asm.Insn(item.code, item.dst, item.src, item.off, item.imm, label, item.map, item.span))
        else:
            moved.append(item)
    if isinstance(moved[-1], asm.Insn) and moved[-1].label == _join_clause(number + 1):
        moved.pop()
    return moved
