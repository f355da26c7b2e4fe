"""Units, from the names of maps: ``@usecs``, ``@wait_ms``, ``@tx_bytes``."""

from __future__ import annotations

_UNITS = {"ns": "ns", "nsecs": "ns", "nanoseconds": "ns", "us": "µs", "usecs": "µs", "microseconds": "µs", "ms": "ms",
          "msecs": "ms", "milliseconds": "ms", "s": "s", "secs": "s", "seconds": "s", "bytes": "B", "kb": "KB"}


def unit_of(name: str) -> str:
    """The unit of a map's values, if its name ends with one; else ""."""
    return _UNITS.get(name.removeprefix("@").lower().rpartition("_")[2], "")


def unit_behind(name: str) -> str:
    """The unit of the values of a map or of one of its elements (``@usecs[cat]``), with a blank before it."""
    unit = unit_of(name.partition("[")[0])
    return f" {unit}" if unit else ""


def with_unit(name: str) -> str:
    """A map's name with the unit after it."""
    unit = unit_of(name.partition("[")[0])
    return f"{name} ({unit})" if unit else name
