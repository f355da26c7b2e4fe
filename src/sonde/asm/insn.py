"""One eBPF instruction, symbolic until it is assembled (Documentation/bpf/standardization/instruction-set.rst).

::

    63           32 31    16 15  12 11   8 7      0
    |     imm      |  off   | src  | dst  | opcode |

On a big-endian machine the bytes of imm and off are in its order, and dst is the high half of the registers' byte
(``struct bpf_insn`` in include/uapi/linux/bpf.h). ``order`` is "little" or "big", as in sys.byteorder.
"""

from __future__ import annotations

import struct
from sys import byteorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..source import Span

LD, LDX, ST, STX, ALU, JMP, JMP32, ALU64 = range(8)
IMM, MEM, MEMSX, ATOMIC = 0x00, 0x60, 0x80, 0xC0
SIZES = {1: 0x10, 2: 0x08, 4: 0x00, 8: 0x18}
SIZE_OF = {code: size for size, code in SIZES.items()}

ALU_OPS = {"add": 0x00, "sub": 0x10, "mul": 0x20, "div": 0x30, "or": 0x40, "and": 0x50, "lsh": 0x60, "rsh": 0x70,
           "neg": 0x80, "mod": 0x90, "xor": 0xA0, "mov": 0xB0, "arsh": 0xC0, "end": 0xD0}
JMP_OPS = {"ja": 0x00, "jeq": 0x10, "jgt": 0x20, "jge": 0x30, "jset": 0x40, "jne": 0x50, "jsgt": 0x60, "jsge": 0x70,
           "call": 0x80, "exit": 0x90, "jlt": 0xA0, "jle": 0xB0, "jslt": 0xC0, "jsle": 0xD0}
ALU_NAMES = {code: name for name, code in ALU_OPS.items()}
JMP_NAMES = {code: name for name, code in JMP_OPS.items()}
ALU_SIGNS = {"add": "+=", "sub": "-=", "mul": "*=", "div": "/=", "or": "|=", "and": "&=", "lsh": "<<=", "rsh": ">>=",
             "mod": "%=", "xor": "^=", "mov": "=", "arsh": "s>>="}
JMP_SIGNS = {"jeq": "==", "jgt": ">", "jge": ">=", "jset": "&", "jne": "!=", "jsgt": "s>", "jsge": "s>=",
             "jlt": "<", "jle": "<=", "jslt": "s<", "jsle": "s<="}
WIDE = LD | SIZES[8] | IMM  # the code that takes two slots
PSEUDO_MAP_FD, PSEUDO_MAP_VALUE, PSEUDO_FUNC = 1, 2, 4
PSEUDO_CALL, PSEUDO_KFUNC = 1, 2
_WORDS = {"little": struct.Struct("<BBhi"), "big": struct.Struct(">BBhi")}


class Insn:
    """An instruction. ``label`` names the target of a jump, call or function address; ``map`` the map of a
    ``ld_imm64``. ``span`` is the place in the script that it comes from."""

    __slots__ = ("code", "dst", "src", "off", "imm", "label", "map", "span")

    def __init__(self, code: int, dst: int = 0, src: int = 0, off: int = 0, imm: int = 0,
                 label: str = "", map: str = "", span: Span | None = None) -> None:
        self.code, self.dst, self.src, self.off, self.imm = code, dst, src, off, imm
        self.label, self.map, self.span = label, map, span

    @property
    def wide(self) -> bool:
        """Takes two slots (a 64-bit immediate)."""
        return self.code == WIDE

    def encode(self, order: str = byteorder) -> bytes:
        """8 bytes, or 16 for a wide instruction; labels must have been resolved into off and imm."""
        word = _WORDS[order]
        imm = self.imm & 0xFFFFFFFFFFFFFFFF
        low = imm & 0xFFFFFFFF
        low -= (low & 0x80000000) << 1
        first = word.pack(self.code, pack_registers(self.dst, self.src, order), self.off, low)
        if not self.wide:
            return first
        high = imm >> 32
        return first + word.pack(0, 0, 0, high - ((high & 0x80000000) << 1))

    def __str__(self) -> str:
        return format_insn(self)


def pack_registers(dst: int, src: int, order: str = byteorder) -> int:
    """The byte of an instruction that names its registers."""
    return dst | src << 4 if order == "little" else dst << 4 | src


