"""Records on their way out: read from both rings, put in order, handed over in portions, within bounded memory."""

from __future__ import annotations

import time

from ...base.end_request import Ending
from ...base.fast_stdlib import deque
from ...kernel.clocks import boot_time
from ...kinds import SITE_KINDS
from ...layouts.event_records import read_position, read_probe
from .batch import Batch, Records
from .order import Sequencer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...spec import ScriptSpec
    from .ringbuf import Ring

WINDOW = 20_000_000  # ns: how long after its time a record may still come to the ring
REST = 0.005  # s: pause between looks at a busy ring, so that wake-ups stay rare
CALM = WINDOW / 1e9 + 0.001  # s: pause where little comes: then the order of what was read before is certain
_CALM_SIZE = 16 << 20  # bytes of a ring that does not fill in such a pause, though much should come all at once

_READ = 1 << 19  # bytes that are read from the data ring at a time: what is made of them stays in a CPU's cache
_AT_MOST = 1 << 15  # records in a portion
_FIRST = 1 << 8     # records in the first portion
_TURN = 0.05        # s: what handling a portion should take, so that signals are answered in between

_CONTROL_BYTES = 256  # that a control record takes while it waits

_NOTHING = Batch(0, b"", [], 0, ())


class Delivery:
    """What programs send. ``memory`` bounds the bytes of records that wait for their place in the order; beyond it they
    leave early, and those that come after later ones are counted (``late``).

    When the run was asked to end, records are handed over for a moment more (base.end_request.GRACE), and a portion in
    any case, since detaching may have taken longer; the rest is counted as lost by its probe (``dropped``).
    """

    def __init__(self, spec: ScriptSpec, data: Ring | None, control: Ring | None, memory: int, ending: Ending) -> None:
        self.data = data
        self.control = control
        self.ending = ending
        self.dropped = [0] * max(len(spec.probes), 1)  # by probe index: read, and not handed over for want of time
        self._kinds = [site.kind for site in spec.sites]
        self._sequencer = Sequencer()
        self._memory = memory
        self._portion = _FIRST
        self._handed = (0, 0.0)  # records in the last portion, and when it was handed over
        # Where the data ring's producer stood, and a time before which every record up to there was made.
        self._marks = deque([(data.position if data else 0, boot_time())])
        self._last_position = 0
        self._due = 0.0  # when the data ring is to be read again

    @property
    def late(self) -> int:
        """How many records were handed over after later ones."""
        return self._sequencer.late

    def __bool__(self) -> bool:
        """Whether records are held whose order is not certain yet."""
        return bool(self._sequencer)

    def seconds_until_certain(self) -> float:
        """Seconds until the order of the oldest held record may be certain."""
        oldest = self._sequencer.oldest_time()
        return (oldest + WINDOW - boot_time()) / 1e9 + 0.001 if oldest else 0.0

    @property
    def first_pause(self) -> float:
        """Seconds to wait after the first record has come, for others."""
        return CALM if self.data is not None and self.data.size >= _CALM_SIZE else REST

    def seconds_until_due(self) -> float:
        """Seconds until the data ring is to be read again: a reader who comes for each record would spend most of the
        time on coming."""
        return max(0.0, self._due - time.monotonic()) if self._due else 0.0

    # on the way in

    def read_data(self) -> bool:
        """Read a portion of the data ring; True if much was there."""
        data = self.data
        if data is None:
            self._sequencer.add_batch(_NOTHING, 1 << 63)
            return False
        now = boot_time()
        backlog = data.unread_bytes()
        is_calm = 0 < backlog <= data.size >> 8 and data.size >= _CALM_SIZE
        self._due = time.monotonic() + CALM if is_calm else 0.0
        self._marks.append((data.position + backlog, now))
        self._sequencer.add_batch(data.read_records(_READ), data.position)
        return backlog > data.size >> 4

    def read_controls(self, see: Callable[[int, bytes, int], object]) -> None:
        """Read the control ring; ``see`` is told of each record at once, before its turn in the order. While too many
        of them wait for data records, the others stay where they are."""
        room = self._memory // _CONTROL_BYTES - self._sequencer.controls
        if self.control is not None and room > 0 and self.control.unread_bytes():
            for site, buffer, offset in self.control.read_records():
                position = read_position(buffer, offset)
                self._sequencer.add_control(position, (site, buffer, offset))
                see(site, buffer, offset)

    def _certain_before(self) -> int:
        """The time before which every record has been read.

        What lies in the ring after a place that the producer had reached at some moment was made after that moment,
        and what lies after a record after that record, but for the window.
        """
        marks, position = self._marks, self.data.position if self.data else 1 << 63
        while len(marks) > 1 and marks[1][0] <= position:
            marks.popleft()
        return max(marks[0][1] if marks[0][0] <= position else 0, self._sequencer.newest_time()) - WINDOW

    # on the way out

    def take_records(self) -> Records:
        """The next records whose order is certain, as many as can be handled in a moment."""
        self._fit_portion()
        full = self._sequencer.held_bytes() > self._memory
        return self._release_records(None if full else self._certain_before())

    def _release_records(self, before: int | None) -> Records:
        records = self._sequencer.release_records(before, self._portion)
        self._handed = (len(records), time.monotonic())
        return records

    def _fit_portion(self) -> None:
        """Choose the size of portions so that handling one takes about a turn."""
        count, since = self._handed
        if count:
            taken = max(time.monotonic() - since, 1e-6)
            self._portion = max(1, min(_AT_MOST, 4 * self._portion, int(count * _TURN / taken)))

    def drain_rings(self, see: Callable[[int, bytes, int], object], hurried: bool = True) -> Iterator[Records]:
        """Everything in the rings; ``hurried``: after a portion, only for a moment more when the run was asked to end.
        A record that is still being written is waited for, a second at most."""
        patience, handed = 200, False
        while patience:
            self.read_controls(see)
            if handed and hurried and self.ending.is_overdue():
                batch = self._drop_held_records()
            else:
                batch = self.take_records()
            if batch:
                handed = True
                yield batch
            if self.read_data() or batch or self._has_read_further():
                continue
            if not self._has_unread():
                break
            patience -= 1
            time.sleep(REST)
        while self._sequencer:
            self._fit_portion()
            dropping = handed and hurried and self.ending.is_overdue()
            handed = True
            yield self._drop_held_records() if dropping else self._release_records(None)

    def _has_unread(self) -> bool:
        return any(ring.unread_bytes() for ring in (self.data, self.control) if ring)

    def _has_read_further(self) -> bool:
        """Whether the data ring was read further since the last call."""
        before, self._last_position = self._last_position, self.data.position if self.data else 0
        return before != self._last_position

    def _drop_held_records(self) -> Records:
        """Count the held records as lost, except cheap ones that change what is printed at the end."""
        batches = []
        for site, buffer, offset in self._sequencer.release_records(None):
            if SITE_KINDS[self._kinds[site]].silent:
                batches.append(Batch(0, buffer, [0], site, [offset]))
            else:
                self.dropped[read_probe(buffer, offset)] += 1
        while self.data is not None and (batch := self.data.read_records(_READ)):
            for _, buffer, offset in batch:
                self.dropped[read_probe(buffer, offset)] += 1
        return Records(batches)
