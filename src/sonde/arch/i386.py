"""32-bit programs on x86-64 (System V ABI, Intel386 Architecture Processor Supplement). The kernel shows their
registers in the ``struct pt_regs`` of 64-bit ones, so this row is that of x86-64 but for what their code does."""

from __future__ import annotations

from . import x86_64
from .row import Arch

_AT = x86_64.ROW.registers

ROW = Arch(**{field: getattr(x86_64.ROW, field) for field in Arch._fields} | {
    "name": "i386", "elf_machine": 3, "word": 4, "indirect_relocation": 42, "objdump": "i386",
    "c_macros": ("__i386__", "__i386", "i386"), "largest_alignment": 4,
    # the stack has all arguments, above the return address
    "arguments": (), "stack_arguments": 4, "vector_arguments": 0,
    "dwarf_registers": tuple(str.split("ax cx dx bx sp bp si di")), "dwarf_stack_pointer": 4, "dwarf_frame_pointer": 5,
    "dwarf_return": 8, "dwarf_vectors": range(21, 37), "frame_to_cfa": 8, "unwinds_in_kernel": False,
    "go_arguments": (), "go_stack_arguments": 4, "go_stack_check": "",
    "entry_marker": r"\xf3\x0f\x1e\xfb(?=[\x50-\x57])",  # endbr32, before a push
})
