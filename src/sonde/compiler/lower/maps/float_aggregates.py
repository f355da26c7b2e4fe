"""Map value functions of floating-point numbers: the words that types.Aggregate describes, updated in place.

Sums are of integers, so that they add up in any order and over CPUs: a number of up to 53 bits is added to the two or
three limbs of 32 bits in which it lies, in words of 64. What is less than 2^-64 is cut off. A word that has grown
beyond its 32 bits is carried to the next; every step adds to words, so whatever comes between leaves the sum as it is.
"""

from __future__ import annotations

from ....types import FLOAT_HIGH, FLOAT_LOW, FLOAT_SUM, Aggregate
from ...ir import Operand, Reg
from ..core import Lower
from ..floats import (
    BIAS,
    FRACTION,
    MAGNITUDE,
    branch_on_nan,
    exponent_of,
    floor_double,
    multiply_rounded,
    order_key,
    significand,
)
from ..state import Mem
from .word_updates import add_to_word, count_bucket, linear_bucket, update_extreme

_NANS, _ABOVE, _BELOW, _LIMBS = range(0, 32, 8)  # offsets in a sum
_LOWEST, _LIMIT = -64, 80  # exponents of the lowest limb, and of what is too large
_SLACK = 1 << 20           # carries that a word may wait for


def update_floats(lo: Lower, mem: Mem, aggregate: Aggregate, value: Operand, plain: bool) -> None:
    """Update the words at ``mem`` by the number whose bits are ``value``."""
    bits = value if isinstance(value, Reg) else lo.b.mov(value)
    if aggregate.row.sums:
        if aggregate.kind != "sum":
            add_to_word(lo, mem, 1, plain)
        _add_to_sum(lo, mem.at(aggregate.size - 8 * FLOAT_SUM), bits, plain)
    elif aggregate.kind in ("min", "max"):
        update_extreme(lo, mem, aggregate, _extreme_key(lo, bits, aggregate.kind))
    else:
        bucket = _power_bucket(lo, bits, aggregate) if aggregate.kind == "hist" else _step_bucket(lo, bits, aggregate)
        count_bucket(lo, mem, bucket, aggregate.buckets, plain)
        if aggregate.agg == "sum":
            _add_to_sum(lo, mem.at(8 * aggregate.buckets), bits, plain)


def _extreme_key(lo: Lower, bits: Reg, kind: str) -> Reg:
    key = lo.b.function.reg("key")
    nan, number, on = lo.b.block("nan", cold=True), lo.b.block("number"), lo.b.block("on")
    branch_on_nan(lo, bits, nan, number)
    lo.b.start(number)
    lo.b.set(key, order_key(lo, bits))
    lo.b.jump(on)
    lo.b.start(nan)
    lo.b.set(key, MAGNITUDE if kind == "max" else -MAGNITUDE)
    lo.b.start(on)
    return key


# --- sums -------------------------------------------------------------------------------------------------


def _add_to_sum(lo: Lower, mem: Mem, bits: Reg, plain: bool) -> None:
    exponent, sign = exponent_of(lo, bits), lo.b.alu("arsh", bits, 63)
    large, finite, lost, added = (lo.b.block(name, cold=name == "large") for name in (
        "large", "finite", "lost", "added"))
    lo.b.branch("jge", exponent, BIAS + _LIMIT, large, finite)
    lo.b.start(large)
    _count_large(lo, mem, bits, plain)
    lo.b.jump(added)
    lo.b.start(finite)
    number = lo.b.function.reg("number")
    position = lo.b.alu("sub", exponent, BIAS + FRACTION + _LOWEST)  # of its lowest bit, above that of the lowest limb
    lo.b.set(number, significand(lo, bits))
    inside, below = lo.b.block("inside"), lo.b.block("below", cold=True)
    at = lo.b.function.reg("at")
    lo.b.set(at, position)
    lo.b.branch("jslt", position, 0, below, inside)
    lo.b.start(below)
    lo.b.branch("jslt", position, -FRACTION, added, lost)
    lo.b.start(lost)
    lo.b.set(number, lo.b.alu("rsh", number, lo.b.neg(position)))
    lo.b.set(at, 0)
    lo.b.jump(inside)
    lo.b.start(inside)
    _add_to_limbs(lo, mem.at(_LIMBS), number, at, sign, plain)
    lo.b.start(added)


