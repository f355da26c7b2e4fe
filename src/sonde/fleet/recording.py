"""Recordings of fleets: what each host sent and when, as bytes, and what the coordinator decided in between.

The file is one of blocks (:mod:`sonde.recording.container`):

    FLET   JSON, first: the hosts, what they were asked, how the run was to be shown
    TOLD   what happened, one after another: kind (a number of :mod:`.state.log`), host, time, bytes; and so many bytes
    END    JSON, last: nothing more could come

Replayed, all that comes from hosts is checked and merged again by what did so then, at the times that it was then: so
the result is the same, or another one where hosts are to be kept apart.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from struct import Struct as Layout
from time import localtime

from ..base.json_checks import Json, JsonObject, as_integer, as_object, as_row, as_text, as_texts
from ..base.record import Record
from ..errors import SondeError
from ..recording.container import BlockWriter, RecordingError, read_blocks
from ..source import Source
from .state.gathered import FleetState
from .state.log import BEGUN, DATA, LEFT, POLLED, SILENCED, STOPPED, Log
from .state.results import HostEvent, MergedPrint
from .transport.hosts import MOST as MOST_HOSTS
from .transport.protocol import VERSION
from .transport.request import FleetRequest
from .transport.shapes import ShapeReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

FIRST, EVENTS, END = b"FLET", b"TOLD", b"END "
_ENTRY = Layout("<BIQI")
_FULL = 1 << 20  # bytes in a block, about
_AGE = 10 ** 9   # ns: what is older is in the file


class FleetRecorder(Log):
    """Keeps what it is told in the file of a descriptor, which it closes. When that cannot be written, the run goes on
    without it, and ``problem`` says why."""

    def __init__(self, descriptor: int, head: JsonObject) -> None:
        self._descriptor = descriptor
        self._entries = bytearray()
        self._oldest = 0
        try:
            self._writer = BlockWriter(descriptor)
            self._write_json(FIRST, head)
        except OSError as error:
            self.problem = error.strerror or "failed"

    def note(self, kind: int, time: int, number: int = 0, data: bytes = b"") -> None:
        if self.problem:
            return
        self._oldest = self._oldest if self._entries else time
        self._entries += _ENTRY.pack(kind, number, time, len(data)) + data
        if len(self._entries) > _FULL or kind == POLLED and time - self._oldest > _AGE:
            self._flush()

    def _flush(self) -> None:
        entries, self._entries = bytes(self._entries), bytearray()
        try:
            self._writer.write_block(EVENTS, entries)
        except OSError as error:
            self.problem = error.strerror or "failed"

    def _write_json(self, tag: bytes, plain: Json) -> None:
        from json import dumps
        self._writer.write_block(tag, dumps(plain).encode())

    def close(self, whole: bool) -> None:
        if not self.problem:
            self._flush()
        if whole and not self.problem:
            self._write_json(END, {})
        os.close(self._descriptor)


def describe_fleet(hosts: Sequence[str], request: FleetRequest, by_host: bool, outliers: bool, title: str,
                   facts: JsonObject) -> JsonObject:
    """The head of a recording; ``facts`` as those of one host's."""
    from ..base.version import __version__
    zone = localtime()
    head: JsonObject = {
        "sonde": __version__, "protocol": VERSION, "hosts": list(hosts),
        "script": [request.source.name, request.source.text], "tool": request.source.internal,
        "window": request.window, "table": request.columns,
        "by_host": by_host, "outliers": outliers, "run": title, "zone": [zone.tm_zone, zone.tm_gmtoff]}
    return head | facts


class FleetFacts(Record):
    """What the head of a recording says."""

    hosts: list[str]
    request: FleetRequest
    by_host: bool
    outliers: bool
    title: str
    zone: Json


class FleetEntry(Record):
    """What happened: its kind, the number of the host, when by the coordinator's clock, and the bytes that came. Of the
    end of a poll, ``host`` is 1 if the run was over."""

    kind: int
    host: int
    time: int
    data: bytes


