"""The name of a task of asyncio's: a str, or the number of a task that nobody has named, which is ``Task-NUMBER``."""

from __future__ import annotations

from ....layouts import cpython as py
from ...ir import BasicBlock, BpfFunction, Reg
from .. import memory
from ..core import Lower
from ..state import Mem
from ..strings import words
from .python_memory import KEY, READ, Walk
from .python_tasks import TaskWalk, find_task

CAPACITY = 64                # of a name, with its NUL
_BASES, _TYPE_NAME = 8, b"_asyncio.Task\0"  # types that are looked at for that of tasks; its name
_NUMBER_TEXT = b"Task-"
_DIGITS = 20                 # of a number of 64 bits
# Where frames, keys and records of a walk would be: the name, and digits with zeros behind them.
_NAME = KEY - 128
_NUMBER = _NAME - 64


def write_name(lo: Lower, into: Mem) -> None:
    """Write the name of the current thread's task; "" if there is none, or it is not known, which is counted."""
    b = lo.b
    memory.clear_bytes(lo, into, CAPACITY)
    done, bad, other, typed, cut, whole = (b.block(n) for n in ("named", "unread", "other", "typed", "cut", "whole"))
    walk = find_task(lo, done)
    b.zero(walk.work, _NUMBER, 64 + CAPACITY + 16)
    _check_type(walk, typed, other, bad)
    b.start(typed)
    _write_text(walk, cut, whole, bad)
    b.start(cut)
    lo.count_error("pytask_cut")
    b.start(whole)
    memory.copy_bytes(lo, Mem(walk.work, _NAME), into, CAPACITY)
    b.jump(done)
    b.start(other)
    lo.count_error("pytask_kind")
    b.jump(done)
    b.start(bad)
    lo.count_error("pytask_read")
    b.jump(done)
    b.start(done)


def _check_type(walk: TaskWalk, typed: BasicBlock, other: BasicBlock, bad: BasicBlock) -> None:
    """To ``typed`` if the task is one of asyncio's own, or of a class made from it."""
    b = walk.b
    walk.put("candidate", walk.read_word(b.alu("add", walk.get("task"), py.TYPE), bad))
    walk.put("value", 0)
    words.run_loop(walk.lo, _BASES, [walk.image, walk.work], "pytask type",
                   lambda function: _type_function(walk.lo, function))
    read = b.block("read")
    b.branch("jeq", walk.get("unread"), 0, read, bad)
    b.start(read)
    b.branch("jne", walk.get("value"), 0, typed, other)


def _type_function(lo: Lower, function: BpfFunction) -> None:
    """callback(index, state): look at the type ``candidate``; 1 ends the search."""
    b, state = lo.b, function.params[1]
    walk = TaskWalk(lo, b.load(state, 0), b.load(state, 8))
    some, good, first, match, base, bad, end = (b.block(n) for n in (
        "some", "name", "first", "match", "base", "bad", "end"))
    type = walk.get("candidate")
    b.branch("jne", type, 0, some, end)
    b.start(some)
    name = walk.read_word(b.alu("add", type, py.TYPE_NAME), bad)
    b.zero(walk.work, READ, 16)
    walk.read(READ, len(_TYPE_NAME), name, good, bad)
    b.start(good)
    expected = _TYPE_NAME.ljust(16, b"\0")
    b.branch("jeq", b.load(walk.work, READ), int.from_bytes(expected[:8], "little", signed=True), first, base)
    b.start(first)
    b.branch("jeq", b.load(walk.work, READ + 8), int.from_bytes(expected[8:], "little", signed=True), match, base)
    b.start(match)
    walk.put("value", 1)
    b.jump(end)
    b.start(base)
    walk.put("candidate", walk.read_word(b.alu("add", type, py.TYPE_BASE), bad))
    b.exit(0)
    b.start(bad)
    walk.put("unread", 1)
    b.start(end)
    b.exit(1)


def _write_text(walk: TaskWalk, cut: BasicBlock, whole: BasicBlock, bad: BasicBlock) -> None:
    """The text of the object that is the task's name; to ``cut`` if there is more of it than fits."""
    b = walk.b
    good, head, number, text, is_text = (b.block(n) for n in ("name", "head", "number", "text", "is_text"))
    object = walk.read_word(b.alu("add", walk.get("task"), walk.word("task_name")), bad)
    b.branch("jne", object, 0, head, whole)  # a task that is being made
    b.start(head)
    type = walk.read_word(b.alu("add", object, py.TYPE), bad)
    flags = walk.read_word(b.alu("add", type, py.TYPE_FLAGS), bad)
    walk.read(READ, py.TEXT_STATE + 8, object, good, bad)
    b.start(good)
    b.branch("jset", flags, py.INT_SUBCLASS, number, is_text)
    b.start(number)
    _write_number(walk)
    b.jump(whole)
    b.start(is_text)
    b.branch("jset", flags, py.TEXT_SUBCLASS, text, bad)
    b.start(text)
    _write_characters(walk, object, cut, whole, bad)


def _write_number(walk: TaskWalk) -> None:
    """``Task-NUMBER`` of the int that was read: up to two digits of 30 bits, and four bits of the third."""
    b = walk.b
    tag, value = b.load(walk.work, READ + py.INT_TAG), b.function.reg("number")
    b.set(value, b.load(walk.work, READ + py.INT_DIGITS, 4))
    more, on = b.block("more"), b.block("on")
    b.branch("jge", tag, 2 << py.INT_SHIFT, more, on)
    b.start(more)
    b.set(value, b.alu("or", value, b.alu("lsh", b.load(walk.work, READ + py.INT_DIGITS + 4, 4), 30)))
    b.start(on)
    walk.put("value", value)
    walk.put("entries", 0)
    words.run_loop(walk.lo, _DIGITS, [walk.work], "pytask digit", lambda function: _digit_function(walk.lo, function))
    digits = b.alu("and", walk.get("entries"), 31)
    first = b.alu("add", walk.work, b.alu("sub", 32, digits))
    b.store(walk.work, _NAME, int.from_bytes(_NUMBER_TEXT, "little"))
    for at in (0, 8, 16):
        word = b.load(first, _NUMBER + at)
        for byte in range(8):
            b.store(walk.work, _NAME + len(_NUMBER_TEXT) + at + byte, b.alu("rsh", word, 8 * byte), 1)


