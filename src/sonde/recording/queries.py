"""A second script over the events of a recording: ``sonde replay trace.sonde -e '...'``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from sys import byteorder

from .. import types as t
from ..arch import NAMES as ARCHITECTURES
from ..base.memory_budget import Memory
from ..base.words import MASK, read_word
from ..compiler.pipeline import compile_checked
from ..compiling import check_source
from ..errors import CompileError, UsageError
from ..kernel.types.btf_world import BtfWorld
from ..kernel.types.tracefs import parse_format
from ..kinds import SITE_KINDS
from ..runtime.losses import Losses
from ..runtime.maps.access import RawItem
from ..runtime.maps.merge import apply_signs
from ..runtime.records.batch import Records
from ..semantics.script_options import Options
from ..semantics.typed import CheckedProbe, CheckedScript
from ..source import Source
from ..spec import ErrorSite, MapSpec, ScriptSpec, TracepointFormat
from ..types import Aggregate, Type
from .bpf_machine import ELEMENT, no_room
from .column_expressions import UnanswerableError
from .column_loops import Loop, ScriptWriter, rows_of
from .columns import BlockOfRecords, Leaf, read_column
from .container import RecordingError
from .events import RecordedEvent, read_events, tracepoint_names
from .execution import (
    Execution,
    check_cpu,
    check_names,
    check_results,
    records_of,
    refuse_other_probes,
)
from .names import RecordedNames
from .replay import Recording, ReplaySession, ReplayTrace, open_recording, reporting_damage
from .snapshots import ItemReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

SECOND = 10 ** 9  # ns
LEAST_CPUS = 8  # that are assumed where a script asks for the CPU
_FEATURES = ("ringbuf", "map_mmap", "isa_v4", "bpf_loop", "for_each_map_elem", "long_keys",
             "map_lookup_percpu_elem", "spilled_bounds")


class EventsWorld(BtfWorld):
    """A machine that has the tracepoints of a recording, and nothing else."""

    def __init__(self, recording: Recording, events: Sequence[RecordedEvent]) -> None:
        facts = recording.facts
        if facts.machine not in ARCHITECTURES:
            raise RecordingError("its machine is of no known architecture")
        super().__init__("", facts.machine, facts.kernel)
        self.cpus = 1
        self._formats = dict(zip(tracepoint_names(events), [event.format for event in events]))

    def _open_btf(self) -> None:
        return None

    def has_feature(self, name: str) -> bool:
        """What the compiler may assume where nothing is loaded."""
        return name in _FEATURES

    def tracepoints(self) -> list[tuple[str, str]]:
        return list(self._formats)

    def raw_tracepoints(self) -> list[tuple[str, str]]:
        return []

    def tracepoint_format(self, category: str, event: str) -> TracepointFormat | None:
        text = self._formats.get((category, event))
        return parse_format(text, category, event, self) if text is not None else None


# A key in the generated code: None for a map without keys; with several parts, or a bucket after it, a tuple.
Key: TypeAlias = "int | bytes | tuple[Key, ...] | None"


class Question:
    """A script that loops over columns can answer, prepared. UnanswerableError for any other; ``room`` limits the bytes
    of its maps."""

    status: int | None = None  # it never calls exit()

    def __init__(self, recording: Recording, events: Mapping[str, RecordedEvent], checked: CheckedScript,
                 spec: ScriptSpec, cpus: int, room: int) -> None:
        self.spec = spec
        self._cpus = cpus
        self._recording = recording
        self._writer = writer = ScriptWriter(checked, spec)
        clauses: dict[str, list[tuple[CheckedProbe, str]]] = {}
        for probe in checked.probes:
            for attach in probe.attach:
                clauses.setdefault(attach.name if attach.kind == "tracepoint" else attach.kind, []).append(
                    (probe, attach.name))
        self.points = sum(map(len, clauses.values()))
        steps = {name: writer.write_step(events.get(name), probes) for name, probes in clauses.items()}
        self._events = {events[name].site: (events[name], step) for name, step in steps.items() if name in events}
        self._own = {name: writer.compile_own(step) for name, step in steps.items() if name not in events}
        self._loops: dict[tuple[int, ...], Loop] = {}  # by the sites that a block has records of
        self._states: list[dict[Key, Any]] = [{} for _ in writer.states.used]
        self._failed = [0] * len(spec.errors)
        self._sent: list[bytes] = []
        self._room = room
        self.maps = {named.name: AnswerMap(self, named) for named in spec.maps if named.value is not None}
        for site in self._events:
            self._loop((site,))

    def run(self) -> Iterator[Records]:
        """Run it; what it sends, block by block."""
        yield from self._run_own("begin")
        for portion in self._recording.portions():
            if portion.records is not None:
                self._take_block(portion.records)
                self._recording.context.moment = portion.records.last_time() or self._recording.context.moment
                yield self._take_sent()
        if not self._recording.truncated:
            yield from self._run_own("end")

    def _run_own(self, kind: str) -> Iterator[Records]:
        if kind in self._own:
            for _ in self._own[kind](self._recording.context.moment, self._failed, self._sent.append, *self._states):
                yield self._take_sent()
            yield self._take_sent()

    def _take_sent(self) -> Records:
        sent, self._sent[:] = self._sent[:], []
        return records_of(sent)

    def _loop(self, sites: tuple[int, ...]) -> Loop:
        if sites not in self._loops:
            self._loops[sites] = self._writer.compile_loop([self._events[site][1] for site in sites])
        return self._loops[sites]

    def _take_block(self, block: BlockOfRecords) -> None:
        """Evaluate the script over a block of records."""
        rows = {}
        for site, count, leaves, packed in block.site_columns():
            if site in self._events:
                rows[site] = self._rows(site, count, leaves, packed)
        given = (self._failed, self._sent.append, *self._states)
        if len(rows) > 1 and self._writer.states.ordered:
            sites = tuple(rows)
            index_of = [sites.index(site) if site in rows else -1 for site, _ in block.sites]
            self._loop(sites)(map(index_of.__getitem__, block.order), *rows.values(), *given)
        else:
            for site, each in rows.items():
                self._loop((site,))(each, *given)
        if ELEMENT * sum(map(len, self._states)) > self._room:
            raise no_room()

    def _rows(self, site: int, count: int, leaves: Sequence[Leaf], packed: Sequence[bytes]) \
            -> Iterator[tuple[Any, ...]]:
        event, step = self._events[site]
        names = list(event.fields)
        indices = [2 + names.index(name) for name in step.columns]  # after the probe and the time
        columns = {name: read_column(leaves[column], packed[column], count, event.fields[name])
                   for name, column in zip(step.columns, indices)}
        if "cpu" in columns:
            check_cpu(int(max(columns["cpu"])), self._cpus)
        return rows_of(list(columns.values()), count)

    def failures(self) -> list[tuple[ErrorSite, int]]:
        """How often what failed."""
        return [(site, count) for site, count in zip(self.spec.errors, self._failed) if count]

    def empty_map(self, name: str, kind: str) -> None:
        """clear() a map; it is never called for zero()."""
        self.maps[name].clear()

    def state_of(self, name: str, part: int = 0) -> dict[Key, Any]:
        """A map's dictionary; an empty one if nothing fills it."""
        used = self._writer.states.used
        return self._states[used.index((name, part))] if (name, part) in used else {}


