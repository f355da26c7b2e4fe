"""Eight characters at a time: equality and length of strings, equality of any bytes.

A word has a zero byte if ``z = (w - 0x0101...) & ~w & 0x8080...`` is not 0, and the lowest bit of z is in the first one
(Hacker's Delight, 6-1): load_characters() has that be so. Besides taking an eighth of the steps, this gives the
verifier an eighth of the paths to follow. Beyond the first BLOCK bytes of something long, a callback of bpf_loop()
compares BLOCK bytes at each call, since the verifier follows a callback until nothing new turns up, and a loop as often
as it runs.
"""

from __future__ import annotations

from ....types import KERNEL
from ... import helpers as h
from ...ir import BasicBlock, BpfFunction, MapAddr, Operand, Reg, Slot
from .. import memory
from ..core import Lower
from ..state import FunctionState, Mem
from .texts import load_characters, plain_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

BLOCK = 64
PLAIN = 192       # up to here no callback
UNROLLED = 2      # words
COUNTED = 256     # the length of a string of this capacity is counted by words
DIFFERENT, ENDED = 1, 2


def _repeat_byte(byte: int, size: int) -> int:
    """``size`` times a byte, as a signed number if there are 8."""
    return int.from_bytes(bytes([byte] * size), "little", signed=size == 8)


def mark_zero_bytes(lo: Lower, word: Operand, size: int = 8) -> Reg:
    """0 if none of the word's ``size`` bytes is 0; else the lowest bit that is set is the highest of the first."""
    below = lo.b.alu("sub", word, _repeat_byte(1, size))
    return lo.b.alu("and", lo.b.alu("and", below, lo.b.alu("xor", word, -1)), _repeat_byte(0x80, size))


def make_unknown(lo: Lower, value: Operand) -> Reg:
    """The same number, of which the verifier knows nothing: it is added to a word that is always 0, which only we
    know. Ways through a program on which only numbers differ so become one for it."""
    return lo.b.alu("add", value, lo.b.load(lo.unit.global_word("zero"), 0))


def common_stride(*locations: Mem) -> int:
    """The widest load that is aligned in all these locations, as it must be in the frame."""
    step = 8
    while step > 1 and any(_offset(p) % step for p in locations):
        step //= 2
    return step


def _offset(mem: Mem) -> int:
    return mem.off + (mem.base.off if isinstance(mem.base, MapAddr) else 0)


def in_scratch(lo: Lower, mem: Mem, size: int) -> Mem:
    """``mem`` in scratch memory, with ``size`` bytes from its beginning: itself if it is a temporary, or room for a
    copy. There loads need not be aligned, and the verifier knows nothing of what is stored."""
    base = mem.base
    if mem.space == "bpf" and isinstance(base, Slot) and not base.pinned and base.function is lo.b.function:
        base.scratch = True
        base.size = max(base.size, mem.off + size)
        return mem
    return Mem(lo.b.function.slot(size, "long", scratch=True))


# --- loops over words -----------------------------------------------------------------------------------------

# Of (offset, width): look at one piece, and go on after it if nothing is decided.
Look: TypeAlias = "Callable[[int, int], None]"


def _cut_pieces(first: int, end: int, step: int) -> list[tuple[int, int]]:
    """(offset, width) of what covers [first, end), the widest first."""
    pieces = []
    while first < end:
        while step > end - first:
            step //= 2
        pieces.append((first, step))
        first += step
    return pieces


def over_words(lo: Lower, locations: list[Mem], end: int, step: int, look: Callable[[list[Mem], int, Operand], None]
               ) -> None:
    """Call ``look(places, width, offset)`` for every word below ``end``: in a loop, then for the remainder."""
    count = end // step
    if count > UNROLLED:
        at, bases = lo.b.function.reg("at"), [lo.b.address(p.base, p.off) for p in locations]
        lo.b.set(at, 0)
        lo.forget()
        head, body, on = lo.b.block("words"), lo.b.block("word"), lo.b.block("on")
        lo.b.start(head)
        lo.b.branch("jlt", at, count * step, body, on)
        lo.b.start(body)
        look([Mem(lo.b.alu("add", base, at)) for base in bases], step, at)
        lo.b.set(at, lo.b.alu("add", at, step))
        lo.b.jump(head)
        lo.b.start(on)
        first = count * step
    else:
        first = 0
    for offset, width in _cut_pieces(first, end, step):
        look([p.at(offset) for p in locations], width, offset)


# --- equality -------------------------------------------------------------------------------------------------


def branch_on_strings(lo: Lower, a: Mem, size_a: int, b: Mem, size_b: int, yes: BasicBlock, no: BasicBlock,
                  limit: int | None = None) -> None:
    """Branch on whether the characters before the NUL are the same, or ``limit`` characters are."""
    a, b = plain_memory(lo, a, size_a), plain_memory(lo, b, size_b)
    size = min(size_a, size_b) if limit is None else min(size_a, size_b, limit)
    _compare_bytes(lo, a, b, size, True, yes, no)
    lo.b.jump(yes if limit is not None or size_a == size_b else no)


