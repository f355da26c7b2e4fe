"""Maps of the running kernel: reading, emptying, merging; bpftool as the second opinion."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from handmade import COUNT, memory, only_process, only_system_call, program, script
from sonde.arch import this_arch
from sonde.arch.syscalls import syscall_numbers
from sonde.asm import insn
from sonde.kernel import syscalls
from sonde.kernel.host import possible_cpus
from sonde.layouts.uapi import BPF_F_NO_PREALLOC, HELPERS
from sonde.runtime.maps import access as mapping
from sonde.runtime.maps.access import Map
from sonde.runtime.session import Session
from sonde.spec import Attach, MapSpec
from sonde.types import INT64, UINT32, Aggregate

CPUS = possible_cpus()
Make = Callable[[MapSpec], Map]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[Map] = []

    def create(spec: MapSpec) -> Map:
        made.append(mapping.create_map(spec, CPUS))
        return made[-1]

    yield create
    for each in made:
        each.close()


def hashed(type: str = "hash", value: object = INT64, entries: int = 1000, flags: int = 0) -> MapSpec:
    return MapSpec("@h", type, 4, value.size, entries, flags, key=UINT32, value=value)


def key(number: int) -> bytes:
    return struct.pack("=I", number)


def per_cpu(*words: int) -> bytes:
    """A per-CPU value of one word: ``words`` for the first CPUs, zero for the others."""
    return struct.pack(f"={CPUS}Q", *[*words, *[0] * CPUS][:CPUS])


@pytest.mark.parametrize(("type", "flags"), [("hash", 0), ("hash", BPF_F_NO_PREALLOC), ("lru_hash", 0)])
def test_plain_values(make: Make, type: str, flags: int) -> None:
    map = make(hashed(type, flags=flags))
    expected = {key(n): struct.pack("=q", -n) for n in range(100)}
    for k, v in expected.items():
        map.update(k, v)
    assert dict(map.items()) == expected
    assert map.get(key(5)) == struct.pack("=q", -5)
    assert map.get(key(1000)) is None
    assert map.delete(key(5)) and not map.delete(key(5))
    map.zero()
    assert {v for _, v in map.items()} == {bytes(8)}
    assert len(map.read_and_clear()) == 99 and map.items() == []
    map.update(key(1), bytes(8))
    map.clear()
    assert not map.items()


def test_per_cpu_aggregates_are_merged(make: Make) -> None:
    map = make(hashed("percpu_hash", Aggregate("sum")))
    map.update(key(1), per_cpu(5, 2**64 - 7))
    assert map.items() == [(key(1), (-2 if CPUS > 1 else 5,))]
    assert map.get(key(1)) == map.read_and_clear()[0][1]


def test_many_keys_in_small_batches(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    map = make(hashed("percpu_hash", COUNT, 5000, BPF_F_NO_PREALLOC))
    for n in range(5000):
        map.update(key(n), per_cpu(n))
    whole = dict(map.items())
    assert whole == {key(n): (n,) for n in range(5000)}
    monkeypatch.setattr(mapping, "_BATCH_BYTES", 1)
    assert dict(map.items()) == whole


@pytest.mark.parametrize("take", [False, True])
def test_walking_key_by_key(make: Make, take: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What kernels and map types without batches get."""
    map = make(hashed())
    for n in range(300):
        map.update(key(n), struct.pack("=q", n))
    monkeypatch.setattr(syscalls, "map_lookup_batch", lambda *_, **__: (0, 524))
    found = map.read_and_clear() if take else map.items()
    assert dict(found) == {key(n): struct.pack("=q", n) for n in range(300)}
    assert len(map.items()) == (0 if take else 300)


def test_keys_that_come_and_go_while_reading(make: Make) -> None:
    map = make(hashed(entries=4000))
    for n in range(2000):
        map.update(key(n), struct.pack("=q", 1))
    stop = threading.Event()

    def churn() -> None:
        n = 2000
        while not stop.is_set():
            map.update(key(n), struct.pack("=q", 2))
            map.delete(key(n))
            n = 2000 + (n + 1) % 1000

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(20):
            found = map.items()
            assert Counter(v for _, v in found)[struct.pack("=q", 1)] == 2000
            assert len(dict(found)) == len(found)
    finally:
        stop.set()
        thread.join()


@pytest.mark.skipif(not shutil.which("bpftool"), reason="bpftool is not installed")
def test_bpftool_agrees(make: Make) -> None:
    map = make(hashed("percpu_hash", COUNT))
    for n in range(50):
        map.update(key(n), per_cpu(n, 1000))
    number = int.from_bytes(syscalls.object_info(map.fd, bytearray(80))[4:8], sys.byteorder)
    dump = subprocess.run(["bpftool", "-j", "map", "dump", "id", str(number)], capture_output=True, check=True)
    oracle = {}
    for element in json.loads(dump.stdout):
        raw = bytes(int(byte, 16) for byte in element["key"])
        total = sum(int.from_bytes(bytes(int(b, 16) for b in cpu["value"]), sys.byteorder) for cpu in element["values"])
        oracle[raw] = (total,)
    assert dict(map.items()) == oracle


