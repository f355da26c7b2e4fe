"""Reading BPF ring buffers through shared memory.

Layout of the mapping (kernel/bpf/ringbuf.c): one page with the consumer position, ours to write; one page with the
producer position; then the data, mapped twice in a row so that no record is ever cut. Positions only grow; a record
starts at position & (size - 1) with a u32 length, whose top bits say "still being written" and "discarded",
and a u32 of the kernel's own. Records are aligned to 8 bytes.

Positions and headers are read as one native 8-byte access each (a memoryview of format "Q" does that, ``struct`` with
an explicit byte order goes byte by byte and could see half of a new value).
"""

from __future__ import annotations

import os

from ..kernel import syscalls
from ..kernel.syscalls import Fd
from ..spec import CONTROL_RING
from ..uapi import BPF_RINGBUF_BUSY_BIT, BPF_RINGBUF_DISCARD_BIT
from .batch import Batch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_LENGTH = BPF_RINGBUF_DISCARD_BIT - 1
_SITE = (1 << 32) - 1


class Ring:
    """The consumer of one ring buffer of ``size`` bytes (a power of two)."""

    def __init__(self, fd: Fd, size: int, page: int) -> None:
        self.fd = fd
        self.size = size
        self._front: Any = syscalls.mmap_fd(fd, page)
        self._back: Any = syscalls.mmap_fd(fd, page + 2 * size, page, writable=False)
        self._consumer = memoryview(self._front).cast("Q")
        self._producer = memoryview(self._back)[:page].cast("Q")
        self._data = memoryview(self._back)[page:]
        self._words = self._data.cast("Q")
        self._halves = self._data.cast("I")
        self._fence = _make_memory_barrier()
        self._last_time = 0
        self.position = self._consumer[0]  # everything before it has been read

    def unread_bytes(self) -> int:
        """Bytes that wait to be read (some of them perhaps still being written)."""
        return self._producer[0] - self.position

    def read_records(self, limit: int = 1 << 62) -> Batch:
        """Consume complete records up to the first that is still being written, in ring order.

        About ``limit`` bytes are copied out in one piece, so the kernel gets the room back at once. A record
        whose time is 0 takes that of the record before it.
        """
        position = self.position
        end = min(self._producer[0], position + limit)
        if position >= end:
            return Batch(0, b"", [], 0, ())
        self._fence()
        start = (position & (self.size - 1)) >> 3
        found, stop = self._scan_records(start, start + ((end - position) >> 3))
        self._fence()
        times, sites = self._times_of(found), self._sites_of(found)
        if 0 in times:
            self._inherit_times(times)
        elif times:
            self._last_time = times[-1]
        buffer = bytes(self._data[start << 3:stop << 3])
        offsets = range((found.start - start + 1) << 3, (found.stop - start + 1) << 3, found.step << 3) \
            if isinstance(found, range) else [(at - start + 1) << 3 for at in found]
        self.position = self._consumer[0] = position + ((stop - start) << 3)
        same = bool(sites) and sites.count(sites[0]) == len(sites)
        return Batch(position, buffer, times, sites[0] if same else sites, offsets)

    def skip_records(self) -> list[int]:
        """As :meth:`read`, but only the probe indices of the records."""
        position = self.position
        self._fence()
        start = (position & (self.size - 1)) >> 3
        found, stop = self._scan_records(start, start + ((self._producer[0] - position) >> 3))
        words = self._words
        probes = [words[at + 1] >> 32 for at in found]
        self._fence()
        self.position = self._consumer[0] = position + ((stop - start) << 3)
        return probes

    def _times_of(self, found: Sequence[int]) -> list[int]:
        words = self._words
        if isinstance(found, range):
            return words[found.start + 2:found.stop + 2:found.step].tolist()
        return [words[at + 2] for at in found]

    def _sites_of(self, found: Sequence[int]) -> list[int]:
        if isinstance(found, range):
            return self._halves[2 * found.start + 2:2 * found.stop + 2:2 * found.step].tolist()
        words = self._words
        return [words[at + 1] & _SITE for at in found]

    def _scan_records(self, at: int, end: int) -> tuple[Sequence[int], int]:
        """Word indices of the complete records in [at, end) and of the first word that is not one."""
        words, alike = self._words, self._scan_alike(at, end)
        at = alike.stop
        if at >= end or words[at] & BPF_RINGBUF_BUSY_BIT:
            return alike, at
        found = list(alike)
        while at < end:
            head = words[at] & _SITE
            if head >= BPF_RINGBUF_DISCARD_BIT:
                if head & BPF_RINGBUF_BUSY_BIT:
                    break
                head &= _LENGTH
            else:
                found.append(at)
            at += (head + 15) >> 3
        return found, at

    def _scan_alike(self, at: int, end: int) -> range:
        """Word indices of the complete records from ``at`` on that have the length of the first; its stop is the word
        behind them."""
        first = self._halves[2 * at]
        if first >= BPF_RINGBUF_DISCARD_BIT:
            return range(at, at)
        step = (first + 15) >> 3
        most = (end - at + step - 1) // step
        lengths = self._halves[2 * at:2 * (at + most * step):2 * step].tolist()
        if lengths.count(first) < most:
            most = next(index for index, length in enumerate(lengths) if length != first)
        return range(at, at + most * step, step)

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
        for view in (self._consumer, self._producer, self._words, self._halves, self._data):
            view.release()
        self._back.close()
        self._front.close()


def _make_memory_barrier() -> Callable[[], object]:
    """A full memory barrier, for machines that reorder loads; x86 does not.

    Releasing a lock and taking it again is one: the store-release orders all earlier loads before it, and the
    load-acquire that follows it all later ones (C11 atomics, as Python's locks use them).
    """
    from os import uname

    if uname().machine == "x86_64":
        return int
    from threading import Lock

    lock = Lock()
    lock.acquire()

    def fence() -> None:
        lock.release()
        lock.acquire()

    return fence


def data_ring_bytes(perf_rb_pages: int, page: int, memory: int) -> int:
    """Size of the data ring: ``perf_rb_pages`` rounded up to a power of two, or by the machine's memory in bytes."""
    if perf_rb_pages:
        return max(page, 1 << (perf_rb_pages * page - 1).bit_length())
    share = memory // 2048
    return min(16 << 20, max(4 << 20, 1 << share.bit_length()))


CONTROL_RING_BYTES = 256 << 10


def ring_bytes(name: str, perf_rb_pages: int) -> int:
    """Size of the ring of that name, on this machine."""
    if name == CONTROL_RING:
        return CONTROL_RING_BYTES
    page = os.sysconf("SC_PAGE_SIZE")
    return data_ring_bytes(perf_rb_pages, page, os.sysconf("SC_PHYS_PAGES") * page)
