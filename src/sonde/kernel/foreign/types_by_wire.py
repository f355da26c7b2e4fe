"""Types of user programs as plain data, and back. A struct is sent without its members, but with the number of its
entry in the debug information, by which they are fetched when needed: types refer to each other in cycles.
"""

from __future__ import annotations

from collections.abc import Callable

from ...base.json_checks import Json, as_flag, as_integer, as_list, as_text
from ...types import BOOL, USER, VOID, Array, Bool, Enum, Int, Pointer, Str, Struct, StructField, Type

MOST_NAMES = 4096  # of an enum
_DEPTH = 64
_COUNT = 1 << 31

Load = Callable[[int], tuple[StructField, ...]]


class UserStruct(Struct):
    """A struct that an ``entry`` of debug information describes."""

    entry: int = 0


def pack_type(type: Type) -> list[Json]:
    """A type as plain data."""
    if isinstance(type, UserStruct):
        return ["struct", type.name, type.bytes, type.union, type.alignment, type.entry]
    if isinstance(type, Enum):
        return ["enum", type.name, type.bits, type.signed, [[*pair] for pair in list(type.names.items())[:MOST_NAMES]]]
    if isinstance(type, Pointer):
        return ["pointer", pack_type(type.to)]
    if isinstance(type, Array):
        return ["array", pack_type(type.of), type.count]
    if isinstance(type, Str):
        return ["str", type.size]
    if isinstance(type, Int):
        return ["int", type.bits, type.signed]
    return ["bool"] if isinstance(type, Bool) else ["void"]


def _is_number(value: Json, end: int = _COUNT) -> bool:
    return type(value) is int and 0 <= value < end


def is_type(data: Json, depth: int = 0) -> bool:
    """Whether plain data describes a type."""
    if not isinstance(data, list) or not data or depth > _DEPTH:
        return False
    kind, rest = data[0], data[1:]
    if kind == "struct" and len(rest) == 5:
        return type(rest[0]) is str and _is_number(rest[1]) and type(rest[2]) is bool and rest[3] in (
            1, 2, 4, 8, 16, 32, 64) and _is_number(rest[4], 1 << 63)
    if kind == "enum" and len(rest) == 4:
        return type(rest[0]) is str and rest[1] in (8, 16, 32, 64) and type(rest[2]) is bool and type(
            rest[3]) is list and all(type(pair) is list and len(pair) == 2 and type(pair[0]) is int
                                     and -1 << 63 <= pair[0] < 1 << 64 and type(pair[1]) is str for pair in rest[3])
    if kind == "pointer" and len(rest) == 1:
        return is_type(rest[0], depth + 1)
    if kind == "array" and len(rest) == 2:
        return _is_number(rest[1]) and is_type(rest[0], depth + 1)
    if kind == "int" and len(rest) == 2:
        return rest[0] in (8, 16, 32, 64) and type(rest[1]) is bool
    return kind == "str" and len(rest) == 1 and _is_number(rest[0]) or data in (["bool"], ["void"])


def unpack_type(data: list[Json], load: Load) -> Type:
    """The type; ``load`` gets the members of a struct by its entry."""
    kind, *rest = data
    if kind == "struct":
        entry = as_integer(rest[4])
        return Struct(as_text(rest[0]), as_integer(rest[1]), lambda: load(entry), as_flag(rest[2]), 0,
                      as_integer(rest[3]))
    if kind == "enum":
        names = {as_integer(number): as_text(name) for number, name in map(as_list, as_list(rest[3]))}
        return Enum(as_text(rest[0]), as_integer(rest[1]), as_flag(rest[2]), names)
    if kind == "pointer":
        return Pointer(unpack_type(as_list(rest[0]), load), USER)
    if kind == "array":
        return Array(unpack_type(as_list(rest[0]), load), as_integer(rest[1]))
    if kind == "int":
        return Int(as_integer(rest[0]), as_flag(rest[1]))
    return Str(as_integer(rest[0])) if kind == "str" else BOOL if kind == "bool" else VOID
