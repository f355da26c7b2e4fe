"""What a fleet's hosts have told so far, live or from a recording: the result, and who is in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Self

from ...errors import SondeError
from ..transport.hosts import fold_names, short_names
from ..transport.request import FleetRequest
from .log import Log
from .member import ENDED, READY, TRACING, Member
from .results import HostEvent, MergedPrint, Results

_LONGEST_NAMES = 200  # characters
_LATE = 1_000_000_000  # ns after the common beginning that are said


class FleetState:
    """A fleet as those see it who show it. Each :meth:`poll` takes in more, until it is ``done``; ``now`` is when the
    last one ended, in Unix nanoseconds. What decides about the result is told to the ``log``."""

    def __init__(self, hosts: Sequence[str], request: FleetRequest, by_host: bool, outliers: bool, log: Log) -> None:
        self.request = request
        self.log = log
        self.results = Results(by_host, outliers, request.columns, len(hosts))
        names = short_names(hosts)
        self.members = [Member(number, names[host], host, self.results.add_updates, log)
                        for number, host in enumerate(hosts)]
        self.started_at = 0     # Unix nanoseconds of the common beginning
        self.now = 0
        self.done = False       # nothing more can come
        self.end_requested = False  # by us

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def poll(self, timeout: float) -> list[HostEvent | MergedPrint]:
        """What is to be printed next, in order of time; [] after ``timeout`` seconds or at the end."""
        raise NotImplementedError

    def fileno(self) -> int:
        """A descriptor that is readable when there is something for :meth:`poll`; for event loops, which have to look
        each quarter of a second beside that."""
        raise NotImplementedError

    def ask_end(self, at_once: bool = False) -> None:
        """Have :meth:`poll` stop everything, from a signal's handler or another thread; ``at_once``: wait for nobody.
        """
        raise NotImplementedError

    def stop(self) -> None:
        """Have the run end; what is left still comes."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of everything; harmless twice."""
        raise NotImplementedError

    def _take_printed(self, now: int) -> list[HostEvent | MergedPrint]:
        self.now = now
        return list(self.results.take_printed(self.members, now, self.done))

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

    def _drop(self, member: Member, reason: str) -> None:
        """A host that is not waited for any longer."""
        member.leave(reason)

    # what there is to say

    @property
    def is_ending(self) -> bool:
        """Whether the end was asked for, or has come."""
        return self.end_requested or self.done

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
        """The hosts that could not be reached, refused, did not come to the end, or say nothing at present."""
        return [member for member in self.members if member.is_absent]

    @property
    def lost(self) -> int:
        """Events that were lost on all hosts."""
        return sum([member.lost for member in self.members])

    @property
    def seconds(self) -> float:
        """For how long was traced, up to now."""
        ended = max([member.seconds for member in self.members], default=0.0)
        return ended or max(0, self.now - self.started_at) / 1e9 if self.started_at else 0.0

    @property
    def clock_error(self) -> int:
        """Nanoseconds by which times of two hosts' events may be wrong: half of the longest of the shortest pings."""
        return max([member.clock.error for member in self.members if member.clock.error < 1 << 61], default=0)

    @property
    def reason(self) -> str:
        """Why the first host ended that did; "" if none has."""
        return next((member.ending for member in self.members if member.ending), "")

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
        """The names and reasons of the missing hosts, so many reasons at most, and how many hosts more there are."""
        groups = group_by_reason(self.missing)
        named = ", ".join([f"{names} ({reason})" for names, reason, _ in groups[:most]])
        left = sum([count for _, _, count in groups[most:]])
        return named + (f" and {left} more" if left else "")

    def describe_losses(self) -> Iterator[str]:
        """A line for each thing that a host lost or has to say, for who began late, and for what came too late to be
        merged."""
        late = [(member.began - self.started_at, member.name) for member in self.members
                if member.began > self.started_at + _LATE]
        if late:
            longest, name = max(late)
            yield f"{len(late)} host{'s' * (len(late) != 1)} began late, {name} by {longest / 1e9:.1f} s"
        for member in self.members:
            yield from [f"{member.name}: {line}" for line in member.losses]
        for name, count in self.results.late.items():
            yield f"{name}: {count} print{'s' * (count != 1)} of maps came too late to be merged"
        if self.results.unordered:
            yield f"{self.results.unordered} line{'s' * (self.results.unordered != 1)} came late, out of order"


def group_by_reason(members: Sequence[Member]) -> list[tuple[str, str, int]]:
    """(names, the reason of the first, how many) of the hosts that are missing for the same reason."""
    groups: dict[str, list[Member]] = {}
    for member in members:
        groups.setdefault(member.cause, []).append(member)
    return [(_name_all([member.name for member in group]), group[0].reason, len(group)) for group in groups.values()]


def _name_all(names: Sequence[str]) -> str:
    text = ", ".join(fold_names(names))
    return text if len(text) <= _LONGEST_NAMES else f"{names[0]} and {len(names) - 1} more"
