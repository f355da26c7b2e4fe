"""Compiled programs as Python functions: bytecode translated to Python, as the kernel's JIT compiler does it for a CPU.

A function of the program becomes a Python function whose registers are local variables, unsigned 64-bit numbers. Its
basic blocks are in order in a loop, each under ``if pc <= n:``, so that falling through costs nothing, a forward jump
sets ``pc``, and a backward one goes round the loop. Register contents known beforehand, constants and places on the
stack, make memory accesses short: most are to the stack, or to a map at a known address.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from struct import Struct as Layout
from sys import byteorder
from typing import Any

from ..asm.insn import (
    ALU,
    ALU64,
    ALU_NAMES,
    ATOMIC,
    JMP,
    JMP32,
    JMP_NAMES,
    JMP_SIGNS,
    LDX,
    MEMSX,
    PSEUDO_CALL,
    PSEUDO_FUNC,
    PSEUDO_KFUNC,
    SIZE_OF,
    STX,
    Insn,
    decode_program,
)
from ..base.record import Value
from ..base.words import INT_CODES, MASK, divide_toward_zero, to_signed

STACK, DEPTH = 512, 64  # bytes of a frame; nested frames
# Upper halves of addresses, where no pointer of a traced machine points: such addresses are not canonical.
FRAMES, HANDLES = 0x5A000000, 0x5B000000
GROUP = 16              # blocks that one test skips
_PLAIN = {"add": "+", "sub": "-", "mul": "*", "or": "|", "and": "&", "xor": "^"}

Function = Callable[..., int]
Known = dict[int, "int | StackAddress"]  # register -> the number in it there, or the address on the stack
# (helper, what is known about r1 to r5, the function for the buffer and offset of a known address)
Shorten = Callable[[int, "Sequence[int | StackAddress | None]", Callable[..., str]],
                   "tuple[str, dict[str, Any]] | None"]


class StackAddress(Value):
    """An address on the stack, in bytes above the lowest one."""

    at: int


class UntranslatableError(Exception):
    """The code does what only the kernel can do."""

    def __init__(self, slot: int, helper: int) -> None:
        super().__init__(slot, helper)
        self.slot, self.helper = slot, helper


class Frames:
    """The memory of programs: ``regions`` by the upper half of their addresses, the stacks of frames among them."""

    def __init__(self) -> None:
        self.regions: dict[int, bytearray] = {FRAMES + depth: bytearray(STACK) for depth in range(DEPTH)}
        self.stacks = [self.regions[FRAMES + depth] for depth in range(DEPTH)]
        self.depth = [0]


def _divide(a: int, b: int, bits: int) -> int:
    """The signed quotient; 0 where there is none."""
    a, b = to_signed(a, bits), to_signed(b, bits)
    return (0 if b == 0 else divide_toward_zero(a, b)) & (1 << bits) - 1


def _remainder(a: int, b: int, bits: int) -> int:
    a, b = to_signed(a, bits), to_signed(b, bits)
    return (a if b == 0 else (abs(a) % abs(b)) * (-1 if a < 0 else 1)) & (1 << bits) - 1


def _swap(value: int, size: int) -> int:
    return int.from_bytes((value & (1 << 8 * size) - 1).to_bytes(size, "little"), "big")


def translate(code: bytes, addresses: Mapping[int, int], helpers: Mapping[int, Function], frames: Frames,
              shorten: Shorten) -> dict[int, Function]:
    """The functions of a program, by the slot of their first instruction; the program's own is 0.

    ``addresses`` are what the slots that refer to maps load. A helper takes as many registers as its function has
    parameters, and returns a 64-bit number. ``shorten`` is asked what to write in place of a call, given what is known
    about its registers from r1 on: an expression, and the values of its names; or None. UntranslatableError for
    anything else.
    """
    insns = dict(decode_program(code))
    space: dict[str, Any] = {"regions": frames.regions, "stacks": frames.stacks, "depth": frames.depth,
                             "divide": _divide, "remainder": _remainder, "swap": _swap}
    for size in (1, 2, 4, 8):
        letter = INT_CODES[size, False]
        space[f"get{size}"], space[f"put{size}"] = Layout("=" + letter).unpack_from, Layout("=" + letter).pack_into
        space[f"gets{size}"] = Layout("=" + letter.lower()).unpack_from
    for number, helper in helpers.items():
        space[f"help{number}"] = helper
    for address in addresses.values():
        if address >> 32 in frames.regions:
            space[f"m{address >> 32}"] = frames.regions[address >> 32]
    writer = _PythonWriter(insns, addresses, helpers, shorten, space)
    entries, done = [0], 0
    while done < len(entries):
        source = writer.write(entries[done])
        exec(compile(source, f"<program+{entries[done]}>", "exec"), space)
        entries += [entry for entry in writer.new_entries if entry not in entries]
        done += 1
    return {entry: space[f"f{entry}"] for entry in entries}


class _PythonWriter:
    """Writes functions as Python; ``found`` are the first slots of all others that they call or reference."""

    def __init__(self, insns: Mapping[int, Insn], addresses: Mapping[int, int],
                 helpers: Mapping[int, Function], shorten: Shorten, space: dict[str, Any]) -> None:
        self._insns = insns
        self._shorten = shorten
        self._space = space
        self._known: dict[int, Known] = {}  # by slot: what registers hold before it
        self._addresses = addresses
        self._helpers = helpers
        self._blocks: dict[int, int] = {}  # first slot -> number
        self.new_entries: list[int] = []

    def write(self, entry: int) -> str:
        """The function that begins at a slot."""
        slots = self._reach(entry)
        starts = self._leaders(entry, slots)
        self._blocks = {slot: number for number, slot in enumerate(starts)}
        self._known = self._find_known(entry)
        lines = [f"def f{entry}(r1=0, r2=0, r3=0, r4=0, r5=0):", " d = depth[0]; depth[0] = d + 1",
                 f" stack = stacks[d]; r10 = ({FRAMES} + d << 32) + {STACK}",
                 f" pc = {self._blocks[entry]}", " while True:"]
        cuts = [bisect_left(slots, start) for start in starts] + [len(slots)]
        for number in range(len(starts)):
            if number % GROUP == 0:
                lines.append(f"  if pc <= {min(number + GROUP, len(starts)) - 1}:")
            lines.append(f"   if pc <= {number}:")
            own = slots[cuts[number]:cuts[number + 1]]
            lines += ["    " + line for slot in own for line in self._instruction(slot, number)]
            lines += self._go_on(own[-1], number)
        return "\n".join(lines)

    def _reach(self, entry: int) -> list[int]:
        """The slots of a function, in order."""
        reached: set[int] = set()
        pending = [entry]
        while pending:
            slot = pending.pop()
            if slot in reached:
                continue
            if slot not in self._insns:
                raise UntranslatableError(slot, 0)
            reached.add(slot)
            pending += self._following(slot)
        return sorted(reached)

    def _following(self, slot: int) -> list[int]:
        insn = self._insns[slot]
        after = slot + (2 if insn.wide else 1)
        if insn.code & 7 not in (JMP, JMP32) or insn.wide:
            return [after]
        name = JMP_NAMES[insn.code & 0xF0]
        if name == "exit":
            return []
        if name == "call":
            return [after]
        return [self._target(slot)] + ([] if name == "ja" else [after])

    def _target(self, slot: int) -> int:
        insn = self._insns[slot]
        return slot + 1 + (insn.imm if insn.code & 7 == JMP32 and JMP_NAMES[insn.code & 0xF0] == "ja" else insn.off)

    def _leaders(self, entry: int, slots: Sequence[int]) -> list[int]:
        leaders = {entry}
        before = -1
        for slot in slots:
            if before >= 0 and slot not in self._following(before)[-1:]:
                leaders.add(slot)
            insn = self._insns[slot]
            if insn.code & 7 in (JMP, JMP32) and not insn.wide and JMP_NAMES[insn.code & 0xF0] not in ("exit", "call"):
                leaders.update(self._following(slot))
            before = slot
        return sorted(leaders)

    def _go_on(self, last: int, number: int) -> list[str]:
        """Continue after a block that does not end with a jump, where the next slot is not the next block."""
        insn = self._insns[last]
        following = self._following(last)
        if not following or insn.code & 7 in (JMP, JMP32) and not insn.wide \
                and JMP_NAMES[insn.code & 0xF0] not in ("call",):
            return []
        return ["    " + line for line in self._jump_to(following[0], number)]

    def _jump_to(self, slot: int, number: int) -> list[str]:
        target = self._blocks[slot]
        if target == number + 1:
            return []
        return [f"pc = {target}"] + (["continue"] if target <= number else [])

    # what registers hold

    def _find_known(self, entry: int) -> dict[int, Known]:
        """What registers hold before each slot, on every path to it."""
        known: dict[int, Known] = {entry: {10: StackAddress(STACK)}}
        pending = [entry]
        while pending:
            slot = pending.pop()
            after = self._after(slot, known[slot])
            for following in self._following(slot):
                before = known.get(following)
                same = after if before is None else {r: v for r, v in before.items() if after.get(r) == v}
                if same != before:
                    known[following] = same
                    pending.append(following)
        return known

    def _after(self, slot: int, before: Known) -> Known:
        insn = self._insns[slot]
        kind, name = insn.code & 7, ALU_NAMES.get(insn.code & 0xF0, "")
        after = dict(before)
        if kind in (JMP, JMP32) and not insn.wide:
            for register in range(6) if JMP_NAMES[insn.code & 0xF0] == "call" else ():
                after.pop(register, None)
            return after
        if kind == STX and insn.code & 0xE0 == ATOMIC:
            after.pop(0 if insn.imm == 0xF1 else insn.src, None)
            return after
        if kind not in (ALU, ALU64, LDX) and not insn.wide:
            return after
        value = self._moved(slot, insn, before) if insn.wide or kind == ALU64 and name in ("mov", "add") else None
        after.pop(insn.dst, None)
        if value is not None:
            after[insn.dst] = value
        return after

    def _moved(self, slot: int, insn: Insn, before: Known) -> int | StackAddress | None:
        """What a register holds after a move or an addition."""
        if insn.wide:
            return self._wide(slot, insn)
        given: int | StackAddress | None = insn.imm & MASK
        if insn.code & 8:
            given = before.get(insn.src) if not insn.off else None
        if ALU_NAMES[insn.code & 0xF0] == "mov":
            return given
        old = before.get(insn.dst)
        if isinstance(old, StackAddress) and isinstance(given, int):
            at = to_signed(old.at + given, 64)
            return StackAddress(at) if 0 <= at <= STACK else None
        return old + given & MASK if isinstance(old, int) and isinstance(given, int) else None

    def buffer_and_offset(self, value: int | StackAddress | None, offset: int = 0) -> str:
        """The buffer and the offset, as arguments, of a known address; "" for any other."""
        if isinstance(value, StackAddress):
            return f"stack, {value.at + offset}" if 0 <= value.at + offset <= STACK else ""
        if value is None:
            return ""
        name = f"m{value + offset >> 32}"
        return f"{name}, {value + offset & 0xFFFFFFFF}" if name in self._space else ""

    # instructions

    def _instruction(self, slot: int, number: int) -> list[str]:
        insn = self._insns[slot]
        kind = insn.code & 7
        if insn.wide:
            return [f"r{insn.dst} = {self._wide(slot, insn)}"]
        if kind in (ALU, ALU64):
            return [_alu(insn, 64 if kind == ALU64 else 32)]
        if kind in (JMP, JMP32):
            return self._jump(slot, insn, number)
        return self._access(slot, insn)

    def _access(self, slot: int, insn: Insn) -> list[str]:
        kind, size = insn.code & 7, SIZE_OF[insn.code & 0x18]
        base = insn.src if kind == LDX else insn.dst
        location, before = self.buffer_and_offset(self._known[slot].get(base), insn.off), []
        if not location:  # beyond 64 bits there is no region, so the sum need not be truncated
            before = [f"a = r{base} + {insn.off}"] if insn.off else []
            address = "a" if insn.off else f"r{base}"
            location = f"regions[{address} >> 32], {address} & 4294967295"
        if kind == LDX:
            signed = insn.code & 0xE0 == MEMSX
            loaded = f"gets{size}({location})[0] & {MASK}" if signed else f"get{size}({location})[0]"
            return [*before, f"r{insn.dst} = {loaded}"]
        mask = (1 << 8 * size) - 1
        if kind == STX and insn.code & 0xE0 == ATOMIC:
            return [*before, f"old = get{size}({location})[0]", *_atomic(slot, insn, f"put{size}({location}, ", mask)]
        value = (f"r{insn.src}" if size == 8 else f"r{insn.src} & {mask}") if kind == STX else str(insn.imm & mask)
        return [*before, f"put{size}({location}, {value})"]

    def _wide(self, slot: int, insn: Insn) -> int:
        if insn.src == PSEUDO_FUNC:
            entry = slot + 1 + to_signed(insn.imm, 32)
            self.new_entries.append(entry)
            return entry
        if slot in self._addresses:
            return self._addresses[slot]
        if insn.src:
            raise UntranslatableError(slot, 0)
        return insn.imm & MASK

    def _jump(self, slot: int, insn: Insn, number: int) -> list[str]:
        name = JMP_NAMES[insn.code & 0xF0]
        if name == "exit":
            return ["depth[0] = d; return r0"]
        if name == "call":
            return [self._call(slot, insn)]
        if name == "ja":
            return self._jump_to(self._target(slot), number) or ["pass"]
        target, after = (self._blocks[each] for each in self._following(slot))
        back = "; continue" if target <= number else ""
        lines = [f"if {_condition(name, insn)}: pc = {target}{back}"]
        return lines if after == number + 1 else [*lines, f"else: pc = {after}{'; continue' * (after <= number)}"]

    def _call(self, slot: int, insn: Insn) -> str:
        if insn.src == PSEUDO_CALL:
            entry = slot + 1 + insn.imm
            self.new_entries.append(entry)
            return f"r0 = f{entry}(r1, r2, r3, r4, r5)"
        if insn.src == PSEUDO_KFUNC or insn.imm not in self._helpers:
            raise UntranslatableError(slot, insn.imm if insn.src != PSEUDO_KFUNC else -1)
        arguments = [self._known[slot].get(register) for register in range(1, 6)]
        short = self._shorten(insn.imm, arguments, self.buffer_and_offset)
        if short is not None:
            self._space.update(short[1])
            return f"r0 = {short[0]}"
        function = self._helpers[insn.imm]
        count = function.__code__.co_argcount - hasattr(function, "__self__")
        return f"r0 = help{insn.imm}({', '.join([f'r{n}' for n in range(1, count + 1)])})"


def _condition(name: str, insn: Insn) -> str:
    bits = 64 if insn.code & 7 == JMP else 32
    mask, half = (1 << bits) - 1, 1 << bits - 1
    left = f"r{insn.dst}" if bits == 64 else f"(r{insn.dst} & {mask})"
    right = (f"r{insn.src}" if bits == 64 else f"(r{insn.src} & {mask})") if insn.code & 8 else str(insn.imm & mask)
    if name == "jset":
        return f"{left} & {right}"
    sign = JMP_SIGNS[name]
    if sign[0] == "s":
        right = f"({right} ^ {half}) - {half}" if insn.code & 8 else str(insn.imm)
        return f"({left} ^ {half}) - {half} {sign[1:]} {right}"
    return f"{left} {sign} {right}"


def _alu(insn: Insn, bits: int) -> str:
    name, mask, into = ALU_NAMES[insn.code & 0xF0], (1 << bits) - 1, f"r{insn.dst}"
    if name == "end":
        swaps = bool(insn.code & 8) == (byteorder == "little") or bits == 64  # to the other order, or bswap
        return f"{into} = swap({into}, {insn.imm // 8})" if swaps else f"{into} &= {(1 << insn.imm) - 1}"
    a = into if bits == 64 else f"({into} & {mask})"
    b = (f"r{insn.src}" if bits == 64 else f"(r{insn.src} & {mask})") if insn.code & 8 else str(insn.imm & mask)
    if name == "mov":
        if insn.off:
            half = 1 << insn.off - 1
            b = f"((r{insn.src} & {(1 << insn.off) - 1} ^ {half}) - {half} & {mask})"
        return f"{into} = {b}"
    if name == "neg":
        return f"{into} = -{a} & {mask}"
    if name in _PLAIN:
        return f"{into} = {a} {_PLAIN[name]} {b}" if name in ("or", "and", "xor") \
            else f"{into} = ({a} {_PLAIN[name]} {b}) & {mask}"
    if name in ("div", "mod") and insn.off == 1:
        return f"{into} = {'divide' if name == 'div' else 'remainder'}({a}, {b}, {bits})"
    if name == "div":
        return f"{into} = {a} // {b} if {b} else 0"
    if name == "mod":
        return f"{into} = {a} % {b} if {b} else {a}"
    count = f"({b} & {bits - 1})"
    if name == "lsh":
        return f"{into} = {a} << {count} & {mask}"
    half = 1 << bits - 1
    return f"{into} = {a} >> {count}" if name == "rsh" else f"{into} = (({a} ^ {half}) - {half} >> {count}) & {mask}"


def _atomic(slot: int, insn: Insn, put: str, mask: int) -> list[str]:
    """Write an atomic operation: ``old`` has been read; ``put`` begins the write."""
    given = f"r{insn.src}"
    if insn.imm == 0xF1:
        return [f"if old == r0 & {mask}: {put}{given} & {mask})", "r0 = old"]
    if insn.imm not in (0, 1, 0xE1):
        raise UntranslatableError(slot, 0)
    new = f"{given} & {mask}" if insn.imm == 0xE1 else f"old + {given} & {mask}"
    return [f"{put}{new})"] + ([f"{given} = old"] if insn.imm & 1 else [])
