"""Every kind of probe counts exactly, whichever way serves it: a program that says how often it did what."""

from __future__ import annotations

import re
import subprocess
import threading
from pathlib import Path

import pytest

from sonde.api import live_world
from support import compile_c, run_sonde

ROUNDS, PAGES = 3000, 700
# The note is spelled out, so that no header is needed.
SOURCE = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

__asm__(".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
        ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n"
        ".size _.stapsdt.base, 1\n.popsection\n");

volatile int on;

__attribute__((noinline)) int work(int number)
{
    __asm__ volatile("990: nop\n.pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n"
                     ".4byte 992f-991f, 994f-993f, 3\n991: .asciz \"stapsdt\"\n992: .balign 4\n"
                     "993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte 0\n.asciz \"app\"\n.asciz \"step\"\n"
                     ".asciz \"-4@%%edi\"\n994: .balign 4\n.popsection\n" : : "D"(number) : "memory");
    syscall(SYS_getpgid, 0);
    return number + 1;
}

__attribute__((noinline)) void faults(int begin) { on = begin; }

static long counted(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

int main(void)
{
    char *pages = mmap(0, PAGES * 4096L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(pages, PAGES * 4096L, MADV_NOHUGEPAGE);
    for (int i = 0; i < ROUNDS; i++)
        work(i);
    faults(0);  /* its page, and getrusage()'s, are there from here on */
    counted();
    faults(1);
    long before = counted();
    for (long i = 0; i < PAGES; i++)
        pages[4096 * i] = 1;
    long after = counted();
    faults(0);
    printf("faults %ld\n", after - before);
    return 0;
}
"""
# Each kind at what the program does ROUNDS times, and what holds each time.
PLACES = {
    "kprobe": ("kprobe:{getpgid}", "1"), "kretprobe": ("kretprobe:{getpgid}", "retval > 0"),
    "fentry": ("fentry:{getpgid}", "1"), "fexit": ("fexit:{getpgid}", "retval > 0"),
    "tracepoint": ("tracepoint:syscalls:sys_enter_getpgid", "1"),
    "exit": ("tracepoint:syscalls:sys_exit_getpgid", "args.ret > 0"),
    "rawtracepoint": ("rawtracepoint:sys_enter", "args.id == {number}"),
    "uprobe": ("uprobe:{program}:work", "1"), "uretprobe": ("uretprobe:{program}:work", "retval > 0"),
    "usdt": ("usdt:{program}:app:step", "1"),
}
MULTI = "kprobe_multi,kprobe_session,uprobe_multi"
COOKIES = "attach_cookie,tracing_cookie,raw_tp_cookie"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(SOURCE, tmp_path_factory.mktemp("counts"), "counted", f"-DROUNDS={ROUNDS}", f"-DPAGES={PAGES}")


def has_any(features: str) -> bool:
    world = live_world()
    return any(world.has_feature(name) for name in features.split(","))


@pytest.mark.parametrize("without", ["", "fentry", "kprobes", "raw_tp", MULTI, f"{MULTI},{COOKIES}"],
                         ids=["as it is", "no fentry", "no kprobes", "no raw_tp", "one by one", "no cookies"])
def test_each_kind_counts_each_call(program: Path, without: str) -> None:
    """Also in the ways that this kernel would not have to go."""
    if without and not has_any(without):
        pytest.skip(f"that is how it is on this kernel: it has no {without}")
    world = live_world()
    function = next(name for name in ("__x64_sys_getpgid", "__arm64_sys_getpgid") if world.kernel_symbol(name))
    clauses = " ".join(f'{place} /pid == cpid && {condition}/ {{ @["{kind}"] = count(); }}'
                       for kind, (place, condition) in PLACES.items())
    script = clauses.replace("{getpgid}", function).replace("{program}", str(program)).replace(
        "{number}", str(world.syscall_number("getpgid")))
    words = ["--no-feature", without] if without else []
    done = run_sonde(*words, "-c", str(program), "-e", script)
    assert done.returncode == 0, done.stderr
    found = {kind: int(n) for kind, n in re.findall(r"^@\[(\w+)\]: (\d+)$", done.stdout, re.M)}
    assert found == dict.fromkeys(PLACES, ROUNDS), done.stderr


def test_an_event_is_counted_as_often_as_the_kernel_does(program: Path) -> None:
    """Page faults of the program between two calls, one by one, beside what getrusage() says of them."""
    script = (f"uprobe:{program}:faults /pid == cpid/ {{ @on = arg0; }} "
              "software:page-faults:1 /pid == cpid && @on == 1/ { @ = count(); }")
    done = run_sonde("-c", str(program), "-e", script)
    counted = int(re.search(r"faults (\d+)", done.stdout)[1])  # type: ignore[index]
    assert counted >= PAGES and f"@: {counted}\n" in done.stdout, done.stdout + done.stderr


def test_ticks_on_each_cpu() -> None:
    """A profile that asks for one in so many milliseconds fires no more often than that."""
    done = run_sonde("-e", "begin { @begun = nsecs; } profile:ms:20 { @[cpu] = count(); } "
                     "interval:ms:20 { @i++; if (@i == 50) { exit(); } } "
                     'end { printf("took %d\\n", (nsecs - @begun) / 1000000); }')
    took = int(re.search(r"took (\d+)", done.stdout)[1])  # type: ignore[index]
    ticks = [int(n) for n in re.findall(r"@\[\d+\]: (\d+)", done.stdout)]
    assert "@i: 50" in done.stdout and took >= 980 and ticks and max(ticks) <= took / 20 + 1


def test_an_iterator_sees_each_thread() -> None:
    gate = threading.Event()
    waiting = [threading.Thread(target=gate.wait) for _ in range(6)]
    for thread in waiting:
        thread.start()
    try:
        own = subprocess.run(["sh", "-c", "ls /proc/$PPID/task"], capture_output=True, text=True, check=True)
        done = run_sonde("-e", f"iter:task /ctx.task->tgid == {threading.main_thread().native_id}/ {{ @ = count(); }}")
    finally:
        gate.set()
        for thread in waiting:
            thread.join()
    assert f"@: {len(own.stdout.split())}\n" in done.stdout and len(own.stdout.split()) >= 7, done.stderr
