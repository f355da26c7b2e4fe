"""Packets in the kernel: where one begins, and the bytes of it.

The memory of an sk_buff has room in front of what ``data`` points to: headers that were taken off are still there. A
packet begins at its link header if that is as long as Ethernet's, else at its network header. Most of it lies in one
piece from there to ``tail``, the rest in fragments of pages (struct skb_shared_info, at ``end``); on 64-bit machines
both are offsets from ``head``. A VLAN tag that the hardware takes off or puts in is not in the packet: it is read as if
it were, which is how tcpdump shows it.
(include/linux/skbuff.h, include/net/xdp.h)
"""

from __future__ import annotations

from ...base.record import Record
from ...base.words import to_signed
from ...types import KERNEL, UINT8, UINT16, UINT32, Array, Int, Pointer, Struct
from ..ir import BasicBlock, Operand, Reg
from . import classic, memory
from .arithmetic import as_number
from .classic import Instruction, PacketLoads
from .core import Lower
from .state import FunctionState, Mem, Sharing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ETHERNET = 14            # bytes of the header
_ADDRESSES, _TAG = 12, 4  # bytes before a VLAN tag, and of it
_NO_HEADER = 0xFFFF      # mac_header of a packet that has none
PAGE_BITS = 12           # of the architectures whose kernels have the variables below
MOST_BYTES = 4           # of a load
OUTSIDE, UNREADABLE = -1, -2  # instead of bytes
_NUMBERS = {1: UINT8, 2: UINT16, 4: UINT32, 8: Int(64, False)}
_CARRIER = "timespec64"  # a struct of the kernel that begins with a number of 64 bits: any memory is loaded through it


class Filter(Record):
    """A filter for packets from their link header on, and one for packets without: None if it cannot be decided
    without, empty if no packet without matches."""

    link: list[Instruction]
    network: list[Instruction] | None


class Packet(Record):
    """A packet: ``head`` is an address, ``begin`` and ``tail`` are offsets from there to its first byte and to the end
    of its first piece."""

    head: Operand
    begin: Reg
    tail: Operand


def branch_on_filter(lo: Lower, skb: Operand, type: Struct, filter: Filter, yes: BasicBlock, no: BasicBlock) -> None:
    """Branch on whether a packet passes a filter. The usual packet is read directly. One whose bytes do not lie in one
    piece takes a function, which begins again."""
    function, apart = lo.b.block("packet"), _filter_function(lo, type, filter)
    _branch_on_both(lo, skb, type, filter, (yes, no, function), True)
    function.cold = True
    lo.b.start(function)
    lo.b.branch("jne", lo.b.function_call(apart, [skb_number(lo, skb, type)]), 0, yes, no)


def skb_number(lo: Lower, skb: Operand, type: Struct) -> Operand:
    """The packet's address as a mere number, as functions that the verifier checks by themselves take it. (With -k
    tracing programs load nothing by their typed arguments, but these are pointers all the same.)"""
    number = as_number(lo, skb, Pointer(type, KERNEL))
    if number is not skb or lo.context.program != "tracing":
        return number
    slot = lo.b.function.slot(8, "plain", scratch=True)
    lo.b.store(slot, 0, skb)
    return lo.b.load(slot, 0)


def _filter_function(lo: Lower, type: Struct, filter: Filter) -> str:
    """The function of an skb: whether it passes."""
    function = lo.add_function(f"packet{len(lo.program.functions)}", 1)
    function.separate = True
    with lo.building(FunctionState(function, lo.b.span, Sharing())):
        skb = lo.b.mov(function.params[0], "skb")
        yes, no, never = (lo.b.block(name) for name in ("passes", "fails", "never"))
        _branch_on_both(lo, skb, type, filter, (yes, no, never), False)
        for block, verdict in ((yes, 1), (no, 0), (never, 0)):
            lo.b.start(block)
            lo.b.exit(verdict)
    return function.name


