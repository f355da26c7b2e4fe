"""Two stacks of one event that are both new: both are kept, though the kernel has an element for one at first. And of
stacks with a limit only what is within it tells them apart."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import sonde
from sonde.compiling import live_world
from sonde.kinds import KINDS
from support import compile_c

pytestmark = pytest.mark.exact

SLEEPER = r"""
#include <time.h>
volatile int after;
__attribute__((noinline)) void doze(void) { struct timespec t = {0, 1000000}; nanosleep(&t, 0); after++; }
__attribute__((noinline)) void retire(void) { doze(); after++; }
int main(void) { retire(); return after == 9; }
"""
SCRIPT = 'tracepoint:sched:sched_switch /comm == "newstacks"/ { @[kstack, ustack] = count(); }'


@pytest.fixture(scope="module")
def sleeper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(SLEEPER, tmp_path_factory.mktemp("new"), "newstacks", "-fno-omit-frame-pointer", "-static")


@pytest.mark.parametrize("run", range(20))
def test_both_are_kept(sleeper: Path, run: int) -> None:
    """Each run has a new map, and in it the one sleep of a new process, with interrupts off."""
    with sonde.trace(SCRIPT) as tracing:
        subprocess.run([sleeper], check=True)
        stacks = list(tracing.maps["@"])
        asleep = [user for kernel, user in stacks if any("nanosleep" in frame.name for frame in kernel.frames)]
        assert len(asleep) == 1 and "retire" in [frame.name for frame in asleep[0].frames]
        assert all(kernel.frames and not user.lost for kernel, user in stacks)
    assert not tracing.losses.errors


WORK = "import os\nfor i in range(200): os.getppid(); open('/etc/passwd').read(); os.listdir('/etc')"


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("probe", [
    "tracepoint:sched:sched_switch", "tracepoint:kmem:kmem_cache_alloc", "rawtracepoint:mm_page_alloc",
    "rawtracepoint:sys_enter", "tracepoint:syscalls:sys_enter_openat", "tracepoint:syscalls:sys_exit_openat",
    "tracepoint:sched:sched_wak*", "software:page-faults:1", "kprobe:vfs_read", "kretprobe:vfs_read", "fentry:vfs_read",
    "fexit:vfs_read,fexit:vfs_open"])
def test_stacks_with_a_limit(probe: str, limit: int) -> None:
    """Each only once, and with as many frames of the kernel's own as there are: no event is beneath another."""
    kind, world = KINDS[probe.partition(":")[0]], live_world()
    if kind.function and not (world.has_feature("fentry") or world.has_feature("kprobes") and not kind.typed):
        pytest.skip(f"kernel lacks {'fentry' if kind.typed else 'kprobes'}")
    with sonde.trace(f"{probe} /pid == cpid/ {{ @[kstack({limit})] = count(); @whole[kstack] = count(); }}",
                     command=[sys.executable, "-S", "-c", WORK]) as tracing:
        for _ in tracing:
            pass
        found = Counter[tuple[int, ...]]()
        low, high = (world.kernel_symbol(name) or 0 for name in ("_stext", "_etext"))
        for stack, count in tracing.maps["@whole"].items():
            frames = list(stack.addresses)
            while kind.typed and not low <= frames[0] < high:
                del frames[0]  # a trampoline that is gone, whose memory Linux 5.10 gives another name
            found[tuple(frames[:limit])] += count
        assert not kind.function or () not in found
        limited = [(tuple(stack.addresses), count) for stack, count in tracing.maps["@"].items()]
        assert len(dict(limited)) == len(limited) and dict(limited) == found and found.total() > 0
