"""A picture says what it does not show: nothing at all, less than was asked, children of the process."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import run_sonde

NEVER = "tracepoint:syscalls:sys_enter_getpid /pid == 0/"
EMPTY = {
    "flamegraph": NEVER + " { @[ustack] = count(); }", "folded": NEVER + " { @[ustack] = count(); }",
    "pprof": NEVER + " { @[kstack] = count(); }", "otlp": NEVER + " { @[kstack] = count(); }",
    "heatmap": NEVER + " { @ = hist(1); }", "dot": NEVER + " { @[comm, comm] = count(); }",
}
PARENT = """
import subprocess, sys
children = [subprocess.Popen(["sleep", "60"]) for _ in range(4)]
print(*[child.pid for child in children], flush=True)
sys.stdin.read()
for child in children:
    child.kill()
    child.wait()
"""


@pytest.fixture
def parent() -> Iterator[tuple[int, list[str]]]:
    """A process that waits, and its four children."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        yield process.pid, process.stdout.readline().split()
        process.stdin.close()


@pytest.mark.parametrize("form", EMPTY)
def test_an_empty_picture_is_an_error(form: str, tmp_path: Path) -> None:
    path = str(tmp_path / "picture.svg")
    result = run_sonde("-f", form, "-o", path, "-e", EMPTY[form] + " interval:ms:200 { exit(); }")
    assert result.returncode == 1 and re.search(r"ERROR: the picture is empty: nothing was collected in 0\.\d s",
                                                result.stderr), result.stderr


def test_what_is_no_picture_may_be_empty(tmp_path: Path) -> None:
    for form in ("csv", "json", "text"):
        result = run_sonde("-f", form, "-e", NEVER + " { @ = count(); } interval:ms:200 { exit(); }")
        assert result.returncode == 0 and "ERROR" not in result.stderr, result.stderr


def test_a_process_that_only_waits(parent: tuple[int, list[str]], tmp_path: Path) -> None:
    """The children are named, and that they are not traced; the picture is empty, and says why."""
    pid, children = parent
    result = run_sonde("flame", "-p", str(pid), "-o", str(tmp_path / "flame.svg"), "1")
    assert result.returncode == 1
    warning = next(line for line in result.stderr.splitlines() if line.startswith("WARNING"))
    assert f"process {pid} " in warning and "has 4 children" in warning and "not traced" in warning
    assert all(child in warning for child in children[:3]) and result.stderr.count("not traced") == 1
    assert "perhaps its children do" in result.stderr and "--off-cpu" in result.stderr


@pytest.mark.parametrize("seconds,covered", [(30, r"0\.\d of 30 s"), (0, "")])
def test_a_picture_of_less_than_was_asked_says_so(seconds: int, covered: str, tmp_path: Path) -> None:
    command = f"{sys.executable} -c sum(range(8000000))"
    recording, path = str(tmp_path / "run.sonde"), tmp_path / "flame.svg"
    asked = [str(seconds)] if seconds else []
    result = run_sonde("flame", "-c", command, "-o", str(path), "--record", recording, *asked)
    assert result.returncode == 0, result.stderr
    replayed = tmp_path / "again.svg"
    run_sonde("replay", "-f", "flamegraph", "-o", str(replayed), recording)
    for text in (path.read_text(), replayed.read_text()):
        title = re.search(r'aria-label="(On the CPU of [^"]*)"', text)
        assert title is not None
        assert re.search(rf"\(\d+\) \({covered}\): [\d,]+ samples" if covered else r"\(\d+\): [\d,]+ samples", title[1])
        assert not covered or re.search(rf"traced for {covered}", text)


def test_a_flame_graph_covers_the_time_that_was_asked(tmp_path: Path) -> None:
    """Of a process that is always on a CPU: each sample at its time, from the first to the last moment."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            result = run_sonde("flame", "-p", str(busy.pid), "-f", "folded", "-o", str(tmp_path / "f.folded"), "2")
        finally:
            busy.kill()
    text = (tmp_path / "f.folded").read_text()
    assert result.returncode == 0 and " of 2 s" not in text, result.stderr
    traced = re.search(r"traced for (\d+\.\d) s", text)
    assert traced is not None and float(traced[1]) >= 2.0
