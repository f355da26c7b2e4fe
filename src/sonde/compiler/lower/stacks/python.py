"""Python's stacks: the frames of the interpreter that the current thread is running, found in its memory.

An element of ``__pyimages`` (:mod:`sonde.layouts.cpython`), which user space fills in, describes the running program's
interpreter. A stack is a list of *frame ids*: hashes of a frame's code object and of how far it has run. They are
stored like the addresses of other stacks. When a stack is new, its frames are noted in ``__pyframes``, and the strings
of code objects not yet seen (file, name, line table) in ``__pytexts``: at that moment this very thread is using them,
so they are still what they were when the stack was taken.
"""

from __future__ import annotations

from ....layouts import cpython as py
from ....layouts.shared_maps import PYTHON_ENTERED, PYTHON_FRAME
from ....types import UINT64, Stack
from ... import helpers as h
from ...compilation import STACK_FRAMES
from ...ir import BasicBlock, BpfFunction, MapFd, Operand, Reg
from .. import memory
from ..core import Lower
from ..state import Mem
from ..strings import words
from ..tasks import current_task, process_id, task_memory
from . import traces
from .python_memory import FRAMES, READ, SIZE, WINDOW, Walk, mix
from .python_notes import note_frames
from .python_threads import find_thread

SHIMS = 128        # frames of the C stack between those of functions
_HASHED = 128      # bytes of a text that tell it from another; a multiple of 8


def write_stack(lo: Lower, type: Stack, into: Mem) -> None:
    """types.Stack into memory: id of the frames, tgid, number of frames."""
    b = lo.b
    b.store(into.base, into.off, 0)
    b.store(into.base, into.off + 8, 0)
    done = b.block("stacked")
    with lo.scope():
        frames = lo.temp(8 * STACK_FRAMES, "frames")
        image, start = look_up_image(lo, done)
        slot = b.function.slot(SIZE, "walk", scratch=True)
        walk = Walk(lo, image, b.address(slot))
        b.zero(walk.work, 0, READ)
        find_thread(walk, start)
        _walk_frames(walk, start, frames, type.limit)
        traces.store_walked(lo, walk.get, frames, into, lambda unkept: note_frames(walk, frames, unkept))
        b.jump(done)
    b.start(done)


def look_up_image(lo: Lower, none: BasicBlock) -> tuple[Reg, Operand]:
    """What is known of the interpreter that the current process runs, and where its stack begins; to ``none`` if it is
    not known."""
    b = lo.b
    with lo.scope():
        key = lo.temp(py.IMAGE_KEY.size, "image")
        start = _write_image_key(lo, key, none)
        image = b.call(h.MAP_LOOKUP, [MapFd(lo.unit.python_images()), lo.operand_address(key)], "map_lookup_elem")
        known, unknown = b.block("python"), b.block("unknown")
        b.branch("jne", image, 0, known, unknown)
        b.start(unknown)
        _count_unknown(lo, key)
        b.jump(none)
    b.start(known)
    return image, start


def _write_image_key(lo: Lower, key: Mem, none: BasicBlock) -> Operand:
    """Write what identifies the program that runs; to ``none`` in a kernel thread."""
    task, user = current_task(lo), lo.b.block("user")
    mm = memory.read_scalar(lo, task_memory(lo, task, "mm"), UINT64)
    lo.b.branch("jne", mm, 0, user, none)
    lo.b.start(user)
    for at, name in enumerate(("start_code", "end_code", "start_stack")):
        word = memory.read_scalar(lo, task_memory(lo, task, "mm", name), UINT64)
        lo.b.store(key.base, key.off + 8 * at, word)
    return word


def _count_unknown(lo: Lower, key: Mem) -> None:
    """Count one more stack of a program whose interpreter is not known (yet)."""
    b = lo.b
    name = lo.unit.python_misses()
    misses = b.call(h.MAP_LOOKUP, [MapFd(name), lo.operand_address(key)], "map_lookup_elem")
    first, more, counted = b.block("first", cold=True), b.block("more"), b.block("counted")
    b.branch("jeq", misses, 0, first, more)
    b.start(first)
    with lo.scope():
        one = lo.temp(py.MISS.size)
        b.store(one.base, one.off, 1)
        b.store(one.base, one.off + 8, process_id(lo))
        b.call(h.MAP_UPDATE, [MapFd(name), lo.operand_address(key), lo.operand_address(one), h.UPDATE_ANY],
               "map_update_elem")
    b.jump(counted)
    b.start(more)
    b.atomic_add(misses, 0, 1)
    b.start(counted)


