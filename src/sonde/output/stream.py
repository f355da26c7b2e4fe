"""Where output goes: a file descriptor with bpftrace's three ways of buffering (-B)."""

from __future__ import annotations

import os
from collections.abc import Callable

LINE, FULL, NONE = "line", "full", "none"
_LARGE = 1 << 16


class Stream:
    """Bytes to a file descriptor, which stays the caller's.

    ``write`` is the whole cost of a line. ``line``: out at every :meth:`flush`, which the session calls when it
    has emptied the rings and is about to wait, so that a line is never held back while nothing happens; ``full``:
    in large pieces and at the end; ``none``: at once.
    """

    write: Callable[[bytes], object]

    def __init__(self, descriptor: int, buffering: str = LINE) -> None:
        self.descriptor = descriptor
        self.buffering = buffering
        self._pieces: list[bytes] = []
        self.write = self._now if buffering == NONE else self._pieces.append

    @property
    def terminal(self) -> bool:
        """Is somebody looking?"""
        return os.isatty(self.descriptor)

    def flush(self, end: bool = False) -> None:
        """Write what is due; with ``end`` everything. Raises BrokenPipeError when the reader has gone."""
        if self._pieces and (end or self.buffering != FULL or sum(map(len, self._pieces)) >= _LARGE):
            data = b"".join(self._pieces)
            self._pieces.clear()
            self._now(data)

    def _now(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.descriptor, view):]
            except BlockingIOError:  # somebody made the other end of our pipe or terminal non-blocking
                import select
                select.select([], [self.descriptor], [])
