"""How long and how large a flight is, from text."""

from __future__ import annotations

from ...base.quantities import BYTES, NANOSECONDS
from ...errors import UsageError
from ...kernel.host import possible_cpus
from ...layouts.shared_maps import LEAST_SEGMENT

DEFAULT = 64 << 20           # bytes for all CPUs, unless that is less than LEAST for each
LEAST = 4 * LEAST_SEGMENT    # bytes for one CPU
_UNITS = ("ms", "s", "m", "h")


def parse_flight(text: str) -> tuple[int, int]:
    """``30s[,64M]``: how far back dumps go (ns), and the bytes for each CPU. UsageError for anything else."""
    window, _, size = text.partition(",")
    return parse_duration(window, "--flight"), region_bytes(size)


def parse_duration(text: str, option: str) -> int:
    """``30s`` (also ms, m, h) in ns; UsageError for anything else, or more than a day."""
    unit = text.lstrip("0123456789.")
    number = text.removesuffix(unit)
    digits = number.replace(".", "", 1)
    nanoseconds = int(float(number) * NANOSECONDS[unit]) \
        if digits.isdigit() and len(digits) < 10 and unit in _UNITS else 0
    if not 0 < nanoseconds <= NANOSECONDS["d"]:
        raise UsageError(f"{option} takes a time like 500ms, 30s or 5m, not '{text}'",
                         ["--flight 30s,64M: with so much memory"] if option == "--flight" else [])
    return nanoseconds


def region_bytes(text: str) -> int:
    """The bytes for each CPU, given a size for all of them together ("": the default)."""
    cpus = possible_cpus()
    total = max(DEFAULT, 4 * LEAST * cpus)
    if text:
        number, unit = (text[:-1], text[-1].upper()) if text[-1].isalpha() else (text, "")
        if not (number.isascii() and number.isdigit() and len(number) < 13 and unit in BYTES):
            raise UsageError(f"--flight takes a size like 64M, not '{text}'")
        total = int(number) * BYTES[unit]
    if total < LEAST * cpus:
        raise UsageError(f"--flight needs {LEAST >> 10}K for each of {cpus} CPUs: {LEAST * cpus >> 10}K at least, "
                         f"not '{text}'")
    if total > 64 << 30:
        raise UsageError(f"--flight takes 64G at most, not '{text}'")
    return 1 << (total // cpus).bit_length() - 1
