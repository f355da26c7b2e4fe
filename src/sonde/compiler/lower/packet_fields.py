"""What packet() tells of a packet: the fields of its headers.

The outermost network header is read, and the transport header that follows it (RFC 791, 8200, 9293, 768, 792, 826).
Most headers lie in the first piece of the packet and are loaded from there; a load from elsewhere takes the function
that filters have for it.
"""

from __future__ import annotations

from ...layouts import packets as layout
from ...types import PACKET, Struct
from ..ir import BasicBlock, Operand, Reg
from .core import Lower
from .packet_extensions import EXTENSIONS, FRAGMENT_WORD, PROTOCOL, REACHED, extensions_function
from .packets import (
    ETHERNET,
    in_network_order,
    open_skb,
    open_xdp,
    packet_length,
    read_member,
    read_number,
    read_tag_presence,
    reader_function,
    skb_number,
)
from .state import Mem
from .strings.words import make_unknown

IPV4, IPV6, ARP = 0x0800, 0x86DD, 0x0806
ICMP, TCP, UDP, ICMP6 = 1, 6, 17, 58
MOST_TAGS = 2     # of VLANs in the packet
_OFFSETS = dict(zip(PACKET.names, zip(PACKET.offsets, PACKET.of)))


def write_packet(lo: Lower, skb: Operand, type: Struct, into: Mem) -> None:
    """Write PACKET about the packet that ``skb`` points to, a struct ``type``. Fields of headers that cannot be
    read stay 0, and so do their bits of ``read``."""
    _PacketWriter(lo, skb, type, into).write()


