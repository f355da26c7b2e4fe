"""Python's stacks: the frames of the interpreter in whose code the current thread is, found in its memory.

What the interpreter of the running program looks like says an element of ``__pyimages`` (:mod:`sonde.cpython`), which
user space fills in. A stack is a row of *frame ids*: hashes of which code object it is and how far it has come in it.
They are stored as the addresses of other stacks are. When a stack is new, its frames are noted in ``__pyframes``, and
the texts of code objects that were not yet seen (file, name, table of lines) in ``__pytexts``: at that moment they are
in use by this very thread, so that they are what they were when the stack was taken.
"""

from __future__ import annotations

from ... import cpython as py
from ...types import UINT64, Stack
from .. import helpers as h
from ..ir import Block, Function, MapFd, Operand, Reg
from ..unit import STACK_FRAMES
from . import memory, stacks, words
from .core import Lower
from .state import Mem
from .tasks import current_task, process_id, task_memory

THREADS = 4096     # threads and interpreters that are looked at, to find the current one
_HASHED = 128      # bytes of a text that tell it from another; a multiple of 8
_WINDOW = 1024     # bytes that are read at once where frames lie: those of callers come before those that they called
SHIMS = 128        # frames of the C stack between those of functions

# The working memory of a walk; words, then what has been read, then a row for each frame.
_WORDS = ("thread", "interpreter", "found", "self", "salt", "frame", "hash", "count", "failed", "deep",
          "limit", "source", "left", "window", "extent", "code", "identity",
          "traceable", "mine", "interp", "number")
_AT = {name: 8 * at for at, name in enumerate(_WORDS)}
_READ = 8 * len(_WORDS)                 # room for a thread, a code object or a part of a text
_FRAMES = _READ + 256                   # room for frames
_KEY = _FRAMES + _WINDOW + 128          # of a part
_RECORD = _KEY + 16                     # of a frame
_ROWS = _RECORD + py.FRAME_RECORD.size
_ROW_WORDS = ("identity", "code", "place")
_ROW = {name: _ROWS + 8 * STACK_FRAMES * at for at, name in enumerate(_ROW_WORDS)}
_SIZE = _ROWS + 8 * STACK_FRAMES * len(_ROW_WORDS)


class _Walk:
    """What the functions of a walk have in common: the image's words, and the working memory."""

    def __init__(self, lo: Lower, image: Reg, work: Reg) -> None:
        self.lo, self.b, self.image, self.work = lo, lo.b, image, work

    def get(self, name: str) -> Reg:
        return self.b.load(self.work, _AT[name])

    def put(self, name: str, value: Operand) -> None:
        self.b.store(self.work, _AT[name], value)

    def word(self, name: str) -> Reg:
        """A word of the image."""
        return self.b.load(self.image, py.OFFSET[name])

    def read(self, room: int, size: Operand, address: Operand, good: Block, bad: Block) -> None:
        """Read the process's memory into the working memory."""
        result = self.b.call(h.READ_USER, [self.b.alu("add", self.work, room), size, address], "probe_read_user")
        self.b.branch("jsge", result, 0, good, bad)

    def pick(self, room: int, offset: Operand, size: int = 8) -> Reg:
        """A member of what was read, at an offset that the image has."""
        at = self.b.alu("and", offset, 256 - size)
        return self.b.load(self.b.alu("add", self.work, at), room, size)

    def row(self, name: str, index: Operand) -> Reg:
        """The address of a frame's element in one of the rows."""
        return self.b.alu("add", self.b.alu("add", self.work, self.b.alu("lsh", index, 3)), _ROW[name])


