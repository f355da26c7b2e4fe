"""Sleeping until there is something to do."""

from __future__ import annotations

import os
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Waiting:
    """What a session waits for: what is urgent (signals, processes, somebody who calls :meth:`wake`), rings of records,
    and logs, which have time."""

    def __init__(self, urgent: Iterable[int], rings: Iterable[int], logs: Iterable[int]) -> None:
        self.woken = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._urgent, self._records, self._all = select.epoll(), select.epoll(), select.epoll()
        self._logs = frozenset(logs)
        for fd in (*urgent, self.woken):
            self.add_urgent(fd)
        for fd in rings:
            self._records.register(fd, select.EPOLLIN)
            self._all.register(fd, select.EPOLLIN)
        for fd in self._logs:
            self._all.register(fd, select.EPOLLIN)

    def add_urgent(self, fd: int) -> None:
        """Wait for one more."""
        for waiting in (self._urgent, self._records, self._all):
            waiting.register(fd, select.EPOLLIN)

    def fileno(self) -> int:
        """A descriptor that is readable when anything is there."""
        return self._all.fileno()

    def record_fileno(self) -> int:
        """The same, but for logs."""
        return self._records.fileno()

    def wake(self) -> None:
        """End a sleep, also from another thread."""
        os.eventfd_write(self.woken, 1)

    def for_anything(self, seconds: float | None) -> bool:
        """Sleep until anything is there, for so long at most. Whether it is logs alone that have something."""
        found = self._all.poll(seconds)
        return bool(found) and self._logs.issuperset([fd for fd, _ in found])

    def for_records(self, seconds: float) -> bool:
        """The same, but what is in the logs can wait. Whether there is anything else."""
        return bool(self._records.poll(seconds))

    def for_urgent(self, seconds: float) -> None:
        """The same, but what is in the rings can wait, too."""
        self._urgent.poll(seconds)

    def close(self) -> None:
        """Release the descriptors."""
        for waiting in (self._urgent, self._records, self._all):
            waiting.close()
        os.close(self.woken)
