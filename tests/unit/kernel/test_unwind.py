"""Unwinding outside: out of a signal where the kernel's code has no table, and by signed return addresses."""

from __future__ import annotations

import struct

import pytest

from sonde.arch import ARCHES
from sonde.kernel.foreign.files import FrameRow
from sonde.kernel.names import unwind
from sonde.kernel.names.user_symbols import Mapping

VDSO, BASE = Mapping(0x7000, 0x8000, 0, "", "[vdso]"), 0x10000
REGISTERS = [*range(100, 131), BASE + 0x800, 0x4444]  # x0 ... x30, sp, pc, as the kernel saves them


def walked(code: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], int]:
    """The frames of a handler that returned to this code in the vdso, and stacks cut short."""
    monkeypatch.setattr(unwind, "vdso_file", lambda: None)
    monkeypatch.setattr(unwind, "vdso_image", lambda: bytes(16) + bytes.fromhex(code))
    arch = ARCHES["aarch64"]
    stack = bytearray(4096)
    stack[64 + 312:64 + 312 + 8 * 33] = struct.pack("=33Q", *REGISTERS)
    registers = dict.fromkeys(arch.registers, 0) | {"sp": BASE + 64, "pc": VDSO.start + 0x10}
    unwinder = unwind.Unwinder(arch)
    found = unwinder.walk_stack(registers, bytes(stack), BASE, lambda at: VDSO if 0x7000 < at < 0x8000 else None, 10)
    return found, unwinder.short


def test_out_of_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupted place has no table here, so that the walk ends there."""
    assert walked("681180d2 010000d4", monkeypatch) == ([0x7010, 0x4444], 1)


def test_other_code_without_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    assert walked("1f2003d5 010000d4", monkeypatch) == ([0x7010], 1)


def test_a_signed_return_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pointer authentication signs them above bit 47 (aarch64, -mbranch-protection)."""
    row = FrameRow((31, 16), {29: ("offset", -16), 30: ("offset", -8)}, False, 30)
    ends = FrameRow((31, 0), {30: ("undefined", 0)}, False, 30)
    monkeypatch.setattr(unwind.Unwinder, "_frame_row_at",
                        staticmethod(lambda mapping, place: row if place == 0x1000 else ends))
    arch = ARCHES["aarch64"]
    stack = struct.pack("=2Q", BASE + 32, 0x005A << 48 | 0x7FFF_1234)
    unwinder = unwind.Unwinder(arch)
    registers = dict.fromkeys(arch.registers, 0) | {"sp": BASE, "pc": 0x1000}
    code = Mapping(0x1000, 1 << 47, 0, "", "code")
    assert unwinder.walk_stack(registers, stack, BASE, lambda at: code, 10) == [0x1000, 0x7FFF_1234]
    assert unwinder.short == 0
