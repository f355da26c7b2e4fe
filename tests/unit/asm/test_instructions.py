"""Where instructions start."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sonde.arch import ARCHES
from sonde.arch import x86_instructions as x86
from sonde.arch.instructions import is_instruction_start

X86, ARM, RISCV, Z = (ARCHES[name] for name in ("x86_64", "aarch64", "riscv64", "s390x"))


@pytest.mark.parametrize("code", [
    "55", "4889e5", "4156", "c3", "90", "f30f1efa", "e800000000", "0f8400000000", "7405", "8d0437", "488d3d00000000",
    "b801000000", "48b80102030405060708", "66b80100", "6683c801", "48c7c000000000", "f6c701", "f7d8", "48f7c701000000",
    "ff1500000000", "8b442408", "8b840800000000", "8b0425ffffffff", "0fb6c0", "0fa2", "0f05", "660f6f05ffffffff",
    "660f3a0fc108", "c5f877", "c5fd6f07", "c4e37d19c001", "62f17c48100f", "f0480fb10a", "c8100000", "a80f",
    "e9ffffffff", "a10102030405060708", "67a101020304", "d97c2402", "0f0d0a", "63c8", "6bc005",
    "69c000010000", "cd80", "c20800",
])
def test_lengths(code: str) -> None:
    raw = bytes.fromhex(code)
    assert x86.instruction_length(raw + b"\x90" * 4, 0) == len(raw)
    assert x86.instruction_length(raw[:-1], 0) == 0


def test_starts() -> None:
    code = bytes.fromhex("554889e54156c3")
    assert [is_instruction_start(X86, code, n) for n in range(7)] == [True, True, False, False, True, False, True]
    code = bytes.fromhex("0111 13050500 8280")  # addi sp, sp, -32; mv a0, a0; ret
    assert [is_instruction_start(RISCV, code, n) for n in range(8)] == [True, False, True, False, False, False, True,
                                                                        False]
    code = bytes.fromhex("eb6ff0300024 b90400b2 07fe")  # stmg %r6,%r15,48(%r15); lgr %r11,%r2; br %r14
    assert [n for n in range(12) if is_instruction_start(Z, code, n)] == [0, 6, 10]
    assert [is_instruction_start(ARM, bytes(12), n) for n in (0, 2, 4, 7, 8)] == [True, False, True, False, True]


def test_what_is_not_known_is_not_refused() -> None:
    assert is_instruction_start(X86, bytes.fromhex("0607"), 1)
    assert is_instruction_start(X86, b"", 5) and is_instruction_start(RISCV, b"\x13", 4)


def test_as_a_disassembler_sees_it(tmp_path: Path) -> None:
    if shutil.which("objdump") is None or shutil.which("gcc") is None:
        pytest.skip("needs objdump and gcc")
    source = tmp_path / "x.c"
    source.write_text("#include <math.h>\ndouble f(double x, int n) { double s = 0; for (int i = 0; i < n; i++) "
                      "s += sin(x * i) / (i + 1.5); return s; }\nlong g(long *p, int n) { long t = 0; while (n--) "
                      "{ t += p[n] * 3 / (n | 1); if (t & 4) t ^= p[0] << (n & 7); } return t; }\n")
    for flags in (["-O0"], ["-O3", "-mavx2"], ["-O3", "-mavx512f"]):
        binary = tmp_path / "x.o"
        if subprocess.run(["gcc", "-c", *flags, "-o", str(binary), str(source)], capture_output=True).returncode:
            pytest.skip("this gcc is for another architecture")
        listing = subprocess.run(["objdump", "-d", "-w", str(binary)], capture_output=True, text=True).stdout
        rows = re.findall(r"^ *[0-9a-f]+:\t((?:[0-9a-f]{2} )+)", listing, re.MULTILINE)
        assert len(rows) > 20
        for row in rows:
            raw = bytes.fromhex(row)
            assert x86.instruction_length(raw, 0) == len(raw), row
