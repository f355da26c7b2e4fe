"""Two stacks of one event that are both new: both are kept, though the kernel has an element for one at first."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import sonde
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
