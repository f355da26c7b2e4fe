"""Tracepoints that are served by raw ones give the same fields: both are attached at once and compared."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

import sonde
from sonde.compiler.lower.probes.raw_fields import ROWS, raw_fields
from sonde.compiling import live_world, mask_features

WORLD = live_world()
NAME = f"rawcmp{os.getpid()}"
WORK = r"""
import ctypes, os, select, signal, socket, sys, threading
ctypes.CDLL(None).prctl(15, sys.argv[1].encode())
signal.signal(signal.SIGUSR1, lambda *_: None)
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    with socket.socket(family) as server:
        server.bind((host, 0)); server.listen()
        client = socket.socket(family); client.connect(server.getsockname())
        peer, _ = server.accept()
        for size in (1, 100, 5000):
            client.sendall(b"x" * size); peer.recv(size)
        client.close(); peer.close()
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
    udp.bind(("127.0.0.1", 0)); udp.sendto(b"hello", udp.getsockname()); udp.recv(10)
for _ in range(3):
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
os.kill(os.getpid(), signal.SIGUSR1)
event = threading.Event()
thread = threading.Thread(target=event.wait); thread.start()
os.sched_setaffinity(0, {0}); os.sched_setaffinity(0, {1 % os.cpu_count()})
select.select([], [], [], 0.01)
event.set(); thread.join()
block = bytearray(1 << 22)
"""


def served(name: str) -> list[str]:
    category, _, event = name.partition(":")
    return sorted(raw_fields(WORLD, category, event))


NAMES = [n for n in ROWS if served(n)]
# What the work above does not bring about for certain: interrupts come when they come.
# Older kernels do not count what they skip (trace_call_bpf()).
COUNTS_MISSES = tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 7)
PERHAPS = {
    "irq:irq_handler_entry", "irq:irq_handler_exit", "irq:softirq_raise", "irq:softirq_entry", "irq:softirq_exit",
    "timer:hrtimer_expire_exit", "timer:hrtimer_cancel", "timer:hrtimer_start", "tcp:tcp_retransmit_skb",
    "net:netif_rx", "skb:kfree_skb", "sched:sched_wait_task", "sched:sched_process_free", "sched:sched_process_exec",
    "sched:sched_migrate_task", "sched:sched_waking", "sched:sched_wakeup",
}


def collect(trace: Any) -> dict[str, Counter[Any]]:
    found: dict[str, Counter[Any]] = {name: Counter() for name in NAMES}
    for event in trace.stop():
        found[event.probe.removeprefix("tracepoint:")][event.args[0]] += 1
    return found


@pytest.fixture(scope="module")
def both() -> tuple[dict[str, Counter[Any]], dict[str, Counter[Any]], dict[str, int], dict[str, int]]:
    """What was printed by raw tracepoints and by classic ones, and how often the kernel skipped each."""
    script = ""
    for name in NAMES:
        values = ", ".join([f"args.{field}" for field in served(name)]) + ","
        script += f'tracepoint:{name} /comm == "{NAME}"/ {{ print(({values})); }}\n'
    raw_world: Any = mask_features(WORLD, ["preemptible_raw_tp"])
    classic_world: Any = mask_features(WORLD, ["raw_tp"])
    with sonde.trace(script, world=raw_world) as raw, sonde.trace(script, world=classic_world) as classic:
        ways = {p.method for p in raw.spec.programs if p.attach[0].target != "raw_syscalls"}
        assert ways == {"raw"} and {p.method for p in classic.spec.programs} == {""}
        subprocess.run([sys.executable, "-c", WORK, NAME], check=True)
        by_raw, by_classic = collect(raw), collect(classic)
        assert not raw.losses.records and not classic.losses.records
        skipped = [{probe.removeprefix("tracepoint:"): count for probe, count in trace.losses.skipped}
                   for trace in (raw, classic)]
    return by_raw, by_classic, *skipped


@pytest.mark.parametrize("name", NAMES)
def test_both_ways_agree(name: str, both: Any) -> None:
    by_raw, by_classic, preempted, nested = (part.get(name, 0) for part in both)
    only_classic, only_raw = by_classic - by_raw, by_raw - by_classic
    assert sum(only_classic.values()) <= preempted, \
        f"{served(name)}: {list(only_classic)[:3]} instead of {list(only_raw)[:3]}"
    if COUNTS_MISSES:
        assert sum(only_raw.values()) <= nested, "only the classic program may lose nested events, and it says so"
    assert by_raw or name in PERHAPS, "the work did not bring it about"


def test_most_rows_are_exercised() -> None:
    """The rows are for real events: this kernel knows nearly all of them."""
    assert len(NAMES) >= len(ROWS) - 4, sorted(set(ROWS) - set(NAMES))
