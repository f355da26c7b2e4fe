"""The tables in ``.eh_frame``: where a function's caller finds its registers.

The format is that of the Linux Standard Base (Exception Frames, .eh_frame and .eh_frame_hdr) and DWARF 5, section 6.4.
"""

from __future__ import annotations

import struct

from ...base.record import Record
from ...errors import MachineError
from .dwarf_numbers import DamagedTablesError, Numbers
from .elf import Elf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MOST_RULES = 128       # registers of a row


class UnwindRow(Record):
    """The rule for an address: the canonical frame address and where the caller's registers are.

    ``cfa`` is (register, offset) or an expression; rules are ("offset", n), ("value", n), ("register", r),
    ("expression", bytes), ("value expression", bytes), ("undefined", 0).
    """

    cfa: Any = None
    rules: dict[int, tuple[str, Any]] = {}


class UnwindTable:
    """The unwind table of one ELF file."""

    def __init__(self, elf: Elf) -> None:
        section = elf.find_section(".eh_frame")
        if section is None:
            raise MachineError("no .eh_frame")
        self._data, self._at = elf.section_bytes(section), section.address
        self.machine = elf.machine
        self._entries: list[tuple[int, int, int]] | None = None
        self._cies: dict[int, _Cie] = {}

    @property
    def entries(self) -> list[tuple[int, int, int]]:
        """(first address, end, place) of every entry, in order."""
        if self._entries is None:
            self._entries = sorted(self._read_entries())
        return self._entries

    def find_entry(self, address: int) -> tuple[int, int, int] | None:
        """The entry of a virtual address."""
        entries = self.entries
        low, high = 0, len(entries)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if entries[middle][0] <= address else (low, middle)
        return entries[low - 1] if low and entries[low - 1][0] <= address < entries[low - 1][1] else None

    def find_row(self, address: int) -> tuple[UnwindRow, bool, int] | None:
        """(row, whether it is a signal's frame, the return address's register) at a virtual address."""
        entry = self.find_entry(address)
        if entry is None:
            return None
        start, _, at = entry
        cie, program = self._read_entry(at)
        state = _State(cie, start)
        for following in state.execute_program(program):
            if following > address:
                break
        return state.row, cie.signal, cie.return_register

    def entry_rows(self, start: int, at: int) -> Iterator[tuple[int, UnwindRow]]:
        """(first address, row) of all rows of an entry; each is valid until the next is taken."""
        cie, program = self._read_entry(at)
        state = _State(cie, start)
        for _ in state.execute_program(program):
            yield state.location, state.row
        yield state.location, state.row

    def _read_entries(self) -> list[tuple[int, int, int]]:
        """(first address, end, place) of every entry."""
        entries, at = [], 0
        while at + 4 <= len(self._data):
            length, = struct.unpack_from("=I", self._data, at)
            if not length:
                break
            if length == 0xFFFFFFFF or at + 4 + length > len(self._data):
                raise DamagedTablesError("an entry is too long")
            back, = struct.unpack_from("=I", self._data, at + 4)
            if back:
                cie = self._cie_at(at + 4 - back)
                reader = Numbers(self._data, self._at, at + 8, at + 4 + length)
                start = reader.read_pointer(cie.encoding)
                size = reader.read_pointer(cie.encoding & 0x0F)
                entries.append((start, start + size, at))
            at += 4 + length
        return entries

    def _read_entry(self, at: int) -> tuple[_Cie, bytes]:
        length, back = struct.unpack_from("=II", self._data, at)
        cie = self._cie_at(at + 4 - back)
        reader = Numbers(self._data, self._at, at + 8, at + 4 + length)
        reader.read_pointer(cie.encoding)
        reader.read_pointer(cie.encoding & 0x0F)
        if cie.augmented:
            reader.at += reader.read_uleb128()
        return cie, self._data[reader.at:reader.end]

    def _cie_at(self, at: int) -> _Cie:
        if at not in self._cies:
            self._cies[at] = _read_cie(self._data, self._at, at)
        return self._cies[at]


class _Cie(Record):
    """What the entries of a group have in common."""

    code: int
    data: int
    return_register: int
    encoding: int
    augmented: bool
    signal: bool
    program: bytes


def _read_cie(data: bytes, base: int, at: int) -> _Cie:
    length, = struct.unpack_from("=I", data, at)
    reader = Numbers(data, base, at + 8, at + 4 + length)
    version = reader.read_byte()
    end = data.find(b"\0", reader.at)
    augmentation = data[reader.at:end].decode("latin-1")
    reader.at = end + 1
    code, factor = reader.read_uleb128(), reader.read_sleb128()
    register = reader.read_byte() if version == 1 else reader.read_uleb128()
    encoding, start = 0, reader.at
    if augmentation.startswith("z"):
        size = reader.read_uleb128()
        start = reader.at + size
        for letter in augmentation[1:]:
            if letter == "R":
                encoding = reader.read_byte()
            elif letter == "L":
                reader.read_byte()
            elif letter == "P":
                reader.read_pointer(reader.read_byte())
    return _Cie(code, factor, register, encoding, augmentation.startswith("z"), "S" in augmentation,
                data[start:reader.end])


