"""Numbers of IEEE 754 by instructions for integers: BPF has none for floating point.

In a register such a number is the bits of a double, whatever it is in memory. Its *key* is a signed integer: of two
numbers the larger has the larger key, 0.0 and -0.0 have the key 0, and a NaN's lies beyond those of the infinities.
"""

from __future__ import annotations

from struct import pack, unpack

from ...base.words import to_signed
from ...language.ast import FloatLiteral
from ...types import Float, Int, Tuple, Type
from ..ir import BasicBlock, Operand, Reg
from .core import Lower, canonical_width
from .logarithm import compute_log2
from .state import Mem

FRACTION, BIAS = 52, 1023              # bits of the fraction, and what is added to the exponent
INFINITY = 0x7FF << FRACTION
_SIGN, MAGNITUDE = -1 << 63, (1 << 63) - 1
_NAN = 0x7FF8 << 48
_REBIAS = (BIAS - 127) << FRACTION     # from the exponents of float to those of double


def double_bits(value: float) -> int:
    """The bits of a double, as a signed word."""
    bits: int = unpack("<q", pack("<d", value))[0]
    return bits


def lower_literal(lo: Lower, expr: FloatLiteral) -> Operand:
    return double_bits(expr.value)


# --- in memory --------------------------------------------------------------------------------------------


def widen_single(lo: Lower, single: Operand) -> Reg:
    """The double that a float is, from its 32 bits."""
    result = lo.b.function.reg("double")
    magnitude = lo.b.alu("and", single, 0x7FFFFFFF)
    large, special, small, denormal, on = (lo.b.block(name, cold=name != "on") for name in (
        "large", "special", "small", "denormal", "on"))
    lo.b.set(result, 0)
    lo.b.branch("jlt", magnitude, 1 << 23, small, large)
    lo.b.start(large)
    lo.b.set(result, lo.b.alu("add", lo.b.alu("lsh", magnitude, 29), _REBIAS))
    lo.b.branch("jge", magnitude, 0xFF << 23, special, on)
    lo.b.start(special)  # an infinity or a NaN
    lo.b.set(result, lo.b.alu("add", result, _REBIAS))
    lo.b.jump(on)
    lo.b.start(small)
    lo.b.branch("jeq", magnitude, 0, on, denormal)
    lo.b.start(denormal)
    highest = compute_log2(lo, magnitude)
    fraction = lo.b.alu("lsh", magnitude, lo.b.alu("sub", FRACTION, highest))
    lo.b.set(result, lo.b.alu("add", fraction, lo.b.alu("lsh", lo.b.alu("add", highest, BIAS - 150), FRACTION)))
    lo.b.start(on)
    return lo.b.alu("or", result, lo.b.alu("lsh", lo.b.alu("rsh", single, 31), 63))


def narrow_double(lo: Lower, bits: Operand) -> Reg:
    """The 32 bits of a float, of a double that was one."""
    result = lo.b.function.reg("float")
    magnitude = lo.b.alu("and", bits, MAGNITUDE)
    exponent = lo.b.alu("rsh", magnitude, FRACTION)
    normal, special, small, denormal, on = (lo.b.block(name, cold=name != "on") for name in (
        "normal", "special", "small", "denormal", "on"))
    lo.b.set(result, 0)
    lo.b.branch("jle", exponent, BIAS - 127, small, normal)
    lo.b.start(normal)
    lo.b.set(result, lo.b.alu("rsh", lo.b.alu("sub", magnitude, _REBIAS), 29))
    lo.b.branch("jgt", exponent, BIAS + 127, special, on)
    lo.b.start(special)
    fraction = lo.b.alu("and", lo.b.alu("rsh", magnitude, 29), (1 << 23) - 1)
    lo.b.set(result, lo.b.alu("or", fraction, 0xFF << 23))
    lo.b.jump(on)
    lo.b.start(small)
    lo.b.branch("jeq", magnitude, 0, on, denormal)
    lo.b.start(denormal)
    lo.b.set(result, lo.b.alu("rsh", significand(lo, magnitude), lo.b.alu("sub", BIAS - 150 + FRACTION + 1, exponent)))
    lo.b.start(on)
    return lo.b.alu("or", result, lo.b.alu("lsh", lo.b.alu("rsh", bits, 63), 31))


def has_float(type: Type | None) -> bool:
    """Whether a value of the type is a floating-point number, or a tuple with one."""
    return isinstance(type, Float) or isinstance(type, Tuple) and any(map(has_float, type.of))


