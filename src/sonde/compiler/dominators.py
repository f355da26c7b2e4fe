"""A function's dominator tree, in nearly linear time: an action may have a hundred thousand blocks."""

from __future__ import annotations

from .ir import BasicBlock, BpfFunction, Reg


def reachable_blocks(function: BpfFunction) -> list[BasicBlock]:
    """Blocks in reverse post-order from the entry."""
    entry = function.blocks[0]
    order: list[BasicBlock] = []
    seen = {entry}
    stack = [(entry, iter(entry.successors))]
    while stack:
        block, following = stack[-1]
        for child in following:
            if child not in seen:
                seen.add(child)
                stack.append((child, iter(child.successors)))
                break
        else:
            order.append(block)
            stack.pop()
    order.reverse()
    return order


def retreating_edges(blocks: list[BasicBlock]) -> list[tuple[BasicBlock, BasicBlock]]:
    """(from, to) of each edge that leads back in reverse post-order: a function without cycles has none."""
    number = {block: i for i, block in enumerate(blocks)}
    return [(block, child) for block in blocks for child in block.successors if number[child] <= number[block]]


def find_predecessors(blocks: list[BasicBlock]) -> dict[BasicBlock, list[BasicBlock]]:
    predecessors: dict[BasicBlock, list[BasicBlock]] = {b: [] for b in blocks}
    for block in blocks:
        for child in block.successors:
            predecessors[child].append(block)
    return predecessors


class Tree:
    """Who dominates whom. ``blocks`` are all that are reachable, the entry first; ``parent`` has no entry for it."""

    def __init__(self, blocks: list[BasicBlock]) -> None:
        self.blocks = blocks
        self.parent = _immediate_dominators(blocks)
        self.children: dict[BasicBlock, list[BasicBlock]] = {b: [] for b in blocks}
        for block in blocks[1:]:
            self.children[self.parent[block]].append(block)
        self._enter: dict[BasicBlock, int] = {}  # dominance is inclusion: enter .. leave of a walk over the tree
        self._leave: dict[BasicBlock, int] = {}
        stack = [(blocks[0], False)]
        while stack:
            block, done = stack.pop()
            if done:
                self._leave[block] = len(self._enter)
                continue
            self._enter[block] = len(self._enter)
            stack.append((block, True))
            stack += [(child, False) for child in self.children[block]]

    def dominates(self, above: BasicBlock, block: BasicBlock) -> bool:
        """Whether every way to ``block`` leads through ``above`` (or they are the same)."""
        return self._enter[above] <= self._enter[block] < self._leave[above]

    def common(self, blocks: list[BasicBlock]) -> BasicBlock:
        """The nearest block that dominates all of ``blocks``."""
        low, high = min([self._enter[b] for b in blocks]), max([self._enter[b] for b in blocks])
        block = blocks[0]
        while not self._enter[block] <= low <= high < self._leave[block]:
            block = self.parent[block]
        return block

    def way(self, block: BasicBlock) -> list[BasicBlock]:
        """From the entry to ``block``, every block that dominates it."""
        dominators = [block]
        while dominators[-1] in self.parent:
            dominators.append(self.parent[dominators[-1]])
        dominators.reverse()
        return dominators


def dominator_tree(function: BpfFunction) -> Tree:
    return Tree(reachable_blocks(function))


def _immediate_dominators(blocks: list[BasicBlock]) -> dict[BasicBlock, BasicBlock]:
    """Immediate dominators by semidominators (Lengauer and Tarjan; the last step after Georgiadis)."""
    order, up = _depth_first(blocks[0])
    number = {block: i for i, block in enumerate(order)}
    before: list[list[int]] = [[] for _ in order]
    for block in order:
        for child in block.successors:
            before[number[child]].append(number[block])
    count = len(order)
    semi, label, ancestor = list(range(count)), list(range(count)), list(up)
    for at in range(count - 1, 0, -1):
        best = up[at]
        for pred in before[at]:
            best = min(best, pred if pred <= at else semi[_lowest_common(pred, at, semi, label, ancestor)])
        semi[at] = best
    above = list(up)
    for at in range(1, count):
        while above[at] > semi[at]:
            above[at] = above[above[at]]
    return {order[at]: order[above[at]] for at in range(1, count)}


def _depth_first(entry: BasicBlock) -> tuple[list[BasicBlock], list[int]]:
    """Blocks in the order in which a walk meets them, and the number of the one that each was met from."""
    order: list[BasicBlock] = []
    up: list[int] = []
    seen: set[BasicBlock] = set()
    stack = [(entry, 0)]
    while stack:
        block, parent = stack.pop()
        if block in seen:
            continue
        seen.add(block)
        up.append(parent)
        stack += [(child, len(order)) for child in block.successors if child not in seen]
        order.append(block)
    return order, up


def _lowest_common(node: int, last: int, semi: list[int], label: list[int], ancestor: list[int]) -> int:
    """The node with the lowest semidominator on the way up from ``node`` as far as numbers are above ``last``. The
    way is shortened for those who ask next."""
    path = []
    while ancestor[node] > last:
        path.append(node)
        node = ancestor[node]
    for below in reversed(path):
        over = ancestor[below]
        if semi[label[over]] < semi[label[below]]:
            label[below] = label[over]
        ancestor[below] = ancestor[over]
    return label[path[0]] if path else label[node]


def first_use(function: BpfFunction, reg: Reg) -> tuple[BasicBlock, int] | None:
    """Where ``reg`` must be defined at the latest: (block, operation) that dominates every use; None without uses."""
    blocks = reachable_blocks(function)
    users = [b for b in blocks if any(a is reg for op in b.ops for a in op.args)]
    if not users:
        return None
    common = Tree(blocks).common(users)
    uses = [i for i, op in enumerate(common.ops) if any(a is reg for a in op.args)]
    return common, uses[0] if uses else len(common.ops) - 1
