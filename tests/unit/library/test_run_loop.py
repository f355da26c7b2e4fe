"""The loop of every run, over a trace that answers from a list."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sonde.library import run_loop
from sonde.library.run_loop import RunLoop
from sonde.library.traced_run import TracedRun


class ListedTrace:
    """Gives the portions of a list, then is done; notes for how long each step would have waited."""

    def __init__(self, portions: list[Any], asks_at: int = -1) -> None:
        self.portions = portions
        self.asks_at = asks_at
        self.waits: list[float | None] = []
        self.session = SimpleNamespace(done=False, maps_requested=False)

    def next_records(self, timeout: float | None = None) -> Any:
        self.waits.append(timeout)
        self.session.maps_requested = len(self.waits) - 1 == self.asks_at
        portion = self.portions.pop(0)
        self.session.done = not self.portions
        return portion


def loop_over(trace: ListedTrace, *more: Any) -> RunLoop:
    return RunLoop(cast(TracedRun, trace), *more)


def test_ends_with_the_script() -> None:
    trace = ListedTrace(["a", "b", "c"])
    assert list(loop_over(trace)) == ["a", "b", "c"] and trace.waits == [None] * 3
    assert list(loop_over(trace)) == [], "a run that has ended has no step left"


def test_ends_after_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(run_loop, "time", SimpleNamespace(monotonic=lambda: now[0]))
    trace = ListedTrace(["a"] * 10)
    loop = loop_over(trace, 5)
    for _ in loop:
        now[0] += 2
    assert trace.waits == [5, 3, 1] and loop.is_over() and not trace.session.done
    assert list(loop_over(ListedTrace(["a"]), 0)) == []


def test_a_step_waits_no_longer_than_allowed() -> None:
    waits = iter([0.5, None, 700.0])
    trace = ListedTrace(["a", "b", "c"])
    assert len(list(loop_over(trace, 600, lambda: next(waits)))) == 3
    assert trace.waits[0] == 0.5
    assert all(wait is not None and 590 < wait <= 600 for wait in trace.waits[1:])


def test_a_request_for_the_maps_is_seen_once() -> None:
    trace = ListedTrace(["a", "b", "c"], asks_at=1)
    loop = loop_over(trace)
    assert [(records, loop.maps_requested) for records in loop] == [("a", False), ("b", True), ("c", False)]
    assert not trace.session.maps_requested
