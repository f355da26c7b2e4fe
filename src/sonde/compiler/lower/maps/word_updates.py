"""Updates of single words of aggregates."""

from __future__ import annotations

from ....types import Aggregate
from ...ir import Operand, Reg
from ..core import Lower
from ..state import Mem


def add_to_word(lo: Lower, mem: Mem, value: Operand, plain: bool) -> None:
    """Add to a word. A plain add is enough where nothing can come between its load and its store."""
    if plain:
        lo.b.store(mem.base, mem.off, lo.b.alu("add", lo.b.load(mem.base, mem.off), value))
    else:
        lo.b.atomic_add(mem.base, mem.off, value)


def update_extreme(lo: Lower, mem: Mem, aggregate: Aggregate, value: Operand) -> None:
    """The words of min() or max(): a value, and whether there is one."""
    better = {"min": "jslt" if aggregate.signed else "jlt", "max": "jsgt" if aggregate.signed else "jgt"}
    compare, take, on = lo.b.block("compare"), lo.b.block("take"), lo.b.block("on")
    lo.b.branch("jeq", lo.b.load(mem.base, mem.off + 8), 0, take, compare)
    lo.b.start(compare)
    lo.b.branch(better[aggregate.kind], value, lo.b.load(mem.base, mem.off), take, on)
    lo.b.start(take)
    lo.b.store(mem.base, mem.off, value)
    lo.b.store(mem.base, mem.off + 8, 1)
    lo.b.start(on)


def count_bucket(lo: Lower, mem: Mem, bucket: Operand, words: int, plain: bool) -> None:
    """One more in a bucket."""
    inside, on = lo.b.block("inside"), lo.b.block("on")
    lo.b.branch("jlt", bucket, words, inside, on)  # always; the verifier wants it said
    lo.b.start(inside)
    at = lo.b.alu("add", mem.base, lo.b.alu("lsh", bucket, 3))
    add_to_word(lo, Mem(at, mem.off), 1, plain)
    lo.b.start(on)


def linear_bucket(lo: Lower, value: Operand, aggregate: Aggregate, last: int) -> Reg:
    """The bucket of lhist() for an integer; ``last`` is that of what lies above."""
    bucket = lo.b.function.reg("bucket")
    lo.b.set(bucket, 0)
    above, middle, have = lo.b.block("above"), lo.b.block("middle"), lo.b.block("have")
    lo.b.branch("jslt", value, aggregate.low, have, above)
    lo.b.start(above)
    lo.b.set(bucket, last)
    lo.b.branch("jsge", value, aggregate.high, have, middle)
    lo.b.start(middle)
    offset = lo.b.alu("sub", value, aggregate.low)
    lo.b.set(bucket, lo.b.alu("add", lo.b.alu("div", offset, aggregate.step), 1))
    lo.b.start(have)
    return bucket
