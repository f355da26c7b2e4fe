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

import selectors
from collections import deque
from collections.abc import Sequence
from time import monotonic, sleep, time_ns

from ...errors import SondeError
from ..transport.connection import Transport
from ..transport.protocol import Frame
from ..transport.request import FleetRequest
from ..transport.shapes import ShapeReader
from .gathered import FleetState
from .log import BEGUN, DATA, POLLED, STOPPED, Log
from .member import COMPILING, CONNECTING, ENDED, READY, SILENT, TRACING, Member
from .results import HostEvent, MergedPrint

COLLECTING = 2.0   # s from the wish to end until what has not come is given up, beside those to say so
LEAVING = 1.0      # s that all agents have to end by themselves
READYING = 30.0    # s that a host has from the connection to being ready
OVERTIME = 5.0     # s after a run's own end that hosts have to say that they have ended, before they are asked to
AHEAD = 0.2        # s from now to the common beginning, at least
SILENCE = 10.0     # s without a word (and three windows) after which a host is not waited for
_GONE = 6          # times that: it is given up
_LOOK, _LOOK_EACH = 0.25, 5e-5  # s: so often deadlines and clocks are looked at, but rarer where hosts are many
_DEAF = 4          # looks that were not made
_FILES, _FILES_EACH = 256, 3  # descriptors that may be open
_FEW, _EACH = 50, 1e-5  # hosts from which on they are looked at together, and s of patience for each


