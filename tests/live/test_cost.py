"""``sonde cost``: what it says against what a run itself measures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from support import run_sonde

CALLER = "import os\nwhile True:\n    for i in range(100): os.getppid()"


@pytest.fixture
def caller() -> Iterator[int]:
    """A process that calls getppid() all the time; its pid."""
    with subprocess.Popen([sys.executable, "-S", "-c", CALLER]) as process:
        yield process.pid
        process.kill()


def cost_of(*arguments: str) -> dict[str, object]:
    done = run_sonde("cost", "-f", "json", *arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)["data"]
    return found


def test_the_estimate_is_near_what_a_run_measures(caller: int) -> None:
    """--stats of a whole second has the same runs and time, within what two moments of a shared machine differ."""
    script = f"tracepoint:syscalls:sys_enter_getppid /pid == {caller}/ {{ @ = count(); }}"
    told = cost_of("-e", script)["probes"][0]  # type: ignore[index]
    run = run_sonde("--stats", "-f", "json", "-e", script + " interval:s:1 { exit(); }")
    truth = next(json.loads(line)["data"]["probes"][0] for line in run.stdout.splitlines() if '"stats"' in line)
    assert told["probe"] == truth["probe"] == "tracepoint:syscalls:sys_enter_getppid"
    assert truth["runs"] / 4 < told["runs_per_second"] < truth["runs"] * 4
    assert truth["ns_per_run"] / 4 < told["ns_per_run"] < truth["ns_per_run"] * 4


def test_a_flood_is_looked_at_for_a_moment_only(caller: int) -> None:
    """And counted, it is cheaper than printed."""
    printed = cost_of("-e", 'tracepoint:syscalls:sys_enter_getppid { printf("%s %d\\n", comm, pid); }')
    assert printed["seconds"] < 0.5 and printed["records_per_second"] > 1000  # type: ignore[operator]
    assert any("count()" in line for line in printed["advice"])  # type: ignore[attr-defined]
    counted = cost_of("-e", "tracepoint:syscalls:sys_enter_getppid { @[comm] = count(); }")
    assert counted["records_per_second"] == 0
    assert counted["programs_share"] + counted["printing_share"] < (  # type: ignore[operator]
        printed["programs_share"] + printed["printing_share"])  # type: ignore[operator]


def test_as_text() -> None:
    done = run_sonde("cost", "-e", "interval:ms:10 { @++; }")
    assert done.returncode == 0 and "interval:ms:10" in done.stdout and "in all" in done.stdout
    assert run_sonde("cost", "-e", "begin { @ = 1; }").stdout == "It has no programs that run by themselves.\n"


@pytest.mark.parametrize(("arguments", "message"), [
    ([], "needs a script"), (["--unsafe", "-e", "begin { exit(); }"], "--unsafe, -c and --follow"),
    (["-f", "html", "-e", "begin { exit(); }"], "text or json"), (["-e", "nonsense"], "ERROR")])
def test_what_makes_no_sense_is_refused(arguments: list[str], message: str) -> None:
    done = run_sonde("cost", *arguments)
    assert done.returncode == 1 and message in done.stderr
