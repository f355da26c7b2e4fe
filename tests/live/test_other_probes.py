"""Watchpoints, iterators, counters, timers and self probes, each against something that is known."""

from __future__ import annotations

import os
import re
import signal
import struct
import subprocess
import threading
import time
from pathlib import Path

import pytest

from sonde.compiling import live_world
from sonde.kernel.syscalls import object_ids
from support import Tracer, compile_c, environment, run_sonde, sonde_command, wait_for

WATCHED = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

long watched __attribute__((aligned(8)));
static void *work(void *unused) { for (int i = 0; i < 7; i++) watched++; return unused; }

int main(int argc, char **argv)
{
    pthread_t id;

    printf("%p\n", (void *)&watched);
    fflush(stdout);
    getchar();
    for (int i = 0; i < 5; i++)
        watched = i;
    pthread_create(&id, NULL, work, NULL);
    pthread_join(id, NULL);
    return argc > 9;
}
"""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(WATCHED, tmp_path_factory.mktemp("watched"), "watched", "-O0")


@pytest.mark.parametrize("by", ["address", "symbol"])
def test_watchpoints_see_every_write_of_all_threads(watched: Path, by: str) -> None:
    process = subprocess.Popen([watched], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    where = process.stdout.readline().strip()
    if by == "symbol":
        where = "watched"
    with Tracer("-p", str(process.pid), "-e", f"watchpoint:{where}:8:w {{ @ = count(); @t[tid == pid] = count(); }}"
                ) as tracer:
        process.communicate("\n")
        tracer.wait()
    assert "@: 12" in tracer.lines and "@t[true]: 5" in tracer.lines and "@t[false]: 7" in tracer.lines


def test_too_many_watchpoints_are_explained() -> None:
    script = "".join(f"watchpoint:{0x1000 * i:#x}:8:w {{ }} " for i in range(1, 40))
    done = run_sonde("-e", script)
    assert done.returncode == 255 and "all of the CPU's watchpoints are taken" in done.stderr


def test_iterating_tasks() -> None:
    """Our threads are all there, and the iteration ends by itself."""
    gate = threading.Event()
    threads = [threading.Thread(target=gate.wait) for _ in range(5)]
    for thread in threads:
        thread.start()
    try:
        done = run_sonde("-e", f"iter:task /ctx.task->tgid == {os.getpid()}/ {{ @n = count(); "
                               'printf("%d %s\\n", ctx.task.pid, ctx.task.comm); } end { printf("end\\n"); }')
    finally:
        gate.set()
        for thread in threads:
            thread.join()
    lines = done.stdout.split("\n")
    found = {int(line.split()[0]) for line in lines if re.match(r"\d+ ", line)}
    assert {thread.native_id for thread in threads} | {os.getpid()} <= found
    assert done.returncode == 0 and "end" in lines and f"@n: {len(found)}" in lines


def test_iterating_files_and_memory(tmp_path: Path) -> None:
    path = tmp_path / "a-file-that-is-open"
    with path.open("w") as file:
        done = run_sonde("-e", f"iter:task_file /ctx.task->pid == {os.getpid()}/ {{ "
                               '@[ctx.fd, str(ctx.file->f_path.dentry->d_name.name)] = count(); }')
        assert f"@[{file.fileno()}, {path.name}]: 1" in done.stdout
    done = run_sonde("-e", f"iter:task_vma /ctx.task->pid == {os.getpid()}/ {{ "
                           'printf("%lx-%lx\\n", ctx.vma->vm_start, ctx.vma->vm_end); }')
    maps = {line.split()[0] for line in Path("/proc/self/maps").read_text().splitlines()}
    seen = set(done.stdout.split())
    if live_world().find_struct("bpf_iter__task_vma") is not None:  # Linux 5.12
        assert len(seen & maps) > 10


def test_iterators_are_listed() -> None:
    lines = run_sonde("-l", "iter:*").stdout.splitlines()
    assert {"iter:task", "iter:task_file"} <= set(lines)


def test_self_signal() -> None:
    with Tracer("-e", 'self:signal:SIGUSR1 { printf("got it\\n"); @ = count(); }') as tracer:
        for count in range(1, 4):
            os.kill(tracer.pid, signal.SIGUSR1)
            deadline = time.monotonic() + 20
            while tracer.output().count("got it") < count and time.monotonic() < deadline:
                time.sleep(0.01)
    assert tracer.lines.count("got it") == 3 and "@: 3" in tracer.lines


FAULTS = """
import mmap, sys
sys.stdin.readline()
pages = mmap.mmap(-1, 400 * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
if hasattr(mmap, "MADV_NOHUGEPAGE"):
    pages.madvise(mmap.MADV_NOHUGEPAGE)
for page in range(400):
    pages[page * mmap.PAGESIZE] = 1
"""


@pytest.mark.parametrize("period", [1, 10])
def test_software_events_count_each_period(period: int) -> None:
    """400 pages are touched for the first time; the interpreter adds some of its own."""
    process = subprocess.Popen(["python3", "-c", FAULTS], stdin=subprocess.PIPE, text=True)
    time.sleep(0.3)
    with Tracer("-p", str(process.pid), "-e", f"software:page-faults:{period} {{ @ = count(); }}") as tracer:
        process.communicate("\n")
        tracer.wait()
    [found] = [int(line.split()[1]) for line in tracer.lines if line.startswith("@:")]
    assert 400 // period <= found <= 6000 // period


@pytest.mark.parametrize("unit", ["interval:ms:20", "interval:us:20000", "interval:hz:50", "interval:20ms",
                                  "interval:20000us", "interval:20000000"])
def test_interval_units(unit: str) -> None:
    done = run_sonde("-e", f"{unit} {{ @n++; if (@n == 10) {{ exit(); }} }} begin {{ @s = nsecs; }} "
                           'end { printf("%d\\n", (nsecs - @s) / 1000000); }')
    [took] = [int(line) for line in done.stdout.splitlines() if line.isdigit()]
    assert "@n: 10" in done.stdout and 180 <= took


def test_profile_samples_every_busy_cpu() -> None:
    """A CPU that idles is not interrupted for it."""
    cpus = sorted(os.sched_getaffinity(0))
    spin = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
    busy = [subprocess.Popen(["python3", "-c", spin, str(cpu)]) for cpu in cpus]
    try:
        done = run_sonde("-e", "profile:hz:99 { @[cpu] = count(); } interval:ms:600 { exit(); }")
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert [int(c) for c in sorted(re.findall(r"@\[(\d+)\]", done.stdout))] == cpus


def test_hardware_counts_or_says_why() -> None:
    done = run_sonde("-e", "hardware:cpu-cycles:1000000 { @ = count(); } interval:ms:200 { exit(); }")
    assert done.returncode == 0 or "no such hardware counter" in done.stderr


PATIENCE = 120 if os.environ.get("SONDE_VM") else 30  # software emulation is some 18 times slower
KILLED = "tracepoint:syscalls:sys_enter_getppid,uprobe:libc:getuid,interval:s:1,software:cs:1 { @ = count(); }"


@pytest.mark.parametrize("moment", ["starting", "attached", "ending"])
def test_kill_9_leaves_nothing(moment: str) -> None:
    """No program, event or child is there after the tracer was killed; nothing was pinned in between."""
    command = f"sleep 77.{os.getpid()}"
    events = probe_events()
    process = subprocess.Popen(sonde_command(["-e", KILLED, "-c", command]), stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
    try:
        wait_for(lambda: bool(programs_of(process.pid)))
        if moment != "starting":
            wait_for(lambda: bool(running(command)))
        if moment == "ending":
            os.kill(process.pid, signal.SIGINT)
        theirs = programs_of(process.pid)
    finally:
        process.kill()
        process.wait()
    wait_for(lambda: not theirs & set(object_ids("program")))
    wait_for(lambda: not running(command))
    assert probe_events() == events


def programs_of(pid: int) -> set[int]:
    """Numbers of the eBPF programs that a process holds."""
    found = set()
    for path in Path(f"/proc/{pid}/fdinfo").glob("*"):
        try:
            found |= {int(number) for number in re.findall(r"^prog_id:\s*(\d+)", path.read_text(), re.M)}
        except OSError:
            continue
    return found


def probe_events() -> list[str]:
    """What tracefs has of kprobe_events and uprobe_events."""
    paths = [Path("/sys/kernel/tracing", name) for name in ("kprobe_events", "uprobe_events")]
    return [path.read_text() if path.exists() else "" for path in paths]


def running(command: str) -> list[str]:
    """Processes with that command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().rstrip(b"\0").split(b"\0") == command.encode().split():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


COMPAT = """
#include <sys/syscall.h>
#include <unistd.h>
int main(void)
{
    for (int i = 0; i < 50; i++) {
        long result;  /* 110 is iopl() in the other numbering; level 0 is what every process has */
        __asm__ volatile("int $0x80" : "=a"(result) : "a"(110), "b"(0) : "memory");
    }
    for (int i = 0; i < 7; i++)
        syscall(SYS_getppid);
    return 0;
}
"""


# 50 times getpid(), whose number in the other numbering is epoll_create1()'s in this one.
ARM = "e3a04032 e3a07014 ef000000 e2544001 1afffffb e3a00000 e3a07001 ef000000"


def arm_program(path: Path) -> Path:
    """An ELF file of 32 bits with nothing but a header and the code."""
    code = b"".join(int(word, 16).to_bytes(4, "little") for word in ARM.split())
    head = struct.pack("<16sHHIIIIIHHHHHH", b"\x7fELF\1\1\1", 2, 40, 1, 0x10054, 52, 0, 0x5000000, 52, 32, 1, 0, 0, 0)
    path.write_bytes(head + struct.pack("<8I", 1, 0, 0x10000, 0x10000, 84 + len(code), 84 + len(code), 5, 4096) + code)
    path.chmod(0o755)
    return path


def test_calls_of_32_bits_are_other_calls(tmp_path: Path) -> None:
    """Their numbers mean other calls in the numbering of the tracepoints."""
    if not live_world().has_feature("compat_syscalls"):
        pytest.skip("kernel lacks compat_syscalls")
    arm = os.uname().machine == "aarch64"
    program, call, expected = (arm_program(tmp_path / "arm"), "epoll_create1", 0) if arm else \
        (compile_c(COMPAT, tmp_path), "getppid", 7)
    done = run_sonde("-c", str(program), "-e",
                     "rawtracepoint:sys_enter /pid == cpid && args.id == 20/ { @raw = count(); } "
                     f"tracepoint:syscalls:sys_enter_{call} /pid == cpid/ {{ @ = count(); }} "
                     f"tracepoint:syscalls:sys_exit_{call} /pid == cpid/ {{ @r = count(); }} end {{ print((@, @r)); }}")
    assert f"({expected}, {expected})\n" in done.stdout and (not arm or "@raw: 50\n" in done.stdout), \
        done.stdout + done.stderr
