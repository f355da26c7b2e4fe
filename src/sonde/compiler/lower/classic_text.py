"""Classic BPF as text: ``bpf:`` and two programs, with ``;`` between them: for packets that begin with an Ethernet
header, and for those that begin with that of IP. A program is what ``tcpdump -ddd`` prints, with commas in place of
lines: ``4,40 0 0 12,21 0 1 2048,6 0 0 1,6 0 0 0``; it is empty if it takes no packet, and ``-`` if there is none.

Who writes such a filter may be a stranger: what the kernel refuses (net/core/filter.c, bpf_check_classic()) is refused
here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .classic import Instruction

PREFIX = "bpf:"
MOST = 4096  # instructions (BPF_MAXINSNS)
_LOADS = {0x00, 0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0x60, 0x80, 0x01, 0x61, 0x81, 0xB1}
_STORES = {0x02, 0x03}
_ALU = {operation | source | 4 for operation in (*range(0x00, 0x80, 0x10), 0x90, 0xA0) for source in (0, 8)} | {0x84}
_JUMP, _TESTS = 0x05, {0x15, 0x1D, 0x25, 0x2D, 0x35, 0x3D, 0x45, 0x4D}
_RETURNS = {0x06, 0x16}
_MOVES = {0x07, 0x87}
_CODES = _LOADS | _STORES | _ALU | {_JUMP} | _TESTS | _RETURNS | _MOVES
_OF_WORDS = {0x60, 0x61} | _STORES
_WORDS = 16


def write_classic(programs: Sequence[Sequence[Instruction] | None]) -> str:
    """The text of programs."""
    return PREFIX + ";".join(["-" if program is None else _write_program(program) for program in programs])


def _write_program(program: Sequence[Instruction]) -> str:
    return ",".join([str(len(program)), *[" ".join(map(str, each)) for each in program]]) if program else ""


def read_classic(text: str) -> tuple[list[Instruction], list[Instruction] | None]:
    """The two programs of a text; ValueError with what is wrong with it."""
    parts = text.removeprefix(PREFIX).split(";")
    if len(parts) != 2:
        raise ValueError("there are to be two programs, with ; between them")
    link, bare = [None if part == "-" else _read_program(part) for part in parts]
    if not link:
        raise ValueError("the first program takes no packet")
    return link, bare


def _read_program(text: str) -> list[Instruction]:
    if not text:
        return []
    count, *lines = text.split(",")
    if not _is_whole(count) or int(count) != len(lines) or not 0 < len(lines) <= MOST:
        raise ValueError(f"a program begins with the number of its instructions, from 1 to {MOST}")
    program = [_read_instruction(line) for line in lines]
    for at, each in enumerate(program):
        _check_instruction(at, each, len(program))
    if program[-1][0] not in _RETURNS:
        raise ValueError("the last instruction does not return")
    return program


def _is_whole(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) <= 10


def _read_instruction(line: str) -> Instruction:
    words = line.split(" ")
    if len(words) != 4 or not all(map(_is_whole, words)):
        raise ValueError(f"'{line[:40]}' is no instruction")
    code, when, otherwise, k = map(int, words)
    if code not in _CODES or when > 255 or otherwise > 255 or k >> 32:
        raise ValueError(f"'{line[:40]}' is no instruction")
    return code, when, otherwise, k


def _check_instruction(at: int, instruction: Instruction, count: int) -> None:
    code, when, otherwise, k = instruction
    if code == _JUMP and at + 1 + k >= count or code in _TESTS and at + 1 + max(when, otherwise) >= count:
        raise ValueError(f"instruction {at} jumps back, or beyond the end")
    if code in _OF_WORDS and k >= _WORDS:
        raise ValueError(f"instruction {at} uses word {k}, and there are {_WORDS}")
    if code in (0x34, 0x94) and k == 0 or code in (0x64, 0x74) and k > 31:
        raise ValueError(f"instruction {at} computes what is not defined")
