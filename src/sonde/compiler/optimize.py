"""Passes over IR: control flow, value numbering with folding, dead code. Each changes a BpfFunction."""

from __future__ import annotations

from ..base.words import divide_toward_zero, to_signed
from .dominators import Tree, find_predecessors, reachable_blocks
from .ir import ALU, CALLS, COMMUTATIVE, FUNCTIONS, NEGATED, SWAPPED, BasicBlock, BpfFunction, Op, Operand, Program, Reg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

# --- control flow -----------------------------------------------------------------------------------------


def _skip_jumps(block: BasicBlock) -> BasicBlock:
    """The block where a jump to ``block`` ends up, past blocks that only jump on."""
    seen = set()
    while len(block.ops) == 1 and block.ops[0].kind == "jump" and block not in seen:
        seen.add(block)
        target = block.ops[0].then
        assert target is not None
        block = target
    return block


def simplify_cfg(function: BpfFunction) -> None:
    """Drop unreachable blocks, thread jumps, fold decided branches, join straight lines."""
    for block in function.blocks:
        if not block.ops or block.ops[-1].kind not in ("jump", "branch", "exit"):
            block.ops.append(Op("exit", None, [0]))
    for block in function.blocks:
        last = block.ops[-1]
        if last.then is not None:
            last.then = _skip_jumps(last.then)
        if last.other is not None:
            last.other = _skip_jumps(last.other)
        if last.kind == "branch":
            taken = _decide_branch(last)
            if last.then is last.other:
                taken = True
            if taken is not None:
                block.ops[-1] = Op("jump", then=last.then if taken else last.other, span=last.span)
    blocks = reachable_blocks(function)
    preds = find_predecessors(blocks)
    joined: set[BasicBlock] = set()
    for block in blocks:
        if block in joined:
            continue
        while block.ops[-1].kind == "jump":
            child = block.ops[-1].then
            assert child is not None
            if len(preds[child]) != 1 or child is block or child is blocks[0]:
                break
            block.ops = block.ops[:-1] + child.ops
            block.cold = block.cold and child.cold
            joined.add(child)
    function.blocks = [b for b in blocks if b not in joined]


def _decide_branch(op: Op) -> bool | None:
    """The outcome of a branch between constants; None if it is not known."""
    a, b = op.args
    if not isinstance(a, int) or not isinstance(b, int):
        return None
    return evaluate_condition(op.cond, a, b, op.bits)


def evaluate_condition(cond: str, a: int, b: int, bits: int = 64) -> bool:
    """``a cond b`` as the CPU compares."""
    mask = (1 << bits) - 1
    ua, ub = a & mask, b & mask
    sa = ua - (1 << bits) if ua >> (bits - 1) else ua
    sb = ub - (1 << bits) if ub >> (bits - 1) else ub
    return {"jeq": ua == ub, "jne": ua != ub, "jgt": ua > ub, "jge": ua >= ub, "jlt": ua < ub, "jle": ua <= ub,
            "jsgt": sa > sb, "jsge": sa >= sb, "jslt": sa < sb, "jsle": sa <= sb, "jset": bool(ua & ub)}[cond]


# --- value numbering --------------------------------------------------------------------------------------


def fold_operation(op: str, a: int, b: int, bits: int = 64) -> int | None:
    """``a op b`` as eBPF computes it; None for kinds that are not folded."""
    mask = (1 << bits) - 1
    ua, ub = a & mask, b & mask
    sa, sb = to_signed(a), to_signed(b)
    shift = ub & (bits - 1)
    if op == "add":
        result = ua + ub
    elif op == "sub":
        result = ua - ub
    elif op == "mul":
        result = ua * ub
    elif op == "div":
        result = ua // ub if ub else 0
    elif op == "mod":
        result = ua % ub if ub else ua
    elif op in ("sdiv", "smod"):
        quotient = 0 if not sb else divide_toward_zero(sa, sb)
        result = quotient if op == "sdiv" else (sa - quotient * sb if sb else sa)
    elif op == "and":
        result = ua & ub
    elif op == "or":
        result = ua | ub
    elif op == "xor":
        result = ua ^ ub
    elif op == "lsh":
        result = ua << shift
    elif op == "rsh":
        result = ua >> shift
    elif op == "arsh" and bits == 64:
        result = sa >> shift
    else:
        return None
    return to_signed(result & mask)


Key: TypeAlias = tuple[str, tuple[int, ...], int, int, int, int, bool]  # of an expression, see Numbering._key


