"""The working memory of a walk by unwind tables."""

from __future__ import annotations

from ....layouts import unwind_format as table
from ... import helpers as h
from ...ir import BasicBlock, Operand, Reg
from ..core import Lower

# ``link`` is what the register has that calls leave the return address in, ``loose`` is not 0 where the stack pointer
# is only known to be no lower than ``sp``.
_WORDS = ("pc", "sp", "bp", "link", "loose", "exact", "count", "limit", "hash", "failed", "mm", "oldest")
AT = {name: 8 * at for at, name in enumerate(_WORDS)}
MAPPINGS, MAPPING_SIZE = 4, 40  # mappings that are remembered: start, size, bias, first row and number of rows of each
MAPPINGS_AT = 8 * len(_WORDS)
READ = MAPPINGS_AT + MAPPINGS * MAPPING_SIZE  # room for what is read of the stack
NODE = READ + 64                   # room for a node of a tree
ASK = NODE + 256                   # room for a question, or for the key that it begins with
SIZE = ASK + table.ASK.size


class Work:
    """Its address, and how it is used."""

    def __init__(self, lo: Lower, base: Reg) -> None:
        self.lo, self.b, self.base = lo, lo.b, base

    def clear_words(self) -> None:
        """Forget all words, including the mappings."""
        self.b.zero(self.base, 0, READ)

    def get(self, name: str) -> Reg:
        return self.b.load(self.base, AT[name])

    def put(self, name: str, value: Operand) -> None:
        self.b.store(self.base, AT[name], value)

    def fail(self, reason: str) -> None:
        """Note why the stack ends here."""
        self.put("failed", 1 + table.REASONS.index(reason))

    def read(self, size: int, address: Operand, good: BasicBlock, bad: BasicBlock) -> None:
        """Read the process's stack."""
        result = self.b.call(h.READ_USER, [self.b.alu("add", self.base, READ), size, address], "probe_read_user")
        self.b.branch("jsge", result, 0, good, bad)
