"""What a fleet's hosts have told, merged: maps as they stand, and what is printed, in one order of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from ...base.record import Record
from ...merge.delta import Delta
from ...merge.distance import distance_name, rank_sources
from ...merge.portable import PortableError, decode_value
from ...merge.table import KeyTexts, SourceKeys, Table, describe_value, require_equal
from ...output.table_rows import RowCell
from ...runtime.records.events import Event
from ...spec import EventSite, MapSpec, ScriptSpec
from ...types import Aggregate, Str, Tuple, Type
from ..transport.protocol import ProtocolError
from .member import AT_END, ENDED, TRACING, HostUpdate, Member
from .rows import read_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...runtime.records.values import Item, ScriptValue

PATIENCE = 2_000_000_000   # ns that a merged print waits for hosts that are late
MOST_TURNS = 1000          # merged prints that wait at once
MOST_WAITING = 1 << 26     # bytes of printed lines that wait for their turn
_EVENT = 400               # bytes of an event beside its texts


class HostEvent(Event):
    """An event of one host (``host`` is "" for a line that ``begin`` or ``end`` printed on all); ``time`` is Unix
    nanoseconds by the coordinator's clock, ``text`` what it printed. Where rows of a tool were asked for, ``cells`` are
    those of a row, and ``heading`` the names in a heading."""

    host: str
    text: bytes
    cells: tuple[RowCell, ...] = ()
    heading: tuple[str, ...] = ()


class MergedPrint(Record):
    """A print(@map) of all hosts: the map's ``name``, its merged pairs, the names of the ``hosts`` that are in it, and
    how many there were that could have been (``of``)."""

    site: EventSite
    name: str
    time: int
    hosts: frozenset[str]
    of: int
    pairs: list[Item]
    incomplete: bool


class _Turn:
    """The n-th print() of a map at one site of the script, on all hosts."""

    def __init__(self, table: Table, name: str, site: int, number: int) -> None:
        self.table = table
        self.name = name
        self.site = site
        self.number = number
        self.time = 0          # of the last host's
        self.first = 1 << 63   # of the first one's: its position
        self.is_printed = False
        self.hosts: set[str] = set()
        self.incomplete = False


class _Heading:
    """A line that ``begin`` or ``end`` prints: said once if all hosts say the same."""

    def __init__(self, probe: str) -> None:
        self.probe = probe
        self.events: dict[str, HostEvent] = {}  # by host
        self.time = 1 << 63  # the earliest
        self.is_printed = False


class Results:
    """``by_host`` keeps hosts apart; ``outliers`` keeps them apart beside the whole. ``columns``: lines of a tool's
    table come as rows."""

    def __init__(self, by_host: bool = False, outliers: bool = False, columns: Sequence[str] = (),
                 hosts: int = 1) -> None:
        self._hosts = hosts
        self._columns = frozenset(name for column in columns for name in column.split(":"))
        self.spec: ScriptSpec | None = None  # of the first host that was ready; the others' have to fit
        self.by_host = by_host
        self._first = ""
        self._tables: dict[str, Table] = {}
        self._apart: dict[str, Table] = {}
        self._keeps_apart = outliers
        self._texts: dict[str, KeyTexts] = {}
        self._incomplete: set[str] = set()
        self._turns: dict[tuple[int, int], _Turn] = {}
        self._latest: dict[tuple[str, int], int] = {}  # by host and site: its last turn
        self._printed: dict[int, int] = {}  # by site: the last turn that was printed
        self._heap: list[tuple[int, int, HostEvent | _Turn | _Heading, int]] = []  # time, which of that, what, bytes
        self._count = 0
        self._headings: dict[tuple[bytes, int], _Heading] = {}  # by text, and how often it was said before
        self._repeats: Counter[tuple[str, bytes]] = Counter()      # by host and text
        self._waiting_bytes = 0
        self.unordered = 0   # lines that came too late for their position
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
                self._tables[named.name] = Table(_aggregate_of(named), self.by_host)
                self._texts[named.name] = KeyTexts(self._hosts)
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

    def add_updates(self, member: Member, updates: Sequence[HostUpdate]) -> None:
        """Take in what a host tells at once: events, or pieces of maps. SondeError for what makes no sense; then
        nothing of the maps is added."""
        pieces: dict[str, list[HostUpdate]] = {}
        for each in updates:
            if each.frame.kind == "events":
                self._add_events(member, each)
            else:
                pieces.setdefault(each.frame["map"], []).append(each)
        counts = False
        try:
            if pieces and updates[0].frame["site"] != AT_END:
                self._add_printed(member, updates)
            else:
                self._add_window(member, updates, pieces)
            counts = True
        finally:
            for name in pieces.keys() & self._texts.keys():
                member.keys_of(name, self._texts[name]).settle_texts(counts)

    def _add_window(self, member: Member, updates: Sequence[HostUpdate], pieces: dict[str, list[HostUpdate]]) -> None:
        """What changed in maps: all is checked before anything is added."""
        checked = [self._check_map(member, name, parts) for name, parts in pieces.items()]
        for deltas in checked:
            for table, known, delta, values in deltas:
                table.add_checked(member.name, known, delta, values)
        self._incomplete.update([each.frame["map"] for each in updates if each.frame.fields.get("incomplete")])

    def _check_map(self, member: Member, name: str, updates: Sequence[HostUpdate]
                   ) -> list[tuple[Table, SourceKeys, Delta, list[ScriptValue]]]:
        """What is to be added of a map; MergeError if it makes no sense."""
        known, deltas = self._learn_keys(member, name, updates)
        tables = [self._tables[name], *([self._apart[name]] if name in self._apart else [])]
        return [(table, known, delta, values) for table in tables
                for delta, values in zip(deltas, table.check_deltas(member.name, known, deltas))]

    def _learn_keys(self, member: Member, name: str, updates: Sequence[HostUpdate]) -> tuple[SourceKeys, list[Delta]]:
        """The keys of a map as the host numbers them, with those that it tells now, and what else it tells."""
        assert member.spec is not None
        if name not in self._tables or name not in [m.name for m in member.spec.maps]:
            raise ProtocolError(f"there is no map {name[:40]!r}")
        known = member.keys_of(name, self._texts[name])
        deltas = [each.delta for each in updates if each.delta is not None]
        for delta in deltas:
            known.learn_texts(delta.keys)
        return known, deltas

    def _add_printed(self, member: Member, updates: Sequence[HostUpdate]) -> None:
        """The pieces of a print()."""
        frame, wall = updates[0].frame, updates[0].wall
        name, number, site = frame["map"], frame["turn"], frame["site"]
        if any((each.frame["map"], each.frame["turn"], each.frame["site"]) != (name, number, site) for each in updates):
            raise ProtocolError("pieces of different prints")
        known, deltas = self._learn_keys(member, name, updates)
        assert self.spec is not None
        if not 0 <= site < len(self.spec.sites) or self.spec.sites[site].data.get("map") != name:
            raise ProtocolError(f"a print of {name} at a place where there is none")
        if number - self._latest.get((member.name, site), -1) != 1:
            raise ProtocolError(f"print {number} of {name} out of turn")
        self._latest[member.name, site] = number
        turn = self._turns.get((site, number))
        if number <= self._printed.get(site, -1) or turn is None and len(self._turns) >= MOST_TURNS:
            self.late[member.name] = self.late.get(member.name, 0) + 1
            return
        if turn is None:
            table = Table(_aggregate_of(self.spec.find_map(name)), self.by_host)
            turn = self._turns[site, number] = _Turn(table, name, site, number)
        values = turn.table.check_deltas(member.name, known, deltas)
        if wall < turn.first:
            turn.first = wall
            self._push(wall, turn)  # the entry before is skipped, as it is printed by then
        for delta, plain in zip(deltas, values):
            turn.table.add_checked(member.name, known, delta, plain)
        turn.hosts.add(member.name)
        turn.time = max(turn.time, wall)
        turn.incomplete |= any(each.frame["incomplete"] for each in updates)

    def _add_events(self, member: Member, update: HostUpdate) -> None:
        frame = update.frame
        spec = member.spec
        assert spec is not None
        for wall, site_index, probe, text, value in zip(*map(frame.numbers_at, range(3)), frame.texts_at(3),
                                                        frame.texts_at(5)):
            if site_index >= len(spec.sites):
                raise ProtocolError("an event of a place that the script does not have")
            site = spec.sites[site_index]
            name = spec.probes[probe] if probe < len(spec.probes) else ""
            rows = bool(self._columns) and site.kind == "printf"
            event = HostEvent(site.kind, () if rows else _event_args(site, value), name, member.clock.ours(wall),
                              site_index, host=member.name, text=text)
            if rows and value:
                event.heading, event.cells = read_row(value, {column.name for column in site.columns} or self._columns)
            size = _EVENT + len(text) + len(value)
            if name in ("begin", "end") and len(self._headings) < MOST_TURNS:
                self._add_heading(event, size)
            else:
                self._push(event.time, event, size)

    def _add_heading(self, event: HostEvent, size: int) -> None:
        text = event.probe.encode("utf-8", "surrogateescape") + b"\0" + event.text
        self._repeats[event.host, text] += 1
        heading = self._headings.setdefault((text, self._repeats[event.host, text]), _Heading(event.probe))
        if heading.is_printed:
            self._push(event.time, event, size)
            return
        heading.events[event.host] = event
        if event.time < heading.time:
            heading.time = event.time
            self._push(event.time, heading, size)  # its position; the entry before is skipped, as it is printed by then

    def _push(self, time: int, item: HostEvent | _Turn | _Heading, size: int = 0) -> None:
        self._count += 1
        self._waiting_bytes += size
        heappush(self._heap, (time, self._count, item, size))

    # giving out

    def take_printed(self, members: Sequence[Member], now: int, end: bool = False) -> Iterator[HostEvent | MergedPrint]:
        """What is to be printed now, in order of time: what is older than all that may yet come. ``now`` in Unix
        nanoseconds: who has said nothing for so long as PATIENCE is not waited for. At the ``end`` everything."""
        if not self._heap:
            return
        tracing = [member for member in members if member.state == TRACING]
        certain = min([max(member.until, now - PATIENCE) for member in tracing], default=now)
        while self._heap:
            time, _, item, size = self._heap[0]
            ripe = time <= certain and (time <= now - 2 * PATIENCE or self._is_complete(item, tracing))
            if not (ripe or end or self._waiting_bytes > MOST_WAITING):
                return
            heappop(self._heap)
            self._waiting_bytes -= size
            if not isinstance(item, HostEvent) and item.is_printed:
                continue
            if isinstance(item, _Turn):
                yield self._finish_turn(item, members)
                continue
            self.unordered += time < self._last
            self._last = max(self._last, time)
            yield from self._finish_heading(item, members) if isinstance(item, _Heading) else [item]

    def _is_complete(self, item: HostEvent | _Turn | _Heading, tracing: Sequence[Member]) -> bool:
        """Whether no host has anything to add to it."""
        if isinstance(item, _Turn):
            return all(self._latest.get((member.name, item.site), -1) >= item.number for member in tracing)
        return isinstance(item, HostEvent) or all(
            member.name in item.events or item.probe == "begin" and member.windows for member in tracing)

    def _finish_heading(self, heading: _Heading, members: Sequence[Member]) -> list[HostEvent]:
        """The line of all hosts, or each host's own."""
        events = list(heading.events.values())
        heading.is_printed = True
        present = {member.name for member in members if member.state in (TRACING, ENDED)}
        if present <= heading.events.keys():
            events[0].host = ""
            return events[:1]
        return events

    def _finish_turn(self, turn: _Turn, members: Sequence[Member]) -> MergedPrint:
        assert self.spec is not None
        turn.is_printed = True
        del self._turns[turn.site, turn.number]
        self._printed[turn.site] = max(turn.number, self._printed.get(turn.site, -1))
        begun = sum([member.spec is not None and member.until > 0 for member in members])
        return MergedPrint(self.spec.sites[turn.site], turn.name, turn.time, frozenset(turn.hosts), begun,
                           turn.table.items(), turn.incomplete)

    # reading

    def pairs_of(self, name: str) -> list[Item]:
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
        parts: dict[str, dict[ScriptValue, list[int]]] = {}
        for key, words in table.words():
            host, rest = (key[0], key[1:]) if type(key) is tuple else (key, ())
            parts.setdefault(str(host), {})[rest] = words
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
                   labels=("host", *["" if label == "host" else label for label in labels]), about=named.about)


def _event_args(site: EventSite, value: bytes) -> tuple[ScriptValue, ...]:
    """The arguments of an event, where they were sent."""
    if not value:
        return ()
    args = decode_value(value)
    if site.kind == "print":
        return (args,)
    if type(args) is not tuple:
        raise PortableError("arguments that are none")
    return args

