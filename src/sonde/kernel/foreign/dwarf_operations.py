"""Numbers of the operations in DWARF expressions (DWARF 5, section 7.7.1)."""

from __future__ import annotations

OP_DEREF = 0x06
OP_CONST1U, OP_CONST8S = 0x08, 0x0F  # and those between them: of 1, 2, 4, 8 bytes, each unsigned and signed
OP_CONSTU, OP_CONSTS, OP_DUP = 0x10, 0x11, 0x12
OP_AND, OP_MINUS, OP_MUL, OP_OR, OP_PLUS, OP_PLUS_UCONST = 0x1A, 0x1C, 0x1E, 0x21, 0x22, 0x23
OP_SHL, OP_SHR, OP_XOR = 0x24, 0x25, 0x27
OP_EQ, OP_GE, OP_GT, OP_LE, OP_LT, OP_NE = range(0x29, 0x2F)
OP_LIT0, OP_LIT31 = 0x30, 0x4F       # and those between them: the numbers 0 to 31
OP_BREG0, OP_BREG31 = 0x70, 0x8F     # and those between them: a register and an offset
OP_FBREG = 0x91
