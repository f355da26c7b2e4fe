"""The reading side: a recording as a trace whose events have already happened.

:class:`ReplayTrace` is a :class:`sonde.library.traced_run.TracedRun`: what prints, draws or exports a run does the same
with a recording. It asks nothing of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from os import fstat
from struct import error as StructError
from sys import byteorder
from typing import TYPE_CHECKING, BinaryIO

from ..base.end_request import Ending
from ..base.fast_stdlib import contextmanager
from ..base.json_checks import Json, JsonObject, as_integer, as_list, as_object, as_row, as_text, as_texts
from ..base.memory_budget import Memory
from ..base.record import Record
from ..errors import AttachError, SondeError
from ..library.traced_run import TracedRun
from ..output.outside import Outside, PacketSink
from ..runtime.losses import BudgetLosses, Losses
from ..runtime.maps.access import RawItem
from ..runtime.maps.full_maps import FullMap
from ..runtime.provenance import Provenance
from ..runtime.records.batch import Raw, Records
from ..runtime.records.events import Event, EventDecoder
from ..semantics.script_options import Options
from ..spec import MapSpec, ScriptSpec
from .columns import BlockOfRecords
from .container import RecordingError, read_blocks
from .layouts import read_spec
from .names import RecordedNames
from .snapshots import ItemReader, MapSnapshot, SnapshotReader, read_json, split_head

if TYPE_CHECKING:
    from ..runtime.attach.programs import LoadedProgram
    from ..runtime.records.values import Items

SAMPLE, REQUESTED, FINAL = "sample", "asked", "final"
_CLOCKS = ("boot", "monotonic", "tai")
_DONE_ROOM = 64 << 20  # bytes of results for one record


class Facts(Record):
    """What the head says about the run and its machine: offsets of ``clocks`` to Unix time and the ``time`` of the
    start in nanoseconds, how many probes were ``attached``, what was ``missing`` (message and hints); ``zone`` and
    ``events`` as in JSON."""

    clocks: dict[str, int]
    time: int
    host: str
    kernel: str
    machine: str
    attached: int
    missing: list[tuple[str, list[str]]]
    warnings: list[str]
    tool: str
    columns: list[str]
    title: str
    unit: str
    zone: Json
    events: Json
    cpus: int


class Result(Record):
    """The result of cat(), system() or nstat(): ``output``, of which ``more`` follows; how counters grew; or an
    error."""

    kind: str
    output: bytes
    more: bool
    growth: list[tuple[str, int]]
    errno: int
    error: str | None


class End(Record):
    """What the last block says about the run."""

    losses: Losses
    run: Provenance
    reason: str
    status: int
    left_out: int


class Portion(Record):
    """The next portion of the recording: ``records``, with the ``maps`` and ``results`` of the last of them; or a look
    at maps, and ``why``."""

    maps: dict[str, MapSnapshot]
    results: list[Result]
    records: BlockOfRecords | None = None
    why: str = ""
    time: int = 0


class Recording:
    """A recording's file: the head is read at once, the rest portion by portion.

    ``facts`` are the head's; ``end`` those of the last block, None before it has been read. ``truncated`` says that the
    file is cut off: then nothing was changed, but something is missing.
    """

    def __init__(self, file: BinaryIO, name: str, memory: Memory | None = None) -> None:
        self.name = name
        self._file = file
        self._blocks = read_blocks(file, name)
        memory = memory or Memory()
        tag, data = next(self._blocks, (b"", b""))
        if tag == b"FLET":
            raise RecordingError(f"{name} was recorded of a fleet",
                                 hints=["sonde replay shows it, and asks it nothing"])
        if tag != b"HEAD":
            raise RecordingError(f"{name} ends before its head", truncated=not tag)
        with reporting_damage(name):
            head = as_object(read_json(data))
            if head.get("byteorder") != byteorder:
                raise RecordingError(f"{name} was recorded on a machine of another byte order")
            self.facts = _read_facts(head)
            self.spec = read_spec(as_object(head.get("spec")))
            self.context = RecordedNames(self.spec, self.facts.clocks, memory.total // 2)
            self.context.moment = self.facts.time
        self._snapshots = SnapshotReader(self.spec, memory.total)
        self.end: End | None = None
        self.truncated = False

    def portions(self) -> Iterator[Portion]:
        """What the run delivered, in order. RecordingError where the file was changed."""
        with reporting_damage(self.name):
            try:
                yield from self._portions()
            except RecordingError as error:
                if not error.truncated:
                    raise
                self.truncated = True

    def _portions(self) -> Iterator[Portion]:
        results: list[Result] = []
        for tag, data in self._blocks:
            if self.end is not None:
                raise RecordingError("something comes after its end")
            if tag == b"NAME":
                self.context.learn(read_json(data))
            elif tag == b"MAPS":
                self._snapshots.add_block(data)
            elif tag == b"DONE":
                results.append(_read_result(data))
                if sum(len(result.output) for result in results) > _DONE_ROOM:
                    raise RecordingError("a record has more results than it can have")
            elif tag == b"RECS":
                yield Portion(self._snapshots.take(), results, BlockOfRecords(self.spec, data))
                results = []
            elif tag == b"LOOK":
                look = as_object(read_json(data))
                why, time = as_text(look.get("why")), as_integer(look.get("time"), 0, 1 << 63)
                if why not in (SAMPLE, REQUESTED, FINAL):
                    raise RecordingError("a look is none")
                self.context.moment = time
                yield Portion(self._snapshots.take(), results, why=why, time=time)
            elif tag == b"END ":
                self.end = _read_end(self.spec, as_object(read_json(data)))
            else:
                raise RecordingError("it has a block of no known kind")
        self.truncated = self.end is None

    @property
    def position(self) -> tuple[int, int]:
        """How many bytes of the file have been read, and its size."""
        return self._file.tell(), fstat(self._file.fileno()).st_size

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@contextmanager
def reporting_damage(name: str) -> Iterator[None]:
    """A context for reading the file called ``name``, which anybody may have made: RecordingError, with the name, for
    what damaged data raises. Other exceptions are faults of Sonde's, and pass."""
    try:
        yield
    except RecordingError as error:
        if error.message.startswith(name):
            raise
        raise RecordingError(f"{name} is damaged: {error.message}", error.truncated, error.hints) from None
    except (ValueError, OverflowError, StructError, RecursionError, MemoryError) as error:
        raise RecordingError(f"{name} is damaged: {type(error).__name__}") from error


