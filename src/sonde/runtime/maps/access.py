"""Maps in use: created from their specs, read, emptied and merged across CPUs.

Keys and plain values stay bytes: their readers know how to decode them. The value of an aggregate is its merged state,
a tuple of integers (see :mod:`sonde.runtime.maps.merge`).
"""

from __future__ import annotations

import errno
import os
import sys

from ...base.record import Record
from ...errors import MachineError, SondeError, SyscallError
from ...kernel import syscalls
from ...kernel.syscalls import Fd
from ...layouts.uapi import BPF_EXIST, BPF_F_MMAPABLE, ENOTSUPP, MAP_TYPES
from ...spec import MapSpec
from ...types import Aggregate, Int, round_up
from . import merge
from .merge import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from mmap import mmap

RawValue = bytes | tuple[int, ...]
RawItem = tuple[bytes, RawValue]

_NO_BATCH = (errno.EINVAL, errno.EOPNOTSUPP, ENOTSUPP)
_BATCH_BYTES = 8 << 20
_FEW = 64  # elements that are asked for at first: memory for more takes longer than most maps
_LOWEST = 0 if sys.byteorder == "little" else 7  # byte of a word


class _Chunk(Record):
    """Elements as the kernel returned them, packed one after another."""

    keys: bytes
    cells: bytes


