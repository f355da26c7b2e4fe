"""Patterns: globmatch()."""

from __future__ import annotations

from ..compiler.ir import BasicBlock, Operand, Reg
from ..compiler.lower.calls import Function
from ..compiler.lower.core import Lower
from ..compiler.lower.state import Mem
from ..compiler.lower.strings import search, words
from ..compiler.lower.strings.texts import capacity_of, plain_memory
from ..language.ast import (
    Call,
)
from ..semantics.callees import Types
from ..semantics.context import CheckContext, fold_constant
from ..types import (
    BOOL,
    Str,
    Type,
)

Segment = list[frozenset[int]]  # which bytes each character may be

def parse_glob(pattern: str) -> list[Segment]:
    """The pieces of a pattern between its stars: ``a*b`` has two, ``a`` has one."""
    text = pattern.encode("utf-8", "surrogateescape")
    any_byte = frozenset(range(1, 256))
    segments: list[Segment] = [[]]
    at = 0
    while at < len(text):
        end = text.find(b"]", at + (3 if text[at + 1:at + 2] == b"!" else 2)) if text[at] == ord("[") else -1
        if text[at] == ord("*"):
            segments.append([])
        elif text[at] == ord("?"):
            segments[-1].append(any_byte)
        elif end > 0:
            negated = text[at + 1] == ord("!")
            listed = _parse_byte_class(text[at + 1 + negated:end])
            segments[-1].append(any_byte - listed if negated else listed)
            at = end
        else:
            segments[-1].append(frozenset([text[at]]))
        at += 1
    return segments


def _parse_byte_class(text: bytes) -> frozenset[int]:
    """The bytes of ``a-z_``."""
    members: set[int] = set()
    at = 0
    while at < len(text):
        if text[at + 1:at + 2] == b"-" and at + 2 < len(text):
            members.update(range(text[at], text[at + 2] + 1))
            at += 3
        else:
            members.add(text[at])
            at += 1
    return frozenset(members)


def glob_matches(segments: list[Segment], text: bytes) -> bool:
    """Whether a text matches a pattern: each piece is found as early as possible, the last at the end."""
    def segment_fits(segment: Segment, at: int) -> bool:
        return 0 <= at <= len(text) - len(segment) and all(text[at + i] in s for i, s in enumerate(segment))
    if not segment_fits(segments[0], 0):
        return False
    at = len(segments[0])
    if len(segments) == 1:
        return at == len(text)
    for segment in segments[1:-1]:
        start = next((i for i in range(at, len(text) + 1) if segment_fits(segment, i)), None)
        if start is None:
            return False
        at = start + len(segment)
    last = len(text) - len(segments[-1])
    return last >= at and segment_fits(segments[-1], last)


def check_globmatch(context: CheckContext, node: Call, types: Types) -> Type | None:
    """Folded if both are literals."""
    segments = parse_glob(node.args[1].const)
    text = node.args[0].const
    if isinstance(text, str):
        return fold_constant(node, int(glob_matches(segments, text.encode("utf-8", "surrogateescape"))), BOOL)
    return BOOL


def branch_on_globmatch(lo: Lower, call: Call, yes: BasicBlock, no: BasicBlock) -> None:
    """The pieces between stars: the first at the beginning, each as early as possible, the last at the end."""
    segments: list[Segment] = parse_glob(call.args[1].const)
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


def _branch_on_end(lo: Lower, base: Reg, at: int, capacity: int, yes: BasicBlock, no: BasicBlock) -> None:
    if at >= capacity:
        lo.b.jump(yes if at == capacity else no)
    else:
        lo.b.branch("jeq", lo.b.load(base, at, 1), 0, yes, no)


def _branch_on_fit(lo: Lower, base: Reg, off: int, segment: Segment, capacity: int, yes: BasicBlock,
                   no: BasicBlock) -> None:
    """Branch on whether the bytes from ``base + off`` on fit the segment (which never matches a NUL)."""
    if off + len(segment) > capacity:
        lo.b.jump(no)
        return
    for number, allowed in enumerate(segment):
        more = lo.b.block("same")
        _branch_on_byte(lo, lo.b.load(base, off + number, 1), allowed, more, no)
        lo.b.start(more)
    lo.b.jump(yes)


def _branch_on_byte(lo: Lower, byte: Reg, allowed: frozenset[int], yes: BasicBlock, no: BasicBlock) -> None:
    """Branch on whether a byte is in a set, range by range."""
    for low, high in byte_ranges(allowed):
        more = lo.b.block("or")
        if low == high:
            lo.b.branch("jeq", byte, low, yes, more)
        else:
            above = lo.b.block("above")
            lo.b.branch("jge", byte, low, above, no)  # ranges ascend: below this one is outside all that follow
            lo.b.start(above)
            lo.b.branch("jle", byte, high, yes, more)
        lo.b.start(more)
    lo.b.jump(no)


def byte_ranges(allowed: frozenset[int]) -> list[tuple[int, int]]:
    """A set of bytes as ascending inclusive ranges."""
    ranges: list[tuple[int, int]] = []
    for byte in sorted(allowed):
        if ranges and ranges[-1][1] == byte - 1:
            ranges[-1] = (ranges[-1][0], byte)
        else:
            ranges.append((byte, byte))
    return ranges


def _search_segment(lo: Lower, text: Mem, start: Operand, segment: Segment, capacity: int, no: BasicBlock) -> Reg:
    """The first position from ``start`` on where the segment fits."""
    def look(at: Reg, match: BasicBlock, step: BasicBlock, stop: BasicBlock) -> None:
        other = lo.b.block("other")
        _branch_on_fit(lo, at, 0, segment, len(segment), match, other)
        lo.b.start(other)
        lo.b.branch("jeq", lo.b.load(at, 0, 1), 0, stop, step)

    return search.scan_text(lo, text, start, capacity - len(segment) + 1, tuple(segment), look, no)


def _at_end(lo: Lower, text: Mem, base: Reg, at: Operand, segment: Segment, capacity: int, yes: BasicBlock,
            no: BasicBlock) -> None:
    """Branch on whether the segment is the end of the text after ``at``."""
    if not segment:
        lo.b.jump(yes)
        return
    last = lo.b.alu("sub", words.text_length(lo, text, capacity), len(segment))
    beyond, inside = lo.b.block("behind"), lo.b.block("inside")
    lo.b.branch("jsge", last, at, beyond, no)
    lo.b.start(beyond)
    lo.b.branch("jle", last, capacity - len(segment), inside, no) if len(segment) <= capacity else lo.b.jump(no)
    lo.b.start(inside)
    _branch_on_fit(lo, lo.b.alu("add", base, last), 0, segment, len(segment), yes, no)



ROWS = (
    Function("globmatch", ("text:str", "pattern:literal"), None, "Whether a string matches a pattern.",
             'globmatch(comm, "k[a-s]*d/?")', check_globmatch, cost=400, condition=branch_on_globmatch),
)
