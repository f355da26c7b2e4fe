"""--budget on the running kernel: what is kept back is counted, the share is kept to, and maps say so."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sonde
from support import PATIENCE, compile_c, run_sonde

CALLS = 40_000
# So many calls of f(), or without end (0), with a pause of a millisecond after each group (0: none); or "timed": as
# many as get done in so many milliseconds of CPU time, which it prints.
TARGET = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int f(int n) { return n + 1; }
int main(int argc, char **argv) {
    struct timespec pause = {0, 1000000};
    long calls = atol(argv[1]), group = atol(argv[2]);
    volatile int sink = 0;
    if (argv[2][0] == 't') {
        for (long i = 0;; i++) {
            sink = f(sink);
            if (i % 64 == 0 && clock() >= calls * (CLOCKS_PER_SEC / 1000)) return printf("%ld\\n", i) < 0;
        }
    }
    for (long i = 0; calls == 0 || i < calls; i++) {
        sink = f(sink);
        if (group && i % group == group - 1) nanosleep(&pause, 0);
    }
    return 0;
}
"""
GETPPID = """
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct timespec pause = {0, 1000000};
    long calls = atol(argv[1]), group = atol(argv[2]);
    for (long i = 0; calls == 0 || i < calls; i++) {
        syscall(SYS_getppid);
        if (group && i % group == group - 1) nanosleep(&pause, 0);
    }
    return 0;
}
"""
ENTER, LEAVE = "tracepoint:syscalls:sys_enter_getppid", "tracepoint:syscalls:sys_exit_getppid"


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(TARGET, tmp_path_factory.mktemp("budget"))


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(GETPPID, tmp_path_factory.mktemp("budget"), "caller")


@pytest.fixture
def flood(caller: Path) -> Iterator[int]:
    """The pid of a process that calls getppid() as fast as it can."""
    process = subprocess.Popen([caller, "0", "0"])
    yield process.pid
    process.kill()
    process.wait()


def objects(text: str) -> dict[str, Any]:
    return {row["type"]: row for row in map(json.loads, text.splitlines())}


def test_printed_and_lost_and_skipped_is_all(caller: Path) -> None:
    """Each event's work is made expensive (a loop), counting it is cheap: nothing has to be detached."""
    script = (f"config = {{ perf_rb_pages = 1 }} {ENTER} /pid == cpid/ {{ $i = 0; while ($i < 4000) {{ $i++; }} "
              'printf("%200d\\n", $i); }')
    done = run_sonde("-f", "json", "--budget", "5%", "-e", script, "-c", f"{caller} {CALLS} 10", timeout=PATIENCE)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    printed = sum(row["type"] == "printf" for row in rows)
    lost = sum(row["data"]["events"] for row in rows if row["type"] == "lost_events")
    kept = next(row["data"] for row in rows if row["type"] == "withheld")
    assert kept["skipped"][ENTER] > 0 < printed
    if kept["detached_seconds"] == 0:
        assert printed + lost + kept["skipped"][ENTER] == CALLS
    else:  # the machine was so busy with other system calls that counting them was too dear
        assert printed + lost + kept["skipped"][ENTER] <= CALLS
    assert "is spent: events are being skipped" in done.stderr


def test_within_the_budget_nothing_changes(caller: Path) -> None:
    done = run_sonde("-f", "json", "--budget", "100%", "-e", f"{ENTER} /pid == cpid/ {{ @ = count(); }}", "-c",
                     f"{caller} 1000 10")
    found = objects(done.stdout)
    assert found["map"] == {"type": "map", "data": {"@": 1000}} and "withheld" not in found
    assert "budget" not in done.stderr


@pytest.mark.parametrize("share", [0.01, 0.05])
def test_a_flood_is_kept_to_the_share(share: float, flood: int) -> None:
    script = f"{ENTER} /pid == {flood}/ {{ @ = count(); @by[tid] = count(); }} begin {{ @never[1] = 1; }}"
    with sonde.trace(script, budget=share) as tracing:
        tracing.run(timeout=3)
        kept = tracing.losses.withheld
        assert kept is not None and kept
        assert tracing.maps["@"].incomplete and tracing.maps["@by"].incomplete
        assert not tracing.maps["@never"].incomplete
    # Without a budget it is most of a CPU. A look that a busy machine delays lets events run into the closed gate.
    assert 0.3 * share < kept.spent_ns / kept.traced_ns < share + 0.04, kept
    assert tracing.maps["@"].value > 0 and tracing.maps["@"].incomplete
    assert kept.detached_ns > 0  # counting alone is more than the budget, whenever the flood is given a CPU


