"""Tools about the scheduler, locks, block devices, memory and functions, against workloads whose answer is known."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from printed import histogram_total, rows
from support import Tracer, compile_c, run_sonde

PYTHON = os.path.realpath(sys.executable)  # nothing else starts on the way to it
SPIN = "while True: pass"


@contextlib.contextmanager
def spinning(count: int, cpu: int) -> Iterator[list[int]]:
    """So many processes that share a CPU and always want it."""
    children = [subprocess.Popen([PYTHON, "-S", "-c", SPIN], preexec_fn=lambda: os.sched_setaffinity(0, [cpu]))
                for _ in range(count)]
    try:
        yield [child.pid for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()


def test_runqslower() -> None:
    """Of three that share a CPU each waits for the two others, again and again, and as long as the kernel says."""
    cpu = max(os.sched_getaffinity(0))
    with spinning(3, cpu) as pids, Tracer("runqslower", "-p", str(pids[0]), "-P", "-f", "json", "200") as tracer:
        before = waited(pids[0])
        time.sleep(1.5)
        after = waited(pids[0])
    mine = rows(tracer.stdout)
    assert {row["TID"] for row in mine} == {pids[0]} and all(int(str(row["LAT(us)"])) > 200 for row in mine)
    assert set(pids[1:]) & {row["PREV_TID"] for row in mine}
    total = sum(int(str(row["LAT(us)"])) for row in mine)
    longest = max(int(str(row["LAT(us)"])) for row in mine)
    assert (after - before) / 2 <= total + 2 * longest  # what the kernel counted in between, but for the first and last


def waited(pid: int) -> int:
    """Microseconds that a process has waited for a CPU: the second number of schedstat."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) // 1000


def test_cpuunclaimed() -> None:
    """With more waiting for one CPU than there are CPUs, whatever is idle is unclaimed."""
    done = []
    with spinning(os.cpu_count() or 1, max(os.sched_getaffinity(0))):
        tracer = run_sonde("cpuunclaimed", "-T", "-f", "json", "1", "2")
        done = rows(tracer.stdout)
    assert len(done) == 2
    for row in done:
        busy, unclaimed = float(str(row["%CPU"])), float(str(row["%UNCLAIMED"]))
        assert 100 / (os.cpu_count() or 1) - 1 <= busy <= 100 and abs(busy + unclaimed - 100) <= 5


HELD = """
import os, sys, threading, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b"x" * (1 << 27), 0)
room = bytearray(1 << 27)
go, done = threading.Barrier(2), threading.Barrier(2)


def read():
    for _ in range(5):
        go.wait()
        os.readv(fd, [room])
        done.wait()
        os.lseek(fd, 0, 0)


def seek():
    for _ in range(5):
        go.wait()
        time.sleep(0.004)
        os.lseek(fd, 0, 0)
        done.wait()


threads = [threading.Thread(target=each) for each in (read, seek)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


@pytest.mark.skipif(not Path("/sys/kernel/tracing/events/lock/contention_begin").exists(),
                    reason="lock:contention_begin is there from Linux 5.19 on")
def test_klockstat(tmp_path: Path) -> None:
    """One thread reads a large file, another one moves its position meanwhile: it waits for the first one's mutex."""
    shared = Path("/dev/shm") if Path("/dev/shm").is_dir() else tmp_path
    (tmp_path / "held.py").write_text(HELD)
    file = shared / f"sonde-test-{os.getpid()}"
    try:
        begun = time.monotonic()
        done = run_sonde("klockstat", "-s", "8", "-S", "acq_count", "-c", f"{PYTHON} -S {tmp_path / 'held.py'} {file}")
        took = (time.monotonic() - begun) * 1e6
    finally:
        file.unlink(missing_ok=True)
    assert done.returncode == 0, done.stderr
    waits = done.stdout.split("AVG(us)")[1]  # what follows, where the kernel has fentry, is of holding
    blocks = re.findall(r"^ +(\d+) +(\d+) +(\d+) +(\d+)\n\n((?: +\S+\+\d+\n)+)", waits, re.M)
    mine = [block[:4] for block in blocks if "lseek" in block[4]]
    counts = sum(int(count) for _, count, _, _ in mine)
    assert 1 <= counts <= 10
    for average, count, longest, total in (map(int, block) for block in mine):
        assert average <= longest <= total + 1 <= took and abs(average - total / count) <= 1


