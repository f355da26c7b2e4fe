"""Units: of maps, from their names (``@usecs``, ``@wait_ms``, ``@tx_bytes``) or what the script says of them, and of
columns."""

from __future__ import annotations

from ..base.record import Value
from ..spec import MapSpec
from ..types import Aggregate


class Unit(Value):
    """``symbol`` as a person reads it; ``base`` the unit in which metrics are told, with its UCUM code: a value times
    ``times`` and divided by ``parts`` is in it. ``words`` are what names and descriptions call it."""

    symbol: str
    base: str
    code: str
    times: int
    parts: int
    words: tuple[str, ...]


UNITS = (
    Unit("ns", "seconds", "s", 1, 10**9, ("ns", "nsec", "nsecs", "nanoseconds")),
    Unit("µs", "seconds", "s", 1, 10**6, ("us", "usec", "usecs", "µs", "microseconds")),
    Unit("ms", "seconds", "s", 1, 10**3, ("ms", "msec", "msecs", "milliseconds")),
    Unit("s", "seconds", "s", 1, 1, ("s", "sec", "secs", "seconds")),
    Unit("B", "bytes", "By", 1, 1, ("bytes",)),
    Unit("KB", "bytes", "By", 1024, 1, ("kb", "kib", "kilobytes")),
    Unit("B/s", "bytes_per_second", "By/s", 1, 1, ("bytes/s",)),
    Unit("%", "ratio", "1", 1, 100, ("percent", "pct", "percentage")),
)
# By base unit: symbols, greatest first, with how many of the base each is, over a common part: 1 ns, 1 B.
_SCALES = {"seconds": (10**9, (("s", 10**9), ("ms", 10**6), ("µs", 10**3), ("ns", 1))),
           "bytes": (1, tuple([(f"{prefix}B", 1 << power) for prefix, power in
                               (("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10), ("", 0))]))}
_BY_SYMBOL = {unit.symbol: unit for unit in UNITS}
_BY_WORD = {word: unit for unit in UNITS for word in unit.words}
_NO_UNIT = {"count", "per", "rate", "ratio"}  # a name with one of these has no unit, whatever else is in it


def _unit_part(name: str) -> int:
    """Which of the parts of a name between underscores is its unit: the last, the one before ``total``, or the first;
    -1 if none. A single letter is one only after others."""
    parts = name.removeprefix("@").lower().split("_")
    if _NO_UNIT & {*parts}:
        return -1
    for at in (len(parts) - 1, len(parts) - 2 if parts[-1] == "total" else -1, 0):
        if at >= 0 and parts[at] in _BY_WORD and (at or len(parts[at]) > 1):
            return at
    return -1


def named_unit(name: str) -> Unit | None:
    """The unit that a map's or a column's name says."""
    at = _unit_part(name)
    return _BY_WORD[name.removeprefix("@").lower().split("_")[at]] if at >= 0 else None


def bare_name(name: str) -> str:
    """A map's name without @ and its unit: ``total`` of ``@total_us``; "" of ``@usecs``."""
    parts, at = name.removeprefix("@").split("_"), _unit_part(name)
    return "_".join(parts[:at] + parts[at + 1:]) if at >= 0 else "_".join(parts)


def _find_word(description: str) -> tuple[int, int]:
    """Where a description says its unit: at the beginning, or after "in"; (0, 0) if it says none."""
    start = 0
    for before, word in zip(["", *description.split(" ")], description.split(" ")):
        bare = word.rstrip(",.;:)").lower()
        if bare in _BY_WORD and (len(bare) > 2 and not start or before == "in"):
            return start, start + len(bare)
        start += len(word) + 1
    return 0, 0


def described_unit(description: str) -> Unit | None:
    """The unit that a description says: "microseconds from ... to ...", "the limit, in bytes"."""
    start, end = _find_word(description)
    return _BY_WORD[description[start:end].lower()] if end else None


def in_base_unit(description: str, unit: Unit) -> str:
    """A description with the base unit in place of the one that it says."""
    start, end = _find_word(description)
    before = description[:start]
    if before.endswith("in ") and unit.base == "ratio":
        before = before.removesuffix("in ") + "as a "
    return before + unit.base.replace("_", " ") + description[end:] if end else description


def map_unit(named: MapSpec) -> Unit | None:
    """The unit of a map's values; None of those that count, and where nothing says one."""
    if isinstance(named.value, Aggregate) and named.value.kind == "count":
        return None
    return named_unit(named.name) or described_unit(named.about)


def map_symbol(named: MapSpec) -> str:
    """A map's unit as people write it; "" if it has none."""
    unit = map_unit(named)
    return unit.symbol if unit is not None else ""


def unit_origin(named: MapSpec) -> str:
    """A map's unit and who says it: ``in ns, by its name``; "" if it has none."""
    unit = map_unit(named)
    if unit is None:
        return ""
    return f"in {unit.symbol}, {'by its name' if named_unit(named.name) is not None else 'as the script says'}"


def is_time(symbol: str) -> bool:
    """Whether a unit is one of time."""
    return symbol in _BY_SYMBOL and _BY_SYMBOL[symbol].base == "seconds"


def scale_value(value: float, symbol: str) -> str:
    """A value with its unit for a reader: times and bytes in the unit that suits their size, to three digits (``1.27
    s`` of 1,265,077,774 ns, ``5.06 MiB/s``), others as they are (``12,345 samples``). scale.js does the same."""
    if symbol.endswith("/s"):  # a rate: what it is of in its unit
        return f"{scale_value(value, symbol.removesuffix('/s'))}/s"
    unit = _BY_SYMBOL.get(symbol)
    if unit is None or unit.base not in _SCALES:
        return f"{value:,.0f} {symbol.removesuffix('s') if value == 1 else symbol}".rstrip()
    parts, scale = _SCALES[unit.base]
    least = value * unit.times * parts / unit.parts
    name, size = next((each for each in scale if abs(least) >= 0.9995 * each[1]), scale[-1])
    scaled = least / size
    digits = 0 if abs(scaled) >= 99.95 or size == 1 and scaled == int(scaled) else 1 if abs(scaled) >= 9.995 else 2
    text = f"{scaled:,.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if digits else text} {name}"


class Heading(Value):
    """A column's heading, and the unit in which its cells are scaled; "" if they are shown as they are."""

    text: str
    symbol: str = ""


def is_scaled(symbol: str) -> bool:
    """Whether values in a unit are shown in the one that suits their size."""
    return symbol in _BY_SYMBOL and _BY_SYMBOL[symbol].base in _SCALES


def column_heading(name: str, description: str) -> Heading:
    """A column of a tool's table: scaled if its name says a unit in brackets (``LAT(us)``), or its description where
    the name says none. Where the name is a unit (``MS``) the cells are in it."""
    bare, _, rest = name.partition("(")
    unit = _BY_WORD.get(rest.removesuffix(")").lower()) if rest.endswith(")") else described_unit(description)
    if unit is None or not rest and named_unit(name) is not None:
        return Heading(name)
    if is_scaled(unit.symbol):
        return Heading(bare.rstrip() if rest else name, unit.symbol)
    return Heading(name if rest else f"{name} ({unit.symbol})")


def value_headings(named: MapSpec, columns: tuple[str, ...]) -> tuple[Heading, ...]:
    """Those of a map's value columns; a unit that is not scaled stands in the heading: ``average (%)``. What counts has
    none."""
    symbol = map_symbol(named)
    bare = [not symbol or name in ("count", "time") for name in columns]
    return tuple([Heading(name) if plain else Heading(name, symbol) if is_scaled(symbol) else
                  Heading(f"{name} ({symbol})") for name, plain in zip(columns, bare)])


def say_number(value: float, symbol: str) -> str:
    """A cell: scaled, or without a unit as it is, with separators of thousands."""
    return scale_value(value, symbol) if symbol else f"{value:,}"