class Numbering:
    """Copy and constant propagation, folding, and common subexpressions along the dominator tree.

    Pure helper calls (the current pid, comm's clock ...) count as expressions: that is how a program asks
    the kernel for each only once.
    """

    def __init__(self, function: BpfFunction) -> None:
        self.function = function
        self.value: dict[Reg, Reg | int] = {}  # what a single-definition register is known to equal
        self.bits: dict[Reg, int] = {}   # upper bound of the width of a register's value
        self.defined: dict[Reg, Op] = {}

    def run(self) -> None:
        """Down the dominator tree: what a block computes is known below it, and forgotten when the walk leaves it."""
        tree = Tree(reachable_blocks(self.function))
        table: dict[Key, Reg] = {}
        stack: list[BasicBlock | list[Key]] = [tree.blocks[0]]
        while stack:
            block = stack.pop()
            if isinstance(block, list):
                for key in block:
                    del table[key]
                continue
            stack.append(self._block(block, table))
            stack += tree.children[block]

    def _block(self, block: BasicBlock, table: dict[Key, Reg]) -> list[Key]:
        """Number a block's operations; the keys that it added to the table."""
        ops = []
        added = []
        for op in block.ops:
            if self.value:
                op.args = [self.value.get(a, a) if type(a) is Reg else a for a in op.args]
            if op.kind in ALU:
                self._alu(op)
            elif op.kind in ("zext", "sext", "neg", "swap"):
                self._unary(op)
            elif op.kind == "branch":
                self._branch(op)
            dst = op.dst
            if dst is not None and dst.defs == 1:
                if op.kind == "mov" and self._copy(dst, op.args[0]):
                    continue
                key = self._key(op)
                if key is not None:
                    known = table.get(key)
                    if known is not None:
                        self.value[dst] = known
                        continue
                    table[key] = dst
                    added.append(key)
                self.defined[dst] = op
                self._width(op, dst)
            ops.append(op)
        block.ops = ops
        return added

    def _copy(self, dst: Reg, source: Operand) -> bool:
        """Whether uses of ``dst`` may read ``source`` instead."""
        if isinstance(source, int) or (type(source) is Reg and source.defs == 1):
            self.value[dst] = source
            return True
        return False

    def _key(self, op: Op) -> Key | None:
        """What operations that compute the same have in common; None if the operation must not be shared."""
        if op.kind not in ALU and op.kind not in ("neg", "swap", "sext", "zext") and not op.pure:
            return None
        args: list[int] = []
        for arg in op.args:
            if isinstance(arg, int):
                args.append(arg)
            elif type(arg) is Reg and arg.defs == 1:
                args.append(arg.id + (1 << 80))
            else:
                return None
        if op.kind in COMMUTATIVE:
            args.sort()
        return op.kind, tuple(args), op.off, op.size, op.bits, op.imm, op.signed

    def _width(self, op: Op, dst: Reg) -> None:
        if op.kind == "load" and not op.signed:
            self.bits[dst] = op.size * 8
        elif op.kind in ("zext", "swap"):
            self.bits[dst] = op.bits
        elif op.kind in ALU and op.bits == 32:
            self.bits[dst] = 32
        elif op.kind == "and" and isinstance(op.args[1], int) and op.args[1] >= 0:
            self.bits[dst] = op.args[1].bit_length()
        elif op.kind == "rsh" and isinstance(op.args[1], int):
            self.bits[dst] = self._bound(op.args[0]) - op.args[1]

    def _bound(self, operand: Operand) -> int:
        """A number of bits: the value of ``operand`` is below 2 to the power of it."""
        if isinstance(operand, int):
            return operand.bit_length() if operand >= 0 else 64
        return self.bits.get(operand, 64) if type(operand) is Reg else 64

    def _become(self, op: Op, value: Operand) -> None:
        op.kind, op.args, op.bits = "mov", [value], 64

    def _alu(self, op: Op) -> None:
        a, b = op.args
        if isinstance(a, int) and isinstance(b, int):
            result = fold_operation(op.kind, a, b, op.bits)
            if result is not None:
                self._become(op, result)
            return
        if isinstance(a, int) and op.kind in COMMUTATIVE:
            a, b = op.args = [b, a]
        if not isinstance(b, int) or op.bits != 64:
            return
        kind = op.kind
        if kind in ("lsh", "rsh", "arsh"):
            b = op.args[1] = b & 63  # as the CPU does; the verifier refuses the constant
        if b == 0 and kind in ("div", "sdiv", "mod", "smod"):  # the CPU's answers; refused as constants too
            self._become(op, 0 if kind in ("div", "sdiv") else a)
        elif b == 0 and kind in ("add", "sub", "or", "xor", "lsh", "rsh", "arsh") or \
                b == 1 and kind in ("mul", "div", "sdiv"):
            self._become(op, a)
        elif kind == "and" and (b == -1 or b >= 0 and b & (b + 1) == 0 and self._bound(a) <= b.bit_length()):
            self._become(op, a)
        elif b == 0 and kind in ("mul", "and"):
            self._become(op, 0)
        elif b > 0 and b & (b - 1) == 0 and kind in ("mul", "div", "mod"):
            if kind == "mod":
                op.kind, op.args = "and", [a, b - 1]
            else:
                op.kind, op.args = ("lsh" if kind == "mul" else "rsh"), [a, b.bit_length() - 1]
        elif kind in ("add", "sub"):
            self._reassociate(op, a, b)

    def _reassociate(self, op: Op, a: Operand, b: int) -> None:
        """(x + c) + d → x + (c + d)."""
        inner = self.defined.get(a) if type(a) is Reg else None
        total = b if op.kind == "add" else -b
        if inner is not None and inner.kind == "add" and inner.bits == 64 and isinstance(inner.args[1], int) \
                and type(inner.args[0]) is Reg and inner.args[0].defs == 1:
            total += inner.args[1]
            a = inner.args[0]
        elif op.kind == "add":
            return
        if -(1 << 31) <= total < 1 << 31:
            op.kind, op.args = "add", [a, total]

    def _unary(self, op: Op) -> None:
        a = op.args[0]
        if isinstance(a, int):
            if op.kind == "neg":
                self._become(op, to_signed(-a))
                return
            low = a & ((1 << op.bits) - 1)
            if op.kind == "swap":
                low = int.from_bytes(low.to_bytes(op.bits // 8, "little"), "big")
            if op.kind == "sext" and low >> (op.bits - 1):
                low -= 1 << op.bits
            self._become(op, to_signed(low))
        elif op.kind == "zext" and self._bound(a) <= op.bits or op.kind == "sext" and self._bound(a) < op.bits:
            self._become(op, a)
        elif op.kind in ("zext", "sext") and op.bits == 64:
            self._become(op, a)

    def _branch(self, op: Op) -> None:
        if isinstance(op.args[0], int) and not isinstance(op.args[1], int):
            op.args = [op.args[1], op.args[0]]
            op.cond = SWAPPED[op.cond]


def number_values(function: BpfFunction) -> None:
    """Run :class:`Numbering`."""
    Numbering(function).run()


# --- dead code --------------------------------------------------------------------------------------------


def remove_dead(function: BpfFunction) -> None:
    """Remove operations whose results are never read."""
    while True:
        used: set[Reg] = set()
        for block in function.blocks:
            for op in block.ops:
                for arg in op.args:
                    if type(arg) is Reg:
                        used.add(arg)
        removed = False
        for block in function.blocks:
            for op in block.ops:
                if op.dst is not None and op.dst not in used and op.kind in CALLS and not op.pure:
                    op.dst = None  # called for its effect
            ops = [op for op in block.ops if op.dst is None or op.dst in used or not op.removable]
            if len(ops) != len(block.ops):
                removed = True
                block.ops = ops
        if not removed:
            return


def drop_unused(program: Program) -> None:
    """Remove functions that nothing calls any more: the verifier counts only those that it reaches."""
    by_name = {f.name: f for f in program.functions}
    wanted = [program.functions[0]]
    for function in wanted:
        for op in [op for block in function.blocks for op in block.ops if op.kind in FUNCTIONS]:
            if by_name[op.label] not in wanted:
                wanted.append(by_name[op.label])
    program.functions = [f for f in program.functions if f in wanted]


def order_blocks(function: BpfFunction) -> None:
    """Lay blocks out so that the likely way falls through: reverse post-order, cold blocks last, and the
    branch turned so that its cold or far side is the jump."""
    blocks = reachable_blocks(function)
    function.blocks = [b for b in blocks if not b.cold] + [b for b in blocks if b.cold]
    if function.blocks[0] is not blocks[0]:
        function.blocks.remove(blocks[0])
        function.blocks.insert(0, blocks[0])
    for block, following in zip(function.blocks, [*function.blocks[1:], None]):
        last = block.ops[-1]
        if last.kind == "branch" and last.then is following and last.cond in NEGATED:
            last.cond, last.then, last.other = NEGATED[last.cond], last.other, last.then
