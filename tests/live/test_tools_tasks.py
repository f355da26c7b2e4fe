"""The tools that show what processes and threads do and are, each against a program that knows."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from printed import histogram_total, rows
from support import Tracer, compile_c, run_sonde, set_comm, wait_for

ME = str(os.getpid())
libc = ctypes.CDLL(None, use_errno=True)


def own(tracer: Tracer, **wanted: object) -> list[dict[str, object]]:
    """The rows that have these values."""
    return [row for row in rows(tracer.stdout) if all(row[key] == value for key, value in wanted.items())]


def run_python(program: str, *words: str) -> int:
    """Run it to its end; its pid."""
    child = subprocess.Popen([sys.executable, "-S", "-c", program, *words])
    assert child.wait(60) == 0
    return child.pid


def test_killsnoop() -> None:
    """Signals to another process, to a group, to none; only kill() counts unless -a is given."""
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as child:
        gone = subprocess.Popen(["true"])
        gone.wait()
        target = str(child.pid)
        with Tracer("killsnoop", "-p", ME, "-f", "json") as tracer, \
                Tracer("killsnoop", "-p", ME, "-x", "-f", "json") as failed, \
                Tracer("killsnoop", "-p", ME, "-T", target, "-f", "json") as to_child, \
                Tracer("killsnoop", "-p", ME, "-s", str(int(signal.SIGCONT)), "-f", "json") as continued, \
                Tracer("killsnoop", "-p", ME, "-a", "-f", "json") as every:
            os.kill(child.pid, 0)
            os.kill(child.pid, signal.SIGCONT)
            with pytest.raises(ProcessLookupError):
                os.kill(gone.pid, signal.SIGTERM)
            with pytest.raises(ProcessLookupError):
                os.killpg(gone.pid, 0)
            signal.pthread_kill(threading.get_ident(), 0)
        child.communicate()
    expected = [(0, child.pid, 0), (18, child.pid, 0), (15, gone.pid, -3), (0, -gone.pid, -3)]
    comm = Path("/proc/self/comm").read_text().strip()

    asked = {child.pid, gone.pid, -gone.pid, threading.get_native_id()}

    def told(tracer: Tracer) -> list[tuple[object, ...]]:
        assert {(row["PID"], row["COMM"]) for row in rows(tracer.stdout)} == {(os.getpid(), comm)}
        found = [(row["SIG"], row["TPID"], row["RESULT"]) for row in rows(tracer.stdout)]
        return [row for row in found if row[1] in asked]  # and not those that end the other tracers

    assert told(tracer) == expected
    assert told(failed) == expected[2:]
    assert told(to_child) == expected[:2]
    assert told(continued) == expected[1:2]
    assert told(every) == [*expected, (0, threading.get_native_id(), 0)]


SIGNALS = """
import ctypes, os, signal, struct
libc = ctypes.CDLL(None)
me = os.getpid()
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
info = struct.pack("=iiiiiiq96x", 10, 0, -1, 0, me, os.getuid(), 0)  # si_signo, si_errno, si_code: SI_QUEUE, si_pid ...
ignored = signal.SIGUSR1
os.kill(me, ignored)
assert libc.syscall(129, me, ignored, info) == 0      # rt_sigqueueinfo
pidfd, folder = os.pidfd_open(me), os.open("/proc/self", os.O_RDONLY)
signal.pidfd_send_signal(pidfd, ignored)
signal.pidfd_send_signal(folder, 0)
assert libc.syscall(424, -1, 0, None, 0) == -1        # pidfd_send_signal of no such descriptor
assert libc.syscall(297, me, me, ignored, info) == 0  # rt_tgsigqueueinfo
assert libc.syscall(200, me, ignored) == 0            # tkill
assert libc.syscall(234, me, me, ignored) == 0        # tgkill
reader, writer = os.pipe()
os.close(reader)
try: os.write(writer, b"x")
except BrokenPipeError: pass
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls")
def test_killsnoop_of_every_way(tmp_path: Path) -> None:
    """Each call that sends signals, and a pipe that nobody reads."""
    script = tmp_path / "signals.py"
    script.write_text(SIGNALS)
    command = f"{os.path.realpath(sys.executable)} -S {script}"

    def told(*options: str) -> list[tuple[object, ...]]:
        done = run_sonde("killsnoop", *options, "-f", "json", "-c", command)
        assert done.returncode == 0, done.stderr
        return [(row["SIG"], row["TPID"] == row["PID"], row["RESULT"]) for row in rows(done.stdout)]

    sent = [(10, True, 0), (10, True, 0), (10, True, 0), (0, True, 0), (0, True, -9)]
    threads = [(10, True, 0)] * 3
    assert told() == sent
    assert told("-a") == sent + threads
    assert [row for row in told("-a", "-k") if row[0] != signal.SIGCHLD] == [*sent, *threads, (13, True, 0)]
    assert told("-T", "999999") == []  # no process has it now: one may


