"""A strict reader of Chrome's trace-event format, as ui.perfetto.dev takes it; it knows nothing of what wrote the file.

By the format's published description ("Trace Event Format"): what each phase must have, that what begins on a thread
ends there in reverse order (B, E; X must nest among them) and with no other category, that async events (b, e) are
paired by category, process and id, and that times are microseconds.
"""

from __future__ import annotations

import json
from numbers import Real
from typing import Any

import pytest

from sonde.base.record import Record

NEEDS = {"M": {"name", "pid", "args"}, "i": {"name", "ts", "pid", "tid", "s"}, "C": {"name", "ts", "pid", "args"},
         "X": {"name", "ts", "dur", "pid", "tid"}, "B": {"name", "ts", "pid", "tid"}, "E": {"ts", "pid", "tid"},
         "b": {"name", "cat", "id2", "ts", "pid"}, "e": {"name", "cat", "id2", "ts", "pid"}}
ROUNDING = 0.002  # µs: two nanoseconds, of times that are written as floating point


class Slice(Record):
    """``begin`` and ``end`` in microseconds; ``track`` is (pid, tid)."""

    name: str
    begin: float
    end: float
    track: tuple[int, int]
    depth: int
    args: dict[str, Any]


class TraceFile(Record):
    """What the file shows."""

    slices: list[Slice]
    instants: list[dict[str, Any]]
    counters: list[dict[str, Any]]
    processes: dict[int, str]
    threads: dict[tuple[int, int], str]
    about: dict[str, Any]


def read_trace(text: str) -> TraceFile:
    """The file's contents; AssertionError where it breaks a rule."""
    whole = json.loads(text)
    assert whole["displayTimeUnit"] in ("ms", "ns")
    events: list[dict[str, Any]] = whole["traceEvents"]
    for event in events:
        assert event["ph"] in NEEDS and NEEDS[event["ph"]] <= event.keys(), event
        assert all(type(event[key]) is int for key in ("pid", "tid") if key in event), event
        assert all(isinstance(event[key], Real) and event[key] >= 0 for key in ("ts", "dur") if key in event), event
    found = TraceFile([], [e for e in events if e["ph"] == "i"], [e for e in events if e["ph"] == "C"], {}, {},
                      whole.get("otherData", {}))
    assert all(event["s"] in "tpg" for event in found.instants)
    assert all(isinstance(value, Real) for event in found.counters for value in event["args"].values())
    for event in [event for event in events if event["ph"] == "M"]:
        if event["name"] == "process_name":
            found.processes[event["pid"]] = event["args"]["name"]
        elif event["name"] == "thread_name":
            found.threads[event["pid"], event["tid"]] = event["args"]["name"]
    _calls(events, found)
    _complete(events, found)
    _async(events, found)
    return found


def _calls(events: list[dict[str, Any]], found: TraceFile) -> None:
    open: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in sorted([e for e in events if e["ph"] in "BE"], key=lambda e: e["ts"]):
        stack = open.setdefault((event["pid"], event["tid"]), [])
        if event["ph"] == "B":
            stack.append(event)
            continue
        assert stack, f"ends without a begin: {event}"
        begun = stack.pop()
        assert all(event.get(key, begun.get(key)) == begun.get(key) for key in ("name", "cat")), (begun, event)
        found.slices.append(Slice(begun["name"], begun["ts"], event["ts"], (event["pid"], event["tid"]), len(stack),
                                  begun.get("args", {})))


def _complete(events: list[dict[str, Any]], found: TraceFile) -> None:
    open: dict[tuple[int, int], list[float]] = {}  # by track: where those around end
    for event in sorted([e for e in events if e["ph"] == "X"], key=lambda e: (e["ts"], -e["dur"])):
        begin, end = event["ts"], event["ts"] + event["dur"]
        ends = open.setdefault((event["pid"], event["tid"]), [])
        while ends and ends[-1] <= begin + ROUNDING:
            ends.pop()
        assert not ends or end <= ends[-1] + ROUNDING, f"overlaps without being within: {event}"
        found.slices.append(Slice(event["name"], begin, end, (event["pid"], event["tid"]), len(ends),
                                  event.get("args", {})))
        ends.append(end)


def _async(events: list[dict[str, Any]], found: TraceFile) -> None:
    open: dict[tuple[str, int, str], dict[str, Any]] = {}
    for event in [e for e in events if e["ph"] in "be"]:
        key = (event["cat"], event["pid"], event["id2"]["local"])
        if event["ph"] == "b":
            assert key not in open, f"begins twice: {event}"
            open[key] = event
            continue
        begun = open.pop(key)
        assert begun["name"] == event["name"] and begun["pid"] == event["pid"] and begun["ts"] <= event["ts"]
        found.slices.append(Slice(begun["name"], begun["ts"], event["ts"], (event["pid"], event.get("tid", 0)), 0,
                                  begun.get("args", {})))
    assert not open, f"never end: {open}"


# ---- Perfetto's own form

PROTOS = "perfetto.protos.perfetto.trace.perfetto_trace_pb2"


