"""Lowering of functions that act on the system: the kernel's own printf, packets to files, writing user memory."""

from __future__ import annotations

from typing import Any

from ...language.ast import Call, Expr
from ...spec import EventField, EventSite, FormatPart, MapSpec
from ...types import KERNEL, Buf, Int, Pointer, Scalar, Str, Struct
from .. import helpers as h
from ..ir import MapAddr, Operand, Reg
from ..unit import RDONLY_PROG
from . import memory, records
from .clocks import boot_time
from .core import Lower
from .state import Mem

EINVAL, ENOSPC = 22, 28


# --- debugf -----------------------------------------------------------------------------------------------


def lower_debugf(lo: Lower, call: Call) -> None:
    """bpf_trace_printk() up to three values, bpf_trace_vprintk() beyond."""
    text, count = kernel_format(call.data, call.args[1:])
    format = constant_text(lo, text)
    with lo.scope():
        values = [printed_word(lo, arg) for arg in call.args[1:]]
        if count <= 3:
            result = lo.b.call(h.TRACE_PRINTK, [format, len(text), *values], "trace_printk")
            lo.on_failure(result, "helper", "trace_printk")
            return
        array = lo.temp(8 * count)
        for number, value in enumerate(values):
            lo.b.store(array.base, array.off + 8 * number, value)
        result = lo.b.call(h.TRACE_VPRINTK, [format, len(text), lo.operand_address(array), 8 * count], "trace_vprintk")
        lo.on_failure(result, "helper", "trace_vprintk")


def kernel_format(parts: list[FormatPart], args: list[Expr]) -> tuple[bytes, int]:
    """The format as the kernel's bpf_bprintf_prepare() reads it, and how many values it takes. Every integer
    travels as 64 bits that are extended already."""
    text = ""
    for part in parts:
        text += part.literal.replace("%", "%%")
        if part.conversion:
            spec = part.spec.replace("#", "")
            text += {"s": f"%{spec}s", "p": "0x%llx", "c": "%c"}.get(part.conversion) or \
                f"%{spec}ll{part.conversion}".replace("lli", "lld")
    return text.encode("utf-8", "surrogateescape") + b"\0", len(args)


def constant_text(lo: Lower, text: bytes) -> MapAddr:
    """Bytes in read-only memory."""
    name = f"__text{sum(m.startswith('__text') for m in lo.unit.maps)}"
    size = (len(text) + 7) // 8 * 8
    lo.unit.internal(name, lambda: MapSpec(name, "array", 4, size, 1, RDONLY_PROG, initial=text))
    return MapAddr(name)


def printed_word(lo: Lower, arg: Expr) -> Operand:
    """An argument as the kernel's printf takes it: a word, for a string its address."""
    if isinstance(arg.type, Scalar):
        return lo.scalar_value(arg)
    assert isinstance(arg.type, Str)
    place = lo.place_value(arg)
    return lo.b.address(place.base, place.off)


# --- skboutput --------------------------------------------------------------------------------------------


def lower_skboutput(lo: Lower, call: Call) -> Operand:
    """The packet's bytes that lie in one piece (skb->data), from ``offset`` on; 0, or a negative error."""
    capacity = call.data["capacity"]
    skb, length, offset = call.args[1], lo.scalar_value(call.args[2]), lo.scalar_value(call.args[3])
    assert isinstance(skb.type, Pointer) and isinstance(skb.type.to, Struct)
    mem = memory.locate_pointee(lo, lo.scalar_value(skb), skb.type, KERNEL)
    data, whole, paged = (_read_member(lo, mem, skb.type.to, name) for name in ("data", "len", "data_len"))
    time = boot_time(lo)
    fields, size = records.lay_out_fields([Buf(capacity), Int(32, False)])
    result = lo.b.function.reg("output")
    lo.b.set(result, -EINVAL)
    kept = lo.b.function.reg("kept")
    lo.b.set(kept, lo.b.alu("sub", lo.b.alu("sub", whole, paged), offset))
    for most in (length, capacity):
        long, on = lo.b.block("long"), lo.b.block("on")
        lo.b.branch("jsgt", kept, most, long, on)
        lo.b.start(long)
        lo.b.set(kept, most)
        lo.b.start(on)
    some, fits, out = lo.b.block("some"), lo.b.block("fits"), lo.b.block("output")
    lo.b.branch("jsgt", kept, 0, some, out)
    lo.b.start(some)
    lo.b.branch("jle", kept, capacity, fits, out)
    lo.b.start(fits)
    lo.b.set(result, -ENOSPC)
    site = EventSite("skboutput", lo.b.span, fields, size, [], {"path": call.args[0].const})
    _send_packet(lo, site, fields, (lo.b.alu("add", data, offset), kept, lo.b.alu("sub", whole, offset)), time, result)
    lo.b.start(out)
    return result


def _read_member(lo: Lower, mem: Mem, struct: Struct, name: str) -> Operand:
    field = struct.field(name)
    assert field is not None
    return memory.read_field(lo, mem, field)


def _send_packet(lo: Lower, site: EventSite, fields: list[EventField], packet: tuple[Operand, Operand, Operand],
                 time: Operand, result: Reg) -> None:
    start, kept, length = packet
    reserved = records.reserve_record(lo, site)
    target = reserved.mem.at(fields[0].offset)
    lo.b.store(target.base, target.off, kept, 4)
    lo.b.store(reserved.record, fields[1].offset, length, 4)
    lo.b.set(result, lo.b.call(h.READ_KERNEL, [lo.operand_address(target.at(4)), kept, start], "probe_read_kernel"))
    good, bad = lo.b.block("good"), lo.b.block("bad", cold=True)
    lo.b.branch("jeq", result, 0, good, bad)
    lo.b.start(bad)
    lo.b.call(h.RING_DISCARD, [reserved.record, 0], "ringbuf_discard")
    lo.b.jump(reserved.done)
    lo.b.start(good)
    records.submit_record(lo, reserved, time)


# --- memory of processes ----------------------------------------------------------------------------------


def lower_write_user(lo: Lower, call: Call) -> Operand:
    """bpf_probe_write_user(): 0, or a negative error."""
    target, source, length = lo.scalar_value(call.args[0]), call.args[1], call.data["length"]
    with lo.scope():
        place: Any
        if call.data["by_address"]:
            place = lo.scalar_value(source)
        else:
            assert source.type is not None
            mem = lo.temp(source.type.size)
            lo.write_value(source, mem, source.type)
            place = lo.operand_address(mem)
        return lo.b.call(h.WRITE_USER, [target, place, length], "probe_write_user")


def write_user_statement(lo: Lower, call: Call) -> None:
    lo.on_failure(lower_write_user(lo, call), "helper", "probe_write_user")


def lower_override(lo: Lower, call: Call) -> None:
    result = lo.b.call(h.OVERRIDE_RETURN, [lo.context_pointer(), lo.scalar_value(call.args[0])], "override_return")
    lo.on_failure(result, "helper", "override_return")
