"""Unwinding stacks by the tables in ``.eh_frame``, from registers and a copy of the stack.

The format is that of the Linux Standard Base (Exception Frames, .eh_frame and .eh_frame_hdr) and DWARF 5, section 6.4.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ..errors import EnvironmentProblem
from ..record import Record
from .elf import Elf, open_elf
from .symbols import Mapping, vdso

# DWARF's numbers of registers: those in pt_regs (arch.py), stack pointer and return address
NUMBERS = {"x86_64": ("ax dx cx bx si di bp sp r8 r9 r10 r11 r12 r13 r14 r15".split(), 7, 16),
           "aarch64": ([*(f"r{n}" for n in range(31)), "sp"], 31, 30)}
_PC_RELATIVE, _OMIT = 0x10, 0xFF
_FORMATS = {0x00: "Q", 0x02: "H", 0x03: "I", 0x04: "Q", 0x0A: "h", 0x0B: "i", 0x0C: "q"}
MOST = 256  # frames


class Damaged(Exception):
    """The tables or the stack are not as they should be."""


class Row(Record):
    """What holds at an address: the canonical frame address and where the caller's registers are.

    ``cfa`` is (register, offset) or an expression; rules are ("offset", n), ("value", n), ("register", r),
    ("expression", bytes), ("value expression", bytes), ("undefined", 0).
    """

    cfa: Any = None
    rules: dict[int, tuple[str, Any]] = {}


class Table:
    """The unwind table of one ELF file."""

    def __init__(self, elf: Elf) -> None:
        section = elf.section(".eh_frame")
        if section is None:
            raise EnvironmentProblem(f"{elf.path}: no .eh_frame")
        self._data, self._at = elf.contents(section), section.address
        self._entries: list[tuple[int, int, int]] | None = None
        self._cies: dict[int, _Cie] = {}

    def row(self, address: int) -> tuple[Row, bool, int] | None:
        """(row, whether it is a signal's frame, the return address's number) at a virtual address."""
        if self._entries is None:
            self._entries = sorted(self._all())
        low, high = 0, len(self._entries)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._entries[middle][0] <= address else (low, middle)
        if not low:
            return None
        start, end, at = self._entries[low - 1]
        if not start <= address < end:
            return None
        cie, program = self._entry(at)
        return _run(cie, program, start, address), cie.signal, cie.return_register

    def _all(self) -> list[tuple[int, int, int]]:
        """(first address, end, place) of every entry."""
        found, at = [], 0
        while at + 4 <= len(self._data):
            length, = struct.unpack_from("=I", self._data, at)
            if not length:
                break
            if length == 0xFFFFFFFF or at + 4 + length > len(self._data):
                raise Damaged("an entry is too long")
            back, = struct.unpack_from("=I", self._data, at + 4)
            if back:
                cie = self._cie(at + 4 - back)
                reader = _Reader(self._data, self._at, at + 8, at + 4 + length)
                start = reader.pointer(cie.encoding)
                size = reader.pointer(cie.encoding & 0x0F)
                found.append((start, start + size, at))
            at += 4 + length
        return found

    def _entry(self, at: int) -> tuple[_Cie, bytes]:
        length, back = struct.unpack_from("=II", self._data, at)
        cie = self._cie(at + 4 - back)
        reader = _Reader(self._data, self._at, at + 8, at + 4 + length)
        reader.pointer(cie.encoding)
        reader.pointer(cie.encoding & 0x0F)
        if cie.augmented:
            reader.at += reader.unsigned()
        return cie, self._data[reader.at:reader.end]

    def _cie(self, at: int) -> _Cie:
        if at not in self._cies:
            self._cies[at] = _read_cie(self._data, self._at, at)
        return self._cies[at]


class _Cie(Record):
    """What entries have in common."""

    code: int
    data: int
    return_register: int
    encoding: int
    augmented: bool
    signal: bool
    program: bytes


def _read_cie(data: bytes, base: int, at: int) -> _Cie:
    length, = struct.unpack_from("=I", data, at)
    reader = _Reader(data, base, at + 8, at + 4 + length)
    version = reader.byte()
    end = data.find(b"\0", reader.at)
    augmentation = data[reader.at:end].decode("latin-1")
    reader.at = end + 1
    code, factor = reader.unsigned(), reader.signed()
    register = reader.byte() if version == 1 else reader.unsigned()
    encoding, behind = 0, reader.at
    if augmentation.startswith("z"):
        size = reader.unsigned()
        behind = reader.at + size
        for letter in augmentation[1:]:
            if letter == "R":
                encoding = reader.byte()
            elif letter == "L":
                reader.byte()
            elif letter == "P":
                reader.pointer(reader.byte())
    return _Cie(code, factor, register, encoding, augmentation.startswith("z"), "S" in augmentation,
                data[behind:reader.end])


class _Reader:
    """Numbers of a section; ``base`` is the section's address."""

    def __init__(self, data: bytes, base: int, at: int, end: int) -> None:
        self.data, self.base, self.at, self.end = data, base, at, end

    def byte(self) -> int:
        if self.at >= self.end:
            raise Damaged("an entry is cut off")
        self.at += 1
        return self.data[self.at - 1]

    def unsigned(self) -> int:
        return self._leb128()[0]

    def signed(self) -> int:
        value, bits = self._leb128()
        return value - (1 << bits) if value >> bits - 1 else value

    def _leb128(self) -> tuple[int, int]:
        """A number, seven bits to the byte and the lowest ones first, and how many bits it was written in."""
        value = bits = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << bits
            bits += 7
            if byte < 0x80:
                return value, bits

    def word(self, code: str) -> int:
        size = struct.calcsize("=" + code)
        if self.at + size > self.end:
            raise Damaged("an entry is cut off")
        self.at += size
        return int(struct.unpack_from("=" + code, self.data, self.at - size)[0])

    def pointer(self, encoding: int) -> int:
        """A number or address in one of the encodings of DW_EH_PE_."""
        if encoding == _OMIT:
            return 0
        place = self.base + self.at
        form = encoding & 0x0F
        value = self.unsigned() if form == 1 else self.signed() if form == 9 else self.word(_FORMATS.get(form, "Q"))
        if encoding & 0x70 == _PC_RELATIVE and value:
            value += place
        return value & (1 << 64) - 1

    def block(self) -> bytes:
        size = self.unsigned()
        self.at += size
        if self.at > self.end:
            raise Damaged("an entry is cut off")
        return self.data[self.at - size:self.at]


