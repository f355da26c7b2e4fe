"""What a fleet's hosts have told, merged: maps as they stand, and what is printed, in one order of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Any

from ..merge.delta import Delta
from ..merge.distance import distance_name, rank_sources
from ..merge.portable import PortableError, decode_value
from ..merge.table import KeyTexts, SourceKeys, Table, describe_value, require_equal
from ..record import Record
from ..runtime.events import Event
from ..spec import EventSite, MapSpec, ScriptSpec
from ..types import Aggregate, Str, Tuple, Type
from .member import AT_END, ENDED, TRACING, Member, Told
from .protocol import ProtocolError, unpack_texts

PATIENCE = 2_000_000_000   # ns that a merged print waits for hosts that are late
MOST_TURNS = 1000          # merged prints that wait at once
MOST_WAITING = 1 << 26     # bytes of printed lines that wait for their turn
_EVENT = 400               # bytes of an event beside its texts


class HostEvent(Event):
    """An event of one host (``host`` is "" for a line that ``begin`` printed on all); ``time`` is nanoseconds since
    1970 by the coordinator's clock, ``text`` what it printed."""

    host: str
    text: bytes


class MergedPrint(Record):
    """A print(@map) of all hosts: the map's ``name``, its merged pairs, and how many ``hosts`` are in it."""

    site: EventSite
    name: str
    time: int
    hosts: int
    pairs: list[tuple[Any, Any]]
    incomplete: bool


class _Turn:
    """The n-th print() of a map at one place of the script, on all hosts."""

    def __init__(self, table: Table, name: str, place: int, number: int) -> None:
        self.table = table
        self.name = name
        self.place = place
        self.number = number
        self.time = 0
        self.hosts: set[str] = set()
        self.incomplete = False


class _Heading:
    """A line that ``begin`` prints: said once if all hosts say the same."""

    def __init__(self) -> None:
        self.events: dict[str, HostEvent] = {}  # by host
        self.time = 1 << 63  # the earliest
        self.said = False


