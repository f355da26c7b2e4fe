"""The writing side: a trace that also records what it delivers.

A recording is a stream of blocks (see :mod:`.container`) in the order of delivery:

    HEAD   JSON, first: the layouts, and where and when
    NAME   JSON list of [question, argument, answer]: what names were then, if no earlier block says the same
    MAPS   what a map held: for the last record of the RECS block that follows, or for the LOOK that follows
    DONE   the output of cat(), system() or nstat(), for the last record of the RECS block that follows
    RECS   records (see :mod:`.columns`)
    LOOK   JSON: the maps before it were looked at: "why" is sample, asked (SIGUSR1) or final; "time" of the boot clock
    END    JSON, last: the losses, the run, how it ended
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..kinds import SITE_KINDS
from ..layouts.event_records import read_time
from ..library.trace import Trace
from ..output import Handler, Printer
from ..output.outside import Outside
from ..runtime.maps.access import Map, RawItem
from ..runtime.records.batch import Batch, Raw, Records
from ..runtime.records.decoders import make_decoder
from ..runtime.records.events import MapReader
from ..spec import EventSite, ScriptSpec
from ..types import StackCopy
from .columns import MOST_RECORDS, RecordGatherer
from .container import BlockWriter
from .layouts import plain_spec
from .names import ENTRY, Answer, Argument, NameRecorder, ask_names, has_names
from .snapshots import ItemReader, MapSnapshot, pack_snapshot, pack_with_head

if TYPE_CHECKING:
    from ..base.end_request import Ending
    from ..base.json_checks import Json, JsonObject
    from ..runtime.losses import Losses
    from ..runtime.provenance import Provenance
    from ..runtime.records.values import DecodingContext, Items
    from ..runtime.session import Session

_FULL = 2 << 20  # bytes of records in a block, about
_BLOCK = MOST_RECORDS >> 2  # records in a block
_AGE = 1.0       # s until records are in the file
_ROOM = 32 << 20  # bytes of names, about
_NAMES = 20_000  # in a block


class Recorder:
    """Writes what it is given, in order."""

    def __init__(self, descriptor: int, spec: ScriptSpec) -> None:
        self._spec = spec
        self._writer = BlockWriter(descriptor)
        self._records = RecordGatherer(spec)
        self._names: list[Json] = []
        self._answers: dict[Argument, Answer] = {}
        self._room = _ROOM
        self.left_out = 0  # names and outputs for which there was no room
        self._attached: list[tuple[bytes, bytes]] = []  # blocks for the last record
        self._results = 0  # bytes of results from outside, in them
        self._oldest = 0.0

    @property
    def waits(self) -> bool:
        """Whether there are records that are not in the file yet."""
        return len(self._records) > 0

    def write_json(self, tag: bytes, plain: Json) -> None:
        """Write a block of JSON, after everything taken so far."""
        self.flush()
        self._writer.write_block(tag, json.dumps(plain).encode())

    def tell_name(self, question: str, argument: Argument, answer: Answer) -> None:
        """Take an answer, unless it is the same as before."""
        key = (question, *argument)
        before = self._answers.get(key)
        if key in self._answers and (before is answer or before == answer) or question == "stack_frames" and before:
            return
        if key in self._answers:
            self.flush()  # what came before has the other name
        size = ENTRY + (8 * len(answer) if isinstance(answer, list | tuple) else 0) + sum(
            [len(text) for text in (answer if isinstance(answer, tuple) else (answer,)) if isinstance(text, str)])
        if size > self._room:
            self.left_out += 1
            return
        self._room -= size
        self._answers[key] = answer
        self._names.append([question, argument, answer])

    def add_records(self, site: int, records: list[bytes], attached: bool = False) -> None:
        """Take records of a site; ``attached``: what was attached since the last flush belongs to the next one."""
        if self._attached and not attached:
            self.flush()
        most = max(1, min(_BLOCK, _FULL // len(records[0])))
        for at in range(0, len(records), most):
            part = records[at:at + most]
            if self.waits and (len(self._records) + len(part) > _BLOCK or self._records.bytes > _FULL):
                self.flush()
            if not self._records:
                self._oldest = time.monotonic()
            self._records.add_records(site, part)

    def attach_snapshot(self, name: str, snapshot: MapSnapshot) -> None:
        """Attach a map's contents to the last record or to the look that follows."""
        self._attached += [(b"MAPS", data) for data in pack_snapshot(self._spec.find_map(name), snapshot)]

    def attach_result(self, kind: str, head: JsonObject, data: bytes) -> None:
        """Attach a result from outside to the last record."""
        self._results += len(data)
        if self._results > _FULL * 4:
            self.left_out += 1
            return
        self._attached.append((b"DONE", pack_with_head({"kind": kind} | head, data)))

    def flush(self) -> None:
        """Write everything taken so far."""
        names, self._names = self._names, []
        for at in range(0, len(names), _NAMES):
            self._writer.write_block(b"NAME", json.dumps(names[at:at + _NAMES]).encode())
        for tag, data in self._attached:
            self._writer.write_block(tag, data)
        self._attached, self._results = [], 0
        if self._records:
            self._writer.write_block(b"RECS", self._records.take_block())

    def flush_if_old(self) -> None:
        """Write what has been waiting for a while."""
        if self._records and time.monotonic() - self._oldest > _AGE:
            self.flush()


