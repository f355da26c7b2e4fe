"""CPUs that come and go while a script runs, which only a guest can have without harm to others."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import Tracer

SWITCH = Path("/sys/devices/system/cpu/cpu1/online")
SCRIPT = "profile:hz:49 { @[cpu, elapsed / 1000000000] = count(); } interval:ms:250 { @ticks = count(); }"


@pytest.fixture
def switch() -> Iterator[Path]:
    if not SWITCH.exists():
        pytest.skip("CPU 1 cannot be taken offline")
    yield SWITCH
    SWITCH.write_text("1")


def samples(tracer: Tracer, cpu: int) -> dict[int, int]:
    """By second."""
    found = re.findall(rf"^@\[{cpu}, (\d+)\]: (\d+)$", tracer.stdout, re.M)
    return {int(second): int(count) for second, count in found}


def wait_for(tracer: Tracer, text: str) -> None:
    deadline = time.monotonic() + 120
    while text not in tracer._read(tracer._err):
        assert time.monotonic() < deadline, tracer._read(tracer._err)
        time.sleep(0.1)


def test_one_that_comes_online(switch: Path) -> None:
    switch.write_text("0")
    with Tracer("-e", SCRIPT) as tracer:
        switch.write_text("1")
        wait_for(tracer, "WARNING: CPU 1 came online: profile:hz:49 runs there from now on")
        time.sleep(3)
    assert "interval" not in tracer.stderr
    seen = samples(tracer, 1)
    assert sum(seen.values()) > 50 and max(seen.values()) <= 55  # and not twice


def test_one_that_returns(switch: Path) -> None:
    with Tracer("-e", SCRIPT) as tracer:
        time.sleep(2)
        switch.write_text("0")
        time.sleep(2.5)
        switch.write_text("1")
        wait_for(tracer, "WARNING: CPU 1 came online: profile:hz:49 runs there from now on")
        time.sleep(3)
    seen, always = samples(tracer, 1), samples(tracer, 0)
    assert len(seen) < len(always) and max(seen.values()) <= 55
    assert sum(count for second, count in seen.items() if second >= max(always) - 2) > 50