def test_naptime() -> None:
    """Sleeps of the C library's, of the system calls themselves, and until a moment of a clock."""
    program = """
import ctypes, os, time
with open("/proc/self/comm", "w") as file:
    file.write("napper")
libc = ctypes.CDLL(None)
Time = ctypes.c_long * 2
libc.syscall({"x86_64": 35, "s390x": 162}.get(os.uname().machine, 101), Time(0, 10_000_000), None)
libc.clock_nanosleep(0, 0, Time(0, 20_000_000), None)
until = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 100_000_000
libc.clock_nanosleep(1, 1, Time(until // 10**9, until % 10**9), None)
libc.clock_nanosleep(1, 1, Time(1, 0), None)
until = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 100_000_000
libc.clock_nanosleep(7, 1, Time(until // 10**9, until % 10**9), None)
libc.clock_nanosleep(0, 1, Time(1, 0), None)
"""
    with Tracer("naptime", "-f", "json") as tracer, Tracer("naptime", "-n", "napp", "-s", "15", "-f", "json") as some:
        pid = run_python(program)
    found = own(tracer, PID=pid)
    asked = [float(str(row["SECONDS"])) for row in found]
    assert asked[:2] == [0.01, 0.02] and asked[3] == 0 and len(asked) == 5
    assert 0 < asked[2] <= 0.1 and 0 < asked[4] <= 0.1
    comm = Path("/proc/self/comm").read_text().strip()
    assert {(row["PPID"], row["PCOMM"], row["COMM"]) for row in found} == {(os.getpid(), comm, "napper")}
    assert {row["COMM"] for row in rows(some.stdout)} == {"napper"}
    assert all(float(str(row["SECONDS"])) >= 0.015 for row in rows(some.stdout))
    assert float(str(rows(some.stdout)[0]["SECONDS"])) == 0.02


def test_pidpersec() -> None:
    """What this process starts, and nobody else's; -P leaves threads out. The last interval, which is a part of a
    second, has nothing of it."""
    mine = ("-p", str(os.getpid()))
    with Tracer("pidpersec", *mine) as tracer, Tracer("pidpersec", "-P", *mine) as processes:
        for _ in range(40):
            subprocess.run(["true"], check=True)
            thread = threading.Thread(target=int)
            thread.start()
            thread.join()
        lines = tracer.output().count("\n"), processes.output().count("\n")
        wait_for(lambda: tracer.output().count("\n") > lines[0] + 1 and processes.output().count("\n") > lines[1] + 1)

    def counted(text: str) -> int:
        return sum(map(int, re.findall(r"^\d\d:\d\d:\d\d PIDs/sec: (\d+)$", text, re.M)))
    assert (counted(tracer.stdout), counted(processes.stdout)) == (81, 40)  # the first saw the second start
    assert "@" not in tracer.stdout


def test_pidpersec_at_intervals() -> None:
    done = run_sonde("pidpersec", "1", "2")
    assert done.returncode == 0
    assert len(re.findall(r"PIDs/sec: \d+$", done.stdout, re.M)) == 2


SPINNERS = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
for _ in range(3):
    if os.fork() == 0:
        break
with open("/proc/self/comm", "w") as file:
    file.write("spins-here")
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    pass
"""


def test_cpuwalk() -> None:
    """A program that is bound to one CPU is found on that one only, in no more samples than there are."""
    number = max(os.sched_getaffinity(0))
    with Tracer("cpuwalk", "-n", "spins-here") as tracer, Tracer("cpuwalk", "-n", "nobody-of-this-name") as none:
        begun = time.monotonic()
        run_python(SPINNERS, str(number), "1")
        seconds = time.monotonic() - begun
    buckets = re.findall(r"^\[(\d+)\] +(\d+) \|", tracer.stdout, re.M)
    assert [int(cpu) for cpu, n in buckets if int(n)] == [number]
    assert 10 <= histogram_total(tracer.stdout, "cpu") <= 99 * (seconds + 1) + 2
    assert "@cpu" not in none.stdout


def test_runqlen() -> None:
    """Four threads that spin on one CPU: three of them wait, at least, in most samples while they do."""
    number = min(os.sched_getaffinity(0))
    with Tracer("runqlen", "-C") as tracer, Tracer("runqlen", "-O", "-T", "1") as occupied:
        run_python(SPINNERS, str(number), "1.5")
    [block] = re.findall(rf"^@runqlen\[{number}\]: *\n((?:[\[(].*\n)+)", tracer.stdout, re.M)
    lengths = {int(low): int(n) for low, n in re.findall(r"^\[(\d+)[\],].* +(\d+) \|", block, re.M)}
    assert sum(n for length, n in lengths.items() if length >= 3) >= 30, tracer.stdout
    shares = [int(share) for share in re.findall(rf"^@occupancy\[{number}\]: (\d+)$", occupied.stdout, re.M)]
    assert shares and max(shares) >= 50 and all(0 <= share <= 100 for share in shares)
    assert re.search(r"^\d\d:\d\d:\d\d$", occupied.stdout, re.M)


def test_runqlen_ends_by_itself() -> None:
    """All CPUs, 99 samples a second of each at most."""
    done = run_sonde("runqlen", "1", "1")
    assert done.returncode == 0
    assert 0 < histogram_total(done.stdout, "runqlen") <= 2 * 99 * (os.cpu_count() or 1)


def test_loads() -> None:
    """What /proc/loadavg has before and after; the averages are computed every five seconds."""
    before = Path("/proc/loadavg").read_text().split()[:3]
    done = run_sonde("loads", "1", "1")
    after = Path("/proc/loadavg").read_text().split()[:3]
    assert done.returncode == 0
    [found] = re.findall(r"^\d\d:\d\d:\d\d load averages: ([\d.]+) ([\d.]+) ([\d.]+)", done.stdout, re.M)
    for shown, *around in zip(found, before, after):
        assert min(map(float, around)) - 0.011 <= float(shown) <= max(map(float, around)) + 0.011


def test_setuids() -> None:
    """Every call of the family, with what it asked for and what became of it."""
    program = """
