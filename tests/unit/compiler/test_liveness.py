"""Liveness against its definition: some way from a place reads the register before anything writes it."""

from __future__ import annotations

import random

import pytest

from sonde.compiler.ir import BasicBlock, Op, Reg
from sonde.compiler.liveness import Liveness
from unit.compiler.test_dominators import graph


def read_from(block: BasicBlock, reg: Reg) -> bool:
    """Whether a way that starts with ``block`` reads ``reg`` before it is written."""
    seen: set[BasicBlock] = set()
    pending = [block]
    while pending:
        block = pending.pop()
        if block in seen:
            continue
        seen.add(block)
        for op in block.ops:
            if reg in op.args:
                return True
            if op.dst is reg:
                break
        else:
            pending += block.successors
    return False


@pytest.mark.parametrize("seed", range(100))
def test_random_functions(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.randrange(1, 12)
    function = graph([tuple(chance.randrange(count) for _ in range(chance.randrange(3))) for _ in range(count)])
    registers = [function.reg(f"r{i}") for i in range(5)]
    for block in function.blocks:
        block.ops[:0] = [Op("add", chance.choice(registers), [chance.choice([*registers, 1]), 2])
                         for _ in range(chance.randrange(4))]
    liveness = Liveness(function)
    for block in function.blocks:
        before = {r.id for r in registers if read_from(block, r)}
        after = {r.id for child in block.successors for r in registers if read_from(child, r)}
        assert liveness.before(block) == before
        assert liveness.after(block) == sorted(after) and liveness.count_after(block) == len(after)


def test_what_one_block_uses_is_live_in_no_other() -> None:
    function = graph([(1,), ()])
    inside, across = function.reg("inside"), function.reg("across")
    function.blocks[0].ops[:0] = [Op("mov", inside, [1]), Op("add", across, [inside, 1])]
    function.blocks[1].ops[:0] = [Op("add", across, [across, 1])]
    assert Liveness(function).after(function.blocks[0]) == [across.id]
    assert not Liveness(function).after(function.blocks[1])
