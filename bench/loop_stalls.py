#!/usr/bin/env python3
"""A thousand stalls of an event loop, of each kind 200: which of them sonde pyloop names, with task and line.

    loop_stalls.py [ROUNDS [VERSION]]     as root, with gcc and such a Python

The program is tests/pyloop_target.py, which tests/live/test_pyloop.py runs for two rounds; it notes of each stall how
long it took. Rows and notes are brought together by task and order: on a busy machine the loop stalls at other times,
too. Prints how many stalls were named with cause, task, line and length, and each one that was not.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests"), str(ROOT / "tests/live")]

from test_pyloop import CAUSES, LINES  # noqa: E402

from printed import rows  # noqa: E402
from python_targets import run_python_target  # noqa: E402
from support import Tracer  # noqa: E402


def is_right(row: dict[str, Any], task: str, least: float, most: float) -> bool:
    """Whether cause, task, line and length are those of the stall, the length within 5 % and 1 ms."""
    line = "" if task == "computes" else rf"{LINES[task]}\)"
    return ((row["CAUSE"].strip(), row["CALL"].strip()) in CAUSES[task]
            and bool(re.match(rf"\s*{task} \(\S+/target.py:{line}", row["STACK"]))
            and 0.95 * least - 1 <= row["LAT(ms)"] <= 1.05 * most + 1)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    version = sys.argv[2] if len(sys.argv) > 2 else "3.13"
    sources = ["pygil_target.c", "pyloop_target.c"]
    with run_python_target(version, "pyloop_target", sources, rounds, Path(tempfile.mkdtemp())) as target:
        assert target.stdin and target.stdout and target.stdout.readline() == "ready\n"
        with Tracer("pyloop", "-f", "json", "-p", str(target.pid)) as tracer:
            target.stdin.write("begin\n")
            target.stdin.flush()
            noted = json.loads(target.stdout.readline())
    shown = [row for row in rows(tracer.stdout) if row["TASK"] in CAUSES]
    named = right = 0
    for task, least, most in noted:
        row = shown[named] if named < len(shown) else {"TASK": ""}
        if row["TASK"] != task:
            print(f"{task}, {least:.0f} to {most:.0f} ms: no row has that task")
            continue
        named += 1
        right += is_right(row, task, least, most)
        if not is_right(row, task, least, most):
            print(f"{task}, {least:.0f} to {most:.0f} ms: {row['LAT(ms)']} ms, {row['CAUSE']}, {row['STACK'][:60]}")
    print(f"CPython {version}: {right} of {len(noted)} stalls named with cause, task, line and length; "
          f"load {os.getloadavg()[0]:.1f}; {tracer.stderr.count('WARNING')} warnings")


if __name__ == "__main__":
    main()
