"""kill -9 at any moment leaves nothing: no program, map, link, probe, event, pin or child."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from sonde.kernel.types.world import LiveWorld
from support import Tracer, environment, sonde_command

NEXT_ID = {"prog": 11, "map": 12, "link": 31}  # bpf(2): BPF_PROG_GET_NEXT_ID and its like
EVENTS = [Path("/sys/kernel/tracing") / name for name in ("kprobe_events", "uprobe_events", "dynamic_events")]
FUNCTIONS = [Path("/sys/kernel/debug/kprobes/list"), Path("/sys/kernel/tracing/enabled_functions")]
TARGET = "hrtimer_nanosleep"  # a kernel function that nobody else probes meanwhile


def script() -> str:
    """A probe of every kind that this kernel has."""
    world = LiveWorld()
    libc = world.find_binaries("libc")[0]
    probes = [f"uprobe:{libc}:getppid", f"uretprobe:{libc}:getppid", f"uprobe:{libc}:get*id",
              "tracepoint:sched:sched_process_exec", "rawtracepoint:sched_process_exec",
              "tracepoint:syscalls:sys_enter_get*", "software:page-faults:100000", "profile:hz:1", "interval:s:1"]
    if world.has_feature("kprobes"):
        probes += [f"kprobe:{TARGET}", f"kretprobe:{TARGET}", f"kprobe:{TARGET}*"]
    if world.has_feature("fentry"):
        probes += [f"fentry:{TARGET}", f"fexit:{TARGET}"]
    return " ".join(f"{probe} /pid == 1/ {{ @[probe] = count(); }}" for probe in probes)


def held(pid: int) -> set[tuple[str, int]]:
    """(kind, number) of the BPF objects that a process has open."""
    found = set()
    try:
        for entry in os.listdir(f"/proc/{pid}/fdinfo"):
            text = Path(f"/proc/{pid}/fdinfo/{entry}").read_text()
            found |= {(kind, int(number)) for kind, number in re.findall(r"^(prog|map|link)_id:\t(\d+)$", text, re.M)}
    except OSError:
        pass  # it was just closed, or the process has ended
    return found


def existing() -> set[tuple[str, int]]:
    """The same of the whole machine."""
    number = {"x86_64": 321, "aarch64": 280, "s390x": 351}[os.uname().machine]
    libc = ctypes.CDLL(None, use_errno=True)
    found = set()
    for kind, command in NEXT_ID.items():
        attr = (ctypes.c_uint32 * 32)()
        while libc.syscall(number, command, ctypes.byref(attr), ctypes.sizeof(attr)) == 0:
            found.add((kind, attr[1]))
            attr[0] = attr[1]
    return found


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def lines(paths: list[Path], about: str) -> list[str]:
    """Of files that say what is attached; those that the kernel does not have, or shows nobody, say nothing."""
    found = []
    for path in paths:
        try:
            found += [line for line in path.read_text().splitlines() if about in line]
        except OSError:
            continue
    return found


def left(ours: set[tuple[str, int]], started: list[int], before: set[str]) -> list[object]:
    """What is there yet of a tracer that was killed."""
    pins = {str(path) for path in Path("/sys/fs/bpf").glob("**/*")} if Path("/sys/fs/bpf").is_dir() else set()
    alive = [pid for pid in started if Path(f"/proc/{pid}").exists()]
    return [*sorted(ours & existing()), *alive, *sorted(pins - before), *lines(EVENTS, "sonde"),
            *lines(EVENTS + FUNCTIONS, TARGET)]


def check_nothing_is_left(ours: set[tuple[str, int]], started: list[int], before: set[str]) -> None:
    """The kernel takes a moment to drop everything: patience, then no mercy."""
    deadline = time.monotonic() + 60
    while (rest := left(ours, started, before)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not rest


@pytest.fixture
def pins() -> set[str]:
    return {str(path) for path in Path("/sys/fs/bpf").glob("**/*")} if Path("/sys/fs/bpf").is_dir() else set()


def test_killed_while_it_traces(pins: set[str]) -> None:
    with Tracer("-c", "sleep 1000", "-e", script(), timeout=150) as tracer:
        ours, started = held(tracer.pid), children(tracer.pid)
        assert {kind for kind, _ in ours} == {"prog", "map", "link"} and started
        if LiveWorld().has_feature("kprobes"):
            assert lines(FUNCTIONS, TARGET)
        tracer.process.kill()
        tracer.process.wait()
    check_nothing_is_left(ours, started, pins)


def test_killed_at_any_moment(pins: set[str]) -> None:
    """While maps, programs and links are made (at so many objects), and while they are given up."""
    for count in (1, 5, 12, 20, 0):
        process = subprocess.Popen(sonde_command(("-c", "sleep 1000", "-e", script())), env=environment(None),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ours: set[tuple[str, int]] = set()
        started: set[int] = set()
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline and (len(ours) < count if count else not any(k == "link" for k, _ in ours)):
            assert process.poll() is None, "it ended by itself"
            ours |= held(process.pid)
            started |= set(children(process.pid))
            time.sleep(0.01)
        if not count:
            process.send_signal(signal.SIGINT)
        process.kill()
        process.wait()
        assert len(ours) >= max(count, 1)
        check_nothing_is_left(ours, sorted(started), pins)
