"""JSON that anybody may have written: its values checked for the expected types, with ValueError for any other."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
JsonObject: TypeAlias = "dict[str, Json]"


def as_object(plain: Json) -> JsonObject:
    if not isinstance(plain, dict):
        raise ValueError("no object")
    return plain


def as_list(plain: Json, most: int | None = None) -> list[Json]:
    if not isinstance(plain, list) or most is not None and len(plain) > most:
        raise ValueError("no list")
    return plain


def as_row(plain: Json, length: int) -> list[Json]:
    """A list of exactly ``length`` values."""
    row = as_list(plain, length)
    if len(row) != length:
        raise ValueError("a list of another length")
    return row


def as_text(plain: Json) -> str:
    if not isinstance(plain, str):
        raise ValueError("no text")
    return plain


def as_texts(plain: Json, most: int | None = None) -> list[str]:
    return list(map(as_text, as_list(plain, most)))


def as_flag(plain: Json) -> bool:
    if not isinstance(plain, bool):
        raise ValueError("neither true nor false")
    return plain


def as_integer(plain: Json, low: int = -1 << 63, end: int = 1 << 64) -> int:
    """An integer from ``low`` up to, not including, ``end``."""
    if not isinstance(plain, int) or isinstance(plain, bool) or not low <= plain < end:
        raise ValueError("no such number")
    return plain


def as_integers(plain: Json, low: int = -1 << 63, end: int = 1 << 64) -> list[int]:
    return [as_integer(each, low, end) for each in as_list(plain)]