class Fleet(FleetState):
    """``parallel``: so many connections are made at once; ``patience``: seconds that a connection may take."""

    def __init__(self, hosts: Sequence[str], request: FleetRequest, transport: Transport | None = None,
                 parallel: int = 64, patience: float = 10.0, by_host: bool = False, outliers: bool = False,
                 log: Log | None = None) -> None:
        super().__init__(hosts, request, by_host, outliers, log or Log())
        raise_file_limit(_FILES_EACH * len(hosts) + _FILES)
        self._transport = transport or Transport()
        self._parallel = parallel
        self._pending = deque(self.members)
        self._connecting: dict[Member, float] = {}  # until it has to be ready, and then until it has to have begun
        self._selector = selectors.EpollSelector()
        self._look = max(_LOOK, len(hosts) * _LOOK_EACH)
        self._looked = 0.0
        self._pause = min(len(hosts) * _EACH, _LOOK / 2) if len(hosts) > _FEW else 0.0
        self._between = max(self._transport.clock_pause, len(hosts) / 500)  # s between two looks at a host's clock
        self._round = len(hosts) * self._transport.message_seconds  # s to tell all of them something
        self._patience = patience + self._round
        self._asking = request.encode_frame()
        self._shapes = ShapeReader(request.source)
        self._deadline = 0.0     # of the end, once it was asked for
        self._readied = 0.0      # when a host has become ready last
        self._end_wanted = self._hurries = False
        self._closed = False

    # the loop

    def poll(self, timeout: float) -> list[HostEvent | MergedPrint]:
        """What is to be printed next, in order of time; [] after ``timeout`` seconds or at the end."""
        deadline = monotonic() + timeout
        self._wait(0)
        while True:
            self._advance()
            printed = self._take_printed(time_ns())
            left = deadline - monotonic()
            if printed or self.done or left <= 0:
                self.log.note(POLLED, self.now, self.done)
                return printed
            if self._wait(min(left, _LOOK)) and self.started_at and self._pause:
                sleep(self._pause)  # looking at all hosts for each that says something would cost their square
                self._wait(0)

    def fileno(self) -> int:
        return self._selector.fileno()

    def ask_end(self, at_once: bool = False) -> None:
        self._end_wanted, self._hurries = True, self._hurries or at_once

    def stop(self) -> None:
        """Have all hosts end and send what they have; after COLLECTING seconds it is over."""
        if self._deadline:
            return
        self.end_requested, self._deadline = True, monotonic() + COLLECTING + 2 * self._round
        self.log.note(STOPPED, time_ns())
        self._pending.clear()
        for member in self.members:
            if member.state in (TRACING, SILENT):
                member.send("stop")
            else:
                self._drop(member, "not begun when the end was asked for")

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.log.close(self.done)
        for member in self.members:
            self._drop(member, "the end")
        until = monotonic() + (0.0 if self._hurries else LEAVING)
        for member in self.members:
            member.release(until - monotonic())
        self._transport.close()
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
        now = time_ns()
        self.log.note(DATA, now, member.number, data)
        for frame in member.receive(data, self._shapes, now):
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
        super()._drop(member, reason)
        self._hang_up(member)

    # what happens when

    def _advance(self) -> None:
        """Connect, begin, give up, end: whatever it is time for."""
        if self._end_wanted or self._is_overdue():
            self.stop()
        if self._hurries:
            self._deadline = min(self._deadline, monotonic())
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
        self._end_if_over(now)

    def _is_overdue(self) -> bool:
        """Whether the run should have ended by itself: a host that goes on talking does not keep it."""
        seconds = self.request.seconds
        return bool(seconds and self.started_at) and \
            time_ns() > self.started_at + (seconds + OVERTIME + self._round) * 1e9

    def _end_if_over(self, now: float) -> None:
        """Nothing more will come. Who is silent is not waited for longer than for the others."""
        if any(member.is_live and member.state != SILENT for member in self.members):
            return
        if any(member.state == ENDED for member in self.members):
            for member in self.members:
                self._drop(member, _describe_silence(member, now))
        self.done = not any(member.is_live for member in self.members)

    def _connect(self, member: Member) -> None:
        member.heard = monotonic()
        try:
            connection = self._transport.connect(member.address, self._patience)
        except SondeError as error:
            member.leave(error.message)
            return
        except OSError as error:  # too many open files, or processes
            member.leave(f"from here: {error.strerror}")
            return
        member.connection = connection
        self._connecting[member] = monotonic() + self._patience + READYING
        self._selector.register(connection, selectors.EVENT_READ, member)
        self._watch(member)

    def _look_at_members(self, now: float) -> None:
        stuck = 0 < self._readied < now - self._patience and not self._pending  # the ready ones have waited long enough
        for member, until in list(self._connecting.items()):
            late = member.state == CONNECTING and now > until - READYING + self._patience
            if now > until or late or stuck and member.state in (CONNECTING, COMPILING):
                self._drop(member, f"timeout while {member.state}")
        silent = max(SILENCE, 3 * self.request.window) + self._round
        for member in self.members:
            if member.state == SILENT and now - member.heard > _GONE * silent:
                self._drop(member, _describe_silence(member, now))
            elif member.state == TRACING and now - member.heard > silent:
                member.fall_silent(_describe_silence(member, now))
            elif self._deadline and member.is_live and now > self._deadline:
                self._drop(member, "no answer at the end")
            else:
                member.ask_clock(self._between)

    def _handle_frame(self, member: Member, frame: Frame) -> None:
        if frame.kind == "hello":
            member.ask_clock(0.0)
            member.send_bytes(self._asking)
        elif frame.kind in ("ready", "started"):
            self._readied = monotonic()
            self._connecting.pop(member, None)

    def _begin(self) -> None:
        """All that can be ready are: have them begin at one moment, each told by its own clock."""
        self._adopt_shapes()
        ready = [member for member in self.members if member.state == READY]
        if not ready:
            return
        slowest = max([member.clock.error for member in ready if member.clock.error < 1 << 61], default=0)
        ahead = AHEAD + self._round
        self.started_at = time_ns() + int(ahead * 1e9) + 2 * slowest
        self.log.note(BEGUN, self.started_at)
        self._connecting = {member: monotonic() + READYING for member in ready}
        for member in ready:
            member.send("start", at=max(self.started_at + member.clock.offset, 0))


def _describe_silence(member: Member, now: float) -> str:
    return f"silent for {now - member.heard:.0f} s"


def raise_file_limit(wanted: int) -> None:
    """Let this process have so many descriptors, or as many as it may."""
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
