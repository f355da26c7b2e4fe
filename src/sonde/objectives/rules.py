"""Objectives: what a test or a process may do. ``@pytest.mark.sonde`` and ``sonde.watch()`` share this declaration."""

from __future__ import annotations

from ..base.quantities import NANOSECONDS
from ..base.record import Record
from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CONNECT, OPEN, CALLS, LATENCY, STALL = 1, 2, 4, 8, 16  # what is observed, as a set of bits
SEEN = ("connects", "connects6", "opens", "calls", "total", "over", "slow", "stalls")  # the maps of what was done


class Rules(Record):
    """What a test or a process may do. ``connect``: whether it may connect to other hosts; ``open``: patterns of paths
    that it may not open; ``calls``: how often it may make a system call, by name; ``p99``: how long 99 % of the calls
    may take, in nanoseconds; ``stall``: how long an event loop may be without waiting, 0 for no limit."""

    connect: bool = True
    open: list[str] = []
    calls: dict[str, int] = {}
    p99: dict[str, int] = {}
    stall: int = 0

    @property
    def bits(self) -> int:
        """What has to be observed for them."""
        return (CONNECT * (not self.connect) | OPEN * bool(self.open) | CALLS * bool(self.calls)
                | LATENCY * bool(self.p99) | STALL * bool(self.stall))


def parse_rules(given: Mapping[str, Any]) -> Rules:
    """The rules of named arguments; UsageError for one that makes no sense."""
    rules = Rules()
    for name, value in given.items():
        if name == "no_connect" and isinstance(value, bool):
            rules.connect = not value
        elif name == "no_open" and isinstance(value, (str, list, tuple)):
            rules.open = [value] if isinstance(value, str) else [str(each) for each in value]
        elif name == "max_syscalls" and isinstance(value, dict):
            rules.calls = {_call_name(call): _whole(most) for call, most in value.items()}
        elif name == "p99" and isinstance(value, dict):
            rules.p99 = {_call_name(call): read_duration(most) for call, most in value.items()}
        elif name == "no_stall":
            rules.stall = read_duration(value)
        else:
            raise UsageError(f"{name}={value!r} is no objective", [
                'objectives are no_connect=True, no_open="/etc/**", max_syscalls={"fsync": 2}, p99={"read": "2ms"}, '
                'no_stall="50ms"'])
    return rules


def _call_name(name: object) -> str:
    text = str(name)
    if not text.replace("_", "").isalnum() or not text.isascii():
        raise UsageError(f"{text!r} is not the name of a system call")
    return text


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"max_syscalls takes whole numbers, not {value!r}")
    return value


def read_duration(value: object) -> int:
    """Nanoseconds of ``"2ms"``; UsageError."""
    text = value if isinstance(value, str) else ""
    number = text.rstrip("nsumhd")
    unit = text[len(number):]
    try:
        length = int(float(number) * NANOSECONDS[unit])
    except (KeyError, ValueError, OverflowError):
        length = 0
    if length <= 0:
        raise UsageError(f"{value!r} is not a length of time such as '50ms' or '2s'")
    return length


def format_duration(nanoseconds: float) -> str:
    """``1.5ms``, ``2s``."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g}{unit}"
    return f"{nanoseconds:.0f}ns"


def matches_path(path: str, pattern: str) -> bool:
    """Whether a path matches: ``*`` and ``?`` stay within a folder, ``**`` goes below."""
    return _matches(path.split("/"), pattern.split("/"))


def _matches(parts: list[str], patterns: list[str]) -> bool:
    from fnmatch import fnmatchcase
    if not patterns:
        return not parts
    if patterns[0] == "**":
        return any(_matches(parts[at:], patterns[1:]) for at in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], patterns[0]) and _matches(parts[1:], patterns[1:])