import ctypes, os
setfsuid = ctypes.CDLL(None).setfsuid
os.setresuid(-1, 65534, -1)
os.setresuid(-1, 0, -1)
os.setreuid(0, 0)
setfsuid(1234)
setfsuid(0)
os.setuid(65534)
for call in (lambda: os.setuid(0), lambda: os.setreuid(0, 0)):
    try:
        call()
    except PermissionError:
        pass
"""
    with Tracer("setuids") as tracer, Tracer("setuids", "-x", "-u", "65534") as failed:
        pid = run_python(program)
    expected = [
        ("0", "setresuid ruid=-1 euid=65534 suid=-1 (0)"), ("0", "setresuid ruid=-1 euid=0 suid=-1 (0)"),
        ("0", "setreuid  ruid=0 euid=0 (0)"), ("0", "setfsuid  uid=1234 (prevuid=0)"),
        ("0", "setfsuid  uid=0 (prevuid=1234)"), ("0", "setuid    uid=65534 (0)"),
        ("65534", "setuid    uid=0 (-1)"), ("65534", "setreuid  ruid=0 euid=0 (-1)")]

    def told(tracer: Tracer) -> list[tuple[str, str]]:
        return re.findall(rf"^\d\d:\d\d:\d\d {pid} +\S+ +(\d+) +(\w+ .*)$", tracer.stdout, re.M)

    assert told(tracer) == expected
    assert told(failed) == expected[6:]


def test_statsnoop(tmp_path: Path) -> None:
    there, missing = tmp_path / "there", tmp_path / "missing"
    there.write_text("")
    with Tracer("statsnoop", "-p", ME, "-f", "json") as tracer, Tracer("statsnoop", "-p", ME, "-x", "-t") as failed:
        for _ in range(5):
            os.stat(there)
        os.lstat(there)
        os.statvfs(there)
        libc.statfs(str(there).encode(), ctypes.create_string_buffer(256))
        libc.statx(-100, str(there).encode(), 0, 0xfff, ctypes.create_string_buffer(256))
        with open(there) as file:
            os.fstat(file.fileno())
        with pytest.raises(FileNotFoundError):
            os.stat(missing)
    comm = Path("/proc/self/comm").read_text().strip()
    mine = [row for row in rows(tracer.stdout) if str(tmp_path) in str(row["PATH"])]
    assert [(row["ERR"], row["PATH"]) for row in mine] == [(0, str(there))] * 9 + [(2, str(missing))]
    assert {(row["PID"], row["COMM"]) for row in mine} == {(os.getpid(), comm)}
    assert [line.split()[-2:] for line in failed.lines if str(tmp_path) in line] == [["2", str(missing)]]
    assert re.search(rf"^ *\d+\.\d{{3}} {ME} ", failed.stdout, re.M)


def test_threadsnoop(tmp_path: Path) -> None:
    """Threads with the function that they start in."""
    source = """
#include <pthread.h>
void *first_task(void *p) { return p; }
void *second_task(void *p) { return p; }
int main(void) {
    pthread_t t;
    for (int i = 0; i < 5; i++) {
        pthread_create(&t, 0, i < 3 ? first_task : second_task, 0);
        pthread_join(t, 0);
    }
    return 0;
}
"""
    binary = compile_c(source, tmp_path, "starts-threads")
    with Tracer("threadsnoop", "-f", "json") as tracer, subprocess.Popen([binary]) as child:
        assert child.wait() == 0
    found = own(tracer, PID=child.pid)
    assert [row["FUNC"] for row in found] == ["first_task"] * 3 + ["second_task"] * 2
    assert {row["COMM"] for row in found} == {"starts-threads"}
    assert [row["TIME(ms)"] for row in found] == sorted(int(str(row["TIME(ms)"])) for row in found)


def test_capable(tmp_path: Path) -> None:
    """What a user who is not root is refused, and what root is not."""
    program = """
