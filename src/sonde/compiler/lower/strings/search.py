"""Searching strings: strstr(), strcontains(), and the stars of patterns.

The first positions are tried in a loop, which is fastest and enough for most strings; all others by a callback of
bpf_loop(), of which the verifier follows one call and not thousands. A callback keeps what it must remember in scratch
memory, whose contents the verifier does not track.
"""

from __future__ import annotations

from ... import helpers as h
from ...ir import BasicBlock, BpfFunction, Operand, Reg
from .. import memory
from ..core import Lower
from ..state import Mem
from . import words
from .texts import load_characters, plain_memory, write_literal
from .words import mark_zero_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

FIRST = 64             # positions that are tried in a loop
MAX_LOOPS = 1 << 23    # BPF_MAX_LOOPS
LONG_NEEDLE = 256      # a longer one is put into memory
CHUNK = 64             # characters that one call compares
PADDING = CHUNK + 8    # bytes after a string that may be loaded with its last ones
HIT, MISS = 1, 2

Look: TypeAlias = "Callable[[Reg, BasicBlock, BasicBlock, BasicBlock], None]"
"""(address, found, next, stop): try one position; ``stop`` if there is no use in going on."""


def pad_text(lo: Lower, mem: Mem, capacity: int, terminated: bool) -> Mem:
    """A string in scratch memory, with room after it. What is not terminated by a NUL within its capacity gets one."""
    padded = mem
    if terminated:
        padded = words.in_scratch(lo, mem, capacity + PADDING)
    else:
        padded = Mem(lo.b.function.slot(capacity + PADDING, "text", scratch=True))
        memory.clear_bytes(lo, padded.at(capacity), 8)
    if padded is mem:
        return mem
    if terminated and capacity > memory.WORD_COPY and mem.space == "bpf":
        lo.b.store(padded.base, padded.off, 0, 1)
        lo.b.call(h.READ_KERNEL_STR, [lo.operand_address(padded), capacity, lo.operand_address(mem)],
                  "probe_read_kernel_str")
    else:
        memory.copy_bytes(lo, mem, padded, capacity)
    return padded


# --- trying one position after another ------------------------------------------------------------------------


def scan_text(lo: Lower, text: Mem, start: Operand, end: int, key: object, look: Look, no: BasicBlock) -> Reg:
    """The first position from ``start`` on and before ``end`` that ``look`` finds good; to ``no`` if there is none.
    ``key`` stands for what ``look`` does."""
    index, match = lo.b.function.reg("index"), lo.b.block("found")
    lo.b.set(index, start)
    lo.forget()
    plain = end <= 2 * FIRST or not lo.unit.feature("bpf_loop")
    first = end if plain else FIRST
    base = lo.b.address(text.base, text.off)
    head, body, step, beyond = (lo.b.block(n) for n in ("search", "try", "step", "behind"))
    lo.b.start(head)
    lo.b.branch("jlt", index, first, body, no if plain else beyond)
    lo.b.start(body)
    look(lo.b.alu("add", base, index), match, step, no)
    lo.b.start(step)
    lo.b.set(index, lo.b.alu("add", index, 1))
    lo.b.jump(head)
    if not plain:
        lo.b.start(beyond)
        _scan_by_callback(lo, base, index, end, key, look, no)
        lo.b.jump(match)
    lo.b.start(match)
    return index


def _scan_by_callback(lo: Lower, base: Reg, index: Reg, end: int, key: object, look: Look, no: BasicBlock) -> None:
    """As :func:`scan_text`, from ``index`` on. In scratch memory: +0 the position, +8 whether it is good."""
    progress = lo.b.function.slot(16, "progress", scratch=True)
    lo.b.store(progress, 0, index)
    lo.b.store(progress, 8, 0)
    words.run_loop(lo, end, [base, lo.b.address(progress)], ("scan", end, key),
               lambda function: _scan_function(lo, function, end, look))
    lo.b.set(index, lo.b.load(progress, 0))
    good, bounded = lo.b.block("good"), lo.b.block("bounded")
    lo.b.branch("jne", lo.b.load(progress, 8), 0, good, no)
    lo.b.start(good)
    lo.b.branch("jlt", index, end, bounded, no)  # always; the verifier wants it said
    lo.b.start(bounded)


def _scan_function(lo: Lower, function: BpfFunction, end: int, look: Look) -> None:
    """callback(index, state of base and progress): try the next position; 1 ends the search."""
    state = function.params[1]
    inside, match, step, stop = (lo.b.block(n) for n in ("inside", "found", "step", "stop"))
    progress = lo.b.load(state, 8)
    index = lo.b.load(progress, 0)
    lo.b.branch("jlt", index, end, inside, stop)
    lo.b.start(inside)
    look(lo.b.alu("add", lo.b.load(state, 0), index), match, step, stop)
    lo.b.start(step)
    lo.b.store(progress, 0, lo.b.alu("add", index, 1))
    lo.b.exit(0)
    lo.b.start(match)
    lo.b.store(progress, 8, HIT)
    lo.b.start(stop)
    lo.b.exit(1)


