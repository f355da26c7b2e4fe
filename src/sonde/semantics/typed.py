"""What the checker hands to the compiler: the annotated tree and the tables that it found."""

from __future__ import annotations

from typing import Any

from ..language.ast import Clause
from ..language.source import Source, Span
from ..record import Record
from ..spec import Attach, Config
from ..types import NoneType, Scalar, Struct, Type


class ScratchVar(Record):
    """A ``$variable`` of one program; block scoped, so two of one name may exist."""

    name: str
    type: Type
    span: Span


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


class CheckedFunction(Record):
    """A ``fn`` as one program has it: ``clause`` is its own annotated copy of the body; ``result`` is VOID for none;
    ``frame``: it must reach the program that calls it (its context, its end)."""

    name: str
    clause: Clause
    params: list[ScratchVar]
    result: Type
    frame: bool

    @property
    def by_address(self) -> bool:
        """Whether the caller says where the result goes: it is no number."""
        return not isinstance(self.result, (Scalar, NoneType))


class CheckedProbe(Record):
    """One program to be: a clause (its own annotated copy of the tree) and the attach points that share it.

    Attach points share a program when nothing that the clause uses differs between them.
    """

    clause: Clause
    attach: list[Attach]
    args: Struct | None
    variables: list[ScratchVar]
    functions: dict[str, CheckedFunction] = {}

    @property
    def trees(self) -> list[Any]:
        """All that the program does: its predicate, its action, and the functions that it calls."""
        return [self.clause.predicate, self.clause.body, *[f.clause.body for f in self.functions.values()]]


class Options(Record):
    """What besides the text decides what a script means."""

    params: list[str] = []      # positional parameters
    named: dict[str, str] = {}  # --name=value after --
    pid: int = 0                # -p
    cpid: int = 0               # pid of the -c child
    unsafe: bool = False
    mode: str = ""              # "test" or "bench": run the probes of that kind, and no others but begin and end
    warnings: bool = True
    count_reads: bool = False   # -k: use counted helper reads instead of direct loads
    probe_filter: str = ""
    directories: list[str] = []  # -I: where headers are looked for
    headers: list[str] = []      # --include: read before the script
    timed: bool = False         # every record tells when it was made, also where their order does not need it
    env: dict[str, str] = {}    # BPFTRACE_* and SONDE_* variables
    gated: bool = False         # --budget: programs can be kept from working; see spec.Gate


class CheckedScript(Record):
    """A script without errors."""

    source: Source
    probes: list[CheckedProbe]
    maps: dict[str, ScriptMap]
    config: Config
    options: Options
    diagnostics: Any  # Diagnostics: warnings
