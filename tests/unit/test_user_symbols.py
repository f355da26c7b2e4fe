"""What is kept of processes: bounded, and forgotten in a moment."""

from __future__ import annotations

import time
from sys import getsizeof

import pytest

from sonde.kernel import user_symbols
from sonde.kernel.user_symbols import Mapping, UserSymbols


@pytest.fixture
def symbols(monkeypatch: pytest.MonkeyPatch) -> UserSymbols:
    """Of processes that each map one file, which has no functions."""
    monkeypatch.setattr(user_symbols, "read_maps", lambda pid, most: [Mapping(0x1000, 0x9000, 0, "/nosuch", "/nosuch")])
    return UserSymbols()


def live_and_die(symbols: UserSymbols, pids: range) -> float:
    """CPU seconds for processes that show three addresses; each takes the number of one that went before."""
    begin = time.process_time()
    for pid in pids:
        symbols.forget(pid % 30_000)
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
