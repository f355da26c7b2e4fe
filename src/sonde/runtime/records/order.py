"""The order in which records leave the session.

Records of the data ring leave sorted by time. CPUs reserve space in the ring a moment after they read the clock, so a
record is held back until it is older than a window that covers all such delays. A control record leaves after every
data record that was in the ring before it, and otherwise as early as it can.
"""

from __future__ import annotations

from .batch import Batch, Raw, Records, merge_batches

EVENT_BYTES = 88  # what the Python objects of one record take, beside the record itself: its time and its offset


class Sequencer:
    """Holds records until their place in the order is certain. Pure: knows neither clocks nor rings."""

    def __init__(self) -> None:
        self._pending: list[Batch] = []  # none empty, each in order, and one after the other
        self._count = 0  # of the records in them
        self._controls: list[tuple[int, Raw]] = []  # (position in the data ring, record), in ring order
        self._consumed = 0  # position up to which the data ring has been read
        self._released = 0  # the greatest time that has left
        self.late = 0       # records that came after later ones had left: they are out of order

    def add_batch(self, batch: Batch, consumed: int) -> None:
        """Add what was read from the data ring, up to position ``consumed``, in ring order."""
        self._consumed = consumed
        if not batch.times:
            return
        self._count += len(batch)
        if batch.times != sorted(batch.times):
            batch.sort()
        if batch.times[0] < self.newest_time():
            from ...base.fast_stdlib import bisect_left
            self.late += bisect_left(batch.times, self._released)
            self._insert(batch)
        else:
            self._pending.append(batch)

    def _insert(self, batch: Batch) -> None:
        """Insert a batch; only records between its first time and the newest one are sorted again."""
        pending, first, newest, later = self._pending, batch.times[0], self.newest_time(), []
        while pending and pending[-1].times[-1] > first:
            before, after = pending.pop().split(first, True)
            later.append(after)
            if before:
                pending.append(before)
        among, beyond = batch.split(newest)
        pending += merge_batches([*later, among]) if later else [among] if among else []
        if beyond:
            pending.append(beyond)

    def add_control(self, position: int, record: Raw) -> None:
        """Add a control record that was made when the data ring's producer stood at ``position``."""
        self._controls.append((position, record))

    @property
    def controls(self) -> int:
        """Control records that are held."""
        return len(self._controls)

    def oldest_time(self) -> int | None:
        """Time of the oldest data record that is held."""
        return self._pending[0].times[0] if self._pending else None

    def newest_time(self) -> int:
        """Time of the newest data record that is held or has left; 0 if there is none."""
        return self._pending[-1].times[-1] if self._pending else self._released

    def held_bytes(self) -> int:
        """About how much memory the held data records take: they keep alive what was read since the oldest of them."""
        if not self._pending:
            return 0
        oldest = self._pending[0]
        return self._consumed - oldest.base - oldest.offsets[0] + EVENT_BYTES * self._count

    def __bool__(self) -> bool:
        return bool(self._pending or self._controls)

    def release_records(self, before: int | None, most: int = 1 << 62) -> Records:
        """The records whose place is certain: data records with time < ``before`` (None: everything), the first
        ``most`` of them."""
        cut = min(most, self._count if before is None else self._count_before(before))
        if self._controls:
            return Records(self._release_with_controls(cut, before is None))
        return Records(self._take_first(cut))

    def _count_before(self, time: int) -> int:
        count = 0
        for batch in self._pending:
            if batch.times[-1] >= time:
                from ...base.fast_stdlib import bisect_left
                return count + bisect_left(batch.times, time)
            count += len(batch)
        return count

    def _take_first(self, count: int) -> list[Batch]:
        """Remove and return the first ``count`` data records."""
        taken, left, whole = [], count, 0
        for batch in self._pending:
            if len(batch) > left:
                break
            taken.append(batch)
            left -= len(batch)
            whole += 1
        del self._pending[:whole]
        if left:
            batch = self._pending[0]
            taken.append(batch.part(0, left))
            self._pending[0] = batch.part(left, len(batch))
        self._count -= count
        if taken:
            self._released = max(self._released, taken[-1].times[-1])
        return taken

    def _release_with_controls(self, cut: int, everything: bool) -> list[Batch]:
        released: list[Batch] = []
        if least := _least_position_from(self._pending):
            from ...base.fast_stdlib import bisect_left
        done = sent = 0
        for position, (site, buffer, offset) in self._controls:
            index = max(done, bisect_left(least, position)) if least else 0
            if index > cut or not everything and self._consumed < position:
                break
            released += self._take_first(index - done)
            released.append(Batch(0, buffer, [0], site, [offset]))
            done, sent = index, sent + 1
        del self._controls[:sent]
        return released + self._take_first(cut - done) if cut > done else released


def _least_position_from(pending: list[Batch]) -> list[int]:
    """For each record the least ring position at or after it: ascending, so it can be searched."""
    least, lowest = [], 1 << 64
    for batch in reversed(pending):
        for offset in reversed(batch.offsets):
            lowest = min(lowest, batch.base + offset)
            least.append(lowest)
    least.reverse()
    return least
