"""``-f perfetto``: events on a time line for ui.perfetto.dev: in Chrome's trace-event format or, for a file with such a
suffix (BINARY), in Perfetto's own (see perfetto_packets). The first is text, which goes through pipes and into any
program, and is therefore the default; the second is smaller, and has a track for each counter.

What a script prints with printf() and print() becomes an instant on the track of its probe, or of a process and thread
if it prints ``pid`` or ``tid``. With a ``dur`` (nanoseconds) it is a slice that ends at the time of the event, and
``name`` names it. So are the lines of a tool's table with a column of durations (LAT(us), MS, AGE(s)), and so is a call
whose entry and return (sys_enter_ and sys_exit_, kprobe and kretprobe ...) are both printed with ``tid``. Maps of
numbers printed at intervals become counters.

Slices of a thread nest, as calls do (phase ``X``). Slices that belong only to a process may overlap, as the lives of
its connections do: each has its own id, unique within the process, and thus a track beside the others there (phases
``b`` and ``e``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ... import types as t
from ...base.numbers import parse_whole
from ...base.quantities import NANOSECONDS
from ...base.record import Record
from ...runtime.records.events import Event
from ...runtime.records.values import Items, RecordValue, ScriptValue, StackTrace, key_text, to_text
from ...spec import EventSite, MapSpec, ScriptSpec
from ..table_rows import RowCell
from .csv import event_columns, event_values
from .stacks import clean_text, frame_names
from .view import View as Base
from .view import is_printed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...base.json_checks import JsonObject
    from .perfetto_packets import Packets

_NAMED = ("name", "pid", "tid", "comm", "dur")  # members of a record that are not arguments but the event itself
_DURATION = re.compile(r"(?:LAT|DUR|AGE)?\(?(s|ms|us|ns)\)?", re.IGNORECASE)  # a tool's column of how long it took
# Probes at a call's entry and return; ``what`` is the same of both.
_ENTRY = re.compile(r"tracepoint:syscalls:sys_enter_(?P<what>.*)|(?:kprobe|uprobe|fentry):(?P<target>.*)")
_RETURN = re.compile(r"tracepoint:syscalls:sys_exit_(?P<what>.*)|(?:kretprobe|uretprobe|fexit):(?P<target>.*)")
BINARY = (".pftrace", ".perfetto-trace")  # how files are called that are to be in Perfetto's own form
PID_BITS = 22  # Linux gives no greater number to a process; Perfetto knows 32 bits of it
LONGEST = 120  # characters of a name that is a printf()'s text


class EventOrigin(Record):
    """Where an event belongs, as far as it says that; ``host``: in a fleet."""

    probe: str
    host: str
    pid: int | None
    tid: int | None
    comm: str

    def name(self, name: str) -> str:
        """A name, with the host's before it."""
        return ": ".join([part for part in (self.host, name) if part])


