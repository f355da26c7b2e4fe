"""The tools that measure waits and interrupts, against the workload's own clock and the kernel's counters."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from support import Tracer

SLEEPER = """
import os, time
with open("/proc/self/comm", "w") as file:
    file.write("sonde-sleeper")
begun, ran = time.monotonic_ns(), time.process_time_ns()
for _ in range(20):
    time.sleep(0.01)
print((time.monotonic_ns() - begun - time.process_time_ns() + ran) // 1000, flush=True)
"""
PIPE = """
import os, time
read, write = os.pipe()
if os.fork() == 0:
    with open("/proc/self/comm", "w") as file:
        file.write("sonde-reader")
    os.close(write)
    while os.read(read, 1):
        pass
    os._exit(0)
with open("/proc/self/comm", "w") as file:
    file.write("sonde-writer")
os.close(read)
for _ in range(20):
    time.sleep(0.01)
    os.write(write, b"x")
os.close(write)
os.wait()
"""


def run(program: str) -> tuple[str, int]:
    """Run it to its end; what it printed, and the microseconds that it lived at most."""
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, timeout=30, check=True)
    return done.stdout, int((time.monotonic() - begun) * 1e6)


def entries(text: str, name: str) -> list[tuple[str, int]]:
    """(key, value) of each entry of a map whose keys have stacks, over several lines."""
    return [(key, int(value)) for key, value in re.findall(rf"^@{name}\[(.*?)\]: (\d+)$", text, re.M | re.S)]


def test_offcputime() -> None:
    """With -i all time off the CPU is counted, which the workload knows from two clocks: what passed less what it ran.
    (Time that a hypervisor steals, or that interrupts take, may be in neither: 5% are left for it.)"""
    with Tracer("offcputime", "-K", "-i") as tracer:
        told, lived = run(SLEEPER)
    mine = [(key, us) for key, us in entries(tracer.stdout, "us_kernel") if key.endswith(", sonde-sleeper")]
    assert 0.95 * int(told) <= sum(us for _, us in mine) <= lived  # a thread is not longer off the CPU than it lives
    assert sum(us for key, us in mine if "hrtimer_nanosleep" in key) >= 150_000


def test_offcputime_leaves_preemption_out() -> None:
    """Without -i: 20 sleeps of 10 ms, less what a timer had run of those on whose way it was preempted."""
    with Tracer("offcputime", "-K") as tracer:
        _, lived = run(SLEEPER)
    mine = [(key, us) for key, us in entries(tracer.stdout, "us_kernel") if key.endswith(", sonde-sleeper")]
    assert 150_000 <= sum(us for key, us in mine if "hrtimer_nanosleep" in key) <= lived


def test_offcputime_has_user_stacks_and_a_minimum() -> None:
    waiting = "input()\n" + SLEEPER + "input()\n"  # its stacks are named when the trace ends
    command = [sys.executable, "-S", "-c", waiting]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        with Tracer("offcputime", "-m", "5000", "-p", str(process.pid)) as tracer:
            process.stdin.write(b"\n")
            process.stdin.flush()
            process.stdout.readline()
        process.stdin.write(b"\n")
    mine = [(key, us) for key, us in entries(tracer.stdout, "us") if key.endswith(", sonde-sleeper")]
    assert sum(us for key, us in mine if "clock_nanosleep" in key.replace("__x64_sys_clock_nanosleep", "")) >= 150_000
    assert all(us >= 5000 for _, us in mine)


def test_offwaketime() -> None:
    """The reader sleeps as long as the writer does, and is woken by its writes."""
    with Tracer("offwaketime", "-m", "5000") as tracer:
        _, lived = run(PIPE)
    mine = [(key, us) for key, us in entries(tracer.stdout, "us") if key.startswith("sonde-reader, ")]
    woken = sum(us for key, us in mine if key.endswith(", sonde-writer") and "pipe_write" in key and "pipe_read" in key)
    assert 150_000 <= woken <= lived  # a write may find it not asleep yet


def soft_interrupts() -> dict[str, int]:
    """Kind -> how many there were on all CPUs."""
    lines = Path("/proc/softirqs").read_text().splitlines()[1:]
    return {line.split(":")[0].strip().lower(): sum(map(int, line.split(":")[1].split())) for line in lines}


def test_softirqs() -> None:
    """As many as the kernel counts between two readings inside, at most as between two outside."""
    outside = soft_interrupts()
    with Tracer("softirqs", "-C") as tracer:
        inside = soft_interrupts()
        run(SLEEPER)
        inner = {kind: n - inside[kind] for kind, n in soft_interrupts().items()}
    outer = {kind: n - outside[kind] for kind, n in soft_interrupts().items()}
    found = {kind: int(n) for kind, n in re.findall(r"^@count\[(\w+)\]: (\d+)$", tracer.stdout, re.M)}
    assert sum(inner.values()) > 0
    for kind, least in inner.items():
        assert least - skipped(tracer) <= found.get(kind, 0) <= outer[kind], (kind, least, tracer.stderr)


def histograms(text: str) -> dict[str, list[tuple[int, int, int]]]:
    """``@us[NAME]`` by name: (least, upper limit, how many) of each bucket that is not empty."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for name, body in re.findall(r"^@us\[(.*)\]: *\n((?:[\[(].*\n)+)", text, re.M):
        for low, high, n in re.findall(r"^[\[(](\w+)(?:, (\w+)[)\]])?\]? +(\d+) \|", body, re.M):
            if int(n):
                least = number(low)
                found.setdefault(name, []).append((least, number(high) if high else least + 1, int(n)))
    return found


def number(text: str) -> int:
    """``4K`` -> 4096."""
    return int(text.rstrip("KMG")) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1], 1)


def skipped(tracer: Tracer) -> int:
    """Interrupts that came while the kernel was busy with another tracer's program: it runs no second one, and says
    how often."""
    return sum(int(n) for n in re.findall(r"the kernel skipped (\d+) event", tracer.stderr))


def compare_times(spread: Tracer, sums: Tracer, inner: dict[str, int], outer: dict[str, int]) -> None:
    """The histograms have as many times as the kernel counted, and the sums are of times that the histograms have."""
    times = histograms(spread.stdout)
    totals = {name: int(us) for name, us in re.findall(r"^@total_us\[(.*)\]: (\d+)$", sums.stdout, re.M)}
    for name, least in inner.items():
        count = sum(n for _, _, n in times.get(name, []))
        assert least - skipped(spread) <= count <= outer[name], (name, least, count, outer, spread.stderr)
        if count:  # twice: each of the two also measures what the other one takes
            low, high = min(low for low, _, _ in times[name]), max(high for _, high, _ in times[name])
            assert (least - skipped(sums)) * low <= 2 * totals.get(name, 0) + 4 * outer[name], (name, totals, times)
            assert totals.get(name, 0) <= 2 * outer[name] * high, (name, totals, times)
    assert times.keys() >= {name for name, n in inner.items() if n > skipped(spread)}


def test_softirqs_times() -> None:
    outside = soft_interrupts()
    with Tracer("softirqs", "-d") as spread, Tracer("softirqs") as sums:
        inside = soft_interrupts()
        run(SLEEPER)
        inner = {kind: n - inside[kind] for kind, n in soft_interrupts().items()}
    outer = {kind: n - outside[kind] for kind, n in soft_interrupts().items()}
    compare_times(spread, sums, inner, outer)


def test_softirqs_at_intervals() -> None:
    with Tracer("softirqs", "1", "2") as tracer:
        run(SLEEPER)
        tracer.wait()
    assert len(re.findall(r"^\d\d:\d\d:\d\d$", tracer.stdout, re.M)) == 2
    assert re.search(r"^@total_us\[\w+\]: \d+$", tracer.stdout, re.M)


def hard_interrupts() -> dict[str, int]:
    """Name -> how many, of the interrupts of devices."""
    found = {}
    for line in Path("/proc/interrupts").read_text().splitlines()[1:]:
        words = line.split()
        if words[0].rstrip(":").isdigit():
            numbers = [int(word) for word in words[1:] if word.isdigit()][:os.cpu_count()]
            found[words[-1]] = found.get(words[-1], 0) + sum(numbers)
    return found


def write_to_disk(folder: Path) -> None:
    with open(folder / "data", "wb") as file:
        for _ in range(20):
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())