def _run(cie: _Cie, program: bytes, start: int, address: int) -> Row:
    """Execute the instructions of an entry up to an address."""
    state = _State(cie, start, address)
    state.execute(cie.program)
    state.initial = dict(state.row.rules)
    state.execute(program)
    return state.row


class _State:
    def __init__(self, cie: _Cie, location: int, wanted: int) -> None:
        self.cie, self.location, self.wanted = cie, location, wanted
        self.row = Row()
        self.initial: dict[int, tuple[str, Any]] = {}
        self.saved: list[tuple[Any, dict[int, tuple[str, Any]]]] = []

    def execute(self, program: bytes) -> None:
        reader = _Reader(program, 0, 0, len(program))
        while reader.at < reader.end and self.location <= self.wanted:
            op = reader.byte()
            low = op & 0x3F
            if op >> 6 == 1:
                self.location += low * self.cie.code
            elif op >> 6 == 2:
                self.row.rules[low] = "offset", reader.unsigned() * self.cie.data
            elif op >> 6 == 3:
                self._restore(low)
            elif op in (0x02, 0x03, 0x04):
                self.location += reader.word({2: "B", 3: "H", 4: "I"}[op]) * self.cie.code
            else:
                self._other(op, reader)

    def _restore(self, register: int) -> None:
        if register in self.initial:
            self.row.rules[register] = self.initial[register]
        else:
            self.row.rules.pop(register, None)

    def _other(self, op: int, reader: _Reader) -> None:
        row, factor = self.row, self.cie.data
        if op == 0x00:
            return
        if op == 0x0A:
            self.saved.append((row.cfa, dict(row.rules)))
        elif op == 0x0B:
            if not self.saved:
                raise Damaged("a state is restored that was not saved")
            row.cfa, row.rules = self.saved.pop()
        elif op in (0x0C, 0x12):
            row.cfa = reader.unsigned(), reader.unsigned() if op == 0x0C else reader.signed() * factor
        elif op == 0x0D:
            row.cfa = reader.unsigned(), row.cfa[1] if isinstance(row.cfa, tuple) else 0
        elif op in (0x0E, 0x13):
            offset = reader.unsigned() if op == 0x0E else reader.signed() * factor
            row.cfa = row.cfa[0] if isinstance(row.cfa, tuple) else 7, offset
        elif op == 0x0F:
            row.cfa = reader.block()
        elif op == 0x2E:  # DW_CFA_GNU_args_size
            reader.unsigned()
        elif op == 0x2D:  # the return address is signed from here on, or no more (aarch64)
            return
        else:
            self._rule(op, reader.unsigned(), reader, factor)

    def _rule(self, op: int, register: int, reader: _Reader, factor: int) -> None:
        rules = self.row.rules
        if op == 0x05:
            rules[register] = "offset", reader.unsigned() * factor
        elif op == 0x11:
            rules[register] = "offset", reader.signed() * factor
        elif op in (0x14, 0x15):
            rules[register] = "value", (reader.unsigned() if op == 0x14 else reader.signed()) * factor
        elif op == 0x06:
            self._restore(register)
        elif op == 0x07:
            rules[register] = "undefined", 0
        elif op == 0x08:
            rules.pop(register, None)
        elif op == 0x09:
            rules[register] = "register", reader.unsigned()
        elif op in (0x10, 0x16):
            rules[register] = "expression" if op == 0x10 else "value expression", reader.block()
        else:
            raise Damaged(f"instruction {op:#x} is not known")


