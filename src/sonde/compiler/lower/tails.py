"""The tail of a record: its longest text or buffer, of which only what is used is sent."""

from __future__ import annotations

from ...language.ast import Call, Expr
from ...types import KERNEL, Buf, Str, Type
from ..ir import Operand
from . import memory
from .calls import function_of
from .core import Lower
from .state import Mem
from .strings.texts import literal_bytes, write_literal
from .strings.words import text_length


def write_tail(lo: Lower, value: Expr | Mem, mem: Mem, type: Type) -> Operand:
    """Write ``value``, or copy what was evaluated before, to ``mem``. How many bytes there are, of a text with its NUL:
    the verifier knows that they are at most those of ``type``."""
    if isinstance(type, Buf):
        return _write_buffer(lo, value, mem, type)
    assert isinstance(type, Str)
    if isinstance(value, Expr):
        text = literal_bytes(value)
        if text is not None:
            write_literal(lo, text, mem, type.capacity, pad=False)
            return min(len(text), type.capacity - 1) + 1
        row = function_of(value)
        if row is not None and row.text is not None and isinstance(value, Call) and isinstance(value.type, Str):
            own = value.type if value.type.capacity < type.capacity else type
            used = row.text(lo, value, mem, own, False)
            return _limit(lo, lo.b.alu("add", text_length(lo, mem, own.capacity), 1) if used is None else used,
                          type.capacity)
    source = value if isinstance(value, Mem) else _locate_text(lo, value, type)
    length, _ = memory.read_memory(lo, KERNEL, mem, type.capacity, lo.operand_address(source), text=True)
    return _limit(lo, length, type.capacity)


def _locate_text(lo: Lower, value: Expr, type: Str) -> Mem:
    """Where a text lies, or a temporary that it is written to."""
    source = lo.locate_value(value)
    if source is None or source.space != "bpf":
        source = lo.temp(type.capacity)
        lo.write_value(value, source, type, pad=False)
    return source


def _write_buffer(lo: Lower, value: Expr | Mem, mem: Mem, type: Buf) -> Operand:
    """Bytes after a word that says how many."""
    if isinstance(value, Expr):
        lo.write_value(value, mem, type, pad=False)
    else:
        memory.copy_bytes(lo, value, mem, type.size)
    return lo.b.alu("add", _limit(lo, lo.b.load(mem.base, mem.off, 4), type.capacity), 4)


def _limit(lo: Lower, value: Operand, most: int) -> Operand:
    """``value``, which is at most ``most``, in a form from which the verifier knows that."""
    size, beyond, on = lo.b.function.reg("used"), lo.b.block("beyond", cold=True), lo.b.block("limited")
    lo.b.set(size, value)
    lo.b.branch("jle", size, most, on, beyond)
    lo.b.start(beyond)
    lo.b.set(size, most)
    lo.b.jump(on)
    lo.b.start(on)
    return size
