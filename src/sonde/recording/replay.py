"""The reading side: a recording as a trace whose events have already happened.

:class:`ReplayTrace` has the face of :class:`sonde.api.Trace`: what prints, draws or exports a run does it with a
recording in the same way. It asks the kernel nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from sys import byteorder
from typing import TYPE_CHECKING, Any, BinaryIO

from ..api import Trace
from ..ending import Ending
from ..errors import AttachError, SondeError
from ..memory import Memory
from ..output.outside import Outside
from ..record import Record
from ..runtime.batch import Raw, Records
from ..runtime.events import EventDecoder
from ..runtime.losses import Losses, Withheld
from ..runtime.maps import Item
from ..runtime.provenance import Provenance
from ..semantics.options import Options
from ..spec import MapSpec, ScriptSpec
from .columns import BlockOfRecords
from .container import Damaged, read_blocks
from .layouts import read_spec
from .names import RecordedNames
from .snapshots import ItemReader, Snapshot, SnapshotReader, read_json, split_head

if TYPE_CHECKING:
    from ..runtime.events import Event

SAMPLE, ASKED, FINAL = "sample", "asked", "final"
_CLOCKS = ("boot", "monotonic", "tai")
_DONE_ROOM = 64 << 20  # bytes of results for one record


class Portion(Record):
    """What the recording has next: ``records``, with the ``maps`` and ``results`` of the last of them; or a look at
    maps, and ``why``."""

    maps: dict[str, Snapshot]
    results: list[tuple[str, dict[str, Any], bytes]]
    records: BlockOfRecords | None = None
    why: str = ""
    time: int = 0


class Recording:
    """A recording's file: the head is read when this is made, the rest portion by portion.

    ``facts`` are the head's; ``end`` those of the last block, None before it has been read. ``truncated`` says that the
    file ends before its end: then nothing was changed, but something is missing.
    """

    def __init__(self, file: BinaryIO, name: str, memory: Memory | None = None) -> None:
        self.name = name
        self._file = file
        self._blocks = read_blocks(file, name)
        memory = memory or Memory()
        tag, data = next(self._blocks, (b"", b""))
        self.facts: dict[str, Any] = read_json(data) if tag == b"HEAD" else {}
        if not isinstance(self.facts, dict) or not self.facts:
            raise Damaged(f"{name} ends before its head", truncated=not tag)
        if self.facts.get("byteorder") != byteorder:
            raise Damaged(f"{name} was recorded on a machine of another byte order")
        with Sound(name):
            self._check_facts()
            self.spec = read_spec(self.facts.get("spec"))
            self.context = RecordedNames(self.spec, self.facts["clocks"], memory.total // 2)
            self.context.moment = self.facts["time"]
        self._snapshots = SnapshotReader(self.spec, memory.total)
        self.end: dict[str, Any] | None = None
        self.truncated = False

    def _check_facts(self) -> None:
        facts = self.facts
        clocks = facts.get("clocks")
        if not isinstance(clocks, dict) or not all(type(clocks.get(clock)) is int and abs(clocks[clock]) < 1 << 63
                                                   for clock in _CLOCKS):
            raise Damaged("its clocks are none")
        for name, form in (("time", int), ("attached", int), ("tool", str), ("columns", list), ("title", str),
                           ("unit", str), ("host", str), ("kernel", str), ("missing", list), ("warnings", list)):
            if type(facts.get(name)) is not form:
                raise Damaged(f"its head has no {name}")
        if not all(isinstance(text, str) for name in ("columns", "warnings") for text in facts[name]):
            raise Damaged("its head has other things than texts")
        if not all(isinstance(each, list) and list(map(type, each)) == [str, list] for each in facts["missing"]):
            raise Damaged("its head has other things than what could not be attached")

    def portions(self) -> Iterator[Portion]:
        """What the run handed over, in order. Damaged where the file was changed."""
        with Sound(self.name):
            try:
                yield from self._portions()
            except Damaged as error:
                if not error.truncated:
                    raise
                self.truncated = True

    def _portions(self) -> Iterator[Portion]:
        results: list[tuple[str, dict[str, Any], bytes]] = []
        for tag, data in self._blocks:
            if self.end is not None:
                raise Damaged("something comes after its end")
            if tag == b"NAME":
                self.context.learn(read_json(data))
            elif tag == b"MAPS":
                self._snapshots.add_block(data)
            elif tag == b"DONE":
                results.append(_read_result(data))
                if sum(len(output) for _, _, output in results) > _DONE_ROOM:
                    raise Damaged("a record has more results than it can have")
            elif tag == b"RECS":
                yield Portion(self._snapshots.take(), results, BlockOfRecords(self.spec, data))
                results = []
            elif tag == b"LOOK":
                look = read_json(data)
                if not isinstance(look, dict) or look.get("why") not in (SAMPLE, ASKED, FINAL) \
                        or type(look.get("time")) is not int or not 0 <= look["time"] < 1 << 63:
                    raise Damaged("a look is none")
                self.context.moment = look["time"]
                yield Portion(self._snapshots.take(), results, why=look["why"], time=look["time"])
            elif tag == b"END ":
                self.end = _read_end(self.spec, read_json(data))
            else:
                raise Damaged("it has a block of no known kind")
        self.truncated = self.end is None

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Sound:
    """What is read within this is from a file that anybody may have made: whatever else goes wrong is its fault."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Damaged):
            if not error.message.startswith(self._name):
                raise Damaged(f"{self._name} is damaged: {error.message}", error.truncated, error.hints) from None
        elif isinstance(error, ArithmeticError | AssertionError | AttributeError | LookupError | RecursionError
                        | RuntimeError | StopIteration | TypeError | ValueError | MemoryError):
            raise Damaged(f"{self._name} is damaged: {type(error).__name__}") from error


