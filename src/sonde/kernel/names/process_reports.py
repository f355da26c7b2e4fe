"""What processes do to their memory, reported by the kernel as it happens.

A perf event that counts nothing reports each executable mapping, fork, execve() and exit of every process since it was
opened, into a ring per CPU; see perf_event_open(2), PERF_RECORD_MMAP2.
"""

from __future__ import annotations

import os
import sys
import time

from ...errors import MachineError, SondeError
from ...layouts import uapi
from .. import syscalls
from ..perf_ring import RECORD_LOST, RING_BYTES, PerfRing

_DUMMY = 9            # PERF_COUNT_SW_DUMMY
# bits of perf_event_attr
_MMAP, _COMM, _TASK, _WATERMARK, _ID_ALL = 1 << 8, 1 << 9, 1 << 13, 1 << 14, 1 << 18
_MMAP2, _COMM_EXEC = 1 << 23, 1 << 24
BUILD_ID = 1 << 34
_SAMPLE_TIME = 1 << 2
REST, MOST_REST = 0.0005, 0.05  # s: how long a report that was read delays the next ones; and all of them together
HALF = RING_BYTES // 256        # reports that a ring has room for, and as many again
MMAP2_NAME = 64  # where the name begins in the body of a MMAP2 record
RECORD_COMM, RECORD_EXIT, RECORD_FORK, RECORD_MMAP2 = 3, 4, 7, 10
MISC_EXEC = 1 << 13  # of a COMM record: by execve()
ELSEWHERE = 0  # the kernel's pid for processes outside of our PID namespace: kernel/events/core.c
Report = tuple[int, int, int, bytes]  # its time, kind, misc, the rest


class ProcessReports:
    """Reads the reports, in the order of time. ``lost`` counts those that found a ring full; ``rest`` is for how many
    seconds they can wait while nobody asks."""

    def __init__(self) -> None:
        self.lost = 0
        self.rest = 0.0
        self._rings: list[PerfRing] = []
        self._waiting: list[Report] = []
        self._read_at = 0.0  # the time of the last reading

    def open_rings(self, more: int = 0) -> bool:
        """A ring for each CPU, of some 2000 mappings; we are woken at once, but less often by many than by few:
        ``rest``. False if the kernel does not permit that. ``more``: further bits of perf_event_attr."""
        flags = _MMAP | _COMM | _TASK | _WATERMARK | _ID_ALL | _MMAP2 | _COMM_EXEC | more
        try:
            for cpu in range(os.cpu_count() or 1):
                self._rings.append(PerfRing(syscalls.perf_event_open(
                    uapi.PERF_TYPE_SOFTWARE, _DUMMY, cpu=cpu, flags=flags, sample_type=_SAMPLE_TIME, wakeup=1)))
        except (MachineError, SondeError):
            self.close()
        return bool(self._rings)

    @property
    def fds(self) -> list[int]:
        """Descriptors to poll: readable when there is much to read."""
        return [ring.event.number for ring in self._rings]

    def close(self) -> None:
        """Read what is left, stop watching."""
        self.drain_rings()
        for ring in self._rings:
            ring.close()
        self._rings = []
        self.drain_rings()

    def drain_rings(self) -> None:
        """Take in what has been reported, in the order of time: a process may move between CPUs, and their rings. What
        is older than the newest report and reached one ring while another was read is found by a second reading; what
        is newer waits for the next one."""
        reports = self._waiting + self._read_rings()
        self._waiting = []
        self._fit_rest(len(reports))
        if not reports:
            return
        newest = max(reports)[0]
        for record in self._read_rings():
            (reports if record[0] <= newest else self._waiting).append(record)
        self.begin_reading()
        for _, kind, misc, body in sorted(reports):
            if kind == RECORD_LOST:
                self.lost += int.from_bytes(body[8:16], sys.byteorder)
            else:
                self.apply_record(kind, misc, body)

    def begin_reading(self) -> None:
        """Some reports are there, and will be applied."""

    def apply_record(self, kind: int, misc: int, body: bytes) -> None:
        """Take in one report; ``body`` is what follows the header of the perf record, without its time."""
        raise NotImplementedError

    def _fit_rest(self, reports: int) -> None:
        """Delay the next reports the longer, the more there were, but not until a ring is full."""
        now = time.monotonic()
        full = HALF * (now - self._read_at) / max(reports, 1)
        self.rest, self._read_at = min(REST * reports, MOST_REST, full), now

    def _read_rings(self) -> list[Report]:
        return [(int.from_bytes(body[-8:], sys.byteorder), kind, misc, body[:-8])
                for ring in self._rings for kind, misc, body in ring.drain_records()]
