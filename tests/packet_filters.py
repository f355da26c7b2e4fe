"""Packets of every form of header, filters by chance, and libpcap's own verdict on both."""

from __future__ import annotations

import ctypes
import ctypes.util
import random
import struct

from sonde.kernel import pcap

ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.9.8.7", "192.168.1.1", "224.0.0.1", "255.255.255.255")
SIX = ("fd00::1", "fd00::2", "ff02::1", "2001:db8::5")
STATIONS = ("02:00:00:00:00:01", "02:00:00:00:00:02", "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01")
PORTS = (22, 53, 80, 443, 1000, 4789)
VLANS = (1, 5, 100, 4095)


class Header(ctypes.Structure):
    """struct pcap_pkthdr: pcap/pcap.h."""

    _fields_ = [("seconds", ctypes.c_long), ("microseconds", ctypes.c_long), ("captured", ctypes.c_uint32),
                ("length", ctypes.c_uint32)]


def libpcap_verdict(filter: list[tuple[int, int, int, int]], packet: bytes) -> bool:
    """What pcap_offline_filter() says."""
    library = pcap._load_library()
    code = (pcap._Instruction * len(filter))(*filter)
    program = pcap._Program(len(filter), code)
    header = Header(0, 0, len(packet), len(packet))
    return bool(library.pcap_offline_filter(ctypes.byref(program), ctypes.byref(header), packet))


def has_libpcap() -> bool:
    return pcap._load_library() is not None


