"""The dominator tree against its definition: without a block, what it dominates cannot be reached."""

from __future__ import annotations

import gc
import random
import time

import pytest

from sonde.compiler.dominators import Tree, dominator_tree, first_use, reachable_blocks, retreating_edges
from sonde.compiler.ir import BasicBlock, BpfFunction, Op


def graph(edges: list[tuple[int, ...]]) -> BpfFunction:
    """A function whose block i leads to the blocks ``edges[i]`` (none, one or two)."""
    function = BpfFunction("main", 0)
    function.blocks = [function.block(f"b{i}") for i in range(len(edges))]
    for block, to in zip(function.blocks, edges):
        targets = [function.blocks[t] for t in to]
        block.ops = [Op("exit", None, [0]) if not to else Op("jump", then=targets[0]) if len(to) == 1
                     else Op("branch", None, [1, 2], cond="jeq", then=targets[0], other=targets[1])]
    return function


def without(function: BpfFunction, gone: BasicBlock) -> set[BasicBlock]:
    """What can be reached without passing ``gone``."""
    return reached_from(function.blocks[0], gone)


def reached_from(start: BasicBlock, gone: BasicBlock | None = None) -> set[BasicBlock]:
    """What can be reached from ``start``, itself included, without passing ``gone``."""
    seen: set[BasicBlock] = set()
    pending = [start]
    while pending:
        block = pending.pop()
        if block is not gone and block not in seen:
            seen.add(block)
            pending += block.successors
    return seen


@pytest.mark.parametrize("seed", range(150))
def test_random_graphs(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.randrange(1, 14)
    function = graph([tuple(chance.randrange(count) for _ in range(chance.randrange(3))) for _ in range(count)])
    blocks = reachable_blocks(function)
    tree = Tree(blocks)
    for above in blocks:
        past = without(function, above)
        for block in blocks:
            assert tree.dominates(above, block) == (block not in past), (seed, above, block)
    cyclic = any(block in reached_from(child) for block in blocks for child in block.successors)
    assert bool(retreating_edges(blocks)) == cyclic
    some = chance.sample(blocks, chance.randrange(1, len(blocks) + 1))
    nearest = tree.common(some)
    ancestors = [b for b in blocks if all(tree.dominates(b, s) for s in some)]
    assert nearest in ancestors and all(tree.dominates(b, nearest) for b in ancestors)
    assert set(tree.way(nearest)) == {b for b in blocks if tree.dominates(b, nearest)}


def test_first_use() -> None:
    function = graph([(1, 2), (3,), (3,), (4,), ()])
    reg = function.reg("x")
    assert first_use(function, reg) is None
    for at in (1, 2):
        function.blocks[at].ops.insert(0, Op("store", None, [reg, 0]))
    assert first_use(function, reg) == (function.blocks[0], 0)
    function.blocks[0].ops.insert(0, Op("store", None, [1, reg]))
    assert first_use(function, reg) == (function.blocks[0], 0)


def test_many_ways_to_one_end() -> None:
    """Each block may leave for the last: what the tests of a long action look like. Ten times the blocks take some
    ten times as long, not a hundred times. Python's collector, which would go through what other tests have left, does
    not run while a script is compiled."""
    def once(count: int) -> float:
        function = graph([(i + 1, count) for i in range(count)] + [()])
        gc.disable()
        started = time.process_time()
        tree = dominator_tree(function)
        took = time.process_time() - started
        gc.enable()
        assert tree.parent[function.blocks[count]] is function.blocks[0]
        return took

    def seconds(count: int) -> float:
        return min(once(count) for _ in range(3))  # a busy machine has slow moments, also by its caches
    assert seconds(40_000) < 50 * max(seconds(4_000), 0.005)
