#!/usr/bin/env python3
"""What many CPUs cost, in guests of one kernel whose machine may have so many CPUs, two of which are there.

    bench/cpus.py [--cpus 2,64,256] [--count-instructions] [--rounds N] [--json FILE]

Debian's kernel 6.1 runs under QEMU (tests/vm/vmrun.py) with ``possible_cpus=N``: per-CPU memory, tables with a part for
each CPU and what reads them then have N parts. For each script and number of CPUs: the kernel's memory when the script
runs and its map has 256 keys, the process' own at most, the time from its start to that of the traced command, the time
from that one's end to its own, and how many of the command's 1,024 calls it counted. Times are an emulator's, good for
comparing guests with one another: the best round, after the first, which compiles. With --count-instructions one CPU is
there, and the guest's clock goes by these: then times do not depend on what else the host does. Prints Markdown tables;
needs root.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KERNEL = "6.1"  # the last of Debian's that takes possible_cpus= for an order and not for a limit
SECONDS = 1500
KEYS, CALLS = 256, 1024
CALL = "tracepoint:syscalls:sys_enter_getpgid /pid == cpid/"
SCRIPTS = {name: f"{config} {CALL} {action}" for name, config, action in (
    ("printf()", "", '{ printf("%d %d\\n", pid, args.pid); }'),
    ("@start[tid] = nsecs", "", "{ @start[tid] = nsecs; }"),
    ("@ = count()", "", "{ @ = count(); }"),
    ("@ = hist(n)", "", "{ @ = hist(args.pid); }"),
    ("@[n] = count()", "", "{ @[args.pid] = count(); }"),
    ("@[n] = hist(n)", "", "{ @[args.pid] = hist(args.pid); }"),
    ("@[n] = hist(n, 5)", "", "{ @[args.pid] = hist(args.pid, 5); }"),
    ("@[n] = tseries(1, 1h, 10)", "config = { unstable_tseries = true }",
     '{ @[args.pid] = tseries(1, 1h, 10, "sum"); }'),
    ("@[n] = count(), which is read", "",
     "{ @[args.pid] = count(); if ((int64)@[args.pid] > 100000) { exit(); } }"),
    ("strings of 4 KiB", "config = { max_strlen = 4096 }",
     "{ $a = str(args.pid + 1); @[str_concat($a, comm)] = count(); }"),
)}


def kernel_memory() -> int:
    """KiB of the kernel's own: for each CPU, small and large objects."""
    words = [line.split() for line in Path("/proc/meminfo").read_text().splitlines()]
    return sum([int(each[1]) for each in words if each[0] in ("Percpu:", "SUnreclaim:", "VmallocUsed:")])


def settled_memory() -> int:
    """The same, when it has stopped to change: what is freed is free a moment later."""
    before = kernel_memory()
    for _ in range(40):
        time.sleep(0.05)
        now = kernel_memory()
        if abs(now - before) < 64:
            break
        before = now
    return now


def act() -> None:
    """The traced command: calls whose numbers are the keys; then what there is now, as JSON."""
    begun = time.monotonic()
    for number in range(CALLS):
        try:
            os.getpgid(1 << 22 | number % KEYS)
        except ProcessLookupError:
            pass
    Path(sys.argv[2]).write_text(json.dumps({"begun": begun, "memory": settled_memory(), "ended": time.monotonic()}))


def run_inside() -> dict[str, dict[str, float]]:
    """In the guest: each script's figures."""
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(dir="/run") as folder:
        said = Path(folder, "said")
        work = f"{sys.executable} -S {__file__} --act {said}"
        for name, script in SCRIPTS.items():
            for _ in range(int(sys.argv[3])):
                found[name] = merge_rounds(found.get(name), run_script(script, work, said))
    return found


def run_script(script: str, work: str, said: Path) -> dict[str, float]:
    before, begun = settled_memory(), time.monotonic()
    with subprocess.Popen([sys.executable, "-m", "sonde", "-f", "json", "-c", work, "-e", script],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        out = process.stdout.read()
        error = process.stderr.read().decode()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    ended = time.monotonic()
    if process.returncode or not said.exists():
        return {"failed": 1, "error": error[-300:]}  # type: ignore[dict-item]
    told = json.loads(said.read_text())
    said.unlink()
    return {"start": told["begun"] - begun, "kernel": (told["memory"] - before) / 1024, "own": used.ru_maxrss / 1024,
            "end": ended - told["ended"], "counted": count_events(out)}


def count_events(out: bytes) -> int:
    """What a script saw: its events or the sum of its counts."""
    total = 0
    for line in out.splitlines():
        message = json.loads(line)
        if message["type"] == "printf":
            total += 1
        elif message["type"] in ("map", "stats", "hist", "tseries"):
            total += sum(map(sum_counts, message["data"].values()))
    return total


def sum_counts(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(sum_counts, value.values()))
    if isinstance(value, list):
        return sum([each.get("count", each.get("value", 0)) for each in value])
    return int(value)


def merge_rounds(one: dict[str, float] | None, other: dict[str, float]) -> dict[str, float]:
    return other if one is None else {name: min(value, one.get(name, value)) for name, value in other.items()}


def measure(cpus: int, rounds: int, options: list[str]) -> dict[str, dict[str, float]]:
    """In a guest of so many possible CPUs."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, str(ROOT / "tests" / "vm" / "vmrun.py"), "--kernel", KERNEL, "--append",
             f"possible_cpus={cpus}", *options, "--rw", folder, "--timeout", str(SECONDS), "--", sys.executable,
             __file__, "--inside", f"{folder}/found", str(rounds)],
            check=True, env=os.environ | {
                "XDG_CACHE_HOME": "/run/sonde-cache", "TMPDIR": "/run", "PYTHONPATH": str(ROOT / "src"),
                "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": "/run/bytecode"})
        found: dict[str, dict[str, float]] = json.loads(Path(folder, "found").read_text())
        return found


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1] if __doc__ else None)
    parser.add_argument("--cpus", default="2,64,256")
    parser.add_argument("--count-instructions", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    numbers = [int(each) for each in chosen.cpus.split(",")]
    options = ["--cpus", "1", "--count-instructions"] if chosen.count_instructions else []
    found = {number: measure(number, chosen.rounds, options) for number in numbers}
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n")
    for title, key, form in (("MiB of the kernel's", "kernel", ".1f"), ("MiB of its own", "own", ".0f"),
                             ("s to start", "start", ".2f"), ("s to end", "end", ".2f"), ("counted", "counted", ".0f")):
        print(f"\n| {title}, with possible CPUs | " + " | ".join(map(str, numbers)) + " |\n" + "|---" * (
            len(numbers) + 1) + "|")
        for name in SCRIPTS:
            print(f"| `{name}` | " + " | ".join(
                [format(found[number][name][key], form) if key in found[number][name] else
                 str(found[number][name].get("error", "-")) for number in numbers]) + " |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--act"]:
        act()
    elif sys.argv[1:2] == ["--inside"]:
        Path(sys.argv[2]).write_text(json.dumps(run_inside()))
    else:
        main()
