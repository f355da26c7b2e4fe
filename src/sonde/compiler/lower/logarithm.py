"""The binary logarithm of a number, by a table."""

from __future__ import annotations

from ..ir import MapAddr, Operand, Reg
from .core import Lower


def compute_log2(lo: Lower, value: Operand) -> Reg:
    """floor(log2(value)) of a value > 0: find the highest byte that is not zero (a chain of comparisons that the
    CPU predicts well, as latencies and sizes are of one magnitude), then a table of 256 bytes."""
    result = lo.b.function.reg("log2")
    byte = lo.b.function.reg("byte")
    lo.b.set(byte, value)
    lo.b.set(result, 0)
    have = lo.b.block("byte")
    for shift in range(8, 64, 8):
        more = lo.b.block("more")
        lo.b.branch("jle", byte, 0xFF, have, more)
        lo.b.start(more)
        lo.b.set(byte, lo.b.alu("rsh", value, shift))
        lo.b.set(result, shift)
    lo.b.start(have)
    table = lo.b.address(MapAddr(lo.unit.log2_table()))
    index = lo.b.alu("and", byte, 0xFF)
    return lo.b.alu("add", lo.b.load(lo.b.alu("add", table, index), 0, 1), result)
