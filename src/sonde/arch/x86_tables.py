"""Tables of x86's indirect jumps. Compilers write a switch as one of ::

    jmp *table(,%index,8)
    lea table(%rip), %base;  jmp *(%base,%index,8)
    mov table(,%index,8), %r;  jmp *%r
    lea table(%rip), %base;  movslq (%base,%index,4), %r;  add %base, %r;  jmp *%r

with others between them, or with more of them where nothing is optimised; in 32-bit code (``narrow``) as one of ::

    jmp *table(,%index,4)
    mov table@GOTOFF(%got,%index,4), %r;  add %got, %r;  jmp *%r
    mov %got, %r;  add table@GOTOFF(%got,%index,4), %r;  jmp *%r

What is read in another way may be the address of a function.
"""

from __future__ import annotations

from .flows import OUTSIDE, PLAIN, WITHIN, JumpTable
from .x86_instructions import control_flow

_NOTRACK = 0x3E  # marks the jumps of a switch, where others must meet an endbr64 (Intel CET)
_RECENT = 12     # instructions in which the parts of a relative jump stand
_FAR = 4096      # instructions before a jump in which the table's address is loaded
_CANDIDATES = 8  # tables whose address may be in the register


class _Operands:
    """The ModRM byte of an instruction, and what it brings: registers by number, -1 for none."""

    def __init__(self, code: bytes, at: int, narrow: bool = False) -> None:
        rex = 0
        while code[at] in (0x3E, 0xF2, 0x66) or not narrow and 0x40 <= code[at] < 0x50:
            rex = code[at] if 0x40 <= code[at] < 0x50 else 0
            at += 1
        self.opcode, modrm = code[at], code[at + 1]
        self.mode, self.register = modrm >> 6, modrm >> 3 & 7 | (rex & 4) << 1
        self.other = modrm & 7 | (rex & 1) << 3  # a register, or the base of memory without an index
        self.base, self.index, self.scale, self.displacement = -1, -1, 1, 0
        self.by_address = self.mode == 0 and modrm & 7 == 5  # from the end of the instruction
        at += 2
        if self.mode != 3 and modrm & 7 == 4:
            sib = code[at]
            self.index, self.scale = sib >> 3 & 7 | (rex & 2) << 2, 1 << (sib >> 6)
            self.base = -1 if self.mode == 0 and sib & 7 == 5 else sib & 7 | (rex & 1) << 3
            at += 1
            self.displacement = _signed(code, at, 4) if self.base < 0 or self.mode == 2 else \
                _signed(code, at, 1) if self.mode == 1 else 0
        elif self.by_address:
            self.displacement = _signed(code, at, 4)


def _signed(code: bytes, at: int, size: int) -> int:
    return int.from_bytes(code[at:at + size], "little", signed=True)


def jump_tables(code: bytes, starts: list[int], narrow: bool = False) -> list[JumpTable] | str:
    """See control_flow.jump_tables()."""
    jump = _Operands(code + bytes(8), starts[-1], narrow)
    if jump.mode != 3 and jump.by_address:
        return OUTSIDE  # by the address of another file's function (-fno-plt)
    if narrow:
        tables = _narrow_tables(code, starts, jump)
    else:
        tables = _computed_tables(code, starts, jump.other) if jump.mode == 3 else _indexed_tables(code, starts, jump)
    return tables or (WITHIN if code[starts[-1]] == _NOTRACK else "")


def _narrow_tables(code: bytes, starts: list[int], jump: _Operands) -> list[JumpTable]:
    """The table of 32-bit code: where the jump reads it, or where its register was loaded in the same block."""
    if jump.mode != 3:
        return _narrow_table(jump, relative=False)
    relative, registers = False, {jump.other}
    for number in range(len(starts) - 2, max(len(starts) - 2 - _RECENT, -1), -1):
        at, end = starts[number], starts[number + 1]
        if control_flow(code, at, end - at, narrow=True).kind != PLAIN:
            break
        row = _Operands(code + bytes(8), at, narrow=True)
        if row.opcode in (0x01, 0x03) and row.mode == 3:  # add of a register
            if (row.other if row.opcode == 0x01 else row.register) in registers:
                relative, registers = True, registers | {row.other, row.register}
        elif row.opcode in (0x03, 0x8B) and row.mode != 3 and row.register in registers:  # add, mov of memory
            return _narrow_table(row, relative or row.opcode == 0x03)
    return []


def _narrow_table(row: _Operands, relative: bool) -> list[JumpTable]:
    """The table that an instruction reads: at an address, or at a distance from the global offset table."""
    if row.index < 0 or row.scale not in (1, 4) or row.base >= 0 and row.mode != 2:
        return []
    return [JumpTable(row.displacement, 4, relative, absolute=True, by_got=row.base >= 0)]


def _indexed_tables(code: bytes, starts: list[int], row: _Operands) -> list[JumpTable]:
    """The tables of addresses from which an instruction loads its element."""
    if row.scale != 8 or row.index < 0:
        return []
    if row.base < 0:
        return [JumpTable(row.displacement, 8, absolute=True)]
    return [] if row.displacement else [JumpTable(at, 8) for at in _loaded_addresses(code, starts, row.base)]


def _computed_tables(code: bytes, starts: list[int], target: int) -> list[JumpTable]:
    """The tables where the last of the instructions jumps to what the register ``target`` holds: the sum of an element
    and the table's address, or an element, that was computed in the same block."""
    for number in range(len(starts) - 2, max(len(starts) - 2 - _RECENT, -1), -1):
        at, end = starts[number], starts[number + 1]
        if control_flow(code, at, end - at).kind != PLAIN:
            break
        row = _Operands(code + bytes(8), at)
        if row.mode == 3 and row.opcode in (0x01, 0x03):  # add
            into, source = (row.other, row.register) if row.opcode == 0x01 else (row.register, row.other)
            if into == target:
                return [JumpTable(at, 4, relative=True) for register in (into, source)
                        for at in _loaded_addresses(code, starts, register)]
        elif row.mode != 3 and row.opcode == 0x8B and row.register == target:  # mov
            return _indexed_tables(code, starts[:number + 2], row)
    return []


def _loaded_addresses(code: bytes, starts: list[int], register: int) -> list[int]:
    """Offsets that ``lea offset(%rip), %register`` loads before the last of the instructions, the nearest first."""
    addresses: list[int] = []
    for number in range(len(starts) - 2, max(len(starts) - 2 - _FAR, -1), -1):
        at, end = starts[number], starts[number + 1]
        if end - at == 7 and code[at + 1] == 0x8D and code[at] in (0x48, 0x4C):
            row = _Operands(code, at)
            if row.by_address and row.register == register:
                addresses.append(end + row.displacement)
                if len(addresses) == _CANDIDATES:
                    break
    return addresses
