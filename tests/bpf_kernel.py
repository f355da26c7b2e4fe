"""What a program meets in the kernel, pretended: maps, ring buffers, the helpers that generated code calls.

``Kernel(spec)`` loads a compiled script; ``run()`` lets its programs run; ``events`` and ``map()`` decode what they
left, with the runtime's own decoders.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from errno import EAGAIN
from typing import Any

from bpf_machine import IllegalProgramError, Machine, Memory, Region, to_signed, words
from decoding import Names
from sonde.arch import ARCHES
from sonde.compiler import helpers as h
from sonde.layouts.event_records import CONTROL_HEADER, RECORD_HEADER
from sonde.layouts.shared_maps import CALLS, COUNTING, CURRENT, DISCOVERED, STATE
from sonde.runtime.maps import merge
from sonde.runtime.maps.hot import read_hot
from sonde.runtime.maps.slots import read_elements, wide_words
from sonde.runtime.records.events import Event, EventDecoder, MapDecoder
from sonde.spec import MapSpec, ProgramSpec, ScriptSpec
from sonde.types import Aggregate, Scalar

ENOENT, EEXIST, E2BIG, EFAULT, EINVAL = 2, 17, 7, 14, 22
GLOBALS = {"start_ns": 1000, "most_elapsed": 1 << 62, "cpid": 0, "pidns_dev": 1, "pidns_ino": 2, "exiting": 0,
           "zero": 0, "gate": 0, "allowance": 0, COUNTING: 1}


class TestMap:
    """A map's memory: for arrays one region, for hashes one per element (per CPU one each)."""

    __test__ = False

    def __init__(self, spec: MapSpec, memory: Memory, cpus: int) -> None:
        self.spec, self.memory = spec, memory
        self.cpus = cpus if "percpu" in spec.type else 1
        self.handle = memory.add(8, f"map {spec.name}", writable=False)
        self.elements: dict[bytes, list[Region]] = {}
        self.records: deque[bytes] = deque()
        self.full = False  # a ring that takes no more
        self.produced = 0
        if spec.type == "array":
            content = spec.initial.ljust(spec.value_size, b"\0")
            region = memory.add(content, spec.name, writable=not spec.flags & 1 << 7)
            self.elements[bytes(4)] = [region]

    @property
    def value(self) -> Region:
        """An array's element 0."""
        return self.elements[bytes(4)][0]

    def lookup(self, key: bytes, cpu: int) -> int:
        found = self.elements.get(key)
        at = cpu if self.cpus > 1 else 0
        return found[at].base if found and at < self.cpus else 0

    def update(self, key: bytes, value: bytes, flags: int, cpu: int) -> int:
        """As bpf_map_update_elem; an element that is replaced is no longer to be accessed."""
        old = self.elements.get(key)
        if flags == 1 and old is not None:
            return -EEXIST
        if old is None and len(self.elements) >= self.spec.max_entries:
            if "lru" not in self.spec.type:
                return -E2BIG
            self._drop(next(iter(self.elements)), "evicted since")
        if old is not None and self.cpus > 1:
            old[cpu].data[:] = value
            return 0
        if old is not None:
            self._drop(key, "replaced since")
        self.elements[key] = [self.memory.add(value if at == cpu or self.cpus == 1 else bytes(len(value)),
                                              f"{self.spec.name}[{key.hex()}]") for at in range(self.cpus)]
        return 0

    def delete(self, key: bytes) -> int:
        if key not in self.elements:
            return -ENOENT
        self._drop(key, "deleted since")
        return 0

    def _drop(self, key: bytes, why: str) -> None:
        for region in self.elements.pop(key):
            region.dead = why


class Context(Names):
    """How values decode: like the tests of values, with the script's own string sizes and probes."""

    def __init__(self, spec: ScriptSpec) -> None:
        self.probes = spec.probes
        self.text_size = spec.config.text_size

    def probe_name(self, index: int) -> str:
        return self.probes[index]


