"""Strings: into memory, and equality. A string is NUL-terminated within its capacity.

Code that looks at many characters is in :mod:`.words` (equality, length) and :mod:`.search`.
"""

from __future__ import annotations

from ....base.words import to_signed
from ....language.ast import Expr
from ...ir import BasicBlock, Operand
from ..core import Lower
from ..state import Mem
from .texts import capacity_of, literal_bytes, load_characters, plain_memory
from .words import branch_on_strings


def branch_on_equal_strings(lo: Lower, left: Expr, right: Expr, yes: BasicBlock, no: BasicBlock) -> None:
    """Branch on the equality of two strings."""
    if literal_bytes(left) is not None:
        left, right = right, left
    text = literal_bytes(right)
    with lo.scope():
        a = lo.place_value(left)
        if text is not None:
            if literal_bytes(left) is not None:
                lo.b.jump(yes if literal_bytes(left) == text else no)
            else:
                branch_on_literal(lo, a, capacity_of(left), text, yes, no)
            return
        b = lo.place_value(right)
        branch_on_strings(lo, a, capacity_of(left), b, capacity_of(right), yes, no)


def branch_on_literal(lo: Lower, mem: Mem, capacity: int, text: bytes, yes: BasicBlock, no: BasicBlock,
                      prefix: int = -1) -> None:
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
        have: Operand = load_characters(lo, mem.base, mem.off + at, step)
        piece = wanted[at:at + step]
        if len(piece) < step:
            have = lo.b.alu("and", have, (1 << 8 * len(piece)) - 1)
        at += step
        value = int.from_bytes(piece, "little")
        if at >= len(wanted):
            lo.b.branch("jeq", have, to_signed(value), yes, no)
            return
        more = lo.b.block("same")
        lo.b.branch("jeq", have, to_signed(value), more, no)
        lo.b.start(more)
    lo.b.jump(yes)


def branch_on_probe(lo: Lower, probe: Expr, other: Expr, op: str, yes: BasicBlock, no: BasicBlock) -> None:
    """``probe == "name"``: the name's index is known when compiling."""
    text = literal_bytes(other)
    if text is None:
        lo.b.branch("jeq", lo.scalar_value(probe), lo.scalar_value(other), *((yes, no) if op == "==" else (no, yes)))
        return
    names = lo.unit.probes
    wanted = [i for i, n in enumerate(names) if n == text.decode("utf-8", "replace")]
    if op == "!=":
        yes, no = no, yes
    value = lo.scalar_value(probe)
    for index in wanted:
        more = lo.b.block("or")
        lo.b.branch("jeq", value, index, yes, more)
        lo.b.start(more)
    lo.b.jump(no)

