"""Network addresses and sockets. Packets to files."""

from __future__ import annotations

from ..compiler import helpers as h
from ..compiler.ir import Operand, Reg
from ..compiler.lower import memory, records
from ..compiler.lower.calls import Function
from ..compiler.lower.clocks import boot_time
from ..compiler.lower.core import Lower
from ..compiler.lower.state import Mem
from ..kinds import tracing_kinds
from ..language.ast import (
    Call,
    Choice,
    Expr,
)
from ..semantics import convert
from ..semantics.callees import Types, choice_of, value_type
from ..semantics.context import CheckContext
from ..spec import EventField, EventSite
from ..types import (
    INT32,
    KERNEL,
    UINT8,
    UINT64,
    Array,
    Buf,
    Inet,
    Int,
    MacAddr,
    Pointer,
    Scalar,
    Str,
    Struct,
    Type,
)


class PrintedAddress(Choice):
    """An address to be printed: its family is AF_INET or AF_INET6, 0 if known only at run time (``af``)."""

    family: int
    af: Expr | None
    value: Expr


_NO_ADDRESS = "ntop() expects an integer or array argument, got {given}"


def check_ntop(context: CheckContext, node: Call, types: Types) -> Type | None:
    address, type = node.args[-1], value_type(types[-1])
    number = convert.as_int(type)
    size = type.size if isinstance(type, (Array, Str)) else 4
    if number is None and not isinstance(type, (Array, Str)) or size not in (4, 16):
        sized = isinstance(type, (Array, Str))
        context.error("bad-argument", "ntop() argument must be 4 or 16 bytes in size" if sized else
                      _NO_ADDRESS.format(given=convert.kind_of_type(type)), node)
        return Inet()
    af = node.args[0] if len(node.args) == 2 else None
    family = {4: 2, 16: 10}[size] if af is None else 0
    if af is not None and convert.as_int(types[0]) is None:
        given = convert.kind_of_type(value_type(types[0]))
        context.error("bad-argument", f"ntop() only supports int arguments ({given} provided)", node)
        return None
    if af is not None and isinstance(af.const, int):
        family = af.const if af.const in (2, 10) else 0  # nothing is printed for other families
    node.choice = PrintedAddress(family, af, address)
    return Inet()


def _write_ntop(lo: Lower, call: Call, mem: Mem, type: Type) -> None:
    """Family, then the address's bytes, the rest zero."""
    chosen = choice_of(call, PrintedAddress)
    address, family = chosen.value, chosen.family
    assert isinstance(type, Inet)
    memory.clear_bytes(lo, mem.at(4), 16)
    lo.b.store(mem.base, mem.off, family if chosen.af is None or family else lo.scalar_value(chosen.af), 4)
    if isinstance(address.type, Scalar):
        lo.b.store(mem.base, mem.off + 4, lo.scalar_value(address), 4)
        return
    assert address.type is not None
    size = address.type.size
    source = lo.place_value(address)
    if family == 2:
        size = 4
    memory.copy_bytes(lo, source, mem.at(4), size, 4)


class Bytes(Choice):
    """The bytes of an address."""

    value: bytes


def check_pton(context: CheckContext, node: Call, types: Types) -> Type | None:
    import socket
    text = node.args[0].const
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    try:
        address = socket.inet_pton(family, text)
    except (OSError, ValueError):
        wants = "a valid" if "." in text or ":" in text else "an string argument of an"  # as bpftrace has it
        context.error("bad-argument", f"pton() expects {wants} IPv4/IPv6 address, got {text}", node)
        return None
    node.choice = Bytes(address)
    return Array(UINT8, len(address))


def _write_pton(lo: Lower, call: Call, mem: Mem, type: Type) -> None:
    for offset, byte in enumerate(choice_of(call, Bytes).value):
        lo.b.store(mem.base, mem.off + offset, byte, 1)


def check_macaddr(context: CheckContext, node: Call, types: Types) -> Type | None:
    from ..types import MacAddr
    given = types[0]
    if isinstance(node.args[0].const, str):
        context.error("bad-argument", "macaddr() does not support literal string arguments", node)
        return None
    if isinstance(given, (Array, Str)) and given.size < 6:
        context.error("bad-argument", "macaddr() argument must be at least 6 bytes in size", node)
        return None
    return MacAddr()