def write_stack(lo: Lower, type: Stack, into: Mem) -> None:
    """types.Stack into memory: id of the frames, tgid, number of frames."""
    b = lo.b
    b.store(into.base, into.off, 0)
    b.store(into.base, into.off + 8, 0)
    done = b.block("stacked")
    with lo.scope():
        frames = lo.temp(8 * STACK_FRAMES, "frames")
        key = lo.temp(py.IMAGE_KEY.size, "image")
        start = _write_image_key(lo, key, done)
        image = b.call(h.MAP_LOOKUP, [MapFd(lo.unit.python_images()), lo.operand_address(key)], "map_lookup_elem")
        known, unknown = b.block("python"), b.block("unknown")
        b.branch("jne", image, 0, known, unknown)
        b.start(unknown)
        _count_unknown(lo, key)
        b.jump(done)
        b.start(known)
        slot = b.function.slot(_SIZE, "walk", scratch=True)
        walk = _Walk(lo, image, b.address(slot))
        b.zero(walk.work, 0, 8 * len(_WORDS))
        _find_thread(walk, start)
        _walk_frames(walk, start, frames, type.limit)
        _store_stack(walk, frames, type, into)
        b.jump(done)
    b.start(done)


def _write_image_key(lo: Lower, key: Mem, none: Block) -> Operand:
    """What tells the program that runs from all others; to ``none`` in a kernel thread."""
    task, user = current_task(lo), lo.b.block("user")
    mm = memory.read_scalar(lo, task_memory(lo, task, "mm"), UINT64)
    lo.b.branch("jne", mm, 0, user, none)
    lo.b.start(user)
    for at, name in enumerate(("start_code", "end_code", "start_stack")):
        word = memory.read_scalar(lo, task_memory(lo, task, "mm", name), UINT64)
        lo.b.store(key.base, key.off + 8 * at, word)
    return word


def _count_unknown(lo: Lower, key: Mem) -> None:
    """One more stack that was wanted of a program of which nothing is known (yet)."""
    b = lo.b
    name = lo.unit.python_misses()
    found = b.call(h.MAP_LOOKUP, [MapFd(name), lo.operand_address(key)], "map_lookup_elem")
    first, more, counted = b.block("first", cold=True), b.block("more"), b.block("counted")
    b.branch("jeq", found, 0, first, more)
    b.start(first)
    with lo.scope():
        one = lo.temp(py.MISS.size)
        b.store(one.base, one.off, 1)
        b.store(one.base, one.off + 8, process_id(lo))
        b.call(h.MAP_UPDATE, [MapFd(name), lo.operand_address(key), lo.operand_address(one), h.UPDATE_ANY],
               "map_update_elem")
    b.jump(counted)
    b.start(more)
    b.atomic_add(found, 0, 1)
    b.start(counted)


# --- the thread -----------------------------------------------------------------------------------------------


def _find_thread(walk: _Walk, start: Operand) -> None:
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
        walk.read(_READ, 8, walk.word("interpreters"), good, bad)
        b.start(good)
        walk.put("interpreter", b.load(walk.work, _READ))
        words.run_loop(lo, THREADS, [walk.image, walk.work], "pystack thread", lambda f: _thread_function(lo, f))
        b.branch("jne", walk.get("mine"), 0, new, known)
        b.start(new)
        b.call(h.MAP_UPDATE, [MapFd(lo.unit.python_threads()), lo.operand_address(key),
                              b.alu("add", walk.work, _AT["mine"]), h.UPDATE_ANY], "map_update_elem")
    b.start(known)
    _take_c_frame(walk, on, bad)
    b.start(bad)
    walk.put("failed", 1)
    b.start(on)


def _recall_thread(walk: _Walk, key: Mem, found: Block, search: Block) -> None:
    """The thread that was found the last time, if it is what it was then: bound to this thread of the system's, and, in
    Python 3.11, running in the only interpreter."""
    lo, b = walk.lo, walk.b
    there, good, own, marked, oldest, runs, first, alone = (
        b.block(n) for n in ("there", "thread", "own", "marked", "oldest", "runs", "first", "alone"))
    known = b.call(h.MAP_LOOKUP, [MapFd(lo.unit.python_threads()), lo.operand_address(key)], "map_lookup_elem")
    b.branch("jne", known, 0, there, search)
    b.start(there)
    thread = b.load(known, 0)
    walk.read(_READ, py.THREAD_READ, thread, good, search)
    b.start(good)
    b.branch("jeq", walk.pick(_READ, walk.word("thread_id")), walk.get("self"), own, search)
    b.start(own)
    frame, status = _note_thread(walk, thread), walk.word("thread_status")
    b.branch("jne", status, 0, marked, oldest)
    b.start(marked)
    b.branch("jset", walk.pick(_READ, status, 4), py.BOUND_GILSTATE, found, search)
    b.start(oldest)
    b.branch("jne", frame, b.alu("add", thread, walk.word("root_cframe")), runs, search)
    b.start(runs)
    walk.read(_READ, 8, walk.word("interpreters"), first, search)
    b.start(first)
    walk.read(_READ, 8, b.alu("add", b.load(walk.work, _READ), walk.word("interp_next")), alone, search)
    b.start(alone)
    b.branch("jeq", b.load(walk.work, _READ), 0, found, search)


