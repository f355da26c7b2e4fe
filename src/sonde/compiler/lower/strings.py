"""Strings: into memory, compared, searched. A string is NUL-terminated within its capacity."""

from __future__ import annotations

from ...language.ast import Call, Expr, Name, StrLiteral
from ...types import UINT8, Array, Pointer, Str, Type
from .. import helpers as h
from ..builder import Builder
from ..ir import Block, Function, Operand
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
        assert isinstance(expr, Call), expr
        from .functions import STRING_CALLS
        STRING_CALLS[expr.name](lo, expr, mem, type, pad)
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


def equal_strings(lo: Lower, a: Mem, size_a: int, b: Mem, size_b: int, yes: Block, no: Block,
                  limit: Operand | None = None) -> None:
    """Compare byte by byte until both end, or ``limit`` characters are equal."""
    a, b = plain_memory(lo, a, size_a), plain_memory(lo, b, size_b)
    at_a, at_b = lo.b.address(a.base, a.off), lo.b.address(b.base, b.off)
    index = lo.b.function.reg("index")
    lo.b.set(index, 0)
    lo.forget()
    loop, read, body, more, step = (lo.b.block(n) for n in ("compare", "read", "body", "more", "step"))
    lo.b.start(loop)
    bound = min(size_a, size_b)
    lo.b.branch("jlt", index, bound, body, yes if limit is not None or size_a == size_b else no)
    lo.b.start(body)
    if limit is not None:
        lo.b.branch("jlt", index, limit, read, yes)
    lo.b.start(read)
    left = lo.b.load(lo.b.alu("add", at_a, index), 0, 1)
    right = lo.b.load(lo.b.alu("add", at_b, index), 0, 1)
    lo.b.branch("jeq", left, right, more, no)
    lo.b.start(more)
    lo.b.branch("jeq", left, 0, yes, step)
    lo.b.start(step)
    lo.b.set(index, lo.b.alu("add", index, 1))
    lo.b.jump(loop)


def equal_bytes(lo: Lower, a: Mem, b: Mem, size: int, yes: Block, no: Block) -> None:
    """Branch on the equality of ``size`` bytes."""
    at = 0
    while at < size:
        step = 8
        while step > size - at or (a.off + at) % step or (b.off + at) % step:
            step //= 2
        more = lo.b.block("same")
        lo.b.branch("jeq", lo.b.load(a.base, a.off + at, step), lo.b.load(b.base, b.off + at, step), more, no)
        lo.b.start(more)
        at += step
    lo.b.jump(yes)


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


def contains(lo: Lower, hay: Mem, size: int, needle: bytes, yes: Block, no: Block) -> Operand:
    """Branch on whether the string at ``hay`` contains ``needle``; the index is where, in the yes arm."""
    hay = plain_memory(lo, hay, size)
    index = lo.b.function.reg("index")
    lo.b.set(index, 0)
    lo.forget()
    if not needle:
        lo.b.jump(yes)
        return index
    if len(needle) >= size:
        lo.b.jump(no)
        return index
    base = lo.b.address(hay.base, hay.off)
    loop, body, step = lo.b.block("search"), lo.b.block("body"), lo.b.block("step")
    lo.b.start(loop)
    lo.b.branch("jlt", index, size - len(needle), body, no)
    lo.b.start(body)
    at = lo.b.alu("add", base, index)
    first = lo.b.block("first")
    start = lo.b.load(at, 0, 1)
    lo.b.branch("jeq", start, 0, no, first)
    lo.b.start(first)
    for offset, byte in enumerate(needle):
        more = lo.b.block("same")
        lo.b.branch("jeq", start if offset == 0 else lo.b.load(at, offset, 1), byte, more, step)
        lo.b.start(more)
    lo.b.jump(yes)
    lo.b.start(step)
    lo.b.set(index, lo.b.alu("add", index, 1))
    lo.b.jump(loop)
    return index


def char_pointer(type: Type | None) -> bool:
    return isinstance(type, Pointer) and type.to.size == 1


__all__ = ["UINT8", "char_pointer", "contains", "equal", "equal_bytes", "equal_literal", "equal_strings", "into",
           "literal", "write_literal"]


COUNTED = 1024  # up to this capacity strlen() counts


def _measured(lo: Lower, mem: Mem, capacity: int) -> Operand:
    with lo.scope():
        copy = lo.temp(capacity, "copy")
        read = lo.b.call(h.READ_KERNEL_STR, [lo.operand_address(copy), capacity, lo.operand_address(mem)],
                         "probe_read_kernel_str")
    size = lo.b.function.reg("length")
    lo.b.set(size, 0)
    some, on = lo.b.block("some"), lo.b.block("on")
    lo.b.branch("jsgt", read, 0, some, on)
    lo.b.start(some)
    lo.b.set(size, lo.b.alu("sub", read, 1))
    lo.b.start(on)
    return size


def length(lo: Lower, mem: Mem, capacity: int) -> Operand:
    """Characters before the NUL. In a long string the kernel looks for it: a copy says how long it was, and the
    verifier need not follow thousands of steps."""
    mem = plain_memory(lo, mem, capacity)
    if capacity > COUNTED:
        return _measured(lo, mem, capacity)
    base = lo.b.address(mem.base, mem.off)
    index = lo.b.function.reg("length")
    lo.b.set(index, 0)
    lo.forget()
    loop, body, step, done = (lo.b.block(n) for n in ("strlen", "body", "step", "done"))
    lo.b.start(loop)
    lo.b.branch("jlt", index, capacity, body, done)
    lo.b.start(body)
    lo.b.branch("jne", lo.b.load(lo.b.alu("add", base, index), 0, 1), 0, step, done)
    lo.b.start(step)
    lo.b.set(index, lo.b.alu("add", index, 1))
    lo.b.jump(loop)
    lo.b.start(done)
    return index


