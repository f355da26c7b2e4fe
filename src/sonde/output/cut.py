"""Numbers of 64 bits that a conversion for 32, as ``%d``, prints as another number."""

from __future__ import annotations

from ..base.words import MASK
from ..spec import FormatPart
from ..types import Type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    OnCut: TypeAlias = "Callable[[FormatPart, int], object]"  # is told of the conversion, and of the number

_LAST_ERROR = 4095  # include/linux/err.h


def lower_half(part: FormatPart, type: Type, tell: OnCut) -> Callable[[int, int], int]:
    """The lower 32 bits of a number, after telling of it if what is printed means another. Not if the upper half is
    only the sign (of a number without one: of an error's, as in ``%x`` of -2), and not if it is 0 and the conversion
    has a sign: a function that returns -2 as an int may leave it so."""
    signed, type_signed = part.conversion in "di", bool(getattr(type, "signed", False))
    least = -(1 << 31) if signed or type_signed else -_LAST_ERROR
    end = 1 << (31 if signed else 32)

    def take_lower(lower: int, upper: int) -> int:
        whole = upper << 32 | lower & 0xFFFFFFFF
        if not least <= whole < end:
            tell(part, whole if type_signed else whole & MASK)
        return lower
    return take_lower