def _note_thread(walk: _Walk, thread: Reg) -> Reg:
    """That it is this one, for all that is known so far; its innermost frame, or C frame."""
    frame = walk.pick(_READ, walk.word("thread_frame"))
    walk.put("found", frame)
    walk.put("mine", thread)
    walk.put("interp", walk.pick(_READ, walk.word("thread_interp")))
    return frame


def _thread_pointer(lo: Lower) -> int:
    """Where a task's registers have the user's FS base."""
    thread = lo.world.find_struct("thread_struct")
    field = thread.field("fsbase") if thread is not None else None
    assert field is not None
    return field.offset


def _thread_function(lo: Lower, function: Function) -> None:
    """callback(index, state): look at a thread; 1 ends the search."""
    b, state = lo.b, function.params[1]
    walk = _Walk(lo, b.load(state, 0), b.load(state, 8))
    look, following, end, again = (b.block(n) for n in ("look", "following", "end", "again"))
    thread = walk.get("thread")
    b.branch("jne", thread, 0, look, following)
    b.start(look)
    good, bad, own = b.block("thread"), b.block("unread"), b.block("own")
    walk.read(_READ, py.THREAD_READ, thread, good, bad)
    b.start(bad)
    walk.put("failed", 1)
    b.jump(end)
    b.start(good)
    walk.put("thread", walk.pick(_READ, walk.word("thread_next")))
    b.branch("jeq", walk.pick(_READ, walk.word("thread_id")), walk.get("self"), own, again)
    b.start(own)
    _judge_thread(walk, thread, end, again)
    b.start(following)
    more = b.block("more")
    interpreter = walk.get("interpreter")
    b.branch("jne", interpreter, 0, more, end)
    b.start(more)
    good = b.block("read")
    walk.read(_READ, py.INTERP_READ, b.alu("add", interpreter, walk.word("interp_next")), good, bad)
    b.start(good)
    walk.put("interpreter", b.load(walk.work, _READ))
    walk.put("thread", walk.pick(_READ, walk.word("interp_threads")))
    b.start(again)
    b.exit(0)
    b.start(end)
    b.exit(1)


def _judge_thread(walk: _Walk, thread: Reg, end: Block, again: Block) -> None:
    """Of the threads of several interpreters that this thread of the system's has been, the one that ran last. Python
    3.12 marks it. Before, its C frame lies deepest on the C stack, which all of them share."""
    b = walk.b
    marked, oldest, mine, deeper, first, runs = (
        b.block(n) for n in ("marked", "oldest", "mine", "deeper", "first", "runs"))
    frame, status = walk.pick(_READ, walk.word("thread_frame")), walk.word("thread_status")
    b.branch("jne", status, 0, marked, oldest)
    b.start(marked)
    b.branch("jset", walk.pick(_READ, status, 4), py.BOUND_GILSTATE, mine, again)
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


def _take_c_frame(walk: _Walk, done: Block, bad: Block) -> None:
    """``frame`` from what was found: it, or what the C frame has. A list without end is a failure."""
    b = walk.b
    there, plain, through, numbered, good = (b.block(n) for n in ("there", "plain", "through", "numbered", "good"))
    b.branch("jeq", walk.get("thread"), 0, there, bad)
    b.start(there)
    found, indirect = walk.get("found"), walk.word("cframe_frame")
    walk.put("frame", found)
    b.branch("jeq", found, 0, done, plain)
    b.start(plain)
    walk.read(_READ, py.INTERP_READ, b.alu("add", walk.get("interp"), walk.word("interp_next")), numbered, bad)
    b.start(numbered)
    walk.put("number", walk.pick(_READ, walk.word("interp_id")))
    b.branch("jne", indirect, 0, through, done)
    b.start(through)
    walk.read(_READ, 8, b.alu("sub", b.alu("add", found, indirect), 1), good, bad)
    b.start(good)
    walk.put("frame", b.load(walk.work, _READ))
    b.jump(done)


