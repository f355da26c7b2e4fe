"""The rules of ``.eh_frame`` as rows that programs search: see :mod:`sonde.unwinding`."""

from __future__ import annotations

from typing import Any

from ...unwinding import (
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
from .frames import UnwindRow, UnwindTable
from .numbers import Numbers

PADDING = 16         # bytes: what is less lies between functions that are aligned, and is never executed
LINKED_PADDING = 12  # the same of aarch64, whose vdso has the code that signal handlers return to in a gap of that size
MOST_ROWS = 1 << 16  # of an answer, and those of an entry more
_AARCH64 = 183       # EM_
_SP, _BP, _RETURN = 7, 6, 16  # DWARF's numbers of registers: System V ABI, x86-64
_ARM_SP, _ARM_BP, _ARM_RETURN = 31, 29, 30  # DWARF for the Arm 64-bit Architecture, 4.1
_BREG, _DEREF, _PLUS, _LIT = 0x70, 0x06, 0x23, 0x30
_WORDS = range(-1 << 15, 1 << 15)
# The address of a PLT entry's frame, as linkers say it: sp + 8 + (((pc & 15) >= n) << 3)
_PLT_HEAD, _PLT_TAIL = bytes((_BREG + _SP, 8, _BREG + _RETURN, 0, _LIT + 15, 0x1A)), bytes((0x2A, _LIT + 3, 0x24, 0x22))


def pack_rows(table: UnwindTable, first: int, offset_of: Any) -> tuple[bytes, int]:
    """Rows of the entries from the ``first`` one on, and the number of the entry to go on with (0: that was all).
    ``offset_of`` gives the place in the file of an address, or None."""
    entries, found, last = table.entries, bytearray(), -1
    rule_of, padding = (_linked_rule_of, LINKED_PADDING) if table.machine == _AARCH64 else (_rule_of, PADDING)
    for number in range(first, len(entries)):
        start, end, at = entries[number]
        offset = offset_of(start)
        if len(found) > MOST_ROWS * ROW.size:
            return bytes(found), number
        if offset is None or not 0 < end - start < 1 << 32 or offset + end - start >= 1 << 32:
            continue
        for address, row in table.entry_rows(start, at):
            rule = rule_of(row)
            if rule != last and address < end:
                found += ROW.pack(offset + address - start, rule)
                last = rule
        if number + 1 == len(entries) or entries[number + 1][0] >= end + padding:
            found += ROW.pack(offset + end - start, NO_TABLE)
            last = NO_TABLE
    return bytes(found), 0


def _rule_of(row: UnwindRow) -> int:
    back, saved = row.rules.get(_RETURN), row.rules.get(_BP)
    if back is not None and back[0] == "undefined":
        return pack_rule(OUTERMOST)
    kind, words = _frame_of(row.cfa)
    if kind == SP_AT and back == ("expression", _based_on_sp(8 * words + 8)):
        known = saved == ("expression", _based_on_sp(8 * words - 40))
        return pack_rule(SIGNAL, words) if known else pack_rule(UNKNOWN)
    if kind == UNKNOWN or back != ("offset", -8):
        return pack_rule(UNKNOWN)
    return pack_rule(kind, words, _saved_of(saved))


def _linked_rule_of(row: UnwindRow) -> int:
    """Where calls leave the return address in a register."""
    back, saved = row.rules.get(_ARM_RETURN), row.rules.get(_ARM_BP)
    if back is not None and back[0] == "undefined":
        return pack_rule(OUTERMOST)
    base, offset = row.cfa if isinstance(row.cfa, tuple) else (0, 0)
    if base not in (_ARM_SP, _ARM_BP) or offset % 8 or not 0 <= offset // 8 <= LIES_BITS:
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
    return pack_linked_rule(kinds[base == _ARM_BP], offset // 8, lies)


def _frame_of(cfa: Any) -> tuple[int, int]:
    """(kind, words) of what says where a frame is."""
    if isinstance(cfa, tuple):
        kind, offset = {_SP: SP, _BP: BP}.get(cfa[0], UNKNOWN), cfa[1]
        return (kind, offset // 8) if offset % 8 == 0 and offset // 8 in _WORDS else (UNKNOWN, 0)
    if not isinstance(cfa, bytes) or len(cfa) < 3:
        return UNKNOWN, 0
    if cfa.startswith(_PLT_HEAD) and cfa.endswith(_PLT_TAIL) and len(cfa) == len(_PLT_HEAD) + 1 + len(_PLT_TAIL):
        boundary = cfa[len(_PLT_HEAD)] - _LIT
        return (PLT, boundary) if 0 <= boundary < 16 else (UNKNOWN, 0)
    reader = Numbers(cfa, 0, 1, len(cfa))
    offset, rest = reader.read_sleb128(), cfa[reader.at:]
    kind = {(_BREG + _SP, bytes((_DEREF,))): SP_AT, (_BREG + _BP, bytes((_DEREF,))): BP_AT,
            (_BREG + _SP, bytes((_DEREF, _PLUS, 8))): SP_AT_8}.get((cfa[0], rest), UNKNOWN)
    return (kind, offset // 8) if offset % 8 == 0 and offset // 8 in _WORDS else (UNKNOWN, 0)


def _saved_of(rule: tuple[str, Any] | None) -> int:
    """Where the caller's frame pointer is."""
    if rule is None or rule[0] == "undefined":
        return KEPT
    if rule == ("expression", bytes((_BREG + _BP, 0))):
        return AT_BP
    kind, at = rule
    return -at // 8 if kind == "offset" and at < 0 and at % 8 == 0 and -at // 8 < AT_BP else GONE


def _based_on_sp(offset: int) -> bytes:
    """The expression ``stack pointer + offset``."""
    found = [_BREG + _SP]
    while not -64 <= offset < 64:
        found.append(offset & 0x7F | 0x80)
        offset >>= 7
    return bytes([*found, offset & 0x7F])