class Kernel:
    """A loaded script. The attributes are what its programs will be told."""

    pid, tid, uid, gid, cpu, cgroup, numa = 1234, 1235, 1000, 100, 0, 77, 0
    comm = b"tester"
    jiffies = 4_300_000_000
    function_ip = 0x1000

    def __init__(self, spec: ScriptSpec, cpus: int = 2, kfuncs: dict[str, int] | None = None,
                 arch: str = "x86_64") -> None:
        self.spec, self.cpus = spec, cpus
        self.memory = Memory(ARCHES[arch].byte_order)
        self.maps = {m.name: TestMap(m, self.memory, cpus) for m in spec.maps}
        self.by_handle = {m.handle.base: m for m in self.maps.values()}
        self.task = self.memory.add(16384, "current task", writable=False)
        self.task.data[:] = bytes(16384)
        if CURRENT in self.maps:
            variable = self.memory.add(self.words([self.task.base]), "current_task", writable=False)
            self.maps[CURRENT].value.data[:] = self.words([variable.base] * (spec.find_map(CURRENT).value_size // 8))
        self.clock = 5_000_000
        self.randoms: Iterator[int] = iter(range(7, 1 << 30, 13))
        self.signals: list[tuple[str, int]] = []
        self.trace: list[bytes] = []
        self.frames: list[int] = [0x1001, 0x2002, 0x3003]
        self.reserved: dict[int, tuple[TestMap, Region]] = {}
        self.lines: list[Event] = []
        self.records: list[bytes] = []  # the same, as they were sent
        self.cookie = 0
        self.kfunc_ids = kfuncs or {}
        self.steps = 0
        self.between: Callable[[int], object] = lambda steps: None  # before each instruction; see Machine
        self.names = Context(spec)
        self._decoder = EventDecoder(spec, self.names)
        for at, name in enumerate(spec.globals):
            self._write_global(at, 0 if name.startswith((DISCOVERED, CALLS)) else GLOBALS[name])

    def words(self, values: list[int]) -> bytes:
        return words(values, self.memory.order)

    def _write_global(self, index: int, value: int) -> None:
        at = 8 * (len(self.spec.probes) + len(self.spec.errors) + index)
        self.maps[STATE].value.data[at:at + 8] = self.words([value])

    def set_global(self, name: str, value: int) -> None:
        """A word that the runtime would write before attaching."""
        if name in self.spec.globals:
            self._write_global(self.spec.globals.index(name), value)

    # running

    def run(self, program: ProgramSpec | int = 0, context: bytes | Sequence[int] = bytes(168), cookie: int = 0) -> int:
        """Run a program once; what it returns."""
        if isinstance(program, int):
            program = self.spec.programs[program]
        self.cookie = cookie
        data = context if isinstance(context, bytes) else self.words(list(context))
        ctx = self.memory.add(data, "context", writable=False)
        relocations = {}
        for r in program.relocations:
            target = self.maps[r.map]
            relocations[r.index] = target.handle.base if r.kind == "fd" else target.value.base + r.offset
        kfuncs = dict.fromkeys(self.kfunc_ids.values(), _rdonly_cast)
        machine = Machine(program.code, relocations, self.memory, {n: _bound(self, f) for n, f in HELPERS.items()},
                          kfuncs, between=self.between)
        result = machine.run(ctx.base)
        self.steps += machine.steps
        if self.reserved:
            raise IllegalProgramError("a record was reserved and not submitted")
        return result

    # results

    @property
    def events(self) -> list[Event]:
        """Everything sent since the last time, data and control, in order of submission."""
        found, self.lines = self.lines, []
        return found

    def map(self, name: str = "@") -> dict[Any, Any]:
        """A map's contents as the runtime would decode them; key None for one without keys."""
        made, spec = self.maps[name], self.spec.find_map(name)
        decode = MapDecoder(spec, self.names)
        found = {}
        for key, regions in made.elements.items():
            found[None if spec.memory else decode.decode_key(key)] = decode.decode_value(self._raw(spec, regions, key))
        if spec.slots:
            table = memoryview(self.maps[spec.slots].value.data)
            for raw, value in read_elements(table, spec.key_size, wide_words(spec)).items():
                assert decode.decode_key(raw) not in found, "an element is in its slot and in the hash"
                found[decode.decode_key(raw)] = decode.decode_value(value)
        return found

    def value(self, name: str = "@") -> Any:
        return self.map(name)[None]

    def _raw(self, spec: MapSpec, regions: list[Region], key: bytes) -> Any:
        if not isinstance(spec.value, Aggregate):
            return bytes(regions[0].data)
        size = spec.value.size
        parts = [bytes(regions[0].data[i * spec.stride:][:size]) for i in range(spec.cpus)] if spec.stride \
            else [bytes(r.data[:size]) for r in regions]
        [state] = merge.merge_states(spec.value, b"".join(parts), len(parts))
        if spec.hot:
            table = self.maps[spec.hot]
            counted = read_hot(spec, table.spec, bytes(table.value.data))
            state = merge.sum_states(state, counted[key]) if key in counted else state
        return merge.apply_signs(spec.value, [state])[0]

    def lost(self) -> dict[str, int]:
        """Records lost by probe, where there are any."""
        data = self.maps[STATE].value.data
        counts = [int.from_bytes(data[8 * i:8 * i + 8], self.memory.order) for i in range(len(self.spec.probes))]
        return {name: n for name, n in zip(self.spec.probes, counts) if n}

    def errors(self) -> list[tuple[str, str, int]]:
        """(kind, the script's text, how often) of each failure that happened."""
        data, first = self.maps[STATE].value.data, len(self.spec.probes)
        found = []
        for i, site in enumerate(self.spec.errors):
            count = int.from_bytes(data[8 * (first + i):][:8], self.memory.order)
            if count:
                found.append((site.kind, site.span.text if site.span is not None else "", count))
        return found

    # for helpers

    def submit(self, record: int) -> None:
        ring, region = self.reserved.pop(record)
        ring.produced += len(region.data)
        site = self.spec.sites[int.from_bytes(region.data[:4], self.memory.order)]
        pieces = [(0, CONTROL_HEADER if site.control else RECORD_HEADER)]
        pieces += [(f.offset, f.type.size) for f in site.fields if isinstance(f.type, Scalar)]
        for at, size in pieces:
            self.memory.read(region.base + at, size)  # every byte of a header or number was written
        region.dead = "submitted since"
        self.records.append(bytes(region.data))
        self.lines.append(self._decoder.decode(bytes(region.data)))

    def bytes_at(self, address: int, size: int) -> bytes | None:
        """Memory of the traced program or kernel; None where nothing is."""
        try:
            region, at = self.memory.find(address, size)
        except IllegalProgramError:
            return None
        return bytes(region.data[at:at + size])


def _bound(kernel: Kernel, function: Any) -> Any:
    """A helper for the machine: with the kernel before the machine and as many registers as it takes."""
    count = function.__code__.co_argcount - 2
    return {
        0: lambda m: function(kernel, m), 1: lambda m, a: function(kernel, m, a),
        2: lambda m, a, b: function(kernel, m, a, b), 3: lambda m, a, b, c: function(kernel, m, a, b, c),
        4: lambda m, a, b, c, d: function(kernel, m, a, b, c, d),
        5: lambda m, a, b, c, d, e: function(kernel, m, a, b, c, d, e),
    }[count]


def _rdonly_cast(machine: Machine, pointer: int, type: int) -> int:
    machine.memory.typed.add(pointer)
    return pointer


# --- helpers: kernel, machine, then the registers ---------------------------------------------------------


def _lookup(k: Kernel, m: Machine, map: int, key: int) -> int:
    found = k.by_handle[map]
    return found.lookup(m.memory.read(key, found.spec.key_size), k.cpu)


def _update(k: Kernel, m: Machine, map: int, key: int, value: int, flags: int) -> int:
    found = k.by_handle[map]
    data = m.memory.read(value, found.spec.value_size)
    return _int(found.update(m.memory.read(key, found.spec.key_size), data, flags, k.cpu))


def _delete(k: Kernel, m: Machine, map: int, key: int) -> int:
    found = k.by_handle[map]
    return _int(found.delete(m.memory.read(key, found.spec.key_size)))


def _int(result: int) -> int:
    """As the functions of a map returned it until Linux 6.4: 32 bits, and above them whatever was there."""
    return result & 0xFFFFFFFF | 0x0BADC0DE << 32


def _percpu_lookup(k: Kernel, m: Machine, map: int, key: int, cpu: int) -> int:
    found = k.by_handle[map]
    return found.lookup(m.memory.read(key, found.spec.key_size), cpu)


def _for_each(k: Kernel, m: Machine, map: int, callback: int, context: int, flags: int) -> int:
    found, count = k.by_handle[map], 0
    for key in list(found.elements):
        count += 1
        copy = m.memory.add(key, "key", writable=False)
        if m.run(map, copy.base, found.lookup(key, k.cpu), context, start=callback):
            break
    return count


def _loop(k: Kernel, m: Machine, count: int, callback: int, context: int, flags: int) -> int:
    count &= 0xFFFFFFFF
    if count > 1 << 23:
        return -E2BIG
    for index in range(count):
        if m.run(index, context, start=callback):
            return index + 1
    return count


def _read(k: Kernel, m: Machine, into: int, size: int, address: int) -> int:
    data = k.bytes_at(address, size)
    m.memory.write(into, data if data is not None else bytes(size))
    return 0 if data is not None else -EFAULT


def _read_str(k: Kernel, m: Machine, into: int, size: int, address: int) -> int:
    if size == 0:
        return 0
    if k.bytes_at(address, 0) is None:
        m.memory.write(into, bytes(size))
        return -EFAULT
    text = m.memory.text(address, size - 1) + b"\0"
    m.memory.write(into, text)
    return len(text)


def _comm(k: Kernel, m: Machine, into: int, size: int) -> int:
    m.memory.write(into, k.comm[:size - 1] + b"\0")  # as 5.18 to 6.2 do: the rest stays as it was
    return 0


def _namespace(k: Kernel, m: Machine, device: int, inode: int, into: int, size: int) -> int:
    m.memory.write(into, (k.tid + 1).to_bytes(4, m.memory.order) + (k.pid + 1).to_bytes(4, m.memory.order))
    return 0


def _stack(k: Kernel, m: Machine, context: int, into: int, size: int, flags: int) -> int:
    data = words(k.frames)[:size]
    region, at = m.memory.find(into, size)
    m.memory.write(into, data)
    if region.known is not None:
        region.known[at:at + size] = b"\1" * size
    return len(data)


def _reserve(k: Kernel, m: Machine, ring: int, size: int, flags: int) -> int:
    found = k.by_handle[ring]
    if found.full:
        return 0
    region = m.memory.add(size, "record", watched=True)
    k.reserved[region.base] = (found, region)
    return region.base


def _submit(k: Kernel, m: Machine, record: int, flags: int) -> int:
    k.submit(record)
    return 0


def _output(k: Kernel, m: Machine, ring: int, data: int, size: int, flags: int) -> int:
    record = _reserve(k, m, ring, size, flags)
    if not record:
        return -EAGAIN
    m.memory.write(record, m.memory.read(data, size))
    return _submit(k, m, record, flags)


def _query(k: Kernel, m: Machine, ring: int, what: int) -> int:
    return k.by_handle[ring].produced


def _tick(k: Kernel, m: Machine) -> int:
    k.clock += 10
    return k.clock


def _signal(name: str) -> Any:
    def send(k: Kernel, m: Machine, number: int) -> int:
        k.signals.append((name, to_signed(number, 32)))
        return 0
    return send


def _printk(k: Kernel, m: Machine, format: int, size: int, a: int = 0, b: int = 0, c: int = 0) -> int:
    k.trace.append(m.memory.read(format, size).rstrip(b"\0"))
    return size


HELPERS: dict[int, Any] = {
    h.MAP_LOOKUP: _lookup, h.MAP_UPDATE: _update, h.MAP_DELETE: _delete, h.PERCPU_LOOKUP: _percpu_lookup,
    h.FOR_EACH_MAP: _for_each, h.LOOP: _loop, h.READ_KERNEL: _read, h.READ_USER: _read,
    h.READ_KERNEL_STR: _read_str, h.READ_USER_STR: _read_str, h.COMM: _comm, h.NS_PID_TGID: _namespace,
    h.GET_STACK: _stack, h.RING_RESERVE: _reserve, h.RING_SUBMIT: _submit, h.RING_OUTPUT: _output, h.RING_QUERY: _query,
    h.BOOT_NS: _tick, h.KTIME_NS: _tick, h.TAI_NS: _tick,
    h.RANDOM: lambda k, m: next(k.randoms), h.CPU_ID: lambda k, m: k.cpu, h.NUMA_NODE: lambda k, m: k.numa,
    h.PID_TGID: lambda k, m: k.pid << 32 | k.tid, h.UID_GID: lambda k, m: k.gid << 32 | k.uid,
    h.CGROUP_ID: lambda k, m: k.cgroup, h.JIFFIES: lambda k, m: k.jiffies, h.TASK: lambda k, m: k.task.base,
    h.FUNC_IP: lambda k, m, ctx: k.function_ip, h.ATTACH_COOKIE: lambda k, m, ctx: k.cookie,
    h.SOCKET_COOKIE: lambda k, m, sock: 4242, h.SEND_SIGNAL: _signal("signal"),
    h.SEND_SIGNAL_THREAD: _signal("signal_thread"), h.TRACE_PRINTK: _printk,
}

__all__ = ["Kernel", "TestMap"]
