"""``sonde overhead --annotate``: samples in a program's machine code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from sonde.btf.codec import build_program_btf
from sonde.compiling import live_world
from sonde.kernel import syscalls
from sonde.kernel.program_image import read_program_image
from sonde.layouts.uapi import PROG_TYPES
from support import Tracer, run_sonde

ME = "sonde-annotated"
LOOP = f'tracepoint:syscalls:sys_enter_getppid /comm == "{ME}"/ {{ for $i : 0..2000 {{ @n = $i ^ @n; }} }}'


def program_of(pid: int) -> int:
    """The number of the program on raw sys_enter that a process holds."""
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        with open(f"/proc/{pid}/fdinfo/{fd}") as file:
            number = next((int(line.split()[1]) for line in file if line.startswith("prog_id:")), 0)
        if number:
            with syscalls.object_by_id("program", number) as program:
                if syscalls.prog_info(program).name == "sonde_sys_enter":
                    return number
    raise AssertionError(f"process {pid} has no such program")


BUSY = f"""
import ctypes
with open("/proc/self/comm", "w") as file:
    file.write("{ME}")
getppid = ctypes.CDLL(None).getppid
while True:
    getppid()
"""


@pytest.fixture(scope="module", params=[[], ["--no-feature", "raw_tp"]], ids=["raw tracepoint", "tracepoint"])
def sampled(request: pytest.FixtureRequest) -> tuple[dict[str, object], str]:
    """(the samples of the looping program, its text as a person sees it). While one of a tracepoint runs, the kernel
    runs no program of a perf event: samples must not come from one."""
    with Tracer(*request.param, "-e", LOOP) as tracer:
        number = program_of(tracer.pid)
        command = ["overhead", "--annotate", f"id:{number}"]
        with subprocess.Popen([sys.executable, "-c", BUSY]) as worker:
            done = run_sonde(*command, "-f", "json", "1.5")
            text = run_sonde(*command, "1").stdout
            worker.kill()
    return json.loads(done.stdout)["data"], text


def test_every_sample_is_an_instruction_of_the_loop(sampled: tuple[dict[str, object], str]) -> None:
    data, _ = sampled
    places: list[dict[str, int]] = data["places"]  # type: ignore[assignment]
    assert sum(place["samples"] for place in places) == data["samples"] > 0
    assert int(str(data["samples"])) < int(str(data["of"]))
    called = live_world().has_feature("bpf_loop")
    body = sum(place["samples"] for place in places if place["function"] == called)
    least = 0 if os.environ.get("SONDE_VM") else 0.2  # an emulated CPU takes interrupts at some instructions only
    assert body > least * int(str(data["samples"]))  # 2000 rounds of the body to each run


@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed")
def test_samples_lie_on_instructions(sampled: tuple[dict[str, object], str]) -> None:
    data, text = sampled
    places: list[dict[str, object]] = data["places"]  # type: ignore[assignment]
    assert all(place["instruction"] for place in places)
    head, columns, *rows = text.splitlines()
    assert " samples (" in head and columns.split() == ["SAMPLES", "OFFSET", "INSTRUCTION"]
    counts = [int(row.split()[0]) for row in rows if row[:8].strip().isdigit()]
    assert sum(counts) == int(head.split(": ")[1].split()[0])
    assert any(" %rsp,%rbp" in row or "stp" in row for row in rows)  # how a function begins


def test_source_lines_of_a_program() -> None:
    """Two instructions of two lines: their places in the machine code, and their texts."""
    code = bytes.fromhex("b700000000000000" "9500000000000000")  # r0 = 0; exit
    btf_data, functions, lines = build_program_btf("shown", [
        (0, "file.c", "zero = 0;", 1, 1), (1, "file.c", "return zero;", 2, 1)])
    kind = PROG_TYPES["raw_tracepoint"]
    with syscalls.btf_load(btf_data) as btf, syscalls.prog_load(
            kind, code, license="GPL", btf=btf, func_info=functions, line_info=lines) as program:
        found = read_program_image(syscalls.prog_info(program).id)
    assert found is not None and len(found.functions) == 1
    start, size = found.functions[0].address, len(found.functions[0].code)
    assert [text for _, text in found.lines] == ["zero = 0;", "return zero;"]
    assert start <= found.lines[0][0] < found.lines[1][0] < start + size
    assert found.line_at(found.lines[1][0] + 1) == "return zero;" and found.line_at(0) == ""


def test_it_wants_a_program() -> None:
    done = run_sonde("overhead", "--annotate")
    assert done.returncode == 1 and "--annotate needs a program" in done.stderr
    done = run_sonde("overhead", "--annotate", "id:4294967290", "1")
    assert done.returncode == 1 and "there is no BPF program" in done.stderr