def _read_result(data: bytes) -> tuple[str, dict[str, Any], bytes]:
    head, output = split_head(data)
    growth = head.get("growth", [])
    if head.get("kind") not in ("cat", "system", "nstat") or type(head.get("errno", 0)) is not int \
            or not isinstance(head.get("error", ""), str) or not isinstance(growth, list) \
            or not all(isinstance(pair, list) and list(map(type, pair)) == [str, int] for pair in growth):
        raise Damaged("a result is none")
    return head["kind"], head, output


def _read_end(spec: ScriptSpec, plain: Any) -> dict[str, Any]:
    """The last block: ``losses`` (Losses), ``run`` (Provenance), ``reason``, ``status``, ``left_out``."""
    run = plain["run"]
    forms = {"command": str, "host": str, "kernel": str, "started": int, "seconds": float, "lost": list}
    if {name: type(run[name]) for name in forms} != forms or not all(isinstance(text, str) for text in run["lost"]) \
            or type(plain["status"]) is not int or type(plain["left_out"]) is not int \
            or not isinstance(plain["reason"], str) or abs(run["started"]) >= 1 << 63:
        raise Damaged("its end is not sound")
    return {"losses": _read_losses(spec, plain["losses"]), "run": Provenance(**{name: run[name] for name in forms}),
            "reason": plain["reason"], "status": plain["status"] & 255, "left_out": plain["left_out"]}


def _read_losses(spec: ScriptSpec, plain: Any) -> Losses:
    kept = plain["withheld"]
    if kept is not None:
        numbers = [kept["share"], *[kept[name] for name in ("detached_ns", "traced_ns", "spent_ns")]]
        if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
            raise Damaged("its budget is none")
        kept = Withheld(numbers[0], _counts(kept["events"]), numbers[1], numbers[2], numbers[3],
                        _counts(kept["dropped"]))
    errors = [(spec.errors[_number(index)], _number(count)) for index, count in plain["errors"]]
    return Losses(_counts(plain["records"]), errors, _counts(plain["skipped"]), withheld=kept,
                  unplaced=_counts(plain.get("unplaced", [])), unnamed=_counts(plain.get("unnamed", [])),
                  **{name: _number(plain.get(name, 0)) for name in ("late", "short", "unseen", "early", "unknown")})


