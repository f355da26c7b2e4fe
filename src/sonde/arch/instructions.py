"""Is an offset the start of an instruction? A breakpoint inside of one would wreck the program."""

from __future__ import annotations

from .row import Arch


def is_instruction_start(arch: Arch, code: bytes, offset: int) -> bool:
    """Whether an instruction starts at ``offset``, where one does at 0. What cannot be decoded is taken for one."""
    at = 0
    while at < offset:
        size = instruction_size(arch, code, at)
        if size <= 0:
            return True
        at += size
    return at == offset


def instruction_size(arch: Arch, code: bytes, at: int) -> int:
    """Bytes of the instruction at ``at``; 0 if it is none that is known, or is cut off."""
    if not arch.instruction_sizes:
        from .x86_instructions import instruction_length
        return instruction_length(code, at)
    word = int.from_bytes(code[at:at + 2], arch.byte_order)
    size = next((size for mask, value, size in arch.instruction_sizes if word & mask == value), 0)
    return size if at + size <= len(code) else 0
