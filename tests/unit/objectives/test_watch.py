"""sonde.watch(): when it yields, calls, raises and ends; what the kernel saw comes from a list."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import sonde
from sonde.objectives import watch as watching_module

QUIET: dict[str, Any] = {"calls": []}


def fsyncs(number: int) -> dict[str, Any]:
    return {"calls": [[["fsync", "python", 7, ["save (/w/a.py:3)"]], number]]}


class ListedTracer:
    """Answers what is to be seen, one after the other, then nothing."""

    seen: list[dict[str, Any]] = []
    asked: list[dict[str, Any]] = []
    lost = ""
    closed = 0

    def ask(self, **request: Any) -> dict[str, Any]:
        self.asked.append(request)
        if request["do"] == "observe":
            return {}
        return {"seen": self.seen.pop(0) if self.seen else QUIET, "lost": self.lost}

    def close(self) -> None:
        type(self).closed += 1


@pytest.fixture(autouse=True)
def tracer(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[ListedTracer]]:
    monkeypatch.setattr(watching_module, "Tracer", ListedTracer)
    ListedTracer.seen, ListedTracer.asked, ListedTracer.lost, ListedTracer.closed = [], [], "", 0
    yield ListedTracer
    observed = [request for request in ListedTracer.asked if request["do"] == "observe"]
    assert ListedTracer.closed == len(observed)


@pytest.mark.parametrize("given", [
    {}, {"no_connect": False}, {"p99": {"read": "2 miles"}}, {"no_connect": True, "every": "never"},
    {"no_stall": 5}, {"no_open": 7},
])
def test_nonsense_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(sonde.UsageError):
        sonde.watch(**given)


def test_what_is_broken_is_raised(tracer: type[ListedTracer]) -> None:
    tracer.seen = [fsyncs(2), fsyncs(3)]
    with sonde.watch(max_syscalls={"fsync": 2}) as watching:
        watching.check()
        with pytest.raises(sonde.ObjectiveError, match=r"fsync\(\) was called 3 times, and at most 2") as caught:
            watching.check()
        watching.check()
    [broken] = caught.value.broken
    assert (broken.rule, broken.subject, broken.measured) == ("max_syscalls", "fsync", 3)
    assert broken.acts[0].stack == ["save (/w/a.py:3)"] and "\n    save (/w/a.py:3)" in str(broken)
    assert broken.message == "fsync() was called 3 times, and at most 2 is allowed"
    assert tracer.asked[0]["marks"] == [{"max_syscalls": {"fsync": 2}}]
    with pytest.raises(sonde.UsageError, match="not begun"):
        watching.check()


def test_what_is_broken_is_yielded_until_the_process_ends(tracer: type[ListedTracer]) -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        tracer.seen = [fsyncs(3), QUIET, fsyncs(5), QUIET]
        with sonde.watch(process.pid, max_syscalls={"fsync": 2}, every="1ms") as watching:
            measured = []
            for broken in watching:
                measured.append(broken.measured)
                if broken.measured == 5:
                    tracer.seen = [fsyncs(9)] * 1000
                    process.stdin.close()
                    process.wait()
        assert measured[:2] == [3, 5] and set(measured[2:]) == {9}  # what came before the end is told
        assert tracer.asked[0]["pid"] == process.pid


def test_what_is_broken_is_called_with_for_a_time(tracer: type[ListedTracer]) -> None:
    tracer.seen = [fsyncs(3)]
    seen: list[sonde.Broken] = []
    with sonde.watch(max_syscalls={"fsync": 2}, every="1ms") as watching:
        assert watching.run(seen.append, timeout=0.01) is watching
    assert [each.measured for each in seen] == [3]
    assert tracer.asked[0]["pid"] == 0, "of this process: the script is told what to observe by the process itself"


def test_it_can_be_awaited(tracer: type[ListedTracer]) -> None:
    async def first() -> int:
        async with sonde.watch(max_syscalls={"fsync": 2}, every="1ms") as watching:
            async for broken in watching:
                return broken.measured
        return 0
    tracer.seen = [QUIET, fsyncs(4)]
    assert asyncio.run(first()) == 4


def test_calls_of_a_function_are_watched(tracer: type[ListedTracer]) -> None:
    @sonde.watch(max_syscalls={"fsync": 2})
    def save(result: int) -> float:
        return 1 / result
    tracer.seen = [fsyncs(1), fsyncs(3)]
    assert save(2) == 0.5
    with pytest.raises(sonde.ObjectiveError):
        save(2)
    with pytest.raises(ZeroDivisionError):
        save(0)


def test_what_was_missed_is_said(tracer: type[ListedTracer]) -> None:
    tracer.lost = "5 stacks lost"
    with sonde.watch(no_connect=True) as watching, pytest.warns(RuntimeWarning, match="missed some .*: 5 stacks lost"):
        assert watching.judge() == [] and watching.missed == "5 stacks lost"


def test_there_has_to_be_a_process() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as process:
        process.wait()
        with pytest.raises(sonde.UsageError, match="process"), sonde.watch(process.pid, no_connect=True):
            pass
    assert os.getpid() == sonde.watch(no_connect=True).pid
