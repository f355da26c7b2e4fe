#!/usr/bin/env python3
"""What a coordinator costs: agents that replay made-up streams in a process of their own, over Unix sockets.

    bench/fleet.py [HOSTS [KEYS [BUCKETS]]]      500 hosts, 1,000 keys of a count each, windows of 1 s
    PERIOD=10 bench/fleet.py 10000               windows of 10 s
    RECORD=FILE bench/fleet.py                   recorded
    DASK=2 bench/fleet.py 300                    by way of a Dask cluster of two workers
"""

from __future__ import annotations

import os
import resource
import selectors
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from simulated import COUNT, Contents, SimulatedAgent  # noqa: E402
from sonde.fleet.recording import FleetRecorder, describe_fleet  # noqa: E402
from sonde.fleet.state.coordinator import Fleet, raise_file_limit  # noqa: E402
from sonde.fleet.transport.connection import Transport  # noqa: E402
from sonde.fleet.transport.request import FleetRequest  # noqa: E402
from sonde.source import Source  # noqa: E402
from sonde.types import Aggregate  # noqa: E402

WINDOWS = int(os.environ.get("WINDOWS", "10"))
RECORD = os.environ.get("RECORD", "")
WORKERS = int(os.environ.get("DASK", "0"))
PERIOD = float(os.environ.get("PERIOD", "1"))  # s between two windows
LOOK_EACH = 2e-5  # s between two looks at agents, for each: that these do not cost their square


class ReplayingAgent(SimulatedAgent):
    """All hosts tell the same: a window's frames are made once."""

    frames: dict[int, list[bytes]] = {}

    def _window_frames(self, contents: Contents) -> list[bytes]:
        if self._told not in self.frames:
            self.frames[self._told] = super()._window_frames(contents)
        self._sequence = sum(map(len, list(self.frames.values())[:self._told + 1]))
        return self.frames[self._told]


def record_stream(contents: list[Contents], aggregate: Aggregate) -> None:
    """Make the frames before they are asked for."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        agent = ReplayingAgent(theirs, "h", lambda host, window: contents[window], WINDOWS, PERIOD, "", aggregate)
        for window in range(WINDOWS):
            agent._told = window
            agent._window_frames(contents[window])


def serve_agents(path: str, hosts: int, contents: list[Contents], aggregate: Aggregate) -> None:
    """Agents on a Unix socket, until all that have come have gone."""
    agents: list[SimulatedAgent] = []
    looked, parent = 0.0, os.getppid()
    with socket.socket(socket.AF_UNIX) as listening, selectors.DefaultSelector() as selector:
        listening.bind(path)
        listening.listen(hosts)
        selector.register(listening, selectors.EVENT_READ)
        while os.getppid() == parent and (len(agents) < hosts or not all(agent.closed for agent in agents)):
            for key, _ in selector.select(0.005):
                if key.data is None:
                    end, _ = listening.accept()
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
                    agents.append(ReplayingAgent(end, f"h{len(agents)}", lambda host, window: contents[window],
                                                 WINDOWS, PERIOD, "", aggregate))
                    selector.register(end, selectors.EVENT_READ, agents[-1])
                else:
                    key.data.read()
                    if key.data.closed:
                        selector.unregister(key.fileobj)
            now = time.monotonic()
            if now - looked > len(agents) * LOOK_EACH:
                looked = now
                for agent in agents:
                    agent.advance(now)


def make_contents(keys: int, buckets: int) -> tuple[list[Contents], Aggregate]:
    """What every host's map holds, window by window: all keys grow in each, in so many buckets."""
    if buckets == 1:
        return [{key: [(window + 1) * (key + 1)] for key in range(keys)} for window in range(WINDOWS)], COUNT
    hist = Aggregate("hist")
    filled = [[window + 1 if 1 <= at <= buckets else 0 for at in range(hist.words)] for window in range(WINDOWS)]
    return [dict.fromkeys(range(keys), filled[window]) for window in range(WINDOWS)], hist


def main() -> int:
    hosts, keys, buckets = ([*map(int, sys.argv[1:]), *(500, 1000, 1)[len(sys.argv) - 1:]])[:3]
    contents, aggregate = make_contents(keys, buckets)
    raise_file_limit(3 * hosts + 300)
    record_stream(contents, aggregate)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/agents"
        child = os.fork()
        if not child:
            serve_agents(path, hosts, contents, aggregate)
            os._exit(0)
        while not os.path.exists(path):
            time.sleep(0.01)
        measure(path, hosts, keys, buckets, contents[-1])
        os.waitpid(child, 0)
    return 0


@contextmanager
def reach_agents(path: str, hosts: int) -> Iterator[tuple[list[str], Transport]]:
    """The hosts, and how they are reached: by as many paths of the socket, or through workers that share them."""
    if not WORKERS:
        for i in range(hosts):
            os.makedirs(os.path.join(os.path.dirname(path), str(i)))
        yield [f"unix:{path.replace('agents', f'./{i}/../agents')}" for i in range(hosts)], Transport()
        return
    import distributed

    from sonde.fleet.transport.dask import DaskTransport
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    with distributed.LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=":0") as cluster, \
            distributed.Client(cluster) as client:
        transport = DaskTransport(client, path, every=True)
        workers = [*transport._workers.values()]
        transport._workers = {f"h{i}": workers[i % WORKERS] for i in range(hosts)}
        yield transport.hosts, transport


def measure(path: str, hosts: int, keys: int, buckets: int, last: Contents) -> None:
    with reach_agents(path, hosts) as (names, transport):
        measure_run(names, transport, keys, buckets, last)


def measure_run(names: list[str], transport: Transport, keys: int, buckets: int, last: Contents) -> None:
    hosts = len(names)
    asked, first, worked = time.monotonic(), 0.0, time.process_time()
    request, log = FleetRequest(Source("stdin", ""), window=PERIOD), None
    if RECORD:
        log = FleetRecorder(os.open(RECORD, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
                            describe_fleet(names, request, False, False, "", {}))
    with Fleet(names, request, transport, parallel=64, log=log) as fleet:
        while not fleet.begun and not fleet.done:
            fleet.poll(0.05)
        begun, cpu = time.monotonic(), time.process_time()
        while not fleet.done:
            fleet.poll(0.25)
            if not first and all(member.windows for member in fleet.members):
                first, worked = time.monotonic(), time.process_time() - worked
        spent, took = time.process_time() - cpu, time.monotonic() - begun
        merged = time.process_time()
        pairs = dict(fleet.results.pairs_of("@")) if fleet.begun else {}
        merged = time.process_time() - merged
    total = {key: hosts * sum(words) for key, words in last.items()}
    exact = {key: getattr(value, "total", value) for key, value in pairs.items()} == total
    print(f"{hosts} hosts, {keys} keys of {buckets} numbers, windows of {PERIOD:g} s: begun after "
          f"{begun - asked:.2f} s, first merged window after {first - asked:.2f} s and {worked:.2f} CPU s, "
          f"{spent / took:.2f} CPU s/s, "
          f"{spent / hosts / WINDOWS * 1e6:.0f} µs a host and window, reading the whole {merged:.2f} s, "
          f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB, {'exact' if exact else 'WRONG'}: "
          f"{fleet.describe_state(3)}")


if __name__ == "__main__":
    sys.exit(main())
