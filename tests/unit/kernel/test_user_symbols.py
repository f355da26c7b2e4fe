"""What is kept of processes: bounded, and forgotten in a moment."""

from __future__ import annotations

import os
import struct
import sys
import time
from pathlib import Path
from sys import getsizeof
from types import SimpleNamespace
from typing import Any

import pytest

from sonde.errors import MachineError
from sonde.kernel.foreign import files
from sonde.kernel.names import binaries, user_symbols
from sonde.kernel.names.mappings import MappingLog
from sonde.kernel.names.user_symbols import Mapping, UserSymbol, UserSymbols, read_maps


@pytest.fixture
def symbols(monkeypatch: pytest.MonkeyPatch) -> UserSymbols:
    """Of processes that each map one file, which has no functions."""
    monkeypatch.setattr(user_symbols, "read_maps", lambda pid, most: [Mapping(0x1000, 0x9000, 0, "/nosuch", "/nosuch")])
    return UserSymbols()


def live_and_die(symbols: UserSymbols, pids: range) -> float:
    """CPU seconds for processes that show three addresses; each takes the number of one that went before."""
    begin = time.process_time()
    for pid in pids:
        symbols.forget_process(pid % 30_000)
        for address in (0x1000, 0x2000, 0x3000):
            assert symbols.lookup(pid % 30_000, address) is not None
    return time.process_time() - begin


def test_the_cost_of_a_process_does_not_grow(symbols: UserSymbols) -> None:
    live_and_die(symbols, range(1000))
    first = live_and_die(symbols, range(1000, 4000))
    live_and_die(symbols, range(4000, 40_000))
    assert live_and_die(symbols, range(40_000, 43_000)) < 5 * first


def kept(symbols: UserSymbols) -> int:
    """Bytes, counted anew."""
    return sum(getsizeof(process.maps[0].path) + getsizeof(process.maps[0].name)
               + sum(getsizeof(found.name) for found in process.names.values())
               for process, _ in symbols._processes._held.values())


def test_bounded(symbols: UserSymbols) -> None:
    most = symbols._processes.most = 100_000
    for pid in range(2000):
        live_and_die(symbols, range(pid, pid + 1))
        assert kept(symbols) < symbols._processes.size <= most
    assert 10 < len(symbols._processes._held) < 1000 and 1999 in symbols._processes
    for address in range(0x1000, 0x9000, 4):  # one process with many addresses
        symbols.lookup(1999, address)
        assert symbols._processes.size <= most and 1999 in symbols._processes


# ---- files of processes that have another root

def reported(path: bytes) -> bytes:
    """What a perf event says of an executable mapping of process 77: PERF_RECORD_MMAP2."""
    return struct.pack("=IIQQQ", 77, 77, 0x1000, 0x1000, 0) + bytes(32) + path + b"\0"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MappingLog:
    """Of a process whose root is a folder."""
    monkeypatch.setattr(binaries, "process_root", lambda pid: str(tmp_path))
    return MappingLog()


def test_a_file_of_another_root_is_not_taken_for_ours(log: MappingLog, tmp_path: Path) -> None:
    """It cannot be read there, and ours has another of its name: no names are better than wrong ones."""
    program = os.path.realpath(sys.executable)
    log._opening = time.monotonic() + 100
    log.apply_record(10, 0, reported(os.fsencode(program)))
    mapping = log.find_mapping(77, 0x1234)
    assert mapping is not None and mapping.name == program and mapping.path == str(tmp_path) + program
    assert UserSymbols(log).lookup(77, 0x1234) == UserSymbol("", 0x234, program)