class Results:
    """``by_host`` keeps hosts apart; ``outliers`` keeps them apart beside the whole."""

    def __init__(self, by_host: bool = False, outliers: bool = False) -> None:
        self.spec: ScriptSpec | None = None  # of the first host that was ready; the others' have to fit
        self._by_host = by_host
        self._first = ""
        self._tables: dict[str, Table] = {}
        self._apart: dict[str, Table] = {}
        self._keeps_apart = outliers
        self._texts: dict[str, KeyTexts] = {}
        self._incomplete: set[str] = set()
        self._turns: dict[tuple[int, int], _Turn] = {}
        self._latest: dict[tuple[str, int], int] = {}  # by host and place: its last turn
        self._printed: dict[int, int] = {}  # by place: the last turn that was printed
        self._heap: list[tuple[int, int, HostEvent | _Turn | _Heading, int]] = []  # time, which of that, what, bytes
        self._count = 0
        self._headings: dict[tuple[bytes, int], _Heading] = {}  # by text, and how often it was said before
        self._said: Counter[tuple[str, bytes]] = Counter()      # by host and text
        self._waiting_bytes = 0
        self.unordered = 0   # lines that came too late for their place
        self._last = 0
        self.late: dict[str, int] = {}  # by host: contributions to prints that had been printed without it

    # taking in

    def adopt_shape(self, member: Member) -> None:
        """A host is ready: MergeError, naming both, if its maps cannot be merged with those of the first."""
        spec = member.spec
        assert spec is not None
        if self.spec is None:
            self.spec, self._first = spec, member.name
            for named in spec.maps:
                self._tables[named.name] = Table(_aggregate_of(named), self._by_host)
                self._texts[named.name] = KeyTexts()
                if self._keeps_apart and _aggregate_of(named) is not None:
                    self._apart[named.name] = Table(_aggregate_of(named), True)
            return
        known = {named.name: named for named in self.spec.maps}
        for named in spec.maps:
            if named.name not in known:
                raise ProtocolError(f"a map {named.name}, which {self._first} does not have")
            first = known[named.name]
            require_equal(named.name, (self._first, _aggregate_of(first)), (member.name, _aggregate_of(named)),
                          describe_value)

    def add_told(self, member: Member, told: Told) -> None:
        """Take in what a host tells. SondeError for what makes no sense."""
        if told.frame.kind == "events":
            self._add_events(member, told)
        elif told.frame.kind == "map":
            self._add_map(member, told)

    def _add_map(self, member: Member, told: Told) -> None:
        name, frame, delta = told.frame["map"], told.frame, told.delta
        assert delta is not None and member.spec is not None
        if name not in self._tables or name not in [m.name for m in member.spec.maps]:
            raise ProtocolError(f"there is no map {name[:40]!r}")
        known = member.keys_of(name, self._texts[name])
        known.learn_texts(delta.keys)
        if frame["site"] == AT_END:
            self._tables[name].add_delta(member.name, known, delta)
            if name in self._apart:
                self._apart[name].add_delta(member.name, known, delta)
            self._incomplete |= {name} if frame["incomplete"] else set()
        else:
            self._add_printed(member, told, name, known, delta)

    def _add_printed(self, member: Member, told: Told, name: str, known: SourceKeys, delta: Delta) -> None:
        number, place = told.frame["turn"], told.frame["site"]
        assert self.spec is not None
        if not 0 <= place < len(self.spec.sites) or self.spec.sites[place].data.get("map") != name:
            raise ProtocolError(f"a print of {name} at a place where there is none")
        if not 0 <= number - self._latest.get((member.name, place), -1) <= 1:
            raise ProtocolError(f"print {number} of {name} out of turn")
        self._latest[member.name, place] = number
        turn = self._turns.get((place, number))
        if number <= self._printed.get(place, -1) or turn is None and len(self._turns) >= MOST_TURNS:
            self.late[member.name] = self.late.get(member.name, 0) + 1
            return
        if turn is None:
            table = Table(_aggregate_of(self.spec.find_map(name)), self._by_host)
            turn = self._turns[place, number] = _Turn(table, name, place, number)
            self._push(told.wall, turn)
        turn.table.add_delta(member.name, known, delta)
        turn.hosts.add(member.name)
        turn.time = max(turn.time, told.wall)
        turn.incomplete |= told.frame["incomplete"]

    def _add_events(self, member: Member, told: Told) -> None:
        walls, sites, probes, *texts = told.frame.columns
        spec = member.spec
        assert spec is not None
        for wall, place, probe, text, value in zip(walls, sites, probes, unpack_texts(*texts[:2]),
                                                   unpack_texts(*texts[2:])):
            if place >= len(spec.sites):
                raise ProtocolError("an event of a place that the script does not have")
            site = spec.sites[place]
            name = spec.probes[probe] if probe < len(spec.probes) else ""
            event = HostEvent(site.kind, _event_args(site, value), name, member.clock.ours(wall), place,
                              host=member.name, text=text)
            size = _EVENT + len(text) + len(value)
            if name.lower() == "begin" and len(self._headings) < MOST_TURNS:
                self._add_heading(event, size)
            else:
                self._push(event.time, event, size)

    def _add_heading(self, event: HostEvent, size: int) -> None:
        self._said[event.host, event.text] += 1
        heading = self._headings.setdefault((event.text, self._said[event.host, event.text]), _Heading())
        if heading.said:
            self._push(event.time, event, size)
            return
        heading.events[event.host] = event
        if event.time < heading.time:
            heading.time = event.time
            self._push(event.time, heading, size)  # its place; where it stood before, it will have been said

    def _push(self, time: int, item: HostEvent | _Turn | _Heading, size: int = 0) -> None:
        self._count += 1
        self._waiting_bytes += size
        heappush(self._heap, (time, self._count, item, size))

    # giving out

    def take_printed(self, members: Sequence[Member], now: int, end: bool = False) -> Iterator[HostEvent | MergedPrint]:
        """What is to be printed now, in order of time: what is older than all that may yet come. ``now`` in Unix
        nanoseconds: who has said nothing for so long as PATIENCE is not waited for. At the ``end`` everything."""
        tracing = [member for member in members if member.state == TRACING]
        certain = min([max(member.until, now - PATIENCE) for member in tracing], default=now)
        while self._heap:
            time, _, item, size = self._heap[0]
            ripe = time <= certain and (time <= now - 2 * PATIENCE or self._is_complete(item, tracing))
            if not (ripe or end or self._waiting_bytes > MOST_WAITING):
                return
            heappop(self._heap)
            self._waiting_bytes -= size
            if isinstance(item, _Turn):
                yield self._finish_turn(item)
                continue
            self.unordered += time < self._last
            self._last = max(self._last, time)
            yield from self._finish_heading(item, members) if isinstance(item, _Heading) else [item]

    def _is_complete(self, item: HostEvent | _Turn | _Heading, tracing: Sequence[Member]) -> bool:
        """Whether no host has anything to add to it."""
        if isinstance(item, _Turn):
            return all(self._latest.get((member.name, item.place), -1) >= item.number for member in tracing)
        return isinstance(item, HostEvent) or all(member.windows or member.name in item.events for member in tracing)

    def _finish_heading(self, heading: _Heading, members: Sequence[Member]) -> list[HostEvent]:
        """The line of all hosts, or each host's own; nothing if it has been said."""
        events = [] if heading.said else list(heading.events.values())
        heading.said = True
        present = {member.name for member in members if member.state in (TRACING, ENDED)}
        if events and present <= heading.events.keys():
            events[0].host = ""
            return events[:1]
        return events

    def _finish_turn(self, turn: _Turn) -> MergedPrint:
        assert self.spec is not None
        del self._turns[turn.place, turn.number]
        self._printed[turn.place] = max(turn.number, self._printed.get(turn.place, -1))
        return MergedPrint(self.spec.sites[turn.place], turn.name, turn.time, len(turn.hosts), turn.table.items(),
                           turn.incomplete)

    # reading

    def pairs_of(self, name: str) -> list[tuple[Any, Any]]:
        """A map's merged pairs as they stand."""
        return self._tables[name].items()

    def is_incomplete(self, name: str) -> bool:
        """Whether a budget kept back events of the map on any host."""
        return name in self._incomplete

    def rank_hosts(self, name: str) -> tuple[str, list[tuple[str, float]]]:
        """(name of the distance, the hosts by how far they are from the rest); nothing for what has no distribution."""
        table = self._apart.get(name)
        if table is None or not distance_name(table.aggregate):
            return "", []
        parts: dict[str, dict[Any, list[int]]] = {}
        for key, words in table.words():
            host, rest = (key[0], key[1:]) if type(key) is tuple else (key, ())
            parts.setdefault(host, {})[rest] = words
        assert table.aggregate is not None
        return distance_name(table.aggregate), rank_sources(table.aggregate, parts)