def _branch_on_both(lo: Lower, skb: Operand, type: Struct, filter: Filter,
                    targets: tuple[BasicBlock, BasicBlock, BasicBlock], direct: bool) -> None:
    """Open the packet and run the filter for how it begins. ``targets``: it passes, it does not, it has to be read by
    the function (only if ``direct``)."""
    yes, no, function = targets
    link, network, bare = lo.b.block("link"), lo.b.block("network"), lo.b.block("bare", cold=True)
    packet = open_skb(lo, skb, type, (link, network, bare, function if direct else None)) \
        if type.field("mac_header") else open_xdp(lo, skb, type, link)
    endless = lo.b.block("endless", cold=True)
    for block, program in ((link, filter.link), (network, filter.network)):
        lo.b.start(block)
        if program is None:
            lo.b.jump(bare)
        elif not program:
            lo.b.jump(no)
        else:
            loads = _direct_loads(lo, skb, type, packet, function) if direct else \
                _loads_by_function(lo, skb, type, packet, block is link)
            classic.branch_on_classic(lo, program, loads, yes, no, endless)
    for block, kind in ((bare, "packet_bare"), (endless, "packet_headers")):
        lo.b.start(block)
        lo.count_error(kind)
        lo.b.jump(no)


# --- where it begins ------------------------------------------------------------------------------------


def read_member(lo: Lower, address: Operand, struct: Struct, name: str) -> Operand:
    """A scalar member of the struct at an address."""
    field = struct.field(name)
    assert field is not None, f"{struct}.{name}"
    return memory.read_field(lo, memory.locate_pointee(lo, address, Pointer(struct, KERNEL)), field)


def open_skb(lo: Lower, skb: Operand, type: Struct,
              targets: tuple[BasicBlock, BasicBlock, BasicBlock, BasicBlock | None]) -> Packet:
    """Go to the first of ``targets`` with a packet that has a link header, to the second with one that has a network
    header, to the third with one that has none; to the last, if any, with a VLAN tag that is not in the packet."""
    b, (link, network, bare, tagged) = lo.b, targets
    begin = b.function.reg("begin")
    if tagged is not None:
        plain = b.block("plain")
        b.branch("jne", read_tag_presence(lo, skb, type), 0, tagged, plain)
        b.start(plain)
    head, tail = read_member(lo, skb, type, "head"), read_member(lo, skb, type, "tail")
    mac, net = read_member(lo, skb, type, "mac_header"), read_member(lo, skb, type, "network_header")
    b.set(begin, mac)
    has_link, short, without, has_network = (b.block(name) for name in ("has_link", "short", "without", "network"))
    b.branch("jeq", mac, _NO_HEADER, without, has_link)
    b.start(has_link)
    least = b.alu("add", mac, ETHERNET)
    b.branch("jge", net, least, link, short)
    b.start(short)  # on its way up, the network header may not be set yet: data is behind the link header
    data = b.alu("sub", read_member(lo, skb, type, "data"), head)
    early = b.block("early")
    b.branch("jgt", net, mac, without, early)
    b.start(early)
    b.branch("jge", data, least, link, without)
    b.start(without)
    b.branch("jne", net, 0, has_network, bare)
    b.start(has_network)
    b.set(begin, net)
    b.jump(network)
    return Packet(head, begin, tail)


def read_tag_presence(lo: Lower, skb: Operand, type: Struct) -> Operand:
    """Not 0 if there is a VLAN tag beside the packet (skb_vlan_tag_present())."""
    return read_member(lo, skb, type, "vlan_all" if type.field("vlan_all") else "vlan_present")


def open_xdp(lo: Lower, xdp: Operand, type: Struct, link: BasicBlock) -> Packet:
    """The packet of an XDP program, which has its link header always."""
    begin = lo.b.function.reg("begin")
    head, end = read_member(lo, xdp, type, "data"), read_member(lo, xdp, type, "data_end")
    lo.b.set(begin, 0)
    tail = lo.b.alu("sub", end, head)
    lo.b.jump(link)
    return Packet(head, begin, tail)


