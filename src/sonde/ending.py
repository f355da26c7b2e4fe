"""The request to end: Ctrl-C and the like make it once, and everything that may take long checks it."""

from __future__ import annotations

from time import monotonic

GRACE = 0.5  # s: how long after the wish records that are queued are still printed
LAST = 0.9   # s: how long after it the reader of standard output, or a command of system(), is still waited for


class Ending:
    """When the run was asked to end: a moment of the monotonic clock in seconds, 0.0 while nobody has asked. ``over``:
    it has ended. ``first``: what is left of it goes before other processes."""

    __slots__ = ("asked_at", "first", "over")

    def __init__(self) -> None:
        self.asked_at = 0.0
        self.first = self.over = False

    def request_end(self) -> None:
        """The wish is made; a repeated one changes nothing."""
        self.asked_at = self.asked_at or monotonic()

    def is_overdue(self, seconds: float = GRACE) -> bool:
        """Whether the wish was made more than ``seconds`` ago."""
        return bool(self.asked_at) and monotonic() - self.asked_at > seconds
