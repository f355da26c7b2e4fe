"""What the checker passes to the compiler: the annotated tree and the tables that it built."""

from __future__ import annotations

from ..base.record import Record
from ..language.ast import Callee, Choice, Clause, Expr, ScratchVar
from ..source import Source, Span
from ..spec import Attach, Config
from ..types import NoneType, Scalar, Struct, Type
from .script_options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..language.diagnostics import Diagnostics
    from .nodes import Tree


class ScriptMap(Record):
    """A script map. ``key`` is None for a keyless map; several keys are a Tuple type.

    ``value`` is an Aggregate for count(), hist() and so on. ``writers`` is the number of programs that
    update it; ``read`` whether a program reads an aggregate's value.
    """

    name: str
    key: Type | None
    value: Type
    span: Span
    kind: str = ""   # declared: hash lruhash percpuhash percpulruhash, or ""
    entries: int = 0  # declared; 0 = max_map_keys
    writers: int = 0
    read: bool = False
    labels: tuple[str, ...] = ()  # see MapSpec
    at_end: str = ""
    unit: int = 0  # see MapDecl
    on_demand: bool = False  # its size is that of a kind of objects, far more than there mostly are
    about: str = ""  # see MapSpec


class WholeMap(Choice):
    """A call about a map as a whole; of print(): how many entries at most, and what values are divided by (0: not)."""

    map: str
    top: int = 0
    div: int = 0


class Element(Choice):
    """A call about one element; ``key`` None for that of a map without keys."""

    map: str
    key: Expr | None


class Literals(Choice):
    """A record that is known when compiling, by its members."""

    items: list[Expr]


class EmptyMap(Choice):
    """A call about a map that no code of this run fills: it is left out."""


class CheckedFunction(Callee):
    """A ``fn`` as one program has it: ``clause`` is its own annotated copy of the body; ``result`` is VOID for none;
    ``frame``: it must reach the program that calls it (its context, its end)."""

    clause: Clause
    params: list[ScratchVar]
    result: Type
    frame: bool

    @property
    def by_address(self) -> bool:
        """Whether the caller says where the result goes: it is no number."""
        return not isinstance(self.result, (Scalar, NoneType))


class ProbeFacts(Record):
    """What a program uses and does, its functions included. The sets are names of maps."""

    used: set[str] = set()
    tested: set[str] = set()  # that the predicate reads
    written: set[str] = set()  # of which it sets elements
    replaced: set[str] = set()  # the same, other than by += and -=
    left: set[str] = set()  # the same, if it does not clear them afterwards
    deleted: set[str] = set()  # of which it deletes elements
    dated: set[str] = set()  # in which it stores the time
    observed: set[str] = set()  # whose keys it looks at or deletes
    cleared: set[str] = set()
    names: set[str] = set()  # builtins, functions, parameters that it mentions
    addressed: set[int] = set()  # variables whose address it takes, by the id of their slots
    exits: bool = False
    sends: bool = False      # by the data ring
    kernel_stacks: bool = False
    counts_frames: bool = False  # takes the len() of a stack


class CheckedProbe(Record):
    """One program to be: a clause (its own annotated copy of the tree) and the attach points that share it.

    Attach points share a program when nothing that the clause uses differs between them. The checker sets the
    ``facts`` at its end, when the tree stays as it is.
    """

    clause: Clause
    attach: list[Attach]
    args: Struct | None
    variables: list[ScratchVar]
    functions: dict[str, CheckedFunction] = {}
    facts: ProbeFacts = ProbeFacts()

    @property
    def trees(self) -> list[Tree]:
        """All that the program does: its predicate, its action, and the functions that it calls."""
        return [self.clause.predicate, self.clause.body, *[f.clause.body for f in self.functions.values()]]


class CheckedScript(Record):
    """A script without errors."""

    source: Source
    probes: list[CheckedProbe]
    maps: dict[str, ScriptMap]
    config: Config
    options: Options
    diagnostics: Diagnostics  # warnings
    asks_for_processes: bool = False  # it tells processes apart; not known without -c
    matches_calls: bool = False  # it matches calls of functions and their returns itself, by the library's macros
