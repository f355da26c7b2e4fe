"""How values of the evaluator print: a second opinion on the text of print() and printf().

Values are plain: integers and booleans are ``int``, strings ``bytes``, tuples, records and arrays ``tuple``; an
aggregate is an :class:`Aggregation`. What they print as depends on their type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from evaluator_memory import Object, Reference
from sonde.spec import FormatPart
from sonde.types import Aggregate, Array, Bool, Buf, Enum, Int, Pointer, Str, Struct, Tuple, Type


def cut(value: int, type: Type | None) -> int:
    """``value`` in a type's range, modulo 2 to the number of its bits."""
    if isinstance(type, Bool):
        return int(value != 0)
    assert isinstance(type, (Int, Enum, Pointer)), type
    bits, signed = (64, False) if isinstance(type, Pointer) else (type.bits, type.signed)
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def converted(value: Any, have: Type | None, want: Type | None) -> Any:
    """A value as another type of its kind: integers wrap, strings are cut to their place."""
    if isinstance(want, (Int, Bool, Enum, Pointer)) and not isinstance(value, Reference):
        return cut(value, want)
    if isinstance(want, Str):
        return value[:want.capacity - 1]
    if isinstance(want, Tuple) and isinstance(have, Tuple):
        return tuple([converted(v, a, b) for v, a, b in zip(value, have.of, want.of)])
    return value


