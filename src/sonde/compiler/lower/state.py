"""State while one BPF function is built: the program itself, a function of the script, or a callback.

A callback reaches the variables of the enclosing function through a piece of that function's stack frame, which also
says how a callback ended the loop, or more than the loop:

    +0  the program's context   +8  0, or ENDING, BROKEN, RETURNING   +16 ...  shared variables
"""

from __future__ import annotations

from ...base.record import Record
from ...semantics.typed import CheckedFunction
from ...source import Span
from ..builder import Builder
from ..ir import Base, BasicBlock, BpfFunction, Operand, Reg, Slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

RESERVES, COMMITS = "flight_reserve", "flight_commit"  # labels of operations between which a record is being filled
CONTEXT, OUTCOME, SHARED = 0, 8, 16  # offsets in the frame
ENDING, BROKEN, RETURNING = 1, 2, 3  # the program is to end; a break; a function of the script is to return


class Mem(Record):
    """Bytes at ``base + off`` in ``space``: "bpf" (frame, maps, event records: plain loads and stores), "ctx",
    "kernel" or "user". ``btf`` is set when ``base`` is a pointer that the verifier lets us load through; ``padded``
    when it is a text after whose NUL are only NULs."""

    base: Base
    off: int = 0
    space: str = "bpf"
    btf: int = 0
    padded: bool = False

    def at(self, off: int) -> Mem:
        """``off`` bytes further."""
        return Mem(self.base, self.off + off, self.space, self.btf)


Signature: TypeAlias = tuple[object, ...]  # equal ones mean equal values within one run


class Lookup(Record):
    """The result of a map lookup that is still good: the value's address (0 if there was none)."""

    pointer: Reg
    present: bool


class LoopTargets(Record):
    """Where break and continue go; in a callback they leave it with 1 and 0."""

    leave: BasicBlock
    again: BasicBlock


class Sharing:
    """What a function and its callbacks have in common."""

    def __init__(self, subprogram: CheckedFunction | None = None, result_address: Reg | None = None) -> None:
        self.subprogram = subprogram           # None in the program itself
        self.result_address = result_address   # where it writes its result, if that is no number
        self.result_offset = 0                 # where in the frame a callback leaves the result
        self.probe_offset = 0                  # where in the frame callbacks find the probe index; 0: it is not there
        self.saved_offset = 0                   # of saved arguments in the frame: see entry_arguments.py
        self.in_frame: set[int] = set()        # variables that lie in the frame, by the id of their slot
        self.pointers: dict[int, int] = {}     # where the frame keeps the addresses of large variables
        self.starts: dict[int, int] = {}       # where a callback loop keeps its first index
        self.obscured: set[int] = set()        # variables whose values the verifier shall not know; see compiler.widen
        self.carried: dict[int, int] = {}      # variables whose values callbacks carry on: their bytes


class FunctionState:
    """The builder of a function, and the facts known at the current point of it."""

    def __init__(self, function: BpfFunction, span: Span | None = None, sharing: Sharing | None = None,
                 outer: FunctionState | None = None) -> None:
        self.function = function
        self.b = Builder(function)
        self.b.span = span
        self.is_callback = outer is not None
        self.sharing: Sharing = sharing or (outer.sharing if outer is not None else Sharing())
        function.scratch_base = self.b.mov(0, "scratch")  # disappears when nothing is placed in scratch memory
        self.context: Operand = function.params[0] if function.params else 0
        self.done = function.block("done")  # where a program or function of the script ends
        self.frame: Mem | None = None
        self.variables: dict[int, Reg | Mem] = {}
        self.lookups: dict[tuple[str, Signature], Lookup] = {}
        self.typed: dict[Reg, int] = {}  # registers that the verifier knows as pointers to that BTF type
        self.last_time: Operand | None = None
        self.probe_index: Operand | None = None  # of the attach point, where the prologue knows it
        self.loops: list[LoopTargets] = []
        self.iterators: list[tuple[int, Operand]] = []  # loops over objects: what ends each, and where its state lies
        self.temps: list[list[Slot]] = [[]]