# --- the frames -----------------------------------------------------------------------------------------------


def _walk_frames(walk: _Walk, salt: Operand, frames: Mem, limit: int) -> None:
    """The rows and ``frames``: from the innermost frame to the outermost."""
    lo, b = walk.lo, walk.b
    walk.put("salt", _mix(walk, _mix(walk, process_id(lo), salt), walk.get("number")))
    walk.put("limit", limit)
    words.run_loop(lo, limit + SHIMS, [walk.image, walk.work, b.address(frames.base, frames.off)], "pystack frame",
                   lambda f: _frame_function(lo, f))
    for word, kind in (("failed", "pystack_read"), ("deep", "pystack_deep")):
        if word == "deep" and limit < STACK_FRAMES:
            continue
        failed, on = b.block("failed", cold=True), b.block("on")
        b.branch("jne", walk.get(word), 0, failed, on)
        b.start(failed)
        lo.count_error(kind)
        b.start(on)


def _frame_function(lo: Lower, function: Function) -> None:
    """callback(index, state): read a frame; 1 ends the walk."""
    b, state = lo.b, function.params[1]
    walk = _Walk(lo, b.load(state, 0), b.load(state, 8))
    here, bad, end, ours, again = (b.block(n) for n in ("here", "unread", "end", "ours", "again"))
    frame = walk.get("frame")
    b.branch("jne", frame, 0, here, end)
    b.start(here)
    room = _read_frame(walk, frame, bad)

    def member(word: str, size: int = 8) -> Reg:
        at = b.alu("and", walk.word(word), 128 - size)
        return b.load(b.alu("add", room, at), 0, size)

    owner = member("frame_owner", 1)
    walk.put("frame", member("frame_previous"))
    b.branch("jlt", owner, walk.word("shim_owner"), ours, again)
    b.start(ours)
    count, wanted, deep = walk.get("count"), b.block("wanted"), b.block("deep")
    b.branch("jlt", count, walk.get("limit"), wanted, deep)
    b.start(wanted)
    inside = b.block("inside")
    b.branch("jlt", count, STACK_FRAMES, inside, deep)
    b.start(inside)
    code = b.alu("and", member("frame_code"), -8)
    identity = _identify_code(walk, code, bad)
    start = b.alu("add", code, walk.word("code_bytecode"))
    place = b.alu("sub", member("frame_instruction"), start)
    begun, early = b.block("begun"), b.block("early")
    b.branch("jsge", place, walk.get("traceable"), begun, early)
    b.start(early)
    b.branch("jeq", owner, py.OF_GENERATOR, begun, again)
    b.start(begun)
    for name, value in (("identity", identity), ("code", code), ("place", place)):
        b.store(walk.row(name, count), 0, value)
    id = _mix(walk, identity, place)
    id = b.alu("rsh", b.alu("lsh", id, 2), 2)
    id = b.alu("or", id, b.alu("lsh", b.mov(py.FRAME_MARK), 62))
    b.store(b.alu("add", b.load(state, 16), b.alu("lsh", count, 3)), 0, id)
    walk.put("hash", _mix(walk, walk.get("hash"), id))
    walk.put("count", b.alu("add", count, 1))
    b.start(again)
    b.exit(0)
    b.start(bad)
    walk.put("failed", 1)
    b.jump(end)
    b.start(deep)
    walk.put("deep", 1)
    b.start(end)
    b.exit(1)


