"""``elapsed`` counts from when everything is attached, however long that took."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

import sonde
from sonde.runtime.attach import attachments

PAUSE = 0.5  # seconds that attaching takes here
TICK = 100   # ms


def boot_time() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def test_elapsed_begins_when_all_is_attached(monkeypatch: pytest.MonkeyPatch) -> None:
    """The set-up is not part of what is traced: a tick comes when its time has passed since the end of attaching."""
    attached: list[int] = []
    attach = attachments.attaching.attach_program

    def attach_slowly(*arguments: Any) -> int:
        count = attach(*arguments)
        for _ in range(50 if arguments[0].attach[0].kind == "tracepoint" else 0):
            os.getppid()
            time.sleep(PAUSE / 50)
            attached[:] = [boot_time()]
        return count
    monkeypatch.setattr(attachments.attaching, "attach_program", attach_slowly)
    script = f"""begin {{ print(("begin", elapsed, nsecs)); }}
        tracepoint:syscalls:sys_enter_getppid /pid == {os.getpid()}/ {{ print(("call", elapsed, nsecs)); }}
        interval:ms:{TICK} {{ @n++; print(("tick", elapsed, nsecs)); if (@n == 3) {{ exit(); }} }}
        end {{ print(("end", elapsed, nsecs)); }}"""
    with sonde.trace(script) as trace:
        os.getppid()
        rows = [event.args[0] for event in trace.events() if event.kind == "print"]
        rows += [event.args[0] for event in trace.stop() if event.kind == "print"]
    times = [elapsed for _, elapsed, _ in rows]
    assert [rows[0][0], rows[-1][0]] == ["begin", "end"] and times == sorted(times)
    calls = [elapsed for what, elapsed, _ in rows if what == "call"]
    assert len(calls) == 51 and len(set(calls[:50])) == 1  # it stands still while others are attached
    ticks = [(elapsed, moment) for what, elapsed, moment in rows if what == "tick"]
    lead = calls[0]  # what begin took
    for number, (elapsed, moment) in enumerate(ticks, 1):
        assert number * TICK * 1_000_000 <= elapsed <= moment - attached[0] + lead
    assert rows[-1][2] - rows[-1][1] >= attached[0] - lead


def test_elapsed_runs_in_begin() -> None:
    """A script that has nothing else measures there."""
    with sonde.trace("begin { $a = elapsed; for ($i : 0..1000) { @s += $i; } print(elapsed - $a); exit(); }") as trace:
        spent = [event.args[0] for event in trace.stop() if event.kind == "print"]
    assert spent[0] > 0
