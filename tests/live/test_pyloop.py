"""sonde pyloop: event loops that are stopped in known ways, each named with its task and line."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from printed import rows
from python_targets import run_python_target
from sonde.compiling import live_world
from support import Tracer, wait_for

pytestmark = [pytest.mark.skipif(os.uname().machine != "x86_64", reason="pyloop is for x86_64"),
              pytest.mark.skipif(not live_world().has_feature("bpf_loop"), reason="kernel lacks bpf_loop (Linux 5.17)")]

TESTS = Path(__file__).parents[1]
TARGET = (TESTS / "pyloop_target.py").read_text()
LINES = {text.rpartition("  # ")[2]: number for number, text in enumerate(TARGET.splitlines(), 1) if "  # " in text}
ROUNDS = int(os.environ.get("SONDE_PYLOOP_ROUNDS", "2"))
CAUSES = {"sleeps": {("syscall", "clock_nanosleep")}, "computes": {("CPU", "-"), ("no CPU", "-")},
          "waits_for_lock": {("lock", "futex")}, "waits_for_gil": {("GIL", "futex")},
          "reads_memory": {("page fault", "-")}}


@pytest.fixture(params=("3.11", "3.12", "3.13", "3.14"))
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The program, which waits for the word to begin."""
    sources = ["pygil_target.c", "pyloop_target.c"]
    with run_python_target(request.param, "pyloop_target", sources, ROUNDS, tmp_path) as process:
        yield process


def lost_its_cpu(row: dict[str, Any]) -> bool:
    """Whether others ran most of the time, and longest before the task of the loop's iteration began."""
    return row["CAUSE"].strip() == "no CPU" and row["TASK"] == "-" and "_run_once" in row["STACK"]


@pytest.mark.exact
def test_each_stall_has_its_cause_task_and_line(target: subprocess.Popen[str]) -> None:
    assert target.stdin and target.stdout and target.stdout.readline() == "ready\n"
    with Tracer("pyloop", "-f", "json", "-p", str(target.pid)) as tracer:
        target.stdin.write("begin\n")
        target.stdin.flush()
        noted = json.loads(target.stdout.readline())
    stalls = [row for row in rows(tracer.stdout) if row["TASK"] in CAUSES or lost_its_cpu(row)]
    assert ["computes" if lost_its_cpu(row) else row["TASK"] for row in stalls] == [task for task, _, _ in noted], \
        tracer.stdout
    for row, (task, least, most) in zip(stalls, noted):
        assert (row["CAUSE"].strip(), row["CALL"].strip()) in CAUSES[task], row
        if lost_its_cpu(row):
            assert row["LAT(ms)"] >= 0.95 * least - 1, (row, least)
            continue
        line = "" if task == "computes" else rf"{LINES[task]}\)"  # it may be in its loop's condition
        assert re.match(rf"\s*{task} \(\S+/target.py:{line}", row["STACK"]), row
        assert 0.95 * least - 1 <= row["LAT(ms)"] <= 1.05 * most + 1, (row, least, most)
    assert "WARNING" not in tracer.stderr, tracer.stderr


RESOLVES = """
import asyncio, socket, sys, time
print("ready", flush=True)
sys.stdin.readline()

async def resolves():
    try:
        socket.getaddrinfo("sonde.invalid", 80)
    except OSError:
        pass

async def stays():
    time.sleep(3600)

async def main():
    for function in (resolves, stays):
        await asyncio.sleep(0.001)
        await asyncio.create_task(function(), name=function.__name__)

asyncio.run(main())
"""


def test_names_that_nobody_resolves_and_a_stall_that_does_not_end(tmp_path: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    program, resolver = tmp_path / "resolves.py", tmp_path / "resolv.conf"
    program.write_text(RESOLVES)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.77", 53))  # answers nobody
        resolver.write_text("nameserver 127.0.0.77\noptions timeout:1 attempts:1\n")
        inside = f"mount --bind {resolver} /etc/resolv.conf && exec {sys.executable} {program}"
        with subprocess.Popen(["unshare", "-m", "sh", "-c", inside], text=True, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as process:
            assert process.stdin and process.stdout and process.stdout.readline() == "ready\n"
            with Tracer("pyloop", "-f", "json", "-p", str(process.pid)) as tracer:
                process.stdin.write("begin\n")
                process.stdin.flush()
                call = Path(f"/proc/{process.pid}/syscall")
                wait_for(lambda: call.read_text().startswith("230 "))  # clock_nanosleep()
                time.sleep(0.1)
            process.kill()
    resolves, stays = [row for row in rows(tracer.stdout) if row["TASK"] in ("resolves", "stays")]
    assert resolves["CAUSE"].strip() == "DNS" and "resolves.py:8)" in resolves["STACK"], tracer.stdout
    assert resolves["CPU(ms)"] < resolves["LAT(ms)"] / 2
    assert (stays["TASK"], stays["CALL"].strip()) == ("stays", "clock_nanosleep"), tracer.stdout