def _cut_record(buffer: bytes, offset: int, size: int) -> bytes:
    """``size`` bytes; a record may be shorter, and then nothing of what follows its end is looked at."""
    return buffer[offset:offset + size].ljust(size, b"\0")


class _NotedBatch(Batch):
    """Records that are noted one by one, each directly before it is handled."""

    __slots__ = ("_note",)

    def __init__(self, batch: Batch, note: Callable[[int, list[bytes]], object], sizes: Sequence[int]) -> None:
        super().__init__(batch.base, batch.buffer, batch.times, batch.sites, batch.offsets)
        self._note = note, sizes

    def __iter__(self) -> Iterator[Raw]:
        note, sizes = self._note
        for site, buffer, offset in super().__iter__():
            note(site, [_cut_record(buffer, offset, sizes[site])])
            yield site, buffer, offset


class _NotedRecords(Records):
    """Batches that are noted, each before it is handled; one with a record that has something of its own to note,
    record by record."""

    __slots__ = ("_count",)

    def __init__(self, records: Records, notes: Notes) -> None:
        super().__init__(_NotedBatches(records.batches, notes))
        self._count = len(records)

    def __len__(self) -> int:
        return self._count


class _NotedBatches(list[Batch]):
    def __init__(self, batches: Sequence[Batch], notes: Notes) -> None:
        super().__init__(batches)
        self._notes = notes

    def __iter__(self) -> Iterator[Batch]:
        for batch in super().__iter__():
            yield self._notes.note_batch(batch)