def _read_facts(head: JsonObject) -> Facts:
    clocks = as_object(head.get("clocks"))
    missing = [as_row(each, 2) for each in as_list(head.get("missing"))]
    return Facts({clock: as_integer(clocks.get(clock), -1 << 63, 1 << 63) for clock in _CLOCKS},
                 as_integer(head.get("time")), as_text(head.get("host")), as_text(head.get("kernel")),
                 str(head.get("machine", "x86_64")), as_integer(head.get("attached")),
                 [(as_text(message), as_texts(hints)) for message, hints in missing], as_texts(head.get("warnings")),
                 as_text(head.get("tool")), as_texts(head.get("columns")), as_text(head.get("title")),
                 as_text(head.get("unit")), head.get("zone"), head.get("events"),
                 as_integer(head.get("cpus", 1) or 1, 1, 1 << 13))


def _read_result(data: bytes) -> Result:
    head, output = split_head(data)
    kind, error = as_text(head.get("kind")), head.get("error")
    if kind not in ("cat", "system", "nstat"):
        raise RecordingError("a result is none")
    return Result(kind, output, head.get("more") is True, _counts(head.get("growth", [])),
                  as_integer(head.get("errno", 0)), as_text(error) if error is not None else None)


def _read_end(spec: ScriptSpec, plain: JsonObject) -> End:
    run = as_object(plain.get("run"))
    provenance = Provenance(as_text(run.get("command")), as_text(run.get("host")), as_text(run.get("kernel")),
                            as_integer(run.get("started"), -1 << 63, 1 << 63), _seconds(run.get("seconds")),
                            as_texts(run.get("lost")), _seconds(run.get("asked", 0)))
    return End(_read_losses(spec, as_object(plain.get("losses"))), provenance, as_text(plain.get("reason")),
               as_integer(plain.get("status")) & 255, as_integer(plain.get("left_out")))


