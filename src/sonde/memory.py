"""How much memory a run may hold beyond its maps and rings, and who may have which part of it."""

from __future__ import annotations

from .errors import UsageError

DEFAULT = 128 << 20  # bytes
LEAST = 32 << 20

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Memory:
    """``total`` bytes (--memory), half of which are the interpreter's, the compiler's and the kernel's symbols'."""

    __slots__ = ("total",)

    def __init__(self, total: int = DEFAULT) -> None:
        self.total = total

    @property
    def records(self) -> int:
        """Bytes of records that wait for their place in the order."""
        return self.total // 8

    @property
    def stacks(self) -> int:
        """Bytes of stacks' frames."""
        return self.total // 8

    @property
    def views(self) -> int:
        """Bytes of what a view collects until the end."""
        return self.total // 8

    @property
    def symbols(self) -> int:
        """Bytes of the symbols of processes."""
        return self.total // 8


def parse_memory(text: str) -> Memory:
    """``96M``: bytes, with K, M or G behind them. UsageError for anything else, and below 32M."""
    number, unit = (text[:-1], text[-1:].upper()) if text[-1:].isalpha() else (text, "")
    if not number.isascii() or not number.isdigit() or len(number) > 15 or unit not in _UNITS:
        raise UsageError(f"--memory takes a size like 96M or 1G, not '{text}'")
    total = int(number) * _UNITS[unit]
    if total < LEAST:
        raise UsageError(f"--memory takes 32M at least, not '{text}'")
    return Memory(total)
