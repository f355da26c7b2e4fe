"""Unwinding stacks by the tables in ``.eh_frame``, from registers and a copy of the stack."""

from __future__ import annotations

import struct

from ...arch import Arch
from ...errors import MachineError
from ..foreign import dwarf_operations as dw
from ..foreign import mapped
from ..foreign.dwarf_numbers import DamagedTablesError, Numbers
from ..foreign.files import FrameRow
from .user_symbols import Mapping, vdso_file, vdso_image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MOST = 256  # frames


class Unwinder:
    """Walks the stacks of processes. ``short`` counts those whose end was not reached: they exceed the copy, or lead
    through code without tables."""

    def __init__(self, arch: Arch) -> None:
        self.short = 0
        self._names, self._sp, self._trampoline = arch.dwarf_registers, arch.dwarf_stack_pointer, arch.signal_return
        self._above, self._code_bits = arch.cfa_above_stack, arch.code_address_bits

    def walk_stack(self, registers: dict[str, int], stack: bytes, base: int, find: Callable[[int], Mapping | None],
                   limit: int) -> list[int]:
        """Instruction addresses, innermost first, as far as tables and the copy of the stack (from ``base``) reach;
        ``find`` gives the mapping at an address."""
        values = {number: registers[name] for number, name in enumerate(self._names) if name in registers}
        pc, exact = registers["pc"], True
        addresses: list[int] = []
        memory = _Memory(stack, base)
        while pc and len(addresses) < min(limit, MOST):
            addresses.append(pc)
            try:
                step = self._unwind_frame(pc, exact, values, memory, find)
            except (DamagedTablesError, MachineError, struct.error, IndexError, KeyError):
                self.short += 1
                break
            if step is None:
                break
            if step[1].get(self._sp, 0) <= values[self._sp] and not step[2] and len(addresses) > 1:
                self.short += 1  # a stack that does not get shorter never ends
                break
            pc, values, exact = step
        return addresses

    def _unwind_frame(self, pc: int, exact: bool, values: dict[int, int], memory: _Memory,
                      find: Callable[[int], Mapping | None]) -> tuple[int, dict[int, int], bool] | None:
        """The caller's (pc, registers, whether the pc is that of an interrupted instruction); None at the end."""
        address = pc if exact else pc - 1  # a return address; it is the call before it that belongs to the function
        mapping = find(address)
        if mapping is not None and self._is_signal_return(pc, mapping):
            return self._leave_signal(values, memory)
        row = self._frame_row_at(mapping, address) if mapping is not None else None
        if row is None:
            raise DamagedTablesError("no table has this place")
        cfa = evaluate_expression(row.cfa, values, memory, []) if isinstance(row.cfa, bytes) else \
            values[row.cfa[0]] + row.cfa[1]
        caller = dict(values)
        caller[self._sp] = cfa - self._above & (1 << 64) - 1
        for register, (kind, argument) in row.rules.items():
            caller[register] = self._caller_register(kind, argument, cfa, values, memory)
        back = caller.get(row.return_register, 0)
        if row.rules.get(row.return_register, ("", 0))[0] == "undefined":
            return None
        return back & (1 << self._code_bits) - 1, caller, row.signal

    def _is_signal_return(self, pc: int, mapping: Mapping) -> bool:
        """Whether it is the code that signal handlers return to, in a vdso without tables."""
        code = self._trampoline[0]
        return bool(code) and mapping.name == "[vdso]" and vdso_image().startswith(code, pc - mapping.start)

    def _leave_signal(self, values: dict[int, int], memory: _Memory) -> tuple[int, dict[int, int], bool]:
        """The frame that a signal interrupted: the kernel saved all its registers on the stack."""
        at = values[self._sp] + self._trampoline[1]
        saved = [memory.read_word(at + 8 * number) for number in range(len(self._names) + 1)]
        return saved[-1], dict(enumerate(saved[:-1])), True

    @staticmethod
    def _caller_register(kind: str, argument: Any, cfa: int, values: dict[int, int], memory: _Memory) -> int:
        if kind == "offset":
            return memory.read_word(cfa + argument)
        if kind == "value":
            return int(cfa + argument)
        if kind == "register":
            return values[argument]
        if kind == "expression":
            return memory.read_word(evaluate_expression(argument, values, memory, [cfa]))
        return evaluate_expression(argument, values, memory, [cfa]) if kind == "value expression" else 0

    @staticmethod
    def _frame_row_at(mapping: Mapping, address: int) -> FrameRow | None:
        if mapping.name == "[vdso]":
            code = vdso_file()
            return code.frame_row(address - mapping.start) if code is not None else None
        file = mapped.open_mapped(mapping.path, mapping.build_id) if mapping.path else None
        virtual = file.offset_to_address(address - mapping.start + mapping.offset) if file is not None else None
        return file.frame_row(virtual) if file is not None and virtual is not None else None


