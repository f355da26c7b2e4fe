"""The frames of stacks by id: in the kernel's table while it has room, and here for those seen lately."""

from __future__ import annotations

import errno
import sys
from itertools import chain
from struct import Struct as Layout

from ...errors import SyscallError
from ...layouts.shared_maps import STACK_RESERVE, STACKS, STATE
from ...spec import ScriptSpec
from ...types import Stack, StackCopy, Tuple, Type, round_up
from ..maps.access import Map

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_KEY = Layout("=Q")
_ENTRY = 128       # bytes that an entry takes beside its frames
_LARGEST = 2048    # bytes of an entry, at most
_SEEN = 8192       # so many ids that have been seen may be in the kernel's table: then those that nothing holds leave


class StackFrames:
    """Frames by id.

    The kernel's table has room for so many stacks. Once an id has been seen in a record or in a map, its frames are
    kept here, and unless a map holds the id it leaves the table when enough of its kind have come together: so a trace
    can run for weeks. A record that is still on its way may name such a stack; it finds its frames here, as long as
    ``memory`` bytes are enough for what came in between.
    """

    def __init__(self, spec: ScriptSpec, maps: Mapping[str, Map], memory: int) -> None:
        self._tables = [maps[name] for name in (STACKS, STACK_RESERVE) if name in maps]
        self._holders = [_Holder(m) for name, m in maps.items() if name.startswith("@") and _Holder.holds_stacks(m)]
        self._state = maps.get(STATE)
        first = len(spec.probes)
        self._full = [first + i for i, site in enumerate(spec.errors) if site.kind == "stack_lost"]
        self._lost = 0  # stacks that found no room, when that was last looked at
        self._memory = memory
        self._seen_limit = min(_SEEN, memory // _LARGEST)
        self._threshold = self._seen_limit
        self._frames: dict[int, bytes] = {}  # oldest first
        self._bytes = 0
        self._seen: set[int] = set()  # in the kernel's table, as far as we know, and kept here

    def stack_frames(self, stack: int) -> Sequence[int]:
        """Addresses of a stack, innermost first; empty if it was not kept."""
        frames = self._frames.get(stack)
        if frames is None:
            frames = self._read_frames(stack)
            if frames is None:
                return ()
            self._keep_frames(stack, frames)
            self._make_room()
        return memoryview(frames).cast("Q").tolist()

    def _read_frames(self, stack: int) -> bytes | None:
        try:
            values = [table.get(_KEY.pack(stack)) for table in self._tables]
        except SyscallError as error:
            if error.errno != errno.EBADF:  # the session is over
                raise
            return None
        return next((raw[:round_up(len(raw.rstrip(b"\0")), 8)] for raw in values if isinstance(raw, bytes)), None)

    def _keep_frames(self, stack: int, frames: bytes) -> None:
        self._frames[stack] = frames
        self._seen.add(stack)
        self._bytes += len(frames) + _ENTRY
        while self._bytes > self._memory:
            oldest = next(iter(self._frames))
            self._bytes -= len(self._frames.pop(oldest)) + _ENTRY
            self._seen.discard(oldest)

    # room in the kernel's table

    def _make_room(self) -> None:
        lost = self._lost_count()
        if lost != self._lost:
            self._lost = lost
            self._keep_unseen()
        if len(self._seen) < self._threshold:
            return
        held = {stack for holder in self._holders for stack in holder.stack_ids()}
        try:
            for stack in self._seen - held:
                for table in self._tables:
                    table.delete(_KEY.pack(stack))
        except SyscallError as error:
            if error.errno != errno.EBADF:
                raise
            return
        self._seen &= held
        self._threshold = len(self._seen) + self._seen_limit

    def _lost_count(self) -> int:
        memory = self._state.memory if self._state is not None else None
        if memory is None:
            return 0
        return sum(int.from_bytes(memory[8 * at:8 * at + 8], sys.byteorder) for at in self._full)

    def _keep_unseen(self) -> None:
        """The table is full: keep the frames of what was never printed (its key was deleted, say), that it can go."""
        room = self._memory // 2
        for key, raw in chain.from_iterable([table.raw_elements() for table in self._tables]):
            stack = _KEY.unpack(key)[0]
            if stack in self._frames:
                self._seen.add(stack)
                continue
            frames = raw[:round_up(len(raw.rstrip(b"\0")), 8)]
            room -= len(frames) + _ENTRY
            if room < 0:
                break
            self._keep_frames(stack, frames)
        self._threshold = 0


class _Holder:
    """A map whose keys or values have stacks."""

    def __init__(self, named: Map) -> None:
        self._map = named
        self._in_keys = list(_stack_offsets(named.spec.key)) if named.spec.key is not None else []
        self._in_values = list(_stack_offsets(named.spec.value)) if named.aggregate is None else []

    @staticmethod
    def holds_stacks(named: Map) -> bool:
        return any(True for type in (named.spec.key, named.spec.value) for _ in _stack_offsets(type))

    def stack_ids(self) -> Iterator[int]:
        """The ids that the map holds now."""
        for key, value in self._map.raw_elements():
            for raw, offsets in ((key, self._in_keys), (value, self._in_values)):
                for at in offsets:
                    yield _KEY.unpack_from(raw, at)[0]


def _stack_offsets(type: Type | None, base: int = 0) -> Iterator[int]:
    """Where in a value of a type the ids of stacks are."""
    if isinstance(type, Stack) and not isinstance(type, StackCopy):
        yield base
    elif isinstance(type, Tuple):
        for part, offset in zip(type.of, type.offsets):
            yield from _stack_offsets(part, base + offset)