def branch_on_bytes(lo: Lower, a: Mem, b: Mem, size: int, yes: BasicBlock, no: BasicBlock) -> None:
    """Branch on the equality of ``size`` bytes."""
    _compare_bytes(lo, a, b, size, False, yes, no)
    lo.b.jump(yes)


def _compare_bytes(lo: Lower, a: Mem, b: Mem, size: int, text: bool, yes: BasicBlock, no: BasicBlock) -> None:
    """Goes on after it if ``size`` bytes are the same (and, of a text, none is NUL)."""
    def look(locations: list[Mem], width: int, at: Operand) -> None:
        _compare_piece(lo, locations[0], locations[1], width, text, yes, no)

    if size <= PLAIN or not lo.unit.feature("bpf_loop"):
        over_words(lo, [a, b], size, common_stride(a, b), look)
        return
    a, b = _make_movable(lo, a, size), _make_movable(lo, b, size)
    over_words(lo, [a, b], BLOCK, 8, look)
    blocks = (size - BLOCK) // BLOCK
    _by_blocks(lo, a.at(BLOCK), b.at(BLOCK), blocks, text, yes, no)
    rest = BLOCK + blocks * BLOCK
    for offset, width in _cut_pieces(rest, size, 8):
        look([a.at(offset), b.at(offset)], width, offset)


def _make_movable(lo: Lower, mem: Mem, size: int) -> Mem:
    """``mem``, or a copy of it, where words need not be aligned and the verifier need not know the offset."""
    if mem.space == "bpf" and not isinstance(mem.base, Slot):
        return mem  # of such a size it is a map's value, or scratch memory
    movable = in_scratch(lo, mem, size)
    if movable is not mem:
        memory.copy_bytes(lo, mem, movable, size)
    return movable


def _compare_piece(lo: Lower, a: Mem, b: Mem, width: int, text: bool, yes: BasicBlock, no: BasicBlock) -> None:
    """One piece: to ``no`` if it differs, to ``yes`` if the text ends in it, else on."""
    load = load_characters if text else _load_plainly
    left, right = load(lo, a.base, a.off, width), load(lo, b.base, b.off, width)
    same, more = lo.b.block("same"), lo.b.block("more")
    if not text:
        lo.b.branch("jeq", left, right, more, no)
        lo.b.start(more)
        return
    if width == 1:
        lo.b.branch("jeq", left, right, same, no)
        lo.b.start(same)
        lo.b.branch("jeq", left, 0, yes, more)
        lo.b.start(more)
        return
    ends = mark_zero_bytes(lo, left, width)
    matters = lo.b.alu("xor", ends, lo.b.alu("sub", ends, 1))  # what is not after the NUL; all if there is none
    lo.b.branch("jeq", lo.b.alu("and", lo.b.alu("xor", left, right), matters), 0, same, no)
    lo.b.start(same)
    lo.b.branch("jeq", ends, 0, more, yes)
    lo.b.start(more)


def _load_plainly(lo: Lower, base: Operand, off: int, width: int) -> Reg:
    return lo.b.load(base, off, width)


def _by_blocks(lo: Lower, a: Mem, b: Mem, blocks: int, text: bool, yes: BasicBlock, no: BasicBlock) -> None:
    """As :func:`_compare_bytes`, with a callback for each block. The callback gets both addresses from the frame, and
    leaves its result in scratch memory."""
    outcome = lo.b.function.slot(8, "outcome", scratch=True)
    lo.b.store(outcome, 0, 0)
    run_loop(lo, blocks, [lo.b.address(a.base, a.off), lo.b.address(b.base, b.off), lo.b.address(outcome)],
         ("equal", blocks, text), lambda function: _block_function(lo, function, blocks, text))
    result = lo.b.load(outcome, 0)
    more, decided = lo.b.block("more"), lo.b.block("decided")
    lo.b.branch("jeq", result, 0, more, decided)
    lo.b.start(decided)
    lo.b.branch("jeq", result, DIFFERENT, no, yes)
    lo.b.start(more)


def run_loop(lo: Lower, count: int, state: list[Reg], key: object, define: Callable[[BpfFunction], None]) -> None:
    """bpf_loop(count, callback(index, state), state): ``state`` are words in the frame, ``define`` writes the callback,
    once for each ``key`` in a program."""
    name = lo.callbacks.get(key)
    if name is None:
        function = lo.add_function(f"loop{len(lo.program.functions)}", 2)
        name = lo.callbacks[key] = function.name
        with lo.building(FunctionState(function, lo.b.span, outer=lo.state)):
            define(function)
    lo.forget()
    with lo.scope():
        frame = lo.temp(8 * len(state), "state")
        assert isinstance(frame.base, Slot)
        frame.base.pinned = True
        for number, word in enumerate(state):
            lo.b.store(frame.base, frame.off + 8 * number, word)
        lo.b.call(h.LOOP, [count, lo.b.callback(name), lo.operand_address(frame), 0], "loop")


