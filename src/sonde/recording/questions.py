"""A second script over the events of a recording: ``sonde replay trace.sonde -e '...'``."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from sys import byteorder

from .. import types as t
from ..compiler.pipeline import compile_checked
from ..compiling import check_source
from ..kernel.recorded import BtfWorld
from ..kernel.tracefs import parse_format
from ..memory import Memory
from ..runtime.batch import Records
from ..runtime.losses import Losses
from ..runtime.maps import RawItem
from ..runtime.merge import apply_signs, to_signed
from ..semantics.options import Options
from ..semantics.typed import CheckedScript
from ..source import Source
from ..spec import MapSpec, ScriptSpec, TracepointFormat
from ..types import Aggregate, Type
from .columns import NUMBER, BlockOfRecords, Leaf, unpack_numbers, unpack_texts
from .container import Damaged
from .evaluate import ClauseWriter, Loop, Refused
from .events import RecordedEvent, read_events, tracepoint_names
from .execution import Execution, check_names, uses_builtin
from .names import RecordedNames
from .replay import Recording, ReplaySession, ReplayTrace, Sound, open_recording
from .snapshots import ItemReader, MapSnapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

_CODES = {(1, False): "B", (1, True): "b", (2, False): "H", (2, True): "h", (4, False): "I", (4, True): "i",
          (8, False): "Q", (8, True): "q"}
_MASK = (1 << 64) - 1
SECOND = 10 ** 9  # ns
LEAST_CPUS = 8  # that are reckoned with where a script asks for the CPU
_FEATURES = ("ringbuf", "map_mmap", "isa_v4", "bpf_loop", "for_each_map_elem", "long_keys",
             "map_lookup_percpu_elem", "spilled_bounds")


class EventsWorld(BtfWorld):
    """A machine that has the tracepoints of a recording, and nothing else."""

    def __init__(self, recording: Recording, events: Sequence[RecordedEvent]) -> None:
        facts = recording.facts
        super().__init__("", facts.machine, facts.kernel)
        self.cpus = 1
        self._formats = dict(zip(tracepoint_names(events), [event.format for event in events]))

    def _open_btf(self) -> None:
        return None

    def has_feature(self, name: str) -> bool:
        """What the compiler may take for granted where nothing is loaded."""
        return name in _FEATURES

    def tracepoints(self) -> list[tuple[str, str]]:
        return list(self._formats)

    def raw_tracepoints(self) -> list[tuple[str, str]]:
        return []

    def tracepoint_format(self, category: str, event: str) -> TracepointFormat | None:
        text = self._formats.get((category, event))
        return parse_format(text, category, event, self) if text is not None else None


# What the generated code has of a key; of one of several parts, and with a bucket behind it, a tuple.
Key: TypeAlias = "int | bytes | tuple[Key, ...] | None"


class Question:
    """A script that columns can answer, made ready. Refused for any other."""

    spec: ScriptSpec  # what is made of it for the kernel: its maps

    def __init__(self, events: Mapping[str, RecordedEvent], checked: CheckedScript) -> None:
        self._loops: list[tuple[RecordedEvent, ClauseWriter, Loop]] = []
        for probe in checked.probes:
            for attach in probe.attach:
                if attach.name not in events:
                    raise Refused(probe.clause.span, f"{attach.name}, which it does not have")
                writer = ClauseWriter(events[attach.name], checked.maps)
                self._loops.append((events[attach.name], writer, writer.write(probe.clause)))
        self.points = len(self._loops)
        self._states: dict[tuple[str, int], dict[Key, int]] = {}

    def take_block(self, block: BlockOfRecords) -> None:
        """Evaluate the script over a block of records."""
        for site, count, leaves, packed in block.site_columns():
            columns: dict[str, array[int] | list[bytes]] = {}
            for event, writer, loop in self._loops:
                if event.site != site:
                    continue
                for name in writer.columns:
                    if name not in columns:
                        place = 2 + list(event.fields).index(name)  # behind the probe and the time
                        columns[name] = _read_column(leaves[place], packed[place], count, event.fields[name])
                states = [self._states.setdefault(state, {}) for state in writer.states]
                loop(count, *[columns[name] for name in writer.columns], *states)

    def snapshots(self) -> dict[str, MapSnapshot]:
        """What the maps hold now. Refused if one has more keys than it could have."""
        return {named.name: MapSnapshot(self._items(named)) for named in self.spec.maps}

    def _items(self, named: MapSpec) -> list[RawItem]:
        first = self._states.get((named.name, 0), {})
        value = named.value
        found: list[RawItem]
        if not isinstance(value, Aggregate):
            found = [(_pack_key(named, key), _pack(value, number)) for key, number in first.items()] if value else []
        elif value.kind in ("hist", "lhist"):
            found = [(_pack_key(named, key), tuple(counts)) for key, counts in _gather_buckets(value, first).items()]
        else:
            words = [_words(value, key, first, self._states.get((named.name, 1), {})) for key in first]
            found = [*zip([_pack_key(named, key) for key in first], apply_signs(value, words))]
        if len(found) > named.max_entries:
            raise Damaged(f"{named.name} has {len(found)} keys, more than max_map_keys allows",
                          hints=[f"config = {{ max_map_keys = {1 << len(found).bit_length()} }}"])
        return found


def _read_column(leaf: Leaf, packed: bytes, count: int, type: Type) -> array[int] | list[bytes]:
    if leaf.kind == NUMBER:
        code = _CODES[leaf.size, bool(getattr(type, "signed", False))]
        return array(code, unpack_numbers(packed, leaf.size, count))
    texts, indices = unpack_texts(packed, leaf.size, count)
    return list(map(texts.__getitem__, indices))


def _gather_buckets(aggregate: Aggregate, counts: dict[Key, int]) -> dict[Key, list[int]]:
    found: dict[Key, list[int]] = {}
    for pair, count in counts.items():
        assert isinstance(pair, tuple)
        key, bucket = pair
        assert isinstance(bucket, int)
        found.setdefault(key, [0] * aggregate.words)[bucket] += count
    return found


def _words(aggregate: Aggregate, key: Key, first: dict[Key, int], second: dict[Key, int]) -> tuple[int, ...]:
    """An element's state, as it is read from the kernel."""
    if aggregate.kind in ("min", "max"):
        return (to_signed(first[key]) if aggregate.signed else first[key], 1)
    return (first[key] & _MASK, second[key] & _MASK) if aggregate.kind in ("avg", "stats") else (first[key] & _MASK,)