def c_divide(a: int, b: int) -> int:
    """C's division: towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


class Aggregation:
    """What a map value function has collected; the values of hist() and lhist() are counted by bucket (low, high)."""

    def __init__(self, type: Aggregate) -> None:
        self.type = type
        self.number = Int(64, type.signed)
        self.count, self.total = 0, 0
        self.low: int | None = None
        self.high: int | None = None
        self.buckets: Counter[tuple[int | None, int | None]] = Counter()

    def add(self, value: int) -> None:
        kept = cut(value, self.number)
        self.count += 1
        self.total = cut(self.total + kept, self.number)
        self.low = kept if self.low is None else min(self.low, kept)
        self.high = kept if self.high is None else max(self.high, kept)
        if self.type.kind in ("hist", "lhist"):
            self.buckets[_bucket(cut(value, Int(64)), self.type)] += 1

    def value(self) -> int:
        """What a program reads."""
        kind = self.type.kind
        if kind in ("min", "max"):
            return (self.low if kind == "min" else self.high) or 0
        return self.count if kind == "count" else self.total if kind == "sum" else self.average()

    def average(self) -> int:
        return c_divide(self.total, self.count) if self.count else 0

    def text(self) -> str:
        if self.type.kind == "stats":
            return self.statistics(1)
        if self.type.kind in ("hist", "lhist"):
            return buckets_text([(low, high, n) for (low, high), n in sorted(self.buckets.items(), key=bucket_order)])
        return str(self.value())

    def statistics(self, div: int) -> str:
        return f"{{ .count = {self.count}, .average = {c_divide(self.average(), div)}, .total = {self.total} }}"

    def order(self) -> int:
        """What maps of these are ordered by."""
        kind = self.type.kind
        return self.average() if kind == "stats" else self.count if kind in ("hist", "lhist") else self.value()


def buckets_text(buckets: list[tuple[int | None, int | None, int]]) -> str:
    """The buckets in use: here in place of the drawing."""
    return str(buckets)


def bucket_order(item: tuple[tuple[int | None, int | None], int]) -> int:
    """The lowest first; the one below all has no lower end."""
    low = item[0][0]
    return -(1 << 70) if low is None else low


def _bucket(value: int, type: Aggregate) -> tuple[int | None, int | None]:
    """The bounds [low, high) of the bucket that a value falls into."""
    if type.kind == "lhist":
        if not type.low <= value < type.high:
            return (None, type.low) if value < type.low else (type.high, None)
        low = value - (value - type.low) % type.step
        return low, low + type.step
    if value < 0:
        return None, 0
    width = 1 << max(0, value.bit_length() - 1 - type.bits)  # each power of two is cut into 2**bits parts
    low = value // width * width
    return low, low + width


def text(value: Any, type: Type | None, div: int = 1) -> str:
    """As print() writes it, its numbers divided."""
    if isinstance(value, Aggregation):
        return value.text()
    if isinstance(type, Bool):
        return "true" if value else "false"
    if isinstance(type, Tuple):
        inner = [text(v, t, div) for v, t in zip(value, type.of)]
        if type.names:
            return "{ " + ", ".join([f".{name} = {shown}" for name, shown in zip(type.names, inner)]) + " }"
        return f"({', '.join(inner)})"
    if isinstance(type, Array):
        return f"[{','.join([text(v, type.of, div) for v in value])}]"
    if isinstance(type, Struct):
        return "{ " + ", ".join([f".{name} = {text(v, t, div)}" for name, v, t in members(value, type)]) + " }"
    if isinstance(type, Buf):
        return "".join([chr(b) if 0x20 <= b < 0x7F else f"\\x{b:02x}" for b in value])
    if isinstance(type, Pointer):
        return hex(value)
    if isinstance(type, Enum):
        return type.names.get(value, str(value))
    if isinstance(type, Int):
        return str(c_divide(value, div))
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def members(value: Object, type: Struct) -> list[tuple[str, Any, Type]]:
    """Name, value and type of every member, those of anonymous ones in their place."""
    found = []
    for field in type.fields:
        if field.name:
            found.append((field.name, value.member(type, field.name), field.type))
        else:
            assert isinstance(field.type, Struct)
            found += [(name, value.member(type, name), inner.type) for name in field.type.field_names()
                      if (inner := field.type.field(name)) is not None]
    return found


def ordered(type: Type, key_type: Type | None, items: dict[Any, Any], top: int) -> list[tuple[Any, Any]]:
    """The elements of a map: numbers and aggregates by rising value, equal ones and all others by key; the last
    ``top``."""
    found = sorted(items.items(), key=lambda item: () if key_type is None else item[0])
    if isinstance(type, Aggregate):
        found.sort(key=lambda item: int(item[1].order()))
    elif isinstance(type, (Int, Enum)):
        found.sort(key=lambda item: int(item[1]))
    return found[-top:] if top else found


def map_lines(name: str, type: Type, key_type: Type | None, items: dict[Any, Any], top: int = 0,
              div: int = 1) -> list[str]:
    """The lines of a map."""
    return [f"{_label(name, key, key_type)}: {divided(value, type, div)}"
            for key, value in ordered(type, key_type, items, top)]


def _label(name: str, key: Any, type: Type | None) -> str:
    if type is None:
        return name
    if isinstance(type, Tuple) and not type.names:
        return f"{name}[{', '.join([text(k, t) for k, t in zip(key, type.of)])}]"
    return f"{name}[{text(key, type)}]"


def divided(value: Any, type: Type, div: int) -> str:
    """An element as print() of its map writes it with a divisor; 0 is none."""
    if div > 1 and isinstance(value, Aggregation) and type.kind in ("count", "sum", "min", "max", "avg"):  # type: ignore[attr-defined]
        return str(c_divide(value.value(), div))
    if div > 1 and isinstance(value, Aggregation) and type.kind == "stats":  # type: ignore[attr-defined]
        return value.statistics(div)
    return text(value, type, max(1, div))


# --- printf -----------------------------------------------------------------------------------------------

_LENGTHS = {"hh": 8, "h": 16, "": 32}
_DIGITS: dict[str, Callable[[int], str]] = {"x": "{:x}".format, "X": "{:X}".format, "o": "{:o}".format,
                                            "u": str, "d": str, "i": str}


def formatted(parts: list[FormatPart], values: list[Any], types: list[Type | None], json: bool = False) -> str:
    """What printf() prints: numbers as C's would, filled up as C++'s streams do. In JSON a character is itself."""
    rest = list(zip(values, types))
    return "".join([part.literal if not part.conversion else _conversion(part, *rest.pop(0), json) for part in parts])


def _conversion(part: FormatPart, value: Any, type: Type | None, json: bool) -> str:
    digits = part.spec.lstrip("-+ #0")
    flags = part.spec[:len(part.spec) - len(digits)]
    width, fill = int(digits.partition(".")[0] or 0), "0" if "0" in flags else " "
    shown = one_byte(value & 0xFF) if json and part.conversion == "c" else _unfilled(part, value, type, flags)
    return shown.ljust(width, fill) if "-" in flags else shown.rjust(width, fill)


def character(code: int) -> str:
    """What %c prints: what could end a line or steer a terminal is escaped."""
    named = {9: "\\t", 10: "\\n", 92: "\\\\"}
    if code in named or 0 < code < 32 or code == 127:
        return named.get(code, f"\\x{code:02x}")
    return one_byte(code)


def one_byte(code: int) -> str:
    """A byte as text."""
    return bytes([code]).decode("utf-8", "surrogateescape")


def _unfilled(part: FormatPart, value: Any, type: Type | None, flags: str) -> str:
    if part.conversion == "s":
        return text(value, type)
    if part.conversion in ("r", "rx", "rh"):
        form = {"r": "", "rx": "\\x{:02x}", "rh": "{:02x}"}[part.conversion]
        return (" " if part.conversion == "rh" else "").join(map(form.format, value)) if form else text(value, type)
    if part.conversion == "p":
        return hex(value & (1 << 64) - 1) if value else "0"
    if part.conversion == "c":
        return character(value & 0xFF)
    return "".join(_number(part, value, flags))


def _number(part: FormatPart, value: int, flags: str) -> tuple[str, str]:
    """Sign or prefix, and digits."""
    signed = part.conversion in "di"
    number = cut(value, Int(_LENGTHS.get(part.length, 64), signed))
    sign = "-" if number < 0 else "+" if signed and "+" in flags else ""
    if part.conversion in "xX" and "#" in flags and number:
        sign = "0" + part.conversion
    if part.conversion == "o" and "#" in flags and number:
        sign = "0"
    return sign, _DIGITS[part.conversion](abs(number))


def zero(type: Type) -> Any:
    """What a variable without a value, or an element that is not there, is."""
    if isinstance(type, Aggregate):
        return Aggregation(type)
    if isinstance(type, Tuple):
        return tuple([zero(t) for t in type.of])
    if isinstance(type, Array):
        return tuple([zero(type.of)] * type.count)
    if isinstance(type, Struct):
        return Object(bytes(type.size))
    return b"" if isinstance(type, (Str, Buf)) else 0