class AnswerMap:
    """A map of a question, which is read like the kernel's. UsageError if it has more keys than it may have."""

    def __init__(self, question: Question, named: MapSpec) -> None:
        self.spec = named
        self._first, self._second = [question.state_of(named.name, part) for part in (0, 1)]

    def items(self) -> list[RawItem]:
        named, value, first = self.spec, self.spec.value, self._first
        items: list[RawItem]
        if not isinstance(value, Aggregate):
            items = [(_pack_key(named, key), _pack(value, number)) for key, number in first.items()] if value else []
        elif value.row.buckets:
            items = [(_pack_key(named, key), tuple(counts)) for key, counts in _gather_buckets(value, first).items()]
        else:
            words = [_words(value, key, first, self._second) for key in first]
            items = [*zip([_pack_key(named, key) for key in first], apply_signs(value, words))]
        if len(items) > named.max_entries:
            raise UsageError(f"{named.name} has {len(items)} keys, more than max_map_keys allows",
                             hints=[f"config = {{ max_map_keys = {1 << len(items).bit_length()} }}"])
        return items

    def read_and_clear(self) -> list[RawItem]:
        """The items; the map is empty afterwards."""
        items = self.items()
        self.clear()
        return items

    def clear(self) -> None:
        self._first.clear()
        self._second.clear()


def _gather_buckets(aggregate: Aggregate, counts: dict[Key, int]) -> dict[Key, list[int]]:
    buckets: dict[Key, list[int]] = {}
    for pair, count in counts.items():
        assert isinstance(pair, tuple)
        key, bucket = pair
        assert isinstance(bucket, int)
        buckets.setdefault(key, [0] * aggregate.words)[bucket] += count
    return buckets


def _words(aggregate: Aggregate, key: Key, first: dict[Key, int], second: dict[Key, int]) -> tuple[int, ...]:
    """An element's state, as read from the kernel."""
    if not aggregate.row.additive:
        return (read_word(first[key], aggregate.signed), 1)
    return (first[key] & MASK, second[key] & MASK) if aggregate.row.words == 2 else (first[key] & MASK,)