def unify_floats(lo: Lower, mem: Mem, type: Type) -> None:
    """Make numbers that are equal, and NaNs, the same bytes: of a key, all count."""
    if isinstance(type, Tuple):
        for part, offset in zip(type.of, type.offsets):
            unify_floats(lo, mem.at(offset), part)
    if not isinstance(type, Float):
        return
    width = type.size * 8
    infinity, nan = (INFINITY, _NAN) if width == 64 else (0xFF << 23, 0x1FF << 22)
    bits = lo.b.load(mem.base, mem.off, type.size)
    magnitude = lo.b.alu("and", bits, (1 << width - 1) - 1)
    zero, more, other, on = (lo.b.block(name) for name in ("zero", "more", "nan", "on"))
    lo.b.branch("jeq", magnitude, 0, zero, more)
    lo.b.start(more)
    lo.b.branch("jgt", magnitude, infinity, other, on)
    lo.b.start(other)
    lo.b.store(mem.base, mem.off, nan, type.size)
    lo.b.jump(on)
    lo.b.start(zero)
    lo.b.store(mem.base, mem.off, 0, type.size)
    lo.b.start(on)


# --- order ------------------------------------------------------------------------------------------------


def order_key(lo: Lower, bits: Operand) -> Operand:
    """The key of a number."""
    if isinstance(bits, int):
        return bits if bits >= 0 else -(bits & MAGNITUDE)
    sign = lo.b.alu("arsh", bits, 63)
    return lo.b.alu("sub", lo.b.alu("xor", lo.b.alu("and", bits, MAGNITUDE), sign), sign)


def constant_key(value: float) -> int:
    """The key of a number that is known."""
    bits = double_bits(value)
    return bits if bits >= 0 else -(bits & MAGNITUDE)


def branch_on_nan(lo: Lower, bits: Operand, yes: BasicBlock, no: BasicBlock) -> None:
    """Branch on whether it is a NaN."""
    lo.b.branch("jgt", lo.b.alu("and", bits, MAGNITUDE), INFINITY, yes, no)


def key_of_integer(lo: Lower, value: Operand, signed: bool) -> tuple[Operand, Operand]:
    """The key of an integer cut to 53 bits, towards 0, and the bits that were cut off."""
    sign = lo.b.alu("arsh", value, 63) if signed else 0
    magnitude = lo.b.alu("sub", lo.b.alu("xor", value, sign), sign)
    key, rest = lo.b.function.reg("key"), lo.b.function.reg("rest")
    lo.b.set(key, 0)
    lo.b.set(rest, 0)
    some, on = lo.b.block("some"), lo.b.block("on")
    lo.b.branch("jeq", magnitude, 0, on, some)
    lo.b.start(some)
    highest = compute_log2(lo, magnitude)
    left = lo.b.alu("lsh", magnitude, lo.b.alu("sub", 63, highest))
    exponent = lo.b.alu("lsh", lo.b.alu("add", highest, BIAS - 1), FRACTION)
    lo.b.set(key, lo.b.alu("add", lo.b.alu("rsh", left, 11), exponent))
    lo.b.set(rest, lo.b.alu("and", left, 0x7FF))
    lo.b.start(on)
    return lo.b.alu("sub", lo.b.alu("xor", key, sign), sign), rest


# --- to and from integers ---------------------------------------------------------------------------------


def significand(lo: Lower, bits: Operand) -> Reg:
    """The 53 bits of a number that is not denormal."""
    return lo.b.alu("or", lo.b.alu("and", bits, (1 << FRACTION) - 1), 1 << FRACTION)


def exponent_of(lo: Lower, bits: Operand) -> Reg:
    """The exponent, BIAS more than that of 2."""
    return lo.b.alu("and", lo.b.alu("rsh", bits, FRACTION), 0x7FF)


def integer_to_double(lo: Lower, value: Operand, type: Type | None) -> Operand:
    """``(double)n``: rounded to the nearest, to even between two, as in C."""
    _, signed = canonical_width(type)
    key, rest = key_of_integer(lo, value, signed)
    sign = lo.b.alu("arsh", key, 63)
    magnitude = lo.b.alu("sub", lo.b.alu("xor", key, sign), sign)
    odd = lo.b.alu("and", magnitude, 1)
    magnitude = lo.b.alu("add", magnitude, lo.flag("jgt", lo.b.alu("add", rest, odd), 0x400))
    return lo.b.alu("or", magnitude, lo.b.alu("and", sign, _SIGN))


