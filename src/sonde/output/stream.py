"""Where output goes: a file descriptor with bpftrace's three ways of buffering (-B)."""

from __future__ import annotations

import os
import stat
from time import monotonic

from ..base.end_request import LAST, Ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LINE, FULL, NONE = "line", "full", "none"
_LARGE = 1 << 16
_LOOK = 100  # ms: so often the wish to end is looked at while nobody reads


class Stream:
    """Bytes to a file descriptor, which stays the caller's.

    ``write`` is the whole cost of a line. ``line``: out at every :meth:`flush`, which the session calls when it
    has emptied the rings and is about to wait, so that a line is never held back while nothing happens; ``full``:
    in large pieces and at the end; ``none``: at once.

    A reader that does not read holds the writer up, until the run was asked to end (``ending``): when it then reads
    nothing for a moment, the rest is counted in ``unread``, in bytes.
    """

    write: Callable[[bytes], object]

    def __init__(self, descriptor: int, buffering: str = LINE, ending: Ending | None = None) -> None:
        self.descriptor = descriptor
        self.buffering = buffering
        self.unread = 0
        self._ending = ending
        self._read_at = 0.0  # when something was last read since then
        self._open = -1  # our own, non-blocking way to the same pipe or terminal
        self._pieces: list[bytes] = []
        self.write = self._write_now if buffering == NONE else self._pieces.append

    @property
    def terminal(self) -> bool:
        """Whether the output is a terminal."""
        return os.isatty(self.descriptor)

    def flush(self, end: bool = False) -> None:
        """Write what is due; with ``end`` everything. Raises BrokenPipeError when the reader has gone."""
        if self._pieces and (end or self.buffering != FULL or sum(map(len, self._pieces)) >= _LARGE):
            data = b"".join(self._pieces)
            self._pieces.clear()
            self._write_now(data)

    def close(self) -> None:
        """Release what the stream itself has opened."""
        if self._open not in (-1, self.descriptor):
            os.close(self._open)
        self._open = -1

    def _write_now(self, data: bytes) -> None:
        if self._open < 0:
            self._open = self.descriptor if self._ending is None else _open_non_blocking(self.descriptor)
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._open, view):]
                self._read_at = monotonic() if self._ending is not None and self._ending.requested_at else 0.0
            except BlockingIOError:
                if not self._wait_for_reader():
                    self.unread += len(view)
                    return

    def _wait_for_reader(self) -> bool:
        """Wait until there is room; False when the run was to end, and for a moment nothing has been read."""
        import select
        room = select.poll()
        room.register(self._open, select.POLLOUT)
        overdue = self._is_overdue()
        while not room.poll(0 if overdue else _LOOK):
            if overdue:
                return False
            overdue = self._is_overdue()
        return True

    def _is_overdue(self) -> bool:
        return self._ending is not None and self._ending.is_overdue(LAST) and monotonic() - self._read_at > LAST


class Streams:
    """What every form of output has: ``out`` for what the script prints, ``err`` for what is about the tracer."""

    def __init__(self, out: Stream, err: Stream, quiet: bool = False) -> None:
        self.out = out
        self.err = err
        self.quiet = quiet

    def flush(self, end: bool = False) -> None:
        """Let out what is buffered, as the buffering mode has it; everything with ``end``."""
        self.out.flush(end)
        self.err.flush(end)

    @property
    def unread(self) -> int:
        """Bytes that were not read before the run had to end."""
        return self.out.unread

    def close(self) -> None:
        """Release what the streams have opened; the descriptors stay the caller's."""
        self.out.close()
        self.err.close()


def _open_non_blocking(descriptor: int) -> int:
    """A descriptor of the same pipe or terminal, on which a write never waits; the one that is given where there can be
    none. It has a mode of its own: whoever shares ours (a shell, the command of -c) must not find it non-blocking."""
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) and os.isatty(descriptor):
            return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        pass
    return descriptor
