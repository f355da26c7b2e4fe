"""An eBPF interpreter that is stricter than the kernel: what generated code does is seen without root.

Every piece of memory (a frame's stack, a map value, a ring buffer record, an object of the traced kernel) is a
``Region`` at an address of its own, 4 GiB apart, so that an access outside of it is noticed. A register or a byte of
stack that was never written, memory of a map element that was replaced or removed, an unaligned stack access and a
record that is reserved but never submitted are errors too, although a verifier might let some of them pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from sonde.asm.insn import (
    ALU,
    ALU64,
    ALU_NAMES,
    ATOMIC,
    JMP,
    JMP32,
    JMP_NAMES,
    LDX,
    MEMSX,
    PSEUDO_CALL,
    PSEUDO_FUNC,
    PSEUDO_KFUNC,
    SIZE_OF,
    ST,
    STX,
    Insn,
    decode_program,
)

MASK = (1 << 64) - 1
STACK_SIZE = 512
POISON = 0xA5


class IllegalProgramError(AssertionError):
    """The program did what no program may do."""


class Region:
    """Bytes at ``base``. ``known`` has one flag for each byte that was written, where that is watched."""

    def __init__(self, base: int, data: bytearray, name: str, watched: bool = False, writable: bool = True) -> None:
        self.base, self.data, self.name, self.writable = base, data, name, writable
        self.known = bytearray(len(data)) if watched else None
        self.dead = ""


class Memory:
    """All regions. Addresses of the kernel have the upper half of the address space, those of user space the lower.
    ``order`` is that of the bytes of numbers, and of instructions."""

    def __init__(self, order: Literal["little", "big"] = "little") -> None:
        self.order = order
        self._regions: dict[int, Region] = {}
        self._next = 1
        self.typed: set[int] = set()  # pointers that the verifier knows: loading through a bad one gives 0

    def add(self, data: bytes | bytearray | int, name: str, user: bool = False, watched: bool = False,
            writable: bool = True) -> Region:
        """A new region with these bytes, or so many poisoned ones."""
        content = bytearray([POISON]) * data if isinstance(data, int) else bytearray(data)
        base = (0x0000_1000 if user else 0xFFFF_8000) << 32 | 0
        base += self._next << 32
        self._next += 1
        region = self._regions[base >> 32] = Region(base, content, name, watched, writable)
        return region

    def find(self, address: int, size: int) -> tuple[Region, int]:
        """The region around ``size`` bytes at ``address``, and where in it they are."""
        region = self._regions.get(address >> 32)
        if region is None:
            raise IllegalProgramError(f"access to {address:#x}, where nothing is")
        at = address - region.base
        if region.dead:
            raise IllegalProgramError(f"access to {region.name}, {region.dead}")
        if at + size > len(region.data):
            raise IllegalProgramError(f"access to {region.name}+{at}, {size} bytes of {len(region.data)}")
        return region, at

    def faults(self, address: int) -> bool:
        """Whether a load from a kernel object finds nothing there (BPF_PROBE_MEM: the kernel's exception table)."""
        return address >> 32 not in self._regions and any(0 <= address - p < 1 << 16 for p in self.typed)

    def read(self, address: int, size: int) -> bytes:
        region, at = self.find(address, size)
        if region.known is not None and region.known.count(0, at, at + size):
            raise IllegalProgramError(f"{region.name}+{at}: {size} bytes were never written")
        return bytes(region.data[at:at + size])

    def write(self, address: int, data: bytes) -> None:
        region, at = self.find(address, len(data))
        if not region.writable:
            raise IllegalProgramError(f"write to {region.name}, which is read-only")
        region.data[at:at + len(data)] = data
        if region.known is not None:
            region.known[at:at + len(data)] = b"\1" * len(data)

    def text(self, address: int, most: int) -> bytes:
        """Bytes up to the NUL (exclusive) or the end of the region, at most so many."""
        region, at = self.find(address, 0)
        return bytes(region.data[at:at + most]).split(b"\0")[0]


def to_signed(value: int, bits: int = 64) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def compute(op: str, a: int, b: int, bits: int, off: int = 0) -> int:
    """An ALU operation on unsigned numbers of ``bits``, by the instruction set document's words."""
    mask = (1 << bits) - 1
    a, b = a & mask, b & mask
    if op in ("div", "mod") and off == 1:
        sa, sb = to_signed(a, bits), to_signed(b, bits)
        quotient = 0 if sb == 0 else abs(sa) // abs(sb) * (1 if (sa < 0) == (sb < 0) else -1)
        return (quotient if op == "div" else sa if sb == 0 else sa - quotient * sb) & mask
    results: dict[str, Callable[[], int]] = {
        "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "div": lambda: a // b if b else 0,
        "mod": lambda: a % b if b else a, "or": lambda: a | b, "and": lambda: a & b, "xor": lambda: a ^ b,
        "lsh": lambda: a << (b & (bits - 1)), "rsh": lambda: a >> (b & (bits - 1)),
        "arsh": lambda: to_signed(a, bits) >> (b & (bits - 1)), "neg": lambda: -a,
        "mov": lambda: to_signed(b, off) if off else b,
    }
    return results[op]() & mask


def holds(op: str, a: int, b: int, bits: int) -> bool:
    """A jump's condition."""
    mask = (1 << bits) - 1
    a, b = a & mask, b & mask
    sa, sb = to_signed(a, bits), to_signed(b, bits)
    return {"jeq": a == b, "jne": a != b, "jgt": a > b, "jge": a >= b, "jlt": a < b, "jle": a <= b,
            "jset": bool(a & b), "jsgt": sa > sb, "jsge": sa >= sb, "jslt": sa < sb, "jsle": sa <= sb}[op]


class Machine:
    """Runs one program's code. ``helpers`` maps a helper's number to a function of the machine and as many
    registers, from r1 on, as it has parameters, ``kfuncs`` the same by BTF id, ``relocations`` a slot to an address.
    ``between`` is called before each instruction with the number of those before it."""

    def __init__(self, code: bytes, relocations: dict[int, int], memory: Memory,
                 helpers: dict[int, Callable[..., int]], kfuncs: dict[int, Callable[..., int]],
                 limit: int = 2_000_000, between: Callable[[int], object] = lambda steps: None) -> None:
        self.insns: dict[int, Insn] = dict(decode_program(code, memory.order))
        self.relocations, self.memory, self.helpers, self.kfuncs = relocations, memory, helpers, kfuncs
        self.left = limit
        self.between = between
        self.steps = 0

    def run(self, *params: int, start: int = 0) -> int:
        """Run the function that begins at slot ``start``; its r0."""
        return self._function([p & MASK for p in params], start)

    def _function(self, params: Sequence[int | None], start: int) -> int:
        stack = self.memory.add(STACK_SIZE, "stack", watched=True)
        regs: list[int | None] = [None] * 11
        regs[1:1 + len(params)] = params
        regs[10] = stack.base + STACK_SIZE
        at = start
        while True:
            self.between(self.steps)
            self.steps += 1
            if self.steps > self.left:
                raise IllegalProgramError("the program does not end")
            insn = self.insns.get(at)
            if insn is None:
                raise IllegalProgramError(f"slot {at} is no instruction")
            following = self._step(insn, at, regs)
            if following < 0:
                stack.dead = "whose function has returned"
                return self._get(regs, 0, at)
            at = following

    def _get(self, regs: list[int | None], number: int, at: int) -> int:
        value = regs[number]
        if value is None:
            raise IllegalProgramError(f"slot {at}: r{number} was never written")
        return value

    def _step(self, insn: Insn, at: int, regs: list[int | None]) -> int:
        """Execute one instruction; the slot of the next, -1 after exit."""
        kind = insn.code & 7
        following = at + (2 if insn.wide else 1)
        if insn.wide:
            if insn.src == PSEUDO_FUNC:
                regs[insn.dst] = at + to_signed(insn.imm, 32) + 1
            elif at in self.relocations:
                regs[insn.dst] = self.relocations[at]
            elif insn.src:
                raise IllegalProgramError(f"slot {at}: a map without relocation")
            else:
                regs[insn.dst] = insn.imm & MASK
        elif kind in (ALU, ALU64):
            self._alu(insn, at, regs, 64 if kind == ALU64 else 32)
        elif kind in (JMP, JMP32):
            return self._jump(insn, at, regs, following)
        else:
            self._access(insn, at, regs, kind)
        if kind in (ALU, ALU64, LDX) and insn.dst == 10 and not insn.wide:
            raise IllegalProgramError(f"slot {at}: r10 is read-only")
        return following

    def _alu(self, insn: Insn, at: int, regs: list[int | None], bits: int) -> None:
        name = ALU_NAMES[insn.code & 0xF0]
        if name == "end":
            value = self._get(regs, insn.dst, at) & ((1 << insn.imm) - 1)
            swap = bool(insn.code & 8) == (self.memory.order == "little") or bits == 64  # to the other order, or bswap
            order = value.to_bytes(insn.imm // 8, "little")
            regs[insn.dst] = int.from_bytes(order, "big" if swap else "little")
            return
        b = self._get(regs, insn.src, at) if insn.code & 8 else insn.imm
        a = 0 if name == "mov" else self._get(regs, insn.dst, at)
        if not insn.code & 8 and name in ("lsh", "rsh", "arsh") and not 0 <= insn.imm < bits:
            raise IllegalProgramError(f"slot {at}: shift by {insn.imm}")  # the verifier's "invalid shift"
        if not insn.code & 8 and name in ("div", "mod") and insn.imm == 0:
            raise IllegalProgramError(f"slot {at}: division by constant zero")  # the verifier refuses it
        regs[insn.dst] = compute(name, a, b, bits, insn.off)

    def _jump(self, insn: Insn, at: int, regs: list[int | None], following: int) -> int:
        name = JMP_NAMES[insn.code & 0xF0]
        if name == "exit":
            return -1
        if name == "ja":
            return following + (insn.imm if insn.code & 7 == JMP32 else insn.off)
        if name == "call":
            self._call(insn, at, regs)
            return following
        bits = 64 if insn.code & 7 == JMP else 32
        b = self._get(regs, insn.src, at) if insn.code & 8 else insn.imm
        return following + insn.off if holds(name, self._get(regs, insn.dst, at), b, bits) else following

    def _call(self, insn: Insn, at: int, regs: list[int | None]) -> None:
        if insn.src == PSEUDO_CALL:
            regs[0] = self._function(regs[1:6], at + 1 + insn.imm)
            regs[1:6] = [None] * 5
            return
        table = self.kfuncs if insn.src == PSEUDO_KFUNC else self.helpers
        function = table.get(insn.imm)
        if function is None:
            raise IllegalProgramError(f"slot {at}: no {'kfunc' if insn.src else 'helper'} {insn.imm} here")
        count = function.__code__.co_argcount - 1
        result = function(self, *[self._get(regs, n, at) for n in range(1, count + 1)])
        regs[0] = result & MASK
        regs[1:6] = [None] * 5

    def _access(self, insn: Insn, at: int, regs: list[int | None], kind: int) -> None:
        size = SIZE_OF[insn.code & 0x18]
        address = self._get(regs, insn.src if kind == LDX else insn.dst, at) + insn.off & MASK
        if kind == LDX and self.memory.faults(address):
            self.memory.typed.add(0)
            regs[insn.dst] = 0
            return
        region, offset = self.memory.find(address, size)
        if region.name == "stack" and offset % size:
            raise IllegalProgramError(f"slot {at}: unaligned access to the stack")
        if kind == LDX:
            value = int.from_bytes(self.memory.read(address, size), self.memory.order)
            regs[insn.dst] = to_signed(value, size * 8) & MASK if insn.code & 0xE0 == MEMSX else value
            if size == 8 and region.base in self.memory.typed:
                self.memory.typed.add(value)  # what a kernel object points to
        elif kind == STX and insn.code & 0xE0 == ATOMIC:
            self._atomic(insn, at, regs, address, size)
        elif kind in (ST, STX):
            value = self._get(regs, insn.src, at) if kind == STX else insn.imm
            self.memory.write(address, (value & ((1 << size * 8) - 1)).to_bytes(size, self.memory.order))
        else:
            raise IllegalProgramError(f"slot {at}: unknown instruction {insn.code:#x}")

    def _atomic(self, insn: Insn, at: int, regs: list[int | None], address: int, size: int) -> None:
        if size not in (4, 8) or address % size:
            raise IllegalProgramError(f"slot {at}: bad atomic operation")
        old = int.from_bytes(self.memory.read(address, size), self.memory.order)
        given = self._get(regs, insn.src, at)
        if insn.imm == 0xF1:
            if old == self._get(regs, 0, at):
                self.memory.write(address, given.to_bytes(size, self.memory.order))
            regs[0] = old
            return
        new = {0: old + given, 1: old + given, 0xE1: given}[insn.imm] & ((1 << size * 8) - 1)
        self.memory.write(address, new.to_bytes(size, self.memory.order))
        if insn.imm & 1:
            regs[insn.src] = old


def words(values: list[int], order: Literal["little", "big"] = "little") -> bytes:
    """u64s as bytes: a raw tracepoint's context."""
    return b"".join((v & MASK).to_bytes(8, order) for v in values)


__all__ = ["MASK", "Machine", "IllegalProgramError", "Memory", "Region", "compute", "holds", "to_signed", "words"]
