"""Many threads on all CPUs, and keys that meet in one place of a CPU's table: what is counted is what there was."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest

import sonde
from sonde.compiler import compilation
from sonde.compiling import live_world
from support import PRODUCER, compile_c

pytestmark = pytest.mark.skipif(not live_world().has_feature("atomic_fetch"), reason="kernel lacks atomic_fetch")
CALLS, THREADS = 20_000, 24
SCRIPT = """config = { max_map_keys = %d }
tracepoint:syscalls:sys_enter_getppid /pid == cpid/ {
    @count[tid] = count(); @sum[tid, comm] = sum(3); @hist[comm] = hist(tid); @stats[cpu, tid] = stats(7);
}
tracepoint:syscalls:sys_exit_getppid /pid == cpid/ { @count[tid] = count(); }
"""


@pytest.mark.parametrize("places", [2, 16, 256])
@pytest.mark.parametrize("entries", [10, 1000])
def test_counts_of_many_threads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, places: int, entries: int) -> None:
    monkeypatch.setattr(compilation, "HOT_SLOTS", places)
    name = f"hot{os.getpid()}"
    command = [str(compile_c(PRODUCER, tmp_path, "producer")), str(THREADS), str(CALLS), name]
    with sonde.trace(SCRIPT % entries, command=command, world=live_world()) as trace:
        assert all(trace.spec.find_map(f"@{each}").hot for each in ("count", "sum", "hist", "stats"))
        trace.run(timeout=60)
        full = {site.span.text.split("[")[0]: count for site, count in trace.losses.errors if site.kind == "map_full"}
        total = CALLS * THREADS
        counts, sums = dict(trace.maps["@count"].items()), dict(trace.maps["@sum"].items())
        stats = list(trace.maps["@stats"].values())
        [histogram] = trace.maps["@hist"].values()
    if entries == 1000:
        assert not full and set(counts.values()) == {2 * CALLS} and set(sums.values()) == {3 * CALLS}
        assert len(counts) == len(sums) == THREADS
        assert sum(each.count for each in stats) == total and sum(each.total for each in stats) == 7 * total
    else:
        assert len(counts) == len(sums) == len(stats) == 10
        assert set(counts.values()) == {2 * CALLS} and set(sums.values()) == {3 * CALLS}
        assert sum(trace_count for trace_count in full.values()) > 0
    assert histogram.total == total


@pytest.mark.parametrize("places", [2, 256])
def test_what_is_read_and_cleared_meanwhile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, places: int) -> None:
    """Keys come, rest and come again while the map is cleared again and again: each event belongs to one reading."""
    monkeypatch.setattr(compilation, "HOT_SLOTS", places)
    name = f"hot{os.getpid()}"
    command = [str(compile_c(PRODUCER, tmp_path, "producer")), str(THREADS), str(CALLS), name]
    script = """config = { max_map_keys = 200 } tracepoint:syscalls:sys_enter_getppid /pid == cpid/ {
        @count[tid] = count(); if (nsecs % 4 == 0) { @some[tid, (nsecs >> 22) & 7] = count(); @all = count(); }
    } interval:s:100 { clear(@count); clear(@some); }"""
    counts: Counter[bytes] = Counter()
    some: Counter[bytes] = Counter()

    def read(trace: sonde.Trace) -> int:
        for map, sums in (("@count", counts), ("@some", some)):
            for key, value in trace.session.maps[map].read_and_clear():
                assert isinstance(value, tuple)
                sums[key] += value[0]
        return counts.total()

    with sonde.trace(script, command=command, world=live_world()) as trace:
        assert trace.spec.find_map("@count").hot and trace.spec.find_map("@some").hot
        deadline = time.monotonic() + 60
        while read(trace) < CALLS * THREADS and time.monotonic() < deadline:
            trace.run(timeout=0.003)
        read(trace)
        assert not [site for site, _ in trace.losses.errors if site.kind == "map_full"]
        assert some.total() == trace.maps["@all"].value
    assert len(counts) == THREADS and set(counts.values()) == {CALLS}
