"""A kernel for compiled programs, with Python as its CPU: their memory, their maps, and the helpers that they call.

A script that queries a recording is compiled like any other. Its programs run over the recorded events, and what they
send and count is read as if from the kernel: so the language means the same. Memory of the traced machine is not
available; a program that follows a pointer ends with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from errno import E2BIG, EEXIST, EFAULT, EINVAL, ENOENT
from struct import Struct as Layout
from struct import error as StructError
from sys import byteorder
from typing import Any

from ..base.words import MASK
from ..compiler import helpers as h
from ..errors import UsageError
from ..layouts.shared_maps import STATE
from ..runtime.maps.access import Map, _Chunk
from ..runtime.maps.merge import State
from ..spec import ErrorSite, MapSpec, ProgramSpec, ScriptSpec
from ..types import round_up
from .bytecode import DEPTH, FRAMES, HANDLES, Frames, Function, StackAddress, UntranslatableError, translate
from .column_expressions import UnanswerableError

MOST_ROUNDS = 1 << 23  # of bpf_loop()
ELEMENT = 300          # bytes that an element takes besides its key and value, about
_READS = (h.READ_USER, h.READ_USER_STR)
_NOTHING = 1 << 12  # no address below this is valid
_LOW = (1 << 32) - 1
_HELPERS = {  # the machine's method for each; all others need the machine
    h.MAP_LOOKUP: "lookup", h.MAP_UPDATE: "update", h.MAP_DELETE: "delete", h.PERCPU_LOOKUP: "lookup_of_cpu",
    h.FOR_EACH_MAP: "for_each", h.LOOP: "loop", h.READ_KERNEL: "read", h.READ_KERNEL_STR: "read_string",
    h.COMM: "take_comm", h.RING_RESERVE: "reserve",
    h.RING_SUBMIT: "submit", h.RING_DISCARD: "discard", h.RING_OUTPUT: "output",
    h.RING_QUERY: "query", h.BOOT_NS: "take_time", h.PID_TGID: "take_ids",
    h.UID_GID: "take_user", h.CPU_ID: "take_cpu"}


_OF_EVENT = {h.BOOT_NS: "machine.now[0]", h.PID_TGID: "machine.now[1] << 32 | machine.now[2]",
             h.UID_GID: "machine.now[4]"}


class MemoryAccessError(UsageError):
    """A program accessed memory that does not exist."""

    def __init__(self) -> None:
        super().__init__("the script follows a pointer, and a recording has no memory",
                         ["it has what the events themselves are made of"])


def no_room() -> UsageError:
    """The error when a script's maps take more memory than there is."""
    return UsageError("the maps are larger than there is room for", ["--memory gives them more room"])


class MachineMemory:
    """Regions of memory, each at an address of its own: its index is the upper half. ``room`` limits the bytes that
    elements of maps take."""

    def __init__(self, room: int) -> None:
        self.frames = Frames()
        self.regions = self.frames.regions
        self._next = FRAMES + DEPTH
        self._room = room

    def add(self, data: bytes | bytearray | int) -> int:
        """Add a region with these bytes, or this many zeros; its address."""
        self._next += 1
        self.regions[self._next] = bytearray(data)
        return self._next << 32

    def take(self, size: int) -> None:
        """Reserve this many bytes for a map; UsageError if there is no room."""
        self._room -= size
        if self._room < 0:
            raise no_room()

    def give_back(self, size: int) -> None:
        self._room += size

    def read(self, address: int, size: int) -> bytes:
        """Read bytes; MemoryAccessError where there are none."""
        region = self.regions.get(address >> 32)
        at = address & _LOW
        if region is None or at + size > len(region):
            raise MemoryAccessError
        return bytes(region[at:at + size])

    def write(self, address: int, data: bytes) -> None:
        """Write bytes; MemoryAccessError where there are none."""
        region = self.regions.get(address >> 32)
        at = address & _LOW
        if region is None or at + len(data) > len(region):
            raise MemoryAccessError
        region[at:at + len(data)] = data