class PerfettoView(Base):
    """Writes events as they come; the file is whole when the run is over."""

    needs = "events (printf, print), or maps of numbers that are printed at intervals"
    example = 'tracepoint:sched:sched_process_exec { printf("%d %s", pid, str(args.filename)); }'
    takes_rows = True

    def prepare(self) -> None:
        self._packets: Packets | None = None
        if self.target.suffix in BINARY:
            from .perfetto_packets import Packets
            now = self.context.boot_time()
            self._packets = Packets(self.write, self.target.title or "sonde", now, self.context.wall_clock(now, "boot"))
        self._prepare_text()

    def _prepare_text(self) -> None:
        import json
        self._dump = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode
        self._separator = ""
        self._known: set[tuple[str, int, int]] = set()  # tracks that have a name
        self._rows = {probe: number for number, probe in enumerate(self.spec.probes, 1)}  # tracks of probes
        self._hosts: dict[str, int] = {}  # of a fleet, in the order of their first events
        self._slices = 0  # that have an id
        self._entries, self._returns = _calls(self.spec.probes)
        self._open: dict[tuple[int, int], list[str]] = {}  # by thread: calls that have not returned
        self._latest = 0  # ns: time of the last event
        if self._packets is None:
            self.write('{"displayTimeUnit":"ns","traceEvents":[\n')
        self._write_event({"ph": "M", "name": "process_name", "pid": 0, "tid": 0,
                           "args": {"name": self.target.title or "sonde"}})

    @classmethod
    def shows_map(cls, named: MapSpec, spec: ScriptSpec) -> bool:
        value = named.value
        counted = value.row.number if isinstance(value, t.Aggregate) else isinstance(value, t.Int)
        return counted and is_printed(named, spec)

    @classmethod
    def shows_event(cls, site: EventSite) -> bool:
        return site.shows

    def add_map(self, named: MapSpec, items: Items, time: int, then: str) -> None:
        if items and then != "final":
            counts = {clean_text(key_text(key)) if key is not None else "value": _as_count(value)
                      for key, value in items}
            self._write_event({"ph": "C", "name": named.name, "pid": 0, "tid": 0, "ts": time, "args": counts})

    def add_event(self, event: Event, site: EventSite, text: str) -> None:
        value = event.args[0] if site.kind == "print" else None
        members = value._asdict() if isinstance(value, RecordValue) \
            else dict(zip(event_columns(site), event_values(event, site)))
        shown = text if site.kind == "printf" else to_text(value)
        origin = EventOrigin(event.probe, ": ".join([getattr(event, name) for name in self.target.lead]),
                             _as_int(members.get("pid")), _as_int(members.get("tid")),
                             to_text(members.get("comm", "")))
        category = origin.name(event.probe) or site.kind
        self._event({"name": clean_text(to_text(members.get("name", shown)).strip())[:LONGEST] or category,
                     "cat": category,
                     "args": {key: json_value(each) for key, each in members.items() if key not in _NAMED}},
                    event.time, origin, _as_int(members.get("dur")))

    def row(self, cells: Sequence[RowCell], time: int, probe: str, table: str = "") -> None:
        values = {name: clean_text(text) for name, text, _ in cells}
        tool = table or self.target.title or "sonde"
        texts = [clean_text(text) for name, text, number in cells if not number
                 and not name.startswith(("TIME", "COMM"))]
        name = texts[-1] if texts and any(map(str.isalnum, texts[-1])) else tool
        self._event({"name": name[:LONGEST], "cat": tool,
                     "args": {name: _decimal(text) if number else clean_text(text) for name, text, number in cells}},
                    time, EventOrigin(probe, values.get("HOST", "") if self.target.lead else "",
                                      _whole(values.get("PID")), _whole(values.get("TID")), values.get("COMM", "")),
                    _duration(values))

    def _event(self, event: JsonObject, time: int, origin: EventOrigin, duration: int | None) -> None:
        """An instant, or with a duration (ns) a slice that ends then."""
        track = self._event_track(origin)
        event |= track
        is_call = origin.probe in self._entries or origin.probe in self._returns
        if origin.tid is not None and duration is None and is_call:
            self._call_event(event, time, origin.probe, (track["pid"], track["tid"]))
        elif duration is None or duration < 0:
            self._write_event(event | {"ph": "i", "s": "t", "ts": time})
        elif origin.tid is not None:
            self._write_event(event | {"ph": "X", "ts": time - duration, "dur": duration})
        else:
            self._slices += 1
            event["id2"] = {"local": f"0x{self._slices:x}"}
            self._write_event(event | {"ph": "b", "ts": time - duration})
            self._write_event({key: event[key] for key in ("name", "cat", "id2", "pid", "tid")} | {"ph": "e",
                                                                                                   "ts": time})

    def _call_event(self, event: JsonObject, time: int, probe: str, thread: tuple[int, int]) -> None:
        """The begin or end of a call. What it called and is still open has ended too: that return was not printed."""
        calls = self._open.setdefault(thread, [])
        if probe in self._entries:
            calls.append(self._entries[probe])
            self._write_event(event | {"ph": "B", "name": calls[-1], "ts": time})
            return
        call = self._returns[probe]
        if call not in calls:  # it was under way when the tracing began
            self._write_event(event | {"ph": "i", "s": "t", "ts": time})
            return
        del event["cat"]  # the return's own; what ends a slice may only have the category with which it began
        while calls:
            ended = calls.pop()
            self._write_event((event if ended == call else {"pid": event["pid"], "tid": event["tid"]})
                              | {"ph": "E", "name": ended, "ts": time})
            if ended == call:
                return

    def _event_track(self, origin: EventOrigin) -> dict[str, int]:
        """Process and thread of an event where these are known, else a track of the script for each probe. A fleet's
        hosts have processes of their own."""
        first = self._hosts.setdefault(origin.host, len(self._hosts)) << PID_BITS if origin.host else 0
        if origin.pid is None and origin.tid is None or first >> 32:
            name = origin.name(origin.probe)
            number = self._rows.setdefault(name, len(self._rows) + 1) if name else 0
            self._name_track("thread", 0, number, name)
            return {"pid": 0, "tid": number}
        process = first + (origin.pid if origin.pid is not None else origin.tid or 0)
        thread = first + (origin.tid if origin.tid is not None else origin.pid or 0)
        if origin.pid is not None:
            self._name_track("process", process, process, origin.name(origin.comm))
        self._name_track("thread", process, thread, origin.name(origin.comm))
        return {"pid": process, "tid": thread}

    def _name_track(self, what: str, pid: int, tid: int, name: str) -> None:
        """Give a process or a thread its name."""
        if name and (what, pid, tid) not in self._known:
            self._known.add((what, pid, tid))
            self._write_event({"ph": "M", "name": f"{what}_name", "pid": pid, "tid": tid,
                               "args": {"name": clean_text(name)}})

    def _write_event(self, event: JsonObject) -> None:
        """An event of Chrome's format, but for its times, which are nanoseconds."""
        time = event.get("ts")
        if isinstance(time, int):
            self._latest = max(self._latest, time)
        if self._packets is not None:
            self._packets.write_event(event)
            return
        micros = {key: value / 1000 for key, value in event.items() if key in ("ts", "dur") and isinstance(value, int)}
        self.write(self._separator + self._dump(event | micros))
        self._separator = ",\n"

    def finish(self) -> None:
        for line in self.run.lost if self.run is not None else ():
            self._write_event({"ph": "i", "s": "g", "name": line, "cat": "lost", "pid": 0, "tid": 0,
                               "ts": self._latest})
        if self._packets is not None:
            self._finish_packets(self._packets)
            return
        run = f',"otherData":{self._dump(self.run.as_json())}' if self.run is not None else ""
        self.write(f"\n]{run}}}\n")


    def _finish_packets(self, packets: Packets) -> None:
        if packets.left_out:
            self._write_event({"ph": "i", "s": "g", "name": f"{packets.left_out} values of counters left out: too many",
                               "cat": "lost", "pid": 0, "tid": 0, "ts": self._latest})
        if self.run is not None:
            from .perfetto_packets import flatten
            self._write_event({"ph": "i", "s": "g", "name": "run", "cat": "sonde", "pid": 0, "tid": 0,
                               "ts": self._latest, "args": dict(flatten(self.run.as_json()))})


