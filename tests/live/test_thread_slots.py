"""Threads that meet in one slot, on the running kernel: no element is lost, doubled or another's."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import sonde
from sonde.compiler import slot_keys
from sonde.compiling import live_world
from sonde.layouts.shared_maps import PURSE, PURSES
from support import PRODUCER, compile_c

pytestmark = pytest.mark.skipif(not live_world().has_feature("atomic_fetch"), reason="kernel lacks atomic_fetch")
CALLS, THREADS = 20_000, 24
SCRIPT = """config = { max_map_keys = %d }
tracepoint:syscalls:sys_enter_getppid /pid == cpid/ {
    @s[tid] = (uint64)tid; @kept[tid] = (uint64)tid; @enters = count();
}
tracepoint:syscalls:sys_exit_getppid /pid == cpid/ {
    if (@s[tid] == tid) { @right = count(); } else if (has_key(@s, tid)) { @wrong = count(); } else { @none = count(); }
    if (!delete(@s, tid)) { @gone = count(); }
}"""


def left_in_purses(trace: sonde.Trace, name: str) -> int:
    data = trace.session.maps[f"__slots{name}"].memory
    return sum(int.from_bytes(data[at:at + 8], sys.byteorder, signed=True) for at in range(0, PURSES * PURSE, PURSE))


@pytest.mark.parametrize("slots", [2, 8, 1 << 12])
@pytest.mark.parametrize("entries", [10, 1000])
def test_elements_of_many_threads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, slots: int, entries: int) -> None:
    monkeypatch.setattr(slot_keys, "LEAST_SLOTS", slots)
    monkeypatch.setattr(slot_keys, "MOST_SLOTS", slots)
    producer = compile_c(PRODUCER, tmp_path, "producer")
    command = [str(producer), str(THREADS), str(CALLS), f"slots{os.getpid()}"]
    with sonde.trace(SCRIPT % entries, command=command, world=live_world()) as trace:
        assert trace.spec.find_map("@s").slots and trace.spec.find_map("@kept").slots
        trace.run(timeout=60)
        values = {name: trace.maps[name].value for name in ("@enters", "@right", "@wrong", "@none", "@gone")}
        kept = dict(trace.maps["@kept"].items())
        assert left_in_purses(trace, "@kept") == entries - len(kept)
        assert left_in_purses(trace, "@s") == entries
        assert not list(trace.maps["@s"].items())
        full = sum(count for site, count in trace.losses.errors if site.kind == "map_full")
    unheld = values["@none"] or 0  # of threads preempted in the middle of a call there may be more than elements
    assert values["@enters"] == values["@right"] + unheld == CALLS * THREADS \
        and (not unheld or entries < THREADS and os.environ.get("SONDE_VM"))
    assert values["@wrong"] is None and (values["@gone"] or 0) == unheld
    assert len(kept) == min(entries, THREADS) and all(key == value for key, value in kept.items())
    assert full == (THREADS - len(kept)) * CALLS + unheld


@pytest.mark.parametrize(("at_end", "left"), [("", {7}), ("zero(@s);", {0}), ("clear(@s);", set())])
def test_what_the_end_does_with_them(monkeypatch: pytest.MonkeyPatch, at_end: str, left: set[int]) -> None:
    """Of eight threads that have ended, in two slots: their elements stay until they are deleted."""
    monkeypatch.setattr(slot_keys, "MOST_SLOTS", 2)
    monkeypatch.setattr(slot_keys, "LEAST_SLOTS", 2)
    script = f"tracepoint:syscalls:sys_enter_getppid /pid == cpid/ {{ @s[tid] = (uint64)7; }} END {{ {at_end} }}"
    code = "import os, threading\nfor _ in range(8): t = threading.Thread(target=os.getppid); t.start(); t.join()"
    with sonde.trace(script, command=[sys.executable, "-c", code], world=live_world()) as trace:
        assert trace.spec.find_map("@s").slots
        trace.run(timeout=60)
    assert set(trace.maps["@s"].values()) == left and len(trace.maps["@s"]) == (8 if left else 0)