def _aggregate_of(named: MapSpec) -> Aggregate | None:
    return named.value if isinstance(named.value, Aggregate) else None


def merged_spec(spec: ScriptSpec, by_host: bool) -> ScriptSpec:
    """The script as its merged maps are: with the host among the keys where hosts are kept apart."""
    maps = [_with_host(m) if by_host or _aggregate_of(m) is None else m for m in spec.maps]
    return ScriptSpec([], maps, spec.sites, [], spec.probes, [], spec.config, spec.source)


def _with_host(named: MapSpec) -> MapSpec:
    own: tuple[Type, ...] = ()
    if named.key is not None and not named.memory:
        own = named.key.of if isinstance(named.key, Tuple) and not named.key.names else (named.key,)
    labels = named.labels if len(named.labels) == len(own) else ("",) * len(own)
    return MapSpec(named.name, named.type, 0, 0, 0, key=Tuple((Str(64), *own)) if own else Str(64), value=named.value,
                   labels=("host", *labels))


def _event_args(site: EventSite, value: bytes) -> tuple[Any, ...]:
    """The arguments of an event, where they were sent."""
    if not value:
        return ()
    found = decode_value(value)
    if site.kind == "print":
        return (found,)
    if type(found) is not tuple:
        raise PortableError("arguments that are none")
    return found

