"""What programs cost: run counts that are known exactly, beside bpftool's where it is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

import sonde
from sonde.runtime.costs.overhead import Meter, bucket_index
from sonde.types import Aggregate
from support import compile_c, run_sonde

CALLS = 1234
TARGET = f"""
#include <stdio.h>
#include <unistd.h>
int counted(int n) {{ return n + 1; }}
int main(void) {{
    volatile int sink = 0;
    for (int i = 0; i < {CALLS}; i++) sink = counted(sink);
    return 0;
}}
"""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that calls counted() so many times."""
    return compile_c(TARGET, tmp_path_factory.mktemp("statistics"))


def test_runs_of_each_probe(target: Path) -> None:
    script = f"uprobe:{target}:counted {{ @ = count(); }} uprobe:{target}:main {{ @m = count(); }} end {{ }}"
    done = run_sonde("--stats", "-f", "json", "-e", script, "-c", str(target))
    data, = [row["data"] for row in map(json.loads, done.stdout.splitlines()) if row["type"] == "stats"]
    runs = {row["probe"]: row for row in data["probes"]}
    counted = runs[f"uprobe:{target}:counted"]
    assert (counted["runs"], counted["lost"], counted["points"]) == (CALLS, 0, 1)
    assert runs[f"uprobe:{target}:main"]["runs"] == 1 and runs["end"]["runs"] == 1
    assert counted["ns_per_run"] == pytest.approx(counted["time_ns"] / CALLS, rel=0.01)
    assert counted["cpu_share"] == pytest.approx(counted["time_ns"] / 1e9 / data["seconds"], rel=0.01)


def test_what_is_lost_and_what_is_printed_is_all(target: Path) -> None:
    script = f'config = {{ perf_rb_pages = 1 }} uprobe:{target}:counted {{ printf("%200d\\n", 1); }}'
    done = run_sonde("--stats", "-e", script, "-c", str(target))
    row, = [line.split() for line in done.stderr.splitlines() if "counted" in line and "of one CPU" not in line
            and "Lost" not in line]
    printed = len(done.stdout.split())
    assert int(row[0]) == CALLS and int(row[4]) + printed == CALLS
    assert row[5] == f"uprobe:{target}:counted"


def test_nothing_is_counted_without_the_switch(target: Path) -> None:
    done = run_sonde("-f", "json", "-e", f"uprobe:{target}:counted {{ @ = count(); }}", "-c", str(target))
    assert '"stats"' not in done.stdout


def test_overhead_counts_every_program(target: Path) -> None:
    with sonde.trace(f"uprobe:{target}:counted {{ @ = count(); }}") as tracing, Meter() as meter:
        number = tracing.session.programs[0].program_info().id
        subprocess.run([target], check=True)
        cost, = [cost for cost in meter.program_costs() if cost.id == number]
        assert cost.runs == CALLS and cost.type == "kprobe" and cost.time_ns > 0 and cost.name == "sonde_counted"
        assert cost.mean * cost.runs == pytest.approx(cost.time_ns)
        if shutil.which("bpftool"):
            shown = json.loads(subprocess.run(["bpftool", "-j", "prog", "show", "id", str(number)], capture_output=True,
                                              text=True, check=True).stdout)
            assert (shown["run_cnt"], shown["run_time_ns"]) == (cost.runs, cost.time_ns)
            assert shown["name"] == cost.name


def test_a_program_that_ends_meanwhile_is_counted(target: Path) -> None:
    with sonde.trace(f"uprobe:{target}:counted {{ @ = count(); }}") as tracing:
        meter = Meter()
        number = tracing.session.programs[0].program_info().id
        subprocess.run([target], check=True)
    with meter:
        assert [cost.runs for cost in meter.program_costs() if cost.id == number] == [CALLS]


def test_latencies_of_one_program(target: Path) -> None:
    """Every run is in the histogram; runs of processes that are started one by one stand alone."""
    with sonde.trace(f"uprobe:{target}:main {{ @ = count(); }}") as tracing, Meter() as meter:
        number = tracing.session.programs[0].program_info().id
        workload = threading.Thread(target=lambda: [subprocess.run([target], check=True) for _ in range(12)])

        def stopped() -> bool:
            if not workload.ident:
                workload.start()
            return not workload.is_alive()
        latency = meter.watch_program(number, 60, stopped)
        workload.join()
    assert latency.runs == 12 == latency.histogram.total
    assert 0 < latency.alone <= 12


@pytest.mark.filterwarnings("ignore:process .* has not mapped")
def test_the_command_shows_who_holds_a_program(target: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        with sonde.trace(f"uprobe:{target}:counted {{ @ = count(); }}", pid=sleeper.pid) as tracing:
            number = tracing.session.programs[0].program_info().id
            shown = json.loads(run_sonde("overhead", "-f", "json", "0.2").stdout)["data"]["programs"]
            text = run_sonde("overhead", "0.2").stdout
            single = run_sonde("overhead", f"id:{number}", "0.2")
            import os
            mine, = [row for row in shown if row["id"] == number]
            assert any(holder.endswith(f"/{os.getpid()}") for holder in mine["held_by"])
            assert mine["runs"] == 0 and f"/{os.getpid()}" in text
            assert "it did not run" in single.stdout
        sleeper.kill()


@pytest.mark.parametrize(("words", "complaint"), [
    (["id:4294967295"], "there is no BPF program 'id:4294967295'"),
    (["nosuchprogram"], "there is no BPF program 'nosuchprogram'"),
    (["0"], "SECONDS has to be more than 0"),
    (["-f", "csv", "1"], "overhead is printed as text or json"),
    (["id:1", "id:2"], "overhead takes one program"),
])
def test_complaints(words: list[str], complaint: str) -> None:
    done = run_sonde("overhead", *words)
    assert done.returncode == 1 and complaint in done.stderr


@pytest.mark.parametrize("value", [0, 1, 7, 8, 9, 10, 100, 1000, 12345, 1 << 40])
def test_buckets_hold_their_values(value: int) -> None:
    counts = [0] * Aggregate("hist", bits=2).words
    counts[bucket_index(value)] = 1
    found, = sonde.Histogram(counts, 2)
    assert found.low is not None and found.high is not None and found.low <= value < found.high