# --- a text known when compiling ------------------------------------------------------------------------------


def find_literal(lo: Lower, hay: Mem, size: int, terminated: bool, needle: bytes, yes: BasicBlock,
                 no: BasicBlock) -> Operand:
    """Branch on whether the string at ``hay`` contains ``needle``; the index is where, in the yes arm."""
    if not needle:
        lo.b.jump(yes)
        return 0
    if len(needle) >= size:
        lo.b.jump(no)
        return 0
    hay = plain_memory(lo, hay, size)
    if len(needle) > LONG_NEEDLE:
        literal = Mem(lo.b.function.slot(len(needle) + 1 + PADDING, "needle", scratch=True))
        write_literal(lo, needle, literal, len(needle) + 1, False)
        return find_string(lo, hay, size, terminated, literal, len(needle) + 1, True, yes, no)
    where = scan_text(lo, pad_text(lo, hay, size, terminated), 0, size - len(needle), needle,
                      lambda at, match, step, stop: _by_words(lo, at, needle, match, step, stop), no)
    lo.b.jump(yes)
    return where


def _by_words(lo: Lower, at: Reg, needle: bytes, match: BasicBlock, step: BasicBlock, stop: BasicBlock) -> None:
    """Compare with a constant by whole words: there is enough padding after the string to load them."""
    start = load_characters(lo, at, 0, 8)
    other = lo.b.block("other")
    for offset in range(0, len(needle), 8):
        piece = needle[offset:offset + 8]
        word = start if offset == 0 else load_characters(lo, at, offset, 8)
        if len(piece) < 8:
            word = lo.b.alu("and", word, (1 << 8 * len(piece)) - 1)
        more = lo.b.block("same")
        lo.b.branch("jeq", word, int.from_bytes(piece, "little", signed=len(piece) == 8), more,
                    step if offset else other)
        lo.b.start(more)
    lo.b.jump(match)
    lo.b.start(other)
    lo.b.branch("jeq", lo.b.alu("and", start, 0xFF), 0, stop, step)


# --- a text known at run time ---------------------------------------------------------------------------------


def find_string(lo: Lower, hay: Mem, size: int, terminated: bool, needle: Mem, needle_size: int,
                    needle_terminated: bool, yes: BasicBlock, no: BasicBlock) -> Operand:
    """As :func:`find_literal`, with a needle known at run time. The first positions are compared by the needle's first
    word, which decides if the needle ends in it; anything else is left to the callback."""
    hay = pad_text(lo, plain_memory(lo, hay, size), size, terminated)
    needle = pad_text(lo, plain_memory(lo, needle, needle_size), needle_size, needle_terminated)
    base, other = lo.b.address(hay.base, hay.off), lo.b.address(needle.base, needle.off)
    index, match, deep = lo.b.function.reg("index"), lo.b.block("found"), lo.b.block("deep")
    lo.b.set(index, 0)
    lo.forget()
    word = load_characters(lo, other, 0, 8)
    ends = mark_zero_bytes(lo, word)
    matters = _before(lo, ends)
    head, body, step, agrees, differs = (lo.b.block(n) for n in ("search", "try", "step", "agrees", "differs"))
    loops = lo.unit.feature("bpf_loop")
    end = deep if loops else no
    lo.b.start(head)
    lo.b.branch("jlt", index, min(size, FIRST) if loops else size, body, end)
    lo.b.start(body)
    have = load_characters(lo, lo.b.alu("add", base, index), 0, 8)
    lo.b.branch("jeq", lo.b.alu("and", lo.b.alu("xor", have, word), matters), 0, agrees, differs)
    lo.b.start(agrees)
    rest = deep if loops else lo.b.block("rest")
    lo.b.branch("jne", ends, 0, match, rest)
    if not loops:
        lo.b.start(rest)
        _rest_agrees(lo, base, index, size, other, needle_size, match, differs)
    lo.b.start(differs)
    lo.b.branch("jeq", lo.b.alu("and", have, 0xFF), 0, no, step)
    lo.b.start(step)
    lo.b.set(index, lo.b.alu("add", index, 1))
    lo.b.jump(head)
    if loops:
        lo.b.start(deep)
        _deep_search(lo, base, size, other, needle_size, index, no)
    lo.b.start(match)
    lo.b.jump(yes)
    return index


def _before(lo: Lower, ends: Operand) -> Reg:
    """The bits of the bytes before the first zero byte; all of them if there is none."""
    return lo.b.alu("sub", lo.b.alu("rsh", lo.b.alu("and", ends, lo.b.neg(ends)), 7), 1)


