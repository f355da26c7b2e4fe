"""What processes map executable, told by the kernel as it happens: stacks of a process that has ended can be named.

A perf event that counts nothing reports each executable mapping (and fork) of every process since it was opened, into
a ring per CPU; see perf_event_open(2), PERF_RECORD_MMAP2.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import Any

from .. import uapi
from ..errors import EnvironmentProblem, SondeError
from . import binaries, syscalls
from .symbols import Mapping, is_file

RING_BYTES = 1 << 18  # per CPU, a power of two: some 2000 mappings between two looks
_DUMMY = 9            # PERF_COUNT_SW_DUMMY
_MMAP, _COMM, _TASK, _MMAP2, _COMM_EXEC = 1 << 8, 1 << 9, 1 << 13, 1 << 23, 1 << 24  # bits of perf_event_attr
_RECORD_FORK, _RECORD_MMAP2 = 7, 10
_HEAD, _TAIL = 1024, 1032  # perf_event_mmap_page.data_head and data_tail
_HEADER = struct.Struct("=IHH")
_MMAP2_BODY = struct.Struct("=IIQQQ")  # then device, inode, protection, flags: 32 bytes; then the name
PROCESSES = 4096  # remembered; the oldest go first


class MappingLog:
    """The executable mappings since :meth:`start`; keeps what it has read when it is closed."""

    def __init__(self) -> None:
        self._events: list[syscalls.Fd] = []
        self._rings: list[Any] = []
        self._found: dict[int, list[Mapping]] = {}
        self._parents: dict[int, int] = {}

    def start(self) -> None:
        """Watch every process. Where the kernel does not let us, nothing is remembered."""
        flags = _MMAP | _COMM | _TASK | _MMAP2 | _COMM_EXEC
        try:
            for cpu in range(os.cpu_count() or 1):
                event = syscalls.perf_event_open(uapi.PERF_TYPE_SOFTWARE, _DUMMY, cpu=cpu, flags=flags)
                self._events.append(event)
                self._rings.append(syscalls.mmap_fd(event, mmap.PAGESIZE + RING_BYTES))
        except (EnvironmentProblem, SondeError):
            self.close()

    def close(self) -> None:
        """Read what is left, stop watching."""
        self.read()
        for thing in (*self._rings, *self._events):
            thing.close()
        self._rings, self._events = [], []

    def mapping(self, pid: int, address: int) -> Mapping | None:
        """The newest mapping that the process, or one that it was forked from, had at an address."""
        self.read()
        seen = set()
        while pid not in seen:
            seen.add(pid)
            for mapping in reversed(self._found.get(pid, ())):
                if mapping.start <= address < mapping.end:
                    return mapping
            pid = self._parents.get(pid, pid)
        return None

    def read(self) -> None:
        """Take in what has been reported."""
        for ring in self._rings:
            head = int.from_bytes(ring[_HEAD:_HEAD + 8], "little")
            tail = int.from_bytes(ring[_TAIL:_TAIL + 8], "little")
            while tail < head:
                kind, _, size = _HEADER.unpack(_bytes(ring, tail, 8))
                if size < 8:
                    break
                self._take(kind, _bytes(ring, tail + 8, size - 8))
                tail += size
            ring[_TAIL:_TAIL + 8] = head.to_bytes(8, "little")

    def _take(self, kind: int, body: bytes) -> None:
        if kind == _RECORD_FORK:
            pid, parent = struct.unpack_from("=II", body)
            if pid != parent:
                self._parents[pid] = parent
                self._found.pop(pid, None)  # the number was another process's
        elif kind == _RECORD_MMAP2:
            pid, _, start, length, offset = _MMAP2_BODY.unpack_from(body)
            name = body[_MMAP2_BODY.size + 32:].split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
            path = _openable(pid, name) if is_file(name) else ""
            self._found.setdefault(pid, []).append(Mapping(start, start + length, offset, path, name))
        for table in (self._found, self._parents):
            if len(table) > PROCESSES:
                del table[next(iter(table))]


def _openable(pid: int, name: str) -> str:
    """Where the file can be opened from here: in the process's root while there is one."""
    path = binaries.process_root(pid) + name
    return path if os.path.exists(path) else name


def _bytes(ring: Any, at: int, size: int) -> bytes:
    """Bytes of the ring behind its control page, over its end."""
    at %= RING_BYTES
    first = mmap.PAGESIZE + at
    part: bytes = ring[first:first + min(size, RING_BYTES - at)]
    return part if len(part) == size else part + ring[mmap.PAGESIZE:mmap.PAGESIZE + size - len(part)]