import os, socket, sys
os.chown(sys.argv[1], 65534, 65534)
os.setuid(65534)
for call in (lambda: os.chroot("/"), lambda: os.kill(1, 0), lambda: socket.sethostname("x")):
    try:
        call()
    except PermissionError:
        pass
"""
    file = tmp_path / "file"
    file.write_text("")
    with Tracer("capable", "-f", "json") as tracer, Tracer("capable", "-r", "--unique", "-f", "json") as refused, \
            Tracer("capable", "-r", "-K") as stacks:
        pid = run_python(program, str(file))
        wait_for(lambda: "sethostname+" in stacks.output())
    found = [(row["UID"], row["CAP"], row["NAME"], row["RET"]) for row in own(tracer, PID=pid)]
    assert (0, 0, "CAP_CHOWN", 0) in found and (0, 7, "CAP_SETUID", 0) in found
    denied = [row for row in found if row[3] != 0]
    refusals = {(65534, 18, "CAP_SYS_CHROOT"), (65534, 5, "CAP_KILL"), (65534, 21, "CAP_SYS_ADMIN")}
    assert {row[:3] for row in denied} >= refusals
    assert {row[3] for row in denied} == {-1}
    once = [(row["UID"], row["CAP"], row["NAME"], row["RET"]) for row in own(refused, PID=pid)]
    assert once == list(dict.fromkeys(denied))
    assert {row["AUDIT"] for row in own(tracer, PID=pid)} <= {"0", "1", "-", 0, 1}
    assert re.search(rf" {pid} .*CAP_KILL .*\n\n(?: +\S+\+\d+\n)* +\S*sys_kill\+\d+", stacks.stdout)


HUNGRY = """
import os, sys
folder = sys.argv[1]
with open(folder + "/cgroup.procs", "w") as file:
    file.write(str(os.getpid()))
with open("/proc/self/comm", "w") as file:
    file.write("hungry")
held = []
while True:
    held.append(b"x" * (1 << 20))
"""


@pytest.fixture
def small_group() -> object:
    """A control group that may have 24 MB of memory."""
    version1, version2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    base, limit = (version1, "memory.limit_in_bytes") if version1.is_dir() else (version2, "memory.max")
    if base == version2:
        if not (base / "cgroup.subtree_control").exists():
            pytest.skip("needs control groups of memory")
        (base / "cgroup.subtree_control").write_text("+memory")
    group = base / f"sonde-test-{ME}"
    group.mkdir()
    try:
        (group / limit).write_text(str(24 << 20))
        for swap in ("memory.swap.max", "memory.memsw.limit_in_bytes"):
            if (group / swap).exists():
                (group / swap).write_text("0" if base == version2 else str(24 << 20))
        yield group
    finally:
        group.rmdir()


def test_oomkill(small_group: Path) -> None:
    """The one that the kernel's log tells, with the memory that the log says it had."""
    with Tracer("oomkill") as tracer:
        child = subprocess.Popen([sys.executable, "-S", "-c", HUNGRY, str(small_group)])
        assert child.wait() == -signal.SIGKILL
    found = re.findall(rf'^\d\d:\d\d:\d\d Triggered by PID {child.pid} \("hungry"\), OOM kill of PID {child.pid} '
                       r'\("hungry"\), (\d+) pages, loadavg: ([\d.]+) [\d.]+ [\d.]+ \d+/\d+ \d+$', tracer.stdout, re.M)
    assert len(found) == 1, tracer.stdout
    if shutil.which("dmesg"):
        log = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout
        [(anon, file, shmem)] = re.findall(
            rf"Killed process {child.pid} \(hungry\).*anon-rss:(\d+)kB, file-rss:(\d+)kB, shmem-rss:(\d+)kB", log)
        told = (int(anon) + int(file) + int(shmem)) // (os.sysconf("SC_PAGESIZE") // 1024)
        assert abs(int(found[0][0]) - told) <= told // 20  # it is looked at a moment apart


def test_names_and_comms_are_filters() -> None:
    """-n asks for a part of the thread's name."""
    def work() -> None:
        set_comm(f"stats-{ME}"[:15])
        os.stat("/")

    with Tracer("statsnoop", "-n", f"stats-{ME}"[:15], "-f", "json") as tracer:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        os.stat("/")
    assert {row["COMM"] for row in rows(tracer.stdout)} == {f"stats-{ME}"[:15]}