def _counts(plain: Any) -> list[tuple[str, int]]:
    if not all(isinstance(name, str) for name, _ in plain):
        raise Damaged("its losses are none")
    return [(name, _number(count)) for name, count in plain]


def _number(plain: Any) -> int:
    if type(plain) is not int or plain < 0:
        raise Damaged("its losses are none")
    return plain


# As a trace ---------------------------------------------------------------------------------------------------------

class ReplaySession:
    """What a session tells, of a run that is over. ``held`` are the maps as they were when what is being handled
    happened."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._portions = recording.portions()
        self.held: dict[str, Snapshot] = {}
        self.results: list[tuple[str, dict[str, Any], bytes]] = []
        self.done = self.asked = False
        self.attached: int = recording.facts["attached"]
        self.warnings = [AttachError(str(message), "", hints=list(map(str, hints)))
                         for message, hints in recording.facts["missing"]]
        self.pinned: list[str] = []
        self.detaching = 0
        self.is_holding = False
        self.sampled = False  # maps were looked at, that a view may want to see
        self.tell: Callable[[str], object] = str

    def poll(self, timeout: float | None = None) -> Records:
        """The next records; none where something else happened, or at the end."""
        portion = next(self._portions, None)
        self.sampled = False
        if portion is None:
            self.done = True
            if self.recording.truncated:
                self.held = {}
            return Records()
        self.held, self.results = portion.maps, portion.results
        self.asked, self.sampled = portion.why == ASKED, portion.why == SAMPLE
        return Records([portion.records.records()] if portion.records is not None else [])

    def is_incomplete(self, name: str) -> bool:
        """Whether a budget kept back events of a map, when it was looked at."""
        return name in self.held and self.held[name].incomplete

    def losses(self) -> Losses:
        """What was lost; nothing, as long as the end has not been read."""
        end = self.recording.end
        return end["losses"] if end is not None else Losses([], [], [])

    @property
    def reason(self) -> str:
        """Why the run ended; "truncated" if the file does not tell."""
        return str(self.recording.end["reason"]) if self.recording.end is not None else "truncated"

    @property
    def status(self) -> int:
        """The run's exit status."""
        return int(self.recording.end["status"]) if self.recording.end is not None else 1

    def request_end(self, reason: str) -> None:
        """Read no further."""
        self.done = True


class _RecordedMap:
    """A map as it was at the moment that is being handled."""

    def __init__(self, spec: MapSpec, session: ReplaySession) -> None:
        self.spec = spec
        self._session = session

    def items(self) -> list[Item]:
        held = self._session.held.get(self.spec.name)
        if held is None and not self._session.recording.truncated:
            raise Damaged(f"{self._session.recording.name} does not have what {self.spec.name} held at this moment")
        return held.items if held is not None else []

    def read_and_clear(self) -> list[Item]:
        return self.items()

    def zero(self) -> None:
        """It happened."""


class _RecordedOutside(Outside):
    """What the run got from its machine. Nothing is read, run or written here."""

    def __init__(self, session: ReplaySession) -> None:
        self._session = session

    def read_file(self, path: bytes, limit: int) -> bytes:
        for _, head, output in self._take("cat"):
            _raise_recorded(head)
            return output
        raise OSError(2, "its contents are not in the recording")

    def may_run(self, ending: Ending) -> bool:
        return any(kind == "system" for kind, _, _ in self._session.results)

    def run_command(self, command: bytes, show: Callable[[bytes, bool], object], ending: Ending) -> None:
        for _, head, output in self._take("system"):
            _raise_recorded(head)
            show(output, head.get("more") is True)

    def network_growth(self) -> Callable[[], Sequence[tuple[str, int]]]:
        return lambda: [(name, count) for _, head, _ in self._take("nstat") for name, count in head.get("growth", [])]

    def open_packets(self, path: str) -> Any:
        return _NoPackets()

    def _take(self, kind: str) -> list[tuple[str, dict[str, Any], bytes]]:
        return [each for each in self._session.results if each[0] == kind]