def test_hardirqs(tmp_path: Path) -> None:
    """As many as /proc/interrupts says between the readings inside, at most as between those outside."""
    outside = hard_interrupts()
    with Tracer("hardirqs", "-C") as tracer:
        inside = hard_interrupts()
        write_to_disk(tmp_path)
        inner = {name: n - inside[name] for name, n in hard_interrupts().items()}
    outer = {name: n - outside[name] for name, n in hard_interrupts().items()}
    found = {name: int(n) for name, n in re.findall(r"^@count\[(.*)\]: (\d+)$", tracer.stdout, re.M)}
    for name, least in inner.items():
        assert least - skipped(tracer) <= found.get(name, 0) <= outer[name], (name, tracer.stderr)


def test_hardirqs_times(tmp_path: Path) -> None:
    outside = hard_interrupts()
    clock = ("t:irq:irq_handler_entry { @t[cpu] = nsecs; } t:irq:irq_handler_exit /@t[cpu]/ "
             "{ @all = sum(nsecs - @t[cpu]); delete(@t, cpu); }")
    with Tracer("-e", clock) as nanoseconds, Tracer("hardirqs", "-d") as spread, Tracer("hardirqs") as sums:
        inside = hard_interrupts()
        write_to_disk(tmp_path)
        inner = {name: n - inside[name] for name, n in hard_interrupts().items()}
    outer = {name: n - outside[name] for name, n in hard_interrupts().items()}
    compare_times(spread, sums, inner, outer)
    # Another program's view of all of them, from before to after: the tool's sum is no more, but for what both cost.
    whole = re.search(r"^@all: (\d+)$", nanoseconds.stdout, re.M)
    total = sum(int(us) for us in re.findall(r"^@total_us\[.*\]: (\d+)$", sums.stdout, re.M))
    assert whole is not None and 500 * total <= int(whole[1]) + 2000 * sum(outer.values())