class PacketMaker:
    """Packets, by chance: seldom sensible as a whole, each header as its protocol has it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def frame(self) -> tuple[bytes, int]:
        """A frame, and where its network header begins."""
        pick = self.random
        head = b"".join(bytes.fromhex(pick.choice(STATIONS).replace(":", "")) for _ in range(2))
        tags = b"".join(struct.pack("!HH", pick.choice((0x8100, 0x88A8)), pick.choice(VLANS) | pick.randrange(8) << 13)
                        for _ in range(pick.choice((0, 0, 0, 1, 1, 2))))
        kind, body = pick.choice((self.four, self.four, self.six, self.six, self.arp, self.mpls, self.other))()
        return self._cut(head + tags + struct.pack("!H", kind) + body), len(head + tags) + 2

    def network(self) -> bytes:
        """A packet of IP without a link header."""
        return self._cut(self.random.choice((self.four, self.six))()[1])

    def _cut(self, packet: bytes) -> bytes:
        """Now and then a truncated one, but not within its Ethernet header."""
        return packet[:self.random.randrange(14, len(packet) + 1)] if self.random.random() < 0.15 else packet

    def four(self) -> tuple[int, bytes]:
        pick = self.random
        options = bytes(4 * pick.choice((0, 0, 0, 1, 3)))
        protocol, body = self.transport(False)
        fragment = pick.choice((0, 0, 0, 0, 0x2000, 0x2005, 0x0007, 0x4000))
        head = struct.pack("!BBHHHBBH", 0x45 + len(options) // 4, pick.randrange(256), 20 + len(options) + len(body),
                           pick.randrange(1 << 16), fragment, 64, protocol, 0)
        return 0x0800, head + self.address() + self.address() + options + body

    def address(self) -> bytes:
        return bytes(map(int, self.random.choice(ADDRESSES).split(".")))

    def six(self) -> tuple[int, bytes]:
        import socket

        pick = self.random
        following, body = self.transport(True)
        for _ in range(pick.choice((0, 0, 0, 1, 2))):
            kind = pick.choice((0, 43, 44, 60))
            size = 0 if kind == 44 else pick.randrange(3)
            body = bytes([following, size]) + bytes(pick.choice((0, 1)) for _ in range(6 + 8 * size)) + body
            following = kind
        ends = b"".join(socket.inet_pton(socket.AF_INET6, pick.choice(SIX)) for _ in range(2))
        head = struct.pack("!IHBB", 0x60000000 | pick.randrange(1 << 28), len(body), following, 64)
        return 0x86DD, head + ends + body

    def transport(self, six: bool) -> tuple[int, bytes]:
        pick = self.random
        ports = struct.pack("!HH", pick.choice(PORTS), pick.choice(PORTS))
        rest = bytes(pick.randrange(256) for _ in range(pick.randrange(80)))
        return pick.choice((
            (6, ports + struct.pack("!IIBBHHH", 1, 2, 0x50, pick.randrange(256), 100, 0, 0) + rest),
            (6, ports + struct.pack("!IIBBHHH", 1, 2, 0x80, pick.randrange(64), 100, 0, 0) + bytes(12) + b"GET" + rest),
            (17, ports + struct.pack("!HH", 8 + len(rest), 0) + rest), (132, ports + rest),
            (58 if six else 1, bytes([pick.choice((0, 3, 8, 128, 135)), pick.randrange(4)]) + rest),
            (47, struct.pack("!HH", 0, 0x0800) + b"E" + rest), (51, bytes([6, 1]) + bytes(10) + ports + rest),
            (pick.randrange(256), rest)))

    def arp(self) -> tuple[int, bytes]:
        head = struct.pack("!HHBBH", 1, 0x0800, 6, 4, self.random.choice((1, 2)))
        return self.random.choice((0x0806, 0x8035)), head + bytes(6) + self.address() + bytes(6) + self.address()

    def mpls(self) -> tuple[int, bytes]:
        return 0x8847, struct.pack("!I", 100 << 12 | 1 << 8 | 64) + self.four()[1]

    def other(self) -> tuple[int, bytes]:
        kind = self.random.choice((40, 0x88CC, 0x8864, 0xFFFF))
        return kind, bytes(self.random.randrange(256) for _ in range(self.random.randrange(60)))


class FilterMaker:
    """Filters by chance, in the language of pcap-filter(7)."""

    def __init__(self, seed: int, chains: bool = True) -> None:
        self.random = random.Random(seed)
        self.protocols = ("proto", "protochain") if chains else ("proto",)

    def expression(self, depth: int = 3) -> str:
        pick = self.random
        if depth == 0 or pick.random() < 0.35:
            return self.primitive()
        if pick.random() < 0.15:
            return f"not ({self.expression(depth - 1)})"
        return f"({self.expression(depth - 1)}) {pick.choice(('and', 'or'))} ({self.expression(depth - 1)})"

    def primitive(self) -> str:
        pick = self.random
        way = pick.choice(("", "src ", "dst ", "src or dst ", "src and dst "))
        return pick.choice((
            lambda: f"{way}host {pick.choice(ADDRESSES + SIX)}",
            lambda: f"{way}net {pick.choice(('10.0.0.0/24', '192.168.0.0/16', '10', 'fd00::/16'))}",
            lambda: f"{pick.choice(('', 'tcp ', 'udp ', 'sctp '))}{way}port {pick.choice(PORTS)}",
            lambda: f"{pick.choice(('', 'tcp ', 'udp '))}{way}portrange {pick.choice(PORTS[:3])}-{pick.choice(PORTS)}",
            lambda: pick.choice(("ip", "ip6", "arp", "rarp", "tcp", "udp", "icmp", "icmp6", "sctp", "ah", "esp", "igmp",
                                 "stp", "iso", "ipx", "vlan", "mpls", "pppoes", "ip broadcast", "ip multicast",
                                 "ip6 multicast", "ether multicast", "ether broadcast")),
            lambda: f"{pick.choice(('ip', 'ip6'))} {pick.choice(self.protocols)} {pick.choice((6, 17, 47, 51))}",
            lambda: f"vlan {pick.choice(VLANS)}", lambda: f"mpls {pick.choice((100, 7))}",
            lambda: f"ether {pick.choice(('', 'src ', 'dst '))}host {pick.choice(STATIONS)}",
            lambda: f"ether proto {pick.choice(('0x88cc', '0x0800', '40', '0x8864'))}",
            lambda: f"{pick.choice(('less', 'greater'))} {pick.randrange(14, 140)}",
            lambda: f"arp {pick.choice(('src ', 'dst ', ''))}host {pick.choice(ADDRESSES)}",
            self.relation, self.relation, self.relation))()

    def relation(self) -> str:
        pick = self.random
        return f"{self.number(2)} {pick.choice(('=', '!=', '<', '>', '<=', '>='))} {self.number(1)}"

    def number(self, depth: int) -> str:
        pick = self.random
        if depth and pick.random() < 0.5:
            return f"({self.number(depth - 1)} {pick.choice('+ - * / % & | ^ << >>'.split())} {self.number(depth - 1)})"
        protocol = pick.choice(("ether", "ip", "ip6", "tcp", "udp", "icmp", "icmp6", "arp", "sctp"))
        index = self.number(depth - 1) if depth and pick.random() < 0.2 else str(pick.randrange(60))
        return pick.choice((str(pick.choice((0, 1, 2, 7, 31, 255, 4096, 0xFFFFFFFF, pick.randrange(1 << 16)))), "len",
                            f"{protocol}[{index}]", f"{protocol}[{index}:{pick.choice((1, 2, 4))}]", "tcp[tcpflags]",
                            "tcp[((tcp[12:1] & 0xf0) >> 2):4]"))