def double_to_integer(lo: Lower, bits: Operand, type: Type | None) -> Operand:
    """``(int64)x``: cut towards 0; the type's nearest for what it does not hold, 0 for a NaN."""
    width, signed = canonical_width(type)
    _, highest = (-1 << width - 1, (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    value = lo.b.function.reg("integer")
    lo.b.set(value, 0)
    exponent, sign = exponent_of(lo, bits), lo.b.alu("arsh", bits, 63)
    some, large, fits, left, right, nan, on = (lo.b.block(name) for name in (
        "some", "large", "fits", "left", "right", "nan", "on"))
    lo.b.branch("jlt", exponent, BIAS, on, some)
    lo.b.start(some)
    lo.b.branch("jge", exponent, BIAS + width - signed, large, fits)
    lo.b.start(fits)
    shift = lo.b.alu("sub", exponent, BIAS + FRACTION)
    lo.b.set(value, significand(lo, bits))
    lo.b.branch("jslt", shift, 0, right, left)
    lo.b.start(right)
    lo.b.set(value, lo.b.alu("rsh", value, lo.b.neg(shift)))
    lo.b.jump(on)
    lo.b.start(left)
    lo.b.set(value, lo.b.alu("lsh", value, shift))
    lo.b.jump(on)
    lo.b.start(large)
    lo.b.set(value, lo.b.alu("sub", to_signed(highest), sign) if signed else to_signed(highest))
    branch_on_nan(lo, bits, nan, on)
    lo.b.start(nan)
    lo.b.set(value, 0)
    lo.b.start(on)
    if signed:
        return lo.normalise(lo.b.alu("sub", lo.b.alu("xor", value, sign), sign), type)
    return lo.normalise(lo.b.alu("and", value, lo.b.alu("xor", sign, -1)), type)


def floor_double(lo: Lower, bits: Operand) -> Operand:
    """The largest integer that is not above a number; saturates as an int64."""
    whole = double_to_integer(lo, bits, Int(64))
    key, _ = key_of_integer(lo, whole, True)
    below = lo.flag("jslt", order_key(lo, bits), key)  # cut towards 0, hence up
    return lo.b.alu("sub", whole, below)


def multiply_rounded(lo: Lower, bits: Operand, factor: int) -> Operand:
    """A number times ``factor`` (below 2^32), rounded to the nearest integer, away from 0 between two; saturates as an
    int64, 0 for a NaN."""
    value = lo.b.function.reg("product")
    exponent, sign = exponent_of(lo, bits), lo.b.alu("arsh", bits, 63)
    some, large, fits, low, high, whole, part, nan, on = (lo.b.block(name) for name in (
        "some", "large", "fits", "low", "high", "whole", "part", "nan", "on"))
    lo.b.set(value, 0)
    lo.b.branch("jlt", exponent, BIAS - 34, on, some)  # less than half of 1 in the end
    lo.b.start(some)
    lo.b.branch("jge", exponent, BIAS + 63, large, fits)
    lo.b.start(fits)
    number = significand(lo, bits)  # times factor: upper * 2^32 + lower
    product = lo.b.alu("mul", lo.b.alu("and", number, (1 << 32) - 1), factor)
    upper = lo.b.alu("add", lo.b.alu("mul", lo.b.alu("rsh", number, 32), factor), lo.b.alu("rsh", product, 32))
    lower = lo.b.alu("and", product, (1 << 32) - 1)
    shift = lo.b.alu("sub", BIAS + FRACTION, exponent)  # to the right, by -11 to 86
    lo.b.branch("jsle", shift, 0, whole, part)
    lo.b.start(whole)
    room = lo.b.alu("add", shift, 31)
    lo.b.set(value, lo.b.alu("lsh", lo.b.alu("or", lo.b.alu("lsh", upper, 32), lower), lo.b.neg(shift)))
    lo.b.branch("jeq", lo.b.alu("rsh", upper, room), 0, on, large)
    lo.b.start(part)
    lo.b.branch("jle", shift, 32, low, high)
    lo.b.start(low)  # half is a bit of the lower word
    half = lo.b.alu("lsh", 1, lo.b.alu("sub", shift, 1))
    rounded = lo.b.alu("add", lower, half)
    upper_low = lo.b.alu("add", upper, lo.b.alu("rsh", rounded, 32))
    whole_part = lo.b.alu("lsh", upper_low, lo.b.alu("sub", 32, shift))
    below = lo.b.alu("rsh", lo.b.alu("and", rounded, (1 << 32) - 1), shift)
    lo.b.set(value, lo.b.alu("or", whole_part, below))
    lo.b.branch("jeq", lo.b.alu("rsh", upper_low, lo.b.alu("add", shift, 31)), 0, on, large)
    lo.b.start(high)
    beyond = lo.b.alu("sub", shift, 32)
    half = lo.b.alu("lsh", 1, lo.b.alu("sub", beyond, 1))
    lo.b.set(value, lo.b.alu("rsh", lo.b.alu("add", upper, half), beyond))
    lo.b.jump(on)
    lo.b.start(large)
    lo.b.set(value, lo.b.alu("sub", MAGNITUDE, sign))
    branch_on_nan(lo, bits, nan, on)
    lo.b.start(nan)
    lo.b.set(value, 0)
    lo.b.start(on)
    return lo.b.alu("sub", lo.b.alu("xor", value, sign), sign)


def negate(lo: Lower, bits: Operand) -> Operand:
    """``-x``: the other sign."""
    return to_signed((bits ^ _SIGN) & (1 << 64) - 1) if isinstance(bits, int) else lo.b.alu("xor", bits, _SIGN)