class _PacketWriter:
    """One packet on its way into a record."""

    def __init__(self, lo: Lower, skb: Operand, type: Struct, into: Mem) -> None:
        self.lo, self.b, self.skb, self.type, self.into = lo, lo.b, skb, type, into
        function = lo.b.function
        # The EtherType, where the network and the transport header begin, the protocol, the bytes from the network
        # header on.
        self.link, self.at, self.next, self.protocol, self.length = (
            function.reg(name) for name in ("link", "at", "next", "protocol", "length"))
        self.done = function.block("packet_done")

    def write(self) -> None:
        b, network = self.b, self.b.block("network_header")
        b.zero(self.into.base, self.into.off, PACKET.size)
        link, bare = b.block("link"), b.block("bare")
        if self.type.field("mac_header"):
            self.packet = open_skb(self.lo, self.skb, self.type, (link, bare, self.done, None))
            self._start_bare(bare, network)
        else:
            self.packet = open_xdp(self.lo, self.skb, self.type, link)
        self._start_link(link, network)
        b.start(network)
        for number in (self.at, self.link, self.packet.begin):
            self._forget(number)
        whole = b.alu("sub", packet_length(self.lo, self.skb, self.type, self.packet), self.at)
        b.set(self.length, b.extend(whole, 32, False))
        self._put("link", self.link)
        self._put("len", self.length)
        self._read_network()
        b.start(self.done)

    # loads and stores

    def _put(self, name: str, value: Operand) -> None:
        offset, type = _OFFSETS[name]
        self.b.store(self.into.base, self.into.off + offset, value, type.size)

    def _tell_read(self, bits: int) -> None:
        offset, _ = _OFFSETS["read"]
        base, at = self.into.base, self.into.off + offset
        self.b.store(base, at, self.b.alu("or", self.b.load(base, at, 1), bits), 1)

    def _load(self, begin: Operand, offset: int, size: int) -> Reg:
        """A number in network order, ``offset`` bytes behind ``begin``; where it cannot be read, the record is done."""
        b, value = self.b, self.b.function.reg("loaded")
        near, far, good, on = (b.block(name) for name in ("near", "far", "good", "on"))
        start = b.alu("add", begin, offset)
        at = b.alu("add", self.packet.begin, start)
        b.branch("jsle", b.alu("add", at, size), self.packet.tail, near, far)
        b.start(near)
        number = read_number(self.lo, b.alu("add", self.packet.head, at), size)
        b.set(value, in_network_order(self.lo, number, size))
        b.jump(on)
        far.cold = True
        b.start(far)
        reader = reader_function(self.lo, self.type)
        skb = skb_number(self.lo, self.skb, self.type)
        number = b.function_call(reader, [skb, self.packet.begin, start, size, 0])
        b.branch("jslt", number, 0, self.done, good)
        b.start(good)
        b.set(value, b.alu("and", number, (1 << 8 * size) - 1))  # as the verifier knows of a load: one state again
        b.jump(on)
        b.start(on)
        return value

    def _forget(self, number: Reg) -> None:
        """Have the verifier know nothing of a number that differs between the ways that lead here."""
        self.b.set(number, make_unknown(self.lo, number))

    def _put_address(self, name: str, family: int, begin: Operand, offset: int) -> None:
        """An address as ntop() keeps it, in network order."""
        base, at = self.into.base, self.into.off + _OFFSETS[name][0]
        parts = [self._load(begin, offset + part, 4) for part in range(0, 4 if family == 2 else 16, 4)]
        self.b.store(base, at, family, 4)
        for number, value in enumerate(parts):
            self.b.store(base, at + 4 + 4 * number, in_network_order(self.lo, value, 4), 4)

    def _choose(self, value: Operand, *wanted: int) -> tuple[BasicBlock, ...]:
        """A block for each wanted value; the current one goes on with any other."""
        b, blocks = self.b, []
        for number in wanted:
            block, other = b.block("is"), b.block("other")
            b.branch("jeq", value, number, block, other)
            b.start(other)
            blocks.append(block)
        return tuple(blocks)

    # the link header

    def _start_bare(self, bare: BasicBlock, network: BasicBlock) -> None:
        """Without a link header the skb says the protocol, else the version of IP."""
        b = self.b
        b.start(bare)
        b.set(self.at, 0)
        b.set(self.link, in_network_order(self.lo, read_member(self.lo, self.skb, self.type, "protocol"), 2))
        unknown = b.block("unknown")
        b.branch("jeq", self.link, 0, unknown, network)
        b.start(unknown)
        version = b.alu("rsh", self._load(0, 0, 1), 4)
        for block, link in zip(self._choose(version, 4, 6), (IPV4, IPV6)):
            rest = b.block("rest")
            b.jump(rest)
            b.start(block)
            b.set(self.link, link)
            b.jump(network)
            b.start(rest)
        b.jump(self.done)

    def _start_link(self, link: BasicBlock, network: BasicBlock) -> None:
        """Ethernet, with tags beside the packet and in it."""
        b, tagged = self.b, self.b.block("tagged")
        b.start(link)
        b.set(self.at, ETHERNET)
        b.set(self.link, self._load(0, ETHERNET - 2, 2))
        if self.type.field("mac_header"):
            beside, plain = b.block("beside"), b.block("plain")
            b.branch("jne", read_tag_presence(self.lo, self.skb, self.type), 0, beside, plain)
            b.start(beside)
            self._put("vlan", b.alu("and", read_member(self.lo, self.skb, self.type, "vlan_tci"), 0xFFF))
            self._tell_read(layout.TAGGED)
            b.jump(plain)
            b.start(plain)
        for _ in range(MOST_TAGS):
            tagged, on = b.block("tagged"), b.block("untagged")
            for block in self._choose(self.link, *layout.TAGS):
                rest = b.block("rest")
                b.jump(rest)
                b.start(block)
                b.jump(tagged)
                b.start(rest)
            b.jump(on)
            b.start(tagged)
            self._pass_tag(on)
            b.start(on)
        b.jump(network)

    def _pass_tag(self, on: BasicBlock) -> None:
        """A tag in the packet; the outermost one is told."""
        b, first, later = self.b, self.b.block("first_tag"), self.b.block("later_tag")
        offset = self.into.off + _OFFSETS["read"][0]
        tag = b.alu("and", self._load(self.at, 0, 2), 0xFFF)
        b.branch("jset", b.load(self.into.base, offset, 1), layout.TAGGED, later, first)
        b.start(first)
        self._put("vlan", tag)
        self._tell_read(layout.TAGGED)
        b.jump(later)
        b.start(later)
        b.set(self.link, self._load(self.at, 2, 2))
        b.set(self.at, b.alu("add", self.at, 4))
        self._put("link", self.link)
        b.jump(on)

    # the network header

    def _read_network(self) -> None:
        b, transport = self.b, self.b.block("transport_header")
        four, six, arp = self._choose(self.link, IPV4, IPV6, ARP)
        b.jump(self.done)
        b.start(four)
        self._read_ipv4(transport)
        b.start(six)
        self._read_ipv6(transport)
        b.start(arp)
        self._read_arp()
        b.start(transport)
        for number in (self.next, self.length):
            self._forget(number)
        self._read_transport()

    def _read_version(self, version: int) -> Reg:
        """The header's first byte; a header that is not there yet has another version."""
        b, first, same = self.b, self._load(self.at, 0, 1), self.b.block("version")
        b.branch("jeq", b.alu("rsh", first, 4), version, same, self.done)
        b.start(same)
        return first

    def _put_length(self, length: Operand) -> None:
        """The length that the header says, unless it has none: the link may have padded the packet."""
        b, given, on = self.b, self.b.block("given"), self.b.block("not_given")
        b.branch("jne", length, 0, given, on)
        b.start(given)
        b.set(self.length, length)
        self._put("len", length)
        b.jump(on)
        b.start(on)

    def _read_ipv4(self, transport: BasicBlock) -> None:
        b = self.b
        words = b.alu("and", self._read_version(4), 15)
        b.set(self.next, b.alu("add", self.at, b.alu("lsh", words, 2)))
        total, fragment = self._load(self.at, 2, 2), self._load(self.at, 6, 2)
        b.set(self.protocol, self._load(self.at, 9, 1))
        self._put_address("saddr", 2, self.at, 12)
        self._put_address("daddr", 2, self.at, 16)
        self._put("protocol", self.protocol)
        self._put_length(total)
        offset = b.alu("and", fragment, 0x1FFF)
        more = b.alu("and", b.alu("rsh", fragment, 13), layout.MORE_FRAGMENTS)
        self._put("fragment", b.alu("or", b.alu("lsh", offset, 3), more))
        self._tell_read(layout.NETWORK)
        b.branch("jeq", offset, 0, transport, self.done)

    def _read_ipv6(self, transport: BasicBlock) -> None:
        b, on, jumbo = self.b, self.b.block("on"), self.b.block("no_length")
        self._read_version(6)
        length = self._load(self.at, 4, 2)
        b.set(self.protocol, self._load(self.at, 6, 1))
        self._put_address("saddr", 10, self.at, 8)
        self._put_address("daddr", 10, self.at, 24)
        whole = b.function.reg("whole")
        b.set(whole, 0)
        b.branch("jeq", length, 0, on, jumbo)
        b.start(jumbo)
        b.set(whole, b.alu("add", length, 40))
        b.jump(on)
        b.start(on)
        self._put_length(whole)
        self._put("protocol", self.protocol)
        self._tell_read(layout.NETWORK)
        b.set(self.next, b.alu("add", self.at, 40))
        extended = self._choose(self.protocol, *EXTENSIONS)
        b.jump(transport)
        extension = b.block("extension", cold=True)
        for block in extended:
            b.start(block)
            b.jump(extension)
        b.start(extension)
        self._pass_extensions(transport)

    def _pass_extensions(self, transport: BasicBlock) -> None:
        b, skb = self.b, skb_number(self.lo, self.skb, self.type)
        function = extensions_function(self.lo, self.type)
        passed = b.function_call(function, [skb, self.packet.begin, self.next, self.protocol])
        b.set(self.next, b.extend(passed, 32, False))
        b.set(self.protocol, b.alu("and", b.alu("rsh", passed, PROTOCOL), 0xFF))
        self._put("protocol", self.protocol)
        self._put("fragment", b.alu("and", b.alu("rsh", passed, FRAGMENT_WORD), 0xFFFF))
        b.branch("jne", b.alu("rsh", passed, REACHED), 0, transport, self.done)

    def _read_arp(self) -> None:
        """The addresses, where they are those of IPv4 on Ethernet."""
        b, usual = self.b, self.b.block("usual")
        kinds = self._load(self.at, 0, 4)
        b.branch("jeq", kinds, 0x10800, usual, self.done)
        b.start(usual)
        self._put("flags", self._load(self.at, 6, 2))
        self._put_address("saddr", 2, self.at, 14)
        self._put_address("daddr", 2, self.at, 24)
        self._tell_read(layout.NETWORK)
        b.jump(self.done)

    # the transport header

    def _read_transport(self) -> None:
        b = self.b
        tcp, udp, icmp, icmp6 = self._choose(self.protocol, TCP, UDP, ICMP, ICMP6)
        b.jump(self.done)
        b.start(tcp)
        self._put_ports()
        for name, offset in (("seq", 4), ("ack", 8)):
            self._put(name, self._load(self.next, offset, 4))
        word = self._load(self.next, 12, 2)
        self._put("flags", b.alu("and", word, 0x1FF))
        self._end_transport(b.alu("lsh", b.alu("rsh", word, 12), 2))
        b.start(udp)
        self._put_ports()
        self._end_transport(8)
        for block, echoes in ((icmp, (8, 0)), (icmp6, (128, 129))):
            b.start(block)
            self._read_icmp(echoes)

    def _put_ports(self) -> None:
        ports = self._load(self.next, 0, 4)
        self._put("sport", self.b.alu("rsh", ports, 16))
        self._put("dport", self.b.alu("and", ports, 0xFFFF))

    def _read_icmp(self, echoes: tuple[int, int]) -> None:
        b, kind = self.b, self._load(self.next, 0, 2)
        self._put("flags", kind)
        number = self._load(self.next, 4, 4)
        request, answer = self._choose(b.alu("rsh", kind, 8), *echoes)
        echo, on = b.block("echo"), b.block("no_echo")
        b.jump(on)
        for block in (request, answer):
            b.start(block)
            b.jump(echo)
        b.start(echo)
        self._put("sport", b.alu("rsh", number, 16))
        self._put("seq", b.alu("and", number, 0xFFFF))
        b.jump(on)
        b.start(on)
        self._end_transport(8)

    def _end_transport(self, size: Operand) -> None:
        """The transport header was read; the payload is what follows it."""
        b, some = self.b, self.b.block("payload")
        self._tell_read(layout.TRANSPORT)
        rest = b.alu("sub", self.length, b.alu("add", b.alu("sub", self.next, self.at), size))
        b.branch("jsgt", rest, 0, some, self.done)
        b.start(some)
        self._put("payload", rest)
        b.jump(self.done)