class _Sequence:
    """The packets of a trace by the messages of Perfetto's own package; numbers are replaced by what they stand for."""

    def __init__(self, data: bytes) -> None:
        self.protos: Any = pytest.importorskip(PROTOS, reason="perfetto is not installed")
        trace = self.protos.Trace()
        assert trace.ParseFromString(data) == len(data)
        assert not has_unknown_fields(trace)
        self.packets = list(trace.packet)
        self.texts: list[dict[int, str]] = [{}, {}, {}]
        self.tracks: dict[int, Any] = {}
        self.clocks = {clock.clock_id: clock.timestamp for clock in self.packets[0].clock_snapshot.clocks}
        self.events: list[tuple[int, Any, str, str, dict[str, Any]]] = []  # time, event, category, name, arguments
        for at, packet in enumerate(self.packets):
            self._take(packet, first=not at)

    def _take(self, packet: Any, first: bool) -> None:
        assert packet.trusted_packet_sequence_id == 1 and packet.sequence_flags == (1 if first else 2)
        fresh = packet.interned_data
        for known, rows in zip(self.texts, (fresh.event_categories, fresh.event_names, fresh.debug_annotation_names)):
            for row in rows:
                assert row.iid and row.iid not in known
                known[row.iid] = row.name
        if packet.HasField("track_descriptor"):
            told = packet.track_descriptor
            assert told.uuid and (not told.parent_uuid or told.parent_uuid in self.tracks)
            self.tracks[told.uuid] = told
        if packet.HasField("track_event"):
            event = packet.track_event
            assert event.track_uuid in self.tracks and packet.timestamp
            args = {each.name or self.texts[2][each.name_iid]: getattr(each, each.WhichOneof("value"))
                    for each in event.debug_annotations}
            names = [*event.categories, *[self.texts[0][each] for each in event.category_iids]]
            name = event.name or (self.texts[1][event.name_iid] if event.name_iid else "")
            self.events.append((packet.timestamp, event, names[0] if names else "", name, args))
        assert packet.HasField("track_event") + packet.HasField("track_descriptor") \
            + packet.HasField("clock_snapshot") == 1


def has_unknown_fields(found: Any) -> bool:
    """Whether a message, or one in it, has fields that its descriptor does not know."""
    from google.protobuf.unknown_fields import UnknownFieldSet
    inner = [each for field, value in found.ListFields() if field.message_type is not None
             for each in (value if hasattr(value, "__len__") else [value])]
    return len(UnknownFieldSet(found)) > 0 or any(map(has_unknown_fields, inner))


def read_packets(data: bytes) -> TraceFile:
    """The contents of a trace in Perfetto's own form, as read_trace() has them of the other; counters have one row for
    each value."""
    sequence = _Sequence(data)
    kinds = sequence.protos.TrackEvent
    found = TraceFile([], [], [], {}, {}, {})
    roots = [uuid for uuid, told in sequence.tracks.items() if not told.parent_uuid and not told.HasField("process")]
    assert len(roots) == 1
    found.processes[0] = sequence.tracks[roots[0]].name
    places: dict[int, tuple[int, int]] = {roots[0]: (0, 0)}
    for uuid, told in sequence.tracks.items():
        if told.HasField("process"):
            places[uuid] = (told.process.pid, told.process.pid)
            if told.process.process_name:
                found.processes[told.process.pid] = told.process.process_name
        elif told.HasField("thread"):
            assert sequence.tracks[told.parent_uuid].process.pid == told.thread.pid
            places[uuid] = (told.thread.pid, told.thread.tid)
            if told.thread.thread_name:
                found.threads[told.thread.pid, told.thread.tid] = told.thread.thread_name
        elif uuid not in places:
            places[uuid] = (places[told.parent_uuid][0], 0)
    open: dict[int, list[tuple[int, str, dict[str, Any]]]] = {}
    for time, event, category, name, args in sorted(sequence.events, key=lambda row: row[0]):
        track = places[event.track_uuid]
        if event.type == kinds.TYPE_SLICE_BEGIN:
            open.setdefault(event.track_uuid, []).append((time, name, args))
        elif event.type == kinds.TYPE_SLICE_END:
            begin, begun, before = open[event.track_uuid].pop()
            found.slices.append(Slice(begun, begin / 1000, time / 1000, track, len(open[event.track_uuid]),
                                      before | args))
        elif event.type == kinds.TYPE_INSTANT:
            found.instants.append({"name": name, "cat": category, "ts": time / 1000, "args": args,
                                   "pid": track[0], "tid": track[1]})
        else:
            assert event.type == kinds.TYPE_COUNTER and sequence.tracks[event.track_uuid].HasField("counter")
            value = getattr(event, event.WhichOneof("counter_value_field"))
            found.counters.append({"name": sequence.tracks[event.track_uuid].name, "ts": time / 1000, "value": value})
    assert not any(open.values()), f"never end: {open}"
    found.about = next((each["args"] for each in found.instants if (each["cat"], each["name"]) == ("sonde", "run")), {})
    return found
