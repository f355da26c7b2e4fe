"""Rows as log records: what is sent, read by OpenTelemetry's own package; what a collector refuses or is late with."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from decoding import Names
from sonde import types as t
from sonde.exporters import otlp_http, otlp_logs, otlp_profiles
from sonde.exporters.otlp_http import Answer
from sonde.exporters.otlp_logs import LogsExporter
from sonde.runtime.records.events import EventDecoder
from sonde.spec import Column, Config, EventField, EventSite, FormatPart, ScriptSpec


class Collector:
    """Answers in turn, the last one for ever; ``bodies`` are the messages."""

    def __init__(self, *answers: Answer) -> None:
        self.bodies: list[bytes] = []
        self.asked = threading.Semaphore(0)
        self._answers = [*answers]

    def post(self, endpoint: str, body: bytes, signal: str) -> Answer:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        self.bodies.append(body)
        self.asked.release()
        return answer

    def records(self) -> list[Any]:
        service = pytest.importorskip("opentelemetry.proto.collector.logs.v1.logs_service_pb2",
                                      reason="opentelemetry-proto is not installed")
        read = []
        for body in self.bodies:
            request = service.ExportLogsServiceRequest()
            assert request.ParseFromString(body) == len(body)
            read += [record for resource in request.resource_logs for scope in resource.scope_logs
                     for record in scope.log_records]
        return read


@pytest.fixture
def collect(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Collector]]:
    def start(*answers: Answer) -> Collector:
        made = Collector(*answers)
        monkeypatch.setattr(otlp_logs, "post_message", made.post)
        monkeypatch.setattr(otlp_profiles, "post_message", made.post)
        return made
    monkeypatch.setattr(otlp_logs, "WAIT", 0.01)
    monkeypatch.setattr(otlp_logs, "LAST", 60.0)
    yield start


SITE = EventSite("printf", None, [EventField(t.Str(16), 16, "comm"), EventField(t.UINT64, 32, "big"),
                                  EventField(t.DOUBLE, 40, "share")], 48,
                 [FormatPart("by "), FormatPart("", "s"), FormatPart(" big="), FormatPart("", "u"), FormatPart(", "),
                  FormatPart("", "f"), FormatPart("\n")])
ROW = EventSite("printf", None, SITE.fields, 48, [*SITE.parts], {"table": "x"},
                [Column("COMM", 1, 2), Column("BIG", 3, 4), Column("SHARE", 5, 6)])


class Logs:
    """An exporter of the records of one site."""

    def __init__(self, site: EventSite = SITE, losses: Callable[[], list[str]] = list) -> None:
        self.said: list[str] = []
        spec = ScriptSpec([], [], [site], [], ["tracepoint:a:b"], [], Config())
        self.exporter = LogsExporter("", spec, Names(), lambda: {"host.name": "h", "process.pid": 7}, losses,
                                     self.said.append, "tool")
        self.add = self.exporter.row_handler(0, site, EventDecoder(spec, Names()).decode)

    def add_row(self, number: int, comm: bytes = b"cat") -> None:
        self.add(struct.pack("=IIQ16sQd", 0, 0, 10**9, comm, number, number / 4), 0)

    def finish(self) -> list[str]:
        self.exporter.finish()
        return self.said


def attributes(record: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in record.attributes}


def test_a_row_is_a_record_with_its_columns(collect: Callable[..., Collector]) -> None:
    collector, logs = collect(Answer()), Logs()
    logs.add_row(6)
    logs.add_row(1 << 63, b"a \xff")
    assert logs.finish() == [] and not logs.exporter.failed and logs.exporter.end_messages() == ["Sent 2 rows"]
    first, second = collector.records()
    assert first.body.string_value == "by cat big=6, 1.500000"
    assert second.body.string_value.startswith("by a \ufffd big=")
    assert attributes(first) == {"sonde.probe": "tracepoint:a:b", "comm": "cat", "big": 6, "share": 1.5}
    assert attributes(second)["big"] == str(1 << 63), "64 bits with a sign do not hold it"
    assert first.time_unix_nano == Names().wall_clock(10**9, "boot") and first.observed_time_unix_nano > 0
    assert (first.severity_number, first.severity_text, first.event_name) == (9, "INFO", "sonde.tool")


def test_the_text_of_a_tables_row_has_its_columns(collect: Callable[..., Collector]) -> None:
    collector, logs = collect(Answer()), Logs(ROW)
    logs.add_row(6, b'a "b"')
    logs.finish()
    record, = collector.records()
    assert record.body.string_value == 'COMM="a \\"b\\"" BIG=6 SHARE=1.5'
    assert attributes(record) == {"sonde.probe": "tracepoint:a:b", "COMM": 'a "b"', "BIG": 6, "SHARE": 1.5}


def test_rows_wait_for_a_collector_in_order_and_none_is_sent_twice(collect: Callable[..., Collector]) -> None:
    away = Answer("cannot be reached: x", True)
    collector, logs = collect(away, away, Answer()), Logs()
    for number in range(20):
        logs.add_row(number)
    while len(collector.bodies) < 3:
        collector.asked.acquire(timeout=60)
    url = "http://127.0.0.1:4318/v1/logs"
    assert logs.finish() == [f"WARNING: OTLP: {url} cannot be reached: x; rows wait, up to 8 MiB",
                             f"OTLP: {url} takes rows again"]
    sent = collector.bodies
    collector.bodies = [body for index, body in enumerate(sent) if index >= 2]
    assert [attributes(record)["big"] for record in collector.records()] == [*range(20)]


def test_what_is_lost_is_counted_said_and_sent(collect: Callable[..., Collector],
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_logs, "MOST_WAITING", 600)
    monkeypatch.setattr(otlp_logs, "WAIT", 60.0)
    collector, logs = collect(Answer(), Answer(rejected=0)), Logs(losses=lambda: ["Lost 3 events: 3 of x"])
    for number in range(20):
        logs.add_row(number)
    said, = logs.finish()
    records = collector.records()
    rows = [record for record in records if record.severity_text == "INFO"]
    lost = 20 - len(rows)
    assert 0 < len(rows) < 20 and logs.exporter.failed and said.endswith(f": lost {lost} rows")
    assert [record.body.string_value for record in records if record.severity_text == "WARN"] == [
        "Lost 3 events: 3 of x", f"Lost {lost} rows that the collector did not take in time"]


def test_losses_are_asked_with_no_lock_of_the_rows(collect: Callable[..., Collector]) -> None:
    """Whoever adds a row holds the lock of those who ask what was lost."""
    collect(Answer())
    outer, asked = threading.Lock(), threading.Semaphore(0)

    def losses() -> list[str]:
        asked.release()
        with outer:
            return []
    logs = Logs(losses=losses)
    for number in range(50):
        with outer:
            asked.acquire(timeout=0.02)  # the sender waits for us now, or has nothing to send
            adding = threading.Thread(target=logs.add_row, args=(number,), daemon=True)
            adding.start()
            adding.join(60)
            assert not adding.is_alive()
    assert logs.finish() == []


def test_what_a_collector_refuses_is_lost(collect: Callable[..., Collector]) -> None:
    collect(Answer("answers with status 400", False))
    logs = Logs()
    logs.add_row(1)
    assert any(line.endswith("answers with status 400: lost 1 row") for line in logs.finish())
    assert logs.exporter.failed
    collect(Answer(rejected=1))
    logs = Logs()
    logs.add_row(1)
    logs.add_row(2)
    assert logs.finish()[-1].endswith("did not take all rows: lost 1 row")


def test_an_answer_says_how_many_were_rejected() -> None:
    service = pytest.importorskip("opentelemetry.proto.collector.logs.v1.logs_service_pb2",
                                  reason="opentelemetry-proto is not installed")
    answer = service.ExportLogsServiceResponse()
    assert otlp_http.read_rejected(answer.SerializeToString()) == 0
    answer.partial_success.error_message = "a warning"
    assert otlp_http.read_rejected(answer.SerializeToString()) == 0
    answer.partial_success.rejected_log_records = 1234
    assert otlp_http.read_rejected(answer.SerializeToString()) == 1234
    for junk in (b"\x0a", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"<html>", b"\x80" * 40, b"\x0a\x02\x08"):
        assert otlp_http.read_rejected(junk) == 0


def test_a_header_that_is_none_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret\nword")
    with socket.create_server(("127.0.0.1", 0)) as server:
        answer = otlp_http.post_message(f"http://127.0.0.1:{server.getsockname()[1]}/v1/logs", b"", "LOGS")
    assert answer.problem.startswith("cannot be asked: ") and "secret" not in answer.problem


@pytest.mark.parametrize("setting", ["a=b%20c, d = e ", "x", "=y", ""])
def test_headers_of_the_environment(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", setting)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "d=f" if setting[:1] == "a" else "")
    assert otlp_http.user_headers("LOGS") == ({"a": "b c", "d": "f"} if setting[:1] == "a" else {})
