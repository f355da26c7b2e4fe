"""When a script was attached, and for how long."""

from __future__ import annotations

import time


class TracedPeriod:
    """From the moment all probes are attached to the moment detaching begins."""

    def __init__(self) -> None:
        self._begin = self._end = 0  # monotonic ns; 0: not yet

    def begin(self) -> None:
        """All probes are attached."""
        self._begin = time.monotonic_ns()

    def end(self) -> None:
        """Detaching begins; only the first call counts."""
        self._end = self._end or time.monotonic_ns()

    @property
    def nanoseconds(self) -> int:
        """How long all probes have been attached."""
        return max((self._end or time.monotonic_ns()) - self._begin, 0) if self._begin else 0

    @property
    def started(self) -> int:
        """When all probes were attached, in nanoseconds since 1970; the present time if not yet."""
        now = time.monotonic_ns()
        return time.time_ns() - (now - (self._begin or now))