def _read_losses(spec: ScriptSpec, plain: JsonObject) -> Losses:
    withheld = None
    if plain.get("withheld") is not None:
        budget = as_object(plain["withheld"])
        withheld = BudgetLosses(_seconds(budget.get("share")), _counts(budget.get("events")),
                                as_integer(budget.get("detached_ns")), as_integer(budget.get("traced_ns")),
                                as_integer(budget.get("spent_ns")), _counts(budget.get("dropped")))
    errors = [as_row(pair, 2) for pair in as_list(plain.get("errors"))]
    return Losses(_counts(plain.get("records")),
                  [(spec.errors[as_integer(index, 0, len(spec.errors))], as_integer(count, 0))
                   for index, count in errors],
                  _counts(plain.get("skipped")), withheld=withheld,
                  unplaced=_counts(plain.get("unplaced", [])), unnamed=_counts(plain.get("unnamed", [])),
                  unreturned=_counts(plain.get("unreturned", [])), at_least=plain.get("at_least") is True,
                  **{name: as_integer(plain.get(name, 0), 0)
                     for name in ("late", "short", "unseen", "early", "shared", "unknown", "strayed",
                                  "uncovered")})


def _seconds(plain: Json) -> float:
    if not isinstance(plain, int | float) or isinstance(plain, bool):
        raise ValueError
    return plain


def _counts(plain: Json) -> list[tuple[str, int]]:
    return [(as_text(name), as_integer(count, 0)) for name, count in map(as_list, as_list(plain))]


# As a trace ---------------------------------------------------------------------------------------------------------

class ReplaySession:
    """The session of a run that is over. ``held`` are the maps as they were when what is being handled happened."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._portions = recording.portions()
        self.held: dict[str, MapSnapshot] = {}
        self.results: list[Result] = []
        self.done = self.maps_requested = False
        self.attached: int = recording.facts.attached
        self.warnings = [AttachError(message, "", hints=hints) for message, hints in recording.facts.missing]
        self.pinned: list[str] = []
        self.detaching = 0
        self.programs: list[LoadedProgram] = []
        self.is_holding = False
        self.sampled = False  # maps were looked at, which a view may want to see
        self.tell: Callable[[str], object] = str
        self.tell_full: Callable[[FullMap], object] = str

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
        self.maps_requested, self.sampled = portion.why == REQUESTED, portion.why == SAMPLE
        return Records([portion.records.records()] if portion.records is not None else [])

    def is_incomplete(self, name: str) -> bool:
        """Whether a budget had withheld events from a map when it was looked at."""
        return name in self.held and self.held[name].incomplete

    def losses(self) -> Losses:
        """What was lost; nothing until the end has been read."""
        end = self.recording.end
        return end.losses if end is not None else Losses([], [], [])

    @property
    def reason(self) -> str:
        """Why the run ended; "truncated" if the file does not say."""
        return self.recording.end.reason if self.recording.end is not None else "truncated"

    @property
    def status(self) -> int:
        """The run's exit status."""
        return self.recording.end.status if self.recording.end is not None else 1

    def request_end(self, reason: str) -> None:
        """Read no further."""
        self.done = True


class _RecordedMap:
    """A map as it was at the moment being handled."""

    def __init__(self, spec: MapSpec, session: ReplaySession) -> None:
        self.spec = spec
        self._session = session

    def items(self) -> list[RawItem]:
        held = self._session.held.get(self.spec.name)
        if held is None and not self._session.recording.truncated:
            raise RecordingError(f"{self._session.recording.name} does not have "
                                 f"what {self.spec.name} held at this moment")
        return held.items if held is not None else []

    def read_and_clear(self) -> list[RawItem]:
        return self.items()

    def zero(self) -> None:
        """Nothing: it has happened."""


