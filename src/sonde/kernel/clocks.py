"""The kernel's clocks as BPF programs read them: without what a time namespace adds to those of its processes."""

from __future__ import annotations

from time import CLOCK_BOOTTIME, clock_gettime_ns

from ..base.fast_stdlib import cache


def boot_time() -> int:
    """Nanoseconds of the boot clock, as bpf_ktime_get_boot_ns() has them."""
    return clock_gettime_ns(CLOCK_BOOTTIME) - namespace_offset("boottime")


@cache
def namespace_offset(clock: str) -> int:
    """Nanoseconds by which this process's ``monotonic`` or ``boottime`` clock is ahead of the kernel's own
    (time_namespaces(7)); 0 where there are no such namespaces (before Linux 5.6)."""
    try:
        with open("/proc/self/timens_offsets", "rb", buffering=0) as file:
            rows = [line.split() for line in file.read().decode().splitlines()]
    except OSError:
        return 0
    return next((int(seconds) * 1_000_000_000 + int(rest) for name, seconds, rest in rows if name == clock), 0)
