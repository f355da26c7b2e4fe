"""Words of 64 bits: what programs and the kernel compute with, as Python integers."""

from __future__ import annotations

MASK = (1 << 64) - 1

# The struct and array code of an integer by (bytes, signed).
INT_CODES = {(1, True): "b", (1, False): "B", (2, True): "h", (2, False): "H", (4, True): "i", (4, False): "I",
             (8, True): "q", (8, False): "Q"}


def to_signed(value: int, bits: int = 64) -> int:
    """The lowest ``bits`` bits of ``value``, read as a signed number."""
    half = 1 << bits - 1
    return (value & (1 << bits) - 1 ^ half) - half


def read_word(value: int, signed: bool) -> int:
    """A word, perhaps of a sum that exceeds it, as a signed or unsigned number."""
    return to_signed(value) if signed else value & MASK


def divide_toward_zero(dividend: int, divisor: int) -> int:
    """The quotient as C has it; ZeroDivisionError as in Python."""
    return dividend // divisor if (dividend < 0) == (divisor < 0) else -(-dividend // divisor)
