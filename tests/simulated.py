"""Agents that trace nothing: they speak the protocol and tell what a test has them tell.

``SimulatedFleet(contents)`` is a :class:`sonde.fleet.transport.connection.Transport`: each host that is connected to
gets an agent, which tells ``contents(host, window)`` of one map, window by window, and misbehaves as
``behaviour(host)`` says.
"""

from __future__ import annotations

import os
import random
import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from sonde.fleet.state.coordinator import Fleet
from sonde.fleet.state.results import HostEvent, MergedPrint
from sonde.fleet.transport.connection import Connection, Transport
from sonde.fleet.transport.hosts import expand_hosts
from sonde.fleet.transport.protocol import TO_AGENT, Decoder, Frame, delta_columns, encode_frame
from sonde.fleet.transport.request import FleetRequest
from sonde.fleet.transport.shapes import describe_script
from sonde.merge.delta import Delta, Differ, KeyNumbers
from sonde.merge.portable import encode_value
from sonde.spec import Config, MapSpec, ScriptSpec
from sonde.types import INT64, Aggregate

Contents = dict[Any, list[int]]
COUNT = Aggregate("count", False)


def shape_of(aggregate: Aggregate | None, *names: str) -> bytes:
    """A script of such maps."""
    from json import dumps
    maps = [MapSpec(name, "hash", 8, 8, 100, key=INT64, value=aggregate or INT64) for name in names or ("@",)]
    return dumps(describe_script(ScriptSpec([], maps, [], [], ["tracepoint:a:b"], [], Config()))).encode()


class SimulatedAgent:
    """One agent on a connected socket. ``windows`` it tells, ``period`` seconds apart; with "hold" it begins to tell
    what is held back after the others."""

    def __init__(self, end: socket.socket, name: str, contents: Callable[[str, int], Contents], windows: int,
                 period: float, behaviour: str, aggregate: Aggregate) -> None:
        self.end, self.name, self.behaviour = end, name, behaviour
        self._contents, self._windows, self._period = contents, windows, period
        self._aggregate = aggregate
        self._decoder = Decoder(TO_AGENT)
        self._differ = Differ(aggregate, KeyNumbers(encode_value))
        self._sequence = self._told = 0
        self._next = 0.0
        self._held: list[bytes] = []
        self.closed = False
        self.told: Contents = {}  # what it has told in complete windows
        self._send(encode_frame("hello", host=name, boot=name, kernel="6.1", machine="x86_64", sonde="0"))

    def _send(self, data: bytes) -> None:
        if not self.closed:
            try:
                self.end.sendall(data)
            except OSError:
                self.close()

    def close(self) -> None:
        self.closed = True
        self.end.close()

    def read(self) -> None:
        """Handle what the coordinator has sent."""
        try:
            data = self.end.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        for frame in self._decoder.feed_bytes(data):
            self._handle(frame)

    def _handle(self, frame: Frame) -> None:
        if frame.kind == "ping":
            self._send(encode_frame("pong", sent=frame["sent"], wall=time.time_ns()))
        elif frame.kind == "run":
            if self.behaviour == "trickles":
                self._send(encode_frame("ready", [shape_of(self._aggregate)], warnings=[])[:20])  # and no more
            elif self.behaviour == "refuses":
                self._send(encode_frame("refused", message="BTF: none", hints=[]))
            elif self.behaviour == "other":
                self._send(encode_frame("ready", [shape_of(Aggregate("lhist", low=0, high=7))], warnings=[]))
            else:
                self._send(encode_frame("ready", [shape_of(self._aggregate)], warnings=[]))
        elif frame.kind == "start":
            self._send(encode_frame("started", wall=time.time_ns(), probes=1))
            self._next = time.monotonic() + self._period
        elif frame.kind == "stop" and self.behaviour != "talks on":
            self._finish()

    def _numbered(self, kind: str, columns: Any = (), **fields: Any) -> bytes:
        self._sequence += 1
        return encode_frame(kind, columns, sequence=self._sequence - 1, **fields)

    def _finish(self) -> None:
        self._send(self._numbered("end", reason="seconds", status=0, seconds=self._told * self._period))

    def advance(self, now: float) -> None:
        """Tell the next window, if it is time."""
        if self.closed or not self._next or now < self._next:
            return
        if self._told == self._windows:
            self._next = 0.0
            if self.behaviour != "stalls":
                self._finish()
            return
        self._next += self._period
        frames = self._window_frames(self._contents(self.name, self._told))
        if self._told == self._windows // 2:
            frames = self._misbehave(frames)
        for frame in frames:
            self._send(frame)
        if not self.closed and self.behaviour != "stalls" or self._told < self._windows // 2:
            self.told = self._contents(self.name, self._told)
        self._told += 1

    def _window_frames(self, contents: Contents) -> list[bytes]:
        delta: Delta = self._differ.take_delta(list(contents.items()))
        pieces = list(delta.split_pieces(1000, 1 << 16))
        found = [self._numbered("map", delta_columns(piece), map="@", site=-1, turn=0, wall=time.time_ns(),
                                last=number == len(pieces), incomplete=False) for number, piece in enumerate(pieces, 1)]
        return [*found, self._numbered("window", until=time.time_ns(), lost=0, losses=[])]

    def _misbehave(self, frames: list[bytes]) -> list[bytes]:
        """What happens in the middle of the run."""
        if self.behaviour == "dies":
            for frame in frames[:-1]:  # a window that is not complete
                self._send(frame)
            self.close()
            return []
        if self.behaviour == "stalls":
            return frames[:-1]
        if self.behaviour == "repeats":
            return frames + frames
        if self.behaviour == "disorder":
            random.Random(self.name).shuffle(frames)
        if self.behaviour == "hostile":
            return [os.urandom(64)]
        return frames