class _RecordedOutside(Outside):
    """The run's results from its machine. Nothing is read, run or written here."""

    def __init__(self, session: ReplaySession) -> None:
        self._session = session

    def read_file(self, path: bytes, limit: int) -> bytes:
        for result in self._take("cat"):
            _raise_recorded(result)
            return result.output
        raise OSError(2, "its contents are not in the recording")

    def may_run(self, ending: Ending) -> bool:
        return bool(self._take("system"))

    def run_command(self, command: bytes, show: Callable[[bytes, bool], object], ending: Ending) -> None:
        for result in self._take("system"):
            _raise_recorded(result)
            show(result.output, result.more)

    def network_growth(self) -> Callable[[], Sequence[tuple[str, int]]]:
        return lambda: [grown for result in self._take("nstat") for grown in result.growth]

    def open_packets(self, path: str) -> PacketSink:
        return _NoPackets()

    def _take(self, kind: str) -> list[Result]:
        return [each for each in self._session.results if each.kind == kind]


class _NoPackets:
    """Writes no packets: the run has done so."""

    def write(self, time: int, packet: bytes, length: int) -> None:
        """Nothing: it has been written."""


def _raise_recorded(result: Result) -> None:
    if result.error is not None:
        raise OSError(result.errno, result.error) if result.errno else ValueError(result.error)


class ReplayTrace(TracedRun):
    """A recording, as a trace to look at: ``events()``, ``maps``, ``losses``, ``provenance`` and tables are the run's.
    Maps hold what they held at the latest event."""

    def __init__(self, recording: Recording, memory: Memory | None = None) -> None:
        super().__init__(recording.spec.source, Options(), recording.spec, memory)
        self.recording = recording
        self._on_sample: Callable[[], object] | None = None
        self._context = recording.context
        self._replayed = ReplaySession(recording)
        self._session = self._replayed  # type: ignore[assignment]
        self.outside = _RecordedOutside(self._replayed)
        self._bind_reader()

    def _bind_reader(self) -> None:
        maps = {named.name: _RecordedMap(named, self._replayed) for named in self.spec.maps if named.value is not None}
        with reporting_damage(self.recording.name):
            self._decoder = EventDecoder(self.spec, self.context)
            self._reader = ItemReader(maps, self.context)  # type: ignore[arg-type]
            for name in maps:  # the decoders of everything, before anything is trusted
                self._reader.map_decoder(name)

    @property
    def held_maps(self) -> dict[str, MapSnapshot]:
        """The maps whose contents at this moment are in the recording."""
        return self._replayed.held

    def attach(self) -> None:
        """Nothing: there is nothing to attach."""

    def next_records(self, timeout: float | None = None) -> Records:
        records = self._replayed.poll(timeout)
        if self._replayed.sampled and self._on_sample is not None:
            self._on_sample()
        return self._timed(records)

    def drain_batches(self) -> Iterator[Records]:
        while not self._replayed.done:
            yield self.next_records()

    def _timed(self, records: Records) -> Records:
        if records:
            names = self.recording.context
            names.moment = records.batches[-1].times[-1] or names.moment
        return records

    def keeps_samples(self, show: Callable[[], object]) -> bool:
        self._on_sample = show
        return True

    def act_on_site(self, site: int) -> None:
        """Nothing: it has happened."""

    @property
    def provenance(self) -> Provenance:
        """Identifies the run."""
        end, facts = self.recording.end, self.recording.facts
        if end is not None:
            return end.run
        return Provenance(f"sonde: {self.source.text}", facts.host, facts.kernel, 0, 0.0,
                          ["the recording ends before the run did"])

    def decode_records(self, records: Iterable[Raw]) -> Iterator[Event]:
        with reporting_damage(self.recording.name):
            yield from super().decode_records(records)

    def knows_map(self, name: str) -> bool:
        return name in self._replayed.held

    def take_map(self, name: str, then: str = "") -> Items:
        with reporting_damage(self.recording.name):
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
    """The recording in a file, as a trace. RecordingError if it is not one; SondeError if it cannot be opened."""
    recording = open_recording(path, memory)
    try:
        return ReplayTrace(recording, memory)
    except BaseException:
        recording.close()
        raise


def open_recording(path: str, memory: Memory | None = None) -> Recording:
    """The recording in a file. RecordingError if it is not one; SondeError if it cannot be opened."""
    try:
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise SondeError(f"{path}: {error.strerror}") from None
    try:
        return Recording(file, path, memory)
    except BaseException:
        file.close()
        raise