def _write_macaddr(lo: Lower, call: Call, mem: Mem, type: Type) -> None:
    assert isinstance(type, MacAddr)
    memory.copy_bytes(lo, memory.locate_bytes(lo, call.args[0]), mem, 6, 2)


def check_bswap(context: CheckContext, node: Call, types: Types) -> Type | None:
    number = convert.as_int(types[0])
    assert number is not None
    unsigned = Int(number.bits, False)
    value = node.args[0].const
    if isinstance(value, int):
        size = number.bits // 8
        node.const = int.from_bytes(convert.wrap_int(value, unsigned).to_bytes(size, "little"), "big")
    return unsigned


def _lower_bswap(lo: Lower, call: Call) -> Operand:
    bits = call.type.size * 8 if call.type is not None else 64
    value = lo.scalar_value(call.args[0])
    return lo.normalise(value, call.type) if bits == 8 else lo.b.swap(value, bits)


def check_socket_cookie(context: CheckContext, node: Call, types: Types) -> Type | None:
    target = types[0].to if isinstance(types[0], Pointer) else None
    name = target.name if isinstance(target, Struct) else ""
    if name in ("sock", "sock_common", "inet_sock", "tcp_sock", "udp_sock", "unix_sock") or types[0] is None:
        return UINT64
    context.error("bad-argument",
                  f"socket_cookie() expects a struct sock pointer ({convert.type_name(types[0])} provided)",
                  node.args[0], ["a socket has its sock: $socket.sk"] if name == "socket" else [])
    return None


def _lower_socket_cookie(lo: Lower, call: Call) -> Operand:
    return lo.b.call(h.SOCKET_COOKIE, [lo.scalar_value(call.args[0])], "socket_cookie")


# --- packets --------------------------------------------------------------------------------------------

CAPACITY = 2048  # bytes kept of a packet whose length is only known at run time
LARGEST_PACKET = 65535

class Packet(Choice):
    """The maximum number of bytes kept of a packet."""

    capacity: int


def check_skboutput(context: CheckContext, node: Call, types: Types) -> Type | None:
    target = types[1].to if isinstance(types[1], Pointer) else None
    if not isinstance(target, Struct) or target.name != "sk_buff":
        context.error("bad-argument", f"skboutput() only supports struct sk_buff pointer arguments "
                      f"({convert.type_name(value_type(types[1]))} provided)", node,
                      ["cast it: (struct sk_buff *)args.skbaddr"])
        return None
    length = node.args[2].const
    if isinstance(length, int) and not 0 < length <= LARGEST_PACKET:
        context.error("bad-argument", f"skboutput: length must be between 1 and {LARGEST_PACKET} ({length} provided)",
                      node.args[2])
        return None
    node.choice = Packet(length if isinstance(length, int) else CAPACITY)
    return INT32


EINVAL, ENOSPC = 22, 28


def lower_skboutput(lo: Lower, call: Call) -> Operand:
    """The linear part of the packet (skb->data), from ``offset`` on; 0, or a negative error."""
    capacity = choice_of(call, Packet).capacity
    skb, length, offset = call.args[1], lo.scalar_value(call.args[2]), lo.scalar_value(call.args[3])
    assert isinstance(skb.type, Pointer) and isinstance(skb.type.to, Struct)
    mem = memory.locate_pointee(lo, lo.scalar_value(skb), skb.type, KERNEL)
    data, whole, paged = (_read_member(lo, mem, skb.type.to, name) for name in ("data", "len", "data_len"))
    time = boot_time(lo)
    fields, size = records.lay_out_fields([Buf(capacity), Int(32, False)])
    result = lo.b.function.reg("output")
    lo.b.set(result, -EINVAL)
    count = lo.b.function.reg("kept")
    lo.b.set(count, lo.b.alu("sub", lo.b.alu("sub", whole, paged), offset))
    for most in (length, capacity):
        long, on = lo.b.block("long"), lo.b.block("on")
        lo.b.branch("jsgt", count, most, long, on)
        lo.b.start(long)
        lo.b.set(count, most)
        lo.b.start(on)
    some, fits, out = lo.b.block("some"), lo.b.block("fits"), lo.b.block("output")
    lo.b.branch("jsgt", count, 0, some, out)
    lo.b.start(some)
    lo.b.branch("jle", count, capacity, fits, out)
    lo.b.start(fits)
    lo.b.set(result, -ENOSPC)
    site = EventSite("skboutput", lo.b.span, fields, size, [], {"path": call.args[0].const})
    _send_packet(lo, site, fields, (lo.b.alu("add", data, offset), count, lo.b.alu("sub", whole, offset)), time, result)
    lo.b.start(out)
    return result


