"""What Sonde prints is true: every event is printed or reported lost, and lines are in the order of their times."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from support import PRODUCER, Tracer, compile_c

pytestmark = pytest.mark.exact

PROBE = "tracepoint:syscalls:sys_enter_getppid"
NAME = f"truth{os.getpid()}"  # of the producer: another run of these tests may be going on
LOST = re.compile(r"^Lost (\d+) events", re.MULTILINE)


@pytest.fixture(scope="module")
def producer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(PRODUCER, tmp_path_factory.mktemp("truth"), "producer")


def produce(producer: Path, threads: int, calls: int) -> int:
    subprocess.run([producer, str(threads), str(calls), NAME], check=True)
    return threads * calls


def lost(tracer: Tracer) -> int:
    return sum(int(count) for count in LOST.findall(tracer.stderr))


def unordered(times: list[int]) -> int:
    return sum(later < earlier for earlier, later in pairwise(times))


def test_printed_and_lost_are_all_that_was_produced(producer: Path) -> None:
    """Two threads, a million events each, as fast as they can, and Ctrl-C on their heels."""
    with Tracer("-e", f'{PROBE} /comm == "{NAME}"/ {{ printf("%llu %d\\n", nsecs, tid); }}') as tracer:
        produced = produce(producer, 2, 1_000_000)
    rows = [line.split() for line in tracer.lines]
    assert len(rows) + lost(tracer) == produced
    assert unordered([int(row[0]) for row in rows]) == 0
    assert tracer.status == 0


def test_few_events_are_not_lost(producer: Path) -> None:
    with Tracer("-e", f'{PROBE} /comm == "{NAME}"/ {{ printf("%llu %d\\n", nsecs, tid); }}') as tracer:
        produced = produce(producer, 2, 2_000)
    assert lost(tracer) == 0
    assert len(tracer.lines) == produced
    assert set(Counter(line.split()[1] for line in tracer.lines).values()) == {2_000}


def test_aggregates_are_exact(producer: Path) -> None:
    """Counts, sums and histograms of two threads on two CPUs miss nothing, keyed or not."""
    program = (
        f'{PROBE} /comm == "{NAME}"/ {{ @n = count(); @by[comm] = count(); @sum = sum(3);'
        " @h = lhist(7, 0, 64, 1); @kh[comm] = hist(2); }"
    )
    with Tracer("-e", program) as tracer:
        produced = produce(producer, 2, 500_000)
    text = tracer.stdout
    assert f"@n: {produced}\n" in text
    assert f"@by[{NAME}]: {produced}\n" in text
    assert f"@sum: {3 * produced}\n" in text
    assert re.search(rf"@h:\n\[7\] +{produced} ", text)
    assert re.search(rf"@kh\[{NAME}\]: *\n\[2, 4\) +{produced} ", text)


def test_count_is_exact_while_lines_are_lost(producer: Path) -> None:
    with Tracer("-e", f'{PROBE} /comm == "{NAME}"/ {{ printf("%d\\n", tid); @n = count(); }}') as tracer:
        produced = produce(producer, 2, 500_000)
    printed = sum(line.isdigit() for line in tracer.lines)
    assert f"@n: {produced}\n" in tracer.stdout
    assert printed + lost(tracer) == produced


def test_take_and_clear_drop_nothing(producer: Path) -> None:
    """print(@x); clear(@x) on a timer: the printed counts sum to what was produced."""
    program = f'{PROBE} /comm == "{NAME}"/ {{ @n = count(); }} interval:ms:50 {{ print(@n); clear(@n); }}'
    with Tracer("-e", program) as tracer:
        produced = produce(producer, 2, 1_000_000)
    assert sum(int(n) for n in re.findall(r"^@n: (\d+)$", tracer.stdout, re.M)) == produced


def test_a_full_map_is_reported(producer: Path) -> None:
    """16 keys in a map of 8 (by chance: a clock may tick in steps): what found no room is counted and said, by map."""
    program = (
        f'config = {{ max_map_keys = 8 }} {PROBE} /comm == "{NAME}"/ {{ @calls = count(); @full[rand % 16] = 1; }}'
    )
    with Tracer("-e", program) as tracer:
        produce(producer, 1, 10_000)
    assert len(re.findall(r"^@full\[\d+\]: 1$", tracer.stdout, re.M)) == 8
    assert "@full" in tracer.stderr
    assert re.search(r"full|max_map_keys", tracer.stderr.replace("@full", ""))


def test_an_exit_is_not_lost_behind_a_full_ring(producer: Path) -> None:
    """exit() travels apart from the data: it ends the tracing although the data ring is full."""
    program = (
        f'{PROBE} /comm == "{NAME}"/ {{ printf("%d %s\\n", tid, comm); @n++; if (@n == 300000) {{ exit(); }} }}'
    )
    with Tracer("-e", program) as tracer:
        produce(producer, 2, 500_000)
        tracer.wait()
    assert tracer.status == 0
