"""docs/python.md as it stands, and the programs in examples/, each on a workload of which it is known what it does."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import PATIENCE, environment

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
# Reads from a pipe into which nothing comes for 20 ms each time, until its standard input ends.
SLOW_READER = """
import os, select, threading, time
near, far = os.pipe()
def write():
    while not select.select([0], [], [], 0.02)[0]:
        os.write(far, b"x")
    os.close(far)
threading.Thread(target=write).start()
while os.read(near, 1):
    pass
"""


@pytest.fixture
def slow_reader() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-S", "-c", SLOW_READER], stdin=subprocess.PIPE) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def start(name: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, EXAMPLES / name, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, cwd=ROOT, env=environment())


def run(name: str, *words: str) -> str:
    with start(name, *words) as process:
        output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    return output


def test_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    """Python in five minutes, block by block; what it says each prints."""
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "python.md").read_text(), re.M | re.S)
    assert len(blocks) == 5
    space: dict[str, Any] = {}
    printed = []
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), space)
        printed.append(capsys.readouterr().out)
    assert printed[:2] == ["1\n", "9 3\n"]
    assert re.fullmatch(r"fsync \S+ \d+ Calls\(pid=\d+, comm='\S+', name='fsync', us=\d+\)\n", printed[2])
    assert printed[3] == "fsync() was called 3 times, and at most 2 is allowed\n"
    assert "count_star()" in printed[4] and not space["tracing"].losses


def test_the_objective_checker(slow_reader: subprocess.Popen[bytes]) -> None:
    with start("objectives.py", str(slow_reader.pid), "read=5ms", "write=1h") as checker:
        assert checker.stdout is not None and slow_reader.stdin is not None
        assert checker.stdout.readline() == f"watching process {slow_reader.pid}\n"
        first = checker.stdout.readline()
        while "the longest took" not in (line := checker.stdout.readline()):  # lines of Python may be known later
            assert line
        slow_reader.stdin.close()
        rest, errors = checker.communicate(timeout=PATIENCE)
    assert re.fullmatch(r"[\d:]{8} \d+ of \d+ calls? of read\(\) took longer than 5ms, and at most 1 % may \(p99\)\n",
                        first)
    assert "write()" not in rest and "<module> (<string>:" in line + rest
    assert checker.returncode == 1 and not errors


def test_the_dashboard(slow_reader: subprocess.Popen[bytes]) -> None:
    output = run("dashboard.py", str(slow_reader.pid), "3")
    assert output.count("CALL ") == 3 and re.search(r"^read +\d+ +\d+ +\d+$", output, re.M)
    assert re.search(r"^\S+ +\d+ +read +[\d.]+ ms$", output, re.M)


def test_the_fixture(tmp_path: Path) -> None:
    options = ["-q", "-p", "sonde.testing.plugin", "-p", "no:cacheprovider", "-c", os.devnull]
    done = subprocess.run([sys.executable, "-m", "pytest", *options, EXAMPLES / "test_fixture.py"], cwd=tmp_path,
                          capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment() | {
                              "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""})
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_notebook() -> None:
    """Its cells in one process: it is the kernel's answers that are of interest, not the notebook's."""
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    space: dict[str, Any] = {}
    values = []
    for cell in json.loads((EXAMPLES / "exploration.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code":
            text = re.sub(r"COMMAND = .*", 'COMMAND = "cat /etc/hostname /no/such"', "".join(cell["source"]))
            *body, last = ast.parse(text).body
            assert isinstance(last, ast.Expr)
            exec(compile(ast.Module(body, []), "exploration.ipynb", "exec"), space)
            values.append(eval(compile(ast.Expression(last.value), "exploration.ipynb", "eval"), space))
    assert values[0].names == ["time", "probe", "PATH", "RESULT", "US"]
    rows = {folder: (opens, vain) for folder, opens, vain, _ in values[1].fetchall()}
    assert rows["/no"] == (1, 1) and rows["/etc"][0] >= 1
    assert values[2].value.total >= 3 and "/no/such" in values[3]


def test_the_fleet_report() -> None:
    output = run("fleet_report.py", "local:a,local:b", "0.5")
    assert re.search(r"^\| a \| \d+ \| \d+ \| \d+ \|$", output, re.M) and "2 of 2 hosts" in output
