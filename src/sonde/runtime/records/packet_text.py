"""What packet() tells, as people read it. A packet has the fields of types.PACKET."""

from __future__ import annotations

from ...layouts.packets import ETHERTYPES, MORE_FRAGMENTS, NETWORK, PROTOCOLS, TAGGED, TRANSPORT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FLAGS = "FSRP.UEWe"  # of TCP, from the lowest bit on, as tcpdump has them
_ICMP = {(1, 0): "echo reply", (1, 3): "unreachable", (1, 5): "redirect", (1, 8): "echo request",
         (1, 11): "time exceeded", (58, 1): "unreachable", (58, 2): "packet too big", (58, 3): "time exceeded",
         (58, 128): "echo request", (58, 129): "echo reply", (58, 133): "router solicitation",
         (58, 134): "router advertisement", (58, 135): "neighbor solicitation", (58, 136): "neighbor advertisement",
         (58, 143): "multicast report"}
_ECHOES = ((1, 0), (1, 8), (58, 128), (58, 129))
_UNREACHABLE = {(1, 0): "net", (1, 1): "host", (1, 2): "protocol", (1, 3): "port", (1, 4): "fragmentation needed",
                (1, 13): "filtered", (58, 0): "no route", (58, 1): "filtered", (58, 3): "address", (58, 4): "port"}


def _flag_letters(flags: int) -> str:
    return "".join(letter for bit, letter in enumerate(_FLAGS) if flags >> bit & 1) or "none"


def packet_text(packet: Any) -> str:
    """One line: ``10.0.0.1:40000 > 10.0.0.2:443 tcp [S] seq 1 len 0``."""
    tag = f"vlan {packet.vlan} " if packet.read & TAGGED else ""
    if not packet.link:
        return f"{tag}(no header)"
    if packet.link not in ETHERTYPES:
        return f"{tag}ethertype {packet.link:#06x} len {packet.len}"
    if not packet.read & NETWORK:
        return f"{tag}{ETHERTYPES[packet.link]} (header not read) len {packet.len}"
    if ETHERTYPES[packet.link] == "arp":
        return tag + _arp_text(packet)
    return tag + _ip_text(packet)


def _arp_text(packet: Any) -> str:
    if packet.flags == 1:
        return f"arp who has {packet.daddr} tell {packet.saddr}"
    return f"arp {packet.saddr} is here, to {packet.daddr}" if packet.flags == 2 else f"arp operation {packet.flags}"


def _ip_text(packet: Any) -> str:
    name = PROTOCOLS.get(packet.protocol, f"protocol {packet.protocol}")
    ports = packet.read & TRANSPORT and packet.protocol in (6, 17)
    ends = [_end_text(address, port) if ports else str(address)
            for address, port in ((packet.saddr, packet.sport), (packet.daddr, packet.dport))]
    text = f"{ends[0]} > {ends[1]} {name}"
    offset, more = packet.fragment & ~7, packet.fragment & MORE_FRAGMENTS
    if offset or more:
        text += f" fragment {offset}{'+' if more else ''}"
    if not packet.read & TRANSPORT:
        unread = packet.protocol in (1, 6, 17, 58) and not offset
        return f"{text}{' (header not read)' if unread else ''} len {packet.len}"
    return f"{text}{_transport_text(packet)}"


def _end_text(address: Any, port: int) -> str:
    return f"[{address}]:{port}" if address.family == 10 else f"{address}:{port}"


def _transport_text(packet: Any) -> str:
    if packet.protocol == 6:
        acknowledged = f" ack {packet.ack}" if packet.flags & 16 else ""
        return f" [{_flag_letters(packet.flags)}] seq {packet.seq}{acknowledged} len {packet.payload}"
    if packet.protocol == 17:
        return f" len {packet.payload}"
    kind, code = (packet.protocol, packet.flags >> 8), packet.flags & 255
    text = " " + _ICMP.get(kind, f"type {packet.flags >> 8} code {code}")
    if text == " unreachable":
        text = f" {_UNREACHABLE.get((packet.protocol, code), f'code {code}')} unreachable"
    echo = f" id {packet.sport} seq {packet.seq}" if kind in _ECHOES else ""
    return f"{text}{echo} len {packet.payload}"


def packet_fields(packet: Any) -> dict[str, Any]:
    """The text, and the fields of those headers that could be read, with names for numbers."""
    network, transport = packet.read & NETWORK, packet.read & TRANSPORT
    fields: dict[str, Any] = {"text": packet_text(packet)}
    if packet.read & TAGGED:
        fields["vlan"] = packet.vlan
    if packet.link:
        fields |= {"link": ETHERTYPES.get(packet.link, packet.link), "len": packet.len}
    if network:
        fields |= {"saddr": str(packet.saddr), "daddr": str(packet.daddr)}
    if network and packet.link == 0x0806:
        fields["operation"] = packet.flags
    elif network:
        fields |= {"protocol": PROTOCOLS.get(packet.protocol, packet.protocol), "fragment": packet.fragment & ~7,
                   "more_fragments": bool(packet.fragment & MORE_FRAGMENTS)}
    if transport and packet.protocol in (6, 17):
        fields |= {"sport": packet.sport, "dport": packet.dport}
    if transport and packet.protocol == 6:
        fields |= {"flags": _flag_letters(packet.flags), "seq": packet.seq, "ack": packet.ack}
    if transport and packet.protocol in (1, 58):
        fields |= {"type": packet.flags >> 8, "code": packet.flags & 255}
        if (packet.protocol, packet.flags >> 8) in _ECHOES:
            fields |= {"id": packet.sport, "seq": packet.seq}
    if transport:
        fields["payload"] = packet.payload
    return fields
