"""When a script was attached, and for how long."""

from __future__ import annotations

import time


class TracedPeriod:
    """From the moment at which all was attached to that at which detaching began."""

    def __init__(self) -> None:
        self._begin = self._end = 0  # monotonic ns; 0: not yet

    def begin(self) -> None:
        """All is attached."""
        self._begin = time.monotonic_ns()

    def end(self) -> None:
        """From now on nothing counts; the first call is what matters."""
        self._end = self._end or time.monotonic_ns()

    @property
    def nanoseconds(self) -> int:
        """For how long everything has been attached."""
        return max((self._end or time.monotonic_ns()) - self._begin, 0) if self._begin else 0

    @property
    def started(self) -> int:
        """When all was attached, in nanoseconds since 1970; now, if that has not happened."""
        now = time.monotonic_ns()
        return time.time_ns() - (now - (self._begin or now))
