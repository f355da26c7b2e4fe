"""Which mentions of ``probe`` have to be strings.

``probe`` is a number by which names are found when it is printed, so that one program serves many attach points. Where
a string meets it, as in ``@seen["begin"] = 1; @seen[probe]++``, it has to be one: then each attach point gets a
program of its own, in which the name is a constant.
"""

from __future__ import annotations

from ..language.ast import Assign, Call, Clause, MapRef, Node, Reference, StrLiteral, Ternary, TupleExpr, Variable
from ..types import Str
from .callees import BuiltinRow, FunctionRow
from .nodes import walk_nodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from .callees import Language


def mark_names(clauses: Sequence[Clause], language: Language) -> None:
    """Set ``as_text`` of each ``probe`` that a string meets."""
    meetings = _Meetings(language)
    for number, clause in enumerate(clauses):
        meetings.read_clause(number, walk_nodes([clause.predicate, clause.body]))
    for node in meetings.find_names():
        node.as_text = True


def takes_name(clause: Clause) -> bool:
    """Whether a clause needs the name of its attach point as a string: a program for each name."""
    return any(isinstance(n, Reference) and n.as_text for n in walk_nodes([clause.predicate, clause.body]))


class _Meetings:
    """Nodes grouped by what is stored where they are: a variable, a part of a map's key or of its value."""

    def __init__(self, language: Language) -> None:
        self.functions, self.builtins = language.functions, language.builtins
        self._clause = 0
        self._groups: dict[Hashable, Hashable] = {}  # place -> another one of its group, in the end itself
        self._names: list[tuple[Hashable, Reference]] = []
        self._text: list[Hashable] = []  # places where strings are

    def read_clause(self, number: int, nodes: Iterable[Node]) -> None:
        """Add what the clause of this number stores and compares."""
        self._clause = number
        for node in nodes:
            if isinstance(node, Assign) and node.op == "=":
                self._bind(self._storage_of(node.target), node.value)
            elif isinstance(node, Ternary) and node.then is not None:
                for branch in (node.then, node.other):
                    self._bind(id(node), branch)
            elif isinstance(node, MapRef) and node.key is not None:
                self._bind((node.name, "key"), node.key)
            elif isinstance(node, Call):
                self._read_call(node)

    def find_names(self) -> list[Reference]:
        """Each ``probe`` in a group with a string."""
        text = {self._group(position) for position in self._text}
        return [node for position, node in self._names if self._group(position) in text]

    def _read_call(self, node: Call) -> None:
        row = self.functions.get(node.name)
        if len(node.args) == 2 and isinstance(node.args[0], MapRef) and node.args[0].key is None:
            self._bind((node.args[0].name, "key"), node.args[1])  # delete(@m, key), has_key(@m, key)
        for at, arg in enumerate(node.args):
            if row is None or row.takes_text(at) or node.name == "str" and at == 0:
                self._bind(id(arg), arg)
                self._text.append(id(arg))

    def _storage_of(self, node: Node) -> Hashable:
        if isinstance(node, Variable):
            return self._clause, node.name
        return (node.name, "value") if isinstance(node, MapRef) else None

    def _bind(self, position: Hashable, value: Node) -> None:
        """Note that ``value`` is stored at, or compared with, ``position``."""
        if isinstance(value, TupleExpr):
            for at, item in enumerate(value.items):
                self._bind((position, at), item)
        elif isinstance(value, (Variable, MapRef)):
            self._groups[self._group(position)] = self._group(self._storage_of(value))
        elif isinstance(value, Ternary):
            self._groups[self._group(position)] = self._group(id(value))
        elif isinstance(value, Reference) and value.name == "probe":
            self._names.append((position, value))
        elif isinstance(value, StrLiteral) or isinstance(value, Reference) and self._yields_text(value.name):
            self._text.append(position)

    def _group(self, position: Hashable) -> Hashable:
        while position in self._groups and self._groups[position] != position:
            position = self._groups[position]
        return position

    def _yields_text(self, name: str) -> bool:
        row: FunctionRow | BuiltinRow | None = self.functions.get(name) or self.builtins.get(name)
        type = row.result if isinstance(row, FunctionRow) else row and row.type
        return name == "str" or isinstance(type, Str)