def _read_member(lo: Lower, mem: Mem, struct: Struct, name: str) -> Operand:
    field = struct.field(name)
    assert field is not None
    return memory.read_field(lo, mem, field)


def _send_packet(lo: Lower, site: EventSite, fields: list[EventField], packet: tuple[Operand, Operand, Operand],
                 time: Operand, result: Reg) -> None:
    start, count, length = packet
    reserved = records.reserve_record(lo, site)
    target = reserved.mem.at(fields[0].offset)
    lo.b.store(target.base, target.off, count, 4)
    lo.b.store(reserved.record, fields[1].offset, length, 4)
    lo.b.set(result, lo.b.call(h.READ_KERNEL, [lo.operand_address(target.at(4)), count, start], "probe_read_kernel"))
    good, bad = lo.b.block("good"), lo.b.block("bad", cold=True)
    lo.b.branch("jeq", result, 0, good, bad)
    lo.b.start(bad)
    records.discard_record(lo, reserved)
    lo.b.start(good)
    records.submit_record(lo, reserved, time)



ROWS = (
    Function("ntop", ("address:int|array|str", "more:int|array|str?"), None, "Text of an IP address.",
             "ntop(args.family, args.saddr)", check_ntop, named_by=-1,
             wrong={"address": _NO_ADDRESS, "more": _NO_ADDRESS}, value=_write_ntop),
    Function("ntop_by", ("family:int", "four:int|array", "six:array"), None,
             "Text of the IPv4 or the IPv6 address, whichever the family says.",
             'ntop_by(AF_INET, pton("127.0.0.1"), pton("::1"))', library="inet"),
    Function("pton", ("text:literal",), None, "Bytes of an IP address.", 'pton("127.0.0.1")', check_pton,
             wrong={"text": "pton() expects an string literal at the first argument"}, value=_write_pton),
    Function("macaddr", ("bytes:array|str|ptr|int",), None, "Text of a MAC address.", "macaddr($dev.dev_addr)",
             check_macaddr,
             wrong={"bytes": "macaddr() only supports array or pointer arguments ({given} provided)"},
             value=_write_macaddr),
    Function("bswap", ("n:integer",), None, "Reverse the order of bytes.", "bswap($sk.__sk_common.skc_dport)",
             wrong={"n": "bswap() only supports integer arguments ({kind} provided)"}, rule=check_bswap,
             scalar=_lower_bswap),
    Function("sock_laddr", ("sk:ptr",), None, "A struct sock's own address.", "sock_laddr((struct sock *)arg0)",
             library="inet"),
    Function("sock_raddr", ("sk:ptr",), None, "The address at the other end of a struct sock.",
             "sock_raddr((struct sock *)arg0)", library="inet"),
    Function("sock_spliced", ("fd:int",), None, "The struct sock whose data splice() takes by a way of its own, or 0.",
             "sock_spliced(0)", library="inet"),
    Function("fd_socket", ("fd:int",), None, "The struct socket of a descriptor of the current task as a number, or 0.",
             "fd_socket(0)", library="inet"),
    Function("socket_inode", ("socket:int",), None, "The inode number of a struct socket; no later one has the same.",
             "socket_inode(fd_socket(0))", library="inet"),
    Function("recv_takes", ("flags:int",), None, "Whether a receive with these flags takes data: MSG_PEEK only looks.",
             "recv_takes(MSG_PEEK)", library="inet"),
    Function("tcp_state", ("state:int",), None, 'The name of a state of TCP: "ESTABLISHED".', "tcp_state(1)",
             library="inet"),
    Function("socket_cookie", ("sock:ptr",), UINT64, "The kernel's cookie of a socket.", "socket_cookie(args.sk)",
             check_socket_cookie, machine=True, probes=tracing_kinds(), scalar=_lower_socket_cookie),
    Function("skboutput", ("path:literal", "skb:ptr|int", "length:int", "offset:int"), None,
             "Write a packet to a pcap file: a new one, or in place of an earlier capture.",
             'skboutput("x.pcap", $skb, 64, 0)', check_skboutput, sends="data", acts=True, scalar=lower_skboutput),
)
