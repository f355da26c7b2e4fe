"""Classic BPF as IR: what libpcap makes of a filter.

The instructions are those of the BSD Packet Filter (McCanne and Jacobson, 1993), as Documentation/networking/filter.rst
of the kernel lists them: an accumulator A, an index X, sixteen words of memory, all of 32 bits without a sign. A load
from outside of the packet ends the filter, and so does a division by 0: it does not match. libpcap jumps back where it
follows the headers of IPv6 (``protochain``), and then the rounds are counted.
"""

from __future__ import annotations

from ...base.record import Record
from ..ir import BasicBlock, Operand, Reg
from .core import Lower

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

Instruction: TypeAlias = tuple[int, int, int, int]  # code, jump if true, jump if false, k

_LD, _LDX, _ST, _STX, _ALU, _JMP, _RET, _MISC = range(8)
_SIZES = {0x00: 4, 0x08: 2, 0x10: 1}
_IMMEDIATE, _ABSOLUTE, _INDIRECT, _MEMORY, _LENGTH, _HEADER_LENGTH = range(0x00, 0xC0, 0x20)
_OPERATIONS = {0x00: "add", 0x10: "sub", 0x20: "mul", 0x30: "div", 0x40: "or", 0x50: "and", 0x60: "lsh", 0x70: "rsh",
               0x90: "mod", 0xA0: "xor"}
_NEGATE = 0x80
_TESTS = {0x10: "jeq", 0x20: "jgt", 0x30: "jge", 0x40: "jset"}
_BY_INDEX = 8        # the second operand is X, not k
_RETURN_A = 0x10
_TO_A = 0x80         # A = X; else X = A
_BACK = 1 << 31      # k of a jump from here on is negative
_EXTENSIONS = range(0xFFFFF000, 0xFFFFF040)  # loads from there are of what the kernel knows besides (SKF_AD_OFF)
MOST_ROUNDS = 16     # headers of IPv6 that a filter follows: the verifier looks at each


def uses_extensions(program: list[Instruction]) -> bool:
    """Whether a filter asks for what is not in the packet: in which direction it goes, say."""
    return any(code & 0xE7 == _ABSOLUTE and k in _EXTENSIONS for code, _, _, k in program)


def asks_length(program: list[Instruction]) -> bool:
    """Whether a filter asks how long the packet is."""
    return any(code & 7 in (_LD, _LDX) and code & 0xE0 == _LENGTH for code, _, _, _ in program)


def fixed_loads(program: list[Instruction]) -> list[tuple[int, int]]:
    """The offset and size of each load from a fixed place of the packet."""
    return [(k, _SIZES[code & 0x18]) for code, _, _, k in program
            if code & 7 in (_LD, _LDX) and code & 0xE0 in (_ABSOLUTE, _HEADER_LENGTH)]


class PacketLoads(Record):
    """How a filter reads the packet: ``load(offset, size, outside)`` gives a number in network order from an offset, a
    constant or in a register, or goes to ``outside``; ``length()`` the length of the packet."""

    load: Callable[[Operand, int, BasicBlock], Reg]
    length: Callable[[], Operand]


def branch_on_classic(lo: Lower, program: list[Instruction], packet: PacketLoads, yes: BasicBlock, no: BasicBlock,
                      endless: BasicBlock) -> None:
    """Run a filter in the current block, and branch on its verdict; to ``endless`` after too many rounds."""
    _Filter(lo, program, packet, yes, no, endless).translate()


def _signed(k: int) -> int:
    """The same 32 bits as an immediate value of the instructions."""
    return k - (1 << 32) if k >> 31 else k


