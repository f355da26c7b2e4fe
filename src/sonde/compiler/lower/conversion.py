"""Converting values in memory to another type."""

from __future__ import annotations

from ...types import KERNEL, Scalar, Str, Struct, Tuple, Type
from . import memory
from .core import Lower
from .state import Mem
from .strings.words import copy_text


def convert_value(lo: Lower, source: Mem, have: Type, mem: Mem, type: Type, pad: bool) -> None:
    """Write a value of type ``have`` that lies in memory to ``mem``, as a ``type``."""
    if isinstance(type, Tuple) and isinstance(have, Tuple) and type != have:
        convert_tuple(lo, source, have, mem, type)
        return
    size = min(type.size, have.size)
    if source.btf and isinstance(have, Struct):  # a word may reach from a member into the padding after it
        memory.read_bytes(lo, Mem(source.base, source.off, KERNEL), size, mem)
    elif pad and isinstance(have, Str) and source.space != "bpf" and not source.padded:
        copy_text(lo, source, mem, size)
    else:
        memory.copy_bytes(lo, source, mem, size)
    if isinstance(type, Str) and have.size > type.size:
        lo.b.store(mem.base, mem.off + type.size - 1, 0, 1)
    if pad and type.size > have.size:
        memory.clear_bytes(lo, mem.at(have.size), type.size - have.size)


def convert_tuple(lo: Lower, source: Mem, have: Tuple, mem: Mem, want: Tuple) -> None:
    """Element by element where the layouts differ (wider integers, longer strings)."""
    memory.clear_bytes(lo, mem, want.size)
    for number, b, to in zip(have.element_order(want.names), want.of, want.offsets):
        a, at = have.of[number], have.offsets[number]
        if isinstance(b, Scalar):
            lo.store_value(mem.at(to), b, memory.read_scalar(lo, source.at(at), a))
        elif isinstance(a, Tuple) and isinstance(b, Tuple) and a != b:
            convert_tuple(lo, source.at(at), a, mem.at(to), b)
        else:
            memory.copy_bytes(lo, source.at(at), mem.at(to), min(a.size, b.size))
