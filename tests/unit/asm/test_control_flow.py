"""Where instructions pass control to, and lengths of all instructions of whole libraries."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from sonde.arch import ARCHES, Arch
from sonde.arch import x86_instructions as x86
from sonde.arch.control_flow import is_known, jump_tables, read_flows
from sonde.arch.flows import BRANCH, INDIRECT, JUMP, OUTSIDE, RETURN, UNKNOWN, WITHIN, Flow, JumpTable

X86, NARROW, ARM = ARCHES["x86_64"], ARCHES["i386"], ARCHES["aarch64"]
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
PYTHON = Path(sysconfig.get_config_var("LIBDIR") or "/", sysconfig.get_config_var("INSTSONAME") or "python3")


@pytest.mark.parametrize(("code", "kind", "target"), [
    ("c3", RETURN, 0), ("f3c3", RETURN, 0), ("f2c3", RETURN, 0), ("c20800", RETURN, 0), ("eb05", JUMP, 7),
    ("ebfe", JUMP, 0), ("e9fbffffff", JUMP, 0), ("f2e9faffffff", JUMP, 0), ("7402", BRANCH, 4), ("2e7402", BRANCH, 5),
    ("0f8500010000", BRANCH, 0x106), ("e3fe", BRANCH, 0), ("ffe0", INDIRECT, 0), ("3effe0", INDIRECT, 0),
    ("41ffe3", INDIRECT, 0), ("ff2500000000", INDIRECT, 0), ("ff24c500100000", INDIRECT, 0), ("cb", UNKNOWN, 0),
    ("48cf", UNKNOWN, 0), ("48cb", UNKNOWN, 0),
])
def test_flows_of_x86(code: str, kind: str, target: int) -> None:
    raw = bytes.fromhex(code)
    assert read_flows(X86, raw) == ([0], [(0, Flow(kind, target))])
    plain = bytes.fromhex("4889e5")
    starts, flows = read_flows(X86, plain + raw) or ([], [])
    assert starts == [0, 3] and flows == [(1, Flow(kind, target + 3 if kind in (JUMP, BRANCH) else 0))]


@pytest.mark.parametrize("code", ["f30f1efa", "e800000000", "ffd0", "ff1500000000", "b0c3", "48b8c3c3c3c3c3c3c3c3",
                                  "0fc308", "0fafc3", "90", "0f05", "50", "cc", "0f0b", "c4e37d19c001", "c5f877"])
def test_what_goes_on(code: str) -> None:
    raw = bytes.fromhex(code)
    assert read_flows(X86, raw) == ([0], [])


def test_what_is_no_code() -> None:
    assert read_flows(X86, b"\x06") is None and read_flows(X86, b"\x90\x48\x8b") is None
    assert read_flows(ARM, bytes(6)) is None
    assert [name for name, row in sorted(ARCHES.items()) if is_known(row)] == ["aarch64", "x86_64"]


@pytest.mark.parametrize(("word", "flow"), [
    (0xD65F03C0, Flow(RETURN)), (0xD65F0140, Flow(RETURN)), (0xD65F0BFF, Flow(UNKNOWN)), (0xD65F0FFF, Flow(UNKNOWN)),
    (0x14000002, Flow(JUMP, 8)), (0x17FFFFFF, Flow(JUMP, -4)), (0x54000040, Flow(BRANCH, 8)),
    (0xB4FFFFE0, Flow(BRANCH, -4)), (0x35000040, Flow(BRANCH, 8)), (0x3707FFE0, Flow(BRANCH, -4)),
    (0xD61F0200, Flow(INDIRECT)), (0xD71F0A11, Flow(INDIRECT)), (0xD61F0A1F, Flow(INDIRECT)),
    (0x94000002, None), (0xD63F0000, None), (0xD503245F, None), (0xA9BF7BFD, None),
])
def test_flows_of_aarch64(word: int, flow: Flow | None) -> None:
    assert read_flows(ARM, word.to_bytes(4, "little")) == ([0], [(0, flow)] if flow else [])


@pytest.mark.parametrize(("code", "flow"), [
    ("c3", Flow(RETURN)), ("c20400", Flow(RETURN)), ("ebfe", Flow(JUMP, 0)), ("7402", Flow(BRANCH, 4)),
    ("ffe2", Flow(INDIRECT)), ("cb", Flow(UNKNOWN)), ("ea000000000000", Flow(UNKNOWN)),
    # what is another instruction, or none, in 64-bit code
    ("40", None), ("4f", None), ("06", None), ("37", None), ("60", None), ("c40a", None), ("c5d8", None),
    ("c5f877", None), ("620424", None), ("82c005", None), ("d40a", None), ("9a000000000000", None),
    ("a110203040", None), ("66b80100", None), ("8b0510203040", None), ("8d742600", None), ("e800000000", None)])
def test_flows_of_32_bit_x86(code: str, flow: Flow | None) -> None:
    raw = bytes.fromhex(code)
    if code == "c5d8":  # the prefix alone
        assert read_flows(NARROW, raw) is None
        return
    assert read_flows(NARROW, raw) == ([0], [(0, flow)] if flow else [])
    assert read_flows(NARROW, raw[:-1]) is None or len(raw) == 1


@pytest.mark.parametrize("code", ["678b00", "66e90000", "660f840000"])
def test_32_bit_code_that_is_not_read(code: str) -> None:
    assert read_flows(NARROW, bytes.fromhex(code)) is None


def tables(code: str, arch: Arch = X86) -> list[JumpTable] | str:
    raw = bytes.fromhex(code)
    starts, _ = read_flows(arch, raw) or ([], [])
    return jump_tables(arch, raw, starts)


def test_tables_of_32_bit_x86() -> None:
    assert tables("ff248500100000", NARROW) == [JumpTable(0x1000, 4, absolute=True)]
    assert tables("8b148500100000 ffe2", NARROW) == [JumpTable(0x1000, 4, absolute=True)]
    assert tables("8b9483f0ffffff 01da ffe2", NARROW) == [JumpTable(-16, 4, True, True, True)]
    assert tables("89da 039483f0ffffff 3effe2", NARROW) == [JumpTable(-16, 4, True, True, True)]
    assert tables("8b9402f0ffffff 01c2 ffe2", NARROW) == [JumpTable(-16, 4, True, True, True)]
    assert tables("8b9402f0ffffff 01d0 ffe0", NARROW) == [JumpTable(-16, 4, True, True, True)]  # without optimisation
    assert tables("ffa483f0ffffff", NARROW) == [JumpTable(-16, 4, False, True, True)]
    assert tables("ff2500100000", NARROW) == OUTSIDE and tables("3effe2", NARROW) == WITHIN
    for code in ("8b5004 ffe2", "ff6010", "8b9483f0ffffff 7400 ffe2", "8b9483f0ffffff ffe1", "ff2483"):
        assert tables(code, NARROW) == "", code


def test_tables_of_x86() -> None:
    assert tables("ff24c500104000") == [JumpTable(0x401000, 8, absolute=True)]
    assert tables("488d3556570b00 ff24d6") == [JumpTable(0x0B575D, 8)]
    assert tables("488d1555481500 89c0 48630482 4801d0 ffe0") == [JumpTable(0x15485C, 4, relative=True)]
    assert tables("488d0d10000000 90 48630481 4801c8 3effe0") == [JumpTable(0x17, 4, relative=True)]
    assert tables("4c8d1d2da30600 43ff24d3") == [JumpTable(0x6A334, 8)]
    # two candidates, the nearest first
    assert tables("488d1500000000 488d1500010000 48630482 4801d0 ffe0") == [
        JumpTable(0x10E, 4, relative=True), JumpTable(7, 4, relative=True)]
    assert tables("488b04d500104000 90 ffe0") == [JumpTable(0x401000, 8, absolute=True)]
    # as without optimisation
    assert tables("488d148500000000 488d0500010000 8b0402 4898 488d1500020000 4801d0 ffe0") == [
        JumpTable(0x10F, 4, relative=True), JumpTable(0x21B, 4, relative=True)]
    assert tables("3effe0") == WITHIN  # notrack
    assert tables("ff2500000000") == OUTSIDE


@pytest.mark.parametrize("code", [
    "488b4008 ffe0", "ff6010", "488d1555481500 ffe0", "48630482 4801d0 ffe0",
    "488d1555481500 4801d0 7400 ffe0",            # in another block
    "488d1555481500 48630482 4801d0 ffe1",                 # another register
    "488b04fd00104000 7400 ffe0", "488b04d500104000 488b4010 ffe0",
])
def test_jumps_that_may_leave(code: str) -> None:
    assert tables(code) == ""


def test_tables_of_aarch64() -> None:
    def jump(*words: int) -> list[JumpTable] | str:
        code = b"".join(word.to_bytes(4, "little") for word in words)
        return jump_tables(ARM, code, [4 * number for number in range(len(words))])
    assert jump(0x10000061, 0x8B208821, 0xD61F0020) == WITHIN  # adr x1; add x1, x1, w0, sxtb #2; br x1
    assert jump(0x8B208822, 0xD61F0020) == jump(0xF9400021, 0xD61F0020) == jump(0xD61F0020) == ""
    assert jump(0x8B208821, 0x54000040, 0xD61F0020) == ""


@pytest.mark.slow
@pytest.mark.parametrize(("path", "arch"), [
    *[(LIBRARIES / name, X86) for name in ("libc.so.6", "libstdc++.so.6", "libm.so.6")], (PYTHON, X86),
    (Path("/usr/lib32/libc.so.6"), NARROW)], ids=lambda value: value.name)
def test_every_instruction_of_a_file(path: Path, arch: Arch) -> None:
    """The length of each, and whether it returns or jumps, as objdump says."""
    if shutil.which("objdump") is None or not path.exists():
        pytest.skip(f"needs objdump and {path}")
    with subprocess.Popen(["objdump", "-d", "-w", "-j", ".text", path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        rows = {line.partition("\t")[2] for line in process.stdout if "\t" in line}
    count = 0
    for row in rows:
        encoded, _, text = row.partition("\t")
        raw = bytes.fromhex(encoded)
        if "(bad)" in text or re.match(r"(rex|data16|fst[cs]w|fnop|\.byte)", text) or not text:
            continue  # no instruction, or two of them: fwait is one by itself
        count += 1
        assert x86.instruction_length(raw, 0, arch is NARROW) == len(raw), row
        name = re.sub(r"^((bnd|repz|repn?z?|notrack|data16|cs|ds|lock|xacquire|xrelease) )+", "", text).split()[0]
        name = name.partition(",")[0]
        flows = (read_flows(arch, raw) or ([], []))[1]
        kind = flows[0][1].kind if flows else ""
        expected = RETURN if name.startswith("ret") else UNKNOWN if name.startswith(("lret", "iret")) else \
            INDIRECT if re.search(r"^(\S+ )*jmp +\*", text) or name == "ljmp" else JUMP if name == "jmp" else \
            BRANCH if name.startswith(("j", "loop")) else ""
        assert kind == expected, row
    assert count > 5000