def zones() -> list[tuple[int, str]]:
    """(node, zone) of those that have pages, as /proc/zoneinfo tells them."""
    text = Path("/proc/zoneinfo").read_text()
    return [(int(node), name) for node, name, rest in re.findall(r"^Node (\d+), zone +(\w+)\n((?: .*\n)*)", text, re.M)
            if not re.search(r"^ +managed +0$", rest, re.M)]


@pytest.mark.skipif(not os.access("/proc/sys/vm/compact_memory", os.W_OK), reason="the kernel compacts no memory")
def test_compactsnoop(tmp_path: Path) -> None:
    """Of what is asked for in /proc/sys/vm/compact_memory each zone is compacted, by the process that asks."""
    with Tracer("compactsnoop", "-e", "-f", "json") as tracer, Tracer("compactsnoop", "-K") as stacks:
        child = subprocess.Popen([PYTHON, "-S", "-c", "open('/proc/sys/vm/compact_memory', 'w').write('1')"])
        assert child.wait() == 0
    mine = [row for row in rows(tracer.stdout) if row["PID"] == child.pid]
    assert [(row["NODE"], row["ZONE"]) for row in mine] == zones()
    assert {(row["ORDER"], row["MODE"]) for row in mine} == {(-1, "SYNC")}
    assert all(int(str(row["MIN"])) <= int(str(row["LOW"])) <= int(str(row["HIGH"])) for row in mine)
    assert re.search(rf" {child.pid} .*\n\n(?: +\S+\+\d+\n)* +\S*compact\S*\+\d+\n", stacks.stdout)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    """The name of a loop device of 16 MiB that nobody else uses."""
    if not shutil.which("losetup") or not Path("/dev/loop-control").exists():
        pytest.skip("needs losetup and loop devices")
    file = tmp_path / "image"
    file.write_bytes(bytes(16 << 20))
    made = subprocess.run(["losetup", "--direct-io=off", "-f", "--show", str(file)], capture_output=True, text=True,
                          check=False)
    if made.returncode:
        pytest.skip(f"losetup: {made.stderr.strip()}")
    device = made.stdout.strip()
    try:
        yield Path(device).name
    finally:
        subprocess.run(["losetup", "-d", device], check=True)


READS = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
page = mmap.mmap(-1, 4096)
for place in map(int, sys.argv[2].split(",")):
    os.preadv(fd, [page], 4096 * place)
