"""Names in a recording: what the run's context answered, in order, and a context that replays the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from .. import types as t
from ..base.json_checks import Json, as_row
from ..runtime.records.source_text import SourceText
from ..runtime.records.values import DecodingContext, NamedNumber, ScriptValue, StackTrace, UserAddress
from ..spec import ScriptSpec
from .container import RecordingError

ENTRY = 200  # bytes that an answer takes besides its texts, about
MOST_UNWOUND = 1 << 14  # stacks that are known by number; a stack that recurs later gets another one

_TEXT, _NUMBER = str, int
# Question -> the shapes of its argument and of its answer; an answer may also be null, except lists and texts.
_SHAPES: dict[str, tuple[list[type], type | list[type] | str]] = {
    "ksym": ([int], [str, int]), "usym": ([int, int], [str, int, str]), "build_id": ([int, int], [str, int]),
    "user_name": ([int], str), "syscall_name": ([int], str), "cgroup_path": ([int, str], str),
    "group_name": ([str, int], str), "code_places": ([int, int], "places"),
    "stack_frames": ([int], "numbers"), "unwound": ([int], "numbers")}

Argument = tuple[int | str, ...]
Answer = str | Sequence[int] | Sequence[tuple[str, str, int]] | tuple[str, int] | tuple[str, int, str] | None
Tell = Callable[[str, Argument, Answer], object]  # (question, argument, answer)
A = TypeVar("A", bound=Answer)


class NameRecorder:
    """The context of a run that is recorded: its answers are also recorded. ``moment`` is the time of what is being
    delivered, in nanoseconds of the boot clock."""

    def __init__(self, live: DecodingContext, tell: Tell) -> None:
        self._live = live
        self.text_size, self.trailer = live.text_size, live.trailer
        self.probe_name, self.wall_clock, self.close = live.probe_name, live.wall_clock, live.close
        self._tell = tell
        self._unwound: dict[tuple[int, ...], int] = {}
        self._numbered = 0
        self.moment = 0
        self.last_unwound = 0

    def ksym(self, address: int) -> tuple[str, int] | None:
        return self._record("ksym", (address,), self._live.ksym(address))

    def usym(self, address: int, tgid: int) -> tuple[str, int, str] | None:
        return self._record("usym", (address, tgid), self._live.usym(address, tgid))

    def code_places(self, address: int, tgid: int) -> Sequence[tuple[str, str, int]]:
        """The live context's answer; an empty one is not recorded."""
        locations = self._live.code_places(address, tgid)
        if locations:
            self._tell("code_places", (address, tgid), locations)
        return locations

    def source_text(self, file: str, tgid: int) -> SourceText | None:
        """The live context's answer, which is not recorded."""
        return self._live.source_text(file, tgid)

    def build_id(self, address: int, tgid: int) -> tuple[str, int] | None:
        return self._record("build_id", (address, tgid), self._live.build_id(address, tgid))

    def user_name(self, uid: int) -> str:
        return self._record("user_name", (uid,), self._live.user_name(uid))

    def syscall_name(self, number: int) -> str:
        return self._record("syscall_name", (number,), self._live.syscall_name(number))

    def cgroup_path(self, cgroup: int, filter: str) -> str:
        return self._record("cgroup_path", (cgroup, filter), self._live.cgroup_path(cgroup, filter))

    def group_name(self, kind: str, cgroup: int) -> str:
        return self._record("group_name", (kind, cgroup), self._live.group_name(kind, cgroup))

    def stack_frames(self, stack: int) -> Sequence[int]:
        return self._record("stack_frames", (stack,), self._live.stack_frames(stack))

    def unwind_stack(self, registers: dict[str, int], stack: bytes, base: int, tgid: int, limit: int) -> Sequence[int]:
        """As the live context does it; the frames get a number, under which they are recorded."""
        frames: Sequence[int] = self._live.unwind_stack(registers, stack, base, tgid, limit)
        known = self._unwound.get(tuple(frames))
        if known is None:
            if len(self._unwound) >= MOST_UNWOUND:
                self._unwound.clear()
            self._numbered += 1
            known = self._unwound[tuple(frames)] = self._numbered
            self._tell("unwound", (known,), list(frames))
        self.last_unwound = known
        return frames

    def boot_time(self) -> int:
        """The time of what is being delivered."""
        return self.moment

    def _record(self, question: str, argument: Argument, answer: A) -> A:
        self._tell(question, argument, answer)
        return answer


