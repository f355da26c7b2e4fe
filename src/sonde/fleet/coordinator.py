"""A fleet at work: connects to its hosts, has them begin together, and gathers what they tell until the end.

::

    with Fleet(["web1", "web2"], FleetRequest(source)) as fleet:
        while not fleet.done:
            for item in fleet.poll(0.5):    # HostEvent, MergedPrint
                ...
    fleet.results.pairs_of("@"); fleet.describe_state()

One thread, which waits in :meth:`Fleet.poll`. A host that is late, fails or goes away is named with its reason and not
waited for; what it has told in complete windows counts.
"""

from __future__ import annotations

import os
import selectors
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from time import monotonic, sleep, time_ns
from typing import Self

from ..errors import SondeError
from ..record import Record
from ..source import Source
from .connection import Way
from .hosts import short_names
from .member import COMPILING, CONNECTING, ENDED, MISSING, READY, TRACING, Member, Told
from .protocol import Frame, encode_frame
from .results import HostEvent, MergedPrint, Results
from .shapes import ShapeReader

COLLECTING = 2.0   # s from the wish to end until what has not come is given up
LEAVING = 1.0      # s that all agents have to end by themselves
READYING = 30.0    # s that a host has from the connection to being ready
AHEAD = 0.2        # s from now to the common beginning, at least
SILENT = 10.0      # s without a word (and three windows): a host is taken to be gone
_LOOK, _LOOK_EACH = 0.25, 5e-5  # s: so often deadlines and clocks are looked at, but rarer where hosts are many
_DEAF = 4          # looks that were not made
_TELL_EACH = 5e-5  # s to tell a host when to begin
_FEW, _EACH = 50, 1e-5  # hosts from which on they are looked at together, and s of patience for each


class FleetRequest(Record):
    """What every host is asked to run. ``seconds`` 0: until it is stopped; ``args``: events with their arguments;
    ``columns``: of a tool's table, whose lines are to come as rows; ``live``: somebody looks on, so plain values come
    with each window."""

    source: Source
    params: list[str] = []
    named: dict[str, str] = {}
    window: float = 1.0
    seconds: float = 0.0
    budget: float = 0.0
    unsafe: bool = False
    args: bool = False
    columns: list[str] = []
    live: bool = False

    def encode_frame(self) -> bytes:
        """The frame that asks a host for it, as a run of its own."""
        text = self.source.text.encode("utf-8", "surrogateescape")
        return encode_frame("run", [text], run=os.urandom(8).hex(), name=self.source.name, tool=False,
                            params=self.params, named=self.named, window=self.window, seconds=self.seconds,
                            budget=self.budget, unsafe=self.unsafe, args=self.args, table=self.columns, live=self.live)