class MachineMap(Map):
    """A map of the machine, which user space reads like the kernel's."""

    def __init__(self, spec: MapSpec, memory: MachineMemory, cpus: int) -> None:
        self.region = 0
        if spec.type == "array":
            memory.take(spec.value_size)
            self.region = memory.add(spec.initial.ljust(spec.value_size, b"\0"))
        held: Any = memory.regions.get(self.region >> 32)
        super().__init__(spec, None, held, cpus)  # type: ignore[arg-type]
        self._machine_memory = memory
        self.elements: dict[bytes, int] = {}  # key -> address of its value, or of the first CPU's
        self._cell = round_up(spec.value_size, 8) if self._per_cpu else spec.value_size
        self.gone: list[int] = []  # regions of removed elements, which programs may still access until they end
        self._lru = "lru" in spec.type
        self.is_plain = not self._lru and not self._per_cpu  # one value under each key, whichever CPU looks

    def lookup(self, key: bytes, cpu: int) -> int:
        """The address of a value, 0 if there is none."""
        if self.region:
            return self.region if key == bytes(4) else 0
        address = self.elements.get(key, 0)
        if self._lru and address:
            self.elements[key] = self.elements.pop(key)
        return address + cpu * self._cell if address and self._per_cpu else address

    def put(self, key: bytes, value: bytes, flags: int, cpu: int) -> int:
        """As bpf_map_update_elem()."""
        if self.region:
            return -EINVAL
        old = self.elements.get(key, 0)
        if old and flags == h.UPDATE_NEW:
            return -EEXIST
        memory = self._machine_memory
        if old and self._per_cpu:
            memory.write(old + cpu * self._cell, value)
            return 0
        if old:
            self.gone.append(old)
            del self.elements[key]
        else:
            if len(self.elements) >= self.spec.max_entries:
                if not self._lru:
                    return -E2BIG
                self.drop(next(iter(self.elements)))
            memory.take(len(key) + self._element + ELEMENT)
        address = memory.add(value if not self._per_cpu else self._element)
        if self._per_cpu:
            memory.write(address + cpu * self._cell, value)
        self.elements[key] = address
        return 0

    def drop(self, key: bytes) -> int:
        """As bpf_map_delete_elem()."""
        address = self.elements.pop(key, 0)
        if not address:
            return -ENOENT
        self.gone.append(address)
        self._machine_memory.give_back(len(key) + self._element + ELEMENT)
        return 0

    def forget(self) -> None:
        """Release removed elements: no program accesses them any longer."""
        for address in self.gone:
            del self._machine_memory.regions[address >> 32]
        self.gone.clear()

    # for user space

    def _read_hash(self, take: bool) -> Iterator[_Chunk]:
        regions = self._machine_memory.regions
        keys = list(self.elements)
        if keys:
            yield _Chunk(b"".join(keys), b"".join([bytes(regions[self.elements[key] >> 32]) for key in keys]))
        for key in keys if take else []:
            self.drop(key)
        self.forget()

    def _read_gains_and_clear(self) -> list[tuple[bytes, bytes | State]]:
        gains = self._finish_items(self._gains_since_base(self._read_states()))
        for key in list(self.elements):
            self.drop(key)
        self.forget()
        self._bases, self._zeroed = {}, set()
        return list(gains)

    def _replace_value(self, key: bytes, value: bytes) -> None:
        self._machine_memory.write(self.elements[key], value)

    def close(self) -> None:
        """Nothing to release."""