class Unwinder:
    """Walks the stacks of processes. ``short`` counts those whose end was not reached: larger than what was copied of
    them, or through code without tables."""

    def __init__(self, arch: str) -> None:
        self.short = 0
        self._names, self._sp, self._return = NUMBERS[arch]
        self._tables: dict[str, Table | None] = {}

    def walk(self, registers: dict[str, int], stack: bytes, base: int, find: Callable[[int], Mapping | None],
             limit: int) -> list[int]:
        """Instruction addresses, innermost first, as far as tables and the copy of the stack (from ``base``) lead;
        ``find`` gives the mapping at an address."""
        values = {number: registers[name] for number, name in enumerate(self._names) if name in registers}
        pc, exact = registers["ip" if "ip" in registers else "pc"], True
        found: list[int] = []
        memory = _Memory(stack, base)
        while pc and len(found) < min(limit, MOST):
            found.append(pc)
            try:
                step = self._step(pc, exact, values, memory, find)
            except (Damaged, EnvironmentProblem, struct.error, IndexError, KeyError):
                self.short += 1
                break
            if step is None:
                break
            if step[1].get(self._sp, 0) <= values[self._sp] and not step[2] and len(found) > 1:
                self.short += 1  # a stack that does not get shorter leads nowhere
                break
            pc, values, exact = step
        return found

    def _step(self, pc: int, exact: bool, values: dict[int, int], memory: _Memory,
              find: Callable[[int], Mapping | None]) -> tuple[int, dict[int, int], bool] | None:
        """The caller's (pc, registers, whether the pc is that of an interrupted instruction); None at the end."""
        place = pc if exact else pc - 1  # behind a call; the call is what belongs to the function
        mapping = find(place)
        table = self._table(mapping) if mapping is not None else None
        if mapping is None or table is None:
            raise Damaged("no table for this place")
        known = table.row(self._address(mapping, place))
        if known is None:
            raise Damaged("the table does not have this place")
        row, signal, return_register = known
        cfa = evaluate(row.cfa, values, memory, []) if isinstance(row.cfa, bytes) else \
            values[row.cfa[0]] + row.cfa[1]
        caller = dict(values)
        caller[self._sp] = cfa & (1 << 64) - 1
        for register, (kind, argument) in row.rules.items():
            caller[register] = self._value(kind, argument, cfa, values, memory)
        back = caller.get(return_register, 0)
        if row.rules.get(return_register, ("", 0))[0] == "undefined":
            return None
        return back, caller, signal

    @staticmethod
    def _value(kind: str, argument: Any, cfa: int, values: dict[int, int], memory: _Memory) -> int:
        if kind == "offset":
            return memory.word(cfa + argument)
        if kind == "value":
            return int(cfa + argument)
        if kind == "register":
            return values[argument]
        if kind == "expression":
            return memory.word(evaluate(argument, values, memory, [cfa]))
        return evaluate(argument, values, memory, [cfa]) if kind == "value expression" else 0

    def _table(self, mapping: Mapping) -> Table | None:
        key = mapping.path or mapping.name
        if key not in self._tables:
            try:
                elf = vdso() if mapping.name == "[vdso]" else open_elf(mapping.path) if mapping.path else None
                self._tables[key] = Table(elf) if elf is not None else None
            except EnvironmentProblem:
                self._tables[key] = None
        return self._tables[key]

    @staticmethod
    def _address(mapping: Mapping, place: int) -> int:
        """The virtual address in the file."""
        offset = place - mapping.start + mapping.offset
        if mapping.name == "[vdso]":
            return place - mapping.start
        address = open_elf(mapping.path).address(offset)
        if address is None:
            raise Damaged("not loaded from the file")
        return address