def packet_length(lo: Lower, skb: Operand, type: Struct, packet: Packet) -> Operand:
    """The length of the packet from its beginning, without a tag beside it."""
    if not type.field("mac_header"):
        return packet.tail
    data = lo.b.alu("sub", read_member(lo, skb, type, "data"), packet.head)
    return lo.b.alu("add", read_member(lo, skb, type, "len"), lo.b.alu("sub", data, packet.begin))


# --- bytes in one piece ---------------------------------------------------------------------------------


def _direct_loads(lo: Lower, skb: Operand, type: Struct, packet: Packet, outside: BasicBlock) -> PacketLoads:
    """Loads from the first piece; anything else goes to ``outside``."""
    b = lo.b
    start, room = b.alu("add", packet.head, packet.begin), b.alu("sub", packet.tail, packet.begin)
    whole = _any_memory(lo, start) if memory.loads_directly(lo) and lo.unit.feature("rdonly_memory") else None

    def load(offset: Operand, size: int, _: BasicBlock) -> Reg:
        near = b.block("near")
        end: Operand = offset + size if isinstance(offset, int) else b.alu("add", offset, size)
        b.branch("jsge", room, end, near, outside)
        b.start(near)
        if whole is not None and isinstance(offset, int) and offset < 1 << 14:
            return in_network_order(lo, b.load(whole, offset, size), size)
        return in_network_order(lo, read_number(lo, b.alu("add", start, offset), size), size)

    return PacketLoads(load, lambda: b.extend(packet_length(lo, skb, type, packet), 32, False))


def _any_memory(lo: Lower, address: Operand) -> Reg:
    """A pointer through which the verifier lets anything be loaded (bpf_rdonly_cast() to void, Linux 6.17)."""
    return lo.b.kfunc(lo.world.kfunc_id("bpf_rdonly_cast"), [address, 0], "rdonly_cast", pure=True)


def read_number(lo: Lower, address: Operand, size: int) -> Operand:
    """A number at any address of the kernel, which need not be aligned."""
    assert isinstance(address, Reg)
    carrier = lo.world.find_struct(_CARRIER)
    if memory.loads_directly(lo) and lo.unit.feature("rdonly_memory"):
        return lo.b.load(_any_memory(lo, address), 0, size)
    if memory.loads_directly(lo) and carrier is not None:
        return lo.b.load(memory.typed_pointer(lo, address, carrier.btf_id), 0, size)
    return memory.read_scalar(lo, Mem(address, 0, KERNEL), _NUMBERS[size])


def in_network_order(lo: Lower, value: Operand, size: int) -> Reg:
    """A number as the network has it: the first byte is the highest."""
    if size == 1 or lo.byte_order != "little":
        return lo.b.mov(value)
    return lo.b.swap(value, 8 * size)


# --- bytes anywhere -------------------------------------------------------------------------------------


def _loads_by_function(lo: Lower, skb: Operand, type: Struct, packet: Packet, link: bool) -> PacketLoads:
    """Loads from wherever a byte lies."""
    b, reader = lo.b, reader_function(lo, type)
    tagged = link and type.field("mac_header") is not None

    def load(offset: Operand, size: int, outside: BasicBlock) -> Reg:
        value = b.function_call(reader, [skb, packet.begin, offset, size, int(tagged)])
        good, bad, unreadable = b.block("good"), b.block("bad"), b.block("unreadable", cold=True)
        b.branch("jslt", value, 0, bad, good)
        b.start(bad)
        b.branch("jeq", value, UNREADABLE, unreadable, outside)
        b.start(unreadable)
        lo.count_error("packet_read")
        b.jump(outside)
        b.start(good)
        return value

    def length() -> Operand:
        whole = packet_length(lo, skb, type, packet)
        if tagged:
            present = lo.truth(read_tag_presence(lo, skb, type))
            whole = b.alu("add", whole, b.alu("lsh", present, 2))
        return b.extend(whole, 32, False)

    return PacketLoads(load, length)