class Fleet:
    """``parallel``: so many connections are made at once; ``patience``: seconds that a connection may take."""

    def __init__(self, hosts: Sequence[str], request: FleetRequest, way: Way | None = None, parallel: int = 64,
                 patience: float = 10.0, by_host: bool = False, outliers: bool = False) -> None:
        self.request = request
        self.results = Results(by_host, outliers, request.columns, len(hosts))
        names = short_names(hosts)
        self.members = [Member(names[host], host, self._take_told) for host in hosts]
        self._way = way or Way()
        self._parallel = parallel
        self._patience = patience
        self._pending = deque(self.members)
        self._connecting: dict[Member, float] = {}  # until it has to be ready, and then until it has to have begun
        self._selector = selectors.EpollSelector()
        self._look = max(_LOOK, len(hosts) * _LOOK_EACH)
        self._looked = 0.0
        self._pause = min(len(hosts) * _EACH, _LOOK / 2) if len(hosts) > _FEW else 0.0
        self._between = max(self._way.clock_pause, len(hosts) / 500)  # s between two looks at a host's clock
        self._asking = request.encode_frame()
        self._shapes = ShapeReader(request.source)
        self.started_at = 0      # Unix nanoseconds of the common beginning
        self._deadline = 0.0     # of the end, once it was asked for
        self.reason = ""         # why it ended: stop, or what the first host to end said
        self.done = False        # nothing more can come
        self._end_asked = False
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # the loop

    def poll(self, timeout: float) -> list[HostEvent | MergedPrint]:
        """What is to be printed next, in order of time; [] after ``timeout`` seconds or at the end."""
        deadline = monotonic() + timeout
        self._wait(0)
        while True:
            self._advance()
            printed = list(self.results.take_printed(self.members, time_ns(), self.done))
            left = deadline - monotonic()
            if printed or self.done or left <= 0:
                return printed
            if self._wait(min(left, _LOOK)) and self.started_at and self._pause:
                sleep(self._pause)  # looking at all hosts for each that says something would cost their square
                self._wait(0)

    def fileno(self) -> int:
        """A descriptor that is readable when there is something for :meth:`poll`; for event loops, which have to look
        each quarter of a second beside that."""
        return self._selector.fileno()

    def ask_end(self) -> None:
        """Have :meth:`poll` stop everything, from a signal's handler or another thread."""
        self._end_asked = True

    def stop(self) -> None:
        """Have all hosts end and send what they have; after COLLECTING seconds it is over."""
        if self._deadline:
            return
        self._deadline = monotonic() + COLLECTING
        self._pending.clear()
        for member in self.members:
            if member.state == TRACING:
                member.send("stop")
            else:
                self._drop(member, "not begun when the end was asked for")

    def close(self) -> None:
        """Hang up everywhere; harmless twice."""
        if self._closed:
            return
        self._closed = True
        for member in self.members:
            self._drop(member, "the end")
        until = monotonic() + LEAVING
        for member in self.members:
            member.release(until - monotonic())
        self._way.close()
        self._selector.close()
        self.done = True

    def _wait(self, seconds: float) -> bool:
        """Read and write what can be; whether anything could."""
        ready = self._selector.select(seconds)
        for key, events in ready:
            member: Member = key.data
            if events & selectors.EVENT_WRITE and member.connection is not None:
                member.connection.write_waiting()
            if events & selectors.EVENT_READ:
                self._read_member(member)
            self._watch(member)
        return bool(ready)

    def _read_member(self, member: Member) -> None:
        connection = member.connection
        data = connection.read_bytes() if connection is not None else None
        if data is None:
            return
        if not data:
            self._hang_up(member)
            return
        for frame in member.receive(data, self._shapes):
            self._handle_frame(member, frame)
        if not member.is_live:
            self._hang_up(member)

    def _watch(self, member: Member) -> None:
        """Wait for what a connection can do next."""
        connection = member.connection
        if connection is not None:
            self._selector.modify(connection, selectors.EVENT_READ | (
                selectors.EVENT_WRITE if connection.wants_to_write else 0), member)

    def _hang_up(self, member: Member) -> None:
        if member.connection is not None:
            self._selector.unregister(member.connection)
            member.hang_up()
        self._connecting.pop(member, None)

    def _drop(self, member: Member, reason: str) -> None:
        """A host that is not waited for any longer."""
        member.leave(reason)
        self._hang_up(member)

    # what happens when

    def _advance(self) -> None:
        """Connect, begin, give up, end: whatever it is time for."""
        if self._end_asked:
            self.stop()
        while self._pending and len(self._connecting) < self._parallel:
            self._connect(self._pending.popleft())
        now = monotonic()
        if now - self._looked >= self._look:
            if self._looked and now - self._looked > _DEAF * self._look:  # stopped, or starved: who spoke was not heard
                for member in self.members:
                    member.heard += now - self._looked
            self._looked = now
            self._look_at_members(now)
        if not self.started_at and not self._pending and not self._deadline \
                and not any(member.state in (CONNECTING, COMPILING) for member in self.members):
            self._begin()
        if not any(member.is_live for member in self.members):
            self.done = True

    def _connect(self, member: Member) -> None:
        member.heard = monotonic()
        try:
            connection = self._way.connect(member.address, self._patience)
        except SondeError as error:
            member.leave(error.message)
            return
        member.connection = connection
        self._connecting[member] = monotonic() + self._patience + READYING
        self._selector.register(connection, selectors.EVENT_READ, member)
        self._watch(member)

    def _look_at_members(self, now: float) -> None:
        for member, until in list(self._connecting.items()):
            if now > until or member.state == CONNECTING and now > until - READYING + self._patience:
                self._drop(member, f"timeout while {member.state}")
        silent = max(SILENT, 3 * self.request.window)
        for member in self.members:
            if member.state == TRACING and now - member.heard > silent:
                self._drop(member, f"silent for {silent:.0f} s")
            elif self._deadline and member.is_live and now > self._deadline:
                self._drop(member, "no answer at the end")
            else:
                member.ask_clock(self._between)

    def _handle_frame(self, member: Member, frame: Frame) -> None:
        if frame.kind == "hello":
            member.ask_clock(0.0)
            member.send_bytes(self._asking)
        elif frame.kind in ("ready", "started"):
            self._connecting.pop(member, None)

    def _adopt_shapes(self) -> None:
        """Leave out the hosts whose maps cannot be merged with those that most hosts have."""
        specs = {member: member.spec for member in self.members if member.state == READY and member.spec is not None}
        shapes = {spec: str([(m.name, m.value) for m in spec.maps]) for spec in set(specs.values())}
        common = Counter([shapes[spec] for spec in specs.values()])
        for member in sorted(specs, key=lambda member: -common[shapes[specs[member]]]):
            try:
                self.results.adopt_shape(member)
            except SondeError as error:
                self._drop(member, error.message)

    def _begin(self) -> None:
        """All that can be ready are: have them begin at one moment, each told by its own clock."""
        self._adopt_shapes()
        ready = [member for member in self.members if member.state == READY]
        if not ready:
            return
        slowest = max([member.clock.error for member in ready if member.clock.error < 1 << 61], default=0)
        ahead = AHEAD + len(ready) * _TELL_EACH
        self.started_at = time_ns() + int(ahead * 1e9) + 2 * slowest
        self._connecting = {member: monotonic() + READYING for member in ready}
        for member in ready:
            member.send("start", at=max(self.started_at + member.clock.offset, 0))

    def _take_told(self, member: Member, told: list[Told]) -> None:
        self.results.add_told(member, told)

    # what there is to say

    @property
    def is_ending(self) -> bool:
        """Whether the end was asked for, or has come."""
        return bool(self._deadline) or self.done

    @property
    def begun(self) -> bool:
        """Whether all hosts that can have begun to trace."""
        return bool(self.started_at) and not any(member.state == READY for member in self.members)

    @property
    def complete(self) -> list[Member]:
        """The hosts whose run is whole, or still goes on."""
        return [member for member in self.members if member.state in (ENDED, TRACING)]

    @property
    def missing(self) -> list[Member]:
        """The hosts that could not be reached, refused, or did not come to the end."""
        return [member for member in self.members if member.state == MISSING]

    @property
    def lost(self) -> int:
        """Events that were lost on all hosts."""
        return sum([member.lost for member in self.members])

    @property
    def seconds(self) -> float:
        """For how long was traced, up to now."""
        ended = max([member.seconds for member in self.members], default=0.0)
        return ended or max(0, time_ns() - self.started_at) / 1e9 if self.started_at else 0.0

    @property
    def clock_error(self) -> int:
        """Nanoseconds by which times of two hosts' events may be wrong: half of the longest of the shortest pings."""
        return max([member.clock.error for member in self.members if member.clock.error < 1 << 61], default=0)

    @property
    def status(self) -> int:
        """What exit() was called with on the first host that did."""
        return next((member.status for member in self.members if member.ending == "exit"), 0)

    def describe_state(self, most: int = 8) -> str:
        """Who is in the result, for how long, and what is missing, in a line."""
        parts = [f"{len(self.complete)} of {len(self.members)} host{'s' * (len(self.members) != 1)}"]
        if missing := self.describe_missing(most):
            parts.append(f"missing: {missing}")
        if not self.started_at:
            return "; ".join(parts)
        parts.append(f"window {self.seconds:.1f} s")
        if len(self.members) > 1:
            parts.append(f"clocks within {self.clock_error / 1e6:.1f} ms")
        parts.append(f"lost {self.lost} event{'s' * (self.lost != 1)}")
        return "; ".join(parts)

    def describe_missing(self, most: int) -> str:
        """The names and reasons of so many missing hosts, and how many more there are."""
        missing = self.missing
        named = ", ".join([f"{member.name} ({member.reason})" for member in missing[:most]])
        more = f" and {len(missing) - most} more" if len(missing) > most else ""
        return named + more

    def describe_losses(self) -> Iterator[str]:
        """A line for each thing that a host lost or has to say, and what came too late to be merged."""
        for member in self.members:
            yield from [f"{member.name}: {line}" for line in member.losses]
        for name, count in self.results.late.items():
            yield f"{name}: {count} print{'s' * (count != 1)} of maps came too late to be merged"
        if self.results.unordered:
            yield f"{self.results.unordered} line{'s' * (self.results.unordered != 1)} came late, out of order"
