"""sonde memleak --python: against what tracemalloc says in another run of the same program."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sonde.compiling import live_world
from support import Tracer

pytestmark = [pytest.mark.skipif(os.uname().machine != "x86_64", reason="pystack is for x86_64"),
              pytest.mark.skipif(not live_world().has_feature("bpf_loop"), reason="kernel lacks bpf_loop (Linux 5.17)")]

PROGRAM = """\
import json, sys, tracemalloc
N = 300
def make_bytes():
    return [b"x" * (3000 + i % 2) for i in range(N)]  # kept
def make_lists():
    return [[None] * 50 for i in range(N)]  # kept
def make_dicts():
    return [{i: i, "a": 1, "b": 2} for i in range(N)]  # kept
class Order:
    def __init__(self, number): self.number = number
def make_objects():
    return [Order(number) for number in range(N)]  # kept
def make_freed():
    return [b"z" * (200 + i % 2) for i in range(N)]  # freed
def grow():
    return [b"w" * (400 + i % 2) for i in range(12000)]  # grows
if len(sys.argv) > 1:
    tracemalloc.start(1)
else:
    print("ready", flush=True)
    sys.stdin.readline()
all = [make() for make in (make_bytes, make_lists, make_dicts, make_objects)]
make_freed()
if len(sys.argv) > 1:
    rows = tracemalloc.take_snapshot().statistics("lineno")
    print(json.dumps({row.traceback[0].lineno: [row.size, row.count] for row in rows
                      if row.traceback[0].filename == __file__}))
else:
    more = [] if "malloc" in sys._xoptions else grow()
    print("done", flush=True)
    sys.stdin.readline()
"""


def lines_with(text: str) -> list[int]:
    return [number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith(f"# {text}")]


def traced_lines(program: Path, *options: str, malloc: str) -> dict[tuple[str, int], int]:
    """(map, line) -> weight of the line itself."""
    output = program.with_suffix(".csv")
    with subprocess.Popen([sys.executable, *options, str(program)], text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, env={**os.environ, "PYTHONMALLOC": malloc}) as process:
        assert process.stdin and process.stdout and process.stdout.readline() == "ready\n"
        with Tracer("memleak", "--python", "--older", "0", "-T", "100000", "-f", "lines", "--output", str(output),
                    "-p", str(process.pid), "600") as tracer:
            process.stdin.write("go\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"
        process.communicate("\n")
    assert "lost" not in tracer.stderr.lower(), tracer.stderr
    rows = csv.DictReader(line for line in output.read_text().splitlines() if line[0] != "#")
    return {(row["table"], int(row["line"])): int(row["self"]) for row in rows if row["file"] == str(program)}


def test_bytes_and_pieces_of_each_line_are_those_of_tracemalloc(tmp_path: Path) -> None:
    program = tmp_path / "shop.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, str(program), "trace"], capture_output=True, text=True, check=True)
    expected = json.loads(done.stdout)
    seen = traced_lines(program, "-X", "malloc", malloc="malloc")
    for line in lines_with("kept"):
        assert [seen["@bytes", line], seen["@allocations", line]] == expected[str(line)], (line, seen, expected)
    assert seen.get(("@bytes", lines_with("freed")[0]), 0) < 1000
    assert not any(name == "@arena_bytes" for name, _ in seen)


def test_arenas_by_the_lines_that_needed_them(tmp_path: Path) -> None:
    program = tmp_path / "grow.py"
    program.write_text(PROGRAM)
    seen = traced_lines(program, malloc="pymalloc")
    line, = lines_with("grows")
    assert 4 << 20 <= seen["@arena_bytes", line] <= 7 << 20 and seen["@arenas", line] * (1 << 20) == \
        seen["@arena_bytes", line], seen
    kept = lines_with("kept")[0]
    assert 300 * 3033 <= seen["@bytes", kept] <= 300 * 3034 + 3000 + 8000, seen  # more than 512 bytes: as they are