def _digit_function(lo: Lower, function: BpfFunction) -> None:
    """callback(index, state): write the last digit of ``value`` before those that are there; 1 ends it."""
    b = lo.b
    work = b.load(function.params[1], 0)
    walk = TaskWalk(lo, work, work)
    value, count = walk.get("value"), b.alu("and", walk.get("entries"), 31)
    rest, last = b.alu("div", value, 10), b.block("last")
    digit = b.alu("add", b.alu("sub", value, b.alu("mul", rest, 10)), ord("0"))
    b.store(b.alu("add", work, b.alu("sub", 31, count)), _NUMBER, digit, 1)
    walk.put("entries", b.alu("add", count, 1))
    walk.put("value", rest)
    again = b.block("again")
    b.branch("jne", rest, 0, again, last)
    b.start(again)
    b.exit(0)
    b.start(last)
    b.exit(1)


# --- texts ----------------------------------------------------------------------------------------------------


def _write_characters(walk: TaskWalk, object: Reg, cut: BasicBlock, whole: BasicBlock, bad: BasicBlock) -> None:
    b = walk.b
    ascii, wide, good, read, long = (b.block(n) for n in ("ascii", "wide", "good", "read", "long"))
    length, state = b.load(walk.work, READ + py.TEXT_LENGTH), b.load(walk.work, READ + py.TEXT_STATE, 4)
    walk.put("length", length)
    compact = b.block("compact")
    b.branch("jset", state, py.COMPACT, compact, bad)
    b.start(compact)
    count = b.at_most(length, CAPACITY - 1)
    b.branch("jset", state, py.ASCII, ascii, wide)
    b.start(ascii)
    walk.read(_NAME, count, b.alu("add", object, walk.word("ascii_size")), good, bad)
    b.start(good)
    b.branch("jgt", length, CAPACITY - 1, cut, whole)
    b.start(wide)
    kind = b.alu("and", b.alu("rsh", state, py.KIND_SHIFT), py.KIND_BITS)
    walk.put("stride", kind)
    walk.put("value", 0)
    walk.put("entries", count)
    walk.read(READ, b.at_most(b.alu("mul", count, kind), 252), b.alu("add", object, walk.word("compact_size")),
              read, bad)
    b.start(read)
    words.run_loop(walk.lo, CAPACITY, [walk.work], "pytask character",
                   lambda function: _character_function(walk.lo, function))
    b.branch("jgt", walk.get("length"), CAPACITY - 1, cut, long)
    b.start(long)
    b.branch("jne", walk.get("unread"), 0, cut, whole)


def _character_function(lo: Lower, function: BpfFunction) -> None:
    """callback(index, state): write a character in UTF-8; 1 ends it, with ``unread`` if it does not fit."""
    b = lo.b
    work = b.load(function.params[1], 0)
    walk = TaskWalk(lo, work, work)
    inside, fits, full, end = (b.block(n) for n in ("inside", "fits", "full", "end"))
    index = b.extend(function.params[0], 32, False)
    b.branch("jlt", index, walk.get("entries"), inside, end)
    b.start(inside)
    kind = walk.get("stride")
    at = b.alu("and", b.alu("mul", index, kind), 255)
    character = b.load(b.alu("add", work, at), READ, 4)
    unused = b.alu("and", b.alu("sub", 32, b.alu("lsh", kind, 3)), 31)
    character = b.alu("rsh", b.alu("and", b.alu("lsh", character, unused), 0xFFFFFFFF), unused)
    code, size = _encode(walk, character)
    used = walk.get("value")
    b.branch("jle", b.alu("add", used, size), CAPACITY - 1, fits, full)
    b.start(fits)
    to = b.alu("add", work, b.alu("and", used, CAPACITY - 1))
    for byte in range(4):  # those beyond the character are 0
        b.store(to, _NAME + byte, b.alu("rsh", code, 8 * byte), 1)
    walk.put("value", b.alu("add", used, size))
    b.exit(0)
    b.start(full)
    walk.put("unread", 1)
    b.start(end)
    b.exit(1)


def _encode(walk: Walk, character: Reg) -> tuple[Reg, Reg]:
    """(its bytes in UTF-8, the first lowest; how many)."""
    b = walk.b
    code, size, on = b.function.reg("code"), b.function.reg("size"), b.block("encoded")

    def part(shift: int) -> Reg:
        return b.alu("or", b.alu("and", b.alu("rsh", character, shift), 0x3F), 0x80)

    for length, below, mark in ((1, 0x80, 0), (2, 0x800, 0xC0), (3, 0x10000, 0xE0), (4, 1 << 32, 0xF0)):
        short, longer = b.block("short"), b.block("longer")
        if length < 4:
            b.branch("jlt", character, below, short, longer)
            b.start(short)
        value: Reg = b.alu("or", b.alu("rsh", character, 6 * (length - 1)), mark)
        for byte in range(1, length):
            value = b.alu("or", value, b.alu("lsh", part(6 * (length - 1 - byte)), 8 * byte))
        b.set(code, value)
        b.set(size, length)
        b.jump(on)
        if length < 4:
            b.start(longer)
    b.start(on)
    return code, size
