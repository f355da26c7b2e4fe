"""Records in flight memory: each CPU writes into its own region, over the oldest records, and nothing reads along.

A writer may be interrupted by another program that writes on the same CPU, and one that can be preempted may also stand
still while others go round the whole region. Space is therefore reserved by one atomic addition, and ``writers`` tells
a writer whether it is alone: if so, it notes the head as ``settled``, since all records before it are complete. A
writer that is not alone is refused space a region further than that, less a segment: another may still be writing
there. Reading is described in runtime/flight/rings.py, the layout in layouts/shared_maps.py.
"""

from __future__ import annotations

from ...kinds import KINDS
from ...layouts.shared_maps import FLIGHT_BUSY, FLIGHT_GAP, HEAD, HEADS, HEADS_STRIDE, SETTLED, WRITERS
from ...spec import MapSpec
from .. import helpers as h
from ..ir import BasicBlock, MapAddr, MapFd, Operand, Reg
from .core import Lower
from .state import COMMITS, RESERVES
from .tasks import slot_number

PREFIX = 8  # bytes before a record


def reserve_room(lo: Lower, size: int, have: BasicBlock, lost: BasicBlock) -> tuple[Reg, Reg]:
    """Room for a record of ``size`` bytes: goes to ``have`` with its address, or to ``lost``. Also this CPU's slot of
    the heads, for :func:`commit_room`."""
    length = size + PREFIX
    memory = lo.unit.flight(length)
    cpu = slot_number(lo, memory.cpus, lost)
    leave = lo.b.block("leave", cold=True)
    own = lo.b.alu("add", lo.b.address(MapAddr(HEADS)), lo.b.alu("mul", cpu, HEADS_STRIDE))
    _enter(lo, own, length, leave)
    at = _advance_head(lo, own, length)
    within = lo.b.alu("and", at, memory.stride - 8)
    segment = _locate_segment(lo, memory, cpu, at, leave)
    long, on = lo.b.block("long", cold=True), lo.b.block("place")
    lo.b.branch("jgt", within, memory.stride - length, long, on)
    lo.b.start(long)
    _begin_segment(lo, memory, cpu, lo.b.alu("add", at, length), leave)
    lo.b.start(on)
    prefix = lo.b.alu("add", segment, within)
    lo.b.store(prefix, 0, _prefix(lo, at, length | FLIGHT_BUSY))
    record = lo.b.alu("add", prefix, PREFIX)
    lo.b.jump(have)
    lo.b.start(leave)
    _leave(lo, own)
    lo.b.jump(lost)
    return record, own


def commit_room(lo: Lower, record: Reg, own: Reg, size: int, flag: int = 0) -> None:
    """The record is complete (or, with FLIGHT_GAP, is none)."""
    lower_half = 0 if lo.byte_order == "little" else 4
    lo.b.store(record, lower_half - PREFIX, size + PREFIX | flag, 4)
    _leave(lo, own)
    lo.b.current.ops[-1].label = COMMITS


def _counts_atomically(lo: Lower) -> bool:
    """Whether another program may change the count of writers for good between two operations of this one. A program
    that only interrupts it has left again before it goes on. Before Linux 5.12 no program is preempted."""
    return lo.unit.feature("atomic_fetch") and (lo.context.preemptible or KINDS[lo.attach[0].kind].iterates)


def _enter(lo: Lower, own: Reg, length: int, leave: BasicBlock) -> None:
    """Register as a writer, and note what has settled; to ``leave`` if the space might still be written to."""
    if _counts_atomically(lo):
        others = lo.b.fetch_add(own, WRITERS, lo.b.mov(1))
    else:
        others = lo.b.load(own, WRITERS)
        lo.b.store(own, WRITERS, lo.b.alu("add", others, 1))
    lo.b.current.ops[-1].label = RESERVES
    alone, several, on = lo.b.block("alone"), lo.b.block("several", cold=True), lo.b.block("entered")
    lo.b.branch("jeq", others, 0, alone, several)
    lo.b.start(several)
    if lo.unit.feature("atomic_fetch"):
        farthest = lo.b.alu("add", lo.b.load(own, SETTLED), lo.unit.options.flight - lo.unit.segment - length)
        lo.b.branch("jlt", lo.b.load(own, HEAD), farthest, on, leave)
    else:
        lo.b.jump(leave)
    lo.b.start(alone)
    lo.b.store(own, SETTLED, lo.b.load(own, HEAD))
    lo.b.start(on)


def _leave(lo: Lower, own: Reg) -> None:
    """Unregister as a writer."""
    if _counts_atomically(lo):
        lo.b.atomic_add(own, WRITERS, -1)
    else:
        lo.b.store(own, WRITERS, lo.b.alu("sub", lo.b.load(own, WRITERS), 1))


def _advance_head(lo: Lower, own: Reg, length: int) -> Operand:
    """Take ``length`` bytes; the number of the first. Before Linux 5.12 only one writer at a time gets here."""
    if lo.unit.feature("atomic_fetch"):
        return lo.b.fetch_add(own, HEAD, lo.b.mov(length))
    at = lo.b.load(own, HEAD)
    lo.b.store(own, HEAD, lo.b.alu("add", at, length))
    return at


def _locate_segment(lo: Lower, memory: MapSpec, cpu: Reg, at: Operand, leave: BasicBlock) -> Reg:
    """The address of the segment that has byte ``at``."""
    segments = memory.max_entries // memory.cpus
    number = lo.b.alu("and", lo.b.alu("rsh", at, memory.stride.bit_length() - 1), segments - 1)
    with lo.scope():
        key = lo.temp(4)
        lo.b.store(key.base, key.off, lo.b.alu("add", lo.b.alu("mul", cpu, segments), number), 4)
        segment = lo.b.call(h.MAP_LOOKUP, [MapFd(memory.name), lo.operand_address(key)], "map_lookup_elem")
    good = lo.b.block("segment")
    lo.b.branch("jne", segment, 0, good, leave)  # always; it tells the verifier so
    lo.b.start(good)
    return segment


def _begin_segment(lo: Lower, memory: MapSpec, cpu: Reg, end: Reg, leave: BasicBlock) -> None:
    """Begin the next segment with a gap that reaches up to ``end``, where a record ends."""
    segment = _locate_segment(lo, memory, cpu, end, leave)
    length = lo.b.alu("and", end, memory.stride - 8)
    lo.b.store(segment, 0, _prefix(lo, lo.b.alu("sub", end, length), lo.b.alu("or", length, FLIGHT_GAP)))


def _prefix(lo: Lower, at: Operand, length: Operand) -> Reg:
    """The eight bytes before a record: its length in the lower half, the number of its first byte / 8 in the upper."""
    return lo.b.alu("or", lo.b.alu("lsh", at, 29), length)
