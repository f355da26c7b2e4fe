"""A perf event's records, read from the memory that the kernel shares: perf_event_open(2), "MMAP layout"."""

from __future__ import annotations

import mmap
import struct
import sys

from ..layouts import uapi
from . import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

RING_BYTES = 1 << 18  # a power of two
SAMPLE_IP = 1 << 0    # bit of perf_event_attr.sample_type
RECORD_LOST, RECORD_SAMPLE = 2, 9
_HEAD, _TAIL = 1024, 1032  # perf_event_mmap_page.data_head, and data_tail after it
_POSITIONS = struct.Struct("=QQ")
_HEADER = struct.Struct("=IHH")


class PerfRing:
    """One event's ring. Whoever opens it closes it; a record that finds it full is lost, which RECORD_LOST reports."""

    def __init__(self, event: syscalls.Fd) -> None:
        self.event = event
        try:
            self._memory = syscalls.mmap_fd(event, mmap.PAGESIZE + RING_BYTES)
        except BaseException:
            event.close()
            raise

    def drain_records(self) -> Iterator[tuple[int, int, bytes]]:
        """(kind, misc, body) of each record since the last time."""
        head, tail = _POSITIONS.unpack_from(self._memory, _HEAD)
        if head == tail:
            return
        while tail < head:
            kind, misc, size = _HEADER.unpack(self._read_bytes(tail, 8))
            if size < 16:
                break
            yield kind, misc, self._read_bytes(tail + 8, size - 8)
            tail += size
        self._memory[_TAIL:_TAIL + 8] = head.to_bytes(8, sys.byteorder)

    def _read_bytes(self, at: int, size: int) -> bytes:
        """A part of the ring, which may wrap around its end."""
        at %= RING_BYTES
        first = min(size, RING_BYTES - at)
        start = mmap.PAGESIZE
        return bytes(self._memory[start + at:start + at + first]) + bytes(self._memory[start:start + size - first])

    def close(self) -> None:
        """Release the memory and the event."""
        self._memory.close()
        self.event.close()


class Sampler:
    """Where each CPU is, ``rate`` times a second. No BPF program takes the samples: the kernel runs none of a perf
    event while one of a tracepoint or kprobe runs (bpf_overflow_handler() in kernel/events/core.c), and does not count
    that. ``addresses`` are the samples by address, ``total`` is how many there were; ``lost`` found a ring full."""

    def __init__(self, rate: int) -> None:
        from . import host
        self.addresses: dict[int, int] = {}
        self.total = self.lost = 0
        self._rings: list[PerfRing] = []
        try:
            for cpu in host.online_cpus():
                self._rings.append(PerfRing(syscalls.perf_event_open(
                    uapi.PERF_TYPE_SOFTWARE, uapi.PERF_COUNT_SW_CPU_CLOCK, cpu=cpu, sample_period=rate,
                    flags=uapi.PERF_ATTR_FREQ, sample_type=SAMPLE_IP, wakeup=0)))
        except BaseException:
            self.close()
            raise

    def drain_rings(self) -> None:
        """Take in new samples; to be called a few times a second."""
        for ring in self._rings:
            for kind, _, body in ring.drain_records():
                if kind == RECORD_SAMPLE:
                    address, = struct.unpack_from("=Q", body)
                    self.addresses[address] = self.addresses.get(address, 0) + 1
                    self.total += 1
                elif kind == RECORD_LOST:
                    self.lost += struct.unpack_from("=QQ", body)[1]

    def close(self) -> None:
        """Stop."""
        for ring in self._rings:
            ring.close()
        self._rings = []
