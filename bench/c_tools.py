#!/usr/bin/env python3
"""Sonde's tools beside bcc's, which are written by hand in C (libbpf-tools), on the same work.

    bench/c_tools.py [--folder FOLDER] [--loader "LOADER --library-path FOLDER"] [--rounds N] [--only opensnoop,...]
                     [--sonde COMMAND] [--json FILE]

FOLDER has the C tools, as NAME-libbpf or NAME; the loader starts them where they are another system's. The two take
turns. Prints a Markdown table. Kernel time is a ratio, Sonde's to C's: the time of all of the tool's programs while the
work runs, by the kernel's own statistics, whose cost is in both. Then, Sonde's figure and C's: the tool's CPU time from
start to end, and that from the moment before the work; its peak memory, the seconds until it traces, and its rows of
that work. A tool whose C twin is not there is named. Needs root, BTF and a C compiler.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import rows
from run import build, run_times, statistics


class Pair(NamedTuple):
    """``work``: arguments of nswork, once the tools trace. ``row``: the text that marks a row of that work, if the tool
    prints a row for each event."""

    name: str
    work: tuple[str, ...]
    row: str = ""
    ours: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()


PAIRS = (
    Pair("opensnoop", ("openat", "60000"), "/nowhere/"),
    Pair("execsnoop", ("exec", "400"), "true"),
    Pair("exitsnoop", ("exec", "400"), "true "),
    Pair("statsnoop", ("stat", "60000"), "/nowhere/"),
    Pair("syscount", ("getppid", "600000")),
    Pair("runqlat", ("switch", "60000")),
    Pair("cpudist", ("switch", "60000")),
    Pair("offcputime", ("switch", "60000")),
    Pair("wakeuptime", ("switch", "60000")),
    Pair("tcplife", ("tcp", "4000"), "nswork"),
    Pair("tcpstates", ("tcp", "4000"), "nswork"),
    Pair("softirqs", ("tcp", "10000")),
    Pair("profile", ("getppid", "6000000")),
)


class Figures(NamedTuple):
    """Nanoseconds in the kernel, CPU seconds, those of them from the work on, peak memory in MiB, seconds until the
    programs run, rows of the work (None: it prints no row for each event)."""

    kernel: float
    cpu: float
    worked: float
    memory: float
    start: float
    rows: int | None


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has taken, to the nanosecond, by its clock (clock_getcpuclockid(3))."""
    return time.clock_gettime(~pid << 3 | 2)


def hits(pid: int) -> int:
    """How often the programs of a process have run."""
    return sum(runs for _, runs in run_times(pid).values())


def measure(command: list[str], pair: Pair, binary: Path) -> Figures:
    """One run of a tool on the pair's work."""
    with tempfile.TemporaryFile() as output:
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            little = [str(binary), pair.work[0], "20"]
            while hits(process.pid) < 10:
                if process.poll() is not None or time.perf_counter() - begun > 20:
                    output.seek(0)
                    raise RuntimeError(output.read(500).decode(errors="replace") or "its programs never run")
                subprocess.run(little, check=True)
            start = time.perf_counter() - begun
            time.sleep(0.3)
            before, started = run_times(process.pid), cpu_seconds(process.pid)
            subprocess.run([str(binary), *pair.work], check=True)
            after = run_times(process.pid)
            if after == before:
                raise RuntimeError("the work does not run its programs")
            time.sleep(0.3)
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGINT)
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        printed = sum(pair.row.encode() in line for line in output) if pair.row else None
    spent = sum(now - before.get(key, (0, 0))[0] for key, (now, _) in after.items())
    cpu = usage.ru_utime + usage.ru_stime
    return Figures(spent, cpu, cpu - started, usage.ru_maxrss / 1024, start, printed)


def commands(pair: Pair, options: argparse.Namespace) -> tuple[list[str], list[str]] | None:
    """Sonde's command and the C tool's; None if that is not there."""
    folder = Path(options.folder)
    twins = [file for file in (folder / f"{pair.name}-libbpf", folder / pair.name) if file.exists()]
    if not twins:
        return None
    return ([*shlex.split(options.sonde), pair.name, *pair.ours],
            [*shlex.split(options.loader), str(twins[0]), *pair.theirs])


def compare(pair: Pair, options: argparse.Namespace, binary: Path) -> dict[str, list[Figures]] | None:
    """The rounds of both sides, in turn."""
    both = commands(pair, options)
    if both is None:
        print(f"{pair.name}: no C tool in {options.folder}", file=sys.stderr)
        return None
    rounds: dict[str, list[Figures]] = {"sonde": [], "c": []}
    for _ in range(options.rounds):
        for side, command in zip(rounds, both, strict=True):
            try:
                rounds[side].append(measure(command, pair, binary))
            except RuntimeError as error:
                print(f"{pair.name}, {side}: {error}", file=sys.stderr)
                return None
    return rounds


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default="/usr/sbin")
    parser.add_argument("--loader", default="")
    parser.add_argument("--sonde", default=f"{sys.executable} -m sonde")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    options = parser.parse_args()
    chosen = [pair for pair in PAIRS if not options.only or pair.name in options.only.split(",")]
    known: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, statistics():
        binary = build(Path(folder))
        for pair in chosen:
            rounds = compare(pair, options, binary)
            if rounds is not None:
                known[pair.name] = {side: [figures._asdict() for figures in all] for side, all in rounds.items()}
                print(rows.c_tools_row(pair.name, known[pair.name]), file=sys.stderr)
    if options.json:
        Path(options.json).write_text(json.dumps(known, indent=1) + "\n")
    print(rows.c_tools_table(known) if known else "nothing was measured")
    return 0 if known else 1


if __name__ == "__main__":
    sys.exit(main())