def test_the_traced_is_hardly_slower_than_its_twin(target: Path, tmp_path: Path) -> None:
    """Both count the calls that they get done in the same CPU time. Without a budget it would be a hundredth."""
    twin = tmp_path / "twin"
    shutil.copy(target, twin)

    def together() -> tuple[int, int]:
        both = [subprocess.Popen([path, "1500", "timed"], stdout=subprocess.PIPE, text=True) for path in (target, twin)]
        traced, alone = (int(process.communicate(timeout=PATIENCE)[0]) for process in both)
        return traced, alone
    with sonde.trace(f"uprobe:{target}:f {{ @ = count(); }}", budget=0.02) as tracing:
        traced, alone = together()
        assert tracing.maps["@"].value > 0
    assert traced > 0.6 * alone


def test_pairs_that_a_gap_has_torn_apart_make_no_nonsense(flood: int) -> None:
    """getppid() takes less than a microsecond, and some milliseconds where another process gets the CPU in between; the
    pauses of the budget are a good tenth of a second."""
    script = (f"{ENTER} /pid == {flood}/ {{ @s[tid] = nsecs; }} "
              f"{LEAVE} /@s[tid]/ {{ @slow = max(nsecs - @s[tid]); @n = count(); delete(@s, tid); }}")
    with sonde.trace(script, budget=0.01) as tracing:
        tracing.run(timeout=3)
        kept = tracing.losses.withheld
        assert kept is not None and kept.detached_ns > 500_000_000 and tracing.maps["@n"].value > 100
        assert tracing.maps["@slow"].value < 80_000_000


def test_uprobes_are_taken_out_and_put_back(target: Path) -> None:
    process = subprocess.Popen([target, "0", "0"])
    try:
        with sonde.trace(f"uprobe:{target}:f {{ @ = count(); }}", budget=0.02) as tracing:
            seen = []
            for _ in range(3):
                tracing.run(timeout=1)
                seen.append(tracing.maps["@"].value)
            kept = tracing.losses.withheld
    finally:
        process.kill()
        process.wait()
    assert kept is not None and kept.detached_ns > kept.traced_ns / 4
    assert 0 < seen[0] < seen[1] < seen[2]  # again and again


def test_text_says_it_at_once_and_at_the_end(flood: int) -> None:
    script = f"{ENTER} /pid == {flood}/ {{ @ = count(); }} interval:s:1 {{ print(@); exit(); }}"
    done = run_sonde("--budget", "1", "-e", script)
    assert done.stdout.count("@ is incomplete:\n@: ") == 2
    first, *_ = [line for line in done.stderr.splitlines() if line.startswith("WARNING: --budget 1%")]
    assert first.endswith(("are incomplete", "part of the time"))
    assert "WARNING: --budget 1%: the programs took" in done.stderr and "nothing counted what came then" in done.stderr


def test_interval_probes_are_not_held_back(flood: int) -> None:
    script = (f"{ENTER} /pid == {flood}/ {{ @ = count(); }} "
              "interval:ms:100 { @ticks++; if (@ticks == 12) { exit(); } }")
    found = [json.loads(line) for line in run_sonde("-f", "json", "--budget", "1", "-e", script).stdout.splitlines()]
    assert {"type": "map", "data": {"@ticks": 12}} in found


def test_an_end_in_the_midst_of_a_pause(flood: int) -> None:
    with sonde.trace(f"{ENTER} /pid == {flood}/ {{ @ = count(); }} end {{ @end = 1; }}", budget=0.002) as tracing:
        tracing.run(timeout=0.5)
        begin = time.monotonic()
    assert time.monotonic() - begin < 5
    assert tracing.maps["@end"].value == 1 and tracing.losses.withheld.detached_ns > 0


def test_without_the_right_to_statistics(flood: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a service, which has no CAP_SYS_ADMIN: the programs count their own runs."""
    from sonde.runtime.costs import budget
    monkeypatch.setattr(budget, "try_enable_statistics", lambda: None)
    monkeypatch.setattr(budget, "stats_always_enabled", lambda: False)
    with sonde.trace(f"{ENTER} /pid == {flood}/ {{ @ = count(); }}", budget=0.02) as tracing:
        tracing.run(timeout=2)
        kept = tracing.losses.withheld
    assert kept is not None and kept.detached_ns > kept.traced_ns / 4 and tracing.maps["@"].value > 0
    assert kept.spent_ns / kept.traced_ns < 0.05
