"""Which functions take a pointer to a struct: asked of a whole BTF blob at once, in passes over its ids."""

from __future__ import annotations

from . import codec
from .query import Btf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

REGISTERS = 6  # for arguments, on the architectures that have the fewest
_WIDE = frozenset((codec.STRUCT, codec.UNION, codec.FLOAT))
_POINTER, _PROTOTYPE, _FUNCTION = (frozenset((kind,)) for kind in (codec.PTR, codec.FUNC_PROTO, codec.FUNC))


class _Takers:
    """What a blob has, its base's included: ids of the struct, qualified or not; of pointers to it; and of prototypes
    with such a pointer, each with the pointer's position."""

    def __init__(self, btf: Btf, struct: str, base: _Takers | None) -> None:
        self.btf = btf
        own = {number for number, kind in btf.ids_of_name(struct) if kind == codec.STRUCT}
        self.structs: set[int] = self._with_qualified(own | (base.structs if base else set()))
        pointers = self._ids_referring(_POINTER, self.structs)
        self.pointers: set[int] = self._with_qualified(pointers | (base.pointers if base else set()))
        self.positions: dict[int, int] = dict(base.positions) if base else {}
        self._add_positions()

    def _ids_referring(self, kinds: frozenset[int], targets: set[int]) -> set[int]:
        return {number for number, value, _, _ in self.btf.references(kinds) if value in targets}

    def _with_qualified(self, targets: set[int]) -> set[int]:
        """With those that are const, volatile, or both."""
        once = targets | self._ids_referring(codec.MODIFIERS, targets)
        return once if len(once) == len(targets) else once | self._ids_referring(codec.MODIFIERS, once)

    def _add_positions(self) -> None:
        """Not of prototypes in which a parameter before it may not be in one register."""
        btf, pointers = self.btf, self.pointers
        for number, _, at, count in btf.references(_PROTOTYPE):
            types = btf.parameter_types(at, min(count, REGISTERS))
            if not pointers.isdisjoint(types):
                position = next(i for i, type in enumerate(types) if type in pointers)
                if not any(btf.skip_modifiers(type).kind in _WIDE for type in types[:position]):
                    self.positions[number] = position

    def functions(self) -> Iterator[tuple[str, int]]:
        for number, value, _, _ in self.btf.references(_FUNCTION):
            if value in self.positions:
                yield self.btf.raw_type(number).name, self.positions[value]


def functions_taking(blobs: Iterable[tuple[str, Btf]], struct: str) -> Iterator[tuple[str, str, int]]:
    """(owner, name, position) of each function of the kernel's blob and of its modules' that has a parameter ``struct
    NAME *``, const or not: the position of the first such parameter, counted from 0."""
    base: _Takers | None = None
    for owner, btf in blobs:
        takers = _Takers(btf, struct, base if btf.base is not None else None)
        base = base or takers
        yield from [(owner, name, position) for name, position in takers.functions()]