# --- the frames -----------------------------------------------------------------------------------------------


def _walk_frames(walk: Walk, salt: Operand, frames: Mem, limit: int) -> None:
    """The rows and ``frames``: from the innermost frame to the outermost."""
    lo, b = walk.lo, walk.b
    walk.put("salt", mix(walk, mix(walk, process_id(lo), salt), walk.get("number")))
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


def _frame_function(lo: Lower, function: BpfFunction) -> None:
    """callback(index, state): read a frame; 1 ends the walk."""
    b, state = lo.b, function.params[1]
    walk = Walk(lo, b.load(state, 0), b.load(state, 8))
    here, bad, end, ours, shim, again = (b.block(n) for n in ("here", "unread", "end", "ours", "shim", "again"))
    frame = walk.get("frame")
    b.branch("jne", frame, 0, here, end)
    b.start(here)
    room = _read_frame(walk, frame, bad)

    def member(word: str, size: int = 8) -> Reg:
        at = b.alu("and", walk.word(word), 128 - size)
        return b.load(b.alu("add", room, at), 0, size)

    owner = member("frame_owner", 1)
    walk.put("frame", member("frame_previous"))
    b.branch("jlt", owner, walk.word("shim_owner"), ours, shim)
    b.start(shim)
    _mark_entered(walk, b.load(state, 16))
    b.jump(again)
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
    offset = b.alu("sub", member("frame_instruction"), start)
    begun, early = b.block("begun"), b.block("early")
    b.branch("jsge", offset, walk.get("traceable"), begun, early)
    b.start(early)
    b.branch("jeq", owner, py.OF_GENERATOR, begun, again)
    b.start(begun)
    for name, value in (("identity", identity), ("code", code), ("place", offset)):
        b.store(walk.row(name, count), 0, value)
    id = mix(walk, identity, offset)
    id = b.alu("rsh", b.alu("lsh", id, 3), 3)
    id = b.alu("or", id, b.alu("lsh", b.mov(PYTHON_FRAME), 62))
    b.store(b.alu("add", b.load(state, 16), b.alu("lsh", count, 3)), 0, id)
    walk.put("hash", mix(walk, walk.get("hash"), id))
    walk.put("count", b.alu("add", count, 1))
    marked, entered = b.block("told"), b.block("entered")
    b.branch("jne", walk.word("frame_entered"), 0, marked, again)
    b.start(marked)
    b.branch("jne", member("frame_entered", 1), 0, entered, again)
    b.start(entered)
    _mark_entered(walk, b.load(state, 16))
    b.start(again)
    b.exit(0)
    b.start(bad)
    walk.put("failed", 1)
    b.jump(end)
    b.start(deep)
    walk.put("deep", 1)
    b.start(end)
    b.exit(1)


def _mark_entered(walk: Walk, frames: Reg) -> None:
    """Mark the frame stored last: C called the interpreter for it."""
    b, count = walk.b, walk.get("count")
    some, inside, on = b.block("some"), b.block("inside"), b.block("marked")
    b.branch("jgt", count, 0, some, on)  # the verifier of Linux 6.1 learns no bound from jne
    b.start(some)
    b.branch("jle", count, STACK_FRAMES, inside, on)
    b.start(inside)
    last = b.alu("add", frames, b.alu("lsh", b.alu("sub", count, 1), 3))
    b.store(last, 0, b.alu("or", b.load(last, 0), b.alu("lsh", b.mov(1), PYTHON_ENTERED.bit_length() - 1)))
    walk.put("hash", mix(walk, walk.get("hash"), 1))
    b.start(on)


