"""The text of floating-point numbers by C's printf: %f %e %g %a, with flags, width and precision."""

from __future__ import annotations

from ..spec import FormatPart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_FRACTION = 52  # bits


def float_renderer(part: FormatPart) -> Callable[[float], bytes]:
    """The conversion of one number."""
    rest = part.spec.lstrip("-+ #0")
    flags, (wide, point, precise) = part.spec[:len(part.spec) - len(rest)], rest.partition(".")
    width, precision, conversion = int(wide or 0), int(precise or 0) if point else -1, part.conversion
    endless = "%F" if conversion.isupper() else "%f"  # of infinities and NaNs
    plain = f"%{'#' if '#' in flags else ''}{rest[len(wide):]}{conversion}"

    def render(value: float) -> bytes:
        finite = value - value == 0
        text = _hexadecimal(value, conversion, precision, "#" in flags) if finite and conversion in "aA" else \
            (plain if finite else endless) % value
        sign = "-" if text[0] == "-" else "+" if "+" in flags else " " if " " in flags else ""
        digits = text.removeprefix("-")
        if "-" in flags:
            return f"{sign}{digits}".ljust(width).encode()
        if "0" in flags and finite:  # C pads infinities and NaNs with spaces
            sign, digits = (sign + digits[:2], digits[2:]) if conversion in "aA" else (sign, digits)
            return (sign + digits.rjust(width - len(sign), "0")).encode()
        return f"{sign}{digits}".rjust(width).encode()
    return render


def _hexadecimal(value: float, conversion: str, precision: int, point: bool) -> str:
    """``0x1.8p+1``: without a precision, as many digits as are needed."""
    head, _, power = abs(value).hex().partition("p")
    whole, _, digits = head.removeprefix("0x").partition(".")
    bits = int(whole + digits.ljust(_FRACTION // 4, "0"), 16)
    digit_count = _FRACTION // 4 if precision < 0 else precision
    lost = 4 * max(_FRACTION // 4 - digit_count, 0)
    if lost:
        half, rest = 1 << lost - 1, bits & (1 << lost) - 1
        bits = (bits >> lost) + (rest > half or rest == half and bits >> lost & 1)
    shown = min(digit_count, _FRACTION // 4)
    fraction = f"{bits & (1 << 4 * shown) - 1:0{shown}x}" if shown else ""
    fraction = fraction.rstrip("0") if precision < 0 else fraction.ljust(precision, "0")
    sign = "-" if str(value)[0] == "-" else ""
    text = f"{sign}0x{bits >> 4 * shown}{'.' if fraction or point else ''}{fraction}p{power}"
    return text.upper() if conversion == "A" else text
