"""Lengths of x86's instructions, of 64 and 32 bits (``narrow``), and where control goes from them, after the opcode
maps of the Intel manual, volume 2, appendix A."""

from __future__ import annotations

from .flows import BRANCH, INDIRECT, JUMP, PLAIN, RETURN, UNKNOWN, Flow

_PREFIXES = frozenset((0x66, 0x67, 0xF0, 0xF2, 0xF3, 0x2E, 0x36, 0x3E, 0x26, 0x64, 0x65))
_NOTHING = {*range(0x50, 0x60), *range(0x6C, 0x70), *range(0x90, 0xA0), *range(0xA4, 0xA8), *range(0xAA, 0xB0), 0xC3,
            0xC9, 0xCB, 0xCC, 0xCE, 0xCF, 0xD7, *range(0xEC, 0xF0), 0xF1, 0xF4, 0xF5, *range(0xF8, 0xFE)}
_BYTE = {0x6A, *range(0x70, 0x80), 0xA8, *range(0xB0, 0xB8), 0xCD, *range(0xE0, 0xE8), 0xEB}  # an immediate byte
_WORD = {0x68, 0xA9}                         # an immediate of the operand's size, four bytes at most
_MODRM_BYTE = {0x6B, 0x80, 0x83, 0xC0, 0xC1, 0xC6}
_MODRM_WORD = {0x69, 0x81, 0xC7}
_NARROW_NOTHING = {0x06, 0x07, 0x0E, 0x16, 0x17, 0x1E, 0x1F, 0x27, 0x2F, 0x37, 0x3F, *range(0x40, 0x50), 0x60, 0x61,
                   0xD6}
_NARROW_BYTE = {0xD4, 0xD5}
_0F_NOTHING = {*range(0x05, 0x0A), 0x0B, 0x0E, *range(0x30, 0x38), 0x77, *range(0xA0, 0xA3), *range(0xA8, 0xAB),
               *range(0xC8, 0xD0)}
_0F_BYTE = {0x0F, *range(0x70, 0x74), 0xA4, 0xAC, 0xBA, 0xC2, 0xC4, 0xC5, 0xC6}


def instruction_length(code: bytes, at: int, narrow: bool = False) -> int:
    """Bytes of the instruction at ``at``; 0 if it is none that is known, or is cut off."""
    try:
        size = _decode_narrow(code, at) if narrow else _decode_length(code, at)
    except IndexError:
        return 0
    return size if at + size <= len(code) else 0


def _decode_length(code: bytes, start: int) -> int:
    at, word, address, wide = start, 4, 8, False
    while code[at] in _PREFIXES:
        word = 2 if code[at] == 0x66 else word
        address = 4 if code[at] == 0x67 else address
        at += 1
    if 0x40 <= code[at] < 0x50:
        wide = bool(code[at] & 8)
        at += 1
    if code[at] in (0xC4, 0xC5, 0x62):
        return _skip_vex_opcode(code, at, code[at]) - start
    if code[at] in (0x82, 0xD4, 0xD5, 0xD6, 0xEA, 0x9A, 0x60, 0x61) or code[at] < 0x40 and code[at] & 7 > 5 and \
            code[at] != 0x0F:
        return 0
    return _skip_opcode(code, at, 4 if wide else word, address, wide) - start


def _decode_narrow(code: bytes, start: int) -> int:
    """The same of 32-bit code. 0 of instructions with addresses or distances of 16 bits, too."""
    at, word = start, 4
    while code[at] in _PREFIXES:
        word = 2 if code[at] == 0x66 else word
        if code[at] == 0x67:
            return 0
        at += 1
    opcode = code[at]
    if opcode in _NARROW_NOTHING:
        return at + 1 - start
    if opcode in _NARROW_BYTE:
        return at + 2 - start
    if opcode in (0xC4, 0xC5, 0x62) and code[at + 1] >> 6 == 3:  # of another mode, these are les, lds and bound
        return _skip_vex_opcode(code, at, opcode) - start
    if opcode in (0xEA, 0x9A):
        return at + 1 + word + 2 - start
    if opcode == 0x82:
        return _skip_modrm(code, at + 1) + 1 - start
    if word == 2 and (opcode in (0xE8, 0xE9) or opcode == 0x0F and 0x80 <= code[at + 1] < 0x90):
        return 0
    return _skip_opcode(code, at, word, 4, False) - start


def _skip_opcode(code: bytes, at: int, word: int, address: int, wide: bool) -> int:
    """After an instruction whose opcode is at ``at``: its operands have ``word`` bytes, four at most as immediates."""
    opcode = code[at]
    if opcode == 0x0F:
        return _skip_two_byte_opcode(code, at + 1)
    at += 1
    if opcode < 0x40:
        return at + (1, word)[opcode & 7 == 5] if opcode & 7 > 3 else _skip_modrm(code, at)
    immediate = _immediate_size(opcode, word, address, wide)
    if immediate is not None:
        return at + immediate
    if opcode in (0xF6, 0xF7) and code[at] & 0x30 == 0:  # test has an immediate, its neighbours have none
        return _skip_modrm(code, at) + (1 if opcode == 0xF6 else word)
    return _skip_modrm(code, at) + (1 if opcode in _MODRM_BYTE else word if opcode in _MODRM_WORD else 0)


