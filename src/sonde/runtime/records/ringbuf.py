"""Reading BPF ring buffers through shared memory.

Layout of the mapping (kernel/bpf/ringbuf.c): one page with the consumer position, ours to write; one page with the
producer position; then the data. Positions only grow; a record starts at position & (size - 1) with a u32 length, whose
top bits say "still being written" and "discarded", and a u32 of the kernel's own. Records are aligned to 8 bytes. The
data lie there twice, one copy after the other, so that a record which begins at their end is in one piece.

Only a window of the data is mapped, and moves with the reader: the kernel maps all pages of a mapping at once
(remap_vmalloc_range), and each counts as memory of this process.

Positions and lengths are read in one native access each (a memoryview of format "Q" or "I" does that; ``struct`` with
an explicit byte order reads byte by byte and could see half of a new value).
"""

from __future__ import annotations

import os

from ...arch import this_arch
from ...kernel import syscalls
from ...kernel.syscalls import Fd
from ...layouts.event_records import CONTROL_RING, DATA_RING, SITE, TIME
from ...layouts.uapi import BPF_RINGBUF_BUSY_BIT, BPF_RINGBUF_DISCARD_BIT
from ...spec import MapSpec
from .batch import Batch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LENGTH = BPF_RINGBUF_DISCARD_BIT - 1
WINDOW = 2 << 20  # bytes
_HEAD = 8  # bytes of the ring before a record
_TIME, _SITE = (_HEAD + TIME) // 8, (_HEAD + SITE) // 4  # words, halves of words from there


class _Window:
    """The bytes of a ring's data from a position on, which lies on a page, as far as they are mapped."""

    def __init__(self, fd: Fd, size: int, page: int, start: int, length: int) -> None:
        self.start, self.stop = start, start + length
        self._memory = syscalls.mmap_fd(fd, length, 2 * page + (start & (size - 1)), writable=False)
        self.bytes = memoryview(self._memory)
        self.words = self.bytes.cast("Q")
        self.halves = self.bytes.cast("I")

    def close(self) -> None:
        for view in (self.words, self.halves, self.bytes):
            view.release()
        self._memory.close()