def contains_string(lo: Lower, hay: Mem, size: int, needle: Mem, needle_size: int, yes: Block, no: Block) -> Operand:
    """As :func:`contains`, with a needle known at run time."""
    if lo.unit.feature("bpf_loop"):
        return _search_by_callback(lo, hay, size, needle, needle_size, yes, no)
    hay, needle = plain_memory(lo, hay, size), plain_memory(lo, needle, needle_size)
    h_at, n_at = lo.b.address(hay.base, hay.off), lo.b.address(needle.base, needle.off)
    start, index = lo.b.function.reg("start"), lo.b.function.reg("index")
    lo.b.set(start, 0)
    lo.forget()
    outer, inner, inside, fits, same, compare, step = (lo.b.block(n) for n in (
        "search", "match", "inside", "fits", "same", "compare", "step"))
    lo.b.start(outer)
    lo.b.branch("jlt", start, size, inner_entry := lo.b.block("try"), no)
    lo.b.start(inner_entry)
    lo.b.set(index, 0)
    lo.b.start(inner)
    lo.b.branch("jlt", index, needle_size, inside, yes)
    lo.b.start(inside)
    wanted = lo.b.load(lo.b.alu("add", n_at, index), 0, 1)
    lo.b.branch("jeq", wanted, 0, yes, compare)
    lo.b.start(compare)
    position = lo.b.alu("add", start, index)
    lo.b.branch("jlt", position, size, fits, no)
    lo.b.start(fits)
    have = lo.b.load(lo.b.alu("add", h_at, position), 0, 1)
    lo.b.branch("jeq", have, wanted, same, step)
    lo.b.start(same)
    lo.b.set(index, lo.b.alu("add", index, 1))
    lo.b.jump(inner)
    lo.b.start(step)
    end = lo.b.load(lo.b.alu("add", h_at, start), 0, 1)
    on = lo.b.block("on")
    lo.b.branch("jeq", end, 0, no, on)
    lo.b.start(on)
    lo.b.set(start, lo.b.alu("add", start, 1))
    lo.b.jump(outer)
    return start


def _search_by_callback(lo: Lower, hay: Mem, size: int, needle: Mem, needle_size: int, yes: Block,
                        no: Block) -> Operand:
    """One comparison of two characters for each call of a bpf_loop callback: a loop within a loop, unrolled by the
    verifier, would soon be too much for it. The callback finds the addresses of both strings in the frame, and in
    scratch memory, of whose contents the verifier knows nothing and so follows only one call:

        +0  where the needle may begin, in the end -1 if nowhere     +8  characters that agree there
    """
    hay, needle = _indexable(lo, hay, size), _indexable(lo, needle, needle_size)
    progress = lo.b.function.slot(16, "progress", scratch=True)
    lo.b.zero(progress, 0, 16)
    with lo.scope():
        state = lo.temp(24, "search")
        state.base.pinned = True
        for offset, address in ((0, lo.b.address(hay.base, hay.off)), (8, lo.b.address(needle.base, needle.off)),
                                (16, lo.b.address(progress))):
            lo.b.store(state.base, state.off + offset, address)
        name = _search_function(lo, size, needle_size)
        steps = min(size * needle_size + 1, 1 << 23)  # BPF_MAX_LOOPS
        lo.b.call(h.LOOP, [steps, lo.b.callback(name), lo.operand_address(state), 0], "loop")
    where = lo.b.load(progress, 0)
    lo.b.branch("jsge", where, 0, yes, no)
    return where


def _indexable(lo: Lower, mem: Mem, size: int) -> Mem:
    """``mem`` where an index that the verifier does not know may be used: not in a kernel object."""
    if mem.space == "bpf":
        return mem
    copy = lo.temp(size)
    memory.copy(lo, mem, copy, size)
    return copy


def _search_function(lo: Lower, size: int, needle_size: int) -> str:
    """callback(index, state): compare the next two characters; 1 ends the search."""
    function, saved = Function(f"search{len(lo.program.functions)}", 2), lo.b
    lo.program.functions.append(function)
    b = lo.b = Builder(function)
    b.span, state = saved.span, function.params[1]
    lo.bases[function] = lo.scratch_base()
    begin, first, more, inside, same, differ, step, failed, end = (b.block(n) for n in (
        "begin", "first", "more", "inside", "same", "differ", "step", "failed", "end"))
    progress = b.load(state, 16)
    start, at = b.load(progress, 0), b.load(progress, 8)
    b.branch("jlt", at, needle_size, begin, end)
    b.start(begin)
    wanted = b.load(b.alu("add", b.load(state, 8), at), 0, 1)
    b.branch("jeq", wanted, 0, end, first)
    b.start(first)
    hay, position = b.load(state, 0), b.alu("add", start, at)
    b.branch("jlt", start, size, more, failed)
    b.start(more)
    b.branch("jlt", position, size, inside, failed)
    b.start(inside)
    b.branch("jeq", b.load(b.alu("add", hay, position), 0, 1), wanted, same, differ)
    b.start(same)
    b.store(progress, 8, b.alu("add", at, 1))
    b.exit(0)
    b.start(differ)
    b.branch("jeq", b.load(b.alu("add", hay, start), 0, 1), 0, failed, step)
    b.start(step)
    b.store(progress, 0, b.alu("add", start, 1))
    b.store(progress, 8, 0)
    b.exit(0)
    b.start(failed)
    b.store(progress, 0, -1)
    b.start(end)
    b.exit(1)
    lo.b = saved
    return function.name