# Call frame instructions (DWARF 5, section 7.24): the high two bits of some, whose low six are an operand; the others
_ADVANCE_LOC, _OFFSET, _RESTORE = 1, 2, 3
_NOP, _SET_LOC, _ADVANCE_LOC1, _ADVANCE_LOC2, _ADVANCE_LOC4, _OFFSET_EXTENDED, _RESTORE_EXTENDED = range(7)
_UNDEFINED, _SAME_VALUE, _REGISTER, _REMEMBER_STATE, _RESTORE_STATE = range(0x07, 0x0C)
_DEF_CFA, _DEF_CFA_REGISTER, _DEF_CFA_OFFSET, _DEF_CFA_EXPRESSION, _EXPRESSION = range(0x0C, 0x11)
_OFFSET_EXTENDED_SF, _DEF_CFA_SF, _DEF_CFA_OFFSET_SF, _VAL_OFFSET, _VAL_OFFSET_SF, _VAL_EXPRESSION = range(0x11, 0x17)
_NEGATE_RA_STATE, _GNU_ARGS_SIZE = 0x2D, 0x2E
_ADVANCES = {_ADVANCE_LOC1: "B", _ADVANCE_LOC2: "H", _ADVANCE_LOC4: "I"}  # the encoding of each one's operand


class _State:
    """The state while an entry's instructions are executed: ``row`` holds from ``location`` on."""

    def __init__(self, cie: _Cie, location: int) -> None:
        self.cie, self.location = cie, location
        self.row = UnwindRow(None, {})
        self.initial: dict[int, tuple[str, Any]] = {}
        self.saved: list[tuple[Any, dict[int, tuple[str, Any]]]] = []
        for _ in self.execute_program(cie.program):
            pass
        self.initial = dict(self.row.rules)

    def execute_program(self, program: bytes) -> Iterator[int]:
        """Execute instructions; before each change of address, yield where the current row ends."""
        reader = Numbers(program, 0, 0, len(program))
        while reader.at < reader.end:
            op = reader.read_byte()
            low = op & 0x3F
            if op >> 6 == _ADVANCE_LOC or op in _ADVANCES:
                steps = reader.read_fixed(_ADVANCES[op]) if op in _ADVANCES else low
                following = self.location + steps * self.cie.code
                yield following
                self.location = following
            elif op >> 6 == _OFFSET:
                self.row.rules[low] = "offset", reader.read_uleb128() * self.cie.data
            elif op >> 6 == _RESTORE:
                self._restore_rule(low)
            else:
                self._execute_other(op, reader)

    def _restore_rule(self, register: int) -> None:
        if register in self.initial:
            self.row.rules[register] = self.initial[register]
        else:
            self.row.rules.pop(register, None)

    def _execute_other(self, op: int, reader: Numbers) -> None:
        row, factor = self.row, self.cie.data
        if op == _NOP:
            return
        if op == _REMEMBER_STATE:
            self.saved.append((row.cfa, dict(row.rules)))
        elif op == _RESTORE_STATE:
            if not self.saved:
                raise DamagedTablesError("a state is restored that was not saved")
            row.cfa, row.rules = self.saved.pop()
        elif op == _DEF_CFA:
            row.cfa = reader.read_uleb128(), reader.read_uleb128()
        elif op == _DEF_CFA_SF:
            row.cfa = reader.read_uleb128(), reader.read_sleb128() * factor
        elif op == _DEF_CFA_REGISTER:
            row.cfa = reader.read_uleb128(), row.cfa[1] if isinstance(row.cfa, tuple) else 0
        elif op in (_DEF_CFA_OFFSET, _DEF_CFA_OFFSET_SF):
            offset = reader.read_uleb128() if op == _DEF_CFA_OFFSET else reader.read_sleb128() * factor
            row.cfa = row.cfa[0] if isinstance(row.cfa, tuple) else 7, offset
        elif op == _DEF_CFA_EXPRESSION:
            row.cfa = reader.read_block()
        elif op == _GNU_ARGS_SIZE:
            reader.read_uleb128()
        elif op == _NEGATE_RA_STATE:  # the return address is signed from here on, or no longer (aarch64)
            return
        else:
            self._set_rule(op, reader.read_uleb128(), reader, factor)

    def _set_rule(self, op: int, register: int, reader: Numbers, factor: int) -> None:
        rules = self.row.rules
        if op == _OFFSET_EXTENDED:
            rules[register] = "offset", reader.read_uleb128() * factor
        elif op == _OFFSET_EXTENDED_SF:
            rules[register] = "offset", reader.read_sleb128() * factor
        elif op in (_VAL_OFFSET, _VAL_OFFSET_SF):
            rules[register] = "value", (reader.read_uleb128() if op == _VAL_OFFSET else reader.read_sleb128()) * factor
        elif op == _RESTORE_EXTENDED:
            self._restore_rule(register)
        elif op == _UNDEFINED:
            rules[register] = "undefined", 0
        elif op == _SAME_VALUE:
            rules.pop(register, None)
        elif op == _REGISTER:
            rules[register] = "register", reader.read_uleb128()
        elif op in (_EXPRESSION, _VAL_EXPRESSION):
            rules[register] = "expression" if op == _EXPRESSION else "value expression", reader.read_block()
        else:
            raise DamagedTablesError(f"instruction {op:#x} is not known")