"""


def read_pages(disk: str, places: list[int]) -> None:
    subprocess.run([PYTHON, "-S", "-c", READS, f"/dev/{disk}", ",".join(map(str, places))], check=True)


def test_biopattern(disk: str) -> None:
    """Forty pages one behind the other, and twenty with gaps between them."""
    with Tracer("biopattern", "-d", disk, "-f", "json") as tracer:
        read_pages(disk, [*range(100, 140), *range(1000, 1100, 5)])
    row, = rows(tracer.stdout)
    assert (row["DISK"], row["COUNT"], row["KBYTES"]) == (disk, 60, 240)
    assert (row["%RND"], row["%SEQ"]) == (35, 65)  # 21 of 60: the first one, and each behind a gap


def test_biopattern_of_a_first_request_at_the_beginning(disk: str) -> None:
    with Tracer("biopattern", "-d", disk, "-f", "json") as tracer:
        read_pages(disk, [0, 1])
    row, = rows(tracer.stdout)
    assert (row["COUNT"], row["%RND"], row["%SEQ"]) == (2, 50, 50)


def test_biolatpcts(disk: str) -> None:
    """As a script that prints each time has them, up to the step of a sixteenth."""
    script = ("rawtracepoint:block_rq_issue { @begun[(uint64)args.rq] = nsecs; } "
              "rawtracepoint:block_rq_complete /has_key(@begun, (uint64)args.rq)/ { "
              'printf("took %d %s\\n", (nsecs - @begun[(uint64)args.rq]) / 1000, '
              "str(request_disk(args.rq)->disk_name)); "
              "delete(@begun, (uint64)args.rq); }")
    with Tracer("-e", script) as each, \
            Tracer("biolatpcts", "-i", "3", "-n", "1", "-p", "10,50,99.9,100", "-f", "json", f"/dev/{disk}") as tracer:
        read_pages(disk, list(range(0, 4000, 10)))
        tracer.wait()
    times = sorted(int(us) for us, name in re.findall(r"^took (\d+) (\S+)$", each.stdout, re.M) if name == disk)
    assert len(times) == 400
    found = {str(row["PCT"]): int(str(row["READ"])) for row in rows(tracer.stdout)}
    assert list(found) == ["10.0", "50.0", "99.9", "100.0"]
    for pct, us in found.items():
        true = times[-(-len(times) * int(float(pct) * 10) // 1000) - 1]
        slack = 1 if float(pct) < 99 else 4  # the two do not look at the same moment, which single requests tell
        assert true * 0.9 / slack - 3 <= us <= (true + 3) * 18 / 16 * slack, (pct, true, us)
    assert {(row["WRITE"], row["DISCARD"], row["FLUSH"]) for row in rows(tracer.stdout)} == {(0, 0, 0)}


SLEEPS = r"""
#include <unistd.h>
__attribute__((noinline)) int nap(int ms, int again) { usleep(ms * 1000); return again ? nap(ms, again - 1) + 1 : 42; }
int main(void) { for (int i = 0; i < 3; i++) nap(1, 0); nap(50, 0); nap(20, 1); return 0; }
"""


def test_funclatency_and_funcslower(tmp_path: Path) -> None:
    """Four calls by themselves and one within another one, with the times that they sleep."""
    binary = compile_c(SLEEPS, tmp_path, "sleeps", "-fno-optimize-sibling-calls")
    done = run_sonde("funclatency", "-m", f"{binary}:nap", "-c", str(binary))
    assert histogram_total(done.stdout, "msecs") == 6
    counted = re.search(r"^@all_msecs: \{ \.count = 6, \.average = \d+, \.total = (\d+) \}", done.stdout, re.M)
    assert counted and int(counted[1]) >= 3 + 50 + 20 + 40
    by = run_sonde("funclatency", "-F", f"uprobe:{binary}:na*", "-c", str(binary))
    assert histogram_total(by.stdout, f"nsecs[uretprobe:{binary}:nap]") == 6
    slow = run_sonde("funcslower", "-m", "20", "-a", "2", "-f", "json", f"{binary}:nap", "-c", str(binary))
    told = rows(slow.stdout)
    assert [tuple(row[name] for name in ("RVAL", "FUNC", "ARG0", "ARG1")) for row in told] == [
        (42, "nap", "0x32", "0x0"), (42, "nap", "0x14", "0x0"), (43, "nap", "0x14", "0x1")]
    first, inner, outer = (float(str(row["LAT(ms)"])) for row in told)
    assert first >= 50 and inner >= 20 and outer >= inner + 20
    plain = run_sonde("funcslower", "-u", "40000", "-T", "-t", f"{binary}:nap", "-c", str(binary))
    assert re.search(r"^TIME +TIME\(s\) COMM +PID +LAT\(us\) +RVAL FUNC\n\d\d:\d\d:\d\d +\d+\.\d{3} sleeps .* nap\n",
                     plain.stdout, re.M)


@pytest.mark.parametrize(("words", "said"), [
    (["biolatpcts", "-p", "50,101", "vda"], "'101' is no percentile"),
    (["biolatpcts", "-p", "99.99", "vda"], "'99.99' is no percentile"),
    (["klockstat", "-S", "name"], "--sort is one of"),
    (["funclatency"], "funclatency needs a FUNCTION"),
    (["runqslower", "soon"], "US is a whole number"),
    (["opensnoop", "-d", "0"], "--duration is a whole number from 1 up, not '0'"),
    (["opensnoop", "-d", "0.5"], "--duration is a whole number, not '0.5'"),
    (["biotop", "--rows", "-5"], "--rows is a whole number, not '-5'"),
    (["profile", "-p", "4194999", "1"], "there is no process 4194999"),
    (["biosnoop", "-p", "4194999"], "there is no process 4194999"),
    (["offcputime", "-f", "-c", "true"], "option requires an argument -- 'f'\nHINT: -f needs a FORMAT"),
])
def test_what_cannot_be_meant(words: list[str], said: str) -> None:
    done = run_sonde(*words)
    assert done.returncode == 1 and said in done.stderr and done.stdout == ""
