"""Which CPUs what is attached to when they come and go; tests/vm/inside/test_cpu_hotplug.py has real ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sonde.errors import MachineError, SyscallError
from sonde.runtime.attach import cpu_watch
from sonde.runtime.attach.links import Links, runs_on_cpus
from sonde.spec import Attach

POINTS = [Attach("profile", "profile:hz:9", period=9), Attach("profile", "profile:hz:8", period=8, pid=7),
          Attach("interval", "interval:s:1", period=1), Attach("tracepoint", "tracepoint:a:b", "a", "b")]


class Machine:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, budgeted: bool = False) -> None:
        self.online, self.attached = [0, 1], list[tuple[str, int]]()
        monkeypatch.setattr(cpu_watch, "online_cpus", lambda: list(self.online))
        monkeypatch.setattr(cpu_watch, "attach_to_cpu", self.attach)
        programs: list[Any] = [SimpleNamespace(spec=SimpleNamespace(attach=[point], cookies=False), fd=None)
                               for point in POINTS]
        self.watch = cpu_watch.CpuWatch(programs, Links(), budgeted)

    def attach(self, point: Attach, program: object, cookie: int, links: Links, cpu: int) -> None:
        if cpu == 9:
            raise SyscallError("perf_event_open", 19)
        self.attached.append((point.name, cpu))

    def become(self, *cpus: int) -> list[str]:
        self.online = list(cpus)
        return self.watch.follow_cpus()


def test_what_runs_on_cpus() -> None:
    assert [runs_on_cpus(point) for point in POINTS] == [True, False, True, False]


def test_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    assert machine.become(0, 1) == [] and machine.attached == []
    assert machine.become(0, 1, 2) == ["CPU 2 came online: profile:hz:9 runs there from now on"]
    assert machine.become(2) == ["CPU 0 went offline: interval:s:1 runs on CPU 2 from now on"]
    assert machine.become(1, 2) == ["CPU 1 came online: profile:hz:9 runs there from now on"]
    assert machine.attached == [("profile:hz:9", 2), ("interval:s:1", 2), ("profile:hz:9", 1)]
    assert machine.become(1, 2, 9) == [
        "profile:hz:9 cannot run on CPU 9: perf_event_open: No such device"]
    assert machine.become(2) == []  # the timer is on CPU 2


def test_a_list_that_cannot_be_read_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)

    def refuse() -> list[int]:
        raise MachineError("online: Too many open files")
    with monkeypatch.context() as patch:
        patch.setattr(cpu_watch, "online_cpus", refuse)
        assert machine.become() == ["CPUs that come online are not seen: online: Too many open files"]
        assert machine.become() == []
    assert machine.become(0, 1, 2) == ["CPU 2 came online: profile:hz:9 runs there from now on"]


def test_a_budget_attaches_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, budgeted=True)
    assert machine.become(0, 1, 2) == [
        "CPU 2 came online: profile:hz:9 does not run there until the budget attaches it again"]
    assert machine.attached == []