class SimulatedFleet(Transport):
    """Agents in a thread of their own."""

    def __init__(self, contents: Callable[[str, int], Contents], windows: int = 4, period: float = 0.1,
                 behaviour: Callable[[str], str] = lambda host: "", aggregate: Aggregate = COUNT,
                 kind: type[SimulatedAgent] = SimulatedAgent) -> None:
        super().__init__()
        self._make = lambda end, name: kind(end, name, contents, windows, period, behaviour(name), aggregate)
        self.agents: dict[str, SimulatedAgent] = {}
        self._new: list[SimulatedAgent] = []
        self._over = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def connect(self, host: str, seconds: float) -> Connection:
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        agent = self.agents[host] = self._make(theirs, host)
        self._new.append(agent)
        return Connection(ours, None)

    def __enter__(self) -> SimulatedFleet:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over = True
        self._thread.join()
        for agent in self.agents.values():
            agent.close()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            while not self._over:
                while self._new:
                    agent = self._new.pop()
                    selector.register(agent.end, selectors.EVENT_READ, agent)
                for key, _ in selector.select(0.01):
                    key.data.read()
                    if key.data.closed:
                        selector.unregister(key.fileobj)
                now = time.monotonic()
                for agent in list(self.agents.values()):
                    was_open = not agent.closed
                    before = agent.end.fileno()
                    agent.advance(now)
                    if was_open and agent.closed and before in selector.get_map():
                        selector.unregister(before)


def run_simulated(transport: SimulatedFleet, hosts: str, request: FleetRequest, seconds: float, **options: Any
                  ) -> tuple[Fleet, list[HostEvent | MergedPrint]]:
    """A fleet that has come to its end, within so many seconds, and what it printed."""
    printed: list[HostEvent | MergedPrint] = []
    with transport, Fleet(expand_hosts([hosts]), request, transport, **options) as fleet:
        deadline = time.monotonic() + seconds
        while not fleet.done:
            printed += fleet.poll(0.2)
            assert time.monotonic() < deadline, [member for member in fleet.members if member.is_live][:5]
    return fleet, printed


def sum_contents(parts: Iterable[Contents]) -> dict[Any, int]:
    """The sum of counts by key, as it has to be."""
    found: Counter[Any] = Counter()
    for part in parts:
        for key, [count] in part.items():
            found[key] += count
    return dict(found)