def _read_frame(walk: _Walk, frame: Reg, bad: Block) -> Reg:
    """Where a frame has been read to, with as much of what lies before it in its page as there is room for."""
    b = walk.b
    near, inside, anew, good, on = (b.block(n) for n in ("near", "inside", "anew", "good", "on"))
    offset = b.function.reg("offset")
    b.set(offset, b.alu("sub", frame, walk.get("window")))
    b.branch("jle", offset, _WINDOW - py.FRAME_READ, near, anew)
    b.start(near)
    b.branch("jlt", offset, walk.get("extent"), inside, anew)
    b.start(anew)
    before = _at_most(walk, b.alu("and", frame, 4095), _WINDOW - py.FRAME_READ)
    start = b.alu("sub", frame, before)
    walk.read(_FRAMES, b.alu("add", before, py.FRAME_READ), start, good, bad)
    b.start(good)
    walk.put("window", start)
    walk.put("extent", b.alu("add", before, 1))
    b.set(offset, before)
    b.jump(on)
    b.start(inside)
    b.start(on)
    return b.alu("add", b.alu("add", walk.work, offset), _FRAMES)


def _identify_code(walk: _Walk, code: Reg, bad: Block) -> Reg:
    """64 bits that another code object at this address would not have; to ``bad`` if there is none."""
    b = walk.b
    identity, new, known = b.function.reg("identity"), b.block("new"), b.block("known")
    b.set(identity, walk.get("identity"))
    b.branch("jne", code, walk.get("code"), new, known)
    b.start(new)
    b.set(identity, _compute_identity(walk, code, bad))
    walk.put("code", code)
    walk.put("identity", identity)
    b.start(known)
    return identity


def _compute_identity(walk: _Walk, code: Reg, bad: Block) -> Reg:
    b = walk.b
    good, typed, named, versioned, on = (b.block(n) for n in ("code", "typed", "named", "versioned", "on"))
    walk.read(_READ, py.CODE_READ, code, good, bad)
    b.start(good)
    b.branch("jeq", b.load(walk.work, _READ + 8), walk.word("code_type"), typed, bad)
    b.start(typed)
    walk.put("traceable", b.alu("lsh", walk.pick(_READ, walk.word("code_traceable"), 4), 1))
    value, found = _mix(walk, walk.get("salt"), code), b.function.reg("version")
    offset = walk.word("code_version")
    b.branch("jne", offset, 0, versioned, named)
    b.start(versioned)
    b.set(found, walk.pick(_READ, offset, 4))
    b.branch("jne", found, 0, on, named)
    b.start(named)
    b.set(found, _hash_texts(walk, bad))
    b.start(on)
    return _mix(walk, value, found)


def _hash_texts(walk: _Walk, bad: Block) -> Reg:
    """Before Python 3.12, and beyond 2^32 of them, code objects have no number: 64 bits of the first line and of how
    name and table of lines begin, which may lie where those of one that is gone did."""
    b = walk.b
    name, table = (walk.pick(_READ, walk.word(word)) for word in ("code_name", "code_table"))
    value = b.function.reg("texts")
    b.set(value, _mix(walk, walk.pick(_READ, walk.word("code_file")), walk.pick(_READ, walk.word("code_line"), 4)))
    _hash_object(walk, name, value, py.VERSIONS[3, 11]["ascii_size"], py.TEXT_LENGTH, bad)
    _hash_object(walk, table, value, py.BYTES_START, py.BYTES_LENGTH, bad)
    return value


def _hash_object(walk: _Walk, address: Reg, value: Reg, head: int, length: int, bad: Block) -> None:
    """Mix the length and the first bytes of an object into ``value``. What lies in another page is left out: it need
    not be the object's, and there."""
    b = walk.b
    good, part, some, done = (b.block(n) for n in ("good", "part", "some", "done"))
    rest = b.alu("sub", 4096, b.alu("and", address, 4095))
    walk.read(_READ, _at_most(walk, rest, _HASHED), address, good, bad)
    b.start(good)
    size = b.load(walk.work, _READ + length)
    b.set(value, _mix(walk, value, size))
    end = b.function.reg("end")
    b.set(end, _at_most(walk, rest, b.alu("add", head, size)))
    word = b.function.reg("word")
    for at in range(head, _HASHED, 8):
        full = b.block("full")
        b.set(word, b.load(walk.work, _READ + at))
        b.branch("jge", end, at + 8, full, part)
        b.start(full)
        b.set(value, _mix(walk, value, word))
    b.jump(done)
    b.start(part)
    b.set(end, b.alu("and", end, 7))
    b.branch("jne", end, 0, some, done)
    b.start(some)
    b.set(value, _mix(walk, value, b.alu("lsh", word, b.alu("sub", 64, b.alu("lsh", end, 3)))))
    b.start(done)