class Notes:
    """Keeps what a session delivers in the file of a descriptor. ``live`` answers questions about names; ``context``
    gives the same answers, and has them kept."""

    def __init__(self, descriptor: int, spec: ScriptSpec, session: Session, live: DecodingContext) -> None:
        self.recorder = Recorder(descriptor, spec)
        self._spec, self._session, self._live = spec, session, live
        self.context = NameRecorder(live, self.recorder.tell_name)
        self.context.moment = live.boot_time()
        self.held: dict[str, Items] = {}  # what maps hold, for what is handled now
        self.reader = ItemReader({name: _RecordingMap(live, self._keep_items)  # type: ignore[misc]
                                  for name, live in session.maps.items()}, self.context)
        self._sites = [_SiteNotes(spec, index, self.context) for index in range(len(spec.sites))]
        self._sizes = [site.size for site in spec.sites]

    def write_head(self, warnings: bool, facts: JsonObject) -> None:
        """Write the first block; ``facts`` are put into it unchanged."""
        clocks = {clock: self._live.wall_clock(0, clock) for clock in ("boot", "monotonic", "tai")}
        zone, now, machine = time.localtime(), self.context.boot_time(), os.uname()
        self.recorder.write_json(b"HEAD", {
            "byteorder": sys.byteorder, "clocks": clocks, "time": now,
            "zone": [zone.tm_zone, zone.tm_gmtoff], "host": machine.nodename, "kernel": machine.release,
            "machine": machine.machine, "cpus": os.cpu_count(), "attached": self._session.attached,
            "missing": [[warning.message, warning.hints] for warning in self._session.warnings],
            "warnings": [warning.render() for warning in self._spec.warnings] if warnings else [],
            "spec": plain_spec(self._spec)} | facts)

    def note_records(self, records: Records) -> Records:
        """The records, each noted when it is taken to be handled."""
        return _NotedRecords(records, self)

    def note_batch(self, batch: Batch) -> Batch:
        """The batch to be handled: it has been noted, or will be, record by record."""
        site = batch.sites
        if not isinstance(site, int) or self._sites[site].alone:
            return _NotedBatch(batch, self._keep_records, self._sizes)
        size, buffer = self._sizes[site], batch.buffer
        self._keep_records(site, [_cut_record(buffer, offset, size) for offset in batch.offsets])
        return batch

    def _keep_records(self, site: int, records: list[bytes]) -> None:
        """Keep records of one site that are about to be handled."""
        notes = self._sites[site]
        self.context.moment = read_time(records[-1], 0) or self.context.moment
        if notes.named:
            records = [notes.ask_names(record) for record in records]
        if self.held:
            self.held = {}
        if notes.map:
            self.recorder.flush()
            self.held = {notes.map: self._take_and_keep(notes.map, notes.then)}
        self.recorder.add_records(site, records, bool(notes.map))

    def look_at_maps(self, why: str, maps: Sequence[str]) -> None:
        """Keep the current contents of maps."""
        self.recorder.flush()
        self.context.moment = self._live.boot_time()
        self.held = {name: self._take_and_keep(name, "") for name in maps}
        self.recorder.write_json(b"LOOK", {"why": why, "time": self.context.moment})

    def _take_and_keep(self, name: str, then: str) -> Items:
        items: Items = self.reader(name, then)
        named = self._spec.find_map(name)
        if named.key is not None and not named.memory and has_names(named.key):
            ask_names(tuple([key for key, _ in items]))
        if named.value is not None and has_names(named.value):
            ask_names(tuple([value for _, value in items]))
        return items

    def _keep_items(self, name: str, items: list[RawItem]) -> None:
        self.recorder.attach_snapshot(name, MapSnapshot(items, self._session.is_incomplete(name)))

    def write_end(self, run: Provenance) -> None:
        """Write the last block."""
        session = self._session
        self.recorder.write_json(b"END ", {
            "losses": plain_losses(self._spec, session.losses()), "run": run.as_json(),
            "reason": session.reason, "status": session.status, "time": self.context.moment,
            "left_out": self.recorder.left_out})


