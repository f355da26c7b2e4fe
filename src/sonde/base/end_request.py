"""The request to end: Ctrl-C and the like make it once, and everything that may take long checks it."""

from __future__ import annotations

from time import monotonic

GRACE = 0.5  # s: how long after the wish records that are queued are still printed
LAST = 0.9   # s: how long after it a command of system() is still waited for, and a reader that reads nothing


class Ending:
    """When the run was asked to end: a moment of the monotonic clock in seconds, 0.0 while nobody has asked. ``over``:
    it has ended. ``first``: what is left of it goes before other processes. ``in_end``: clauses of ``end`` have
    run, and the commands that they ask for are run to their ends."""

    __slots__ = ("requested_at", "first", "in_end", "over")

    def __init__(self) -> None:
        self.requested_at = 0.0
        self.first = self.in_end = self.over = False

    def request_end(self) -> None:
        """The wish is made; a repeated one changes nothing."""
        self.requested_at = self.requested_at or monotonic()

    def may_run_commands(self) -> bool:
        """Whether what the script asks for outside of itself is still to be begun."""
        return self.in_end or not self.requested_at

    def is_overdue(self, seconds: float = GRACE) -> bool:
        """Whether the wish was made more than ``seconds`` ago."""
        return bool(self.requested_at) and monotonic() - self.requested_at > seconds
