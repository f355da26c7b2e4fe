"""The rules of ``.eh_frame`` as rows that programs search: see :mod:`sonde.layouts.unwind_format`."""

from __future__ import annotations

from ...arch import Arch, find_arch_of_elf
from ...layouts.unwind_format import (
    AT_BP,
    BP,
    BP_AT,
    BP_GONE,
    BP_KEPT,
    GONE,
    KEPT,
    LIES_BITS,
    LINKED,
    NO_TABLE,
    OUTERMOST,
    PLT,
    ROW,
    SIGNAL,
    SP,
    SP_AT,
    SP_AT_8,
    SP_GONE,
    SP_KEPT,
    UNKNOWN,
    pack_linked_rule,
    pack_rule,
)
from .dwarf_numbers import Numbers
from .dwarf_operations import OP_AND, OP_BREG0, OP_DEREF, OP_GE, OP_LIT0, OP_PLUS, OP_PLUS_UCONST, OP_SHL
from .eh_frame import UnwindRow, UnwindTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_ROWS = 1 << 16  # of an answer, exceeded by at most one entry's
_WORDS = range(-1 << 15, 1 << 15)


def pack_rows(table: UnwindTable, first: int, offset_of: Any) -> tuple[bytes, int]:
    """Rows of the entries from ``first`` on, and the number of the entry to continue with (0: that was all).
    ``offset_of`` gives the place in the file of an address, or None."""
    entries, packed, last = table.entries, bytearray(), -1
    arch = find_arch_of_elf(table.machine)
    if arch is None:
        return b"", 0
    rule_of = (StackRules(arch) if arch.link_register is None else LinkRules(arch)).rule_of
    for number in range(first, len(entries)):
        start, end, at = entries[number]
        offset = offset_of(start)
        if len(packed) > MOST_ROWS * ROW.size:
            return bytes(packed), number
        if offset is None or not 0 < end - start < 1 << 32 or offset + end - start >= 1 << 32:
            continue
        for address, row in table.entry_rows(start, at):
            rule = rule_of(row)
            if rule != last and address < end:
                packed += ROW.pack(offset + address - start, rule)
                last = rule
        if number + 1 == len(entries) or entries[number + 1][0] >= end + arch.least_gap:
            packed += ROW.pack(offset + end - start, NO_TABLE)
            last = NO_TABLE
    return bytes(packed), 0


class StackRules:
    """Where calls leave the return address on the stack."""

    def __init__(self, arch: Arch) -> None:
        self._sp, self._bp, self._return = arch.dwarf_stack_pointer, arch.dwarf_frame_pointer, arch.dwarf_return
        # The address of a PLT entry's frame, as linkers express it: sp + 8 + (((pc & 15) >= n) << 3)
        self._plt_head = bytes((OP_BREG0 + self._sp, 8, OP_BREG0 + self._return, 0, OP_LIT0 + 15, OP_AND))
        self._plt_tail = bytes((OP_GE, OP_LIT0 + 3, OP_SHL, OP_PLUS))
        self._expressions = {(OP_BREG0 + self._sp, bytes((OP_DEREF,))): SP_AT,
                             (OP_BREG0 + self._bp, bytes((OP_DEREF,))): BP_AT,
                             (OP_BREG0 + self._sp, bytes((OP_DEREF, OP_PLUS_UCONST, 8))): SP_AT_8}

    def rule_of(self, row: UnwindRow) -> int:
        back, saved = row.rules.get(self._return), row.rules.get(self._bp)
        if back is not None and back[0] == "undefined":
            return pack_rule(OUTERMOST)
        kind, words = self._frame_of(row.cfa)
        if kind == SP_AT and back == ("expression", self._based_on_sp(8 * words + 8)):
            known = saved == ("expression", self._based_on_sp(8 * words - 40))
            return pack_rule(SIGNAL, words) if known else pack_rule(UNKNOWN)
        if kind == UNKNOWN or back != ("offset", -8):
            return pack_rule(UNKNOWN)
        return pack_rule(kind, words, self._saved_of(saved))

    def _frame_of(self, cfa: Any) -> tuple[int, int]:
        """(kind, words) of the rule for where a frame is."""
        if isinstance(cfa, tuple):
            kind, offset = {self._sp: SP, self._bp: BP}.get(cfa[0], UNKNOWN), cfa[1]
            return (kind, offset // 8) if offset % 8 == 0 and offset // 8 in _WORDS else (UNKNOWN, 0)
        if not isinstance(cfa, bytes) or len(cfa) < 3:
            return UNKNOWN, 0
        head, tail = self._plt_head, self._plt_tail
        if cfa.startswith(head) and cfa.endswith(tail) and len(cfa) == len(head) + 1 + len(tail):
            boundary = cfa[len(head)] - OP_LIT0
            return (PLT, boundary) if 0 <= boundary < 16 else (UNKNOWN, 0)
        reader = Numbers(cfa, 0, 1, len(cfa))
        offset, rest = reader.read_sleb128(), cfa[reader.at:]
        kind = self._expressions.get((cfa[0], rest), UNKNOWN)
        return (kind, offset // 8) if offset % 8 == 0 and offset // 8 in _WORDS else (UNKNOWN, 0)

    def _saved_of(self, rule: tuple[str, Any] | None) -> int:
        """Where the caller's frame pointer is."""
        if rule is None or rule[0] == "undefined":
            return KEPT
        if rule == ("expression", bytes((OP_BREG0 + self._bp, 0))):
            return AT_BP
        kind, at = rule
        return -at // 8 if kind == "offset" and at < 0 and at % 8 == 0 and -at // 8 < AT_BP else GONE

    def _based_on_sp(self, offset: int) -> bytes:
        """The expression ``stack pointer + offset``."""
        expression = [OP_BREG0 + self._sp]
        while not -64 <= offset < 64:
            expression.append(offset & 0x7F | 0x80)
            offset >>= 7
        return bytes([*expression, offset & 0x7F])


class LinkRules:
    """Where calls leave the return address in a register."""

    def __init__(self, arch: Arch) -> None:
        self._sp, self._bp, self._return = arch.dwarf_stack_pointer, arch.dwarf_frame_pointer, arch.dwarf_return

    def rule_of(self, row: UnwindRow) -> int:
        back, saved = row.rules.get(self._return), row.rules.get(self._bp)
        if back is not None and back[0] == "undefined":
            return pack_rule(OUTERMOST)
        base, offset = row.cfa if isinstance(row.cfa, tuple) else (0, 0)
        if base not in (self._sp, self._bp) or offset % 8 or not 0 <= offset // 8 <= LIES_BITS:
            return pack_rule(UNKNOWN)
        lies = LINKED
        if back is not None:
            lies = -back[1] // 8 if back[0] == "offset" and back[1] % 8 == 0 else -1
            if not 0 < lies <= LIES_BITS:
                return pack_rule(UNKNOWN)
        if saved is None:
            kinds = SP_KEPT, BP_KEPT
        else:
            kinds = (SP, BP) if lies and saved == ("offset", -8 * lies - 8) else (SP_GONE, BP_GONE)
        return pack_linked_rule(kinds[base == self._bp], offset // 8, lies)
