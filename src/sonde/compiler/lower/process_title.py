"""The title of the current process, as ps shows it: its arguments, or what it has written in their place."""

from __future__ import annotations

from ...types import USER
from .. import helpers as h
from ..ir import Operand
from . import memory, tasks
from .core import Lower
from .state import Mem

CAPACITY = 128  # with its NUL
_LOW, _HIGH = 0x7F7F7F7F7F7F7F7F, ~0x7F7F7F7F7F7F7F7F  # of each byte the seven lower bits, the highest one


def write_title(lo: Lower, into: Mem) -> None:
    """Write it, arguments separated by blanks; "" of a task without memory of its own, or where it cannot be read.

    If the last byte of the arguments' memory is no NUL, the program has written a text there which may go on behind it
    (get_mm_proctitle() in fs/proc/base.c).
    """
    b, task, struct = lo.b, tasks.current_task(lo), tasks.task_struct(lo)
    start, end = (b.mov(tasks.read_members(lo, task, struct, "mm", name)) for name in ("arg_start", "arg_end"))
    there, given, written, done = (b.block(name) for name in ("there", "given", "written", "done"))
    memory.clear_bytes(lo, into, CAPACITY)
    b.branch("jgt", end, start, there, done)
    b.start(there)
    with lo.scope():
        last = lo.temp(8)
        memory.clear_bytes(lo, last, 8)
        memory.read_memory(lo, USER, last, 1, b.alu("sub", end, 1))
        b.branch("jeq", b.load(last.base, last.off), 0, given, written)
    b.start(written)
    b.call(h.READ_USER_STR, [lo.operand_address(into), CAPACITY, start], "probe_read_user_str")
    b.jump(done)
    b.start(given)
    memory.read_memory(lo, USER, into, b.at_most(b.alu("sub", end, start), CAPACITY - 1), start)
    _separate_arguments(lo, into)
    b.jump(done)
    b.start(done)


def _separate_arguments(lo: Lower, into: Mem) -> None:
    """Make each NUL before another byte a blank, eight bytes at a time, the last ones first."""
    b, little = lo.b, lo.byte_order == "little"
    down = "rsh" if little else "lsh"  # from a byte to the one before it
    later: Operand = 0                 # all of _HIGH if there is a byte behind this word
    for at in reversed(range(into.off, into.off + CAPACITY, 8)):
        word = b.load(into.base, at)
        used = b.alu("and", b.alu("or", b.alu("add", b.alu("and", word, _LOW), _LOW), word), _HIGH)
        reach = used  # of each byte: is it or one behind it used?
        for bits in (8, 16, 32):
            reach = b.alu("or", reach, b.alu(down, reach, bits))
        before = b.alu("or", b.alu(down, reach, 8), later)
        blanks = b.alu("and", b.alu("and", before, b.alu("xor", used, -1)), _HIGH)
        b.store(into.base, at, b.alu("or", word, b.alu("rsh", blanks, 2)))
        first = b.alu("and", b.alu("rsh", reach, 7 if little else 63), 1)
        later = b.alu("or", later, b.alu("mul", first, _HIGH))  # for a mask of 0 or -1 the verifier goes two ways