def _pack_key(named: MapSpec, key: Key) -> bytes:
    return _pack(named.key, key) if named.key is not None else b""


def _pack(type: Type, value: Key) -> bytes:
    if isinstance(value, tuple):
        assert isinstance(type, t.Tuple)
        packed = bytearray(type.size)
        for part, offset, each in zip(type.of, type.offsets, value):
            packed[offset:offset + part.size] = _pack(part, each)
        return bytes(packed)
    if isinstance(value, bytes):
        return value[:type.size].ljust(type.size, b"\0")
    return (int(value or 0) & (1 << 8 * type.size) - 1).to_bytes(type.size, byteorder)


def ask(recording: Recording, source: Source, options: Options, room: int) -> Question | Execution:
    """A script, prepared to query a recording: by loops over its columns if they suffice, which is faster; else event
    by event. CompileError, UsageError where it cannot be answered."""
    options.timed = True
    events = {event.name: event for event in read_events(recording.facts.events, recording.spec)}
    world = EventsWorld(recording, list(events.values()))
    try:
        checked = check_source(source, options, world)
    except CompileError:
        refuse_other_probes(source, list(events))
        raise
    check_names(checked, events)
    if any("cpu" in probe.facts.names for probe in checked.probes):
        world.cpus = max(LEAST_CPUS, 2 * recording.facts.cpus)
    spec = compile_checked(checked, world)
    check_results(spec)
    try:
        return Question(recording, events, checked, spec, world.cpus, room)
    except UnanswerableError:
        pass
    forms = {}
    for (category, name), event in zip(tracepoint_names(list(events.values())), events.values()):
        format = world.tracepoint_format(category, name)
        if format is None:
            raise RecordingError("its events are none")
        forms[event.name] = format
    return Execution(recording, checked, spec, events, forms, world.cpus, room)


class _AnsweringSession(ReplaySession):
    """The session of a script that runs over a recording: losses are the recording's and its own."""

    def __init__(self, recording: Recording, question: Question | Execution) -> None:
        super().__init__(recording)
        self._question = question
        self.attached = question.points

    def losses(self) -> Losses:
        losses = super().losses()
        values = dict(zip(losses._fields, losses.values()))
        return Losses(**values | {"errors": [*losses.errors, *self._question.failures()]})

    @property
    def reason(self) -> str:
        return "exit" if self._question.status is not None else super().reason

    @property
    def status(self) -> int:
        return self._question.status if self._question.status is not None else super().status


class AnsweringTrace(ReplayTrace):
    """The trace of a question: its maps fill as the recording is read."""

    def __init__(self, recording: Recording, source: Source, options: Options, memory: Memory | None = None) -> None:
        super().__init__(recording, memory)
        with reporting_damage(recording.name):
            self.question = question = ask(recording, source, options, self.memory.total // 2)
        self.source, self.spec = source, question.spec
        self._context = self._names = RecordedNames(self.spec, recording.facts.clocks, self.memory.total // 2)
        self._names.moment = recording.facts.time
        self._next_sample = recording.facts.time + SECOND
        self._replayed = _AnsweringSession(recording, question)
        self._session = self._replayed  # type: ignore[assignment]
        self._bind_reader()
        self._reader = ItemReader(question.maps, self.context)  # type: ignore[arg-type]
        self._runs = question.run()

    def knows_map(self, name: str) -> bool:
        return True  # it fills the maps itself

    def next_records(self, timeout: float | None = None) -> Records:
        with reporting_damage(self.recording.name):
            records = next(self._runs, None)
        self._replayed.done = records is None
        if records is None and self.recording.truncated:
            self._bind_reader()  # what the maps would hold is not known
        self._timed(records or Records())
        self._look()
        return records or Records()

    def _look(self) -> None:
        """Show the maps to a view that draws them over time, once per second of the recording."""
        moment = self._names.moment = self.recording.context.moment
        if self._on_sample is not None and moment >= self._next_sample:
            self._on_sample()
            self._next_sample = moment + SECOND

    def act_on_site(self, site: int) -> None:
        """Carry out a clear() or zero()."""
        spec = self.spec.sites[site]
        if SITE_KINDS[spec.kind].empties:
            named = self.question.maps[spec.data["map"]].spec
            for name in [named.name, named.short] if named.short else [named.name]:
                self.question.empty_map(name, spec.kind)


def open_question(path: str, source: Source, options: Options, memory: Memory | None = None) -> AnsweringTrace:
    """A script that queries the recording in a file. RecordingError if the file is none; CompileError, UsageError if it
    cannot answer the script."""
    recording = open_recording(path, memory)
    try:
        return AnsweringTrace(recording, source, options, memory)
    except BaseException:
        recording.close()
        raise