def test_many_files_do_not_hold_the_reading_up(log: MappingLog, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def slow(path: str) -> None:
        opened.append(path)
        time.sleep(0.03)
        raise MachineError("no such file")
    monkeypatch.setattr(files, "open_elf", slow)
    body = [reported(b"/lib/file%d" % number) + bytes(8) for number in range(500)]
    log._rings = [SimpleNamespace(drain_records=lambda: [(10, 0, each) for each in body])]  # type: ignore[list-item]
    log.drain_rings()
    assert 1 <= len(opened) <= 4
    assert log.find_mapping(77, 0x1234) is not None


def test_a_fork_has_its_parent_s_mappings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that waits to be executed: where it maps another file at the same address, it had none before."""
    first, second = os.pipe()
    child = os.fork()
    if not child:
        os.close(second)
        os.read(first, 1)
        os._exit(0)
    os.close(first)
    try:
        log = MappingLog()
        with monkeypatch.context() as patch:
            patch.setattr(os, "listdir", lambda path: [str(child), str(os.getpid())])
            log._read_existing_maps()
        place = read_maps(os.getpid())[0].start
        mapping = log.find_mapping(child, place)
        assert mapping is not None and mapping.name == os.path.realpath(sys.executable)
        log.apply_record(10, 0, struct.pack("=IIQQQ", child, child, place, 4096, 0) + bytes(32) + b"/other\0")
        log.note_name(child, place)
        assert log.shared == 0
    finally:
        os.close(second)
        os.waitpid(child, 0)


# ---- reports from several CPUs

class Ring:
    """One CPU's: at each reading the next of some lists of reports."""

    def __init__(self, *readings: list[tuple[int, int, bytes]]) -> None:
        self._readings = list(readings)

    def drain_records(self) -> list[tuple[int, int, bytes]]:
        return self._readings.pop(0) if self._readings else []


def fork(time: int, pid: int, parent: int = 1) -> tuple[int, int, bytes]:
    return 7, 0, struct.pack("=IIIIQ", pid, parent, pid, parent, time) + struct.pack("=Q", time)


def mmap(time: int, path: bytes = b"/nosuch") -> tuple[int, int, bytes]:
    return 10, 0, reported(path) + struct.pack("=Q", time)


@pytest.mark.parametrize("rings", [
    [Ring([], [fork(1, 77)]), Ring([mmap(2)])],
    [Ring([mmap(2)]), Ring([fork(1, 77)])],
    [Ring([fork(1, 5)], [mmap(4)]), Ring([], [], [fork(3, 77)])],
    [Ring([fork(1, 5)], [], [mmap(5)]), Ring([], [fork(4, 77)])],
], ids=["came while the other was read", "both there", "newer than all", "newer, and waits"])
def test_reports_are_taken_in_the_order_of_time(log: MappingLog, rings: list[Any]) -> None:
    """A process that is new does away with what its number had mapped, and not with what it maps itself: it may be
    forked on one CPU and run another program on the next, while the rings are read."""
    log._rings = rings
    log.drain_rings()
    log.drain_rings()
    assert log.find_mapping(77, 0x1234) is not None


def test_what_waits_is_taken_in_at_the_end(log: MappingLog) -> None:
    ring = Ring([fork(1, 5)], [mmap(9)])
    ring.close = lambda: None  # type: ignore[attr-defined]
    log._rings = [ring]  # type: ignore[list-item]
    log.close()
    assert log.find_mapping(77, 0x1234) is not None


@pytest.mark.parametrize(("reports", "seconds", "rest"), [(0, 9, 0), (10, 9, 0.005), (5000, 9, 0.05),
                                                          (4096, 0.01, 0.0025)])
def test_many_reports_let_the_next_ones_wait(log: MappingLog, reports: int, seconds: float, rest: float,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    """But not until a ring, which has room for 2,048 of the shortest, is full."""
    monkeypatch.setattr(log, "_read_at", 1000 - seconds)
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    log._rings = [Ring([fork(n, n, n + 1) for n in range(reports)], [], [])]  # type: ignore[list-item]
    log.drain_rings()
    assert log.rest == pytest.approx(rest)
    log.drain_rings()
    assert log.rest == 0


def test_the_parents_of_the_youngest_are_remembered(log: MappingLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers come again."""
    monkeypatch.setattr("sonde.kernel.names.mappings.PROCESSES", 2)
    log._rings = [Ring([fork(1, 5), fork(2, 6), fork(3, 5), fork(4, 7)])]  # type: ignore[list-item]
    log.drain_rings()
    assert list(log._parents) == [5, 7]
