"""Where control goes from an instruction: to the next one, elsewhere, or back to the caller."""

from __future__ import annotations

from . import x86_instructions, x86_tables
from .flows import WITHIN, Flow, JumpTable
from .instructions import instruction_size
from .row import Arch


def is_known(arch: Arch) -> bool:
    """Whether the control flow of an architecture's code can be read."""
    return bool(arch.control_flow) or not arch.instruction_sizes


def read_flows(arch: Arch, code: bytes) -> tuple[list[int], list[tuple[int, Flow]]] | None:
    """(where instructions start, flows that are not PLAIN with the index of their instruction); None if what stands
    there is not all instructions. Targets of flows are offsets in ``code``."""
    if not arch.instruction_sizes:
        return x86_instructions.read_flows(code, arch.word == 4)
    starts: list[int] = []
    flows: list[tuple[int, Flow]] = []
    at = 0
    while at < len(code):
        size = instruction_size(arch, code, at)
        if not size:
            return None
        flow = _masked_flow(arch, int.from_bytes(code[at:at + size], arch.byte_order), at, size)
        if flow is not None:
            flows.append((len(starts), flow))
        starts.append(at)
        at += size
    return starts, flows


def _masked_flow(arch: Arch, word: int, at: int, size: int) -> Flow | None:
    """The flow of an instruction, by its architecture's row; None if it is PLAIN."""
    for mask, value, kind, low, bits in arch.control_flow:
        if word & mask == value:
            field = word >> low & (1 << bits) - 1
            distance = field - (1 << bits) if bits and field >> bits - 1 else field
            return Flow(kind, at + size * distance if bits else 0)
    return None


def is_padding(arch: Arch, code: bytes, at: int) -> bool:
    """Whether the instruction there does nothing, or traps: what stands between pieces of code."""
    if not arch.instruction_sizes:
        return x86_instructions.is_padding(code, at, arch.word == 4)
    return int.from_bytes(code[at:at + 4], arch.byte_order) in arch.padding


def jump_tables(arch: Arch, code: bytes, starts: list[int]) -> list[JumpTable] | str:
    """The tables that the indirect jump may use which is the last of the instructions at ``starts``, the likeliest
    first; WITHIN where it uses one, wherever that is; OUTSIDE where it leaves the function; "" where it may."""
    if not arch.instruction_sizes:
        return x86_tables.jump_tables(code, starts, arch.word == 4)
    at = starts[-1]
    register = int.from_bytes(code[at:at + 4], arch.byte_order) >> 5 & 31
    for start in reversed(starts[-8:-1]):
        word = int.from_bytes(code[start:start + 4], arch.byte_order)
        if _masked_flow(arch, word, start, 4) is not None:
            break
        if any(word & mask == value for mask, value in arch.table_jumps) and word & 31 == register:
            return WITHIN
    return ""
