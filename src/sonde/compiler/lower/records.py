"""Sending records to user space.

Most are reserved in a ring, or in flight memory, filled in place and submitted. One that has a long text or buffer,
its *tail*, is filled in scratch memory, the tail last, and copied into the ring as far as the tail is used: a record
takes the room of what it carries. In flight memory, whose readers know records by their size, it takes the largest.
"""

from __future__ import annotations

from ...base.record import Record
from ...language.ast import Expr, MapRef
from ...layouts.event_records import CONTROL_HEADER, MOST_FIXED, POSITION, PROBE, RECORD_HEADER, SITE, TIME
from ...layouts.shared_maps import FLIGHT_GAP
from ...semantics.naming import name_parts
from ...semantics.nodes import walk_nodes
from ...semantics.typed import WholeMap
from ...spec import Column, EventField, EventSite, FormatPart
from ...types import Buf, Int, Scalar, Str, Type, round_up
from .. import helpers as h
from ..ir import BasicBlock, MapFd, Operand, Reg
from . import memory
from .clocks import boot_time
from .control.ordering import must_run_first
from .core import Lower
from .state import Mem
from .strings.texts import number_of_bytes
from .tails import write_tail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...spec import SiteData


class Reservation(Record):
    """A record being filled; ``own``: in flight memory, and this is the CPU's slot of the heads."""

    record: Reg
    mem: Mem
    done: BasicBlock
    size: int
    own: Reg | None = None


def event_type(type: Type | None) -> Type:
    """The type in which a record carries a value: pointers and odd scalars keep theirs."""
    assert type is not None
    return type


def find_tail(types: list[Type]) -> int | None:
    """Which field is the tail: the largest text or buffer, if that is long."""
    longest = max(types, key=lambda type: type.size if isinstance(type, (Str, Buf)) else 0, default=None)
    return types.index(longest) if isinstance(longest, (Str, Buf)) and longest.size > MOST_FIXED else None


def lay_out_fields(types: list[Type], control: bool = False) -> tuple[list[EventField], int]:
    """Fields at their natural alignment after the header, the tail behind the others; the record's largest size."""
    at = CONTROL_HEADER if control else RECORD_HEADER
    tail = find_tail(types)
    fields = [EventField(type, 0) for type in types]
    for field in sorted(fields, key=lambda field: tail is not None and field is fields[tail]):
        field.offset = round_up(at, min(field.type.align, 8))
        at = field.offset + field.type.size
    return fields, round_up(at, 8)


def reserve_record(lo: Lower, site: EventSite) -> Reservation:
    """Reserve the site's record and write its header; a failure is counted and skips to ``done``."""
    done, lost, have = lo.b.block("sent"), lo.b.block("lost", cold=True), lo.b.block("have")
    index = _attach_index(lo)
    own = None
    if lo.unit.options.flight and not site.control:
        from . import flight
        record, own = flight.reserve_room(lo, site.size, have, lost)
    else:
        record = lo.b.call(h.RING_RESERVE, [MapFd(lo.unit.ring(site.control)), site.size, 0], "ringbuf_reserve")
        lo.b.branch("jne", record, 0, have, lost)
    lo.b.start(lost)
    count_lost(lo, index)
    lo.b.jump(done)
    lo.b.start(have)
    mem = Mem(record)
    _write_head(lo, mem, lo.unit.site(site), index)
    return Reservation(record, mem, done, site.size, own)


def _attach_index(lo: Lower) -> Operand:
    return lo.probe_index() if len(lo.attach) > 1 else lo.first_probe


def _write_head(lo: Lower, record: Mem, site: int, index: Operand) -> None:
    """The site, and which attach point fired."""
    if isinstance(index, int):
        halves = [half.to_bytes(4, lo.byte_order) for half in (site, index)]
        lo.b.store(record.base, record.off, number_of_bytes(lo, b"".join(halves)))
    else:
        lo.b.store(record.base, record.off + SITE, site, 4)
        lo.b.store(record.base, record.off + PROBE, index, 4)


def count_lost(lo: Lower, index: Operand) -> None:
    """Count one more record lost by this attach point."""
    if isinstance(index, int):
        lo.b.atomic_add(lo.unit.lost(index), 0, 1)
        return
    inside, on = lo.b.block("inside", cold=True), lo.b.block("counted", cold=True)
    lo.b.branch("jlt", index, len(lo.unit.probes), inside, on)
    lo.b.start(inside)
    lo.b.atomic_add(lo.b.alu("add", lo.b.address(lo.unit.lost(0)), lo.b.alu("lsh", index, 3)), 0, 1)
    lo.b.start(on)


def submit_record(lo: Lower, reserved: Reservation, time: Operand) -> None:
    """Write the time that orders the record, hand it over."""
    lo.b.store(reserved.record, TIME, time)
    if reserved.own is not None:
        from . import flight
        flight.commit_room(lo, reserved.record, reserved.own, reserved.size)
    else:
        lo.b.call(h.RING_SUBMIT, [reserved.record, 0], "ringbuf_submit")
    lo.b.start(reserved.done)


def discard_record(lo: Lower, reserved: Reservation) -> None:
    """Discard a reserved record."""
    if reserved.own is not None:
        from . import flight
        flight.commit_room(lo, reserved.record, reserved.own, reserved.size, FLIGHT_GAP)
    else:
        lo.b.call(h.RING_DISCARD, [reserved.record, 0], "ringbuf_discard")
    lo.b.jump(reserved.done)


