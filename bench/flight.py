#!/usr/bin/env python3
"""What a record costs in flight memory, beside the same record in the ring: nanoseconds of the program by the kernel's
own account, the best of some rounds each.

    bench/flight.py [ROUNDS]
    bench/flight.py minute [RATE]

The second: RATE (1,000,000) calls a second for a minute, on two CPUs; what CPU time the armed process takes meanwhile,
and whether twenty dumps at its end, while the calls go on, have each CPU's numbers without a gap.

One thread, or one on each of two CPUs, calls lseek() as fast as it can. Meanwhile the ring is read, and what is read
dropped. Its records tell their time only if something asks for it (a view, a recording, the script); those of a flight
always do.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import sonde
from sonde import compiling
from sonde.errors import MachineError, SyscallError
from sonde.layouts.event_records import DATA_RING
from sonde.layouts.shared_maps import HEAD
from sonde.runtime.session import Session
from sonde.semantics.script_options import Options
from sonde.source import Source

SCRIPT = 'tracepoint:syscalls:sys_enter_lseek /comm == "bench"/ { printf("%d %d %s\\n", cpu, args.offset, comm); }'
WAYS: dict[str, dict[str, Any]] = {
    "ring": {}, "ring, with the time": {"timed": True}, "flight": {"timed": True, "flight": 32 << 20},
    "kernel's overwriting ring": {"timed": True, "overwrites": True}}  # one for all CPUs; Linux 6.19
OVERWRITES = 1 << 19  # BPF_F_RB_OVERWRITE
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
    overwrites = way.get("overwrites", False)
    spec = compiling.compile(Source("bench", SCRIPT), Options(**{k: v for k, v in way.items() if k != "overwrites"}))
    for ring in [ring for ring in spec.maps if ring.name == DATA_RING and overwrites]:
        ring.flags |= OVERWRITES
        ring.max_entries = 64 << 20
    with Session(spec, run_statistics=True) as session:
        session.attach()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
            while running.poll() is None:
                if session.flight is None and not overwrites:
                    session.poll(0.1)
                else:
                    running.wait()
        info = session.programs[0].program_info()
        lost = sum(count for _, count in session.losses().records)
        return info.run_time_ns / info.run_count, info.run_count / SECONDS, lost


def armed_minute(rate: int, seconds: float = 60.0) -> None:
    """Print what was measured; AssertionError for a dump that has a gap."""
    folder = tempfile.TemporaryDirectory()
    command = [str(build(Path(folder.name))), "2", str(rate / 2), str(seconds + 60)]
    with folder, sonde.trace(SCRIPT, flight="30s,64M") as tracing, \
            subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
        try:
            time.sleep(1)
            before, runs, begun = os.times(), _runs(tracing), time.monotonic()
            time.sleep(seconds)
            after, passed = os.times(), time.monotonic() - begun
            print(f"{(_runs(tracing) - runs) / passed:,.0f} events a second for {passed:.1f} s: "
                  f"{after.user - before.user:.2f} s of CPU time in user space, "
                  f"{after.system - before.system:.2f} s in the kernel")
            sizes = []
            for _ in range(20):
                sizes.append(0)
                for stretch in tracing.session.flight.read_stretches():  # type: ignore[union-attr]
                    own = [struct.unpack_from("=q", batch.buffer, offset + 24)[0]
                           for batch in stretch.batches for offset in batch.offsets]
                    assert own == list(range(own[0], own[0] + len(own))), f"CPU {stretch.cpu} has a gap"
                    sizes[-1] += len(own)
            print(f"20 dumps of {min(sizes):,} to {max(sizes):,} records, without a gap; lost: {tracing.losses}")
        finally:
            running.kill()


def _runs(tracing: sonde.Trace) -> int:
    """Records that were begun, by the heads of flight memory."""
    flight = tracing.session.flight
    assert flight is not None
    size = tracing.spec.sites[0].size + 8
    return sum(flight._word(cpu, HEAD) for cpu in range(flight._cpus)) // size


def main() -> None:
    if sys.argv[1:2] == ["minute"]:
        armed_minute(int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        binary = build(Path(folder))
        print("| CPUs | way | ns a record | to the ring's | events/s | lost |\n|---|---|---|---|---|---|")
        for cpus in (1, 2):
            found: dict[str, list[tuple[float, float, int]]] = {name: [] for name in WAYS}
            for _ in range(rounds):
                for name in list(found):
                    try:
                        found[name].append(measure(WAYS[name], [str(binary), str(cpus), "0", str(SECONDS)]))
                    except (MachineError, SyscallError):  # this kernel's rings do not overwrite
                        del found[name]
            base = min(found["ring"])[0]
            for name, rows in found.items():
                time, rate, lost = min(rows)
                print(f"| {cpus} | {name} | {time:.0f} | {time / base:.2f} | {rate:,.0f} | {lost} |")


if __name__ == "__main__":
    main()
