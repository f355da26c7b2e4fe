"""How long the reader of foreign files may take: waiting for a CPU is not its fault, but not for ever."""

from __future__ import annotations

import os
import time

import pytest

from sonde.kernel import notices
from sonde.kernel.foreign import reader


class Clock:
    """What the deadline sees of time: seconds passed, and of these, seconds in which the process waited for a CPU."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.delay, self.hurried = 1000.0, 70.0, False
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(reader._Deadline, "_read_delay", lambda _: self.delay)
        monkeypatch.setattr(notices, "is_hurried", lambda: self.hurried)
        self.deadline = reader._Deadline(os.getpid(), 1.0, 0.5)

    def wait(self, seconds: float, queued: float) -> float:
        """The limit that is exceeded after so long, 0 if none is."""
        self.now += seconds
        self.delay += queued
        return self.deadline._exceeded_limit()


def test_waiting_for_a_cpu_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    assert clock.wait(7.9, 0) == 0
    assert clock.wait(20, 20) == 0
    assert clock.wait(0.2, 0) == 1.0


def test_it_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    assert clock.wait(39, 39) == 0
    assert clock.wait(2, 2) == 1.0


def test_once_the_run_is_to_end_all_time_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    assert clock.wait(5, 5) == 0
    clock.hurried = True
    assert clock.wait(0, 0) == 0.5


def test_the_kernel_tells_how_long_a_process_waited() -> None:
    assert 0 < reader._Deadline(os.getpid(), 1.0, 0.5)._read_delay() < time.monotonic()
    assert reader._Deadline(2**22 + 1, 1.0, 0.5)._read_delay() == 0