def _mix(walk: _Walk, value: Operand, more: Operand) -> Reg:
    b = walk.b
    mixed = b.alu("mul", b.alu("xor", value, more), stacks.FACTOR)
    return b.alu("xor", mixed, b.alu("rsh", mixed, 29))


# --- what is kept ---------------------------------------------------------------------------------------------


def _store_stack(walk: _Walk, frames: Mem, type: Stack, into: Mem) -> None:
    lo, b = walk.lo, walk.b
    none, some, bounded = b.block("none"), b.block("some"), b.block("bounded")
    count = walk.get("count")
    b.branch("jne", count, 0, some, none)
    b.start(some)
    b.branch("jle", count, STACK_FRAMES, bounded, none)
    b.start(bounded)
    identity = b.alu("or", walk.get("hash"), 1)
    b.store(into.base, into.off, identity)
    b.store(into.base, into.off + 8, process_id(lo), 4)
    b.store(into.base, into.off + 12, count, 4)
    stacks.store_once(lo, frames, b.alu("lsh", count, 3), identity, lambda unkept: _note_frames(walk, frames, unkept))
    b.start(none)


def _note_frames(walk: _Walk, frames: Mem, unkept: Block) -> None:
    """Of a new stack: its frames, and the texts of their code. What finds no room is counted, and tried again."""
    lo, b = walk.lo, walk.b
    walk.put("failed", 0)
    words.run_loop(lo, STACK_FRAMES, [walk.image, walk.work, b.address(frames.base, frames.off)], "pystack note",
                   lambda f: _note_function(lo, f))
    failed, on = b.block("failed", cold=True), b.block("noted")
    b.branch("jne", walk.get("failed"), 0, failed, on)
    b.start(failed)
    lo.count_error("pystack_names")
    b.jump(unkept)
    b.start(on)


def _note_function(lo: Lower, function: Function) -> None:
    """callback(index, state): note a frame and its code; 1 ends the loop."""
    b, state = lo.b, function.params[1]
    walk = _Walk(lo, b.load(state, 0), b.load(state, 8))
    inside, bounded, new, end, again, bad = (b.block(n) for n in ("inside", "bounded", "new", "end", "again", "bad"))
    index = b.extend(function.params[0], 32, False)
    b.branch("jlt", index, walk.get("count"), inside, end)
    b.start(inside)
    b.branch("jlt", index, STACK_FRAMES, bounded, end)
    b.start(bounded)
    frame = b.alu("add", b.load(state, 16), b.alu("lsh", index, 3))
    map = lo.unit.python_frames()
    known = b.call(h.MAP_LOOKUP, [MapFd(map), frame], "map_lookup_elem")
    b.branch("jeq", known, 0, new, again)
    b.start(new)
    code = b.load(walk.row("code", index), 0)
    b.store(walk.work, _RECORD, b.load(walk.row("identity", index), 0))
    b.store(walk.work, _RECORD + 8, b.load(walk.row("place", index), 0))
    read = b.block("read")
    walk.read(_READ, 4, b.alu("add", code, walk.word("code_line")), read, bad)
    b.start(read)
    b.store(walk.work, _RECORD + 16, b.load(walk.work, _READ, 4, signed=True))
    b.store(walk.work, _RECORD + 24, walk.word("ascii_size"))
    b.store(walk.work, _RECORD + 32, walk.word("compact_size"))
    _note_code(walk, code, index, bad)
    result = b.call(h.MAP_UPDATE, [MapFd(map), frame, b.alu("add", walk.work, _RECORD), h.UPDATE_ANY],
                    "map_update_elem")
    b.branch("jslt", result, 0, bad, again, h.MAP_RESULT)
    b.start(bad)
    walk.put("failed", 1)
    b.start(end)
    b.exit(1)
    b.start(again)
    b.exit(0)