class _NoPackets:
    """The run has written its packets."""

    def write(self, time: int, packet: bytes, length: int) -> None:
        """Once is enough."""


def _raise_recorded(head: dict[str, Any]) -> None:
    if "error" in head:
        raise OSError(head.get("errno", 0), head["error"]) if head.get("errno") else ValueError(head["error"])


class ReplayTrace(Trace):
    """A recording, as a trace to look at: ``events()``, ``maps``, ``losses``, ``provenance`` and tables are the run's.
    Maps have what they held at the event that came last."""

    def __init__(self, recording: Recording, memory: Memory | None = None) -> None:
        self.recording = recording
        self.spec = recording.spec
        assert self.spec.source is not None
        self.source = self.spec.source
        self.options = Options()
        self.process = None
        self.ending = Ending()
        self.retried = None
        self.memory = memory or Memory()
        self.words: Sequence[str] = ()
        self.keeps_maps = True
        self._on_sample: Callable[[], object] | None = None
        self._final: dict[str, Any] = {}
        self._incomplete: set[str] = set()
        self._losses = None
        self._context = recording.context
        self._replayed = ReplaySession(recording)
        self._session = self._replayed  # type: ignore[assignment]
        self.outside = _RecordedOutside(self._replayed)
        self._bind_reader()

    def _bind_reader(self) -> None:
        maps = {named.name: _RecordedMap(named, self._replayed) for named in self.spec.maps if named.value is not None}
        with Sound(self.recording.name):
            self._decoder = EventDecoder(self.spec, self._context)
            self._reader = ItemReader(maps, self._context)  # type: ignore[arg-type]
            for name in maps:  # the decoders of everything, before anything is believed
                self._reader.map_decoder(name)

    def attach(self) -> None:
        """There is nothing to attach."""

    def next_records(self, timeout: float | None = None) -> Records:
        found = self._replayed.poll(timeout)
        if self._replayed.sampled and self._on_sample is not None:
            self._on_sample()
        return self._timed(found)

    def drain_batches(self) -> Iterator[Records]:
        while not self._replayed.done:
            yield self.next_records()

    def _timed(self, records: Records) -> Records:
        if records:
            self._context.moment = records.batches[-1].times[-1] or self._context.moment
        return records

    def keeps_samples(self, show: Callable[[], object]) -> bool:
        self._on_sample = show
        return True

    def act_on_site(self, site: int) -> None:
        """It happened."""

    @property
    def provenance(self) -> Provenance:
        """Which run it was."""
        end, facts = self.recording.end, self.recording.facts
        if end is not None:
            return end["run"]  # type: ignore[no-any-return]
        return Provenance(f"sonde: {self.source.text}", facts["host"], facts["kernel"], 0, 0.0,
                          ["the recording ends before the run did"])

    def decode_records(self, records: Iterable[Raw]) -> Iterator[Event]:
        with Sound(self.recording.name):
            yield from super().decode_records(records)

    def take_map(self, name: str, then: str = "") -> Sequence[tuple[Any, Any]]:
        with Sound(self.recording.name):
            return super().take_map(name, then)

    def close(self) -> None:
        try:
            for _ in self.drain_records():
                pass
            for named in [m for m in self.spec.maps if m.name.startswith("@")] if self.keeps_maps else []:
                self._final[named.name] = list(self.take_map(named.name))
        finally:
            self.recording.close()


def open_replay(path: str, memory: Memory | None = None) -> ReplayTrace:
    """The recording in a file, as a trace. Damaged if it is none; SondeError if it cannot be opened."""
    recording = open_recording(path, memory)
    try:
        return ReplayTrace(recording, memory)
    except BaseException:
        recording.close()
        raise


def open_recording(path: str, memory: Memory | None = None) -> Recording:
    """The recording in a file. Damaged if it is none; SondeError if it cannot be opened."""
    try:
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise SondeError(f"{path}: {error.strerror}") from None
    try:
        return Recording(file, path, memory)
    except BaseException:
        file.close()
        raise
