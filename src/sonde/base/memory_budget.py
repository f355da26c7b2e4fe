"""How much memory a run may use beyond its maps and rings, and how it is divided."""

from __future__ import annotations

from .fast_stdlib import Generic, TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT = 128 << 20  # bytes
LEAST = 32 << 20
UNWIND_ROW = 8  # bytes of layouts.unwind_format.ROW


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
        """Bytes of what is known of processes: their mappings, and the functions of their files."""
        return self.total // 8

    @property
    def unwind_rows(self) -> int:
        """How many rows of unwind tables (layouts.unwind_format) there is room for, a power of two: an eighth, too."""
        return 1 << (self.total // 8 // UNWIND_ROW).bit_length() - 1


_K = TypeVar("_K")
_V = TypeVar("_V")


class Cache(Generic[_K, _V]):
    """Values by key, whose sizes add up to ``most`` bytes at most: beyond that the least recently used is evicted, and
    ``gone`` is called with it. The newest entry is never evicted, whatever its size: its owner bounds it."""

    def __init__(self, most: int, gone: Callable[[_V], object] = lambda value: None) -> None:
        self.most = most
        self.size = 0
        self._gone = gone
        self._held: dict[_K, tuple[_V, int]] = {}  # what was used longest ago first

    def size_of(self, key: _K) -> int:
        """Bytes of a value; 0 if it is not held."""
        return self._held[key][1] if key in self._held else 0

    def __contains__(self, key: object) -> bool:
        return key in self._held

    def get(self, key: _K) -> _V | None:
        """The value, marked as used; None if it is not held."""
        entry = self._held.pop(key, None)
        if entry is None:
            return None
        self._held[key] = entry
        return entry[0]

    def put(self, key: _K, value: _V, size: int) -> None:
        """Hold a value of so many bytes in place of what the key had; that one is not told to be gone."""
        self.size += size - self._held.pop(key, (value, 0))[1]
        self._held[key] = value, size
        while self.size > self.most and len(self._held) > 1:
            self.drop(next(iter(self._held)))

    def grow(self, key: _K, by: int) -> None:
        """A value takes more bytes now, or fewer; nothing happens if it is not held."""
        if key in self._held:
            value, size = self._held[key]
            self.put(key, value, size + by)

    def drop(self, key: _K) -> None:
        """Remove a value, if it is held."""
        entry = self._held.pop(key, None)
        if entry is not None:
            self.size -= entry[1]
            self._gone(entry[0])
