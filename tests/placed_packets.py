"""Packets in the memory of a simulated kernel, in all the ways in which a kernel keeps one."""

from __future__ import annotations

import random

import compiled
from bpf_kernel import Kernel
from bpf_machine import Region
from packet_filters import PacketMaker
from sonde.types import Array, Struct

KERNELS = ("6.18", "6.1", "5.10", "7.2")
VARIABLES = {"vmemmap_base": 0xFFFF_F000 << 32, "page_offset_base": 0xFFFF_F001 << 32}
PAGES, STRUCT_PAGES = 0xFFFF_E000 << 32, 0xFFFF_E800 << 32
HEADROOM = 64

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
