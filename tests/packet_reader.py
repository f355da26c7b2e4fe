"""An independent reader of packets: what packet() is to tell of their bytes."""

from __future__ import annotations

from socket import AF_INET, AF_INET6, inet_ntop

from sonde.layouts.packets import NETWORK, TAGGED, TRANSPORT
from sonde.types import PACKET


class End(Exception):
    """The packet ends before what is to be read."""


class Reader:
    """The fields of a packet, read with slices."""

    def __init__(self, packet: bytes, link: bool) -> None:
        self.packet, self.fields = packet, dict.fromkeys(PACKET.names, 0) | {"saddr": "", "daddr": ""}
        try:
            self.frame() if link else self.network(0, {4: 0x0800, 6: 0x86DD}.get(packet[0] >> 4, 0))
        except End:
            pass

    def number(self, at: int, size: int) -> int:
        if at + size > len(self.packet):
            raise End
        return int.from_bytes(self.packet[at:at + size], "big")

    def frame(self) -> None:
        kind, at = self.number(12, 2), 14
        for _ in range(3):
            if kind in (0x8100, 0x88A8, 0x9100):
                if not self.fields["read"] & TAGGED:
                    self.fields |= {"vlan": self.number(at, 2) & 0xFFF, "read": TAGGED}
                kind, at = self.number(at + 2, 2), at + 4
        self.network(at, kind)

    def network(self, at: int, kind: int) -> None:
        if not kind:
            return
        self.fields |= {"link": kind, "len": len(self.packet) - at}
        if kind == 0x0800:
            self.four(at)
        elif kind == 0x86DD:
            self.six(at)
        elif kind == 0x0806 and self.number(at, 4) == 0x10800:
            self.fields["flags"] = self.number(at + 6, 2)
            self.addresses(AF_INET, at + 14, at + 24)
            self.fields["read"] |= NETWORK

    def addresses(self, family: int, *offsets: int) -> None:
        size = 4 if family == AF_INET else 16
        for name, at in zip(("saddr", "daddr"), offsets):
            self.number(at + size - 1, 1)
            self.fields[name] = inet_ntop(family, self.packet[at:at + size])

    def four(self, at: int) -> None:
        if self.number(at, 1) >> 4 != 4:
            return
        total, fragment, protocol = self.number(at + 2, 2), self.number(at + 6, 2), self.number(at + 9, 1)
        self.addresses(AF_INET, at + 12, at + 16)
        self.fields |= {"protocol": protocol, "len": total or self.fields["len"],
                        "fragment": (fragment & 0x1FFF) * 8 + (fragment >> 13 & 1)}
        self.fields["read"] |= NETWORK
        if not fragment & 0x1FFF:
            self.transport(at, at + (self.packet[at] & 15) * 4, protocol)

    def six(self, at: int) -> None:
        if self.number(at, 1) >> 4 != 6:
            return
        length, protocol, next = self.number(at + 4, 2), self.number(at + 6, 1), at + 40
        self.addresses(AF_INET6, at + 8, at + 24)
        self.fields |= {"protocol": protocol, "len": length + 40 if length else self.fields["len"]}
        self.fields["read"] |= NETWORK
        while protocol in (0, 43, 44, 51, 60):
            size = 8
            if protocol == 44:
                word = self.number(next + 2, 2)
                self.fields["fragment"] = word & 0xFFF9
                if word & 0xFFF8:
                    self.fields["protocol"] = self.number(next, 1)
                    return
            else:
                size = (self.number(next + 1, 1) + 2) * 4 if protocol == 51 else (self.number(next + 1, 1) + 1) * 8
            protocol, next = self.number(next, 1), next + size
            self.fields["protocol"] = protocol
        self.transport(at, next, protocol)

    def transport(self, network: int, at: int, protocol: int) -> None:
        size = 8
        if protocol in (6, 17):
            self.number(at, 4)
            self.fields |= {"sport": self.number(at, 2), "dport": self.number(at + 2, 2)}
        if protocol == 6:
            self.fields["seq"] = self.number(at + 4, 4)
            self.fields["ack"] = self.number(at + 8, 4)
            word = self.number(at + 12, 2)
            self.fields["flags"], size = word & 0x1FF, (word >> 12) * 4
        elif protocol in (1, 58):
            self.fields["flags"] = kind = self.number(at, 2)
            number = self.number(at + 4, 4)
            if kind >> 8 in ((8, 0) if protocol == 1 else (128, 129)):
                self.fields |= {"sport": number >> 16, "seq": number & 0xFFFF}
        elif protocol != 17:
            return
        self.fields["payload"] = max(self.fields["len"] - (at + size - network), 0)
        self.fields["read"] |= TRANSPORT