class Map:
    """A kernel map and how to read it; ``memory`` is its mapping if it is an mmapable array, ``table`` the map with its
    slots or hot elements, if it has such."""

    def __init__(self, spec: MapSpec, fd: Fd, memory: mmap | None = None, possible_cpus: int = 1) -> None:
        self.spec = spec
        self.fd = fd
        self._memory = memory
        self.table: Map | None = None
        self.aggregate = spec.value if isinstance(spec.value, Aggregate) else None
        self._per_cpu = spec.type.startswith(("percpu_", "lru_percpu_"))
        self._cpus = possible_cpus if self._per_cpu else spec.cpus
        self._element = round_up(spec.value_size, 8) * possible_cpus if self._per_cpu else spec.value_size
        self._holds_zero = False               # zero() set a keyless aggregate to 0, which is shown
        self._base: State | None = None        # of a keyless aggregate, at its last clear() or zero()
        self._bases: dict[bytes, State] = {}   # the same by key
        self._zeroed: set[bytes] = set()       # keys that zero() left with nothing

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def memory(self) -> mmap:
        """The mapping of a map that is memory."""
        assert self._memory is not None
        return self._memory

    # reading

    def items(self) -> list[RawItem]:
        """Every (key, value), in no particular order. A keyless map has one item with the empty key, once it is set."""
        if self.spec.memory:
            value = self._memory_value()
            return [] if value is None else [(b"", value)]
        if self._clears_by_subtraction:
            return self._finish_items(self._gains_since_base(self._read_states()))
        return self._decode_chunks(self._read_chunks(take=False))

    def columns(self, clear: bool = False) -> Iterator[tuple[bytes, bytes | list[State]]]:
        """All of a map with keys, in pieces: keys, packed, and as many values, packed if they are plain. ``clear``
        empties it in the same step."""
        if self._clears_by_subtraction or self.spec.memory:
            items = self.read_and_clear() if clear else self.items()
            yield b"".join([key for key, _ in items]), [value for _, value in items]  # type: ignore[misc]
            return
        for chunk in self._read_chunks(take=clear):
            if self.aggregate is None and not self._per_cpu:
                yield chunk.keys, chunk.cells
            else:
                values = [value for _, value in self._decode_chunks([chunk])]
                yield chunk.keys, b"".join(values) if self.aggregate is None else values  # type: ignore[arg-type,misc]

    def get(self, key: bytes = b"") -> RawValue | None:
        """The value under ``key``; None if there is none."""
        if self.spec.memory:
            return self._memory_value()
        if self.table is not None:
            return dict(self.items()).get(key)
        raw = syscalls.map_lookup(self.fd, key, self._element)
        if raw is not None and self._clears_by_subtraction:
            items = self._finish_items(self._gains_since_base([(key, self._merge_cells(raw)[0])]))
            return items[0][1] if items else None
        return None if raw is None else self._decode_chunks([_Chunk(key, raw)])[0][1]

    def raw_elements(self) -> Iterator[tuple[bytes, bytes]]:
        """Every key with its value as the kernel has it (every CPU's for a per-CPU map), read in pieces."""
        if self.spec.memory:
            yield b"", bytes(self.memory[:self.spec.value_size])
            return
        for chunk in self._read_chunks(take=False):
            yield from zip(_split_cells(chunk.keys, self.spec.key_size), _split_cells(chunk.cells, self._element))

    # changing

    def read_and_clear(self) -> list[RawItem]:
        """Read and empty in one step: no update between the two is lost.

        An additive aggregate is left alone, and what was read is subtracted from later reads: a program that has
        just looked an element up would add to one that is no longer there. Keys without gain since the last time
        are deleted, but for hot ones (so a sum() that only added zeros disappears). Other maps the kernel empties
        bucket by bucket; the memory of keyless ones is zeroed.
        """
        if not self.spec.memory:
            return self._read_gains_and_clear() if self._clears_by_subtraction \
                else self._decode_chunks(self._read_chunks(take=True))
        now = self._merged_memory() if self._clears_by_subtraction else None
        value = self._memory_value(now)
        self._empty_memory(now)
        for at in self._marker_offsets:
            self.memory[at] = 0
        self._holds_zero = False
        return [] if value is None else [(b"", value)]

    def clear(self) -> None:
        """Delete every key (``clear()`` of the language)."""
        if self.spec.memory or self._clears_by_subtraction:
            self.read_and_clear()
            return
        self._free_slots()
        for _ in self._read_hash(take=True):
            pass

    def zero(self) -> None:
        """Set every value to zero and keep the keys (``zero()`` of the language)."""
        if self._clears_by_subtraction and not self.spec.memory:
            self._bases = dict(self._read_states())
            self._zeroed = set(self._bases)
        elif not self.spec.memory:
            zeros = bytes(self._element)
            for chunk in self._read_chunks(take=False):
                for key in _split_cells(chunk.keys, self.spec.key_size):
                    self._replace_value(key, zeros)
            if self.table is not None and self.spec.slots:
                from . import slots
                with memoryview(self.table.memory) as memory:
                    slots.zero_values(memory, slots.wide_words(self.spec))
        else:
            now = self._merged_memory() if self._clears_by_subtraction else None
            self._holds_zero = self._memory_value(now) is not None
            self._empty_memory(now)

    def update(self, key: bytes, value: bytes) -> None:
        """Set the value under ``key`` (``key`` is ignored by a keyless map)."""
        if self.spec.memory:
            self.memory[:len(value)] = value
            for at in self._marker_offsets:
                self.memory[at] = 1
        else:
            syscalls.map_update(self.fd, key, value)

    def delete(self, key: bytes) -> bool:
        """Delete ``key``; False if it was not there."""
        self._bases.pop(key, None)
        return syscalls.map_delete(self.fd, key)

    def close(self) -> None:
        """Release the memory and the map."""
        if self._memory is not None:
            self._memory.close()
            self._memory = None
        self.fd.close()

    # additive aggregates: what was gained since a base

    @property
    def _clears_by_subtraction(self) -> bool:
        """Whether clearing happens in user space alone, by subtraction: the kernel only updates."""
        return self.aggregate is not None and self.aggregate.row.additive and not self.spec.read_in_kernel \
            and not self.spec.type.startswith("lru_")

    def _merge_cells(self, cells: bytes) -> list[State]:
        assert self.aggregate is not None
        return merge.merge_states(self.aggregate, cells, self._cpus)

    def _read_states(self) -> list[tuple[bytes, State]]:
        states: list[tuple[bytes, State]] = []
        counted = self._read_hot()
        for chunk in self._read_chunks(take=False):  # after the hot elements, whose keys are there
            states += zip(_split_cells(chunk.keys, self.spec.key_size), self._merge_cells(chunk.cells))
        if counted:
            states = [(key, merge.sum_states(state, counted.pop(key)) if key in counted else state)
                      for key, state in states]
        return states + list(counted.items())  # keys that became hot just before they were deleted as idle

    def _read_hot(self) -> dict[bytes, State]:
        if self.table is None:
            return {}
        from .hot import read_hot
        return read_hot(self.spec, self.table.spec, self.table.memory[:])

    def _gains_since_base(self, states: list[tuple[bytes, State]]) -> list[tuple[bytes, State]]:
        """What each key gained since its base; without those that gained nothing."""
        bases = self._bases
        if not bases:
            return states
        gains = [(key, merge.subtract_state(state, bases[key]) if key in bases else state) for key, state in states]
        return [(key, gain) for key, gain in gains if any(gain) or key in self._zeroed or key not in bases]

    def _finish_items(self, gains: list[tuple[bytes, State]]) -> list[RawItem]:
        assert self.aggregate is not None
        return list(zip([key for key, _ in gains], merge.apply_signs(self.aggregate, [gain for _, gain in gains])))

    def _read_gains_and_clear(self) -> list[RawItem]:
        states = self._read_states()
        gains = self._gains_since_base(states)
        active = {key for key, gain in gains if any(gain)}
        bases = dict(states)
        idle = [key for key, _ in states if key not in active and key in self._bases]
        for key in sorted(set(idle).difference(self._read_hot())):  # hot ones have their places for good
            raw = self._take_element(key, 2 * len(idle) >= self.spec.max_entries)
            late = merge.subtract_state(self._merge_cells(raw)[0], bases.pop(key)) if raw is not None else ()
            if any(late):  # it appeared just now
                gains.append((key, late))
        self._bases, self._zeroed = bases, set()
        return self._finish_items(gains)

    def _take_element(self, key: bytes, needed: bool) -> bytes | None:
        """The value under a key, which is deleted. Before Linux 5.14 that takes two steps, and what is added in between
        is lost: there it is only done where it is ``needed``, and None otherwise."""
        try:
            return syscalls.map_lookup_and_delete(self.fd, key, self._element)
        except SyscallError as error:
            if error.errno not in _NO_BATCH:
                raise
        raw = syscalls.map_lookup(self.fd, key, self._element) if needed else None
        if needed:
            syscalls.map_delete(self.fd, key)
        return raw

    # keyless maps: memory

    def _memory_value(self, now: State | None = None) -> RawValue | None:
        """The value; None if there is none. ``now``: an aggregate's words, where they have been read already."""
        marked = self._holds_zero or any(self.memory[at] for at in self._marker_offsets)
        if self.aggregate is None:
            size = self.spec.value.size if self.spec.value is not None else self.spec.value_size
            return bytes(self.memory[:size]) if marked or not self.spec.marker else None
        gain = self._memory_gain(now or self._merged_memory())
        return self._apply_sign(gain) if marked or any(gain) else None

    @property
    def _marker_offsets(self) -> range:
        """Offsets of the markers that say whether a slot has a value: the lowest byte of a word, 1 if so."""
        spec = self.spec
        return range(spec.marker + _LOWEST, spec.value_size, spec.stride) if spec.marker else range(0)

    def _merged_memory(self) -> tuple[int, ...]:
        assert self.aggregate is not None
        size, stride = self.aggregate.size, self.spec.stride or self.aggregate.size
        data = self.memory[:stride * self._cpus]
        if stride != size:
            data = b"".join([data[at:at + size] for at in range(0, len(data), stride)])
        return merge.merge_states(self.aggregate, data, self._cpus)[0]

    def _memory_gain(self, state: State) -> State:
        return state if self._base is None else merge.subtract_state(state, self._base)

    def _apply_sign(self, state: tuple[int, ...]) -> tuple[int, ...]:
        assert self.aggregate is not None
        return merge.apply_signs(self.aggregate, [state])[0]

    def _empty_memory(self, now: State | None) -> None:
        """Set the value to 0: ``now`` is subtracted from later reads; None without subtraction."""
        if now is not None:
            self._base = now
            return
        marks = [self.memory[at] for at in self._marker_offsets]
        self.memory[:self.spec.value_size] = bytes(self.spec.value_size)
        for at, mark in zip(self._marker_offsets, marks):
            self.memory[at] = mark

    # keyed maps

    def _decode_chunks(self, chunks: Iterable[_Chunk]) -> list[RawItem]:
        items: list[RawItem] = []
        for chunk in chunks:
            keys = _split_cells(chunk.keys, self.spec.key_size)
            if self.aggregate is None:
                cells = _split_cells(chunk.cells, self._element)
                items += zip(keys, [self._merge_plain_value(cell) for cell in cells] if self._per_cpu else cells)
            else:
                states = merge.merge_states(self.aggregate, chunk.cells, self._cpus)
                items += zip(keys, merge.apply_signs(self.aggregate, states))
        return items

    def _merge_plain_value(self, cell: bytes) -> bytes:
        """A plain value of a per-CPU map: the sum of numbers; of anything else the first CPU's that has it."""
        size = self._element // self._cpus
        parts = _split_cells(cell, size)
        if isinstance(self.spec.value, Int):
            return merge.add_numbers(parts, self.spec.value.size).ljust(size, b"\0")
        return next((part for part in parts if any(part)), parts[0])

    def _read_chunks(self, take: bool) -> Iterator[_Chunk]:
        """All elements."""
        if self.table is None or not self.spec.slots:
            yield from self._read_hash(take)
            return
        from . import slots
        with memoryview(self.table.memory) as memory:
            elements = slots.read_elements(memory, self.spec.key_size, slots.wide_words(self.spec))
        if take:
            self._free_slots()
        for chunk in self._read_hash(take):  # elements that moved to the hash meanwhile are read there
            cells = _split_cells(chunk.cells, self._element)
            elements |= zip(_split_cells(chunk.keys, self.spec.key_size), cells)
        yield _Chunk(b"".join(elements), b"".join(elements.values()))

    def _free_slots(self) -> None:
        """Empty the table of slots, where there is one."""
        if self.table is not None and self.spec.slots:
            from . import slots
            with memoryview(self.table.memory) as memory:
                slots.free_slots(memory)

    def _read_hash(self, take: bool) -> Iterator[_Chunk]:
        """The kernel's elements, by batches where it has them (Linux 5.6), else one by one."""
        try:
            yield from self._read_batches(take)
        except SyscallError as error:
            if error.errno not in _NO_BATCH:
                raise
            yield from self._read_one_by_one(take)

    def _read_batches(self, take: bool) -> Iterator[_Chunk]:
        spec = self.spec
        most = min(spec.max_entries, max(_FEW, _BATCH_BYTES // (spec.key_size + self._element)))
        room = min(most, _FEW)
        token: bytearray | None = None
        while True:
            keys, values = bytearray(room * spec.key_size), bytearray(room * self._element)
            following = bytearray(max(8, spec.key_size))
            count, problem = syscalls.map_lookup_batch(self.fd, token, following, keys, values, room, take)
            if problem == errno.ENOSPC:  # one hash bucket holds more than there is room for
                room *= 2
                continue
            if problem not in (0, errno.ENOENT):
                raise syscalls.syscall_error(syscalls.BATCHES[take][0], problem)
            if count:
                yield _Chunk(bytes(memoryview(keys)[:count * spec.key_size]),
                             bytes(memoryview(values)[:count * self._element]))
            if problem:
                return
            token, room = following, max(room, most)

    def _read_one_by_one(self, take: bool) -> list[_Chunk]:
        """Walk the keys. A key that vanishes under the walk restarts it, hence the set and the bound."""
        seen: dict[bytes, bytes] = {}
        key = syscalls.map_next_key(self.fd, None, self.spec.key_size)
        for _ in range(4 * self.spec.max_entries):
            if key is None:
                break
            following = syscalls.map_next_key(self.fd, key, self.spec.key_size)
            value = syscalls.map_lookup(self.fd, key, self._element)
            if value is not None:
                seen[key] = value
            if take:
                syscalls.map_delete(self.fd, key)
            key = following
        return [_Chunk(key, value) for key, value in seen.items()]

    def _replace_value(self, key: bytes, value: bytes) -> None:
        try:
            syscalls.map_update(self.fd, key, value, BPF_EXIST)
        except SyscallError as error:
            if error.errno != errno.ENOENT:  # a program deleted it meanwhile
                raise


def _split_cells(data: bytes, size: int) -> list[bytes]:
    return [data[at:at + size] for at in range(0, len(data), size)]


def create_map(spec: MapSpec, possible_cpus: int) -> Map:
    """Create the kernel's map for ``spec`` and fill in its initial contents.

    Raises SondeError naming the map when the kernel refuses its size.
    """
    flags = spec.flags | (BPF_F_MMAPABLE if spec.memory else 0)
    try:
        fd = syscalls.map_create(MAP_TYPES[spec.type], spec.key_size, spec.value_size, spec.max_entries, flags,
                                 spec.name)
    except SyscallError as error:
        if error.errno == errno.EINVAL and (spec.type == "ringbuf" or spec.memory):
            raise MachineError(f"kernel {os.uname().release} has no BPF ring buffer",
                               ["Sonde takes Linux 5.8 or newer"]) from None
        if error.errno in (errno.ENOMEM, errno.E2BIG):
            raise SondeError(f"map {spec.name}: no memory for {spec.max_entries} entries of "
                             f"{spec.key_size} + {spec.value_size} bytes",
                             ["lower max_map_keys, or shorten the keys"]) from None
        raise
    memory = None
    try:
        if flags & BPF_F_MMAPABLE:
            from mmap import PAGESIZE
            memory = syscalls.mmap_fd(fd, round_up(spec.value_size * spec.max_entries, PAGESIZE))
            memory[:len(spec.initial)] = spec.initial
        elif spec.initial:
            syscalls.map_update(fd, bytes(spec.key_size), spec.initial.ljust(spec.value_size, b"\0"))
    except BaseException:
        fd.close()
        raise
    return Map(spec, fd, memory, possible_cpus)