def reader_function(lo: Lower, type: Struct) -> str:
    """The function of (skb, begin, offset, size, whether a tag may be beside it): the bytes in network order, or
    OUTSIDE or UNREADABLE. Once in a program."""
    key = ("packet bytes", type.name)
    if key in lo.callbacks:
        return lo.callbacks[key]
    function = lo.add_function(f"bytes{len(lo.program.functions)}", 5)
    function.separate = True
    lo.callbacks[key] = function.name
    with lo.building(FunctionState(function, lo.b.span, Sharing())):
        _read_bytes(lo, type, *[lo.b.mov(parameter) for parameter in function.params])
    return function.name


def _read_bytes(lo: Lower, type: Struct, skb: Reg, begin: Reg, offset: Reg, size: Reg, tagged: Reg) -> None:
    """Byte after byte: they may lie in several places."""
    b, function = lo.b, lo.b.function
    count, value = function.reg("count"), function.reg("value")
    b.set(count, 0)  # known to the verifier, as the size is
    b.set(value, 0)
    head, body, done, outside, unreadable = (b.block(n) for n in ("bytes", "byte", "done", "outside", "unreadable"))
    byte, more = function.reg("byte"), b.block("more")
    within = b.block("within")
    b.start(head)
    b.branch("jlt", count, MOST_BYTES, within, done)  # whatever the size is: the verifier has to see an end
    b.start(within)
    b.branch("jlt", count, size, body, done)
    b.start(body)
    b.set(byte, 0)
    at = b.alu("add", offset, count)
    _read_byte(lo, type, (skb, begin, at, tagged), byte, (more, outside, unreadable))
    b.start(more)
    b.set(value, b.alu("or", b.alu("lsh", value, 8), byte))
    b.set(count, b.alu("add", count, 1))
    b.jump(head)
    for block, result in ((done, value), (outside, OUTSIDE), (unreadable, UNREADABLE)):
        b.start(block)
        b.exit(result)


def _read_byte(lo: Lower, type: Struct, packet: tuple[Reg, Reg, Reg, Reg], byte: Reg,
               targets: tuple[BasicBlock, BasicBlock, BasicBlock]) -> None:
    """One byte of a packet (skb, begin, offset, whether it may be tagged) into ``byte``; to one of ``targets``: it has
    been read, the packet ends before, it cannot be read."""
    b, (skb, begin, offset, tagged), (done, outside, unreadable) = lo.b, packet, targets
    where = b.function.reg("where")
    b.set(where, offset)
    if type.field("mac_header"):
        _skip_tag(lo, type, (skb, offset, tagged), where, byte, done)
    head = read_member(lo, skb, type, "head" if type.field("mac_header") else "data")
    tail = read_member(lo, skb, type, "tail") if type.field("mac_header") else \
        b.alu("sub", read_member(lo, skb, type, "data_end"), head)
    at = b.alu("add", begin, where)
    here, beyond = b.block("here"), b.block("beyond")
    b.branch("jlt", at, tail, here, beyond)
    b.start(here)
    b.set(byte, read_number(lo, b.alu("add", head, at), 1))
    b.jump(done)
    b.start(beyond)
    if not type.field("mac_header"):
        flags = read_member(lo, skb, type, "flags") if type.field("flags") else 0
        b.branch("jset", flags, 1, unreadable, outside)  # XDP_FLAGS_HAS_FRAGS
        return
    rest, paged = b.alu("sub", at, tail), b.block("paged")
    b.branch("jlt", rest, read_member(lo, skb, type, "data_len"), paged, outside)
    b.start(paged)
    _read_fragment(lo, b.alu("add", head, read_member(lo, skb, type, "end")), rest, byte, done, unreadable)


