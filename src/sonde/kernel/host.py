"""Facts about this machine that never change while it runs, read when first asked for."""

from __future__ import annotations

import os

from ..base.fast_stdlib import cache
from ..errors import MachineError
from .clocks import namespace_offset


@cache
def kernel_release() -> str:
    """``6.18.44``: the running kernel's release without the distribution's suffix."""
    text = os.uname().release
    end = next((i for i, c in enumerate(text) if not (c.isdigit() or c == ".")), len(text))
    return text[:end].rstrip(".")


def parse_cpu_list(text: str) -> list[int]:
    """``0-3,8`` as numbers."""
    cpus: list[int] = []
    for part in text.strip().split(","):
        low, _, high = part.partition("-")
        if low.isdigit():
            cpus += range(int(low), int(high if high.isdigit() else low) + 1)
    return cpus


def _read_cpu_list(kind: str) -> list[int]:
    try:
        with open(f"/sys/devices/system/cpu/{kind}", encoding="utf-8") as file:
            cpus = parse_cpu_list(file.read())
    except OSError as error:
        raise MachineError(f"/sys/devices/system/cpu/{kind}: {error.strerror}",
                           ["is sysfs mounted at /sys?"]) from None
    return cpus or [0]


@cache
def possible_cpus() -> int:
    """How many slots per-CPU memory has: one more than the highest possible CPU number."""
    return _read_cpu_list("possible")[-1] + 1


def online_cpus() -> list[int]:
    """CPUs that are online now."""
    return _read_cpu_list("online")


def wall_clock_offset(clock: str = "boot") -> int:
    """Nanoseconds to add to a kernel time of ``clock`` (boot, monotonic, tai) to get Unix time.

    The two clocks are read as close together as possible: the best of five tries.
    """
    import time

    source = {"boot": time.CLOCK_BOOTTIME, "monotonic": time.CLOCK_MONOTONIC,
              "tai": time.CLOCK_TAI}.get(clock, time.CLOCK_BOOTTIME)
    named = "boottime" if source == time.CLOCK_BOOTTIME else clock
    return _clock_offset(source, time.CLOCK_REALTIME) + namespace_offset(named)


def tai_clock_offset() -> int:
    """Nanoseconds to add to the boot clock to get TAI."""
    import time

    return _clock_offset(time.CLOCK_BOOTTIME, time.CLOCK_TAI) + namespace_offset("boottime")


def _clock_offset(source: int, target: int) -> int:
    import time

    best, offset = 1 << 62, 0
    for _ in range(5):
        before = time.clock_gettime_ns(source)
        wall = time.clock_gettime_ns(target)
        after = time.clock_gettime_ns(source)
        if after - before < best:
            best, offset = after - before, wall - (before + after) // 2
    return offset
