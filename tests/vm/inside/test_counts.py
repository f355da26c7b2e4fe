"""Every kind of probe counts exactly, whichever way serves it: a program that says how often it did what."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kernel_survey import PAGES, PLACES, ROUNDS, compile_workload, count_faults, count_kinds, count_threads
from sonde.compiling import live_world
from support import compile_c, run_sonde

MULTI = "kprobe_multi,kprobe_session,uprobe_multi"
COOKIES = "attach_cookie,tracing_cookie,raw_tp_cookie"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_workload(tmp_path_factory.mktemp("counts"))


@pytest.mark.parametrize("without", ["", "fentry", "kprobes", "raw_tp", MULTI, f"{MULTI},{COOKIES}"],
                         ids=["as it is", "no fentry", "no kprobes", "no raw_tp", "one by one", "no cookies"])
def test_each_kind_counts_each_call(program: Path, without: str) -> None:
    """Also in the ways that this kernel would not have to go."""
    if without and not any(live_world().has_feature(name) for name in without.split(",")):
        pytest.skip(f"that is how it is on this kernel: it has no {without}")
    if without == "kprobes" and not live_world().has_feature("fentry"):
        pytest.skip("nothing else sees functions on this kernel: it has no fentry")
    assert count_kinds(program, without) == dict.fromkeys(PLACES, ROUNDS)


CROWD, CALLS = 6, 20000
CROWDED = r"""
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    for (int i = 0; i < CROWD; i++)
        if (!fork()) {
            for (int n = 0; n < CALLS; n++)
                syscall(SYS_getpgid, 0);
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    return 0;
}
"""


PAGED = r"""
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    for (int i = 0; i < CROWD; i++)
        if (!fork()) {
            for (int n = 0; n < CALLS; n++) {
                char *page = mmap(NULL, 4096, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                *page = 1;
                munmap(page, 4096);
            }
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    return 0;
}
"""


@pytest.mark.parametrize("key", ["", "[kstack(8)]"])
def test_tracepoints_are_counted_whoever_is_preempted(key: str, tmp_path: Path) -> None:
    """Each page that they write to is allocated."""
    crowd = compile_c(PAGED, tmp_path, "crowd", f"-DCROWD={CROWD}", f"-DCALLS={CALLS // 4}")
    done = run_sonde("-c", str(crowd), "-f", "json", "-e", "tracepoint:kmem:mm_page_alloc "
                     f'/comm == "crowd" && args.order == 0/ {{ @n = count(); @stacks{key} = count(); }}', timeout=100)
    total = re.search(r'"@n": (\d+)', done.stdout)
    assert total and int(total[1]) >= CROWD * CALLS // 4, done.stdout
    assert "skipped" not in done.stderr


@pytest.mark.parametrize("place", ["syscalls:sys_{}_getpgid", "raw_syscalls:sys_{}"])
def test_system_calls_are_counted_whoever_is_preempted(place: str, tmp_path: Path) -> None:
    """Three processes for each CPU: from Linux 7.2 on programs of their raw tracepoints can be preempted, and the
    kernel runs none for the others of the CPU meanwhile."""
    crowd = compile_c(CROWDED, tmp_path, "crowd", f"-DCROWD={CROWD}", f"-DCALLS={CALLS}")
    number = live_world().syscall_number("getpgid")
    ours = f'/comm == "crowd"{f" && args.id == {number}" if place.startswith("raw") else ""}/'
    done = run_sonde("-c", str(crowd), "-e", "".join(
        f"tracepoint:{place.format(side)} {ours} {{ @{side} = count(); }} " for side in ("enter", "exit")), timeout=100)
    assert f"@enter: {CROWD * CALLS}\n" in done.stdout and f"@exit: {CROWD * CALLS}\n" in done.stdout, done.stdout
    assert "skipped" not in done.stderr


def test_an_event_is_counted_as_often_as_the_kernel_does(program: Path) -> None:
    """One by one, beside what getrusage() says of them."""
    found, counted = count_faults(program)
    assert found == counted >= PAGES


def test_ticks_on_each_cpu() -> None:
    """A profile that asks for one in so many milliseconds fires no more often than that."""
    done = run_sonde("-e", "begin { @begun = nsecs; } profile:ms:20 { @[cpu] = count(); } "
                     "interval:ms:20 { @i++; if (@i == 50) { exit(); } } "
                     'end { printf("took %d\\n", (nsecs - @begun) / 1000000); }')
    took = int(re.search(r"took (\d+)", done.stdout)[1])  # type: ignore[index]
    ticks = [int(n) for n in re.findall(r"@\[\d+\]: (\d+)", done.stdout)]
    assert "@i: 50" in done.stdout and took >= 980 and ticks and max(ticks) <= took / 20 + 1


def test_an_iterator_sees_each_thread() -> None:
    found, there = count_threads()
    assert found == there >= 7
