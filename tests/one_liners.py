"""docs/one-liners.toml: running its programs on the workload that each is for, and judging what they print."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from printed import histogram_total
from support import Tracer, run_sonde

ROOT = Path(__file__).parents[1]
WORKLOAD = ROOT / "scripts" / "workload.py"

OneLiner = dict[str, Any]


def one_liners() -> list[OneLiner]:
    """The table, in its order."""
    found: list[OneLiner] = tomllib.loads((ROOT / "docs" / "one-liners.toml").read_text())["one-liner"]
    return found


def run(item: OneLiner, program: str) -> tuple[str, int]:
    """(what ``program`` prints of the workload's process alone, that process's id)."""
    if module := item.get("module"):
        subprocess.run(["modprobe", module], check=True)
    command = [sys.executable, "-S", str(WORKLOAD), *item["parts"]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, ExitStack() as failed:
        failed.callback(process.kill)  # else it would wait for its signal, and we for it
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        mine = [] if item.get("everybody") else ["-p", str(process.pid)]
        with Tracer(*mine, "-e", program, timeout=150) as tracer:
            os.kill(process.pid, signal.SIGUSR1)
            assert process.stdout.readline() == "done\n"
            # its stacks are named when the trace ends: it has to be there still
        os.kill(process.pid, signal.SIGUSR1)
        failed.pop_all()
    return tracer.stdout, process.pid


def lacking(program: str) -> str:
    """The first tracepoint of a program, in guests also field of one, that this kernel does not have; "" if it has
    all."""
    said = run_sonde("--mode", "codegen", "-e", program).stderr
    others = "|no tracepoint matches|a field named" if os.environ.get("SONDE_VM") else ""
    found = re.search(rf"(?:No matches for tracepoint{others}) (\S+?)\.?$", said, re.M)
    return found[1] if found else ""


def listing(item: OneLiner) -> str:
    """What -lv prints, or -l for patterns."""
    return run_sonde("-l" if "*" in item["list"] else "-lv", item["list"], timeout=150).stdout


def judge(item: OneLiner, text: str, pid: int = 0) -> None:
    """Assert that the text is what the workload makes it."""
    for pattern in item.get("expect", []):
        assert re.search(rf"^{pattern.replace('{pid}', str(pid))}$", text, re.M), f"{pattern}\n{text}"
    if lines := item.get("lines"):
        assert len([line for line in text.splitlines() if line.strip()]) == lines, text
    for name, total in item.get("totals", {}).items():
        assert histogram_total(text, name.replace("{pid}", str(pid))) == total, text
    for name, wanted in item.get("stats", {}).items():
        blocks = re.findall(rf"^@{name}: {{ \.count = (\d+), \.average = \d+, \.total = (\d+) }}$", text, re.M)
        assert [sum(int(n) for n in column) for column in zip(*blocks)] == wanted, text
    if item.get("module"):
        assert "@" not in text
