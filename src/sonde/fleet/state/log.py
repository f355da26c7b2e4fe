"""All that decides about a fleet's result, reported as it happens. This log drops it; :mod:`..recording` writes it."""

from __future__ import annotations

DATA, LEFT, BEGUN, STOPPED, POLLED, SILENCED = range(6)  # kinds of what happens


class Log:
    """Told in this order, the same things have the same result: which DATA came from a host when, that it LEFT or was
    SILENCED (JSON: the reason, hints), that all were to have BEGUN at a time, that the end was asked for (STOPPED), and
    that what was to be printed was taken (POLLED; ``number`` 1 if nothing more could come). ``problem``: why it is kept
    no longer."""

    problem = ""

    def note(self, kind: int, time: int, number: int = 0, data: bytes = b"") -> None:
        """Something of a ``kind`` has happened, at a ``time`` in Unix nanoseconds, with the host of a ``number``."""

    def close(self, whole: bool) -> None:
        """Nothing more will happen; ``whole``: for it has all come."""
