"""Walking through an interpreter's memory: what its functions share, and the working memory."""

from __future__ import annotations

from ....layouts import cpython as py
from ... import helpers as h
from ...compilation import STACK_FRAMES
from ...ir import BasicBlock, Operand, Reg
from ..core import Lower
from . import traces

WINDOW = 1024  # bytes that are read at once where frames lie: those of callers come before those that they called

# The working memory of a walk; words, then what has been read, then a row for each frame.
_WORDS = ("thread", "interpreter", "found", "self", "salt", "frame", "hash", "count", "failed", "deep",
          "limit", "source", "left", "window", "extent", "code", "identity", "traceable", "mine", "interp", "number",
          "current", "restarts")
AT = {name: 8 * at for at, name in enumerate(_WORDS)}
READ = 8 * len(_WORDS)           # room for a thread, a code object or a part of a text
FRAMES = READ + 256              # room for frames
KEY = FRAMES + WINDOW + 128      # of a part
RECORD = KEY + 16                # of a frame
ROWS = RECORD + py.FRAME_RECORD.size
_ROW_WORDS = ("identity", "code", "place")
ROW = {name: ROWS + 8 * STACK_FRAMES * at for at, name in enumerate(_ROW_WORDS)}
SIZE = ROWS + 8 * STACK_FRAMES * len(_ROW_WORDS)


class Walk:
    """What the functions of a walk have in common: the image's words, and the working memory."""

    def __init__(self, lo: Lower, image: Reg, work: Reg) -> None:
        self.lo, self.b, self.image, self.work = lo, lo.b, image, work

    def get(self, name: str) -> Reg:
        return self.b.load(self.work, AT[name])

    def put(self, name: str, value: Operand) -> None:
        self.b.store(self.work, AT[name], value)

    def word(self, name: str) -> Reg:
        """A word of the image."""
        return self.b.load(self.image, py.OFFSET[name])

    def read(self, room: int, size: Operand, address: Operand, good: BasicBlock, bad: BasicBlock) -> None:
        """Read the process's memory into the working memory."""
        result = self.b.call(h.READ_USER, [self.b.alu("add", self.work, room), size, address], "probe_read_user")
        self.b.branch("jsge", result, 0, good, bad)

    def pick(self, room: int, offset: Operand, size: int = 8) -> Reg:
        """A member of what was read, at an offset that the image has."""
        at = self.b.alu("and", offset, 256 - size)
        return self.b.load(self.b.alu("add", self.work, at), room, size)

    def row(self, name: str, index: Operand) -> Reg:
        """The address of a frame's element in one of the rows."""
        return self.b.alu("add", self.b.alu("add", self.work, self.b.alu("lsh", index, 3)), ROW[name])


def mix(walk: Walk, value: Operand, more: Operand) -> Reg:
    b = walk.b
    mixed = b.alu("mul", b.alu("xor", value, more), traces.FACTOR)
    return b.alu("xor", mixed, b.alu("rsh", mixed, 29))


def table_size(walk: Walk) -> Reg:
    length = walk.b.load(walk.work, READ + py.BYTES_LENGTH)
    return walk.b.at_most(walk.b.alu("add", length, py.BYTES_START), py.MOST_TABLE)
