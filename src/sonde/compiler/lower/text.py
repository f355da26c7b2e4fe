"""Lowering of what works on strings: str_concat(), str_join(), strlen(), searches, globmatch() and one_of()."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...language.ast import Call
from ...types import KERNEL, Pointer, Str
from .. import helpers as h
from ..ir import Block, Operand, Reg
from . import memory, search, strings, words
from .core import Lower
from .state import Mem
from .texts import capacity_of, literal_bytes, plain_memory

Segment = list[frozenset[int]]


def lower_strncmp(lo: Lower, call: Call) -> Operand:
    """0 if equal in so many characters, else 1."""
    result = lo.b.function.reg("differs")
    lo.select(result, lambda yes, no: _same_prefix(lo, call, yes, no), lambda: 0, lambda: 1)
    return result


def _same_prefix(lo: Lower, call: Call, yes: Block, no: Block) -> None:
    left, right, length = call.args[0], call.args[1], call.data["length"]
    if literal_bytes(left) is not None:
        left, right = right, left
    text = literal_bytes(right)
    with lo.scope():
        place = lo.place_value(left)
        if text is not None:
            strings.branch_on_literal(lo, place, capacity_of(left), text, yes, no, prefix=length)
        else:
            other = lo.place_value(right)
            words.branch_on_strings(lo, place, capacity_of(left), other, capacity_of(right), yes, no,
                                length)


def lower_strstr(lo: Lower, call: Call) -> Operand:
    result = lo.b.function.reg("where")
    index: list[Operand] = []
    lo.select(result, lambda yes, no: index.append(_find_substring(lo, call, yes, no)), lambda: index[0], lambda: -1)
    return result


def _find_substring(lo: Lower, call: Call, yes: Block, no: Block) -> Operand:
    needle = literal_bytes(call.args[1])
    with lo.scope():
        hay = lo.place_value(call.args[0])
        size, ends = capacity_of(call.args[0]), isinstance(call.args[0].type, Str)
        if needle is not None:
            return search.find_literal(lo, hay, size, ends, needle, yes, no)
        other = lo.place_value(call.args[1])
        return search.find_string(lo, hay, size, ends, other, capacity_of(call.args[1]),
                                      isinstance(call.args[1].type, Str), yes, no)


def lower_strlen(lo: Lower, call: Call) -> Operand:
    text = literal_bytes(call.args[0])
    if text is not None:
        return len(text)
    with lo.scope():
        place = lo.place_value(call.args[0])
        return words.text_length(lo, place, capacity_of(call.args[0]))


def branch_on_strcontains(lo: Lower, call: Call, yes: Block, no: Block) -> None:
    _find_substring(lo, call, yes, no)


def write_str_concat(lo: Lower, call: Call, mem: Mem, type: Str, pad: bool) -> None:
    """Each text is copied to where the one before it ended; a string read stops at its NUL."""
    if pad:
        memory.clear_bytes(lo, mem, type.capacity)
    else:
        lo.b.store(mem.base, mem.off, 0, 1)
    with lo.scope():
        whole = lo.temp(sum(capacity_of(arg) for arg in call.args))
        memory.clear_bytes(lo, whole, 8)
        used = lo.b.function.reg("used")
        lo.b.set(used, 0)
        room = 0
        for arg in call.args:
            place = plain_memory(lo, lo.place_value(arg), capacity_of(arg))
            _append_text(lo, whole, used, room, place, capacity_of(arg))
            room += capacity_of(arg) - 1
        lo.b.call(h.READ_KERNEL_STR, [lo.operand_address(mem), type.capacity, lo.operand_address(whole)],
                  "probe_read_kernel_str")


def _append_text(lo: Lower, whole: Mem, used: Reg, room: int, place: Mem, capacity: int) -> None:
    """``used`` is at most ``room`` before, and grows by the characters of the text."""
    with _remaining_room(lo, whole, used, room) as target:
        length, _ = memory.read_memory(lo, KERNEL, target, capacity, lo.operand_address(place), text=True)
        _advance_length(lo, used, length)


@contextmanager
def _remaining_room(lo: Lower, whole: Mem, used: Reg, room: int) -> Iterator[Mem]:
    """Where the next text goes, if ``used`` is at most ``room``."""
    fits, on = lo.b.block("fits"), lo.b.block("on")
    lo.b.branch("jle", used, room, fits, on)  # where it always is, the verifier wants it said
    lo.b.start(fits)
    yield Mem(lo.b.alu("add", lo.b.address(whole.base, whole.off), used))
    lo.b.jump(on)
    lo.b.start(on)


def _advance_length(lo: Lower, used: Reg, length: Operand) -> None:
    """By the characters of a text whose ``length`` counts its NUL; none could be read if it is negative."""
    read, on = lo.b.block("read"), lo.b.block("grown")
    lo.b.branch("jsgt", length, 0, read, on)
    lo.b.start(read)
    lo.b.set(used, lo.b.alu("sub", lo.b.alu("add", used, lo.b.extend(length, 32, False)), 1))
    lo.b.jump(on)
    lo.b.start(on)


JOIN_ARGUMENTS = 20


def write_str_join(lo: Lower, call: Call, mem: Mem, type: Str, pad: bool) -> None:
    """The strings of a char *[] until its NULL, each behind the separator; "..." stands for those beyond."""
    if pad:
        memory.clear_bytes(lo, mem, type.capacity)
    source, own = call.args[0].type, lo.context.default_space
    space = source.space or own if isinstance(source, Pointer) else memory.number_space(own)
    separator, more = call.data["separator"].encode("utf-8", "surrogateescape"), b"..."
    done = lo.b.block("joined")
    with lo.scope():
        array = lo.b.mov(lo.scalar_value(call.args[0]))
        whole, element = lo.temp(type.capacity + max(type.capacity, len(separator) + len(more) + 1)), lo.temp(8)
        lo.b.store(whole.base, whole.off, 0, 1)
        used = lo.b.function.reg("used")
        lo.b.set(used, 0)
        for index in range(JOIN_ARGUMENTS + 1):
            read, have = lo.b.block("ok"), lo.b.block("have")
            result, name = memory.read_memory(lo, space, element, 8, lo.b.alu("add", array, 8 * index))
            failed = lo.b.block("failed", cold=True)
            lo.b.branch("jeq", result, 0, read, failed)
            lo.b.start(failed)
            lo.count_error("read", name)
            lo.b.jump(done)
            lo.b.start(read)
            address = lo.b.load(element.base, element.off)
            lo.b.branch("jeq", address, 0, done, have)
            lo.b.start(have)
            with _remaining_room(lo, whole, used, type.capacity) as target:
                before = separator if index else b""
                for at, byte in enumerate(before + (more if index == JOIN_ARGUMENTS else b"") + b"\0"):
                    lo.b.store(target.base, target.off + at, byte, 1)
                if index < JOIN_ARGUMENTS:
                    length, _ = memory.read_memory(lo, space, target.at(len(before)), type.capacity - len(before),
                                                   address, text=True)
                    _advance_length(lo, used, length)
                    lo.b.set(used, lo.b.alu("add", used, len(before)))
        lo.b.jump(done)
        lo.b.start(done)
        lo.b.call(h.READ_KERNEL_STR, [lo.operand_address(mem), type.capacity, lo.operand_address(whole)],
                  "probe_read_kernel_str")


# --- patterns ---------------------------------------------------------------------------------------------


def branch_on_globmatch(lo: Lower, call: Call, yes: Block, no: Block) -> None:
    """The pieces between stars: the first at the beginning, each as early as possible, the last at the end."""
    segments: list[Segment] = call.data["pattern"]
    capacity = capacity_of(call.args[0])
    with lo.scope():
        text = plain_memory(lo, lo.place_value(call.args[0]), capacity)
        if sum(map(len, segments)) > capacity:
            lo.b.jump(no)
            return
        if any(segments[1:-1]):
            text = search.pad_text(lo, text, capacity, isinstance(call.args[0].type, Str))
        lo.forget()
        base = lo.b.address(text.base, text.off)
        first = lo.b.block("first")
        _branch_on_fit(lo, base, 0, segments[0], capacity, first, no)
        lo.b.start(first)
        if len(segments) == 1:
            _branch_on_end(lo, base, len(segments[0]), capacity, yes, no)
            return
        at: Operand = len(segments[0])
        for segment in segments[1:-1]:
            if segment:
                at = lo.b.alu("add", _search_segment(lo, text, at, segment, capacity, no), len(segment))
        _at_end(lo, text, base, at, segments[-1], capacity, yes, no)


def _branch_on_end(lo: Lower, base: Reg, at: int, capacity: int, yes: Block, no: Block) -> None:
    if at >= capacity:
        lo.b.jump(yes if at == capacity else no)
    else:
        lo.b.branch("jeq", lo.b.load(base, at, 1), 0, yes, no)


def _branch_on_fit(lo: Lower, base: Reg, off: int, segment: Segment, capacity: int, yes: Block, no: Block) -> None:
    """Whether the bytes from ``base + off`` on are those of the segment (none of which is NUL)."""
    if off + len(segment) > capacity:
        lo.b.jump(no)
        return
    for number, allowed in enumerate(segment):
        more = lo.b.block("same")
        _branch_on_byte(lo, lo.b.load(base, off + number, 1), allowed, more, no)
        lo.b.start(more)
    lo.b.jump(yes)


def _branch_on_byte(lo: Lower, byte: Reg, allowed: frozenset[int], yes: Block, no: Block) -> None:
    """Branch on whether a byte is in a set, range by range."""
    for low, high in byte_ranges(allowed):
        more = lo.b.block("or")
        if low == high:
            lo.b.branch("jeq", byte, low, yes, more)
        else:
            above = lo.b.block("above")
            lo.b.branch("jge", byte, low, above, no)  # ranges rise: below this one is outside all that follow
            lo.b.start(above)
            lo.b.branch("jle", byte, high, yes, more)
        lo.b.start(more)
    lo.b.jump(no)


def byte_ranges(allowed: frozenset[int]) -> list[tuple[int, int]]:
    """A set of bytes as rising ranges, both ends included."""
    found: list[tuple[int, int]] = []
    for byte in sorted(allowed):
        if found and found[-1][1] == byte - 1:
            found[-1] = (found[-1][0], byte)
        else:
            found.append((byte, byte))
    return found


def _search_segment(lo: Lower, text: Mem, start: Operand, segment: Segment, capacity: int, no: Block) -> Reg:
    """The first place from ``start`` on where the segment fits."""
    def look(at: Reg, found: Block, step: Block, stop: Block) -> None:
        other = lo.b.block("other")
        _branch_on_fit(lo, at, 0, segment, len(segment), found, other)
        lo.b.start(other)
        lo.b.branch("jeq", lo.b.load(at, 0, 1), 0, stop, step)

    return search.scan_text(lo, text, start, capacity - len(segment) + 1, tuple(segment), look, no)


def _at_end(lo: Lower, text: Mem, base: Reg, at: Operand, segment: Segment, capacity: int, yes: Block,
            no: Block) -> None:
    """Whether the segment is the end of what follows ``at``."""
    if not segment:
        lo.b.jump(yes)
        return
    last = lo.b.alu("sub", words.text_length(lo, text, capacity), len(segment))
    behind, inside = lo.b.block("behind"), lo.b.block("inside")
    lo.b.branch("jsge", last, at, behind, no)
    lo.b.start(behind)
    lo.b.branch("jle", last, capacity - len(segment), inside, no) if len(segment) <= capacity else lo.b.jump(no)
    lo.b.start(inside)
    _branch_on_fit(lo, lo.b.alu("add", base, last), 0, segment, len(segment), yes, no)


# --- lists of numbers -------------------------------------------------------------------------------------


def branch_on_one_of(lo: Lower, call: Call, yes: Block, no: Block) -> None:
    """One comparison for each number, two for each range."""
    value = lo.scalar_value(call.args[0])
    for low, high in call.data:
        other = lo.b.block("other")
        if low == high:
            lo.b.branch("jeq", value, low, yes, other)
        else:
            above = lo.b.block("above")
            lo.b.branch("jge", value, low, above, other)
            lo.b.start(above)
            lo.b.branch("jle", value, high, yes, other)
        lo.b.start(other)
    lo.b.jump(no)