class Machine:
    """A compiled script at work. ``now`` is the event: nsecs, pid, tid, cpu, uid, comm; ``sent`` the records that its
    programs have sent since it was last emptied. UsageError for programs that need more than there is."""

    def __init__(self, spec: ScriptSpec, cpus: int, room: int, globals: Mapping[str, int]) -> None:
        self._spec = spec
        self.cpus = cpus
        self.memory = MachineMemory(room)
        self.maps = {named.name: MachineMap(named, self.memory, cpus) for named in spec.maps}
        self._handles = {(HANDLES + number) << 32: each for number, each in enumerate(self.maps.values())}
        self._changed = [each for each in self.maps.values() if not each.region]
        self.now: Sequence[Any] = (0, 0, 0, 0, 0, b"")
        self.sent: list[bytes] = []
        self.urgent = False  # one of them asks for something to be done at once
        self.produced = 0    # bytes that were sent so far
        self._controls = {number for number, site in enumerate(spec.sites) if site.control}
        self._functions: dict[int, Function] = {}  # of the program that runs
        self._programs = [self._load(program) for program in spec.programs]
        state = self.maps[STATE].memory
        first = len(spec.probes) + len(spec.errors)
        for at, name in enumerate(spec.globals):
            state[8 * (first + at):8 * (first + at + 1)] = (globals.get(name, 0) & MASK).to_bytes(8, byteorder)

    def _load(self, program: ProgramSpec) -> dict[int, Function]:
        addresses = {}
        numbers = {name: handle for handle, name in zip(self._handles, self.maps)}
        for relocation in program.relocations:
            target = self.maps[relocation.map]
            addresses[relocation.index] = numbers[relocation.map] if relocation.kind == "fd" \
                else target.region + relocation.offset
        try:
            return translate(program.code, addresses,
                             {number: getattr(self, name) for number, name in _HELPERS.items()}, self.memory.frames,
                             self._shorten)
        except UntranslatableError as error:
            span = next((span for index, span in reversed(program.lines) if index <= error.slot), None)
            what = "memory: it follows no pointers" if error.helper in _READS else "what only a kernel can do"
            raise UnanswerableError(span, what) from None

    def _shorten(self, helper: int, known: Sequence[int | StackAddress | None], locate: Callable[..., str]) \
            -> tuple[str, dict[str, Any]] | None:
        """What a program does instead of a call: it reads the event directly, or a map whose key is at a known
        place."""
        if helper in _OF_EVENT:
            return _OF_EVENT[helper], {"machine": self}
        map, key = self._handles.get(known[0]) if isinstance(known[0], int) else None, locate(known[1])
        if map is None or not key or map.region:
            return None
        space: dict[str, Any] = {f"bytes{size}": Layout(f"{size}s").unpack_from
                                 for size in (map.spec.key_size, map.spec.value_size)}
        number, key = known[0], f"bytes{map.spec.key_size}({key})[0]"
        cpu = "machine.now[3]" if self.cpus > 1 else "0"
        if helper == h.MAP_DELETE:
            return f"drop{number}({key}) & {MASK}", space | {f"drop{number}": map.drop}
        if helper == h.MAP_LOOKUP and map.is_plain:
            return f"find{number}({key}, 0)", space | {f"find{number}": map.elements.get}
        if helper == h.MAP_LOOKUP:
            return f"lookup{number}({key}, {cpu})", space | {f"lookup{number}": map.lookup, "machine": self}
        value = locate(known[2])
        if helper == h.MAP_UPDATE and value:
            return f"put{number}({key}, bytes{map.spec.value_size}({value})[0], r4, {cpu}) & {MASK}", \
                space | {f"put{number}": map.put, "machine": self}
        return None

    def programs_of(self, kind: str, name: str = "") -> list[int]:
        """The indices of the programs that such a probe runs, in order."""
        return [number for number, program in enumerate(self._spec.programs)
                if any(point.kind == kind and (not name or point.name == name) for point in program.attach)]

    def run(self, programs: Iterable[int], context: int) -> None:
        """Run programs in order over the context at an address."""
        for number in programs:
            self._functions = self._programs[number]
            try:
                self._functions[0](context)
            except (LookupError, StructError):
                raise MemoryAccessError from None
            for changed in self._changed:
                if changed.gone:
                    changed.forget()

    def failures(self) -> list[tuple[ErrorSite, int]]:
        """How often what failed."""
        state, first = self.maps[STATE].memory, len(self._spec.probes)
        counts = Layout(f"={len(self._spec.errors)}Q").unpack_from(state, 8 * first)
        return [(site, count) for site, count in zip(self._spec.errors, counts) if count]

    # helpers; each returns a 64-bit number

    def lookup(self, map: int, key: int) -> int:
        table = self._handles[map]
        return table.lookup(self.memory.read(key, table.spec.key_size), self.now[3] if self.cpus > 1 else 0)

    def lookup_of_cpu(self, map: int, key: int, cpu: int) -> int:
        table = self._handles[map]
        return table.lookup(self.memory.read(key, table.spec.key_size), cpu) if cpu < self.cpus else 0

    def update(self, map: int, key: int, value: int, flags: int) -> int:
        table, read = self._handles[map], self.memory.read
        return table.put(read(key, table.spec.key_size), read(value, table.spec.value_size), flags,
                         self.now[3] if self.cpus > 1 else 0) & MASK

    def delete(self, map: int, key: int) -> int:
        table = self._handles[map]
        return table.drop(self.memory.read(key, table.spec.key_size)) & MASK

    def for_each(self, map: int, callback: int, context: int, flags: int) -> int:
        table, function, count = self._handles[map], self._functions[callback], 0
        cpu = self.now[3] if self.cpus > 1 else 0
        for key in list(table.elements):
            if key not in table.elements:
                continue
            count += 1
            address = self.memory.add(key)
            ends = function(map, address, table.lookup(key, cpu), context)
            del self.memory.regions[address >> 32]
            if ends:
                break
        return count

    def loop(self, count: int, callback: int, context: int, flags: int) -> int:
        count &= _LOW
        if count > MOST_ROUNDS:
            return -E2BIG & MASK
        function = self._functions[callback]
        for index in range(count):
            if function(index, context):
                return index + 1
        return count

    def read(self, into: int, size: int, address: int) -> int:
        if address < _NOTHING:
            return self._fault(into, size & _LOW)
        self.memory.write(into, self.memory.read(address, size & _LOW))
        return 0

    def _fault(self, into: int, size: int) -> int:
        """Fail a read that would fault on any machine, of a null pointer."""
        self.memory.write(into, bytes(size))
        return -EFAULT & MASK

    def read_string(self, into: int, size: int, address: int) -> int:
        if address < _NOTHING:
            return self._fault(into, size & _LOW)
        region, at = self.memory.regions.get(address >> 32), address & _LOW
        if region is None or at > len(region):
            raise MemoryAccessError
        if not size:
            return 0
        text = bytes(region[at:at + (size & _LOW) - 1]).partition(b"\0")[0] + b"\0"
        self.memory.write(into, text)
        return len(text)

    def take_comm(self, into: int, size: int) -> int:
        self.memory.write(into, self.now[5][:size - 1].ljust(size, b"\0"))
        return 0

    def take_time(self) -> int:
        return int(self.now[0])

    def take_ids(self) -> int:
        return int(self.now[1] << 32 | self.now[2])

    def take_user(self) -> int:
        return int(self.now[4])  # the group is not recorded: a script that uses it is refused

    def take_cpu(self) -> int:
        return int(self.now[3]) if self.cpus > 1 else 0

    def reserve(self, ring: int, size: int, flags: int) -> int:
        return self.memory.add(size)

    def submit(self, record: int, flags: int) -> int:
        self._send(bytes(self.memory.regions.pop(record >> 32)))
        return 0

    def _send(self, data: bytes) -> None:
        self.produced += len(data)
        self.sent.append(data)
        if int.from_bytes(data[:4], byteorder) in self._controls:
            self.urgent = True

    def discard(self, record: int, flags: int) -> int:
        del self.memory.regions[record >> 32]
        return 0

    def output(self, ring: int, data: int, size: int, flags: int) -> int:
        self._send(self.memory.read(data, size))
        return 0

    def query(self, ring: int, what: int) -> int:
        return self.produced
