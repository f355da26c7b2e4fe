"""Types of user programs as plain data, and back. A struct is sent without its members, but with the number of its
entry in the debug information, by which they are fetched when needed: types refer to each other in cycles.
"""

from __future__ import annotations

from ...type_codec import CodecRow, TypeCodec, need
from ...types import USER, Array, Bool, Enum, Float, Int, NoneType, Pointer, Real, Str, Struct, StructField, Type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from ...base.json_checks import Json

    Load: TypeAlias = Callable[[int], tuple[StructField, ...]]

MOST_NAMES = 4096  # of an enum


class UserStruct(Struct):
    """A struct that an ``entry`` of debug information describes."""

    entry: int = 0


class _UserTypes(TypeCodec):
    """``load`` gets the members of a struct by its entry."""

    rows = {
        "struct": CodecRow(UserStruct, ("name", "bytes", "union", "alignment", "entry")),
        "enum": CodecRow(Enum, Enum._fields),
        "pointer": CodecRow(Pointer, ("to",), {"space": USER}),
        "array": CodecRow(Array, Array._fields),
        "str": CodecRow(Str, Str._fields),
        "int": CodecRow(Int, Int._fields),
        "float": CodecRow(Float, Float._fields),
        "real": CodecRow(Real, Real._fields),
        "bool": CodecRow(Bool, ()),
        "void": CodecRow(NoneType, ()),
    }

    def __init__(self, load: Load) -> None:
        super().__init__()
        self._load = load

    def make(self, row: CodecRow, parts: dict[str, Json]) -> Any:
        if row.kind is not UserStruct:
            return super().make(row, parts)
        name, size, union, alignment, entry = [
            self.read(form, part) for form, part in zip(("str", "int", "bool", "int", "int"), parts.values())]
        need(0 <= size < self.most and 0 <= entry < 1 << 63 and alignment in (1, 2, 4, 8, 16, 32, 64),
             "a struct of no such size")
        return Struct(name, size, lambda: self._load(entry), union, 0, alignment)


def _refuse_members(entry: int) -> tuple[StructField, ...]:
    raise AssertionError(f"entry {entry} is read to be checked, not to be used")


def pack_type(type: Type) -> Json:
    """A type as plain data."""
    if isinstance(type, Enum):
        type = Enum(type.name, type.bits, type.signed, dict(list(type.names.items())[:MOST_NAMES]))
    return _UserTypes(_refuse_members).pack(type)


def is_type(plain: Json) -> bool:
    """Whether plain data describes a type."""
    try:
        unpack_type(plain, _refuse_members)
    except ValueError:
        return False
    return True


def unpack_type(plain: Json, load: Load) -> Type:
    """The type; ``load`` gets the members of a struct by its entry."""
    read: Type = _UserTypes(load).read("Type", plain)
    return read
