"""Units: of maps, from their names (``@usecs``, ``@wait_ms``, ``@tx_bytes``) or what the script says of them, and of
columns."""

from __future__ import annotations

from ..record import Value
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


def _find_word(said: str) -> tuple[int, int]:
    """Where a description says its unit: at the beginning, or after "in"; (0, 0) if it says none."""
    start = 0
    for before, word in zip(["", *said.split(" ")], said.split(" ")):
        bare = word.rstrip(",.;:)").lower()
        if bare in _BY_WORD and (len(bare) > 2 and not start or before == "in"):
            return start, start + len(bare)
        start += len(word) + 1
    return 0, 0


def described_unit(said: str) -> Unit | None:
    """The unit that a description says: "microseconds from ... to ...", "the limit, in bytes"."""
    start, end = _find_word(said)
    return _BY_WORD[said[start:end].lower()] if end else None


def in_base_unit(said: str, unit: Unit) -> str:
    """A description with the base unit in place of the one that it says."""
    start, end = _find_word(said)
    before = said[:start]
    if before.endswith("in ") and unit.base == "ratio":
        before = before.removesuffix("in ") + "as a "
    return before + unit.base.replace("_", " ") + said[end:] if end else said


def map_unit(named: MapSpec) -> Unit | None:
    """The unit of a map's values; None of those that count, and where nothing says one."""
    if isinstance(named.value, Aggregate) and named.value.kind == "count":
        return None
    return named_unit(named.name) or described_unit(named.about)


def map_symbol(named: MapSpec) -> str:
    """The same as a person reads it; "" if there is none."""
    unit = map_unit(named)
    return unit.symbol if unit is not None else ""


def column_head(name: str, said: str) -> str:
    """A column's heading with the unit that its description says, where its name does not: ``LAT (ms)``."""
    unit = described_unit(said)
    return f"{name} ({unit.symbol})" if unit is not None and "(" not in name and named_unit(name) is None else name


def value_heads(named: MapSpec, columns: tuple[str, ...]) -> tuple[str, ...]:
    """The headings of a map's value columns, with their unit: ``average (µs)``. What counts has none."""
    symbol = map_symbol(named)
    return tuple([f"{name} ({symbol})" if symbol and name not in ("count", "time") else name for name in columns])
