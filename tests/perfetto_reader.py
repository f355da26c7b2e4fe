"""A strict reader of Chrome's trace-event format, as ui.perfetto.dev takes it; it knows nothing of what wrote the file.

By the format's published description ("Trace Event Format"): what each phase must have, that what begins on a thread
ends there in reverse order (B, E; X must nest among them), that async events (b, e) are paired by category and id, and
that times are microseconds.
"""

from __future__ import annotations

import json
from numbers import Real
from typing import Any

from sonde.record import Record

NEEDS = {"M": {"name", "pid", "args"}, "i": {"name", "ts", "pid", "tid", "s"}, "C": {"name", "ts", "pid", "args"},
         "X": {"name", "ts", "dur", "pid", "tid"}, "B": {"name", "ts", "pid", "tid"}, "E": {"ts", "pid", "tid"},
         "b": {"name", "cat", "id", "ts", "pid"}, "e": {"name", "cat", "id", "ts", "pid"}}
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
        assert event.get("name", begun["name"]) == begun["name"], (begun, event)
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
    open: dict[tuple[str, str], dict[str, Any]] = {}
    for event in [e for e in events if e["ph"] in "be"]:
        key = (event["cat"], event["id"])
        if event["ph"] == "b":
            assert key not in open, f"begins twice: {event}"
            open[key] = event
            continue
        begun = open.pop(key)
        assert begun["name"] == event["name"] and begun["pid"] == event["pid"] and begun["ts"] <= event["ts"]
        found.slices.append(Slice(begun["name"], begun["ts"], event["ts"], (event["pid"], event.get("tid", 0)), 0,
                                  begun.get("args", {})))
    assert not open, f"never end: {open}"
