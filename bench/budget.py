#!/usr/bin/env python3
"""What ``--budget`` costs the traced, beside itself untraced in the same run.

    bench/budget.py [--budget PERCENT] [--rounds N] [--seconds S] [--spin N] [--kind getppid|f] [--threads N]

The twin of the traced workload is itself: where a budget detaches, each span in which the programs were attached is
compared with the twentieth of a second before and after it. What the workload's rounds took longer is shown as a share
of one CPU, as the budget is; the first second of a trace by itself. Batches in which somebody else was given the CPU
are left out. Needs root, a C compiler, and a machine that does nothing else; the error shown is that of the mean.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from run import build

import sonde
from sonde.runtime.costs.budget import Budget

SLICE, NEAR = 0.006, 0.05  # s


class Slice(NamedTuple):
    """A few dozen milliseconds of one thread."""

    time: float
    rounds: int
    took: float


class Workload:
    """A running ``nswork flood``; its slices are collected by a thread."""

    def __init__(self, binary: Path, chosen: argparse.Namespace) -> None:
        self.slices: list[Slice] = []
        self._process = subprocess.Popen([str(binary), "flood", str(chosen.threads), str(chosen.spin), chosen.kind],
                                         stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            at, rounds, took = line.split()
            insort(self.slices, Slice(float(at), int(rounds), float(took)))

    def between(self, begin: float, end: float) -> list[Slice]:
        """The slices that lie between two moments."""
        return [s for s in self.slices[bisect_left(self.slices, (begin + SLICE,)):] if s.time <= end]

    def rate(self, begin: float, end: float) -> float:
        """Rounds a second of all threads."""
        return sum(s.rounds for s in self.between(begin, end)) / (end - begin)

    def added(self, begin: float, end: float) -> float:
        """Seconds that rounds took longer than those just before and after: what is there of slow weather cancels."""
        near = self.between(begin - NEAR, begin) + self.between(end + SLICE, end + SLICE + NEAR)
        usual = sum(s.took for s in near) / max(sum(s.rounds for s in near), 1)
        return sum(s.took - s.rounds * usual for s in self.between(begin - SLICE, end + SLICE)) / 1e9 if near else 0.0

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()


class Round(NamedTuple):
    """A trace: its first and its last moment, the spans between in which it was attached, and what the budget says."""

    begin: float
    end: float
    attached: list[tuple[float, float]]
    share: float
    seen: int
    skipped: int
    detached: float


def trace(program: str, budget: float, seconds: float) -> Round:
    """One trace."""
    moments: list[float] = []

    def noting(call: Callable[[Budget], None], late: bool) -> Callable[[Budget], None]:
        def both(keeper: Budget) -> None:
            moments.append(time.monotonic())
            call(keeper)
            moments[-1] = time.monotonic() if late else moments[-1]
        return both

    before = Budget._detach_programs, Budget._reattach_programs
    Budget._detach_programs = noting(before[0], True)  # type: ignore[method-assign]
    Budget._reattach_programs = noting(before[1], False)  # type: ignore[method-assign]
    try:
        moments.append(time.monotonic())
        with sonde.trace(program, budget=budget) as tracing:
            begin = time.monotonic()
            tracing.session.poll(seconds)
            kept, seen = tracing.losses.withheld, tracing.maps["@"].value or 0
    finally:
        Budget._detach_programs, Budget._reattach_programs = before  # type: ignore[method-assign]
    moments.append(time.monotonic())
    assert kept is not None
    return Round(begin, moments[-1], list(zip(moments[::2], moments[1::2])), kept.spent_ns / kept.traced_ns, seen,
                 sum(n for _, n in kept.events), kept.detached_ns / kept.traced_ns)


def percent(values: list[float]) -> str:
    """Their mean and its standard error."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return f"{100 * statistics.mean(values):.2f}% ± {100 * error:.2f}"


def lost(work: Workload, rounds: list[Round]) -> tuple[list[float], list[float]]:
    """What the workload lost in each round, as shares of one CPU: in the first second, and after it."""
    first, later = [], []
    for each in rounds:
        spans = [(max(begin, each.begin), end) for begin, end in each.attached if end > each.begin]
        second = each.begin + 1
        first.append(sum(work.added(*span) for span in spans if span[0] < second))
        later.append(sum(work.added(*span) for span in spans if span[0] >= second) / (each.end - second))
    return first, later


def report(work: Workload, rounds: list[Round], chosen: argparse.Namespace) -> None:
    first, later = lost(work, rounds)
    rate = statistics.mean([work.rate(r.begin, r.end) for r in rounds])
    print(f"{chosen.kind}, {chosen.threads} threads, {rate:,.0f} events/s, budget {chosen.budget:g}% of one CPU, "
          f"{len(rounds)} rounds")
    print(f"  the workload lost, of one CPU: {percent(first)} in the first second, {percent(later)} after it")
    print(f"  the budget's own account: {percent([r.share for r in rounds])}")
    print(f"  events a second: {statistics.mean([r.seen / (r.end - r.begin) for r in rounds]):,.0f} traced, "
          f"{statistics.mean([r.skipped / (r.end - r.begin) for r in rounds]):,.0f} skipped and counted; detached "
          f"{100 * statistics.mean([r.detached for r in rounds]):.1f}% of the time")


def measure(binary: Path, chosen: argparse.Namespace) -> tuple[Workload, list[Round]]:
    """The rounds, and the workload that has ended."""
    point = "tracepoint:syscalls:sys_enter_getppid" if chosen.kind == "getppid" else f"uprobe:{binary}:f"
    work = Workload(binary, chosen)
    try:
        rounds = []
        for _ in range(chosen.rounds):
            time.sleep(chosen.seconds)
            rounds.append(trace(f"{point} {{ @ = count(); }}", chosen.budget / 100, chosen.seconds))
        time.sleep(chosen.seconds)
    finally:
        work.close()
    return work, rounds


def options(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--budget", type=float, default=2.0, help="percent of one CPU's time")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each trace, and between them")
    parser.add_argument("--spin", type=int, default=350, help="what the workload does between two events")
    parser.add_argument("--kind", choices=("getppid", "f"), default="getppid")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args(words)


def main() -> int:
    chosen = options()
    if os.geteuid() != 0:
        sys.exit("bench: needs root")
    with tempfile.TemporaryDirectory() as folder:
        report(*measure(build(Path(folder)), chosen), chosen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
