#!/usr/bin/env python3
"""What a record costs in flight memory, beside the same record in the ring: nanoseconds of the program by the kernel's
own account, the best of some rounds each.

    bench/flight.py [ROUNDS]

One thread, or one on each of two CPUs, calls lseek() as fast as it can. Meanwhile the ring is read, and what is read
dropped. Its records tell their time only if something asks for it (a view, a recording, the script); those of a flight
always do.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from sonde import api
from sonde.language.source import Source
from sonde.runtime.session import Session
from sonde.semantics.options import Options

SCRIPT = 'tracepoint:syscalls:sys_enter_lseek /comm == "bench"/ { printf("%d %d %s\\n", cpu, args.offset, comm); }'
WAYS: dict[str, dict[str, Any]] = {
    "ring": {}, "ring, with the time": {"timed": True}, "flight": {"timed": True, "flight": 32 << 20}}
SECONDS = 1.5


def build(folder: Path) -> Path:
    """The workload of the live test."""
    text = (Path(__file__).parents[1] / "tests" / "live" / "test_flight.py").read_text()
    source = text.split('NUMBERS = """')[1].split('"""')[0].replace("\\\\n", "\\n")
    (folder / "bench.c").write_text(source)
    subprocess.run(["gcc", "-O2", "-pthread", "-o", str(folder / "bench"), str(folder / "bench.c")], check=True)
    return folder / "bench"


def measure(way: dict[str, Any], command: list[str]) -> tuple[float, float, int]:
    """Nanoseconds of a run, runs a second, and records that were lost."""
    spec = api.compile(Source("bench", SCRIPT), Options(**way))
    with Session(spec, run_statistics=True) as session:
        session.attach()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
            while running.poll() is None:
                if session.flight is None:
                    session.poll(0.1)
                else:
                    running.wait()
        info = session.programs[0].program_info()
        lost = sum(count for _, count in session.losses().records)
        return info.run_time_ns / info.run_count, info.run_count / SECONDS, lost


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        binary = build(Path(folder))
        print("| CPUs | way | ns a record | to the ring's | events/s | lost |\n|---|---|---|---|---|---|")
        for cpus in (1, 2):
            found: dict[str, list[tuple[float, float, int]]] = {name: [] for name in WAYS}
            for _ in range(rounds):
                for name, way in WAYS.items():
                    found[name].append(measure(way, [str(binary), str(cpus), "0", str(SECONDS)]))
            base = min(found["ring"])[0]
            for name, rows in found.items():
                time, rate, lost = min(rows)
                print(f"| {cpus} | {name} | {time:.0f} | {time / base:.2f} | {rate:,.0f} | {lost} |")


if __name__ == "__main__":
    main()