def _pack_key(named: MapSpec, key: Key) -> bytes:
    if named.key is None or not isinstance(key, tuple):
        return b""
    return _pack(named.key, key if isinstance(named.key, t.Tuple) else key[0])


def _pack(type: Type, value: Key) -> bytes:
    if isinstance(value, tuple):
        assert isinstance(type, t.Tuple)
        found = bytearray(type.size)
        for part, offset, each in zip(type.of, type.offsets, value):
            found[offset:offset + part.size] = _pack(part, each)
        return bytes(found)
    if isinstance(value, bytes):
        return value[:type.size].ljust(type.size, b"\0")
    return (int(value or 0) & (1 << 8 * type.size) - 1).to_bytes(type.size, byteorder)


def ask(recording: Recording, source: Source, options: Options, room: int, stepwise: bool) -> Question | Execution:
    """A script, made ready to be asked of a recording: over its columns if they will do, which is faster; else, and if
    its maps are to be seen on the way (``stepwise``), event by event. CompileError, UsageError where it cannot be
    answered."""
    options.timed = True
    events = {event.name: event for event in read_events(recording.facts.events, recording.spec)}
    world = EventsWorld(recording, list(events.values()))
    checked = check_source(source, options, world)
    check_names(checked, events)
    if uses_builtin(checked, "cpu"):
        world.cpus = max(LEAST_CPUS, 2 * recording.facts.cpus)
    try:
        question = None if stepwise else Question(events, checked)
    except Refused:
        question = None
    spec = compile_checked(checked, world)
    if question is not None:
        question.spec = spec
        return question
    forms = {}
    for (category, name), event in zip(tracepoint_names(list(events.values())), events.values()):
        found = world.tracepoint_format(category, name)
        if found is None:
            raise Damaged("its events are none")
        forms[event.name] = found
    return Execution(recording, checked, spec, events, forms, world.cpus, room, _read_column)


