"""How to show a run, from the words of its command line."""

from __future__ import annotations

from ..base.memory_budget import LEAST, Memory
from ..base.numbers import parse_whole
from ..base.tty import can_draw_on
from ..errors import UsageError
from .options import Parsed


def redraws(parsed: Parsed) -> bool:
    """Whether blocks are to be redrawn in place: for tools, and for scripts with --redraw, if somebody looks on."""
    if parsed.has("no-redraw") or parsed.has("output") or parsed.get("format", "text") != "text":
        return False
    return (bool(parsed.tool) or parsed.has("redraw")) and can_draw_on(1) and not runs_tests(parsed)


def pictures(parsed: Parsed) -> bool:
    """Whether a heat map is to be drawn while it grows."""
    return parsed.get("format") == "heatmap" and not parsed.has("output") and not parsed.has("no-redraw") \
        and can_draw_on(1)


def runs_tests(parsed: Parsed) -> bool:
    """Whether it is no trace, but a test or a benchmark."""
    return parsed.has("test") or parsed.has("bench") or parsed.has("mode")


def count(parsed: Parsed) -> int:
    """--count: end after so many blocks; 0 for no end."""
    return whole_number(parsed, "count", 0)


def every(parsed: Parsed) -> float:
    """--every: seconds between two looks at the maps."""
    text = parsed.get("every", "1")
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.05 <= seconds <= 86400:
        raise UsageError(f"--every takes seconds from 0.05 up, not '{text}'")
    return seconds


def whole_number(parsed: Parsed, key: str, default: int) -> int:
    """An option's number, from 1 up."""
    if not parsed.has(key):
        return default
    text = parsed.get(key)
    number = parse_whole(text)
    if not number:
        raise UsageError(f"--{key} takes a whole number from 1 up, not '{text}'")
    return number


def parse_memory(text: str) -> Memory:
    """``96M``: bytes, with K, M or G after them. UsageError for anything else, and below 32M."""
    from ..base.quantities import BYTES
    number, unit = (text[:-1], text[-1:].upper()) if text[-1:].isalpha() else (text, "")
    if not number.isascii() or not number.isdigit() or len(number) > 15 or unit not in BYTES:
        raise UsageError(f"--memory takes a size like 96M or 1G, not '{text}'")
    total = int(number) * BYTES[unit]
    if total < LEAST:
        raise UsageError(f"--memory takes 32M at least, not '{text}'")
    return Memory(total)


def is_watched(parsed: Parsed) -> bool:
    """Whether the run needs more than printing what comes."""
    return parsed.has("count") or redraws(parsed) or parsed.get("format") == "heatmap" or bool(parsed.command) \
        or counts_down(parsed)


def makes_recording(parsed: Parsed) -> bool:
    """Whether the run is kept in a file, alone or beside what is printed. A flight is not: its dumps may be."""
    return (parsed.get("format") == "recording" or parsed.has("record")) and not parsed.has("flight")


def counts_down(parsed: Parsed) -> bool:
    """Whether a bar is to say how much of the time has passed."""
    return parsed.seconds > 0 and can_draw_on(2) and not parsed.has("quiet") and not runs_tests(parsed)