def _prefix_word(lo: Lower, hay: Reg, needle: Reg, at: int, match: BasicBlock, differs: BasicBlock) -> None:
    """Compare one word of the needle; continue if it agrees and the needle does not end in it."""
    agrees, more = lo.b.block("agrees"), lo.b.block("more")
    wanted = load_characters(lo, needle, at, 8)
    ends = mark_zero_bytes(lo, wanted)
    different = lo.b.alu("xor", load_characters(lo, hay, at, 8), wanted)
    lo.b.branch("jeq", lo.b.alu("and", different, _before(lo, ends)), 0, agrees, differs)
    lo.b.start(agrees)
    lo.b.branch("jne", ends, 0, match, more)
    lo.b.start(more)


def _rest_agrees(lo: Lower, base: Reg, index: Reg, size: int, needle: Reg, needle_size: int, match: BasicBlock,
                 differs: BasicBlock) -> None:
    """Without bpf_loop: a loop over the words after the first, from ``index`` on."""
    at = lo.b.function.reg("at")
    lo.b.set(at, 8)
    head, near, body = lo.b.block("match"), lo.b.block("near"), lo.b.block("word")
    lo.b.start(head)
    lo.b.branch("jlt", at, needle_size, near, differs)
    lo.b.start(near)
    position = lo.b.alu("add", index, at)
    lo.b.branch("jlt", position, size, body, differs)
    lo.b.start(body)
    _prefix_word(lo, lo.b.alu("add", base, position), lo.b.alu("add", needle, at), 0, match, differs)
    lo.b.set(at, lo.b.alu("add", at, 8))
    lo.b.jump(head)


def _deep_search(lo: Lower, base: Reg, size: int, needle: Reg, needle_size: int, index: Reg, no: BasicBlock) -> None:
    """From ``index`` on: each call of the callback compares up to CHUNK characters. In scratch memory:

        +0  where the needle may begin     +8  characters that agree there     +16  the outcome
    """
    progress = lo.b.function.slot(24, "progress", scratch=True)
    lo.b.store(progress, 0, index)
    lo.b.zero(progress, 8, 16)
    most = size * ((needle_size + CHUNK - 1) // CHUNK) + 1
    words.run_loop(lo, min(most, MAX_LOOPS), [base, needle, lo.b.address(progress)], ("search", size, needle_size),
               lambda function: _search_function(lo, function, size, needle_size))
    lo.b.set(index, lo.b.load(progress, 0))
    good, bad = lo.b.block("good"), lo.b.block("bad")
    outcome = lo.b.load(progress, 16)
    lo.b.branch("jeq", outcome, HIT, good, bad)
    lo.b.start(bad)
    if most > MAX_LOOPS:
        given_up = lo.b.block("given_up", cold=True)
        lo.b.branch("jeq", outcome, 0, given_up, no)
        lo.b.start(given_up)
        lo.count_error("loop")
    lo.b.jump(no)
    lo.b.start(good)


def _search_function(lo: Lower, function: BpfFunction, size: int, needle_size: int) -> None:
    """callback(index, state of hay, needle and progress): 1 ends the search."""
    state = function.params[1]
    begin, inside, match, differs, step, missed, end = (lo.b.block(n) for n in (
        "begin", "inside", "found", "differs", "step", "missed", "end"))
    progress = lo.b.load(state, 16)
    start, at = lo.b.load(progress, 0), lo.b.load(progress, 8)
    lo.b.branch("jlt", start, size, begin, missed)
    lo.b.start(begin)
    hay, near = lo.b.alu("add", lo.b.load(state, 0), start), lo.b.block("near")
    lo.b.branch("jlt", at, needle_size, near, missed)
    lo.b.start(near)
    position = lo.b.alu("add", start, at)
    lo.b.branch("jlt", position, size, inside, missed)
    lo.b.start(inside)
    there, needle = lo.b.alu("add", lo.b.load(state, 0), position), lo.b.alu("add", lo.b.load(state, 8), at)
    for offset in range(0, CHUNK, 8):
        _prefix_word(lo, there, needle, offset, match, differs)
    lo.b.store(progress, 8, lo.b.alu("add", at, CHUNK))
    lo.b.exit(0)
    lo.b.start(differs)
    lo.b.branch("jeq", lo.b.load(hay, 0, 1), 0, missed, step)
    lo.b.start(step)
    lo.b.store(progress, 0, lo.b.alu("add", start, 1))
    lo.b.store(progress, 8, 0)
    lo.b.exit(0)
    lo.b.start(match)
    lo.b.store(progress, 16, HIT)
    lo.b.jump(end)
    lo.b.start(missed)
    lo.b.store(progress, 16, MISS)
    lo.b.start(end)
    lo.b.exit(1)
