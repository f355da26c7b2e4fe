"""The kernel's own printf: for the trace pipe, and for the output of pinned iterators."""

from __future__ import annotations

from ...language.ast import Expr
from ...layouts.uapi import BPF_F_RDONLY_PROG
from ...spec import FormatPart, MapSpec
from ...types import Scalar, Str
from .. import helpers as h
from ..ir import MapAddr, Operand
from .core import Lower


def trace_printf(lo: Lower, parts: list[FormatPart], args: list[Expr]) -> None:
    """bpf_trace_printk() up to three values, bpf_trace_vprintk() beyond."""
    text, count = kernel_format(parts, args)
    format = constant_text(lo, text)
    with lo.scope():
        values = [printed_word(lo, arg) for arg in args]
        if count <= 3:
            result = lo.b.call(h.TRACE_PRINTK, [format, len(text), *values], "trace_printk")
            lo.on_failure(result, "helper", "trace_printk")
            return
        array = lo.temp(8 * count)
        for number, value in enumerate(values):
            lo.b.store(array.base, array.off + 8 * number, value)
        result = lo.b.call(h.TRACE_VPRINTK, [format, len(text), lo.operand_address(array), 8 * count], "trace_vprintk")
        lo.on_failure(result, "helper", "trace_vprintk")


def seq_printf(lo: Lower, parts: list[FormatPart], args: list[Expr]) -> None:
    """printf() of a pinned iterator: bpf_seq_printf() writes into what is read from it. What no longer fits the page is
    run again for the next one (bpf_seq_read()), so its failure loses nothing."""
    text, count = kernel_format(parts, args)
    format = constant_text(lo, text)
    meta = lo.b.load(lo.context_pointer(), 0, 8, pure=True)  # struct bpf_iter_meta, whose first member is the file
    file = lo.b.load(meta, 0, 8)
    with lo.scope():
        array = lo.temp(8 * max(count, 1))
        for number, arg in enumerate(args):
            lo.b.store(array.base, array.off + 8 * number, printed_word(lo, arg))
        values = lo.operand_address(array) if count else 0
        lo.b.call(h.SEQ_PRINTF, [file, format, len(text), values, 8 * count], "seq_printf")


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
    lo.unit.internal(name, lambda: MapSpec(name, "array", 4, size, 1, BPF_F_RDONLY_PROG, initial=text))
    return MapAddr(name)


def printed_word(lo: Lower, arg: Expr) -> Operand:
    """An argument as the kernel's printf takes it: a word, for a string its address."""
    if isinstance(arg.type, Scalar):
        return lo.scalar_value(arg)
    assert isinstance(arg.type, Str)
    mem = lo.place_value(arg)
    return lo.b.address(mem.base, mem.off)
