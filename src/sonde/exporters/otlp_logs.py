"""``--otlp-logs``: the rows that a tool or printf() prints, sent to an OpenTelemetry collector as log records.

A record's attributes are the row's columns, with numbers as numbers; its text is the line, of a table ``NAME=value``
for each column. What Sonde lost is a record too, with the severity WARN, so that a gap does not look like silence.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from ..errors import UsageError
from ..library.data_frames import row_sites
from ..output.format import compile_format
from ..output.views.csv import cell_value, event_values, own_columns
from ..output.views.wire import fixed64, message, number, text
from ..runtime.records.events import Event
from ..runtime.records.values import DecodingContext, ScriptValue
from ..spec import EventSite, ScriptSpec
from . import Exporter as Base
from . import complete_endpoint
from .otlp_http import any_value, key_values, post_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .resource import Facts

DEFAULT = "http://127.0.0.1:4318/v1/logs"
WAIT = 1.0           # s between two sendings at most
LAST = 3.0           # s at the end for what is left
MOST_WAITING = 8 << 20  # bytes of records that a collector may be late with
BATCH = 1 << 20      # bytes of one message, about
SIGNAL = "LOGS"

# Fields of OTLP's messages: LogsData, ResourceLogs and ScopeLogs, LogRecord
_RESOURCE_LOGS, _SOURCE, _CONTENT, _ATTRIBUTES = 1, 1, 2, 1
_TIME, _SEVERITY, _SEVERITY_TEXT, _BODY, _RECORD_ATTRIBUTES, _OBSERVED, _EVENT_NAME = 1, 2, 3, 5, 6, 11, 12
_INFO, _WARN = (9, "INFO"), (13, "WARN")
_QUOTED = {*' "=\t\n'}  # characters for which a value is put in quotes
_TAKEN = ("sonde.probe",)  # names of attributes that are no columns


def check_rows(spec: ScriptSpec) -> list[int]:
    """The sites whose events are rows; UsageError if there are none."""
    sites = row_sites(spec)
    if not sites:
        raise UsageError("--otlp-logs sends what printf() and print() send, and this script has neither")
    return sites


class LogsExporter(Base):
    """Sends rows from a thread of its own; those that find ``MOST_WAITING`` bytes waiting are lost, and counted.

    ``wall`` gives nanoseconds since 1970 of a record's time, ``facts`` the resource's attributes, ``losses`` a sentence
    for each kind of Sonde's own losses so far.
    """

    takes_events = True

    def __init__(self, endpoint: str, spec: ScriptSpec, context: DecodingContext, facts: Callable[[], Facts],
                 losses: Callable[[], list[str]], complain: Callable[[str], object], script: str = "") -> None:
        self._endpoint = complete_endpoint(endpoint, DEFAULT) if endpoint else DEFAULT
        self._context, self._facts, self._losses, self._complain = context, facts, losses, complain
        self._event_name = f"sonde.{script}" if script else "sonde"
        self._rows = {index: own_columns(spec.sites[index], _TAKEN) for index in check_rows(spec)}
        self._last_time = 0
        self._waiting: deque[bytes] = deque()
        self._bytes = self._lost = self._rejected = self._sent = 0
        self._reported: list[str] = []  # of Sonde's losses
        self._problem = ""
        self._lock = threading.Lock()
        self._wake, self._ended = threading.Event(), False
        self._thread = threading.Thread(target=self._send_batches, name="otlp-logs", daemon=True)
        self._thread.start()

    def start_message(self) -> str:
        return f"Sending rows to {self._endpoint}"

    # rows

    def row_handler(self, index: int, site: EventSite,
                    decode: Callable[[bytes, int], Event]) -> Callable[[bytes, int], object]:
        form = compile_format(site.parts, site.fields, self._context) if site.parts and not site.table else None
        if index not in self._rows:
            return lambda buffer, offset: None

        def add_row(buffer: bytes, offset: int) -> None:
            event = decode(buffer, offset)
            values = dict(zip(self._rows[index], event_values(event, site)))
            line = form(buffer, offset).decode("utf-8", "replace").strip() if form is not None else \
                _join_columns(values)
            self._add_record(self._encode_row(event, values, line))
        return add_row

    def _encode_row(self, event: Event, values: dict[str, ScriptValue], line: str) -> bytes:
        if event.time:  # one without a time comes right after the one before it
            self._last_time = int(self._context.wall_clock(event.time, "boot"))
        attributes: dict[str, object] = {"sonde.probe": event.probe} if event.probe else {}
        attributes |= {name: value if isinstance(value, bool) else cell_value(value) for name, value in values.items()}
        return _encode_record(self._last_time, _INFO, self._event_name, line, attributes)

    def _add_record(self, record: bytes) -> None:
        with self._lock:
            if self._bytes + len(record) > MOST_WAITING:
                self._lost += 1
                return
            self._waiting.append(record)
            self._bytes += len(record)
            if self._bytes < BATCH:
                return
        self._wake.set()

    # sending

    def _send_batches(self) -> None:
        while not self._ended:
            self._wake.wait(WAIT)
            self._wake.clear()
            while self._send_batch() and self._bytes >= BATCH:
                pass
        while self._send_batch() and self._waiting:
            pass

    def _send_batch(self) -> bool:
        """Send what waits, up to BATCH; False if the collector has to be asked again later."""
        with self._lock:
            batch, size = [], 0
            while self._waiting and size < BATCH:
                batch.append(self._waiting.popleft())
                size += len(batch[-1])
        sentences = self._loss_sentences()  # whose lock whoever adds a row may hold: not within ours
        warnings = self._encode_losses(sentences)
        if not batch and not warnings:
            return True
        answer = post_message(self._endpoint, self._encode_message([*batch, *warnings]), SIGNAL)
        self._report(answer.problem)
        with self._lock:
            if answer.again:
                self._waiting.extendleft(reversed(batch))
                return False
            self._bytes -= size
            rejected = len(batch) if answer.problem else min(answer.rejected, len(batch))
            self._rejected += rejected
            self._sent += len(batch) - rejected
            if not answer.problem:
                self._reported = sentences
        return not answer.problem

    def _loss_sentences(self) -> list[str]:
        own = [f"Lost {_rows(self._lost)} that the collector did not take in time"] if self._lost else []
        return [*self._losses(), *own]

    def _encode_losses(self, sentences: list[str]) -> list[bytes]:
        """A record for each loss that the collector does not know of."""
        from time import time_ns
        return [_encode_record(time_ns(), _WARN, f"{self._event_name}.lost", line, {})
                for line in sentences if line not in self._reported]

    def _report(self, problem: str) -> None:
        """Report when sending begins to fail, and when it works again."""
        if problem and not self._problem and not self._ended:
            self._complain(f"WARNING: OTLP: {self._endpoint} {problem}; rows wait, up to {MOST_WAITING >> 20} MiB")
        elif self._problem and not problem:
            self._complain(f"OTLP: {self._endpoint} takes rows again")
        self._problem = problem

    def _encode_message(self, records: list[bytes]) -> bytes:
        resource = message(_SOURCE, key_values(_ATTRIBUTES, self._facts()))
        scope = message(_SOURCE, text(1, "sonde"))
        return message(_RESOURCE_LOGS, resource + message(_CONTENT, scope + b"".join(records)))

    def finish(self) -> None:
        """What the collector does not take in time is lost."""
        self._ended = True
        self._wake.set()
        self._thread.join(LAST)
        lost = self._lost + self._rejected + len(self._waiting)
        self.failed = bool(lost) or self._thread.is_alive()
        if self.failed:
            why = self._problem or ("does not answer" if self._thread.is_alive() else "did not take all rows")
            least = "at least " if self._thread.is_alive() else ""
            self._complain(f"WARNING: OTLP: {self._endpoint} {why}: lost {least}{_rows(lost)}")

    def end_messages(self) -> list[str]:
        return [f"Sent {_rows(self._sent)}"]


def _rows(number: int) -> str:
    return f"{number} row{'' if number == 1 else 's'}"


def _join_columns(values: dict[str, ScriptValue]) -> str:
    """``NAME=value`` for each column, in quotes where a value has blanks; a single value as it is."""
    texts = {name: str(cell_value(value)) for name, value in values.items()}
    if len(texts) == 1:
        return next(iter(texts.values()))
    quoted = [(name, text if text and not set(text) & _QUOTED else '"{}"'.format(
        text.replace("\\", "\\\\").replace('"', '\\"'))) for name, text in texts.items()]
    return " ".join([f"{name}={text}" for name, text in quoted])


def _encode_record(time: int, severity: tuple[int, str], name: str, line: str, attributes: dict[str, object]) -> bytes:
    from time import time_ns
    level, word = severity
    return message(_CONTENT, fixed64(_TIME, time) + fixed64(_OBSERVED, time_ns()) + number(_SEVERITY, level)
                   + text(_SEVERITY_TEXT, word) + message(_BODY, any_value(line))
                   + key_values(_RECORD_ATTRIBUTES, attributes) + text(_EVENT_NAME, name))