def _count_large(lo: Lower, mem: Mem, bits: Reg, plain: bool) -> None:
    """Count a NaN, an infinity, or a number that no limb holds."""
    word = lo.b.function.reg("word")
    number, below, on = (lo.b.block(name) for name in ("number", "below", "on"))
    lo.b.set(word, _NANS)
    branch_on_nan(lo, bits, on, number)
    lo.b.start(number)
    lo.b.set(word, _ABOVE)
    lo.b.branch("jslt", bits, 0, below, on)
    lo.b.start(below)
    lo.b.set(word, _BELOW)
    lo.b.start(on)
    _add_at(lo, mem, word, 1, plain)


def _add_to_limbs(lo: Lower, limbs: Mem, number: Reg, at: Reg, sign: Operand, plain: bool) -> None:
    """Add the number, shifted left by ``at``, to three limbs from at / 32 on; then carry."""
    shift, first = lo.b.alu("and", at, 31), lo.b.alu("lsh", lo.b.alu("rsh", at, 5), 3)
    upper = lo.b.alu("rsh", number, lo.b.alu("sub", 32, shift))
    mask = (1 << 32) - 1
    parts = (lo.b.alu("and", lo.b.alu("lsh", number, shift), mask), lo.b.alu("and", upper, mask),
             lo.b.alu("rsh", upper, 32))
    for index, part in enumerate(parts):
        _add_at(lo, limbs.at(8 * index), first, lo.b.alu("sub", lo.b.alu("xor", part, sign), sign), plain)
    for index in range(4):
        _carry(lo, limbs.at(8 * index), plain)


def _add_at(lo: Lower, mem: Mem, offset: Reg, value: Operand, plain: bool) -> None:
    """Add to the word that lies ``offset`` bytes (at most 16) further."""
    inside, on = lo.b.block("inside"), lo.b.block("on")
    lo.b.branch("jle", offset, 16, inside, on)  # always; the verifier wants it said
    lo.b.start(inside)
    add_to_word(lo, Mem(lo.b.alu("add", lo.b.address(mem.base), offset), mem.off), value, plain)
    lo.b.start(on)


def _carry(lo: Lower, mem: Mem, plain: bool) -> None:
    over, on = lo.b.block("carry", cold=True), lo.b.block("on")
    high = lo.b.alu("arsh", lo.b.load(mem.base, mem.off), 32)
    lo.b.branch("jgt", lo.b.alu("add", high, _SLACK), 2 * _SLACK, over, on)
    lo.b.start(over)
    add_to_word(lo, mem, lo.b.neg(lo.b.alu("lsh", high, 32)), plain)
    add_to_word(lo, mem.at(8), high, plain)
    lo.b.start(on)


# --- histograms -------------------------------------------------------------------------------------------


def _power_bucket(lo: Lower, bits: Reg, aggregate: Aggregate) -> Reg:
    bucket = lo.b.function.reg("bucket")
    key, precision = order_key(lo, bits), aggregate.bits
    number, positive, some, normal, inside, have = (lo.b.block(name) for name in (
        "number", "positive", "some", "normal", "inside", "have"))
    lo.b.set(bucket, aggregate.buckets - 1)
    branch_on_nan(lo, bits, have, number)
    lo.b.start(number)
    lo.b.set(bucket, 0)
    lo.b.branch("jslt", key, 0, have, positive)
    lo.b.start(positive)
    lo.b.set(bucket, 1)
    lo.b.branch("jeq", key, 0, have, some)
    lo.b.start(some)
    lo.b.set(bucket, 2)
    lo.b.branch("jlt", key, BIAS + FLOAT_LOW << FRACTION, have, normal)
    lo.b.start(normal)
    lo.b.set(bucket, aggregate.buckets - 2)
    lo.b.branch("jge", key, BIAS + FLOAT_HIGH << FRACTION, have, inside)
    lo.b.start(inside)
    steps = lo.b.alu("rsh", key, FRACTION - precision)
    lo.b.set(bucket, lo.b.alu("sub", steps, (BIAS + FLOAT_LOW << precision) - 3))
    lo.b.start(have)
    return bucket


def _step_bucket(lo: Lower, bits: Reg, aggregate: Aggregate) -> Reg:
    """By integers in the units of the bounds: exact for whole ones; otherwise a value that is nearer to a bound than
    2^-20 units lies on it."""
    bucket = lo.b.function.reg("bucket")
    number, have = lo.b.block("number"), lo.b.block("have")
    lo.b.set(bucket, aggregate.buckets - 1)
    branch_on_nan(lo, bits, have, number)
    lo.b.start(number)
    spare = min(20, 31 - aggregate.units.bit_length())
    value = floor_double(lo, bits) if aggregate.units == 1 else \
        lo.b.alu("arsh", multiply_rounded(lo, bits, aggregate.units << spare), spare)
    lo.b.set(bucket, linear_bucket(lo, value, aggregate, aggregate.buckets - 2))
    lo.b.start(have)
    return bucket
