"""The current thread among a Python interpreter's threads, and its innermost frame."""

from __future__ import annotations

from ....layouts import cpython as py
from ....types import UINT64
from ... import helpers as h
from ...ir import BasicBlock, BpfFunction, MapFd, Operand, Reg
from .. import memory
from ..core import Lower
from ..probes.contexts import arch_of
from ..state import Mem
from ..strings import words
from ..tasks import current_task, task_memory
from .python_memory import AT, READ, Walk

THREADS = 4096     # threads and interpreters that are looked at, to find the current one
RESTARTS = 8       # of a search that came to a thread which has ended meanwhile


def find_thread(walk: Walk, start: Operand) -> None:
    """``frame``: the innermost frame of the current thread's, 0 if it runs no Python; ``number``: its interpreter's."""
    lo, b = walk.lo, walk.b
    tls = task_memory(lo, current_task(lo), "thread").at(_thread_pointer(lo))
    walk.put("self", memory.read_scalar(lo, tls, UINT64))
    search, good, bad, new, known, on = (
        b.block(n) for n in ("search", "interpreters", "unread", "new", "found", "searched"))
    with lo.scope():
        key = lo.temp(py.THREAD_KEY.size, "thread")
        b.store(key.base, key.off, walk.get("self"))
        b.store(key.base, key.off + 8, start)
        _recall_thread(walk, key, known, search)
        b.start(search)
        walk.put("found", 0)
        walk.put("mine", 0)
        walk.put("restarts", 0)
        walk.read(READ, 8, walk.word("interpreters"), good, bad)
        b.start(good)
        walk.put("interpreter", b.load(walk.work, READ))
        words.run_loop(lo, THREADS, [walk.image, walk.work], "pystack thread", lambda f: _thread_function(lo, f))
        b.branch("jne", walk.get("mine"), 0, new, known)
        b.start(new)
        assert AT["interp"] == AT["mine"] + 8  # both are stored: THREAD
        b.call(h.MAP_UPDATE, [MapFd(lo.unit.python_threads()), lo.operand_address(key),
                              b.alu("add", walk.work, AT["mine"]), h.UPDATE_ANY], "map_update_elem")
    b.start(known)
    _take_c_frame(walk, on, bad)
    b.start(bad)
    walk.put("failed", 1)
    b.start(on)


def _recall_thread(walk: Walk, key: Mem, known_thread: BasicBlock, search: BasicBlock) -> None:
    """Use the thread that was found the last time if it is still bound to this thread of the system's and, in Python
    3.11, runs in the only interpreter. Where it has ended, its memory has begun to have other contents, and another
    thread may have its thread of the system's: that is no thread of its interpreter's."""
    lo, b = walk.lo, walk.b
    there, good, lives, own, marked, oldest, runs, first, alone = (
        b.block(n) for n in ("there", "thread", "lives", "own", "marked", "oldest", "runs", "first", "alone"))
    known = b.call(h.MAP_LOOKUP, [MapFd(lo.unit.python_threads()), lo.operand_address(key)], "map_lookup_elem")
    b.branch("jne", known, 0, there, search)
    b.start(there)
    thread, interpreter = b.load(known, 0), b.load(known, 8)
    walk.read(READ, py.THREAD_READ, thread, good, search)
    b.start(good)
    b.branch("jeq", walk.pick(READ, walk.word("thread_interp")), interpreter, lives, search)
    b.start(lives)
    b.branch("jeq", walk.pick(READ, walk.word("thread_id")), walk.get("self"), own, search)
    b.start(own)
    frame, status = _note_thread(walk, thread), walk.word("thread_status")
    b.branch("jne", status, 0, marked, oldest)
    b.start(marked)
    b.branch("jset", walk.pick(READ, status, 4), py.BOUND_GILSTATE, known_thread, search)
    b.start(oldest)
    b.branch("jne", frame, b.alu("add", thread, walk.word("root_cframe")), runs, search)
    b.start(runs)
    walk.read(READ, 8, walk.word("interpreters"), first, search)
    b.start(first)
    walk.read(READ, 8, b.alu("add", b.load(walk.work, READ), walk.word("interp_next")), alone, search)
    b.start(alone)
    b.branch("jeq", b.load(walk.work, READ), 0, known_thread, search)


def _note_thread(walk: Walk, thread: Reg) -> Reg:
    """That it is this one, for all that is known so far; its innermost frame, or C frame."""
    frame = walk.pick(READ, walk.word("thread_frame"))
    walk.put("found", frame)
    walk.put("mine", thread)
    walk.put("interp", walk.pick(READ, walk.word("thread_interp")))
    return frame


def _thread_pointer(lo: Lower) -> int:
    """Where ``task_struct.thread`` has what threads in user space are told by."""
    thread = lo.world.find_struct("thread_struct")
    field = thread.field(arch_of(lo).thread_pointer) if thread is not None else None
    assert field is not None
    return field.offset