def test_keyless_value(make: Make) -> None:
    map = make(memory("@n", INT64))
    assert map.items() == [(b"", bytes(8))]
    map.update(b"", struct.pack("=q", -3))
    assert map.get() == struct.pack("=q", -3)
    assert map.read_and_clear() == [(b"", struct.pack("=q", -3))]
    assert map.get() == bytes(8)


def slots(map: Map, *words: int) -> None:
    map.memory[:8 * len(words)] = struct.pack(f"={len(words)}Q", *words)


def test_taking_a_keyless_count_loses_nothing(make: Make) -> None:
    """The kernel's memory is not touched: counts that arrive between reading and emptying stay."""
    map = make(memory("@c", COUNT, cpus=2))
    slots(map, 5, 6)
    assert map.read_and_clear() == [(b"", (11,))]
    assert map.get() is None
    slots(map, 5, 9)
    assert map.get() == (3,)
    map.zero()
    assert map.get() == (0,)
    map.clear()
    assert map.get() is None
    assert bytes(map.memory[:16]) == struct.pack("=QQ", 5, 9)


def test_what_the_kernel_reads_is_zeroed(make: Make) -> None:
    map = make(memory("@c", COUNT, cpus=2, read_in_kernel=True))
    slots(map, 5, 6)
    assert map.read_and_clear() == [(b"", (11,))]
    assert bytes(map.memory[:16]) == bytes(16)


def test_keyless_extremes(make: Make) -> None:
    map = make(memory("@m", Aggregate("min"), cpus=2))
    slots(map, 0, 0, -4 & 2**64 - 1, 1)
    assert map.read_and_clear() == [(b"", (-4, 1))]
    assert map.get() is None and map.items() == []


def test_a_keyless_value_is_there_once_it_is_set(make: Make) -> None:
    map = make(MapSpec("@n", "array", 4, 16, 1, value=INT64, memory=True, stride=16, marker=8))
    assert map.get() is None and map.items() == []
    map.update(b"", bytes(8))
    assert map.items() == [(b"", bytes(8))]
    map.zero()
    assert map.items() == map.read_and_clear() == [(b"", bytes(8))]
    assert map.items() == map.read_and_clear() == [] and map.get() is None


def test_slots_with_room_between_them(make: Make) -> None:
    map = make(MapSpec("@c", "array", 4, 128, 1, value=COUNT, memory=True, cpus=2, stride=64))
    slots(map, 5, *[99] * 7, 6)
    assert map.get() == (11,)


def test_a_map_that_is_too_large_says_so(make: Make) -> None:
    from sonde.errors import SondeError

    with pytest.raises(SondeError, match="@h: no memory"):
        make(hashed(entries=1 << 31))


def test_taking_while_counting() -> None:
    """Calls are counted in a keyed and a keyless map, emptied many times meanwhile; the sums are the calls made."""
    number = syscall_numbers(this_arch().name)["getppid"]
    keyed = hashed("percpu_hash", COUNT)
    keyed.name = "@k"
    code = [
        *only_system_call(number), *only_process(os.getpid()),
        insn.call_helper(HELPERS["get_smp_processor_id"]), insn.alu("lsh", 0, imm=3), insn.map_value(1, "@c", 0),
        insn.branch("jgt", 0, None, 8 * CPUS - 8, "out"),
        insn.alu("add", 1, 0), insn.alu("mov", 2, imm=1), insn.atomic_add(1, 0, 2, 8),
        insn.store_imm(10, -4, 7, 4), insn.alu("mov", 2, 10), insn.alu("add", 2, imm=-4), insn.map_fd(1, "@k"),
        insn.call_helper(HELPERS["map_lookup_elem"]), insn.branch("jne", 0, None, 0, "there"),
        insn.store_imm(10, -16, 1, 8), insn.alu("mov", 2, 10), insn.alu("add", 2, imm=-4), insn.alu("mov", 3, 10),
        insn.alu("add", 3, imm=-16), insn.alu("mov", 4, imm=0), insn.map_fd(1, "@k"),
        insn.call_helper(HELPERS["map_update_elem"]), insn.jump("out"),
        "there", insn.alu("mov", 1, imm=1), insn.atomic_add(0, 0, 1, 8)]
    spec = script([program("enter", [Attach("rawtracepoint", "r", event="sys_enter")], code)],
                  maps=[memory("@c", COUNT, cpus=CPUS), keyed])
    calls = 100_000

    def work() -> None:
        for _ in range(calls):
            os.getppid()

    with Session(spec) as session:
        session.attach()
        thread = threading.Thread(target=work)
        thread.start()
        keyless = total = 0
        while thread.is_alive():
            keyless += sum(value[0] for _, value in session.maps["@c"].read_and_clear())
            total += sum(value[0] for _, value in session.maps["@k"].read_and_clear())
        thread.join()
        session.stop()
        keyless += sum(value[0] for _, value in session.maps["@c"].read_and_clear())
        total += sum(value[0] for _, value in session.maps["@k"].read_and_clear())
    assert keyless == calls
    # A program that looked its key up just before the kernel deleted it counts into memory that is gone.
    assert calls - total <= calls // 1000
