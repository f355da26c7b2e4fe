"""Writes IR: appends operations to the current block of a function."""

from __future__ import annotations

from ..source import Span
from . import helpers as h
from .ir import Base, BasicBlock, BpfFunction, MapAddr, Op, Operand, Reg, Slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Builder:
    """A cursor in a function. Every operation takes the current ``span``."""

    def __init__(self, function: BpfFunction) -> None:
        self.function = function
        self.span: Span | None = None
        self.current = function.block("entry")
        function.blocks.append(self.current)
        self._free: dict[int, list[Slot]] = {}

    # blocks

    def block(self, name: str = "", cold: bool = False) -> BasicBlock:
        """A new block; :meth:`start` places it."""
        return self.function.block(name, cold)

    def start(self, block: BasicBlock) -> None:
        """Continue in ``block``; falls into it if the current block is open."""
        if not self.closed:
            self.jump(block)
        self.function.blocks.append(block)
        self.current = block

    @property
    def closed(self) -> bool:
        """The current block already ends in a jump, branch or exit."""
        ops = self.current.ops
        return bool(ops) and ops[-1].kind in ("jump", "branch", "exit")

    # operations

    def emit(self, op: Op) -> Reg | None:
        """Append; what follows a terminator is unreachable and goes to a block of its own."""
        if self.closed:
            dead = self.function.block("dead", cold=True)
            self.function.blocks.append(dead)
            self.current = dead
        op.span = self.span
        if op.dst is not None:
            op.dst.defs += 1
        self.current.ops.append(op)
        return op.dst

    def _new(self, kind: str, args: list[Operand], name: str = "", **more: Any) -> Reg:
        dst = self.function.reg(name)
        self.emit(Op(kind, dst, args, **more))
        return dst

    def mov(self, value: Operand, name: str = "") -> Reg:
        return self._new("mov", [value], name)

    def set(self, reg: Reg, value: Operand) -> None:
        """Another definition of ``reg``."""
        self.emit(Op("mov", reg, [value]))

    def alu(self, op: str, a: Operand, b: Operand, bits: int = 64) -> Reg:
        return self._new(op, [a, b], bits=bits)

    def at_most(self, value: Reg, most: Operand) -> Reg:
        """The smaller of two unsigned numbers, so that the verifier knows that it is not above ``most``."""
        result, less, on = self.function.reg("bounded"), self.block("less"), self.block("on")
        self.set(result, most)
        self.branch("jlt", value, most, less, on)
        self.start(less)
        self.set(result, value)
        self.start(on)
        return result

    def neg(self, a: Operand) -> Reg:
        return self._new("neg", [a])

    def swap(self, a: Operand, bits: int) -> Reg:
        return self._new("swap", [a], bits=bits)

    def extend(self, a: Operand, bits: int, signed: bool) -> Reg:
        return self._new("sext" if signed else "zext", [a], bits=bits)

    def load(self, base: Operand, off: int, size: int = 8, signed: bool = False, pure: bool = False) -> Reg:
        return self._new("load", [base], off=off, size=size, signed=signed, pure=pure)

    def store(self, base: Operand, off: int, value: Operand, size: int = 8) -> None:
        self.emit(Op("store", None, [base, value], off=off, size=size))

    def atomic_add(self, base: Operand, off: int, value: Operand, size: int = 8) -> None:
        self.emit(Op("atomic_add", None, [base, value], off=off, size=size))

    def xchg(self, base: Operand, off: int, value: Operand, size: int = 8) -> Reg:
        return self._new("xchg", [base, value], off=off, size=size)

    def fetch_add(self, base: Operand, off: int, value: Operand, size: int = 8) -> Reg:
        return self._new("fetch_add", [base, value], off=off, size=size)

    def compare_exchange(self, address: Operand, expected: Operand, value: Operand) -> Reg:
        """If the 64 bits of memory are ``expected`` they become ``value``; returns what they were."""
        return self._new("cmpxchg", [address, expected, value])

    def address(self, base: Base, off: int = 0) -> Reg:
        """The address of memory as a register."""
        if isinstance(base, Reg):
            return self.alu("add", base, off) if off else base
        return self._new("addr", [base], off=off)

    def call(self, helper: int, args: list[Operand], name: str = "", pure: bool = False) -> Reg:
        return self._new("call", args, imm=helper, label=name, pure=pure)

    def cpu_number(self) -> Reg:
        return self.call(h.CPU_ID, [], "cpu", pure=True)

    def region_number(self, regions: int) -> Reg:
        """This CPU's number, below ``regions``, a power of two (unit.region_count). The mask tells the verifier so; of
        a number that was compared and lies in the frame, it knows no bounds before Linux 6.8."""
        return self.alu("and", self.cpu_number(), regions - 1)

    def obscure_number(self, value: Operand, zero: MapAddr, mask: int) -> Reg:
        """The same value, of which the verifier knows only that it is within ``mask``: it then verifies what follows
        once, not once per value. ``zero`` is a word that is always 0, which the verifier does not know."""
        return self.alu("and", self.alu("add", value, self.load(zero, 0)), mask)

    def kfunc(self, btf_id: int, args: list[Operand], name: str = "", pure: bool = False) -> Reg:
        return self._new("kfunc", args, imm=btf_id, label=name, pure=pure)

    def function_call(self, label: str, args: list[Operand]) -> Reg:
        return self._new("function", args, label=label)

    def callback(self, label: str) -> Reg:
        return self._new("func", [], label=label)

    def barrier(self, value: Reg) -> None:
        self.emit(Op("barrier", None, [value]))

    def jump(self, to: BasicBlock) -> None:
        self.emit(Op("jump", then=to))

    def branch(self, cond: str, a: Operand, b: Operand, then: BasicBlock, other: BasicBlock, bits: int = 64) -> None:
        self.emit(Op("branch", None, [a, b], cond=cond, then=then, other=other, bits=bits))

    def exit(self, value: Operand = 0) -> None:
        self.emit(Op("exit", None, [value]))

    # memory

    def slot(self, size: int, name: str = "") -> Slot:
        """Frame memory, 8-byte aligned; a released slot of the same size is used again."""
        size = (size + 7) // 8 * 8
        free = self._free.get(size)
        if free:
            return free.pop()
        return self.function.slot(size, name)

    def release(self, slot: Slot) -> None:
        """Nothing refers to ``slot``'s contents any more."""
        self._free.setdefault(slot.size, []).append(slot)

    def zero(self, base: Operand, off: int, size: int) -> None:
        """Clear ``size`` bytes with the widest aligned stores."""
        end = off + size
        while off < end:
            width = 8
            while off % width or off + width > end:
                width //= 2
            self.store(base, off, 0, width)
            off += width
