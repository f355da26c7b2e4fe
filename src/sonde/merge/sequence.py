"""Late and repeated parts made harmless: each is used once, in order."""

from __future__ import annotations

from typing import Generic, TypeVar

from ..errors import SondeError

T = TypeVar("T")
HELD = 64  # parts that may wait for one before them


class SequenceError(SondeError):
    """Parts can no longer be put in order."""


class Sequence(Generic[T]):
    """Numbered parts of one source, numbered from 0: repeated ones are dropped, early ones wait, at most ``HELD``."""

    def __init__(self) -> None:
        self.following = 0  # the number of the next part in order
        self.repeated = 0   # how many came more than once
        self._held: dict[int, T] = {}

    def accept_part(self, number: int, part: T) -> list[T]:
        """The parts that are now in order; SequenceError if too many wait for one that has not come."""
        if number < self.following or number in self._held:
            self.repeated += 1
            return []
        self._held[number] = part
        ready = []
        while self.following in self._held:
            ready.append(self._held.pop(self.following))
            self.following += 1
        if len(self._held) > HELD:
            raise SequenceError(f"part {self.following} has not come, and {len(self._held)} after it have")
        return ready
