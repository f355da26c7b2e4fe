"""pcap(): the verdicts of libpcap itself, by random filters over packets of every form of header, in the interpreter.

``SONDE_FUZZ_SEED`` chooses the first seed, ``SONDE_FUZZ_COUNT`` how many filters there are.
"""

from __future__ import annotations

import os
import random
import time
from functools import cache

import pytest

import compiled
from bpf_kernel import Kernel
from bpf_machine import Region
from packet_filters import FilterMaker, PacketMaker, has_libpcap, libpcap_verdict
from recorded_world import RecordedWorld
from sonde.kernel.pcap import compile_filter
from sonde.types import Array, Struct

COUNT = int(os.environ.get("SONDE_FUZZ_COUNT", "160"))
SEED = int(os.environ.get("SONDE_FUZZ_SEED", str(int(time.time()) % (1 << 24))))
TOGETHER, PACKETS, BLOCKS = 8, 8, 4
KERNELS = ("6.18", "6.1", "5.10", "7.2")
VARIABLES = {"vmemmap_base": 0xFFFF_F000 << 32, "page_offset_base": 0xFFFF_F001 << 32}
PAGES, STRUCT_PAGES = 0xFFFF_E000 << 32, 0xFFFF_E800 << 32
HEADROOM = 64

pytestmark = pytest.mark.skipif(not has_libpcap(), reason="libpcap is not installed")


@pytest.fixture(autouse=True)
def symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that says where its pages are."""
    ask = RecordedWorld.kernel_symbol
    monkeypatch.setattr(RecordedWorld, "kernel_symbol", lambda world, name: VARIABLES.get(name) or ask(world, name))


def struct_of(name: str) -> Struct:
    found = compiled.world().find_struct(name)
    assert found is not None
    return found


def fill(struct: Struct, region: Region, **members: int) -> None:
    for name, value in members.items():
        field = struct.field(name)
        assert field is not None, name
        region.data[field.offset:field.offset + field.type.size] = value.to_bytes(field.type.size, "little")


def put_at(kernel: Kernel, address: int, data: bytes) -> None:
    kernel.memory._regions[address >> 32] = Region(address, bytearray(data), "variable", writable=False)


class Placed:
    """A packet in the memory of a kernel, in one of the ways in which the kernel keeps one."""

    def __init__(self, maker: PacketMaker, pick: random.Random) -> None:
        self.link = pick.random() < 0.75
        if self.link:
            self.packet, self.network = maker.frame()
        else:
            self.packet, self.network = maker.network(), 0
        self.tag = self.packet[12:16] if self.link and self.packet[12:14] in (b"\x81\x00", b"\x88\xa8") \
            and pick.random() < 0.5 and len(self.packet) >= 18 else b""
        kept = self.packet[:12] + self.packet[16:] if self.tag else self.packet
        least = 14 if self.link else 0
        self.linear = pick.randrange(least, len(kept) + 1) if pick.random() < 0.3 else len(kept)
        self.kept = kept
        self.headers = pick.choice(("set", "early", "taken")) if self.link else "network"

    def put(self, kernel: Kernel) -> int:
        """The address of its sk_buff."""
        skb, shared = struct_of("sk_buff"), struct_of("skb_shared_info")
        memory = kernel.memory
        tail = HEADROOM + self.linear
        end = (tail + 63) // 64 * 64
        head = memory.add(bytes(HEADROOM) + self.kept[:self.linear] + bytes(end - tail + shared.size), "head")
        self._put_fragments(kernel, shared, head, end)
        region = memory.add(bytes(skb.size), "skb", writable=False)
        network = HEADROOM + max(self.network - len(self.tag), 14 if self.link else 0)
        data = {"set": network, "early": HEADROOM + 14, "taken": network + 20, "network": network}
        at = min(data[self.headers], tail)
        fill(skb, region, head=head.base, data=head.base + at, tail=tail, end=end,
             len=len(self.kept) - (at - HEADROOM), data_len=len(self.kept) - self.linear,
             mac_header=HEADROOM if self.link else 0xFFFF, network_header=0 if self.headers == "early" else network)
        if self.tag:
            fill(skb, region, vlan_proto=int.from_bytes(self.tag[:2], "little"),
                 vlan_tci=int.from_bytes(self.tag[2:], "big"))
        return region.base

    def _put_fragments(self, kernel: Kernel, shared: Struct, head: Region, end: int) -> None:
        rest, number = self.kept[self.linear:], 0
        pages = b""
        frags = shared.field("frags")
        assert frags is not None and isinstance(frags.type, Array) and isinstance(frags.type.of, Struct)
        entry = frags.type.of
        while rest:
            size = max(1, len(rest) // 2)
            at = end + frags.offset + number * entry.size
            raw = Region(0, bytearray(entry.size), "fragment")
            fill(entry, raw, netmem=STRUCT_PAGES + number * struct_of("page").size, len=size, offset=number)
            head.data[at:at + entry.size] = raw.data
            pages += (bytes(number) + rest[:size]).ljust(4096, b"\xcc")
            rest, number = rest[size:], number + 1
        counted = shared.field("nr_frags")
        assert counted is not None
        head.data[end + counted.offset] = number
        put_at(kernel, PAGES, pages)
        put_at(kernel, VARIABLES["vmemmap_base"], STRUCT_PAGES.to_bytes(8, "little"))
        put_at(kernel, VARIABLES["page_offset_base"], PAGES.to_bytes(8, "little"))


@cache
def filters_of(seed: int) -> tuple[str, ...]:
    """Filters that libpcap takes, of frames."""
    maker, made = FilterMaker(seed), list[str]()
    while len(made) < TOGETHER:
        text = maker.expression()
        answer = compile_filter(text, "ethernet")
        if answer is not None and not answer.problem:
            made.append(text)
    return tuple(made)


def script_of(filters: tuple[str, ...], skb: str = "args.skb") -> str:
    bits = " | ".join(f'((uint64)pcap("{text}", {skb}) << {at})' for at, text in enumerate(filters))
    return f"rawtracepoint:net_dev_queue {{ @ = {bits}; }}"


def wanted_verdict(text: str, placed: Placed) -> bool:
    answer = compile_filter(text, "ethernet" if placed.link else "ip")
    return answer is not None and not answer.problem and libpcap_verdict(answer.instructions, placed.packet)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_filters(block: int) -> None:
    print(f"SONDE_FUZZ_SEED={SEED}")
    matches = compared = 0
    for seed in range(SEED + block, SEED + COUNT // TOGETHER, BLOCKS):
        filters, kernel = filters_of(seed), KERNELS[seed % len(KERNELS)]
        spec = compiled.compiled(script_of(filters), kernel)
        pick, maker = random.Random(seed), PacketMaker(seed)
        made = compiled.kernel_of(spec, kernel)
        for _ in range(PACKETS):
            placed = Placed(maker, pick)
            made.run(0, [placed.put(made), 0, 0])
            got = made.value()
            wanted = [wanted_verdict(text, placed) for text in filters]
            assert [bool(got >> at & 1) for at in range(TOGETHER)] == wanted, \
                f"seed {seed} ({kernel}): {placed.__dict__}\n" + "\n".join(filters)
            matches += sum(wanted)
            compared += len(wanted)
        assert not [e for e in made.errors() if e[0] not in ("packet_bare",)]
    assert compared / 50 < matches < compared
