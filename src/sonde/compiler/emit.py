"""From IR with registers assigned to instructions."""

from __future__ import annotations

from sys import byteorder

from ..asm import insn as asm
from ..asm.relax import Item
from ..source import Span
from .allocate import Allocation, allocate_registers
from .ir import (
    ALU,
    CALLS,
    COMMUTATIVE,
    BasicBlock,
    BpfFunction,
    MapAddr,
    MapFd,
    Op,
    Operand,
    Program,
    Reg,
    Slot,
    SlotAt,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

T0, T1 = 0, 5  # temporaries
FP = 10


def fits_immediate(value: int) -> bool:
    """``value`` can be an instruction's 32-bit immediate."""
    return -(1 << 31) <= value < 1 << 31


class Emitter:
    """Writes one function. ``v4``: the kernel knows sign-extending loads and moves (Linux 6.6). ``bounds``: to its
    verifier the copies of a number on the stack have that number's bounds (6.8). ``order``: of the machine's bytes."""

    def __init__(self, function: BpfFunction, v4: bool, bounds: bool, order: str) -> None:
        self.function = function
        self.v4 = v4
        self.bounds = bounds
        self.order = order
        self.allocation: Allocation = allocate_registers(function)
        frame = sum((s.size + 7) // 8 * 8 for s in function.slots if not s.scratch)
        self.spill_base = -frame
        self.frame = frame + 8 * self.allocation.spills
        self.items: list[Item] = []
        self.span: Span | None = None

    # helpers

    def put(self, insn: asm.Insn) -> None:
        insn.span = self.span
        self.items.append(insn)

    def label(self, block: BasicBlock) -> str:
        return f"{self.function.name}.{block.id}"

    def home(self, reg: Reg) -> int:
        return self.allocation.homes[reg]

    def spill_offset(self, number: int) -> int:
        return self.spill_base + 8 * number

    def move(self, dst: int, operand: Operand) -> None:
        """Materialise any operand in physical register ``dst``."""
        if type(operand) is Reg:
            home = self.home(operand)
            if home < 0:
                self.put(asm.load(dst, FP, self.spill_offset(home), 8))
            elif home != dst:
                self.put(asm.alu("mov", dst, home))
        elif isinstance(operand, int):
            if fits_immediate(operand):
                self.put(asm.alu("mov", dst, imm=operand))
            elif 0 <= operand < 1 << 32:
                self.put(asm.alu("mov", dst, imm=operand - (1 << 32) if operand >> 31 else operand, bits=32))
            else:
                self.put(asm.load_imm64(dst, operand))
        elif isinstance(operand, MapFd):
            self.put(asm.map_fd(dst, operand.map))
        elif isinstance(operand, MapAddr):
            self.put(asm.map_value(dst, operand.map, operand.off))
        else:
            slot, off = (operand.slot, operand.off) if isinstance(operand, SlotAt) else (operand, 0)
            assert isinstance(slot, Slot) and not slot.scratch
            self.put(asm.alu("mov", dst, FP))
            self.put(asm.alu("add", dst, imm=slot.offset + off))

    def register(self, operand: Operand, temporary: int) -> int:
        """A physical register that holds ``operand``."""
        if type(operand) is Reg:
            home = self.home(operand)
            if home >= 0:
                return home
        self.move(temporary, operand)
        return temporary

    def target(self, dst: Reg) -> int:
        """The register to compute ``dst`` in."""
        home = self.allocation.homes.get(dst, T0)
        return home if home >= 0 else T0

    def finish(self, dst: Reg) -> None:
        """Store a spilled result."""
        home = self.allocation.homes.get(dst, T0)
        if home < 0:
            self.put(asm.store(FP, self.spill_offset(home), T0, 8))

    # operations

    def run(self) -> list[Item]:
        blocks = self.function.blocks
        self.items.append(self.function.name)
        for i, param in enumerate(self.function.params):  # before a move takes the register that it came in
            home = self.allocation.homes.get(param, 0)
            if home < 0:
                self.put(asm.store(FP, self.spill_offset(home), i + 1, 8))
        self.parallel([(self.allocation.homes[p], i + 1) for i, p in enumerate(self.function.params)
                       if self.allocation.homes.get(p, -1) >= 0])
        for block, following in zip(blocks, [*blocks[1:], None]):
            self.items.append(self.label(block))
            for op in block.ops:
                self.span = op.span
                self.operation(op, following)
        return self.items

    def operation(self, op: Op, following: BasicBlock | None) -> None:
        kind = op.kind
        if kind in ALU:
            self.alu(op)
        elif kind in CALLS:
            self.call(op)
        elif kind in ("jump", "branch", "exit"):
            getattr(self, kind)(op, following)
        elif kind in ("load", "store", "atomic_add"):
            getattr(self, kind)(op)
        elif kind in ("xchg", "fetch_add"):
            self.exchange(op)
        elif kind != "barrier":
            self.simple(op)

    def alu(self, op: Op) -> None:
        assert op.dst is not None
        a, b = op.args
        d = self.target(op.dst)
        if isinstance(b, int) and fits_immediate(b):
            self.move(d, a)
            self.put(asm.alu(op.kind, d, imm=b, bits=op.bits))
            self.finish(op.dst)
            return
        if type(b) is Reg and self.home(b) == d and not (type(a) is Reg and self.home(a) == d):
            if op.kind in COMMUTATIVE:
                a, b = b, a
            else:
                self.move(T0, a)
                self.put(asm.alu(op.kind, T0, d, bits=op.bits))
                self.put(asm.alu("mov", d, T0))
                return
        source = self.register(b, T1)
        self.move(d, a)
        self.put(asm.alu(op.kind, d, source, bits=op.bits))
        self.finish(op.dst)

    def simple(self, op: Op) -> None:
        """mov, neg, swap, sext, zext, addr, func."""
        assert op.dst is not None
        d = self.target(op.dst)
        a = op.args[0] if op.args else 0
        if op.kind == "func":
            self.put(asm.func_address(d, op.label))
        elif op.kind == "addr":
            if isinstance(a, MapAddr):
                self.move(d, MapAddr(a.map, a.off + op.off))
            else:
                assert isinstance(a, Slot)
                self.move(d, SlotAt(a, op.off))
        elif op.kind == "zext" and op.bits == 32:
            self.put(asm.alu("mov", d, self.register(a, T0), bits=32))
        elif op.kind == "sext" and self.v4:
            self.put(asm.sign_extend(d, self.register(a, T0), op.bits))
        else:
            self.move(d, a)
            if op.kind == "neg":
                self.put(asm.alu("neg", d))
            elif op.kind == "swap":
                self.put(asm.byte_swap(d, op.bits, self.order))
            elif op.kind == "zext" and op.bits < 32:
                self.put(asm.alu("and", d, imm=(1 << op.bits) - 1))
            elif op.kind == "sext" and op.bits < 64:
                self.put(asm.alu("lsh", d, imm=64 - op.bits))
                self.put(asm.alu("arsh", d, imm=64 - op.bits))
        self.finish(op.dst)

    def memory(self, op: Op) -> tuple[int, int]:
        """The base register and offset of a memory operation."""
        base = op.args[0]
        if isinstance(base, Slot):
            assert not base.scratch
            return FP, base.offset + op.off
        if isinstance(base, MapAddr):
            self.put(asm.map_value(T1, base.map, base.off + op.off))
            return T1, 0
        off = op.off
        register = self.register(base, T1)
        if not -32768 <= off <= 32767:
            self.move(T1, base)
            self.put(asm.alu("add", T1, imm=off))
            return T1, 0
        return register, off

    def load(self, op: Op) -> None:
        assert op.dst is not None
        d = self.target(op.dst)
        base, off = self.memory(op)
        extend = op.signed and op.size < 8
        self.put(asm.load(d, base, off, op.size, extend and self.v4))
        if extend and not self.v4:
            self.put(asm.alu("lsh", d, imm=64 - op.size * 8))
            self.put(asm.alu("arsh", d, imm=64 - op.size * 8))
        self.finish(op.dst)

    def store(self, op: Op) -> None:
        base, off = self.memory(op)
        value = op.args[1]
        if isinstance(value, int):
            short = value
            if op.size < 8:
                short &= (1 << op.size * 8) - 1
                if op.size == 4 and short >> 31:
                    short -= 1 << 32
            if fits_immediate(short):
                self.put(asm.store_imm(base, off, short, op.size))
                return
        self.put(asm.store(base, off, self.register(value, T0), op.size))

    def atomic_add(self, op: Op) -> None:
        base, off = self.memory(op)
        self.put(asm.atomic_add(base, off, self.register(op.args[1], T0), op.size))

    def exchange(self, op: Op) -> None:
        assert op.dst is not None
        base, off = self.memory(op)
        self.move(T0, op.args[1])
        self.put(asm.atomic_exchange(op.kind, base, off, T0, op.size))
        if self.allocation.homes.get(op.dst, -1) > 0:
            self.put(asm.alu("mov", self.home(op.dst), T0))
        else:
            self.finish(op.dst)

    def call(self, op: Op) -> None:
        moves = []
        rest = []
        for i, arg in enumerate(op.args):
            if type(arg) is Reg and self.home(arg) >= 0:
                moves.append((i + 1, self.home(arg)))
            else:
                rest.append((i + 1, arg))
        self.parallel(moves)
        expected = op.args[1] if op.kind == "cmpxchg" else None  # which r0 takes
        for register, arg in rest:
            if register != 2 or not isinstance(expected, int):
                self.move(register, arg)
        if expected is not None:
            if isinstance(expected, int):
                self.move(0, expected)
            else:
                self.put(asm.alu("mov", 0, 2))
            self.put(asm.compare_exchange(1, 0, 3, 8))
        else:
            self.put(asm.call_helper(op.imm) if op.kind == "call" else asm.call_kfunc(op.imm) if op.kind == "kfunc"
                     else asm.call_function(op.label))
        if op.dst is not None and op.dst in self.allocation.homes:
            home = self.home(op.dst)
            if home > 0:
                self.put(asm.alu("mov", home, 0))
            else:
                self.finish(op.dst)

    def parallel(self, moves: list[tuple[int, int]]) -> None:
        """Copies between registers as if all at once; r0 breaks cycles."""
        pending = [(d, s) for d, s in moves if d != s]
        while pending:
            sources = [s for _, s in pending]
            ready = next((m for m in pending if m[0] not in sources), None)
            if ready is None:
                broken = pending[0][1]
                self.put(asm.alu("mov", T0, broken))
                pending = [(d, T0 if s == broken else s) for d, s in pending]
                continue
            self.put(asm.alu("mov", *ready))
            pending.remove(ready)

    def jump(self, op: Op, following: BasicBlock | None) -> None:
        assert op.then is not None
        if op.then is not following:
            self.put(asm.jump(self.label(op.then)))

    def branch(self, op: Op, following: BasicBlock | None) -> None:
        assert op.then is not None and op.other is not None
        a = self.register(op.args[0], T0)
        b = op.args[1]
        target = self.label(op.then)
        if isinstance(b, int) and fits_immediate(b):
            self.put(asm.branch(op.cond, a, None, b, target, op.bits))
            if not self.bounds and type(op.args[0]) is Reg and (home := self.home(op.args[0])) < 0:
                # The number is what it was, but now the verifier knows its bounds, and keeps them with what is stored.
                self.put(asm.store(FP, self.spill_offset(home), a, 8))
        else:
            self.put(asm.branch(op.cond, a, self.register(b, T1), 0, target, op.bits))
        if op.other is not following:
            self.put(asm.jump(self.label(op.other)))

    def exit(self, op: Op, following: BasicBlock | None) -> None:
        self.move(0, op.args[0])
        self.put(asm.exit_())


def emit_program(program: Program, v4: bool, bounds: bool, order: str = byteorder) -> tuple[list[Item], int]:
    """The instructions of the program, main function first, and the bytes of stack that it needs."""
    items: list[Item] = []
    depth = 0
    for function in program.functions:
        emitter = Emitter(function, v4, bounds, order)
        items += emitter.run()
        depth += emitter.frame
    return items, depth