def _block_function(lo: Lower, function: BpfFunction, blocks: int, text: bool) -> None:
    """callback(index, state of a, b, outcome): 1 ends it."""
    index, state = lo.b.extend(function.params[0], 32, False), function.params[1]
    inside, ended, differ, end = (lo.b.block(n) for n in ("inside", "ended", "differ", "end"))
    lo.b.branch("jlt", index, blocks, inside, end)
    lo.b.start(inside)
    offset = lo.b.alu("lsh", index, BLOCK.bit_length() - 1)
    a, b = (Mem(lo.b.alu("add", lo.b.load(state, at), offset)) for at in (0, 8))
    for at in range(0, BLOCK, 8):
        _compare_piece(lo, a.at(at), b.at(at), 8, text, ended, differ)
    lo.b.exit(0)
    for block, outcome in ((ended, ENDED), (differ, DIFFERENT)):
        lo.b.start(block)
        lo.b.store(lo.b.load(state, 16), 0, outcome)
        lo.b.jump(end)
    lo.b.start(end)
    lo.b.exit(1)


# --- copies ---------------------------------------------------------------------------------------------------


def copy_text(lo: Lower, source: Mem, into: Mem, size: int) -> None:
    """An array of characters from a traced program, the kernel or a context into BPF memory, where equal texts are
    equal bytes: what lies there after a NUL, left over from other text, becomes 0."""
    if size <= BLOCK or source.space == "ctx":
        memory.copy_bytes(lo, source, into, size)
        _clear_after_nul(lo, into, size)
        return
    memory.clear_bytes(lo, into, size)
    space = KERNEL if source.btf else source.space
    read, name = memory.read_memory(lo, space, into, size, lo.operand_address(source), text=True)
    lo.on_failure(read, "read", name)
    full, done = lo.b.block("full", cold=True), lo.b.block("copied")
    lo.b.branch("jeq", read, size, full, done)  # an array need not end with a NUL, but a read of text does
    lo.b.start(full)
    memory.read_bytes(lo, Mem(source.base, source.off + size - 1, space), 1, into.at(size - 1))
    lo.b.start(done)


def _clear_after_nul(lo: Lower, mem: Mem, size: int) -> None:
    """Clear what follows the NUL, without branches, which would give the verifier a path for each word: ``left`` has
    all bits set until a word contained a zero byte, then none."""
    left: Operand = -1
    for offset, width in _cut_pieces(0, size, common_stride(mem)):
        part = mem.at(offset)
        word = load_characters(lo, part.base, part.off, width)
        ends = mark_zero_bytes(lo, word, width)
        shown = lo.b.alu("and", word, lo.b.alu("xor", ends, lo.b.alu("sub", ends, 1)))
        cleared = lo.b.alu("and", shown, left) if offset else shown
        if lo.byte_order != "little" and width > 1:
            cleared = lo.b.swap(cleared, 8 * width)
        lo.b.store(part.base, part.off, cleared, width)
        goes_on = lo.b.alu("sub", lo.b.alu("rsh", lo.b.alu("or", ends, lo.b.neg(ends)), 63), 1)
        left = lo.b.alu("and", goes_on, left) if offset else goes_on


# --- length ---------------------------------------------------------------------------------------------------


def text_length(lo: Lower, mem: Mem, capacity: int) -> Operand:
    """The number of characters before the NUL. Beyond the first characters of a long string the kernel looks for it:
    copying the string returns its length."""
    mem = plain_memory(lo, mem, capacity)
    counted = capacity if capacity <= COUNTED else COUNTED // 2
    size, done = lo.b.function.reg("length"), lo.b.block("done")

    def look(locations: list[Mem], width: int, at: Operand) -> None:
        ended, more = lo.b.block("ended"), lo.b.block("more")
        word = load_characters(lo, locations[0].base, locations[0].off, width)
        if width == 1:
            lo.b.branch("jeq", word, 0, ended, more)
            lo.b.start(ended)
            lo.b.set(size, at)
        else:
            ends = mark_zero_bytes(lo, word, width)
            lo.b.branch("jne", ends, 0, ended, more)
            lo.b.start(ended)
            lo.b.set(size, lo.b.alu("add", _zero_byte(lo, ends), at))
        lo.b.jump(done)
        lo.b.start(more)

    over_words(lo, [mem], counted, common_stride(mem), look)
    if capacity > counted:
        lo.b.set(size, lo.b.alu("add", _measure_by_helper(lo, mem.at(counted), capacity - counted), counted))
    else:
        lo.b.set(size, capacity)
    lo.b.start(done)
    return make_unknown(lo, size)


def _zero_byte(lo: Lower, ends: Reg) -> Reg:
    """The number of the first zero byte: below it are as many bytes as there are ones when each has a one."""
    lowest = lo.b.alu("and", ends, lo.b.neg(ends))
    below = lo.b.alu("sub", lo.b.alu("rsh", lowest, 7), 1)
    ones = lo.b.alu("and", below, _repeat_byte(1, 8))
    return lo.b.alu("rsh", lo.b.alu("mul", ones, _repeat_byte(1, 8)), 56)


def _measure_by_helper(lo: Lower, mem: Mem, capacity: int) -> Operand:
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