class _Memory:
    """The copy of the stack."""

    def __init__(self, data: bytes, base: int) -> None:
        self._data, self._base = data, base

    def read_word(self, address: int) -> int:
        at = (address & (1 << 64) - 1) - self._base
        if not 0 <= at <= len(self._data) - 8:
            raise DamagedTablesError("beyond the copy of the stack")
        return int(struct.unpack_from("=Q", self._data, at)[0])


_ARITHMETIC: dict[int, Callable[[int, int], int]] = {
    dw.OP_AND: lambda a, b: a & b, dw.OP_OR: lambda a, b: a | b, dw.OP_XOR: lambda a, b: a ^ b,
    dw.OP_PLUS: lambda a, b: a + b, dw.OP_MINUS: lambda a, b: a - b, dw.OP_MUL: lambda a, b: a * b,
    dw.OP_SHL: lambda a, b: a << min(b, 64), dw.OP_SHR: lambda a, b: a >> min(b, 64),
    dw.OP_EQ: lambda a, b: a == b, dw.OP_NE: lambda a, b: a != b, dw.OP_GE: lambda a, b: a >= b,
    dw.OP_GT: lambda a, b: a > b, dw.OP_LE: lambda a, b: a <= b, dw.OP_LT: lambda a, b: a < b}
_CONSTANTS = "BbHhIiQq"  # the formats of OP_CONST1U to OP_CONST8S


def evaluate_expression(code: bytes, values: dict[int, int], memory: Any, stack: list[int]) -> int:
    """Evaluate a DWARF expression as in frame tables: registers, numbers, arithmetic, reads of the stack."""
    reader = Numbers(code, 0, 0, len(code))
    while reader.at < reader.end:
        op = reader.read_byte()
        if dw.OP_LIT0 <= op <= dw.OP_LIT31:
            stack.append(op - dw.OP_LIT0)
        elif dw.OP_BREG0 <= op <= dw.OP_BREG31:
            stack.append(values[op - dw.OP_BREG0] + reader.read_sleb128())
        elif op in _ARITHMETIC:
            right, left = stack.pop(), stack.pop()
            stack.append(int(_ARITHMETIC[op](left, right)) & (1 << 64) - 1)
        elif op == dw.OP_DEREF:
            stack.append(memory.read_word(stack.pop()))
        elif op == dw.OP_DUP:
            stack.append(stack[-1])
        elif op == dw.OP_PLUS_UCONST:
            stack.append(stack.pop() + reader.read_uleb128())
        elif op == dw.OP_CONSTU:
            stack.append(reader.read_uleb128())
        elif op == dw.OP_CONSTS:
            stack.append(reader.read_sleb128())
        elif dw.OP_CONST1U <= op <= dw.OP_CONST8S:
            stack.append(reader.read_fixed(_CONSTANTS[op - dw.OP_CONST1U]))
        else:
            raise DamagedTablesError(f"operation {op:#x} is not known")
    return stack[-1]
