"""A fixture that counts what a function asks of the kernel, and tests that use it.

    sudo python3 -m pytest -q examples/test_fixture.py
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
tracepoint:syscalls:sys_enter_fsync,
tracepoint:syscalls:sys_enter_fdatasync,
tracepoint:syscalls:sys_enter_rename* { @[probe] = count(); }
"""


def save(path: Path, text: str) -> None:
    """What is tested: a file that is either old or new, whenever the power fails."""
    with open(f"{path}.new", "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{path}.new", path)


@pytest.fixture
def calls_of(sonde_trace: Callable[[str], Any]) -> Callable[..., dict[str, int]]:
    """``calls_of(function, ...)`` calls it and returns how often it made which system call."""
    def count(function: Callable[..., object], *args: object) -> dict[str, int]:
        with sonde_trace(SCRIPT) as run:
            function(*args)
        assert not run.lost
        return {probe.rpartition("sys_enter_")[2]: number for probe, number in run.maps["@"].items()}
    return count


def test_a_file_is_on_disk_before_it_is_renamed(calls_of: Callable[..., dict[str, int]], tmp_path: Path) -> None:
    assert calls_of(save, tmp_path / "settings", "a = 1") == {"fsync": 1, "rename": 1}