def send_record(lo: Lower, kind: str, values: list[Expr], parts: list[FormatPart] | None = None,
                data: SiteData | None = None, stamp: bool = False, columns: list[Column] | None = None) -> None:
    """A record of ``values``; ``stamp``: it needs the time even if the script did not ask for it. ``columns`` are those
    of a table."""
    types = [event_type(v.type) for v in values]
    fields, size = lay_out_fields(types)
    for field, name in zip(fields, name_parts(values)):
        field.name = name
    site = EventSite(kind, lo.b.span, fields, size, parts or [], data or {}, columns or [])
    early: dict[int, Operand | Mem] = {}
    last = max((i for i, value in enumerate(values) if must_run_first(value)), default=-1)
    with lo.scope():
        for i, value in enumerate(values[:last + 1]):
            early[i] = lo.b.mov(lo.stored_value(value)) if isinstance(types[i], Scalar) \
                else _evaluate_early(lo, value, types[i])
        before = lo.state.last_time
        tail = None if lo.unit.options.flight else find_tail(types)
        pad = any(isinstance(n, MapRef) for value in values for n in walk_nodes(value))
        if tail is None:
            reserved = reserve_record(lo, site)
            with lo.region():
                for i, value in enumerate(values):
                    _write_field(lo, reserved.mem, fields[i], value, early.get(i), pad)
                submit_record(lo, reserved, _record_time(lo, before, stamp))
        else:
            _send_with_tail(lo, site, values, early, tail, stamp, pad)
        lo.state.last_time = before


def _write_field(lo: Lower, record: Mem, field: EventField, value: Expr, early: Operand | Mem | None,
                 pad: bool) -> None:
    target = record.at(field.offset)
    if isinstance(early, Mem):
        memory.copy_bytes(lo, early, target, field.type.size)
    elif early is not None:
        lo.store_value(target, field.type, early)
    else:
        lo.write_value(value, target, field.type, pad=pad and not isinstance(field.type, Str))


def _record_time(lo: Lower, before: Operand | None, stamp: bool) -> Operand:
    """The time for this record: ``before``, which was read before its values, or else the last time that the program
    read. 0 if nobody needs it."""
    time = before if before is not None else lo.state.last_time
    if time is None and (stamp or lo.unit.options.timed):
        time = boot_time(lo)
    return time if time is not None else 0


def _send_with_tail(lo: Lower, site: EventSite, values: list[Expr], early: dict[int, Operand | Mem], tail: int,
                    stamp: bool, pad: bool) -> None:
    """Fill a temporary, and copy into the ring as much of it as is used."""
    before, field = lo.state.last_time, site.fields[tail]
    done, lost, index = lo.b.block("sent"), lo.b.block("lost", cold=True), _attach_index(lo)
    slot = lo.b.slot(site.size, "record")
    slot.scratch = True  # of the frame the verifier may ask that all be written
    record = Mem(slot)
    with lo.region():
        for i, value in enumerate(values):
            if i != tail:
                _write_field(lo, record, site.fields[i], value, early.get(i), pad)
        text = early.get(tail, values[tail])
        assert isinstance(text, Expr | Mem)
        used = write_tail(lo, text, record.at(field.offset), field.type)
        _write_head(lo, record, lo.unit.site(site), index)
        lo.b.store(record.base, record.off + TIME, _record_time(lo, before, stamp))
        sent = lo.b.call(h.RING_OUTPUT, [MapFd(lo.unit.ring(False)), lo.operand_address(record),
                                         lo.b.alu("add", used, field.offset), 0], "ringbuf_output")
    lo.b.branch("jeq", sent, 0, done, lost)
    lo.b.start(lost)
    count_lost(lo, index)
    lo.b.jump(done)
    lo.b.start(done)


def _evaluate_early(lo: Lower, value: Expr, type: Type) -> Mem:
    mem = lo.temp(type.size)
    lo.write_value(value, mem, type)
    return mem


def request_print(lo: Lower, choice: WholeMap, then: str = "") -> None:
    """Ask user space to print a map, and perhaps to clear or zero it in the same step."""
    send_control_record(lo, "print_map", {"map": choice.map, "top": choice.top, "div": choice.div, "then": then})


def send_control_record(lo: Lower, kind: str, data: SiteData, value: Operand | None = None) -> None:
    """A control record: with the data ring's position, so that its place in the order is kept."""
    fields, size = lay_out_fields([Int(64)] if value is not None else [], control=True)
    site = EventSite(kind, lo.b.span, fields, size, [], data)
    position = lo.b.call(h.RING_QUERY, [MapFd(lo.unit.ring(False)), h.RING_PRODUCER_POSITION], "ringbuf_query") \
        if lo.unit.sends_data and not lo.unit.options.flight else 0
    reserved = reserve_record(lo, site)
    lo.b.store(reserved.record, POSITION, position)
    if value is not None:
        lo.b.store(reserved.record, fields[0].offset, value)
    before = time = lo.state.last_time
    if time is None and lo.unit.options.timed:
        time = boot_time(lo)
    submit_record(lo, reserved, time if time is not None else 0)
    lo.state.last_time = before
