"""The order in which records leave the session.

Records of the data ring leave sorted by their time. Different CPUs reserve room in the ring a moment after
they took the time, so a record is held back until it is older than a window in which all such moments lie. A
control record leaves after every data record that was in the ring before it, and otherwise as early as it can.
"""

from __future__ import annotations

from bisect import bisect_left

from .ringbuf import Event

# (site, buffer, offset of the record in the buffer)
Raw = tuple[int, bytes, int]

EVENT_BYTES = 200  # what the Python objects of one Event take, beside the record itself


class Sequencer:
    """Holds records until their place in the order is certain. Pure: knows neither clocks nor rings."""

    def __init__(self) -> None:
        self._pending: list[Event] = []  # sorted by (time, position)
        self._controls: list[tuple[int, Raw]] = []  # (position in the data ring, record), in ring order
        self._consumed = 0  # position up to which the data ring has been read
        self._released = 0  # the greatest time that has left
        self.late = 0       # records that came when later ones had left: they are out of order

    def add_events(self, events: list[Event], consumed: int) -> None:
        """Take what was read from the data ring, up to position ``consumed``, in ring order."""
        self._consumed = consumed
        if events:
            in_order = self.newest_time() <= events[0][0] and _is_sorted(events)
            self._pending += events
            if not in_order:
                self.late += sum([event[0] < self._released for event in events])
                self._pending.sort()

    def add_control(self, position: int, record: Raw) -> None:
        """Take a control record that was made when the data ring's producer stood at ``position``."""
        self._controls.append((position, record))

    @property
    def controls(self) -> int:
        """Control records that are held."""
        return len(self._controls)

    def oldest_time(self) -> int | None:
        """Time of the oldest data record that is held."""
        return self._pending[0][0] if self._pending else None

    def newest_time(self) -> int:
        """Time of the newest data record that is held or has left; 0 if there is none."""
        return self._pending[-1][0] if self._pending else self._released

    def held_bytes(self) -> int:
        """About how much memory the held data records take: they keep alive what was read since the oldest of them."""
        return self._consumed - self._pending[0][1] + EVENT_BYTES * len(self._pending) if self._pending else 0

    def __bool__(self) -> bool:
        return bool(self._pending or self._controls)

    def release_records(self, before: int | None, most: int = 1 << 62) -> list[Raw]:
        """The records whose place is certain: data records with time < ``before`` (None: everything), the first
        ``most`` of them."""
        pending = self._pending
        cut = min(most, len(pending) if before is None else bisect_left(pending, (before,)))
        if cut:
            self._released = max(self._released, pending[cut - 1][0])
        if self._controls:
            return self._release_with_controls(cut, before is None)
        if not cut:
            return []
        released, self._pending = pending[:cut], pending[cut:]
        return [event[2:] for event in released]

    def _release_with_controls(self, cut: int, everything: bool) -> list[Raw]:
        released: list[Raw] = []
        least = _least_position_from(self._pending)
        done = sent = 0
        for position, record in self._controls:
            place = max(done, bisect_left(least, position))
            if place > cut or not everything and self._consumed < position:
                break
            released += [event[2:] for event in self._pending[done:place]]
            released.append(record)
            done, sent = place, sent + 1
            if place:
                self._released = max(self._released, self._pending[place - 1][0])
        released += [event[2:] for event in self._pending[done:cut]]
        del self._controls[:sent]
        del self._pending[:max(cut, done)]
        return released


def _is_sorted(events: list[Event]) -> bool:
    times = [event[0] for event in events]
    return times == sorted(times)


def _least_position_from(pending: list[Event]) -> list[int]:
    """For each index the least ring position at or after it: ascending, so it can be searched."""
    least, lowest = [], 1 << 64
    for event in reversed(pending):
        if event[1] < lowest:
            lowest = event[1]
        least.append(lowest)
    least.reverse()
    return least