class _Filter:
    """One filter on its way into IR."""

    def __init__(self, lo: Lower, program: list[Instruction], packet: PacketLoads, yes: BasicBlock, no: BasicBlock,
                 endless: BasicBlock) -> None:
        self.lo, self.program, self.packet = lo, program, packet
        self.yes, self.no, self.endless = yes, no, endless
        function = lo.b.function
        self.a, self.x, self.rounds = function.reg("a"), function.reg("x"), function.reg("rounds")
        self.words: dict[int, Reg] = {}
        self.blocks = {target: function.block(f"pcap{target}") for at, each in enumerate(program)
                       if each[0] & 7 == _JMP for target in self._targets(at)}

    def _targets(self, at: int) -> list[int]:
        code, when, otherwise, k = self.program[at]
        if not code & 0xF0:
            return [at + 1 + (k - (1 << 32) if k >= _BACK else k)]
        return [at + 1 + when, at + 1 + otherwise]

    def translate(self) -> None:
        b = self.lo.b
        for register in (self.a, self.x):
            b.set(register, 0)
        if any(each[0] == _JMP and each[3] >= _BACK for each in self.program):
            b.set(self.rounds, 0)
        for word in sorted({each[3] for each in self.program if each[0] & 7 in (_ST, _STX)
                            or each[0] & 7 in (_LD, _LDX) and each[0] & 0xE0 == _MEMORY}):
            self.words[word] = b.function.reg("m")
            b.set(self.words[word], 0)
        for at, (code, _, _, k) in enumerate(self.program):
            if at in self.blocks:
                b.start(self.blocks[at])
            if b.closed:
                continue  # nothing leads here
            self._translate_one(at, code, k)

    def _translate_one(self, at: int, code: int, k: int) -> None:
        b, kind = self.lo.b, code & 7
        if kind in (_LD, _LDX):
            self._load(code, k)
        elif kind in (_ST, _STX):
            b.set(self.words[k], self.a if kind == _ST else self.x)
        elif kind == _ALU:
            self._compute(code & 0xF0, self.x if code & _BY_INDEX else k)
        elif kind == _JMP:
            self._jump(at, code, k)
        elif kind == _RET:
            self._return(code, k)
        elif code & 0xF8 == _TO_A:
            b.set(self.a, self.x)
        else:
            b.set(self.x, self.a)

    def _load(self, code: int, k: int) -> None:
        b, mode = self.lo.b, code & 0xE0
        size = _SIZES[code & 0x18]
        if mode == _ABSOLUTE:
            value: Operand = self.packet.load(k, size, self.no)
        elif mode == _INDIRECT:
            value = self.packet.load(b.alu("add", self.x, k) if k else self.x, size, self.no)
        elif mode == _HEADER_LENGTH:
            value = b.alu("lsh", b.alu("and", self.packet.load(k, 1, self.no), 15), 2)
        elif mode == _MEMORY:
            value = self.words[k]
        else:
            value = self.packet.length() if mode == _LENGTH else k
        b.set(self.a if code & 7 == _LD else self.x, value)

    def _compute(self, operation: int, second: Operand) -> None:
        b = self.lo.b
        if operation == _NEGATE:
            b.set(self.a, b.alu("sub", 0, self.a, 32))
            return
        name = _OPERATIONS[operation]
        if name in ("div", "mod"):
            self._end_on_zero(second)
        if name in ("lsh", "rsh") and isinstance(second, Reg):
            self._shift_by_index(name)
            return
        b.set(self.a, b.alu(name, self.a, _signed(second) if isinstance(second, int) else second, 32))

    def _end_on_zero(self, divisor: Operand) -> None:
        b, on = self.lo.b, self.lo.b.block("divide")
        if isinstance(divisor, int):
            return  # libpcap refuses a division by a literal 0
        b.branch("jeq", divisor, 0, self.no, on)
        b.start(on)

    def _shift_by_index(self, name: str) -> None:
        """A shift by 32 bits or more leaves 0."""
        b = self.lo.b
        shift, clear, on = b.block("shift"), b.block("clear"), b.block("shifted")
        b.branch("jlt", self.x, 32, shift, clear)
        b.start(shift)
        b.set(self.a, b.alu(name, self.a, self.x, 32))
        b.jump(on)
        b.start(clear)
        b.set(self.a, 0)
        b.start(on)

    def _jump(self, at: int, code: int, k: int) -> None:
        b, targets = self.lo.b, [self.blocks[target] for target in self._targets(at)]
        if len(targets) == 2:
            second = self.x if code & _BY_INDEX else _signed(k)
            b.branch(_TESTS[code & 0xF0], self.a, second, targets[0], targets[1], 32)
            return
        if k >= _BACK:
            again = b.block("again")
            b.set(self.rounds, b.alu("add", self.rounds, 1))
            b.branch("jlt", self.rounds, MOST_ROUNDS, again, self.endless)
            b.start(again)
        b.jump(targets[0])

    def _return(self, code: int, k: int) -> None:
        if code & 0x18 == _RETURN_A:
            self.lo.b.branch("jne", self.a, 0, self.yes, self.no)
        else:
            self.lo.b.jump(self.yes if k else self.no)
