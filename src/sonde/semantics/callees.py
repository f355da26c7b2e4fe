"""What the checker knows about the language's functions and builtins: a row each, in the rooms :mod:`sonde.functions`
and :mod:`sonde.builtins`."""

from __future__ import annotations

from ..base.fast_stdlib import TypeVar, cache
from ..base.record import Record
from ..language.ast import Call, Callee, Cast, Choice, Expr, Reference
from ..spec import Config
from ..types import Type
from .nodes import walk_nodes
from .script_options import Options
from .world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from .context import CheckContext

Types: TypeAlias = "Sequence[Type | None]"  # of the arguments; None for one that is no value (a map, a name)
Rule: TypeAlias = "Callable[[CheckContext, Call, Types], Type | None]"
Answer: TypeAlias = "Callable[[Call, World, Options, Config], bool | None]"


def value_type(type: Type | None) -> Type:
    """The type of an argument that the row wants to be a value."""
    assert type is not None
    return type


class Parameter(Record):
    """A parameter of a function: the kinds of arguments that it takes."""

    name: str
    kinds: list[str]
    optional: bool


@cache
def _read_parameters(params: tuple[str, ...]) -> tuple[Parameter, ...]:
    return tuple([Parameter(name, kinds.split("|"), text.endswith("?")) for text in params if text != "..."
                  for name, _, kinds in [text.rstrip("?").partition(":")]])


class FunctionRow(Callee):
    """A row. Arity, kinds of arguments, type and documentation follow from it.

    ``params`` are ``name:kind|kind``, with ``?`` if optional and ``...`` for "any more". Kinds: int (or integer, as
    some messages have it) ptr str text (a string, or a pointer to one) buf array bool stack any; ``literal`` a constant
    string, ``number`` a constant integer; and what is no value: ``map`` (@x, or @x[k]), ``var``, ``type``, ``word``,
    ``raw`` (the rule checks it).
    ``rule`` gives the type of a call where it is not always ``result``, None after an error, and leaves in the call's
    ``choice`` what the lowering cannot see.
    """

    params: tuple[str, ...]
    result: Type | None
    documentation: str
    example: str
    rule: Rule | None = None
    sends: str = ""             # "data" or "control": the ring by which user space learns that it is to act
    unsafe: bool = False
    aggregate: bool = False     # only as the value of @x = ...
    probes: tuple[str, ...] = ()
    on_map: str = ""            # "look", "delete", "clear", "zero" or "print": what it does to the map that it is given
    machine: bool = False       # it is about the machine or the task on which it runs: no recording can answer
    acts: bool = False          # its value may be left lying: it is called for what it does, too
    ends: bool = False          # the program does not go on after it
    cost: int = 30              # instructions that the verifier looks at, roughly
    library: str = ""           # the file of stdlib/ that has it, as a macro
    macro: bool = False         # it is a macro in bpftrace's standard library, which words some errors differently
    named_by: int = 0           # the argument that its value is called after, as a column
    parameter: bool = False     # it names a parameter of the script
    settles: bool = False       # what a condition with it rules out is not checked at all
    pinned: Rule | None = None  # instead of ``rule`` in an iterator that runs when its pin is read, without Sonde
    answer: Answer | None = None  # what it is where that decides whether its clause is there at all, if that is known
    wrong: Mapping[str, str] = {}  # what to say of a wrong argument, by its parameter, or of a wrong place ("probe")

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters, without the "..." for more."""
        return _read_parameters(self.params)

    @property
    def least_arguments(self) -> int:
        """How many arguments it takes at least."""
        return sum([not parameter.optional for parameter in self.parameters])

    @property
    def takes_more(self) -> bool:
        return "..." in self.params

    @property
    def signature(self) -> str:
        """``str(data[, length])``."""
        text = ""
        for at, param in enumerate(self.params):
            name, comma = param.rstrip("?").partition(":")[0], ", " if at else ""
            text += f"[{comma}{name}]" if param.endswith("?") else f"{comma}{name}"
        return f"{self.name}({text})"

    @property
    def limits(self) -> list[str]:
        """Where it can be used, if not everywhere."""
        return [*(["as a map's value only"] if self.aggregate else []), *(["needs --unsafe"] if self.unsafe else []),
                *([f"in {', '.join(self.probes)}"] if self.probes else [])]

    @property
    def sets_variable(self) -> bool:
        """Whether an argument is a variable that it gives a value to."""
        return any("var" in parameter.kinds for parameter in self.parameters)

    def takes_text(self, at: int) -> bool:
        """Whether argument ``at`` is a string."""
        return at < len(self.parameters) and not {"str", "text"}.isdisjoint(self.parameters[at].kinds)


class BuiltinRow(Callee):
    """A name that stands for a value of the event.

    ``type`` is a type or a rule for it. ``probes``: the kinds it works in (all if empty); ``misuse`` is what is said of
    other kinds, with {kind}, {type} and {instead}. ``pure``: the same during one run of a program. ``call`` is the rule
    of its call form, ``arguments`` what that may name.
    """

    type: Type | Callable[[CheckContext, Reference], Type | None]
    documentation: str
    pure: bool = True
    probes: tuple[str, ...] = ()
    call: Callable[[CheckContext, Call], Type | None] | None = None
    arguments: str = ""
    clock: bool = False
    cost: int = 6               # instructions that the verifier looks at, roughly
    misuse: str = "can not be used with '{kind}' probes"
    of_programs: bool = False   # it also works in fentry and fexit of BPF programs


Functions: TypeAlias = "Mapping[str, FunctionRow]"
Builtins: TypeAlias = "Mapping[str, BuiltinRow]"


class Language(Record):
    """The names that the language has."""

    functions: Functions
    builtins: Builtins


def row_of(node: object) -> FunctionRow | None:
    """The row of the function that a checked node calls; None if it is no call of one of these."""
    return node.callee if isinstance(node, Call) and isinstance(node.callee, FunctionRow) else None


def settles_branch(condition: Expr) -> bool:
    """Whether a condition is constant by what leaves a branch out unchecked: ``comptime`` and its like."""
    return condition.const is not None and any(
        (row := row_of(node)) is not None and row.settles for node in walk_nodes(condition))


def is_written(node: Expr, *but: type[Expr]) -> bool:
    """Whether a constant is computed from what the script itself writes, without calls, conversions or nodes of the
    classes ``but``; or is an argument of ``comptime``."""
    return settles_branch(node) or node.const is not None and not any(
        isinstance(part, (Cast, *but)) or isinstance(part, Reference) and part.callee is not None
        for part in walk_nodes(node))


def deletes_key(node: object) -> bool:
    """Whether a node deletes an element of a map."""
    row = row_of(node)
    return row is not None and row.on_map == "delete"


def is_clock(node: object) -> bool:
    """Whether a checked node reads a clock."""
    return isinstance(node, Reference) and isinstance(node.callee, BuiltinRow) and node.callee.clock


def argument_number(node: Reference) -> int:
    """The number of ``arg0``, ``arg1`` ..."""
    return int(node.name.removeprefix("__builtin_").removeprefix("arg"))


Chosen = TypeVar("Chosen", bound=Choice)


def choice_of(node: Reference, kind: type[Chosen]) -> Chosen:
    """What the rule of a call chose, for a lowering that knows what that is."""
    assert isinstance(node.choice, kind), f"{node.name}(): {node.choice!r}"
    return node.choice
