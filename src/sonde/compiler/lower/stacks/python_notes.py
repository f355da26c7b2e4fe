"""What is noted about a new Python stack: its frames, and the strings of their code objects."""

from __future__ import annotations

from ....layouts import cpython as py
from ... import helpers as h
from ...compilation import STACK_FRAMES
from ...ir import BasicBlock, BpfFunction, MapFd, Reg
from ..core import Lower
from ..state import Mem
from ..strings import words
from .python_memory import KEY, READ, RECORD, Walk, table_size


def note_frames(walk: Walk, frames: Mem, unkept: BasicBlock) -> None:
    """Store a new stack's frames and the texts of their code. What finds no room is counted, and tried again."""
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


def _note_function(lo: Lower, function: BpfFunction) -> None:
    """callback(index, state): note a frame and its code; 1 ends the loop."""
    b, state = lo.b, function.params[1]
    walk = Walk(lo, b.load(state, 0), b.load(state, 8))
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
    b.store(walk.work, RECORD, b.load(walk.row("identity", index), 0))
    b.store(walk.work, RECORD + 8, b.load(walk.row("place", index), 0))
    read = b.block("read")
    walk.read(READ, 4, b.alu("add", code, walk.word("code_line")), read, bad)
    b.start(read)
    b.store(walk.work, RECORD + 16, b.load(walk.work, READ, 4, signed=True))
    b.store(walk.work, RECORD + 24, walk.word("ascii_size"))
    b.store(walk.work, RECORD + 32, walk.word("compact_size"))
    _note_code(walk, code, index, bad)
    result = b.call(h.MAP_UPDATE, [MapFd(map), frame, b.alu("add", walk.work, RECORD), h.UPDATE_ANY],
                    "map_update_elem")
    b.branch("jslt", result, 0, bad, again, h.MAP_RESULT)
    b.start(bad)
    walk.put("failed", 1)
    b.start(end)
    b.exit(1)
    b.start(again)
    b.exit(0)


def _note_code(walk: Walk, code: Reg, index: Reg, bad: BasicBlock) -> None:
    """The texts of a code object; the file's name comes last, and says that they are all there."""
    lo, b = walk.lo, walk.b
    map = lo.unit.python_texts()
    identity = b.load(walk.row("identity", index), 0)
    b.store(walk.work, KEY, identity)
    b.store(walk.work, KEY + 8, py.FILE_PART)
    known = b.call(h.MAP_LOOKUP, [MapFd(map), b.alu("add", walk.work, KEY)], "map_lookup_elem")
    new, on = b.block("code"), b.block("noted")
    b.branch("jeq", known, 0, new, on)
    b.start(new)
    for word, part in (("code_table", py.TABLE_PART), ("code_name", py.NAME_PART), ("code_file", py.FILE_PART)):
        read = b.block("read")
        walk.read(READ, 8, b.alu("add", code, walk.word(word)), read, bad)
        b.start(read)
        source, sized = b.load(walk.work, READ), b.block("sized")
        walk.read(READ, 40, source, sized, bad)
        b.start(sized)
        walk.put("source", source)
        walk.put("left", table_size(walk) if word == "code_table" else _text_size(walk))
        b.store(walk.work, KEY + 8, part)
        words.run_loop(lo, 64, [walk.work], "pystack text", lambda f: _copy_function(lo, f))
        whole = b.block("whole")
        b.branch("jeq", walk.get("failed"), 0, whole, bad)
        b.start(whole)
    b.jump(on)
    b.start(on)


def _text_size(walk: Walk) -> Reg:
    """Bytes of a str object: of its head and its characters."""
    b = walk.b
    state = b.load(walk.work, READ + py.TEXT_STATE, 4)
    kind = b.alu("and", b.alu("rsh", state, py.KIND_SHIFT), py.KIND_BITS)
    head, ascii, wide, on = b.function.reg("head"), b.block("ascii"), b.block("wide"), b.block("on")
    b.branch("jset", state, py.ASCII, ascii, wide)
    b.start(ascii)
    b.set(head, walk.word("ascii_size"))
    b.jump(on)
    b.start(wide)
    b.set(head, walk.word("compact_size"))
    b.start(on)
    characters = b.at_most(b.load(walk.work, READ + py.TEXT_LENGTH), py.MOST_TEXT)
    return b.at_most(b.alu("add", head, b.alu("mul", characters, kind)), py.MOST_TEXT)


def _copy_function(lo: Lower, function: BpfFunction) -> None:
    """callback(index, state): store a part of ``source``, of which ``left`` bytes are left; 1 ends the loop."""
    b = lo.b
    work = b.load(function.params[1], 0)
    walk = Walk(lo, work, work)
    some, end, good, bad = (b.block(n) for n in ("some", "end", "good", "bad"))
    left = walk.get("left")
    b.branch("jne", left, 0, some, end)
    b.start(some)
    size = b.at_most(left, py.PART)
    source = walk.get("source")
    walk.read(READ, size, source, good, bad)
    b.start(good)
    result = b.call(h.MAP_UPDATE, [MapFd(lo.unit.python_texts()), b.alu("add", work, KEY),
                                   b.alu("add", work, READ), h.UPDATE_ANY], "map_update_elem")
    stored = b.block("kept")
    b.branch("jslt", result, 0, bad, stored, h.MAP_RESULT)
    b.start(stored)
    walk.put("source", b.alu("add", source, size))
    walk.put("left", b.alu("sub", left, size))
    b.store(work, KEY + 8, b.alu("add", b.load(work, KEY + 8), 1))
    b.exit(0)
    b.start(bad)
    walk.put("failed", 1)
    b.start(end)
    b.exit(1)
