"""Types of a script that is still being parsed: what constant expressions in C definitions measure."""

from __future__ import annotations

from ..language.ast import CEnum, CStruct, CTypedef, TypeSyntax
from ..language.diagnostics import Diagnostics
from ..types import Type
from .ctypes_ import TypeNames
from .world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..language.cdecl import Definition


class DefinedTypes:
    """``find(written, definitions)``: the type so written, laid out when it is asked for; None if nobody defines it.

    ``definitions`` hold those within others too, and only grow between two questions, unless the reading of a header
    starts over. Each is laid out once, with those that it consists of.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._forget()

    def _forget(self) -> None:
        self._names = TypeNames(self._world, Diagnostics())
        self._known: list[Definition] = []
        self._waiting: dict[str, int] = {}  # name → its place among the known

    def find(self, written: TypeSyntax, definitions: Sequence[Definition]) -> Type | None:
        if len(definitions) < len(self._known) or self._known and definitions[len(self._known) - 1] is not \
                self._known[-1]:
            self._forget()
        for item in definitions[len(self._known):]:
            self._waiting[_name_of(item)] = len(self._known)
            self._known.append(item)
        self._define(written.base)
        base = self._names.find_type(written.base)
        if base is None and not written.pointers:
            return None
        return self._names.resolve_type(written)

    def _define(self, base: str) -> None:
        """Lay out the definition of that name, after all those that it consists of."""
        needed, questions = set[int](), [base]
        while questions:
            index = self._waiting.pop(questions.pop(), None)
            if index is not None and index not in needed:
                needed.add(index)
                questions += _parts_of(self._known[index])
        self._names.define_types([self._known[index] for index in sorted(needed)])


def _name_of(item: Definition) -> str:
    """What types call a definition."""
    if isinstance(item, CTypedef):
        return item.name
    return f"{'enum' if isinstance(item, CEnum) else 'union' if item.union else 'struct'} {item.name}"


def _parts_of(item: Definition) -> Iterator[str]:
    """The types whose sizes decide that of a definition."""
    if isinstance(item, CTypedef):
        yield item.type.base
    elif isinstance(item, CStruct):
        for field in item.fields:
            if field.inline is not None:
                yield from _parts_of(field.inline)
            elif not field.type.pointers:
                yield field.type.base