def _read_frame(walk: Walk, frame: Reg, bad: BasicBlock) -> Reg:
    """Where a frame has been read to, with as much of what lies before it in its page as there is room for."""
    b = walk.b
    near, inside, anew, good, on = (b.block(n) for n in ("near", "inside", "anew", "good", "on"))
    offset = b.function.reg("offset")
    b.set(offset, b.alu("sub", frame, walk.get("window")))
    b.branch("jle", offset, WINDOW - py.FRAME_READ, near, anew)
    b.start(near)
    b.branch("jlt", offset, walk.get("extent"), inside, anew)
    b.start(anew)
    before = b.at_most(b.alu("and", frame, 4095), WINDOW - py.FRAME_READ)
    start = b.alu("sub", frame, before)
    walk.read(FRAMES, b.alu("add", before, py.FRAME_READ), start, good, bad)
    b.start(good)
    walk.put("window", start)
    walk.put("extent", b.alu("add", before, 1))
    b.set(offset, before)
    b.jump(on)
    b.start(inside)
    b.start(on)
    return b.alu("add", b.alu("add", walk.work, offset), FRAMES)


def _identify_code(walk: Walk, code: Reg, bad: BasicBlock) -> Reg:
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


def _compute_identity(walk: Walk, code: Reg, bad: BasicBlock) -> Reg:
    b = walk.b
    good, typed, named, versioned, on = (b.block(n) for n in ("code", "typed", "named", "versioned", "on"))
    walk.read(READ, py.CODE_READ, code, good, bad)
    b.start(good)
    b.branch("jeq", b.load(walk.work, READ + 8), walk.word("code_type"), typed, bad)
    b.start(typed)
    walk.put("traceable", b.alu("lsh", walk.pick(READ, walk.word("code_traceable"), 4), 1))
    value, version = mix(walk, walk.get("salt"), code), b.function.reg("version")
    offset = walk.word("code_version")
    b.branch("jne", offset, 0, versioned, named)
    b.start(versioned)
    b.set(version, walk.pick(READ, offset, 4))
    b.branch("jne", version, 0, on, named)
    b.start(named)
    b.set(version, _hash_texts(walk, bad))
    b.start(on)
    return mix(walk, value, version)


def _hash_texts(walk: Walk, bad: BasicBlock) -> Reg:
    """Before Python 3.12, and beyond 2^32 of them, code objects have no number: 64 bits of the first line and of how
    name and table of lines begin, which may lie where those of one that is gone did."""
    b = walk.b
    name, table = (walk.pick(READ, walk.word(word)) for word in ("code_name", "code_table"))
    value = b.function.reg("texts")
    b.set(value, mix(walk, walk.pick(READ, walk.word("code_file")), walk.pick(READ, walk.word("code_line"), 4)))
    _hash_object(walk, name, value, py.VERSIONS[3, 11]["ascii_size"], py.TEXT_LENGTH, bad)
    _hash_object(walk, table, value, py.BYTES_START, py.BYTES_LENGTH, bad)
    return value


def _hash_object(walk: Walk, address: Reg, value: Reg, head: int, length: int, bad: BasicBlock) -> None:
    """Mix the length and the first bytes of an object into ``value``. What lies in another page need not be the
    object's, nor there."""
    b = walk.b
    good, second, whole, part, some, done = (
        b.block(n) for n in ("good", "second", "whole", "part", "some", "done"))
    first = b.at_most(b.alu("sub", 4096, b.alu("and", address, 4095)), _HASHED)
    walk.read(READ, first, address, good, bad)
    b.start(good)
    b.branch("jlt", first, _HASHED, second, whole)
    b.start(second)
    b.call(h.READ_USER, [b.alu("add", b.alu("add", walk.work, first), READ), b.alu("sub", _HASHED, first),
                         b.alu("add", address, first)], "probe_read_user")
    b.start(whole)
    size = b.load(walk.work, READ + length)
    b.set(value, mix(walk, value, size))
    end = b.function.reg("end")
    b.set(end, b.at_most(b.alu("add", head, size), _HASHED))
    word = b.function.reg("word")
    for at in range(head, _HASHED, 8):
        full = b.block("full")
        b.set(word, b.load(walk.work, READ + at))
        b.branch("jge", end, at + 8, full, part)
        b.start(full)
        b.set(value, mix(walk, value, word))
    b.jump(done)
    b.start(part)
    b.set(end, b.alu("and", end, 7))
    b.branch("jne", end, 0, some, done)
    b.start(some)
    b.set(value, mix(walk, value, b.alu("lsh", word, b.alu("sub", 64, b.alu("lsh", end, 3)))))
    b.start(done)
