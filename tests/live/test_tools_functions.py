"""The tools that count and time what a pattern names, against workloads that do a known number of each."""

from __future__ import annotations

import ctypes
import json
import os
import re
import threading
import time
from pathlib import Path

import pytest

from support import Tracer, compile_c, run_sonde, set_comm

ME = str(os.getpid())


def maps(tracer: Tracer) -> dict[str, dict[str, object]]:
    """The maps that a tool printed as JSON, by name; of several outputs the last."""
    found: dict[str, dict[str, object]] = {}
    for line in tracer.lines:
        message = json.loads(line)
        if message["type"] in ("map", "hist"):
            found |= message["data"]
    return found


def buckets(found: object) -> list[dict[str, int]]:
    assert isinstance(found, list)
    return found


def test_funccount_counts_tracepoints() -> None:
    pattern = "tracepoint:syscalls:sys_enter_get*id"
    with Tracer("funccount", "-p", ME, "-f", "json", pattern) as tracer:
        for _ in range(321):
            os.getppid()
        for _ in range(123):
            os.getuid()
    counts = maps(tracer)["@count"]
    assert counts["tracepoint:syscalls:sys_enter_getppid"] == 321
    assert counts["tracepoint:syscalls:sys_enter_getuid"] == 123
    assert all(re.fullmatch(r"tracepoint:syscalls:sys_enter_get\w*id", name) for name in counts)


def test_funccount_counts_user_functions() -> None:
    libc = ctypes.CDLL("libc.so.6")
    with Tracer("funccount", "-p", ME, "-f", "json", "uprobe:libc:toasci*") as tracer:
        for _ in range(55):
            libc.toascii(65)
    counts = maps(tracer)["@count"]
    assert list(counts.values()) == [55] and all(name.endswith(":toascii") for name in counts)


def test_funccount_prints_each_interval_and_ends() -> None:
    with Tracer("funccount", "-T", "-i", "1", "-d", "2", "-p", ME, "tracepoint:syscalls:sys_enter_getppid") as tracer:
        for _ in range(77):
            os.getppid()
        tracer.wait()
    assert len(re.findall(r"^\d\d:\d\d:\d\d$", tracer.stdout, re.M)) == 3
    assert [int(n) for n in re.findall(r"sys_enter_getppid\]: (\d+)", tracer.stdout)] == [77]


@pytest.mark.parametrize(("words", "said"), [
    ([], "funccount needs a PATTERN"), (["nosuch:x"], "Invalid probe type: nosuch"),
    (["t:sched:nosuch*"], "no tracepoint matches sched:nosuch*"),
])
def test_funccount_explains(words: list[str], said: str) -> None:
    done = run_sonde("funccount", *words)
    assert done.returncode == 1 and said in done.stderr and not done.stdout


def test_stackcount() -> None:
    """Each sleep starts a timer from one stack."""
    def sleep() -> None:
        set_comm("sonde-sleeper")
        for _ in range(40):
            time.sleep(0.001)
    with Tracer("stackcount", "-K", "tracepoint:syscalls:sys_enter_clock_nanosleep") as kernel, \
            Tracer("stackcount", "-P", "-U", "-f", "json", "tracepoint:syscalls:sys_enter_clock_nanosleep") as user:
        thread = threading.Thread(target=sleep)
        thread.start()
        thread.join()
    found = re.findall(r"^(@count\[\n(?:    .*\n)+, sonde-sleeper\]: \d+)$", kernel.stdout, re.M)
    assert [stack.rpartition(" ")[2] for stack in found] == ["40"]
    assert "entry_SYSCALL_64" in found[0] or "el0_svc" in found[0]
    counts = maps(user)["@count"]
    mine = {key: n for key, n in counts.items() if key.endswith(f",{ME},sonde-sleeper")}
    assert sum(int(str(n)) for n in mine.values()) == 40
    assert any("nanosleep" in key for key in mine)


def test_hrtimers() -> None:
    """A sleep starts a timer and the timer ends the sleep."""
    def sleep() -> None:
        set_comm("sonde-sleeper")
        for _ in range(60):
            time.sleep(0.001)
    with Tracer("hrtimers", "-b", "-f", "json") as by_process, Tracer("hrtimers", "-l", "-r", "-f", "json") as tracer:
        thread = threading.Thread(target=sleep)
        thread.start()
        thread.join()
    started = maps(by_process)["@started"]
    assert started["hrtimer_wakeup,sonde-sleeper"] == 60
    found = maps(tracer)
    expired = int(str(found["@expired"]["hrtimer_wakeup"]))
    assert int(str(found["@started"]["hrtimer_wakeup"])) >= expired >= 60
    for name in ("@late_us", "@run_us"):
        times = sum(bucket["count"] for bucket in buckets(found[name]["hrtimer_wakeup"]))
        assert 60 <= times <= expired  # those that run while the probes are attached may lack their end
    assert set(found) == {"@started", "@expired", "@late_us", "@run_us"}


LEFT = r"""
#include <setjmp.h>
#include <stdio.h>
#include <unistd.h>
static jmp_buf there;
__attribute__((noipa)) void leaf(int left) { usleep(1000); if (left) longjmp(there, 1); }
__attribute__((noipa)) int outer(int depth)
{
    if (depth == 0) {
        usleep(1000);
        longjmp(there, 1);
    }
    if (depth < 3)
        return outer(depth - 1);
    if (!setjmp(there))
        outer(depth - 1);
    usleep(300000);
    return depth;
}
int main(void)
{
    for (volatile int i = 0; i < 6; i++)
        if (!setjmp(there))
            leaf(i % 2);
    return outer(3) != 3;
}
"""


@pytest.mark.parametrize("function, returned, left, least", [("leaf", 3, 3, 1), ("outer", 1, 3, 300)])
def test_calls_left_by_longjmp_are_counted(function: str, returned: int, left: int, least: int,
                                           tmp_path: Path) -> None:
    """They are not taken for the calls that return after them: the outermost call alone lasts 300 ms."""
    program = compile_c(LEFT, tmp_path, "left", "-fno-optimize-sibling-calls")
    latency = run_sonde("funclatency", "-c", str(program), "-m", f"{program}:{function}")
    assert f"{left} calls did not return" in latency.stdout.splitlines()
    found = re.search(r"\.count = (\d+), \.average = (\d+)", latency.stdout)
    assert found and int(found[1]) == returned and int(found[2]) >= least
    slower = run_sonde("funcslower", "-c", str(program), f"{program}:{function}")
    rows = [line.split() for line in slower.stdout.splitlines() if f" {function} " in f"{line} "]
    assert len(rows) == returned and all(float(row[2]) >= least for row in rows)
    assert f"{left} calls did not return" in slower.stdout.splitlines()