def _skip_tag(lo: Lower, type: Struct, packet: tuple[Reg, Reg, Reg], where: Reg, byte: Reg, done: BasicBlock) -> None:
    """The bytes of a tag beside the packet come after the addresses; ``where`` is an offset without them."""
    b, (skb, offset, tagged) = lo.b, packet
    linked, later, within, after, on = (b.block(n) for n in ("linked", "later", "within", "after", "untagged"))
    b.branch("jne", tagged, 0, linked, on)
    b.start(linked)
    b.branch("jlt", offset, _ADDRESSES, on, later)
    b.start(later)
    present = b.block("tagged")
    b.branch("jne", read_tag_presence(lo, skb, type), 0, present, on)
    b.start(present)
    b.branch("jlt", offset, _ADDRESSES + _TAG, within, after)
    b.start(within)  # vlan_proto is in network order, vlan_tci in the machine's
    protocol = in_network_order(lo, read_member(lo, skb, type, "vlan_proto"), 2)
    tag = b.alu("or", b.alu("lsh", protocol, 16), read_member(lo, skb, type, "vlan_tci"))
    shift = b.alu("lsh", b.alu("sub", _ADDRESSES + _TAG - 1, offset), 3)
    b.set(byte, b.alu("and", b.alu("rsh", tag, b.alu("and", shift, 31)), 0xFF))
    b.jump(done)
    b.start(after)
    b.set(where, b.alu("sub", offset, _TAG))
    b.start(on)


# --- fragments ------------------------------------------------------------------------------------------


def _read_fragment(lo: Lower, shared: Operand, rest: Operand, byte: Reg, done: BasicBlock,
                   unreadable: BasicBlock) -> None:
    """The byte ``rest`` bytes into the fragments that a struct skb_shared_info lists."""
    b, info = lo.b, lo.world.find_struct("skb_shared_info")
    fragments = info.field("frags") if info is not None else None
    pages = _page_addresses(lo)
    if info is None or fragments is None or not isinstance(fragments.type, Array) or pages is None:
        b.jump(unreadable)
        return
    entry = fragments.type.of
    assert isinstance(entry, Struct)
    count, number, left = read_member(lo, shared, info, "nr_frags"), b.function.reg("number"), b.function.reg("left")
    b.set(number, 0)
    b.set(left, rest)
    head, listed, body, inside, following = (b.block(n) for n in ("frags", "listed", "frag", "inside", "following"))
    b.start(head)
    b.branch("jlt", number, fragments.type.count, listed, unreadable)
    b.start(listed)
    b.branch("jlt", number, count, body, unreadable)
    b.start(body)
    at = b.alu("add", b.alu("add", shared, fragments.offset), b.alu("mul", number, entry.size))
    page, size, offset = (_fragment_field(lo, at, entry, *names) for names in (
        ("netmem", "bv_page"), ("len", "bv_len"), ("offset", "bv_offset")))
    b.branch("jlt", left, size, inside, following)
    b.start(following)
    b.set(left, b.alu("sub", left, size))
    b.set(number, b.alu("add", number, 1))
    b.jump(head)
    b.start(inside)
    readable = b.block("readable")
    b.branch("jset", page, 1, unreadable, readable)  # memory of a device (NET_IOV)
    b.start(readable)
    b.set(byte, read_number(lo, b.alu("add", pages(page), b.alu("add", offset, left)), 1))
    b.jump(done)


def _fragment_field(lo: Lower, at: Reg, entry: Struct, *names: str) -> Operand:
    """The member with one of these names: before Linux 6.10 a fragment was a struct bio_vec."""
    [field] = [each for each in map(entry.field, names) if each is not None]
    return read_number(lo, lo.b.alu("add", at, field.offset), field.type.size)


def _page_addresses(lo: Lower) -> Callable[[Operand], Operand] | None:
    """From the address of a struct page to that of the page, where the kernel says in variables where both begin."""
    symbols = [lo.world.kernel_symbol(name) for name in ("vmemmap_base", "page_offset_base")]
    page = lo.world.find_struct("page")
    if page is None or not all(symbols):
        return None

    def address_of(pointer: Operand) -> Operand:
        first, memory_at = [read_number(lo, lo.b.mov(to_signed(symbol or 0)), 8) for symbol in symbols]
        index = lo.b.alu("div", lo.b.alu("sub", pointer, first), page.size)
        return lo.b.alu("add", memory_at, lo.b.alu("lsh", index, PAGE_BITS))

    return address_of
