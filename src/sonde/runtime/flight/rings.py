"""Reading flight memory while the programs go on writing: each CPU's newest stretch without a hole.

See layouts/shared_maps.py for the layout and compiler/lower/flight.py for the writers. A read begins at the head. All
records before it are complete if nobody was writing at some moment after it was read; otherwise those before
``settled`` are. Segments are then copied, oldest first, and after each copy the head tells whether a writer may have
come round to it meanwhile: such a segment and all before it are dropped. What was copied is checked record by record:
an unexpected number, or a length that is not its site's, is a hole, and what comes before it is dropped too.
"""

from __future__ import annotations

import time

from ...arch import this_arch
from ...base.record import Record
from ...kernel import syscalls
from ...layouts.event_records import TIME
from ...layouts.shared_maps import FLIGHT, FLIGHT_GAP, HEAD, HEADS, HEADS_STRIDE, SETTLED, WRITERS
from ...spec import EventSite, ScriptSpec
from ..records.batch import Batch, Records
from ..records.order import Sequencer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..maps.access import Map

TRIES = 1000     # looks for a moment at which nobody writes, before sleeping
REST = 0.001     # s: between two rounds of such looks
PATIENCE = 50    # rounds, before what has settled is taken
ROUNDS = 20      # attempts to copy a region that writers overtake
PREFIX = 8       # bytes before each record
_HALF = (1 << 32) - 1
_TIME = TIME // 8  # words from a record's beginning


class Stretch(Record):
    """The newest records of a CPU that follow one another: bytes ``begin`` to ``end`` of all that it has written.
    ``batches`` have them in the order in which they were begun. ``holes``: places that broke what was older off."""

    cpu: int
    begin: int
    end: int
    batches: list[Batch]
    holes: int = 0

    @property
    def count(self) -> int:
        """How many records there are."""
        return sum(map(len, self.batches))

    @property
    def moments(self) -> tuple[int, int]:
        """The first and the last time (boot clock, ns); zeros if there are no records."""
        return (min([min(batch.times) for batch in self.batches], default=0),
                max([max(batch.times) for batch in self.batches], default=0))

    def since(self, moment: int) -> Stretch:
        """The part that is not older than ``moment``; each batch is sorted by time."""
        batches = []
        for batch in self.batches:
            if batch.times != sorted(batch.times):
                batch.sort()
            _, newer = batch.split(moment)
            if newer:
                batches.append(newer)
        return Stretch(self.cpu, self.begin, self.end, batches, self.holes)


class FlightReader:
    """Reads the flight memory of a script."""

    def __init__(self, spec: ScriptSpec, maps: Mapping[str, Map]) -> None:
        memory = maps[FLIGHT]
        self._sites = spec.sites
        self._element, self._size = memory.spec.value_size, memory.spec.stride
        self._cpus = memory.spec.cpus
        self._segments = memory.spec.max_entries // memory.spec.cpus
        self._view = memoryview(memory.memory)
        self._heads = memoryview(maps[HEADS].memory).cast("Q")
        self._reorders = not this_arch().ordered_memory  # stores may be seen in another order than they were made

    def read_stretches(self) -> list[Stretch]:
        """The newest stretch of each CPU."""
        copies = [self._copy_stretch(cpu) for cpu in range(self._cpus)]
        return [split_stretch(cpu, first, end, self._size, segments, self._sites)
                for cpu, (first, end, segments) in enumerate(copies)]

    def _word(self, cpu: int, offset: int) -> int:
        return self._heads[(cpu * HEADS_STRIDE + offset) >> 3]

    def _complete_end(self, cpu: int) -> int:
        """The offset before which all records are complete."""
        for _ in range(PATIENCE):
            for _ in range(TRIES):
                head = self._word(cpu, HEAD)
                if not self._word(cpu, WRITERS):
                    return head
            time.sleep(REST)
        return self._word(cpu, SETTLED)

    def _copy_stretch(self, cpu: int) -> tuple[int, int, list[bytes]]:
        """The number of the first segment that is copied, that of the byte at which all ends, and the segments. Where
        the writers have gone all the way round meanwhile, for this process got no CPU time, it is tried again."""
        for _ in range(ROUNDS):
            first, end, copies = self._try_to_copy(cpu)
            if copies or not end:
                break
        return first, end, copies

    def _try_to_copy(self, cpu: int) -> tuple[int, int, list[bytes]]:
        end = self._complete_end(cpu)
        if self._reorders:
            syscalls.wait_for_running_programs()
        last = (end - 1) // self._size if end else -1
        first = max(0, last - self._segments + 1)
        copies: list[bytes] = []
        for number in range(first, last + 1):
            copies.append(self._copy_segment(cpu, number))
            if self._word(cpu, HEAD) > (number + self._segments) * self._size:
                copies.clear()
        return last + 1 - len(copies), end, copies

    def _copy_segment(self, cpu: int, number: int) -> bytes:
        at = (cpu * self._segments + number % self._segments) * self._element
        return bytes(self._view[at:at + self._element])

    def close(self) -> None:
        """Unmap the memory."""
        self._view.release()
        self._heads.release()


