"""Filters for the packets of a socket: what those it sends have in common.

A ``struct sock`` says the family, the protocol, both addresses and both ports. They are put where a packet without
link header, options and extension headers has them, and the filter is run over that. The other bytes are unknown: a
filter that comes to ask for one does not match, and that is counted. Sockets in TIME_WAIT and requests that become
sockets have only the first part of the struct, and are TCP's. (include/net/sock.h)
"""

from __future__ import annotations

from ...types import KERNEL, Pointer, Struct
from ..ir import BasicBlock, Operand, Reg
from . import classic, memory
from .classic import Instruction, PacketLoads
from .core import Lower
from .packets import in_network_order, read_member
from .state import Mem

_INET, _INET6, _TCP = 2, 10, 6
_TIME_WAIT, _NEW_SYN_RECV = 6, 12  # include/net/tcp_states.h
_ROOM = 64  # bytes of the headers, rounded up: as many as a word has bits


def _bits(*ranges: tuple[int, int]) -> int:
    return sum((1 << end) - (1 << start) for start, end in ranges)


# The bytes that are known: version, whether it is a fragment, protocol, addresses, ports; version, next header, ...
KNOWN4, KNOWN6 = _bits((0, 1), (6, 8), (9, 10), (12, 24)), _bits((0, 1), (6, 7), (8, 44))


def asks_unknown(program: list[Instruction]) -> bool:
    """Whether a filter asks for what no socket says: a length, or a byte at a fixed place that is not known."""
    wanted = [_bits((offset, offset + size)) for offset, size in classic.fixed_loads(program)]
    return classic.asks_length(program) or any(bits & ~KNOWN4 and bits & ~KNOWN6 for bits in wanted)


def branch_on_socket(lo: Lower, sk: Operand, type: Struct, program: list[Instruction], yes: BasicBlock, no: BasicBlock
                     ) -> None:
    """Branch on whether a filter for packets without link header takes those of the socket at ``sk``."""
    if not program:
        lo.b.jump(no)
        return
    _SocketFilter(lo, sk, type, yes, no).run(program)