class FleetRecording:
    """A fleet's recording that was opened: its ``facts``, and what follows."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name = name
        self.truncated = False
        self._file = file
        self._blocks = read_blocks(file, name)
        tag, data = next(self._blocks, (b"", b""))
        if tag != FIRST:
            raise RecordingError(f"{name} is no recording of a fleet")
        self.facts = _read_facts(data, name)

    def entries(self) -> Iterator[FleetEntry]:
        """All that happened; RecordingError where the file was changed."""
        whole = False
        try:
            for tag, data in self._blocks:
                if whole or tag not in (EVENTS, END):
                    raise RecordingError(f"{self.name} is damaged: a block that does not belong there")
                whole = tag == END
                yield from _split_entries(data if not whole else b"", self.name)
        except RecordingError as error:
            if not error.truncated:
                raise
        self.truncated = not whole

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _split_entries(data: bytes, name: str) -> Iterator[FleetEntry]:
    at = 0
    while at < len(data):
        end = at + _ENTRY.size
        kind, number, time, size = _ENTRY.unpack(data[at:end].ljust(_ENTRY.size, b"\xff"))
        if end + size > len(data):
            raise RecordingError(f"{name} is damaged: something that happened is not whole")
        yield FleetEntry(kind, number, time, data[end:end + size])
        at = end + size


def _read_facts(data: bytes, name: str) -> FleetFacts:
    from ..recording.snapshots import read_json
    try:
        head = as_object(read_json(data))
        if (protocol := as_integer(head.get("protocol"))) != VERSION:
            raise RecordingError(f"{name} is of Sonde {as_text(head.get('sonde'))[:40]}, "
                                 f"whose agents speak protocol {protocol}, "
                                 f"and this is {VERSION}")
        hosts, window = as_texts(head.get("hosts"), MOST_HOSTS), head.get("window")
        if not hosts or len(set(hosts)) < len(hosts) or not isinstance(window, int | float) or not 0 < window < 1 << 32:
            raise ValueError
        title, text = map(as_text, as_row(head.get("script"), 2))
        request = FleetRequest(Source(title, text, head.get("tool") is True), window=float(window),
                               columns=as_texts(head.get("table")))
        return FleetFacts(hosts, request, head.get("by_host") is True, head.get("outliers") is True,
                          as_text(head.get("run")), head.get("zone"))
    except ValueError:
        raise RecordingError(f"{name} is damaged: its head makes no sense") from None


class RecordedFleet(FleetState):
    """A fleet that was recorded: each :meth:`poll` is one of the run's, with the same outcome. Closes the recording.
    ``by_host`` and ``outliers`` as if the run had been asked for that, too."""

    def __init__(self, recording: FleetRecording, by_host: bool = False, outliers: bool = False) -> None:
        facts = recording.facts
        super().__init__(facts.hosts, facts.request, by_host or facts.by_host, outliers or facts.outliers, Log())
        self.recording = recording
        self._entries = recording.entries()
        self._shapes = ShapeReader(facts.request.source)
        self._given_up = False
        self._always_ready = os.eventfd(1)

    def poll(self, timeout: float) -> list[HostEvent | MergedPrint]:
        """What one of the run's polls gave, whatever the ``timeout``."""
        for entry in () if self._given_up else self._entries:
            if entry.kind == POLLED:
                self.done = bool(entry.host)
                if self.done and any(True for _ in self._entries):
                    raise RecordingError(f"{self.recording.name} is damaged: something comes after its end")
                return self._take_printed(entry.time)
            self._repeat(entry)
        self.done = True
        return self._take_printed(self.now)

    def _repeat(self, entry: FleetEntry) -> None:
        """What happened between two polls."""
        kind = entry.kind
        if entry.host >= len(self.members) or kind > SILENCED:
            raise RecordingError(f"{self.recording.name} is damaged: "
                                 "a host, or something that happened, of no known number")
        member = self.members[entry.host]
        if kind == DATA:
            for _ in member.receive(entry.data, self._shapes, entry.time):
                pass  # what the coordinator does then is among what happened
        elif kind == LEFT:
            member.leave(*_read_reason(entry.data))
        elif kind == SILENCED:
            member.fall_silent(_read_reason(entry.data)[0])
        elif kind == BEGUN:
            self._adopt_shapes()
            self.started_at = entry.time
        elif kind == STOPPED:
            self.end_requested = True

    def fileno(self) -> int:
        return self._always_ready

    def ask_end(self, at_once: bool = False) -> None:
        self._given_up = True

    def stop(self) -> None:
        """It will come to its end."""

    def close(self) -> None:
        self.done = True
        if self._always_ready >= 0:
            os.close(self._always_ready)
            self._always_ready = -1
        self.recording.close()


def _read_reason(data: bytes) -> tuple[str, list[str]]:
    from ..recording.snapshots import read_json
    try:
        reason, *hints = as_texts(read_json(data))
    except ValueError:
        raise RecordingError("a reason that is none") from None
    return reason, hints


def open_fleet(path: str, by_host: bool = False, outliers: bool = False) -> RecordedFleet:
    """The fleet that was recorded in a file. RecordingError if it is none; SondeError if it cannot be opened."""
    try:
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise SondeError(f"{path}: {error.strerror}") from None
    try:
        return RecordedFleet(FleetRecording(file, path), by_host, outliers)
    except BaseException:
        file.close()
        raise


def is_of_fleet(path: str) -> bool:
    """Whether a file is a fleet's recording, by its first bytes."""
    from ..recording.container import MAGIC
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC) + len(FIRST)) == MAGIC + FIRST
    except OSError:
        return False