def alu(op: str, dst: int, src: int | None = None, imm: int = 0, bits: int = 64) -> Insn:
    """``dst op= src`` (or the 32-bit signed ``imm`` when src is None)."""
    signed = op in ("sdiv", "smod")
    code = ALU_OPS[op[1:] if signed else op] | (ALU64 if bits == 64 else ALU)
    off = 1 if signed else 0
    return Insn(code, dst, 0, off, imm) if src is None else Insn(code | 0x08, dst, src, off)


def sign_extend(dst: int, src: int, bits: int) -> Insn:
    """``dst = (s8|s16|s32)src``: instruction set v4, Linux 6.6."""
    return Insn(ALU_OPS["mov"] | ALU64 | 0x08, dst, src, bits)


def byte_swap(dst: int, bits: int, order: str = byteorder) -> Insn:
    """Byte swap of the low ``bits``; the rest becomes zero: to the order that the machine does not have
    (``be16/32/64`` on a little-endian CPU)."""
    return Insn(ALU_OPS["end"] | ALU | (0x08 if order == "little" else 0x00), dst, imm=bits)


def load(dst: int, base: int, off: int, size: int, signed: bool = False) -> Insn:
    """``dst = *(u<size>*)(base + off)``; the signed form needs instruction set v4."""
    return Insn(LDX | SIZES[size] | (MEMSX if signed else MEM), dst, base, off)


def store(base: int, off: int, src: int, size: int) -> Insn:
    """``*(u<size>*)(base + off) = src``."""
    return Insn(STX | SIZES[size] | MEM, base, src, off)


def store_imm(base: int, off: int, imm: int, size: int) -> Insn:
    """``*(u<size>*)(base + off) = imm`` (sign-extended for 8 bytes)."""
    return Insn(ST | SIZES[size] | MEM, base, 0, off, imm)


def atomic_add(base: int, off: int, src: int, size: int) -> Insn:
    """``lock *(base + off) += src``; size 4 or 8."""
    return Insn(STX | SIZES[size] | ATOMIC, base, src, off, 0)


def atomic_exchange(op: str, base: int, off: int, src: int, size: int) -> Insn:
    """``src`` = the old value; memory becomes ``src`` ("xchg") or grows by it ("fetch_add"); size 4 or 8."""
    return Insn(STX | SIZES[size] | ATOMIC, base, src, off, {"xchg": 0xE1, "fetch_add": 0x01}[op])


def compare_exchange(base: int, off: int, src: int, size: int) -> Insn:
    """If memory equals r0 it becomes ``src``; r0 = the old value; size 4 or 8."""
    return Insn(STX | SIZES[size] | ATOMIC, base, src, off, 0xF1)


def load_imm64(dst: int, imm: int) -> Insn:
    """``dst = imm`` with all 64 bits."""
    return Insn(LD | SIZES[8] | IMM, dst, imm=imm)


def map_fd(dst: int, name: str) -> Insn:
    """``dst`` = the map, as passed to helpers."""
    return Insn(LD | SIZES[8] | IMM, dst, PSEUDO_MAP_FD, map=name)


def map_value(dst: int, name: str, offset: int) -> Insn:
    """``dst`` = address of byte ``offset`` of an array's element 0."""
    return Insn(LD | SIZES[8] | IMM, dst, PSEUDO_MAP_VALUE, imm=offset, map=name)


def func_address(dst: int, label: str) -> Insn:
    """``dst`` = a callback of this program."""
    return Insn(LD | SIZES[8] | IMM, dst, PSEUDO_FUNC, label=label)


def jump(label: str) -> Insn:
    return Insn(JMP | JMP_OPS["ja"], label=label)


def jump_long(label: str) -> Insn:
    """``gotol``: a 32-bit offset; Linux 6.6."""
    return Insn(JMP32 | JMP_OPS["ja"], label=label)


def branch(op: str, dst: int, src: int | None, imm: int, label: str, bits: int = 64) -> Insn:
    """``if dst op (src | imm) goto label``."""
    code = JMP_OPS[op] | (JMP if bits == 64 else JMP32)
    return Insn(code, dst, imm=imm, label=label) if src is None else Insn(code | 0x08, dst, src, label=label)


def call_helper(helper: int) -> Insn:
    return Insn(JMP | JMP_OPS["call"], imm=helper)


def call_function(label: str) -> Insn:
    """A function of this program."""
    return Insn(JMP | JMP_OPS["call"], src=PSEUDO_CALL, label=label)