def _as_int(value: ScriptValue) -> int | None:
    return int(value) if isinstance(value, int) else None


def _as_count(value: ScriptValue) -> int | float | None:
    """A counter's value; those of 2**63 and more as floating point, for readers that have 64 bits with a sign."""
    if isinstance(value, float):
        return float(value) if value - value == 0 else None
    whole = _as_int(value)
    return whole if whole is None or whole < 1 << 63 else float(whole)


def _calls(probes: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The calls of a script's probes at entries and at returns, where it has both; by probe."""
    entries, returns = [{probe: match["what"] or match["target"]
                         for probe in probes if (match := form.fullmatch(probe))} for form in (_ENTRY, _RETURN)]
    return ({probe: call for probe, call in entries.items() if call in returns.values()},
            {probe: call for probe, call in returns.items() if call in entries.values()})


def _whole(text: str | None) -> int | None:
    return parse_whole(text) if text is not None else None


def _decimal(text: str) -> int | float | str:
    """A cell's number; what is too great for JavaScript stays text."""
    try:
        return json_value(int(text)) if "." not in text else float(text)
    except ValueError:
        return text


def _duration(row: dict[str, str]) -> int | None:
    """Nanoseconds of the first column that has durations."""
    for name, text in row.items():
        unit = _DURATION.fullmatch(name)
        number = _decimal(text) if unit is not None else ""
        if unit is not None and not isinstance(number, str):
            return round(number * NANOSECONDS[unit[1].lower()])
    return None


def json_value(value: ScriptValue) -> int | str:
    """A value as JSON has it: numbers (those that JavaScript keeps exactly) and texts."""
    if type(value) is int or isinstance(value, bool):
        return value if abs(value) <= 1 << 53 else str(value)
    if isinstance(value, StackTrace):
        return ";".join(reversed(frame_names(value)))
    return clean_text(to_text(value))