class RecordingTrace(Trace):
    """A trace whose run is kept in a file. ``facts`` are put into the head unchanged."""

    def record_to(self, descriptor: int, facts: JsonObject, every: float = 1.0) -> None:
        """Call this before :meth:`attach`. The descriptor is closed with the trace. Every ``every`` seconds, maps that
        the script itself does not print are looked at, if they can be drawn over time."""
        self._descriptor, self._facts, self._every = descriptor, facts, every
        self._on_sample: Callable[[], object] | None = None
        self._final_look = False
        self._maps_requested = False  # the maps are to be looked at once what came before has been handled
        self._sampled: list[str] = []
        self._run: Provenance | None = None
        self._notes: Notes | None = None

    @property
    def notes(self) -> Notes:
        """The notes of this run."""
        assert self._notes is not None
        return self._notes

    def attach(self) -> None:
        try:
            super().attach()
        except BaseException:
            self._close_file()
            raise
        self.notes.write_head(self.options.warnings, self._facts)
        from ..output.views.heat import is_histogram, is_series
        from ..output.views.view import is_printed
        self._sampled = [named.name for named in self.spec.shown_maps
                         if (is_histogram(named) or is_series(named)) and not is_printed(named, self.spec)]
        self._next_sample = time.monotonic() + self._every

    def _bind_session(self) -> None:
        super()._bind_session()
        self._notes = Notes(self._descriptor, self.spec, self.session, self.context)
        self._context = self._notes.context
        from ..runtime.records.events import EventDecoder
        self._decoder = EventDecoder(self.spec, self._context)
        self._reader = MapReader(self.session.maps, self._context)
        self.outside = _RecordingOutside(self._notes.recorder)

    # what is delivered

    def next_records(self, timeout: float | None = None) -> Records:
        self.notes.recorder.flush_if_old()
        self.notes.held = {}
        if self._looks_now():
            return Records()
        records = self.notes.note_records(self.session.poll(self._shorten_wait(timeout)))
        if self.session.maps_requested:  # the maps come after these records
            self._maps_requested, self.session.maps_requested = True, False
        return records

    def _looks_now(self) -> bool:
        """Look at maps if that is due, now that all earlier records have been handled."""
        if self._maps_requested:
            self._maps_requested, self.session.maps_requested = False, True
            self.notes.look_at_maps("asked", self._map_names)
            return True
        if not self._sampled or time.monotonic() < self._next_sample:
            return False
        self._next_sample = max(self._next_sample + self._every, time.monotonic())
        self.notes.look_at_maps("sample", self._sampled)
        if self._on_sample is not None:
            self._on_sample()
        return True

    def keeps_samples(self, show: Callable[[], object]) -> bool:
        self._on_sample = show
        return True

    def _shorten_wait(self, timeout: float | None) -> float | None:
        """Shorten a wait so that records get into the file, and maps are looked at, in time."""
        waits = [timeout, _AGE if self.notes.recorder.waits else None,
                 max(0.0, self._next_sample - time.monotonic()) if self._sampled else None]
        return min([wait for wait in waits if wait is not None], default=None)

    @property
    def _map_names(self) -> list[str]:
        return [named.name for named in self.spec.maps if named.name.startswith("@")]

    def drain_batches(self) -> Iterator[Records]:
        for records in self.session.stop_in_batches():
            yield self.notes.note_records(records)
        if not self._final_look:
            self._final_look = True
            self.notes.look_at_maps("final", self._map_names)

    def take_map(self, name: str, then: str = "") -> Items:
        """The map as recorded, if a record or a look is being handled; else as it is now."""
        items = self.notes.held.get(name)
        return items if items is not None else super().take_map(name, then)

    # the end

    def when_reading(self, tell: Callable[[str, int, int], object]) -> None:
        super().when_reading(tell)
        self.notes.reader.progress = tell

    @property
    def provenance(self) -> Provenance:
        """The run; unchanging after its end."""
        if self._run is None and self._final_look:
            self._run = super().provenance
        return self._run or super().provenance

    def close(self) -> None:
        try:
            if self._notes is not None and self._session is not None and self.session.maps:
                for _ in self.decode_records(self.drain_records()):
                    pass
                self.notes.write_end(self.provenance)
        finally:
            super().close()
            self._close_file()

    def _close_file(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class _SiteNotes:
    """What to do with the records of a site."""

    def __init__(self, spec: ScriptSpec, index: int, context: NameRecorder) -> None:
        site = spec.sites[index]
        self._context = context
        fields = [(field.offset, field.type) for field in site.fields if has_names(field.type)]
        self._named = [(make_decoder(type, context), offset, isinstance(type, StackCopy)) for offset, type in fields]
        self.named = bool(fields)
        shows = site.kind == "print_map" or site.kind == "print"
        self.map: str = site.data.get("map", "") if shows else ""
        self.then = site.then if site.kind == "print_map" else ""
        self.alone = bool(self.map) or SITE_KINDS[site.kind].outside  # something is noted for each record

    def ask_names(self, record: bytes) -> bytes:
        """Ask for the names in a record; the number of the frames replaces a copy of the stack in it."""
        for decode, offset, is_copy in self._named:
            ask_names(decode(record, offset))
            if is_copy:
                number = self._context.last_unwound.to_bytes(8, sys.byteorder)
                record = record[:offset + 8] + number + record[offset + 16:]
        return record


class _RecordingMap:
    """A map; what is read from it is kept."""

    def __init__(self, live: Map, keep: Callable[[str, list[RawItem]], object]) -> None:
        self._live = live
        self._keep = keep
        self.spec = live.spec

    def items(self) -> list[RawItem]:
        return self._record(self._live.items())

    def read_and_clear(self) -> list[RawItem]:
        return self._record(self._live.read_and_clear())

    def zero(self) -> None:
        self._live.zero()

    def _record(self, items: list[RawItem]) -> list[RawItem]:
        self._keep(self.spec.name, items)
        return items


class _RecordingOutside(Outside):
    """This machine; its results are kept."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def read_file(self, path: bytes, limit: int) -> bytes:
        try:
            contents = super().read_file(path, limit)
        except (OSError, ValueError) as error:
            self._keep_failure("cat", error)
            raise
        self._recorder.attach_result("cat", {}, contents)
        return contents

    def run_command(self, command: bytes, show: Callable[[bytes, bool], object], ending: Ending) -> None:
        def keep_and_show(output: bytes, more: bool) -> None:
            self._recorder.attach_result("system", {"more": more}, output)
            show(output, more)
        try:
            super().run_command(command, keep_and_show, ending)
        except (OSError, ValueError) as error:
            self._keep_failure("system", error)
            raise

    def network_growth(self) -> Callable[[], Sequence[tuple[str, int]]]:
        take_growth = super().network_growth()

        def take_and_keep() -> Sequence[tuple[str, int]]:
            growth = take_growth()
            self._recorder.attach_result("nstat", {"growth": growth}, b"")
            return growth
        return take_and_keep

    def _keep_failure(self, kind: str, error: OSError | ValueError) -> None:
        number = error.errno if isinstance(error, OSError) else 0
        text = (error.strerror if isinstance(error, OSError) else None) or str(error)
        self._recorder.attach_result(kind, {"errno": number, "error": text}, b"")


class KeepingPrinter(Printer):
    """Prints nothing: only carries out what a script's events do outside, since the results go into the recording."""

    def _site_handler(self, site: EventSite) -> Handler | None:
        return super()._site_handler(site) if SITE_KINDS[site.kind].outside else None

    def print_maps(self) -> None:
        """Nothing: they are in the recording."""


def plain_losses(spec: ScriptSpec, losses: Losses) -> JsonObject:
    """Losses as plain data: places in the script are their indices in the spec."""
    withheld = losses.withheld
    return {"records": losses.records, "errors": [[spec.errors.index(site), count] for site, count in losses.errors],
            "skipped": losses.skipped, "late": losses.late, "short": losses.short, "unseen": losses.unseen,
            "early": losses.early, "shared": losses.shared,
            "withheld": None if withheld is None else dict(zip(withheld._fields, withheld.values())),
            "unplaced": losses.unplaced, "unnamed": losses.unnamed, "unknown": losses.unknown,
            "strayed": losses.strayed, "uncovered": losses.uncovered,
            "unreturned": losses.unreturned, "at_least": losses.at_least}
