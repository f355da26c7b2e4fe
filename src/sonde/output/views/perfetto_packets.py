"""A trace in Perfetto's own format: the packets of its TrackEvents, by protos/perfetto/trace in its repository.

Every event of the time line (see perfetto) becomes packets of one sequence. Processes and threads have tracks; below
one of the script's own are those of its probes and the counters of its maps. Repeated strings are sent once. Times are
nanoseconds of the boot clock, in any order: the reader of the trace sorts them.
"""

from __future__ import annotations

from .wire import double, message, number, text, varint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...base.json_checks import Json, JsonObject

_SEQUENCE = 1
_CLEARED, _NEEDS = 1, 2            # TracePacket.SequenceFlags
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4  # TrackEvent.Type
_REALTIME, _BOOTTIME = 1, 6        # BuiltinClock
_SCRIPT = 1                        # the track of the script
_MOST_TEXTS = 8192                 # that are numbered; others are written out each time
_MOST_TRACKS = 1 << 16             # of counters; the values of those beyond are left out, and counted
# fields of TracePacket, TrackEvent and DebugAnnotation
_TIMESTAMP, _TRACK_EVENT, _INTERNED, _DESCRIPTOR, _CLOCKS = 8, 11, 12, 60, 6


class Packets:
    """Writes events as Chrome's format has them (``ph`` and what goes with it) but for times, which are nanoseconds."""

    def __init__(self, write: Callable[[bytes], object], title: str, boot: int, wall: int) -> None:
        self._write = write
        self._texts: list[dict[str, int]] = [{}, {}, {}]  # categories, names, names of arguments: their numbers
        self._fresh = b""           # what the next packet has to tell of them
        self._last = _SCRIPT        # the highest number of a track
        self._tracks: dict[tuple[str, int, int], int] = {}
        self._counters: dict[tuple[str, str], int] = {}
        self._async: dict[str, int] = {}
        self.left_out = 0           # values of counters
        clocks = [number(1, clock) + number(2, moment) for clock, moment in ((_BOOTTIME, boot), (_REALTIME, wall))]
        snapshot = b"".join([message(1, each) for each in clocks]) + number(2, _BOOTTIME)
        self._packet(message(_CLOCKS, snapshot) + number(_TIMESTAMP, boot), _CLEARED)
        self._describe(number(1, _SCRIPT) + text(2, title))

    def write_event(self, event: JsonObject) -> None:
        """One event."""
        phase, time, pid, tid = event["ph"], _whole(event.get("ts")), _whole(event["pid"]), _whole(event["tid"])
        if phase == "M":
            self._name_track(str(event["name"]).removesuffix("_name"), pid, tid, str(_members(event)["name"]))
        elif phase == "C":
            self._count(str(event["name"]), _members(event), time)
        elif phase == "i" and event["s"] == "g":
            self._event(_INSTANT, time, _SCRIPT, event)
        elif phase in ("i", "B"):
            self._event(_INSTANT if phase == "i" else _BEGIN, time, self._thread(pid, tid), event)
        elif phase == "E":
            self._event(_END, time, self._thread(pid, tid), {"args": event.get("args", {})})
        elif phase == "X":
            track = self._thread(pid, tid)
            self._event(_BEGIN, time, track, event)
            self._event(_END, time + _whole(event["dur"]), track, {})
        elif phase == "b":
            track = self._async[str(event["id2"])] = self._new_track(text(2, str(event["name"])), self._process(pid))
            self._event(_BEGIN, time, track, event)
        elif phase == "e":
            self._event(_END, time, self._async.pop(str(event["id2"])), {})

    # tracks

    def _thread(self, pid: int, tid: int) -> int:
        known = self._tracks.get(("thread", pid, tid))
        return known if known is not None else self._name_track("thread", pid, tid, "")

    def _process(self, pid: int) -> int:
        if pid == 0:
            return _SCRIPT
        known = self._tracks.get(("process", pid, pid))
        return known if known is not None else self._name_track("process", pid, pid, "")

    def _name_track(self, what: str, pid: int, tid: int, name: str) -> int:
        """Have a track for a process or a thread, or give it its name."""
        key = (what, pid, pid if what == "process" else tid)
        if what == "process" and pid == 0:
            return _SCRIPT  # it has its name
        if pid == 0:
            own = text(2, name or str(tid))
        elif what == "process":
            own = message(3, number(1, pid) + text(6, name))
        else:
            own = message(4, number(1, pid) + number(2, tid) + text(5, name))
        parent = 0 if what == "process" else self._process(pid)
        known = self._tracks.get(key)
        if known is None:
            known = self._tracks[key] = self._new_track(own, parent)
        else:
            self._describe(number(1, known) + number(5, parent) + own)
        return known

    def _new_track(self, own: bytes, parent: int) -> int:
        self._last += 1
        self._describe(number(1, self._last) + number(5, parent) + own)
        return self._last

    def _describe(self, descriptor: bytes) -> None:
        self._packet(message(_DESCRIPTOR, descriptor))

    def _count(self, name: str, values: JsonObject, time: int) -> None:
        for key, value in values.items():
            if not isinstance(value, int | float):
                continue
            track = self._counters.get((name, key))
            if track is None:
                if len(self._counters) >= _MOST_TRACKS:
                    self.left_out += 1
                    continue
                shown = name if key == "value" and len(values) == 1 else f"{name}[{key}]"
                track = self._counters[name, key] = self._new_track(text(2, shown) + message(8, b""), _SCRIPT)
            shown_value = number(30, value, always=True) if isinstance(value, int) else double(44, value)
            self._packet(number(_TIMESTAMP, time) + message(_TRACK_EVENT, number(9, _COUNTER) + number(11, track)
                                                            + shown_value))

    # events

    def _event(self, kind: int, time: int, track: int, event: JsonObject) -> None:
        content = number(9, kind) + number(11, track) + b"".join(
            [message(4, self._annotation(name, value)) for name, value in _members(event).items()])
        if "name" in event:
            content += self._text(0, str(event.get("cat", "")), 3, 22) + self._text(1, str(event["name"]), 10, 23)
        self._packet(number(_TIMESTAMP, time) + message(_TRACK_EVENT, content))

    def _annotation(self, name: str, value: Json) -> bytes:
        head = self._text(2, name, 1, 10)
        if isinstance(value, bool):
            return head + number(2, value, always=True)
        if isinstance(value, int) and -1 << 63 <= value < 1 << 63:
            return head + number(4, value, always=True)
        if isinstance(value, float):
            return head + double(5, value)
        return head + message(6, str(value).encode("utf-8", "replace"))

    def _text(self, kind: int, value: str, numbered: int, plain: int) -> bytes:
        """A text by its number, or as it is; those that are new are told with the packet."""
        known = self._texts[kind]
        if value not in known:
            if len(known) >= _MOST_TEXTS:
                return text(plain, value)
            known[value] = len(known) + 1
            self._fresh += message(kind + 1, number(1, known[value]) + text(2, value))
        return number(numbered, known[value])

    def _packet(self, content: bytes, flags: int = _NEEDS) -> None:
        if self._fresh:
            content += message(_INTERNED, self._fresh)
            self._fresh = b""
        content += number(10, _SEQUENCE) + number(13, flags)
        self._write(varint(1 << 3 | 2) + varint(len(content)) + content)


def flatten(members: JsonObject) -> Iterator[tuple[str, Json]]:
    """(name, text or number) of what is in an object, with dots between the names of what lies in another."""
    for name, value in members.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{inner}", each) for inner, each in flatten(value))
        else:
            yield name, value if isinstance(value, int | float | str) else str(value)


def _whole(value: Json) -> int:
    return value if isinstance(value, int) else 0


def _members(event: JsonObject) -> JsonObject:
    args = event.get("args", {})
    return args if isinstance(args, dict) else {}
