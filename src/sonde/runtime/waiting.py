"""Sleeping until there is something to do."""

from __future__ import annotations

import os
import select

from .records.delivery import REST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    from .losses import Losses
    from .records.delivery import Delivery

    class FollowedLog(Protocol):
        """A log of processes or control groups that is read while a script runs."""

        @property
        def fds(self) -> list[int]:
            """Readable when there is something to read."""

        @property
        def is_prompt(self) -> bool:
            """Whether it has to be read at once, not just when there is something else to do."""

        @property
        def rest(self) -> float:
            """Seconds that reading can wait, when there is nothing else to do."""

        def drain_rings(self) -> None:
            """Read what is there."""

        def count_losses(self, losses: Losses) -> None:
            """Add what this log lost to ``losses``."""


class Waiting:
    """What a session waits for: what is urgent (signals, processes, somebody who calls :meth:`wake`), rings of records,
    and ``logs``, which have time."""

    def __init__(self) -> None:
        self.woken = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.logs: list[FollowedLog] = []
        self._urgent, self._records, self._all = select.epoll(), select.epoll(), select.epoll()
        self._controls = select.epoll()  # what is urgent, and the control ring
        self._unhurried: frozenset[int] = frozenset()  # descriptors of logs that have time
        self.add_urgent(self.woken)

    def add_urgent(self, fd: int) -> None:
        """Wait for one more descriptor."""
        for waiting in (self._urgent, self._controls, self._records, self._all):
            waiting.register(fd, select.EPOLLIN)

    def add_prompt(self, ring: int) -> None:
        """From now on a record in this ring does not wait for the next look."""
        self._urgent.register(ring, select.EPOLLIN)

    def watch(self, urgent: Iterable[int], rings: Iterable[int], control: int = -1) -> None:
        """Wait for these descriptors from now on, and for the logs; ``control`` is that of the rings that has to be
        looked at soon."""
        for fd in [*urgent, *(fd for log in self.logs if log.is_prompt for fd in log.fds)]:
            self.add_urgent(fd)
        self._unhurried = frozenset([fd for log in self.logs if not log.is_prompt for fd in log.fds])
        for fd in rings:
            self._records.register(fd, select.EPOLLIN)
            self._all.register(fd, select.EPOLLIN)
        if control >= 0:
            self._controls.register(control, select.EPOLLIN)
        for fd in self._unhurried:
            self._all.register(fd, select.EPOLLIN)

    def fileno(self) -> int:
        """A descriptor that is readable when anything is there."""
        return self._all.fileno()

    def record_fileno(self) -> int:
        """The same, but for logs."""
        return self._records.fileno()

    @property
    def rest(self) -> float:
        """Seconds for which what made :meth:`fileno` readable can wait, as :meth:`record_fileno` is not: only logs have
        something to tell."""
        return REST + self._log_rest() if self.logs and not self._has_records(0) else 0.0

    def _log_rest(self) -> float:
        return max([log.rest for log in self.logs], default=0.0)

    def wake(self) -> None:
        """End a sleep, also from another thread."""
        os.eventfd_write(self.woken, 1)

    def sleep_until_work(self, delivery: Delivery, left: float | None, busy: bool) -> None:
        """Sleep until there is something to do, for ``left`` seconds at most, but look at the rings (``busy``: much was
        there) no more often than each few milliseconds, and more seldom where little comes."""
        due = delivery.seconds_until_due()
        if due:
            held = due
        elif delivery:
            held = REST if busy else max(REST, delivery.seconds_until_certain())
        else:
            ready = [fd for fd, _ in self._all.poll(left)]
            if not ready:
                return
            if self._unhurried.issuperset(ready):
                rest = self._log_rest()
                self._has_records(rest if left is None else min(left, rest))
            held = delivery.first_pause
        held = held if left is None else min(left, held)
        if not self._urgent.poll(min(REST, held)) and held > REST:
            self._controls.poll(held - REST)

    def _has_records(self, seconds: float) -> bool:
        """Sleep until there is something other than what is in the logs, for so long at most. Whether there is."""
        return bool(self._records.poll(seconds))

    def close(self) -> None:
        """Release the descriptors. Harmless twice."""
        if not self._all.closed:
            for waiting in (self._urgent, self._controls, self._records, self._all):
                waiting.close()
            os.close(self.woken)
