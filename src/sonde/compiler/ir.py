"""The intermediate representation: functions of basic blocks over virtual registers.

A register is 64 bits. Most have one definition; script variables and loop counters have several. Memory is
explicit: a ``Slot`` is a piece of the frame (or of scratch memory, once placed), any other memory is reached
through an address in a register or a ``MapAddr``. Control flow is only in the last operation of a block.

=============  =====================================  =======================================================
kind           args                                   meaning
=============  =====================================  =======================================================
mov            value                                  dst = value
add sub ...    a, b                                   dst = a op b; ``bits`` 32 or 64 (sdiv, smod: 64 only)
neg            a                                      dst = -a
swap           a                                      dst = byte swap of the low ``bits``
sext zext      a                                      dst = a's low ``bits``, sign- or zero-extended
load           base                                   dst = *(base + off), ``size`` bytes, zero- or sign-extended
store          base, value                            *(base + off) = value
atomic_add     base, value                            lock *(base + off) += value
xchg fetch_add base, value                            dst = what was there, exchanged for value or added to
addr           slot or map address                    dst = its address + off
call           up to five                             dst = helper ``imm``
kfunc          up to five                             dst = kernel function with BTF id ``imm``
function       up to five                             dst = function ``label`` of this program
cmpxchg        address, expected, value               dst = what was there; value is there now if that was expected
func           -                                      dst = address of callback ``label``
barrier        value                                  keeps value's register as it is: nothing is known of it
jump           -                                      to ``then``
branch         a, b                                   if a ``cond`` b to ``then`` else to ``other``; ``bits``
exit           value                                  leave the function
=============  =====================================  =======================================================
"""

from __future__ import annotations

from ..source import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ALU = frozenset("add sub mul div sdiv mod smod and or xor lsh rsh arsh".split())
COMMUTATIVE = frozenset("add mul and or xor".split())
TERMINATORS = frozenset(("jump", "branch", "exit"))
FUNCTIONS = frozenset(("func", "function"))  # those that name a function of the program
MEMORY = frozenset(("load", "store", "atomic_add", "xchg", "fetch_add"))
CALLS = frozenset(("call", "kfunc", "function", "cmpxchg"))  # they take r1 to r5, and leave their result in r0
EFFECTS = frozenset(("store", "atomic_add", "xchg", "fetch_add", "barrier")) | CALLS | TERMINATORS
CONDITIONS = frozenset("jeq jne jgt jge jlt jle jsgt jsge jslt jsle jset".split())
NEGATED = {"jeq": "jne", "jne": "jeq", "jgt": "jle", "jle": "jgt", "jge": "jlt", "jlt": "jge",
           "jsgt": "jsle", "jsle": "jsgt", "jsge": "jslt", "jslt": "jsge"}
SWAPPED = {"jeq": "jeq", "jne": "jne", "jgt": "jlt", "jlt": "jgt", "jge": "jle", "jle": "jge",
           "jsgt": "jslt", "jslt": "jsgt", "jsge": "jsle", "jsle": "jsge", "jset": "jset"}


class Reg:
    """A virtual register; ``defs`` counts its definitions."""

    __slots__ = ("id", "name", "defs")

    def __init__(self, id: int, name: str = "") -> None:
        self.id, self.name, self.defs = id, name, 0

    def __repr__(self) -> str:
        return f"%{self.name}{self.id}"


class Slot:
    """Frame memory of ``size`` bytes; ``scratch`` once it is placed in the program's scratch memory, at ``offset``.
    A ``pinned`` one stays in the frame: it holds pointers, or the kernel wants it to be there."""

    __slots__ = ("id", "size", "name", "scratch", "offset", "function", "pinned")

    def __init__(self, id: int, size: int, name: str = "", scratch: bool = False) -> None:
        self.id, self.size, self.name, self.scratch, self.offset = id, size, name, scratch, 0
        self.function: Any = None
        self.pinned = False

    def __repr__(self) -> str:
        return f"{'scratch' if self.scratch else 'slot'}.{self.name}{self.id}[{self.size}]"


class SlotAt:
    """An address within a slot, as an operand of a call."""

    __slots__ = ("slot", "off")

    def __init__(self, slot: Slot, off: int = 0) -> None:
        self.slot, self.off = slot, off

    def __repr__(self) -> str:
        return f"&{self.slot}+{self.off}" if self.off else f"&{self.slot}"


class MapFd:
    """A map, as an operand of a call."""

    __slots__ = ("map",)

    def __init__(self, map: str) -> None:
        self.map = map

    def __repr__(self) -> str:
        return f"map {self.map}"


class MapAddr:
    """Address of byte ``off`` of an array map's element 0."""

    __slots__ = ("map", "off")

    def __init__(self, map: str, off: int = 0) -> None:
        self.map, self.off = map, off

    def __repr__(self) -> str:
        return f"{self.map}[{self.off}]"


Base = Reg | Slot | MapAddr  # what memory is addressed from
Operand = Base | int | SlotAt | MapFd


