"""sonde pygil: against what a program measures of its own waits for the GIL, and of its holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from python_targets import run_python_target
from sonde.compiling import live_world
from support import Tracer, run_sonde

pytestmark = [pytest.mark.skipif(os.uname().machine != "x86_64", reason="pygil is for x86_64"),
              pytest.mark.skipif(not live_world().has_feature("bpf_loop"), reason="kernel lacks bpf_loop (Linux 5.17)")]

TESTS = Path(__file__).parents[1]
LINES = {text.partition("#")[2].strip(): number for number, text in
         enumerate((TESTS / "pygil_target.py").read_text().splitlines(), 1) if "#" in text}
ROUNDS = int(os.environ.get("SONDE_PYGIL_ROUNDS", "60"))


@pytest.fixture(params=("3.11", "3.12", "3.13", "3.14"))
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The program, which waits for the word to begin."""
    with run_python_target(request.param, "pygil_target", ["pygil_target.c"], ROUNDS, tmp_path) as process:
        yield process


def maps_of(text: str) -> dict[str, Any]:
    """The maps that were printed as JSON."""
    found: dict[str, Any] = {}
    for row in map(json.loads, text.splitlines()):
        if row["type"] in ("map", "hist"):
            found.update(row["data"])
    return found


def folded_ns(text: str, *parts: str) -> int:
    """The weight of all folded lines that have these parts."""
    return sum(int(line.rpartition(" ")[2]) for line in text.splitlines()
               if line[:1] != "#" and all(part in line for part in parts))


def test_equals_what_the_threads_measured(target: subprocess.Popen[str]) -> None:
    """Tried again once: on a busy machine a hold of the lock can be missing, since the kernel runs no program of a
    watchpoint while a reader of a map is preempted on that CPU (docs/limits.md)."""
    assert target.stdin and target.stdout and target.stdout.readline() == "ready\n"
    with Tracer("flame", "--gil", "-f", "folded", "-p", str(target.pid)) as flame, \
            Tracer("pygil", "--holds", "-n", "1000", "-f", "json", "-p", str(target.pid)) as tracer:
        target.stdin.write("begin\n")
        target.stdin.flush()
        noted = json.loads(target.stdout.readline())
    maps = maps_of(tracer.stdout)
    waited, held, blocking = Counter[str](), Counter[tuple[str, str]](), Counter[str]()
    for key, us in maps["@waited_us"].items():
        if f"target.py:{LINES['waits']})" in key:
            waited[key.partition(",")[0]] += us
    for key, us in maps["@blocking_us"].items():
        thread, _, state, *stack = key.split(",")
        if state == "asleep" and f"target.py:{LINES['asleep']})" in stack[0]:
            blocking[thread] += us
    for key, us in maps["@held_us"].items():
        thread, _, state = key.split(",")
        held[thread, state] += us
    for thread, ns in noted["waited"].items():  # the program's measure ends a little after the lock is taken
        us, later = waited[thread], held[thread, "asleep"] + held[thread, "no CPU"]
        assert us * 950 - 10 ** 6 <= ns <= (us + later) * 1050 + 10 ** 6, tracer.stdout
        drawn = folded_ns(flame.stdout, "waits for the GIL;", f";{thread};", f"(target.py:{LINES['waits']})")
        assert drawn == pytest.approx(us * 1000, rel=0.05, abs=10 ** 7), flame.stdout
    for thread, ns in noted["slept"].items():
        assert blocking[thread] * 1000 == pytest.approx(ns, rel=0.05, abs=10 ** 6), tracer.stdout
        drawn = folded_ns(flame.stdout, "holds the GIL", f";{thread};",
                          f"(target.py:{LINES['asleep']})", "nanosleep_[k]")
        assert drawn == pytest.approx(ns, rel=0.05, abs=10 ** 7), flame.stdout
        holds = [row for key, rows in maps["@hold_us"].items() if key.startswith(f"{thread},") for row in rows]
        # Ten holds of 20 ms, or fewer longer ones: if no other thread gets a CPU, none asks for the lock between two.
        assert sum(row["count"] * (row["max"] + 1) for row in holds if row["min"] >= 16384) * 1000 >= ns * 0.95, holds
    assert "WARNING" not in tracer.stderr, tracer.stderr


def test_the_lines_that_compute_and_those_that_wait(tmp_path: Path) -> None:
    """Of a command, without --holds; the burner holds the lock, the other thread waits for it in its sleep's line."""
    program = tmp_path / "burn.py"
    program.write_text("import threading, time\n"
                       "def burn():\n"
                       "    while not ended:\n"
                       "        sum(range(1000))\n"
                       "ended = []\n"
                       "time.sleep(1)  # a process is known a moment after it began\n"
                       "threading.Thread(target=burn).start()\n"
                       "for _ in range(60):\n"
                       "    time.sleep(0.002)\n"
                       "ended.append(1)\n")
    done = run_sonde("pygil", "-f", "json", "-c", f"{sys.executable} {program}")
    maps = maps_of(done.stdout)
    assert any("burn.py:9)" in key for key in maps["@waited_us"]), done.stdout
    assert any("burn (" in key and f"{program}:" in key for key in maps["@blocking_us"]), done.stdout


def test_processes_that_have_no_lock_to_show(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        done = run_sonde("pygil", "-p", str(other.pid))
        other.kill()
    assert done.returncode == 1 and "maps no file of CPython's" in done.stderr
    assert "No thread with the GIL of a CPython" in run_sonde("pygil", "-c", "true").stdout
    assert "pygil needs a process" in run_sonde("pygil").stderr
    assert "flame --gil needs a process" in run_sonde("flame", "--gil").stderr
    assert "--gil is drawn by itself, without --chain" in run_sonde("flame", "--gil", "--chain", "-c", "true").stderr
    assert "--holds needs a process that runs" in run_sonde("pygil", "--holds", "-c", "true").stderr