class _Memory:
    """The copy of the stack."""

    def __init__(self, data: bytes, base: int) -> None:
        self._data, self._base = data, base

    def word(self, address: int) -> int:
        at = (address & (1 << 64) - 1) - self._base
        if not 0 <= at <= len(self._data) - 8:
            raise Damaged("beyond the copy of the stack")
        return int(struct.unpack_from("=Q", self._data, at)[0])


_ARITHMETIC: dict[int, Callable[[int, int], int]] = {
    0x1A: lambda a, b: a & b, 0x1C: lambda a, b: a - b, 0x1E: lambda a, b: a * b, 0x21: lambda a, b: a | b,
    0x22: lambda a, b: a + b, 0x24: lambda a, b: a << min(b, 64), 0x25: lambda a, b: a >> min(b, 64),
    0x27: lambda a, b: a ^ b, 0x29: lambda a, b: a == b, 0x2A: lambda a, b: a >= b, 0x2B: lambda a, b: a > b,
    0x2C: lambda a, b: a <= b, 0x2D: lambda a, b: a < b, 0x2E: lambda a, b: a != b}


def evaluate(code: bytes, values: dict[int, int], memory: Any, stack: list[int]) -> int:
    """A DWARF expression as frame tables have them: registers, numbers, arithmetic, reads of the stack."""
    reader = _Reader(code, 0, 0, len(code))
    while reader.at < reader.end:
        op = reader.byte()
        if 0x30 <= op <= 0x4F:
            stack.append(op - 0x30)
        elif 0x70 <= op <= 0x8F:
            stack.append(values[op - 0x70] + reader.signed())
        elif op in _ARITHMETIC:
            right, left = stack.pop(), stack.pop()
            stack.append(int(_ARITHMETIC[op](left, right)) & (1 << 64) - 1)
        elif op == 0x06:
            stack.append(memory.word(stack.pop()))
        elif op == 0x12:
            stack.append(stack[-1])
        elif op == 0x23:
            stack.append(stack.pop() + reader.unsigned())
        elif op in (0x10, 0x11):
            stack.append(reader.unsigned() if op == 0x10 else reader.signed())
        elif 0x08 <= op <= 0x0F:
            stack.append(reader.word("BbHhIiQq"[op - 8]))
        else:
            raise Damaged(f"operation {op:#x} is not known")
    return stack[-1]