class Ring:
    """The consumer of one ring buffer of ``size`` bytes (a power of two)."""

    def __init__(self, fd: Fd, size: int, page: int) -> None:
        self.fd = fd
        self.size = size
        self._page = page
        self._front = syscalls.mmap_fd(fd, page)
        self._back = syscalls.mmap_fd(fd, page, page, writable=False)
        self._consumer = memoryview(self._front).cast("Q")
        self._producer = memoryview(self._back).cast("Q")
        self._window = _Window(fd, size, page, 0, page)
        self._fence = _make_memory_barrier()
        self._last_time = 0
        self.position = self._consumer[0]  # everything before it has been read

    def unread_bytes(self) -> int:
        """Bytes to read; some may still be being written."""
        return self._producer[0] - self.position

    def read_records(self, limit: int = 1 << 62) -> Batch:
        """Consume complete records up to the first that is still being written, in ring order.

        About ``limit`` bytes, and not much more than a window, are copied out in one piece, so the kernel gets the room
        back at once. A record whose time is 0 takes that of the record before it.
        """
        position = self.position
        end = min(self._producer[0], position + min(limit, WINDOW))
        if position >= end:
            return Batch(0, b"", [], 0, ())
        self._show(position, end)
        self._fence()
        starts, count = self._scan_records((position - self._window.start) >> 3, (end - position) >> 3)
        self._fence()
        buffer = self._copy_words(position, count)
        self.position = self._consumer[0] = position + (count << 3)
        words, halves = memoryview(buffer).cast("Q"), memoryview(buffer).cast("I")
        if isinstance(starts, range):
            times, sites = words[_TIME::starts.step].tolist(), halves[_SITE::2 * starts.step].tolist()
            offsets: Sequence[int] = range(8, (count + 1) << 3, starts.step << 3)
        else:
            times, sites = [words[at + _TIME] for at in starts], [halves[2 * at + _SITE] for at in starts]
            offsets = [(at + 1) << 3 for at in starts]
        if 0 in times:
            self._inherit_times(times)
        elif times:
            self._last_time = times[-1]
        same = bool(sites) and sites.count(sites[0]) == len(sites)
        return Batch(position, buffer, times, sites[0] if same else sites, offsets)

    def _show(self, position: int, end: int) -> None:
        """Have the window include what lies between two positions."""
        if self._window.start <= position and end <= self._window.stop:
            return
        start = position & -self._page
        needed = (end - start + self._page - 1) & -self._page
        window = _Window(self.fd, self.size, self._page, start, max(needed, min(WINDOW, self.size)))
        self._window.close()
        self._window = window

    def _copy_words(self, position: int, count: int) -> bytes:
        """Copy words out of the ring; the last record may end beyond the window."""
        self._show(position, position + (count << 3))
        at = position - self._window.start
        return bytes(self._window.bytes[at:at + (count << 3)])

    def _scan_records(self, start: int, most: int) -> tuple[Sequence[int], int]:
        """Where complete records begin in the ``most`` words from word ``start`` of the window on, and how many words
        they take: a range if they are of one length."""
        halves, alike = self._window.halves[2 * start:], self._scan_alike(start, most)
        at = alike.stop
        if at >= most or halves[2 * at] & BPF_RINGBUF_BUSY_BIT:
            return alike, at
        starts = list(alike)
        while at < most:
            head = halves[2 * at]
            if head >= BPF_RINGBUF_DISCARD_BIT:
                if head & BPF_RINGBUF_BUSY_BIT:
                    break
                head &= _LENGTH
            else:
                starts.append(at)
            at += (head + 15) >> 3
        return starts, at

    def _scan_alike(self, start: int, most: int) -> range:
        """The leading run of equal-length records, as word offsets; its stop is the word after them."""
        halves = self._window.halves[2 * start:]
        first = halves[0]
        if first >= BPF_RINGBUF_DISCARD_BIT:
            return range(0)
        step = (first + 15) >> 3
        lengths = halves[:2 * most:2 * step].tolist()
        count = len(lengths)
        if lengths.count(first) < count:
            count = next(index for index, length in enumerate(lengths) if length != first)
        return range(0, count * step, step)

    def _inherit_times(self, times: list[int]) -> None:
        last = self._last_time
        for index, time in enumerate(times):
            if time:
                last = time
            else:
                times[index] = last
        self._last_time = last

    def close(self) -> None:
        """Unmap; the ring itself belongs to its map."""
        self._window.close()
        for view in (self._consumer, self._producer):
            view.release()
        self._back.close()
        self._front.close()


def _make_memory_barrier() -> Callable[[], object]:
    """A full memory barrier, for machines that reorder loads.

    Releasing a lock and taking it again is one: the store-release orders all earlier loads before it, and the
    load-acquire that follows it all later ones (C11 atomics, as Python's locks use them).
    """
    if this_arch().ordered_memory:
        return int
    from _thread import allocate_lock

    lock = allocate_lock()
    lock.acquire()

    def fence() -> None:
        lock.release()
        lock.acquire()

    return fence


def data_ring_bytes(perf_rb_pages: int, page: int, memory: int) -> int:
    """Size of the data ring: ``perf_rb_pages`` rounded up to a power of two, or a 256th of the ``memory`` that there
    is: 4 MiB at least, and 64 MiB at most."""
    if perf_rb_pages:
        return max(page, 1 << (perf_rb_pages * page - 1).bit_length())
    return min(64 << 20, max(4 << 20, 1 << (memory // 256).bit_length() - 1 if memory >= 256 else 0))


CONTROL_RING_BYTES = 256 << 10


def sized_ring(spec: MapSpec, perf_rb_pages: int) -> MapSpec:
    """A ring's spec with the size that it gets on this machine."""
    return MapSpec(spec.name, spec.type, 0, 0, ring_bytes(spec, perf_rb_pages), spec.flags)


def ring_bytes(spec: MapSpec, perf_rb_pages: int) -> int:
    """Size of a ring on this machine. Of the data ring a script may need less than the default."""
    if spec.name != DATA_RING:
        return CONTROL_RING_BYTES if spec.name == CONTROL_RING else spec.max_entries
    from ...kernel.procfs import available_memory
    page = os.sysconf("SC_PAGE_SIZE")
    size = data_ring_bytes(perf_rb_pages, page, 0 if perf_rb_pages else available_memory())
    return min(size, spec.max_entries) if spec.max_entries and not perf_rb_pages else size
