"""Static probes: argument descriptors of each architecture, the notes of a file, and programs by place."""

from __future__ import annotations

import pytest

from sonde.arch import ARCHES
from sonde.kernel.foreign.usdt import parse_arguments
from unit.fake_world import check_text, findings

X86, ARM, RISCV, Z = (ARCHES[name] for name in ("x86_64", "aarch64", "riscv64", "s390x"))


def shown(text: str, arch: str = "x86_64") -> list[tuple[object, ...]]:
    """(kind, size, signed, base, offset, index, scale, shift)."""
    return [(a.kind, a.size, a.signed, a.base, a.offset, a.index, a.scale, a.shift)
            for a in parse_arguments(text, ARCHES[arch], lambda name: 0x2000 if name == "counter" else None)]


@pytest.mark.parametrize(("text", "expected"), [
    ("-4@%eax", ("register", 4, True, X86.registers["ax"], 0, -1, 1, 0)),
    ("8@%rdx", ("register", 8, False, X86.registers["dx"], 0, -1, 1, 0)),
    ("1@%ah", ("register", 1, False, X86.registers["ax"], 0, -1, 1, 8)),
    ("1@%sil", ("register", 1, False, X86.registers["si"], 0, -1, 1, 0)),
    ("2@%r10w", ("register", 2, False, X86.registers["r10"], 0, -1, 1, 0)),
    ("4@%ebp", ("register", 4, False, X86.registers["bp"], 0, -1, 1, 0)),
    ("-4@$-7", ("constant", 4, True, 0, -7, -1, 1, 0)),
    ("4@0x10", ("constant", 4, False, 0, 16, -1, 1, 0)),
    ("8@-80(%rbx)", ("memory", 8, False, X86.registers["bx"], -80, -1, 1, 0)),
    ("8@(%rsp)", ("memory", 8, False, X86.registers["sp"], 0, -1, 1, 0)),
    ("-4@8(%rax,%rcx,4)", ("memory", 4, True, X86.registers["ax"], 8, X86.registers["cx"], 4, 0)),
    ("8@(%rax,%rcx)", ("memory", 8, False, X86.registers["ax"], 0, X86.registers["cx"], 1, 0)),
    ("4@counter(%rip)", ("memory", 4, False, X86.registers["ip"], 0x2000, -1, 1, 0)),
    ("4@4+counter(%rip)", ("memory", 4, False, X86.registers["ip"], 0x2004, -1, 1, 0)),
    ("4@counter+8(%rip)", ("memory", 4, False, X86.registers["ip"], 0x2008, -1, 1, 0)),
    ("4@counter", ("memory", 4, False, X86.registers["ip"], 0x2000, -1, 1, 0)),
    ("8@0x4010(,%rcx,8)", ("memory", 8, False, X86.registers["cx"], 0x4010, X86.registers["cx"], 7, 0)),
    ("-8@-0x10(%rbp)", ("memory", 8, True, X86.registers["bp"], -16, -1, 1, 0)),
    ("8@+8(%r12)", ("memory", 8, False, X86.registers["r12"], 8, -1, 1, 0)),
    ("-1@%r11b", ("register", 1, True, X86.registers["r11"], 0, -1, 1, 0)),
    ("2@%cx", ("register", 2, False, X86.registers["cx"], 0, -1, 1, 0)),
    ("1@%dl", ("register", 1, False, X86.registers["dx"], 0, -1, 1, 0)),
    ("1@%bpl", ("register", 1, False, X86.registers["bp"], 0, -1, 1, 0)),
    ("-8@$0xffffffff", ("constant", 8, True, 0, 0xFFFFFFFF, -1, 1, 0)),
    ("%rdi", ("register", 8, False, X86.registers["di"], 0, -1, 1, 0)),
])
def test_x86(text: str, expected: tuple[object, ...]) -> None:
    assert shown(text) == [expected]