def _immediate_size(opcode: int, word: int, address: int, wide: bool) -> int | None:
    """Bytes after an opcode without a ModRM byte; None of one that has it."""
    if opcode in _NOTHING:
        return 0
    if opcode in _BYTE:
        return 1
    if opcode in _WORD:
        return word
    if 0xB8 <= opcode < 0xC0:
        return 8 if wide else word
    if 0xA0 <= opcode < 0xA4:
        return address
    return {0xE8: 4, 0xE9: 4, 0xC2: 2, 0xCA: 2, 0xC8: 3}.get(opcode)


def _skip_two_byte_opcode(code: bytes, at: int) -> int:
    opcode = code[at]
    if opcode in (0x38, 0x3A):
        return _skip_modrm(code, at + 2) + (opcode == 0x3A)
    if opcode in _0F_NOTHING:
        return at + 1
    if 0x80 <= opcode < 0x90:
        return at + 5
    return _skip_modrm(code, at + 1) + (opcode in _0F_BYTE)


def _skip_vex_opcode(code: bytes, at: int, opcode: int) -> int:
    """VEX and EVEX: which opcode map it is stands in the prefix."""
    table = 1 if opcode == 0xC5 else code[at + 1] & (7 if opcode == 0x62 else 31)
    at += {0xC5: 2, 0xC4: 3, 0x62: 4}[opcode]
    if table == 1 and code[at] == 0x77:
        return at + 1
    return _skip_modrm(code, at + 1) + (table == 3 or table == 1 and code[at] in _0F_BYTE)


def _skip_modrm(code: bytes, at: int) -> int:
    """After the ModRM byte and what it brings."""
    mode, register = code[at] >> 6, code[at] & 7
    at += 1
    if mode == 3:
        return at
    if register == 4:
        if mode == 0 and code[at] & 7 == 5:
            return at + 5
        at += 1
    elif register == 5 and mode == 0:
        return at + 4
    return at + (0, 1, 4)[mode]


# First bytes of what may pass control elsewhere; after a prefix, the byte after it tells.
_FLOWS = frozenset((0xC3, 0xC2, 0xEB, 0xE9, 0xFF, 0x0F, *range(0x70, 0x80), *range(0xE0, 0xE4), 0xCA, 0xCB, 0xCF, 0xEA))
_BEFORE_FLOWS = _PREFIXES | {*range(0x40, 0x50)}
_FAR = (0xCA, 0xCB, 0xCF, 0xEA)  # far returns and jumps, iret


def read_flows(code: bytes, narrow: bool = False) -> tuple[list[int], list[tuple[int, Flow]]] | None:
    """(where instructions start, flows that are not PLAIN with the index of their instruction); None if what stands
    there is not all instructions."""
    starts: list[int] = []
    flows: list[tuple[int, Flow]] = []
    decode, before = (_decode_narrow, _PREFIXES) if narrow else (_decode_length, _BEFORE_FLOWS)
    at, end, code = 0, len(code), code + bytes(16)
    while at < end:
        size = decode(code, at)
        if size <= 0 or at + size > end:
            return None
        first = code[at]
        if first in _FLOWS or first in before and (code[at + 1] in _FLOWS or code[at + 1] in before):
            flow = control_flow(code, at, size, narrow)
            if flow.kind:
                flows.append((len(starts), flow))
        starts.append(at)
        at += size
    return starts, flows


def control_flow(code: bytes, at: int, size: int, narrow: bool = False) -> Flow:
    """Where control goes from the instruction of ``size`` bytes at ``at``."""
    end = at + size
    before = _PREFIXES if narrow else _BEFORE_FLOWS
    while code[at] in before:  # notrack, bnd, rep, hints of branches; REX
        at += 1
    opcode = code[at]
    if opcode in (0xC3, 0xC2):
        return Flow(RETURN)
    if opcode in (0xEB, 0xE9):
        return Flow(JUMP, _target(code, at + 1, end))
    if 0x70 <= opcode < 0x80 or 0xE0 <= opcode < 0xE4:
        return Flow(BRANCH, _target(code, at + 1, end))
    if opcode == 0x0F and 0x80 <= code[at + 1] < 0x90:
        return Flow(BRANCH, _target(code, at + 2, end))
    if opcode == 0xFF and code[at + 1] & 0x38 in (0x20, 0x28):
        return Flow(INDIRECT)
    return Flow(UNKNOWN if opcode in _FAR else PLAIN)


def _target(code: bytes, at: int, end: int) -> int:
    """What lies behind an instruction's end by the distance in its bytes from ``at``."""
    return end + int.from_bytes(code[at:end], "little", signed=True)


_NARROW_PADDING = (  # lea that loads esi or edi with itself, and mov of it
    b"\x8D\x76\0", b"\x8D\x74\x26\0", b"\x8D\xB6\0\0\0\0", b"\x8D\xB4\x26\0\0\0\0", b"\x8D\x7F\0", b"\x8D\xBF\0\0\0\0",
    b"\x8D\xBC\x27\0\0\0\0", b"\x89\xF6")


def is_padding(code: bytes, at: int, narrow: bool = False) -> bool:
    """Whether the instruction there does nothing (nop, and xchg %ax, %ax), or traps (int3, ud2)."""
    while code[at] in (0x66, 0x2E):
        at += 1
    return code[at] in (0x90, 0xCC) or code[at] == 0x0F and code[at + 1] in (0x0B, 0x1F) or \
        narrow and code.startswith(_NARROW_PADDING, at)