class Op:
    """One operation; the fields that a kind does not use keep their defaults."""

    __slots__ = ("kind", "dst", "args", "off", "size", "bits", "imm", "cond", "then", "other", "label", "signed",
                 "pure", "span")

    def __init__(self, kind: str, dst: Reg | None = None, args: list[Operand] | None = None, off: int = 0,
                 size: int = 8, bits: int = 64, imm: int = 0, cond: str = "", then: BasicBlock | None = None,
                 other: BasicBlock | None = None, label: str = "", signed: bool = False, pure: bool = False,
                 span: Span | None = None) -> None:
        self.kind, self.dst, self.args, self.off, self.size, self.bits = kind, dst, args or [], off, size, bits
        self.imm, self.cond, self.then, self.other, self.label = imm, cond, then, other, label
        self.signed, self.pure, self.span = signed, pure, span

    @property
    def removable(self) -> bool:
        """May go when its result is unused."""
        return self.kind not in EFFECTS or self.pure

    def registers(self) -> list[Reg]:
        """The registers it reads."""
        return [a for a in self.args if type(a) is Reg]

    def __repr__(self) -> str:
        return format_operand(self)


class BasicBlock:
    """A basic block; ``cold`` ones (failures, first insertions) are laid out last."""

    __slots__ = ("id", "name", "ops", "cold")

    def __init__(self, id: int, name: str = "", cold: bool = False) -> None:
        self.id, self.name, self.cold = id, name, cold
        self.ops: list[Op] = []

    @property
    def successors(self) -> list[BasicBlock]:
        last = self.ops[-1]
        if last.then is None:
            return []
        return [last.then] if last.other is None else [last.then, last.other]

    def __repr__(self) -> str:
        return f"{self.name or 'b'}.{self.id}"


class BpfFunction:
    """A BPF function: the program itself, or a callback of bpf_loop() / bpf_for_each_map_elem()."""

    def __init__(self, name: str, params: int = 1) -> None:
        self.name = name
        self.separate = False  # takes and returns numbers: the verifier checks it once, and not again at each call
        self.blocks: list[BasicBlock] = []
        self.slots: list[Slot] = []
        self.registers: list[Reg] = []
        self.params = [self.reg(f"param{i}") for i in range(params)]
        for param in self.params:
            param.defs = 1
        self.scratch_base: Reg  # the address of this CPU's scratch memory

    def reg(self, name: str = "") -> Reg:
        reg = Reg(len(self.registers), name)
        self.registers.append(reg)
        return reg

    def block(self, name: str = "", cold: bool = False) -> BasicBlock:
        """A new block, not yet placed."""
        self._next = getattr(self, "_next", 0) + 1
        return BasicBlock(self._next, name, cold)

    def slot(self, size: int, name: str = "", scratch: bool = False) -> Slot:
        slot = Slot(len(self.slots), size, name, scratch)
        slot.function = self
        self.slots.append(slot)
        return slot


class Program:
    """A main function and its callbacks; ``scratch_size`` bytes of per-CPU memory once slots are placed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.functions: list[BpfFunction] = []
        self.scratch_size = 0

    def levels(self) -> int:
        """How many frames may lie on the main function's: callbacks call functions, which have callbacks ..."""
        inner = {f.name: {op.label for block in f.blocks for op in block.ops if op.kind in FUNCTIONS}
                 for f in self.functions}
        return self._depth(self.functions[0].name, inner, {})

    def _depth(self, name: str, inner: dict[str, set[str]], depth: dict[str, int]) -> int:
        if name not in depth:
            depth[name] = 0  # a function that calls itself is refused before
            depth[name] = max([1 + self._depth(label, inner, depth) for label in inner[name]], default=0)
        return depth[name]


def format_operand(op: Op) -> str:
    """One line of IR."""
    args = ", ".join(map(repr, op.args))
    head = f"{op.dst!r} = " if op.dst is not None else ""
    if op.kind == "jump":
        return f"jump {op.then!r}"
    if op.kind == "branch":
        wide = "32" if op.bits == 32 else ""
        return f"branch{wide} {op.args[0]!r} {op.cond} {op.args[1]!r} ? {op.then!r} : {op.other!r}"
    if op.kind in ("load", "store", "atomic_add", "xchg", "fetch_add"):
        base = f"{op.args[0]!r}{op.off:+d}"
        rest = f", {op.args[1]!r}" if len(op.args) > 1 else ""
        return f"{head}{op.kind}{'s' if op.signed else ''}{op.size * 8} [{base}]{rest}"
    if op.kind in CALLS:
        return f"{head}{op.kind} {op.label or op.imm or ''}({args})"
    if op.kind in ("swap", "sext", "zext"):
        return f"{head}{op.kind}{op.bits} {args}"
    if op.kind == "func":
        return f"{head}func {op.label}"
    off = f" +{op.off}" if op.kind == "addr" and op.off else ""
    return f"{head}{op.kind}{'32' if op.bits == 32 and op.kind in ALU else ''} {args}{off}"


def format_program(program: Program) -> str:
    """The whole program as text (``-d ir``)."""
    out = []
    for function in program.functions:
        params = ", ".join(map(repr, function.params))
        out.append(f"function {function.name}({params})")
        for block in function.blocks:
            out.append(f"  {block!r}:{'  ; cold' if block.cold else ''}")
            shown = None
            for op in block.ops:
                note = ""
                if op.span is not None and op.span is not shown:
                    shown = op.span
                    note = f"  ; {' '.join(op.span.text.split())[:60]}"
                out.append(f"    {format_operand(op)}".ljust(60 if note else 0) + note)
    return "\n".join(out)