def _note_code(walk: _Walk, code: Reg, index: Reg, bad: Block) -> None:
    """The texts of a code object; the file's name comes last, and says that they are all there."""
    lo, b = walk.lo, walk.b
    map = lo.unit.python_texts()
    identity = b.load(walk.row("identity", index), 0)
    b.store(walk.work, _KEY, identity)
    b.store(walk.work, _KEY + 8, py.FILE_PART)
    known = b.call(h.MAP_LOOKUP, [MapFd(map), b.alu("add", walk.work, _KEY)], "map_lookup_elem")
    new, on = b.block("code"), b.block("noted")
    b.branch("jeq", known, 0, new, on)
    b.start(new)
    for word, part in (("code_table", py.TABLE_PART), ("code_name", py.NAME_PART), ("code_file", py.FILE_PART)):
        read = b.block("read")
        walk.read(_READ, 8, b.alu("add", code, walk.word(word)), read, bad)
        b.start(read)
        source, sized = b.load(walk.work, _READ), b.block("sized")
        walk.read(_READ, 40, source, sized, bad)
        b.start(sized)
        walk.put("source", source)
        walk.put("left", _table_size(walk) if word == "code_table" else _text_size(walk))
        b.store(walk.work, _KEY + 8, part)
        words.run_loop(lo, 64, [walk.work], "pystack text", lambda f: _copy_function(lo, f))
        whole = b.block("whole")
        b.branch("jeq", walk.get("failed"), 0, whole, bad)
        b.start(whole)
    b.jump(on)
    b.start(on)


def _table_size(walk: _Walk) -> Reg:
    length = walk.b.load(walk.work, _READ + py.BYTES_LENGTH)
    return _at_most(walk, walk.b.alu("add", length, py.BYTES_START), py.MOST_TABLE)


def _text_size(walk: _Walk) -> Reg:
    """Bytes of a str object: of its head and its characters."""
    b = walk.b
    state = b.load(walk.work, _READ + py.TEXT_STATE, 4)
    kind = b.alu("and", b.alu("rsh", state, py.KIND_SHIFT), py.KIND_BITS)
    head, ascii, wide, on = b.function.reg("head"), b.block("ascii"), b.block("wide"), b.block("on")
    b.branch("jset", state, py.ASCII, ascii, wide)
    b.start(ascii)
    b.set(head, walk.word("ascii_size"))
    b.jump(on)
    b.start(wide)
    b.set(head, walk.word("compact_size"))
    b.start(on)
    characters = _at_most(walk, b.load(walk.work, _READ + py.TEXT_LENGTH), py.MOST_TEXT)
    return _at_most(walk, b.alu("add", head, b.alu("mul", characters, kind)), py.MOST_TEXT)


def _at_most(walk: _Walk, value: Reg, most: Operand) -> Reg:
    b = walk.b
    result, less, on = b.function.reg("bounded"), b.block("less"), b.block("on")
    b.set(result, most)
    b.branch("jlt", value, most, less, on)
    b.start(less)
    b.set(result, value)
    b.start(on)
    return result


def _copy_function(lo: Lower, function: Function) -> None:
    """callback(index, state): store a part of ``source``, of which ``left`` bytes are left; 1 ends the loop."""
    b = lo.b
    work = b.load(function.params[1], 0)
    walk = _Walk(lo, work, work)
    some, end, good, bad = (b.block(n) for n in ("some", "end", "good", "bad"))
    left = walk.get("left")
    b.branch("jne", left, 0, some, end)
    b.start(some)
    size = _at_most(walk, left, py.PART)
    source = walk.get("source")
    walk.read(_READ, size, source, good, bad)
    b.start(good)
    result = b.call(h.MAP_UPDATE, [MapFd(lo.unit.python_texts()), b.alu("add", work, _KEY),
                                   b.alu("add", work, _READ), h.UPDATE_ANY], "map_update_elem")
    kept = b.block("kept")
    b.branch("jslt", result, 0, bad, kept, h.MAP_RESULT)
    b.start(kept)
    walk.put("source", b.alu("add", source, size))
    walk.put("left", b.alu("sub", left, size))
    b.store(work, _KEY + 8, b.alu("add", b.load(work, _KEY + 8), 1))
    b.exit(0)
    b.start(bad)
    walk.put("failed", 1)
    b.start(end)
    b.exit(1)