def call_kfunc(btf_id: int) -> Insn:
    return Insn(JMP | JMP_OPS["call"], src=PSEUDO_KFUNC, imm=btf_id)


def exit_() -> Insn:
    return Insn(JMP | JMP_OPS["exit"])


def decode_program(code: bytes, order: str = byteorder) -> Iterator[tuple[int, Insn]]:
    """(slot index, instruction) of each instruction; raises ValueError on a truncated one."""
    index, word = 0, _WORDS[order]
    if len(code) % 8:
        raise ValueError("an instruction has 8 bytes")
    while index * 8 < len(code):
        op, regs, off, imm = word.unpack_from(code, index * 8)
        low, high = regs & 15, regs >> 4
        insn = Insn(op, *((low, high) if order == "little" else (high, low)), off, imm)
        yield index, insn
        index += 1
        if insn.wide:
            if index * 8 >= len(code):
                raise ValueError("truncated 16-byte instruction")
            insn.imm = imm & 0xFFFFFFFF | word.unpack_from(code, index * 8)[3] << 32
            index += 1


def _format_memory(insn: Insn, base: int) -> str:
    return f"*(u{SIZE_OF[insn.code & 0x18] * 8} *)(r{base} {'-' if insn.off < 0 else '+'} {abs(insn.off)})"


def _format_alu(insn: Insn, bits: int) -> str:
    name = ALU_NAMES.get(insn.code & 0xF0, "?")
    reg = f"{'r' if bits == 64 else 'w'}{insn.dst}"
    if name == "neg":
        return f"{reg} = -{reg}"
    if name == "end":
        return f"r{insn.dst} = {'be' if insn.code & 8 else 'le'}{insn.imm} r{insn.dst}"
    source = f"{'r' if bits == 64 else 'w'}{insn.src}" if insn.code & 8 else str(insn.imm)
    sign = ALU_SIGNS[name]
    if name == "mov" and insn.off:
        return f"{reg} = (s{insn.off}){source}"
    return f"{reg} {'s' if insn.off and name in ('div', 'mod') else ''}{sign} {source}"


def _format_jump(insn: Insn) -> str:
    name = JMP_NAMES.get(insn.code & 0xF0, "?")
    long = insn.code == JMP32 | JMP_OPS["ja"]
    target = insn.label or f"{insn.imm if long else insn.off:+d}"
    if name == "exit":
        return "exit"
    if name == "call":
        return f"call {insn.label or ('kfunc ' if insn.src == PSEUDO_KFUNC else 'helper ') + str(insn.imm)}"
    if name == "ja":
        return f"goto{'l' if long else ''} {target}"
    reg = "w" if insn.code & 7 == JMP32 else "r"
    source = f"{reg}{insn.src}" if insn.code & 8 else str(insn.imm)
    return f"if {reg}{insn.dst} {JMP_SIGNS[name]} {source} goto {target}"


def format_insn(insn: Insn) -> str:
    """The instruction in the kernel's own notation (as ``bpftool prog dump xlated`` prints it)."""
    kind = insn.code & 7
    if insn.wide:
        if insn.map:
            return f"r{insn.dst} = map[{insn.map}]" + (f"[0]+{insn.imm} ll" if insn.src == PSEUDO_MAP_VALUE else " ll")
        return f"r{insn.dst} = {insn.label or hex(insn.imm & 0xFFFFFFFFFFFFFFFF)} ll"
    if kind in (ALU, ALU64):
        return _format_alu(insn, 64 if kind == ALU64 else 32)
    if kind in (JMP, JMP32):
        return _format_jump(insn)
    if kind == LDX:
        loaded = _format_memory(insn, insn.src)
        return f"r{insn.dst} = {loaded.replace('u', 's', 1) if insn.code & 0xE0 == MEMSX else loaded}"
    if kind == ST:
        return f"{_format_memory(insn, insn.dst)} = {insn.imm}"
    if insn.code & 0xE0 == ATOMIC:
        name = {0: "+=", 0xE1: "xchg", 0x01: "fetch_add", 0xF1: "cmpxchg"}.get(insn.imm, hex(insn.imm))
        return f"lock {_format_memory(insn, insn.dst)} {name} r{insn.src}"
    return f"{_format_memory(insn, insn.dst)} = r{insn.src}"