@pytest.mark.parametrize(("text", "expected"), [
    ("-4@w0", ("register", 4, True, 0, 0, -1, 1, 0)), ("8@x21", ("register", 8, False, 168, 0, -1, 1, 0)),
    ("8@sp", ("register", 8, False, 248, 0, -1, 1, 0)), ("4@12", ("constant", 4, False, 0, 12, -1, 1, 0)),
    ("8@[sp, 16]", ("memory", 8, False, 248, 16, -1, 1, 0)), ("8@[x29, -8]", ("memory", 8, False, 232, -8, -1, 1, 0)),
    ("4@wzr", ("constant", 4, False, 0, 0, -1, 1, 0)), ("-8@xzr", ("constant", 8, True, 0, 0, -1, 1, 0)),
    ("-4@-12", ("constant", 4, True, 0, -12, -1, 1, 0)), ("8@x30", ("register", 8, False, 240, 0, -1, 1, 0)),
    ("1@[x19, #-256]", ("memory", 1, False, 152, -256, -1, 1, 0)),
    ("8@[sp, x1, lsl #3]", ("memory", 8, False, 248, 0, 8, 8, 0)),
    ("8@[x1]", ("memory", 8, False, 8, 0, -1, 1, 0)),
    ("4@[x1, x2, lsl 2]", ("memory", 4, False, 8, 0, 16, 4, 0)), ("4@[x1, x2]", ("memory", 4, False, 8, 0, 16, 1, 0)),
])
def test_aarch64(text: str, expected: tuple[object, ...]) -> None:
    assert shown(text, "aarch64") == [expected]


@pytest.mark.parametrize(("text", "expected"), [
    ("8@a5", ("register", 8, False, RISCV.registers["a5"], 0, -1, 1, 0)),
    ("-4@-20(s0)", ("memory", 4, True, RISCV.registers["s0"], -20, -1, 1, 0)),
    ("8@(sp)", ("memory", 8, False, RISCV.registers["sp"], 0, -1, 1, 0)),
    ("-4@12", ("constant", 4, True, 0, 12, -1, 1, 0)), ("8@zero", ("constant", 8, False, 0, 0, -1, 1, 0)),
])
def test_riscv64(text: str, expected: tuple[object, ...]) -> None:
    assert shown(text, "riscv64") == [expected]


@pytest.mark.parametrize(("text", "expected"), [
    ("8@%r2", ("register", 8, False, Z.registers["r2"], 0, -1, 1, 0)),
    ("-4@%r12", ("register", 4, True, Z.registers["r12"], 0, -1, 1, 0)),
    ("-4@160(%r15)", ("memory", 4, True, Z.registers["sp"], 160, -1, 1, 0)),
    ("8@(%r1)", ("memory", 8, False, Z.registers["r1"], 0, -1, 1, 0)),
    ("8@40(%r1,%r2)", ("memory", 8, False, Z.registers["r2"], 40, Z.registers["r1"], 1, 0)),
    ("-4@-12", ("constant", 4, True, 0, -12, -1, 1, 0)), ("1@7", ("constant", 1, False, 0, 7, -1, 1, 0)),
])
def test_s390x(text: str, expected: tuple[object, ...]) -> None:
    assert shown(text, "s390x") == [expected]


def test_several_and_what_is_not_understood() -> None:
    found = parse_arguments("8@%rdx 8f@%xmm0 -4@%nosuch 4@unknown(%rip) 4@$1", X86)
    assert [a.kind for a in found] == ["register", "unknown", "unknown", "unknown", "constant"]
    found = parse_arguments("8@[sp, 8] 4@w3 16@[x0] 4@[x0, w1, sxtw 2] 8@d0", ARM)
    assert [a.kind for a in found] == ["memory", "register", "unknown", "unknown", "unknown"]
    assert parse_arguments("", X86) == []


def test_places_share_a_program_unless_their_arguments_differ() -> None:
    assert [len(p.attach) for p in check_text("usdt:prog:start { @ = comm; }").probes] == [2]
    assert [len(p.attach) for p in check_text("usdt:prog:app:start { @ = arg0; }").probes] == [1, 1]
    checked = check_text("usdt:prog:* { }")
    assert [a.name for p in checked.probes for a in p.attach] == [
        "usdt:/bin/prog:app:start", "usdt:/bin/prog:app:start", "usdt:/bin/prog:app:stop"]
    assert checked.probes[0].attach[2].detail.semaphore == 0x3000


def test_an_argument_that_a_probe_does_not_have_is_0() -> None:
    checked = check_text("usdt:prog:start { @ = arg1; }")
    assert checked.probes[0].clause.body[0].value.const == 0  # type: ignore[attr-defined]
    assert findings("usdt:prog:start { @ = arg1; }") == [("no-argument", "arg1")]


@pytest.mark.parametrize(("text", "code"), [
    ("usdt:prog:stop { @ = arg0; }", "no-argument"),
    ("usdt:prog:strat { }", "missing-probe"), ("usdt:nosuch:start { }", "missing-probe"),
    ("usdt:prog { }", "probe-form"),
])
def test_errors(text: str, code: str) -> None:
    assert code in [c for c, _ in findings(text)]
