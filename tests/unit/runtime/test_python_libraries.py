"""Libraries with tasks that pytask does not see are named, once, when the program has had time to load them."""

from __future__ import annotations

import pytest

from sonde.errors import MachineError
from sonde.runtime.stacks import python_libraries
from sonde.runtime.stacks.python_libraries import LibraryWatch


def run(monkeypatch: pytest.MonkeyPatch, runs: bool, answers: list[list[str] | None]) -> tuple[list[int], list[str]]:
    """(the seconds at which a process was looked at, what was said) in two minutes."""
    clock, looks, said = [0.0], list[int](), list[str]()

    def find(pid: int) -> list[str]:
        looks.append(round(clock[0]))
        answer = answers.pop(0) if answers else []
        if answer is None:
            raise MachineError("it is just starting")
        return answer
    monkeypatch.setattr("sonde.kernel.names.python_tasks.find_libraries", find)
    monkeypatch.setattr(python_libraries, "show_notice", said.append)
    monkeypatch.setattr(python_libraries.time, "monotonic", lambda: clock[0])
    watch = LibraryWatch(42, runs)
    for _ in range(1200):
        watch.look_again()
        clock[0] += 0.1
    return looks, said


def test_a_program_of_asyncio_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, True, [["asyncio"]]) == ([0], [])


def test_other_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, said = run(monkeypatch, False, [None, [], ["asyncio", "trio", "greenlet"]])
    assert looks == [1, 2, 4] and [line.partition("do not see ")[2] for line in said] == [
        "trio's tasks, which sonde pytasks -p 42 shows", "greenlets (gevent's and others)"]


def test_looks_become_rarer_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, True, []) == ([0, 1, 3, 7, 15, 31, 63], [])
