"""A second script over the events of a recording: ``sonde replay trace.sonde -e '...'``."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from sys import byteorder
from typing import Any

from .. import types as t
from ..api import check_source, compile
from ..kernel.recorded import BtfWorld
from ..kernel.tracefs import parse_format
from ..language.source import Source
from ..memory import Memory
from ..runtime.batch import Records
from ..runtime.maps import Item
from ..runtime.merge import apply_signs, to_signed
from ..semantics.options import Options
from ..spec import MapSpec, TracepointFormat
from ..types import Aggregate, Type
from .columns import NUMBER, BlockOfRecords, Leaf, unpack_numbers, unpack_texts
from .container import Damaged
from .evaluate import ClauseWriter, Loop, Refused
from .events import RecordedEvent, read_events, tracepoint_names
from .names import RecordedNames
from .replay import Recording, ReplayTrace, Sound, open_recording
from .snapshots import Snapshot

_CODES = {(1, False): "B", (1, True): "b", (2, False): "H", (2, True): "h", (4, False): "I", (4, True): "i",
          (8, False): "Q", (8, True): "q"}
_MASK = (1 << 64) - 1


class EventsWorld(BtfWorld):
    """A machine that has the tracepoints of a recording, and nothing else."""

    def __init__(self, recording: Recording, events: Sequence[RecordedEvent]) -> None:
        facts = recording.facts
        super().__init__("", str(facts.get("machine", "x86_64")), str(facts.get("kernel", "")))
        self.cpus = 1
        self._formats = dict(zip(tracepoint_names(events), [event.format for event in events]))

    def _open_btf(self) -> None:
        return None

    def has_feature(self, name: str) -> bool:
        """What the compiler may take for granted where nothing is loaded."""
        return name in ("raw_tp", "ringbuf", "map_mmap", "isa_v4")

    def tracepoints(self) -> list[tuple[str, str]]:
        return list(self._formats)

    def raw_tracepoints(self) -> list[tuple[str, str]]:
        return []

    def tracepoint_format(self, category: str, event: str) -> TracepointFormat | None:
        text = self._formats.get((category, event))
        return parse_format(text, category, event, self) if text is not None else None


class Question:
    """A script, made ready to be asked of a recording. CompileError, UsageError where it cannot be answered."""

    def __init__(self, recording: Recording, source: Source, options: Options) -> None:
        self._events = {event.name: event for event in read_events(recording.facts.get("events"), recording.spec)}
        world = EventsWorld(recording, list(self._events.values()))
        checked = check_source(source, options, world)
        self.spec = compile(source, options, world)
        self._loops: list[tuple[RecordedEvent, ClauseWriter, Loop]] = []
        for probe in checked.probes:
            for point in probe.clause.points:
                if any(letter in point.text for letter in "*?["):
                    raise Refused(point, "patterns: it has only some of the events that may match")
            for attach in probe.attach:
                if attach.name not in self._events:
                    raise Refused(probe.clause, f"{attach.name}, which it does not have")
                writer = ClauseWriter(self._events[attach.name], checked.maps)
                self._loops.append((self._events[attach.name], writer, writer.write(probe.clause)))
        self.points = len(self._loops)
        self._states: dict[tuple[str, int], dict[Any, int]] = {}

    def take_block(self, block: BlockOfRecords) -> None:
        """Evaluate the script over a block of records."""
        for site, count, leaves, packed in block.site_columns():
            columns: dict[str, Sequence[Any]] = {}
            for event, writer, loop in self._loops:
                if event.site != site:
                    continue
                for name in writer.columns:
                    if name not in columns:
                        place = 2 + list(event.fields).index(name)  # behind the probe and the time
                        columns[name] = _read_column(leaves[place], packed[place], count, event.fields[name])
                states = [self._states.setdefault(state, {}) for state in writer.states]
                loop(count, *[columns[name] for name in writer.columns], *states)

    def snapshots(self) -> dict[str, Snapshot]:
        """What the maps hold now. Refused if one has more keys than it could have."""
        return {named.name: Snapshot(self._items(named)) for named in self.spec.maps}

    def _items(self, named: MapSpec) -> list[Item]:
        first = self._states.get((named.name, 0), {})
        value = named.value
        found: list[Item]
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


def _read_column(leaf: Leaf, packed: bytes, count: int, type: Type) -> Sequence[Any]:
    if leaf.kind == NUMBER:
        code = _CODES[leaf.size, bool(getattr(type, "signed", False))]
        return array(code, unpack_numbers(packed, leaf.size, count))
    texts, indices = unpack_texts(packed, leaf.size, count)
    return list(map(texts.__getitem__, indices))


def _gather_buckets(aggregate: Aggregate, counts: dict[Any, int]) -> dict[Any, list[int]]:
    found: dict[Any, list[int]] = {}
    for (key, bucket), count in counts.items():
        found.setdefault(key, [0] * aggregate.words)[bucket] += count
    return found


def _words(aggregate: Aggregate, key: Any, first: dict[Any, int], second: dict[Any, int]) -> tuple[int, ...]:
    """An element's state, as it is read from the kernel."""
    if aggregate.kind in ("min", "max"):
        return (to_signed(first[key]) if aggregate.signed else first[key], 1)
    return (first[key] & _MASK, second[key] & _MASK) if aggregate.kind in ("avg", "stats") else (first[key] & _MASK,)


def _pack_key(named: MapSpec, key: Any) -> bytes:
    if key is None or named.key is None:
        return b""
    return _pack(named.key, key if isinstance(named.key, t.Tuple) else key[0])


def _pack(type: Type, value: Any) -> bytes:
    if isinstance(type, t.Tuple):
        found = bytearray(type.size)
        for part, offset, each in zip(type.of, type.offsets, value):
            found[offset:offset + part.size] = _pack(part, each)
        return bytes(found)
    if isinstance(value, bytes):
        return value[:type.size].ljust(type.size, b"\0")
    return (int(value) & (1 << 8 * type.size) - 1).to_bytes(type.size, byteorder)


class AnsweringTrace(ReplayTrace):
    """The trace of a question: its maps fill as the recording is read."""

    def __init__(self, recording: Recording, source: Source, options: Options) -> None:
        super().__init__(recording)
        with Sound(recording.name):
            self.question = Question(recording, source, options)
        self.source, self.spec = source, self.question.spec
        self._context = RecordedNames(self.spec, recording.facts["clocks"], self.memory.total // 2)
        self._replayed.attached = self.question.points
        self._bind_reader()

    def next_records(self, timeout: float | None = None) -> Records:
        with Sound(self.recording.name):
            for portion in self.recording.portions():
                if portion.records is not None:
                    self.question.take_block(portion.records)
            self._replayed.held = self.question.snapshots()
        self._replayed.done = True
        return Records()


def open_question(path: str, source: Source, options: Options, memory: Memory | None = None) -> AnsweringTrace:
    """A script, asked of the recording in a file. Damaged if it is none; CompileError, UsageError if it cannot be
    answered."""
    recording = open_recording(path, memory)
    try:
        return AnsweringTrace(recording, source, options)
    except BaseException:
        recording.close()
        raise