class RecordedNames:
    """The context of a replay: it knows the answers of the run's context, as far as the recording has been read."""

    def __init__(self, spec: ScriptSpec, clocks: dict[str, int], memory: int) -> None:
        self.text_size = spec.config.text_size
        self.trailer = spec.config.str_trunc_trailer
        self.moment = 0
        self._probes = spec.probes
        self._clocks = clocks
        self._room = memory
        self._known: dict[tuple[Json, ...], Any] = {}

    def learn(self, entries: Json) -> None:
        """Take answers as in the file: [question, argument, answer]. RecordingError if they are invalid."""
        if not isinstance(entries, list):
            raise RecordingError("names are no list")
        for entry in entries:
            question, argument, answer = as_row(entry, 3)
            if not isinstance(argument, list) or not _is_answer(question, argument, answer):
                raise RecordingError("a name is none")
            self._room -= ENTRY + (8 * len(answer) if isinstance(answer, list) else 0) + _text_bytes(answer)
            if self._room < 0:
                raise RecordingError("it has more names than there is room for", hints=["--memory gives it more room"])
            self._known[(question, *argument)] = tuple(answer) if isinstance(answer, list) else answer

    def ksym(self, address: int) -> tuple[str, int] | None:
        return self._known.get(("ksym", address))

    def usym(self, address: int, tgid: int) -> tuple[str, int, str] | None:
        return self._known.get(("usym", address, tgid))

    def code_places(self, address: int, tgid: int) -> Sequence[tuple[str, str, int]]:
        locations: Sequence[tuple[str, str, int]] = self._known.get(("code_places", address, tgid), ())
        return locations

    def source_text(self, file: str, tgid: int) -> SourceText | None:
        """A recording has no source files."""
        return None

    def build_id(self, address: int, tgid: int) -> tuple[str, int] | None:
        return self._known.get(("build_id", address, tgid))

    def user_name(self, uid: int) -> str:
        return str(self._known.get(("user_name", uid), uid))

    def syscall_name(self, number: int) -> str:
        return str(self._known.get(("syscall_name", number), "Unknown syscall"))

    def cgroup_path(self, cgroup: int, filter: str) -> str:
        return str(self._known.get(("cgroup_path", cgroup, filter), ""))

    def group_name(self, kind: str, cgroup: int) -> str:
        return str(self._known.get(("group_name", kind, cgroup), ""))

    def stack_frames(self, stack: int) -> Sequence[int]:
        return self._frames("stack_frames", stack)

    def unwind_stack(self, registers: dict[str, int], stack: bytes, base: int, tgid: int, limit: int) -> Sequence[int]:
        """The first register holds the number of the frames: see recorder."""
        return self._frames("unwound", next(iter(registers.values()), 0))

    def _frames(self, question: str, number: int) -> Sequence[int]:
        frames: Sequence[int] = self._known.get((question, number), ())
        return frames

    def probe_name(self, index: int) -> str:
        return self._probes[index] if 0 <= index < len(self._probes) else str(index)

    def wall_clock(self, nanoseconds: int, clock: str) -> int:
        return nanoseconds + self._clocks.get(clock, self._clocks["boot"])

    def boot_time(self) -> int:
        return self.moment

    def close(self) -> None:
        """Nothing is held."""


def _text_bytes(answer: Json) -> int:
    if isinstance(answer, list):
        return sum([_text_bytes(each) for each in answer])
    return len(answer) if isinstance(answer, str) else 0


def _is_answer(question: Json, argument: list[Json], answer: Json) -> bool:
    if not isinstance(question, str) or question not in _SHAPES:
        return False
    shape, form = _SHAPES[question]
    if list(map(type, argument)) != shape:
        return False
    if form == "numbers":
        return isinstance(answer, list) and all(type(each) is int and 0 <= each < 1 << 64 for each in answer)
    if form == "places":
        return isinstance(answer, list) and all(
            isinstance(each, list) and list(map(type, each)) == [_TEXT, _TEXT, _NUMBER] for each in answer)
    if isinstance(form, list):
        return answer is None or isinstance(answer, list) and list(map(type, answer)) == form
    return type(answer) is form


def has_names(type: t.Type) -> bool:
    """Whether printing a value of the type needs what only the run's machine knows."""
    if isinstance(type, t.Tuple):
        return any(map(has_names, type.of))
    return isinstance(type, t.USym | t.Stack) \
        or isinstance(type, t.Symbol) and type.kind in ("ksym", "username", "syscall_name", "cgroup_path", *t.GROUPS)


def ask_names(value: ScriptValue) -> None:
    """Ask the context of a decoded value for everything that any output format might."""
    if isinstance(value, NamedNumber | UserAddress):
        str(value)
    elif isinstance(value, StackTrace):
        _ask_frames(value)
    elif isinstance(value, tuple):
        for each in value:
            ask_names(each)


def _ask_frames(stack: StackTrace) -> None:
    for _ in stack.frames:
        pass
    if stack.type.mode == "build_id":
        str(stack)

