"""Packets in the kernel: filters that tcpdump has, and what their headers say."""

from __future__ import annotations

from ..compiler.ir import BasicBlock
from ..compiler.lower import packet_fields, packets, socket_filters
from ..compiler.lower.calls import Function
from ..compiler.lower.classic import Instruction, uses_extensions
from ..compiler.lower.classic_text import PREFIX, read_classic
from ..compiler.lower.core import Lower
from ..compiler.lower.state import Mem
from ..language.ast import Call, Choice
from ..semantics import convert
from ..semantics.callees import Types, choice_of, value_type
from ..semantics.context import CheckContext, fold_constant
from ..spec import ClassicFilter
from ..types import BOOL, PACKET, Pointer, Struct, Type

# A traced program's context -> what the kernel passes it for that.
KINDS = {"sk_buff": "sk_buff", "__sk_buff": "sk_buff", "xdp_buff": "xdp_buff", "xdp_md": "xdp_buff"}
# Structs that begin with the struct sock of a socket, or with the part of it that all of them have.
SOCKETS = dict.fromkeys(("sock", "sock_common", "inet_sock", "inet_connection_sock", "tcp_sock", "udp_sock",
                         "request_sock", "inet_request_sock", "tcp_request_sock", "inet_timewait_sock",
                         "tcp_timewait_sock"), "sock")
_PACKAGES = ["libpcap0.8 is its package in Debian and Ubuntu, libpcap in Fedora, Arch and Alpine, libpcap1 in openSUSE"]


class PacketFilter(Choice):
    """A filter, and the struct that it gets a pointer to."""

    filter: packets.Filter
    packet: Struct


def find_packet(context: CheckContext, node: Call, at: int, type: Type | None, kinds: dict[str, str] = KINDS
                ) -> Struct | None:
    """The kernel's struct of the packet that argument ``at`` points to; None after an error."""
    target = type.to if isinstance(type, Pointer) else None
    name = kinds.get(target.name) if isinstance(target, Struct) else None
    struct = context.world.find_struct(name) if name else None
    if struct is None:
        given = convert.type_name(value_type(type))
        wanted = "struct sk_buff, struct xdp_buff, struct __sk_buff" + (", struct sock" if "sock" in kinds else "")
        context.error("bad-argument", f"{node.name}() expects a pointer to a {' or '.join(wanted.rsplit(', ', 1))} "
                      f"({given} provided)", node.args[at], ["cast it: (struct sk_buff *)args.skbaddr"])
    return struct


def check_pcap(context: CheckContext, node: Call, types: Types) -> Type | None:
    packet, text = find_packet(context, node, 1, types[1], KINDS | SOCKETS), str(node.args[0].const)
    if packet is None:
        return None
    if not text.strip():
        return fold_constant(node, 1, BOOL)  # as tcpdump has it
    if text.startswith(PREFIX):
        return _take_bytecode(context, node, packet, text)
    if context.options.sealed:
        context.error("sealed-filter", "the agent's policy does not let scripts use files: pcap()", node,
                      ["libpcap looks up names of hosts and services; files = true in the policy permits it"])
        return None
    link, network = (context.world.packet_filter(text, kind) for kind in ("ethernet", "ip"))
    if link is None or network is None:
        context.error("no-libpcap", "pcap() needs libpcap, which is not installed", node, _PACKAGES)
        return None
    problem = link.problem
    if not problem and uses_extensions(link.instructions):
        problem = "a packet in the kernel does not say in which direction it goes"
    if problem:
        hints = ["each of its parts can match, but not all at once"] if problem == _REJECTS else []
        context.error("bad-filter", f"pcap(): {problem}", node.args[0], hints)
        return None
    return _choose(context, node, packet, link.instructions, program_without_link(network))


def _choose(context: CheckContext, node: Call, packet: Struct, link: list[Instruction],
            network: list[Instruction] | None) -> Type | None:
    """Take a filter, unless it asks for what a socket does not say."""
    if packet.name == "sock" and (network is None or socket_filters.asks_unknown(network)):
        context.error("bad-filter", "pcap(): a socket says only addresses, ports and the protocol of its packets",
                      node.args[0])
        return None
    node.choice = PacketFilter(packets.Filter(link, network), packet)
    return BOOL


def program_without_link(filter: ClassicFilter) -> list[Instruction] | None:
    """The program for packets without a link header; None if of these the filter cannot be decided."""
    return [] if filter.problem == _REJECTS else None if filter.problem else filter.instructions


def _take_bytecode(context: CheckContext, node: Call, packet: Struct, text: str) -> Type | None:
    """A filter that libpcap has compiled elsewhere."""
    try:
        link, bare = read_classic(text)
        if uses_extensions(link) or uses_extensions(bare or []):
            raise ValueError("a packet in the kernel does not say in which direction it goes")
    except ValueError as problem:
        context.error("bad-filter", f"pcap(): {problem}", node.args[0])
        return None
    return _choose(context, node, packet, link, bare)


_REJECTS = "expression rejects all packets"


def _branch_on_pcap(lo: Lower, call: Call, yes: BasicBlock, no: BasicBlock) -> None:
    chosen = choice_of(call, PacketFilter)
    if chosen.packet.name == "sock":
        socket = lo.scalar_value(call.args[1])
        socket_filters.branch_on_socket(lo, socket, chosen.packet, chosen.filter.network or [], yes, no)
        return
    packets.branch_on_filter(lo, lo.scalar_value(call.args[1]), chosen.packet, chosen.filter, yes, no)


class ReadPacket(Choice):
    """The struct that the packet's pointer points to."""

    packet: Struct


def check_packet(context: CheckContext, node: Call, types: Types) -> Type | None:
    struct = find_packet(context, node, 0, types[0])
    if struct is None:
        return None
    node.choice = ReadPacket(struct)
    return PACKET


def _write_packet(lo: Lower, call: Call, mem: Mem, type: Type) -> None:
    packet_fields.write_packet(lo, lo.scalar_value(call.args[0]), choice_of(call, ReadPacket).packet, mem)


ROWS = (
    Function("pcap", ("filter:literal", "packet:ptr"), BOOL,
             "Whether a packet, or what a socket sends, passes a filter of tcpdump's.", 'pcap("tcp port 443", $skb)',
             check_pcap, condition=_branch_on_pcap),
    Function("packet", ("skb:ptr",), None, "What a packet's headers say: addresses, ports, flags, lengths.",
             "packet($skb)", check_packet, value=_write_packet),
    Function("ifname", ("skb:ptr",), None, 'The network device that has a packet: "eth0".', "ifname($skb)",
             library="packets"),
    Function("skb_id", ("skb:ptr",), None, "A number that a packet and its clones have in common.", "skb_id($skb)",
             library="packets"),
)
