"""Names in a recording: what the run's context answered, in order, and a context that gives the same answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import types as t
from ..runtime.values import NamedNumber, StackTrace, UserAddress
from ..spec import ScriptSpec
from .container import Damaged

ENTRY = 200  # bytes that an answer takes beside its texts, about
MOST_UNWOUND = 1 << 14  # stacks that are known by their numbers; a stack that comes again later gets another one

_TEXT, _NUMBER = str, int
# Question -> the shapes of what is asked and of what is answered; an answer may also be null, but for lists and texts.
_SHAPES: dict[str, tuple[list[type], Any]] = {
    "ksym": ([int], [str, int]), "usym": ([int, int], [str, int, str]), "build_id": ([int, int], [str, int]),
    "user_name": ([int], str), "syscall_name": ([int], str), "cgroup_path": ([int, str], str),
    "group_name": ([str, int], str),
    "stack_frames": ([int], "numbers"), "unwound": ([int], "numbers")}

Tell = Callable[[str, tuple[Any, ...], Any], object]  # (question, what was asked, the answer)


class ToldNames:
    """The context of a run that is recorded: what it answers is told as well. ``moment`` is the time of what is being
    handed over, in nanoseconds of the boot clock."""

    def __init__(self, live: Any, tell: Tell) -> None:
        self._live = live
        self._tell = tell
        self._unwound: dict[tuple[int, ...], int] = {}
        self._numbered = 0
        self.moment = 0
        self.last_unwound = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._live, name)

    def ksym(self, address: int) -> tuple[str, int] | None:
        return self._told("ksym", address)  # type: ignore[no-any-return]

    def usym(self, address: int, tgid: int) -> tuple[str, int, str] | None:
        return self._told("usym", address, tgid)  # type: ignore[no-any-return]

    def build_id(self, address: int, tgid: int) -> tuple[str, int] | None:
        return self._told("build_id", address, tgid)  # type: ignore[no-any-return]

    def user_name(self, uid: int) -> str:
        return self._told("user_name", uid)  # type: ignore[no-any-return]

    def syscall_name(self, number: int) -> str:
        return self._told("syscall_name", number)  # type: ignore[no-any-return]

    def cgroup_path(self, cgroup: int, filter: str) -> str:
        return self._told("cgroup_path", cgroup, filter)  # type: ignore[no-any-return]

    def group_name(self, kind: str, cgroup: int) -> str:
        return self._told("group_name", kind, cgroup)  # type: ignore[no-any-return]

    def stack_frames(self, stack: int) -> Sequence[int]:
        return self._told("stack_frames", stack)  # type: ignore[no-any-return]

    def unwind_stack(self, registers: dict[str, int], stack: bytes, base: int, tgid: int, limit: int) -> Sequence[int]:
        """As the live context does it; the frames have a number, under which they are told."""
        found: Sequence[int] = self._live.unwind_stack(registers, stack, base, tgid, limit)
        known = self._unwound.get(tuple(found))
        if known is None:
            if len(self._unwound) >= MOST_UNWOUND:
                self._unwound.clear()
            self._numbered += 1
            known = self._unwound[tuple(found)] = self._numbered
            self._tell("unwound", (known,), list(found))
        self.last_unwound = known
        return found

    def boot_time(self) -> int:
        """The time of what is being handed over."""
        return self.moment

    def _told(self, question: str, *asked: Any) -> Any:
        answer = getattr(self._live, question)(*asked)
        self._tell(question, asked, answer)
        return answer


class RecordedNames:
    """The context of a replay: it knows what the run's context said, as far as the recording has been read."""

    def __init__(self, spec: ScriptSpec, clocks: dict[str, int], memory: int) -> None:
        self.text_size = spec.config.text_size
        self.trailer = spec.config.str_trunc_trailer
        self.moment = 0
        self._probes = spec.probes
        self._clocks = clocks
        self._room = memory
        self._known: dict[tuple[Any, ...], Any] = {}

    def learn(self, entries: Any) -> None:
        """Take answers as they lie in the file: [question, what was asked, answer]. Damaged if they are none."""
        if not isinstance(entries, list):
            raise Damaged("names are no list")
        for entry in entries:
            if not isinstance(entry, list) or len(entry) != 3 or not _is_answer(*entry):
                raise Damaged("a name is none")
            question, asked, answer = entry
            self._room -= ENTRY + (8 * len(answer) if isinstance(answer, list) else 0) + sum(
                [len(text) for text in (answer if isinstance(answer, list) else [answer]) if isinstance(text, str)])
            if self._room < 0:
                raise Damaged("it has more names than there is room for", hints=["--memory gives it more room"])
            self._known[(question, *asked)] = tuple(answer) if isinstance(answer, list) else answer

    def ksym(self, address: int) -> tuple[str, int] | None:
        return self._known.get(("ksym", address))

    def usym(self, address: int, tgid: int) -> tuple[str, int, str] | None:
        return self._known.get(("usym", address, tgid))

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
        """The first register has the number of the frames: see recorder."""
        return self._frames("unwound", next(iter(registers.values()), 0))

    def _frames(self, question: str, number: int) -> Sequence[int]:
        found: Sequence[int] = self._known.get((question, number), ())
        return found

    def probe_name(self, index: int) -> str:
        return self._probes[index] if 0 <= index < len(self._probes) else str(index)

    def wall_clock(self, nanoseconds: int, clock: str) -> int:
        return nanoseconds + self._clocks.get(clock, self._clocks["boot"])

    def boot_time(self) -> int:
        return self.moment

    def close(self) -> None:
        """Nothing is held."""


def _is_answer(question: Any, asked: Any, answer: Any) -> bool:
    if not isinstance(question, str) or question not in _SHAPES or not isinstance(asked, list):
        return False
    shape, form = _SHAPES[question]
    if list(map(type, asked)) != shape:
        return False
    if form == "numbers":
        return isinstance(answer, list) and all(type(each) is int and 0 <= each < 1 << 64 for each in answer)
    if isinstance(form, list):
        return answer is None or isinstance(answer, list) and list(map(type, answer)) == form
    return type(answer) is form


def has_names(type: t.Type) -> bool:
    """Does printing a value of the type take what only the run's machine knows?"""
    if isinstance(type, t.Tuple):
        return any(map(has_names, type.of))
    return isinstance(type, t.USym | t.Stack) \
        or isinstance(type, t.Symbol) and type.kind in ("ksym", "username", "syscall_name", "cgroup_path", *t.GROUPS)


def ask_names(value: Any) -> None:
    """Ask the context of a decoded value for all that any form of output might."""
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

