"""Strings as bytes: constants, capacities, and copies that plain loads can reach."""

from __future__ import annotations

from ....language.ast import Expr, StrLiteral
from ....types import Array, Str
from ...ir import Operand, Reg
from .. import memory
from ..core import Lower
from ..state import Mem


def literal_bytes(expr: Expr) -> bytes | None:
    """The bytes of a string known when compiling, without NUL."""
    text = expr.const if isinstance(expr.const, str) else expr.value if isinstance(expr, StrLiteral) else None
    return None if text is None else text.encode("utf-8", "surrogateescape")


def number_of_bytes(lo: Lower, data: bytes) -> int:
    """The number that is stored as these bytes; a signed one if there are 8."""
    return int.from_bytes(data, lo.byte_order, signed=len(data) == 8)


def load_characters(lo: Lower, base: Operand, off: int, width: int) -> Reg:
    """Characters as one number in which the first is the lowest byte, whatever the machine's order: what looks for the
    first of them that is special looks for the lowest."""
    word = lo.b.load(base, off, width)
    return word if lo.byte_order == "little" or width == 1 else lo.b.swap(word, 8 * width)


def write_literal(lo: Lower, text: bytes, mem: Mem, capacity: int, pad: bool) -> None:
    """Write a constant string by the widest stores that its alignment allows."""
    text = text[:capacity - 1] + b"\0"
    used = len(text)
    text = text.ljust(min(capacity, (used + 7) // 8 * 8), b"\0")
    at = 0
    while at < len(text):
        step = 8
        while step > len(text) - at or (mem.off + at) % step:
            step //= 2
        lo.b.store(mem.base, mem.off + at, number_of_bytes(lo, text[at:at + step]), step)
        at += step
    if pad and capacity > at:
        memory.clear_bytes(lo, mem.at(at), capacity - at)


def capacity_of(expr: Expr) -> int:
    type = expr.type
    return type.size if isinstance(type, (Str, Array)) else 0


def plain_memory(lo: Lower, mem: Mem, size: int) -> Mem:
    """``mem`` if plain loads work there, else a copy."""
    if mem.space == "bpf" or mem.space == "ctx" or mem.btf:
        return mem
    into_ = lo.temp(size)
    memory.read_bytes(lo, mem, size, into_)
    return into_
