"""``-f perfetto``: events on a time line, in Chrome's trace-event format, which ui.perfetto.dev opens.

What a script prints with printf() and print() becomes an instant on the track of its probe. A record can say more by
the names of its members: ``print((name="read", pid=pid, tid=tid, dur=$nanoseconds))`` is a slice that ends at the time
of the event, on the track of that thread. Maps of numbers that are printed at intervals become counters.
"""

from __future__ import annotations

from typing import Any

from ... import types as t
from ...runtime.events import Event
from ...runtime.values import RecordValue, StackTrace, key_text, to_text
from ...spec import EventSite, MapSpec, ScriptSpec
from .stacks import clean, frame_names
from .view import Items, is_printed
from .view import View as Base

_NAMED = ("name", "pid", "tid", "comm", "dur")  # members of a record that are not arguments but the event itself
_COUNTED = ("count", "sum", "min", "max", "avg")
LONGEST = 120  # characters of a name that is a printf()'s text


class View(Base):
    """Writes events as they come; the file is whole when the run is over."""

    needs = "events (printf, print), or maps of numbers that are printed at intervals"
    example = 'tracepoint:sched:sched_process_exec { printf("%d %s", pid, str(args.filename)); }'

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        import json
        self._dump = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode
        self._separator = ""
        self._known: set[tuple[int, int]] = set()  # tracks that have a name
        self._latest = 0  # µs: time of the last event
        self.write('{"displayTimeUnit":"ns","traceEvents":[\n')
        self._add({"ph": "M", "name": "process_name", "pid": 0, "tid": 0,
                   "args": {"name": self.target.title or "sonde"}})

    @classmethod
    def shows_map(cls, named: MapSpec, spec: ScriptSpec) -> bool:
        value = named.value
        counted = value.kind in _COUNTED if isinstance(value, t.Aggregate) else isinstance(value, t.Int)
        return counted and is_printed(named, spec)

    @classmethod
    def shows_event(cls, site: EventSite) -> bool:
        return site.kind in ("printf", "print") and "severity" not in site.data and "map" not in site.data

    def map(self, named: MapSpec, items: Items, time: int, then: str) -> None:
        if items and then != "final":
            counts = {clean(key_text(key)) if key is not None else "value": int(value) for key, value in items}
            self._add({"ph": "C", "name": named.name, "pid": 0, "tid": 0, "ts": time / 1000, "args": counts})

    def event(self, event: Event, site: EventSite, text: str) -> None:
        value = event.args[0] if site.kind == "print" else None
        members = value._asdict() if isinstance(value, RecordValue) else {}
        shown = text if site.kind == "printf" else to_text(value)
        name = clean(to_text(members.get("name", shown)).strip())[:LONGEST] or event.probe or site.kind
        arguments = members or {str(i): each for i, each in enumerate(event.args, 1)}
        found = {"name": name, "cat": event.probe or site.kind, **self._track(event, members),
                 "args": {key: plain(each) for key, each in arguments.items() if key not in _NAMED}}
        duration = _number(members.get("dur"))
        if duration is not None and duration >= 0:
            self._add(found | {"ph": "X", "ts": (event.time - duration) / 1000, "dur": duration / 1000})
        else:
            self._add(found | {"ph": "i", "s": "t", "ts": event.time / 1000})

    def _track(self, event: Event, members: dict[str, Any]) -> dict[str, int]:
        """Process and thread of an event: those of the record, else a track of the script for each probe."""
        tid, pid = _number(members.get("tid")), _number(members.get("pid"))
        if tid is None and pid is None:
            probe = self.spec.probes.index(event.probe) + 1 if event.probe in self.spec.probes else 0
            return self._named_track(0, probe, event.probe)
        own = [number for number in (pid, tid) if number is not None]
        return self._named_track(own[0], own[-1], to_text(members.get("comm", "")))

    def _named_track(self, pid: int, tid: int, name: str) -> dict[str, int]:
        if name and (pid, tid) not in self._known:
            self._known.add((pid, tid))
            self._add({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": clean(name)}})
        return {"pid": pid, "tid": tid}

    def _add(self, event: dict[str, Any]) -> None:
        self._latest = max(self._latest, event.get("ts", 0))
        self.write(self._separator + self._dump(event))
        self._separator = ",\n"

    def finish(self) -> None:
        for line in self.run.lost if self.run is not None else ():
            self._add({"ph": "i", "s": "g", "name": line, "cat": "lost", "pid": 0, "tid": 0, "ts": self._latest})
        run = f',"otherData":{self._dump(self.run.as_json())}' if self.run is not None else ""
        self.write(f"\n]{run}}}\n")


def _number(value: Any) -> int | None:
    return int(value) if isinstance(value, int) else None


def plain(value: Any) -> Any:
    """A value as JSON has it: numbers (those that JavaScript keeps exactly) and texts."""
    if type(value) in (int, bool):
        return value if abs(value) <= 1 << 53 else str(value)
    if isinstance(value, StackTrace):
        return ";".join(reversed(frame_names(value)))
    return clean(to_text(value))
