"""proctitle, is_forked() and role(): what processes are for, of themselves and of Python's pools."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from support import run_sonde

TITLES = """
import ctypes, os
with open("/proc/self/stat", "rb") as file:
    fields = file.read().rpartition(b")")[2].split()
start, end = int(fields[45]), int(fields[46])
os.getpgid(0)
for text in (b"shop: worker", b"x" * (end - start) + b"yz"):
    room = max(end - start, len(text) + 1)
    ctypes.memmove(start, text + bytes(room - len(text)), room)
    os.getpgid(0)
"""
POOLS = """
import multiprocessing, os, subprocess, sys

def work():
    os.getpgid(0)

if __name__ == "__main__":
    for method in ("fork", "forkserver", "spawn"):
        worker = multiprocessing.get_context(method).Process(target=work)
        worker.start()
        worker.join()
    work()
    subprocess.run(["sh", "-c", "exec " + sys.executable + " -S -c 'import os; os.getpgid(0)' other"])
"""


def test_the_title_is_what_ps_shows(tmp_path: Path) -> None:
    """Arguments of every length, empty ones too, and what the program writes in their place, then beyond it."""
    program = tmp_path / "titles.py"
    program.write_text(TITLES)
    arguments = ["", "a", "", "b" * 7, "c" * 8, ""]
    done = run_sonde("-f", "json", "-c", " ".join([sys.executable, "-S", str(program), *[f"'{a}'" for a in arguments]]),
                     "-e", "tracepoint:syscalls:sys_enter_getpgid /pid == cpid/ { print((proctitle, role())); }")
    given = " ".join([sys.executable, "-S", str(program), *arguments])
    there = len(given) + 1
    titles = [given[:127].rstrip(" "), "shop: worker", ("x" * there + "yz")[:127]]
    shown = [json.loads(line)["data"] for line in done.stdout.splitlines() if '"value"' in line]
    assert shown == [[title, title] for title in titles], (done.stdout, done.stderr)


def test_the_roles_of_a_family(tmp_path: Path) -> None:
    """Each worker is of its kind's role; another program that a worker starts is no worker."""
    program = tmp_path / "p.py"
    program.write_text(POOLS)
    own = f"{sys.executable} {program}"[:127]
    done = run_sonde("-f", "json", "--follow", "-c", own, "-e", """
        tracepoint:syscalls:sys_enter_getpgid { @calls[role(), is_forked()] = count(); }
        tracepoint:syscalls:sys_enter_read { @reading[role()] = count(); }""")
    maps = {name: values for line in done.stdout.splitlines() if '"map"' in line
            for name, values in json.loads(line)["data"].items()}
    calls = maps["@calls"]
    other = next(key for key in calls if "import os" in key)
    assert calls == {f"{own},false": 1, f"{own} (forked),true": 1, "multiprocessing worker,false": 1,
                     "multiprocessing worker of forkserver,true": 1, other: 1} and other.endswith("other,false"), calls
    assert {"multiprocessing forkserver", "multiprocessing resource tracker", own} <= set(maps["@reading"])