def _thread_function(lo: Lower, function: BpfFunction) -> None:
    """callback(index, state): look at a thread; 1 ends the search."""
    b, state = lo.b, function.params[1]
    walk = Walk(lo, b.load(state, 0), b.load(state, 8))
    look, following, end, again = (b.block(n) for n in ("look", "following", "end", "again"))
    thread = walk.get("thread")
    b.branch("jne", thread, 0, look, following)
    b.start(look)
    good, bad, own, listed = (b.block(n) for n in ("thread", "unread", "own", "listed"))
    walk.read(READ, py.THREAD_READ, thread, good, bad)
    b.start(bad)
    _restart_search(walk, end, again)
    b.start(good)
    b.branch("jeq", walk.pick(READ, walk.word("thread_interp")), walk.get("current"), listed, bad)
    b.start(listed)
    walk.put("thread", walk.pick(READ, walk.word("thread_next")))
    b.branch("jeq", walk.pick(READ, walk.word("thread_id")), walk.get("self"), own, again)
    b.start(own)
    _judge_thread(walk, thread, end, again)
    b.start(following)
    more = b.block("more")
    interpreter = walk.get("interpreter")
    b.branch("jne", interpreter, 0, more, end)
    b.start(more)
    good = b.block("read")
    walk.read(READ, py.INTERP_READ, b.alu("add", interpreter, walk.word("interp_next")), good, bad)
    b.start(good)
    walk.put("current", interpreter)
    walk.put("interpreter", b.load(walk.work, READ))
    walk.put("thread", walk.pick(READ, walk.word("interp_threads")))
    b.start(again)
    b.exit(0)
    b.start(end)
    b.exit(1)


def _restart_search(walk: Walk, end: BasicBlock, again: BasicBlock) -> None:
    """Begin again with the first interpreter: what is not there, or no thread of this interpreter's, was the memory of
    a thread that has ended since the one before it was read."""
    b = walk.b
    first, good, bad = b.block("restart"), b.block("first"), b.block("failed")
    b.branch("jlt", walk.get("restarts"), RESTARTS, first, bad)
    b.start(first)
    walk.put("restarts", b.alu("add", walk.get("restarts"), 1))
    walk.read(READ, 8, walk.word("interpreters"), good, bad)
    b.start(bad)
    walk.put("failed", 1)
    b.jump(end)
    b.start(good)
    walk.put("interpreter", b.load(walk.work, READ))
    for name in ("thread", "found", "mine"):
        walk.put(name, 0)
    b.jump(again)


def _judge_thread(walk: Walk, thread: Reg, end: BasicBlock, again: BasicBlock) -> None:
    """Of the threads of several interpreters that this thread of the system's has been, the one that ran last. Python
    3.12 marks it. Before, its C frame lies deepest on the C stack, which all of them share."""
    b = walk.b
    marked, oldest, mine, deeper, first, runs = (
        b.block(n) for n in ("marked", "oldest", "mine", "deeper", "first", "runs"))
    frame, status = walk.pick(READ, walk.word("thread_frame")), walk.word("thread_status")
    b.branch("jne", status, 0, marked, oldest)
    b.start(marked)
    b.branch("jset", walk.pick(READ, status, 4), py.BOUND_GILSTATE, mine, again)
    b.start(mine)
    _note_thread(walk, thread)
    walk.put("thread", 0)
    b.jump(end)
    b.start(oldest)
    b.branch("jne", frame, b.alu("add", thread, walk.word("root_cframe")), runs, again)
    b.start(runs)
    known = walk.get("found")
    b.branch("jne", known, 0, deeper, first)
    b.start(deeper)
    b.branch("jlt", frame, known, first, again)
    b.start(first)
    _note_thread(walk, thread)
    b.jump(again)


def _take_c_frame(walk: Walk, done: BasicBlock, bad: BasicBlock) -> None:
    """Take ``frame`` from the result of the search: the frame itself, or that of the C frame. An endless list is a
    failure."""
    b = walk.b
    there, plain, through, numbered, good = (b.block(n) for n in ("there", "plain", "through", "numbered", "good"))
    b.branch("jeq", walk.get("thread"), 0, there, bad)
    b.start(there)
    current, indirect = walk.get("found"), walk.word("cframe_frame")
    walk.put("frame", current)
    b.branch("jeq", current, 0, done, plain)
    b.start(plain)
    walk.read(READ, py.INTERP_READ, b.alu("add", walk.get("interp"), walk.word("interp_next")), numbered, bad)
    b.start(numbered)
    walk.put("number", walk.pick(READ, walk.word("interp_id")))
    b.branch("jne", indirect, 0, through, done)
    b.start(through)
    walk.read(READ, 8, b.alu("sub", b.alu("add", current, indirect), 1), good, bad)
    b.start(good)
    walk.put("frame", b.load(walk.work, READ))
    b.jump(done)
