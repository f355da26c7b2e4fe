"""Strings: into memory, and equality. A string is NUL-terminated within its capacity.

What looks at many characters is in :mod:`.words` (equality, length) and :mod:`.search`.
"""

from __future__ import annotations

from ...language.ast import Call, Expr, Name, StrLiteral
from ...types import UINT8, Array, Pointer, Str, Type
from ..ir import Block, Operand
from . import builtins, memory
from .core import Lower, Mem


def literal(expr: Expr) -> bytes | None:
    """The bytes of a string known when compiling, without NUL."""
    text = expr.const if isinstance(expr.const, str) else expr.value if isinstance(expr, StrLiteral) else None
    return None if text is None else text.encode("utf-8", "surrogateescape")


def into(lo: Lower, expr: Expr, mem: Mem, type: Str, pad: bool) -> None:
    """Write a string into memory of ``type.capacity`` bytes."""
    from .expressions import locate
    text = literal(expr)
    if text is not None:
        write_literal(lo, text, mem, type.capacity, pad)
        return
    if isinstance(expr, (Name, Call)) and builtins.is_string_builtin(expr):
        builtins.write_text(lo, expr, mem)
        if pad and type.capacity > 16:
            memory.zero(lo, mem.at(16), type.capacity - 16)
        return
    source = locate(lo, expr)
    if source is None:
        assert isinstance(expr, Call) and isinstance(expr.type, Str), expr
        from .functions import STRING_CALLS
        own = expr.type if expr.type.capacity < type.capacity else type  # str(p, 4) is short wherever it goes
        STRING_CALLS[expr.name](lo, expr, mem, own, pad)
        if pad and own is not type:
            memory.zero(lo, mem.at(own.capacity), type.capacity - own.capacity)
        return
    assert expr.type is not None
    size = min(type.capacity, expr.type.size)
    memory.copy(lo, source, mem, size)
    if expr.type.size > type.capacity:
        lo.b.store(mem.base, mem.off + type.capacity - 1, 0, 1)
    elif pad and type.capacity > size:
        memory.zero(lo, mem.at(size), type.capacity - size)


def write_literal(lo: Lower, text: bytes, mem: Mem, capacity: int, pad: bool) -> None:
    """A constant string by the widest stores that its place allows."""
    text = text[:capacity - 1] + b"\0"
    used = len(text)
    text = text.ljust(min(capacity, (used + 7) // 8 * 8), b"\0")
    at = 0
    while at < len(text):
        step = 8
        while step > len(text) - at or (mem.off + at) % step:
            step //= 2
        lo.b.store(mem.base, mem.off + at, int.from_bytes(text[at:at + step], "little", signed=step == 8), step)
        at += step
    if pad and capacity > at:
        memory.zero(lo, mem.at(at), capacity - at)


def equal(lo: Lower, left: Expr, right: Expr, yes: Block, no: Block) -> None:
    """Branch on the equality of two strings."""
    from .expressions import locate_or_materialise
    if literal(left) is not None:
        left, right = right, left
    text = literal(right)
    with lo.scope():
        a = locate_or_materialise(lo, left)
        if text is not None:
            if literal(left) is not None:
                lo.b.jump(yes if literal(left) == text else no)
            else:
                equal_literal(lo, a, capacity_of(left), text, yes, no)
            return
        b = locate_or_materialise(lo, right)
        from .words import equal_strings
        equal_strings(lo, a, capacity_of(left), b, capacity_of(right), yes, no)


def capacity_of(expr: Expr) -> int:
    type = expr.type
    return type.size if isinstance(type, (Str, Array)) else 0


def equal_literal(lo: Lower, mem: Mem, capacity: int, text: bytes, yes: Block, no: Block, prefix: int = -1) -> None:
    """Compare with a constant, word by word; with ``prefix`` only that many characters."""
    wanted = text[:prefix] if 0 <= prefix <= len(text) else text + b"\0"
    if len(wanted) > capacity:
        lo.b.jump(no)
        return
    mem = plain_memory(lo, mem, capacity)
    at = 0
    while at < len(wanted):
        step = 8
        while step > 1 and ((mem.off + at) % step or at + step > capacity):
            step //= 2
        have: Operand = lo.b.load(mem.base, mem.off + at, step)
        piece = wanted[at:at + step]
        if len(piece) < step:
            have = lo.b.alu("and", have, (1 << 8 * len(piece)) - 1)
        at += step
        value = int.from_bytes(piece, "little")
        if at >= len(wanted):
            lo.b.branch("jeq", have, value - (1 << 64) if value >> 63 else value, yes, no)
            return
        more = lo.b.block("same")
        lo.b.branch("jeq", have, value - (1 << 64) if value >> 63 else value, more, no)
        lo.b.start(more)
    lo.b.jump(yes)


def plain_memory(lo: Lower, mem: Mem, size: int) -> Mem:
    """``mem`` where plain loads work: itself, or a copy."""
    if mem.space == "bpf" or mem.space == "ctx" or mem.btf:
        return mem
    into_ = lo.temp(size)
    memory.read_bytes(lo, mem, size, into_)
    return into_


def compare_probe(lo: Lower, probe: Expr, other: Expr, op: str, yes: Block, no: Block) -> None:
    """``probe == "name"``: the name's index is known when compiling."""
    from .expressions import scalar
    text = literal(other)
    if text is None:
        lo.b.branch("jeq", scalar(lo, probe), scalar(lo, other), *((yes, no) if op == "==" else (no, yes)))
        return
    names = lo.unit.probes
    wanted = [i for i, n in enumerate(names) if n == text.decode("utf-8", "replace")]
    if op == "!=":
        yes, no = no, yes
    value = scalar(lo, probe)
    for index in wanted:
        more = lo.b.block("or")
        lo.b.branch("jeq", value, index, yes, more)
        lo.b.start(more)
    lo.b.jump(no)


def char_pointer(type: Type | None) -> bool:
    return isinstance(type, Pointer) and type.to.size == 1


__all__ = ["UINT8", "char_pointer", "equal", "equal_literal", "into", "literal", "plain_memory", "write_literal"]