def split_stretch(cpu: int, first: int, end: int, size: int, segments: Sequence[bytes],
                  sites: Sequence[EventSite]) -> Stretch:
    """The records in copies of segments ``first`` and those that follow it, of ``size`` bytes without their slack, up
    to byte ``end``. Whatever is in them,
    what comes out are records of ``sites``, whole and in a row up to ``end``; what is older than a hole is left out."""
    stretch = Stretch(cpu, first * size, end, [])
    at = stretch.begin
    for number, segment in enumerate(segments, first):
        stop = min((number + 1) * size, end)
        batch, after = _split_segment(segment, number * size, at, stop, sites)
        if after < stop or after > end:
            stretch = Stretch(cpu, stop, end, [], stretch.holes + 1)
            at = stop
            continue
        if batch:
            stretch.batches.append(batch)
        at = after
    return stretch


def _split_segment(segment: bytes, base: int, at: int, stop: int, sites: Sequence[EventSite]) -> tuple[Batch, int]:
    """The records that begin at byte ``at`` or after it, and before ``stop``, in a segment whose first byte is
    ``base``; and the byte after the last of them, which is less than ``stop`` where there is a hole."""
    words, halves = memoryview(segment).cast("Q"), memoryview(segment).cast("I")
    index, stop = at - base >> 3, stop - base >> 3
    stamp, most = base >> 3, len(words)
    alike = _scan_alike(words, index, stop, stamp, sites)
    if alike is not None:
        return _make_batch(segment, base, alike, halves[2 * alike.start]), base + (alike.stop << 3)
    starts: list[int] = []
    numbers: list[int] = []
    while index < stop:
        prefix = words[index]
        length = prefix & _HALF
        if prefix >> 32 != stamp + index & _HALF or length & 7:
            break
        if length & FLIGHT_GAP:
            length ^= FLIGHT_GAP
        elif index + 2 < most:
            site = halves[2 * (index + 1)]
            if site >= len(sites) or length != sites[site].size + PREFIX or index + (length >> 3) > most:
                break
            starts.append(index + 1)
            numbers.append(site)
        else:
            break
        if not 0 < length <= most << 3:
            break
        index += length >> 3
    return _make_batch(segment, base, starts, numbers), base + (index << 3)


def _scan_alike(words: memoryview[int], index: int, stop: int, stamp: int, sites: Sequence[EventSite]) -> range | None:
    """Where the records of a segment lie (the words after their prefixes), up to the word after the last, if all are
    of one site."""
    if index + 2 >= len(words) or index >= stop:
        return None
    halves = words.cast("B").cast("I")
    site = halves[2 * (index + 1)]
    if site >= len(sites):
        return None
    step = sites[site].size + PREFIX >> 3
    count = (stop - index + step - 1) // step
    after = index + count * step
    first, by = (stamp + index & _HALF) << 32 | step << 3, step << 32
    if after > len(words) or words[index:after:step].tolist() != list(range(first, first + count * by, by)):
        return None
    named = halves[2 * (index + 1):2 * after:2 * step].tolist()
    return range(index + 1, after, step) if named.count(site) == len(named) else None


def _make_batch(segment: bytes, base: int, starts: Sequence[int], sites: int | list[int]) -> Batch:
    """The records at these words."""
    words = memoryview(segment).cast("Q")
    times = words[starts.start + _TIME::starts.step].tolist()[:len(starts)] if isinstance(starts, range) \
        else [words[at + _TIME] for at in starts]
    return Batch(base, segment, times, sites, [at << 3 for at in starts])


def merge_stretches(stretches: Sequence[Stretch]) -> Iterator[Records]:
    """The records of all CPUs in the order of time, a portion at a time. Consumes the batches."""
    queues = [_Queue(stretch.batches) for stretch in stretches if stretch.batches]
    order = Sequencer()
    while queues:
        first = min(queues, key=_Queue.next_time)
        order.add_batch(first.take_batch(), 0)
        queues = [queue for queue in queues if queue.batches]
        before = min([queue.earliest_time() for queue in queues], default=None)
        if records := order.release_records(before):
            yield records


class _Queue:
    """Batches of a CPU, with the earliest time in each batch and those after it."""

    def __init__(self, batches: list[Batch]) -> None:
        self.batches = batches
        self.batches.reverse()
        self._earliest: list[int] = []
        for batch in batches:
            self._earliest.append(min(batch.times[0], self._earliest[-1]) if self._earliest else batch.times[0])

    def next_time(self) -> int:
        """The first time of the next batch."""
        return self.batches[-1].times[0]

    def earliest_time(self) -> int:
        """The first time of all batches that are left."""
        return self._earliest[len(self.batches) - 1]

    def take_batch(self) -> Batch:
        """The next batch."""
        return self.batches.pop()