class _AnsweringSession(ReplaySession):
    """What a session tells, of a script that runs over a recording: losses are the recording's and its own."""

    execution: Execution | None = None

    def losses(self) -> Losses:
        found = super().losses()
        if self.execution is None:
            return found
        values = dict(zip(found._fields, found.values()))
        return Losses(**values | {"errors": [*found.errors, *self.execution.machine.failures()]})

    @property
    def reason(self) -> str:
        return "exit" if self._own_status is not None else super().reason

    @property
    def status(self) -> int:
        return self._own_status if self._own_status is not None else super().status

    @property
    def _own_status(self) -> int | None:
        return self.execution.status if self.execution is not None else None


class AnsweringTrace(ReplayTrace):
    """The trace of a question: its maps fill as the recording is read."""

    def __init__(self, recording: Recording, source: Source, options: Options, memory: Memory | None = None,
                 stepwise: bool = False) -> None:
        super().__init__(recording, memory)
        with Sound(recording.name):
            self.question = ask(recording, source, options, self.memory.total // 2, stepwise)
        self.source, self.spec = source, self.question.spec
        self._context = self._names = RecordedNames(self.spec, recording.facts.clocks, self.memory.total // 2)
        self._names.moment = recording.facts.time
        self._next_sample = recording.facts.time + SECOND
        self._replayed = session = _AnsweringSession(recording)
        self._session = session  # type: ignore[assignment]
        session.attached = self.question.points
        self._bind_reader()
        if isinstance(self.question, Execution):
            session.execution = self.question
            self._reader = ItemReader(self.question.machine.maps, self.context)
            self._runs = self.question.run()

    def next_records(self, timeout: float | None = None) -> Records:
        if isinstance(self.question, Execution):
            with Sound(self.recording.name):
                found = next(self._runs, None)
            self._replayed.done = found is None
            if found is None and self.recording.truncated:
                self._bind_reader()  # what the maps would hold, nobody knows
            self._timed(found or Records())
            self._look()
            return found or Records()
        with Sound(self.recording.name):
            for portion in self.recording.portions():
                if portion.records is not None:
                    self.question.take_block(portion.records)
            self._replayed.held = self.question.snapshots() if not self.recording.truncated else {}
        self._replayed.done = True
        return Records()

    def _look(self) -> None:
        """Let who draws maps over time see them, once in a second of the recording."""
        moment = self._names.moment = self.recording.context.moment
        if self._on_sample is not None and moment >= self._next_sample:
            self._on_sample()
            self._next_sample = moment + SECOND

    def act_on_site(self, site: int) -> None:
        """Carry out a clear() or zero()."""
        if isinstance(self.question, Execution):
            spec = self.spec.sites[site]
            if spec.kind in ("clear", "zero"):
                named = self.question.machine.maps[spec.data["map"]]
                for each in [named, self.question.machine.maps[named.spec.short]] if named.spec.short else [named]:
                    each.clear() if spec.kind == "clear" else each.zero()


def open_question(path: str, source: Source, options: Options, memory: Memory | None = None,
                  stepwise: bool = False) -> AnsweringTrace:
    """A script, asked of the recording in a file. Damaged if it is none; CompileError, UsageError if it cannot be
    answered."""
    recording = open_recording(path, memory)
    try:
        return AnsweringTrace(recording, source, options, memory, stepwise)
    except BaseException:
        recording.close()
        raise