class _SocketFilter:
    """One socket's headers on their way into memory."""

    def __init__(self, lo: Lower, sk: Operand, type: Struct, yes: BasicBlock, no: BasicBlock) -> None:
        self.lo, self.b, self.type, self.yes, self.no = lo, lo.b, type, yes, no
        self.sk = sk
        self.memory = memory.locate_pointee(lo, sk, Pointer(type, KERNEL))
        self.headers = Mem(lo.b.function.slot(_ROOM, "headers", scratch=True))
        self.known = lo.b.function.reg("known")
        self.unknown = lo.b.block("unknown", cold=True)

    def run(self, program: list[Instruction]) -> None:
        b, (four, six, filter) = self.b, (self.b.block(name) for name in ("ipv4", "ipv6", "filter"))
        b.zero(self.headers.base, self.headers.off, _ROOM)
        self._branch_on_family(four, six)
        for block, write in ((four, self._write_ipv4), (six, self._write_ipv6)):
            b.start(block)
            write()
            b.jump(filter)
        b.start(filter)
        endless = b.block("endless", cold=True)
        loads = PacketLoads(self._load, lambda: 0)
        classic.branch_on_classic(self.lo, program, loads, self.yes, self.no, endless)
        for block, kind in ((self.unknown, "socket_unknown"), (endless, "packet_headers")):
            b.start(block)
            self.lo.count_error(kind)
            b.jump(self.no)

    # from the socket

    def _member(self, name: str) -> tuple[Mem, Struct]:
        """Where the struct that has a member begins: both parts of the struct's name begin with skc_."""
        common = self.type.field("__sk_common")
        if name.startswith("skc_") and common is not None:
            assert isinstance(common.type, Struct)
            return self.memory.at(common.offset), common.type
        return self.memory, self.type

    def _read(self, name: str) -> Operand:
        mem, struct = self._member(name)
        field = struct.field(name)
        assert field is not None, name
        return memory.read_field(self.lo, mem, field)

    def _copy_address(self, name: str, at: int) -> None:
        mem, struct = self._member(name)
        field = struct.field(name)
        assert field is not None, name
        memory.read_bytes(self.lo, Mem(mem.base, mem.off + field.offset, KERNEL), 16, self.headers.at(at))

    def _branch_on_family(self, four: BasicBlock, six: BasicBlock) -> None:
        """Of IPv6's sockets, those that are connected by IPv4 send its packets. Others than of IP match nothing."""
        b, other, newer = self.b, self.b.block("other"), self.b.block("family6")
        family = self._read("skc_family")
        b.branch("jeq", family, _INET, four, other)
        b.start(other)
        b.branch("jeq", family, _INET6, newer, self.no)
        b.start(newer)
        self._copy_address("skc_v6_daddr", 24)
        mapped, last = b.block("mapped"), b.block("last")
        b.branch("jeq", self._header(24, 8), 0, mapped, six)
        b.start(mapped)
        marks = in_network_order(self.lo, self._header(32, 4), 4)
        b.branch("jeq", marks, 0xFFFF, last, six)
        b.start(last)
        self.b.zero(self.headers.base, self.headers.off + 24, 16)
        b.jump(four)

    # into the headers

    def _header(self, at: int, size: int) -> Reg:
        return self.b.load(self.headers.base, self.headers.off + at, size)

    def _put(self, at: int, value: Operand, size: int) -> None:
        self.b.store(self.headers.base, self.headers.off + at, value, size)

    def _write_ipv4(self) -> None:
        self._put(0, 0x45, 1)
        self._put(12, self._read("skc_rcv_saddr"), 4)
        self._put(16, self._read("skc_daddr"), 4)
        self._put_protocol(9, 20)
        self.b.set(self.known, KNOWN4)

    def _write_ipv6(self) -> None:
        self._put(0, 0x60, 1)
        self._copy_address("skc_v6_rcv_saddr", 8)
        self._put_protocol(6, 40)
        self.b.set(self.known, KNOWN6)

    def _put_protocol(self, at: int, ports: int) -> None:
        """The protocol and the ports. A whole socket gives its number back before it is closed, not what it has sent
        with (inet_sport)."""
        b, state = self.b, self._read("skc_state")
        whole, part, later, done = (b.block(name) for name in ("whole", "part", "later", "ports"))
        self._put(ports + 2, self._read("skc_dport"), 2)
        b.branch("jeq", state, _TIME_WAIT, part, later)
        b.start(later)
        b.branch("jeq", state, _NEW_SYN_RECV, part, whole)
        b.start(part)
        self._put(at, _TCP, 1)
        self._put(ports, in_network_order(self.lo, self._read("skc_num"), 2), 2)
        b.jump(done)
        b.start(whole)
        self._put(at, self._read("sk_protocol"), 1)
        inet = self.lo.world.find_struct("inet_sock")
        assert inet is not None
        self._put(ports, read_member(self.lo, self.sk, inet, "inet_sport"), 2)
        b.jump(done)
        b.start(done)

    # the filter's loads

    def _load(self, offset: Operand, size: int, _: BasicBlock) -> Reg:
        b, wanted = self.b, (1 << size) - 1
        within, known = b.block("within"), b.block("known")
        if isinstance(offset, Reg):
            b.branch("jle", offset, _ROOM - size, within, self.unknown)
            b.start(within)
        there = b.alu("and", b.alu("rsh", self.known, offset), wanted)
        b.branch("jeq", there, wanted, known, self.unknown)
        b.start(known)
        if isinstance(offset, int):
            return in_network_order(self.lo, self._header(offset, size), size)
        start = b.address(self.headers.base, self.headers.off)
        return in_network_order(self.lo, b.load(b.alu("add", start, offset), 0, size), size)
