"""A process's memory as it was read while the process ran on: pages, each read once, and whether they are still the
same."""

from __future__ import annotations

import os
from sys import byteorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypeAlias

    Part: TypeAlias = "tuple[int, int] | Note"

PAGE = 4096
MOST_PAGES = 16384  # that are read in one look: 64 MiB
_END = 1 << 47      # of the addresses of programs


class UnreadableError(Exception):
    """Memory is not there, or is not what it has to be; or too much of it has been read."""


class Note:
    """A value that is used more than once, and the parts of memory that it was made from."""

    __slots__ = ("value", "parts")

    def __init__(self, value: Any, parts: list[Part]) -> None:
        self.value, self.parts = value, parts


class Pages:
    """Memory of a process. ``log`` has what was read since it was emptied: (address, bytes), and notes of that."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pages: dict[int, bytes] = {}
        self.log: list[Part] = []

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the process's memory; UnreadableError."""
        if not 0 < address <= _END - size:
            raise UnreadableError
        self.log.append((address, size))
        return self._take(address, size)

    def word(self, address: int) -> int:
        """A word of 64 bits."""
        return int.from_bytes(self.read(address, 8), byteorder)

    def words(self, address: int, count: int) -> list[int]:
        """So many words."""
        data = self.read(address, 8 * count)
        return [int.from_bytes(data[at:at + 8], byteorder) for at in range(0, 8 * count, 8)]

    def changed_pages(self, after: Pages) -> set[int]:
        """The addresses of pages that are not the same in what is read later."""
        return {start for start in self._pages if after._fetch(start) != self._pages[start]}

    def is_same(self, after: Pages, address: int, size: int) -> bool:
        """Whether these bytes are the same in what is read later."""
        try:
            return self._take(address, size) == after._take(address, size)
        except UnreadableError:
            return False

    def _take(self, address: int, size: int) -> bytes:
        at = address % PAGE
        if at + size <= PAGE:
            return self._page(address - at)[at:at + size]
        data = b"".join([self._page(start) for start in range(address - at, address + size, PAGE)])
        return data[at:at + size]

    def _page(self, start: int) -> bytes:
        page = self._pages.get(start)
        if page is None:
            if len(self._pages) >= MOST_PAGES:
                raise UnreadableError
            page = self._fetch(start)
        if len(page) != PAGE:
            raise UnreadableError
        return page

    def _fetch(self, start: int) -> bytes:
        page = self._pages.get(start)
        if page is None:
            try:
                page = os.pread(self._descriptor, PAGE, start)
            except OSError:
                page = b""
            self._pages[start] = page
        return page


class Comparison:
    """Whether memory was the same when it was read a second time."""

    def __init__(self, before: Pages, after: Pages) -> None:
        self._before, self._after = before, after
        self._changed = before.changed_pages(after)
        self._known: dict[Note, bool] = {}

    def holds(self, parts: Iterable[Part]) -> bool:
        """Whether all of these parts were the same."""
        return not self._changed or all(map(self._is_same, parts))

    def _is_same(self, part: Part) -> bool:
        if not isinstance(part, Note):
            address, size = part
            pages = range(address & -PAGE, address + size, PAGE)
            return self._changed.isdisjoint(pages) or self._before.is_same(self._after, address, size)
        same = self._known.get(part)
        if same is None:
            same = self._known[part] = self.holds(part.parts)
        return same
