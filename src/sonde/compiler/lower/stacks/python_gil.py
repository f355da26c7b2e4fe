"""The current thread's state in a Python interpreter, and the interpreter's lock."""

from __future__ import annotations

from ...ir import BasicBlock, Reg
from ..core import Lower
from .python import look_up_image
from .python_memory import READ, SIZE, Walk
from .python_threads import find_thread


def find_state(lo: Lower, none: BasicBlock) -> Walk:
    """Find the current thread's state, the word ``mine``, and its interpreter, ``interp``; to ``none`` if it has none,
    or it is not known, which is counted."""
    b = lo.b
    image, start = look_up_image(lo, none)
    walk = Walk(lo, image, b.address(b.function.slot(SIZE, "walk", scratch=True)))
    b.zero(walk.work, 0, READ)
    find_thread(walk, start)
    bad, alive, some = (b.block(n) for n in ("unread", "alive", "thread"))
    b.branch("jeq", walk.get("failed"), 0, alive, bad)
    b.start(bad)
    _count_unread(lo, none)
    b.start(alive)
    b.branch("jne", walk.get("mine"), 0, some, none)
    b.start(some)
    return walk


def find_lock(lo: Lower, none: BasicBlock) -> Reg:
    """The address of the lock of the current thread's interpreter; to ``none`` as above."""
    b = lo.b
    walk = find_state(lo, none)
    lock = b.function.reg("lock")
    own, good, bad, on = (b.block(n) for n in ("own", "read", "unread", "lock"))
    b.set(lock, walk.word("runtime_gil"))
    b.branch("jeq", lock, 0, own, on)
    b.start(own)
    walk.read(READ, 8, b.alu("add", walk.get("interp"), walk.word("gil")), good, bad)
    b.start(bad)
    _count_unread(lo, none)
    b.start(good)
    b.set(lock, b.load(walk.work, READ))
    b.start(on)
    return lock


def _count_unread(lo: Lower, none: BasicBlock) -> None:
    lo.count_error("pythread_read")
    lo.b.jump(none)
