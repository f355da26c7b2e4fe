"""What processes map executable, reported by the kernel as it happens: stacks of a process that has ended can be named.

A perf event that counts nothing reports each executable mapping (and fork) of every process since it was opened, into
a ring per CPU; see perf_event_open(2), PERF_RECORD_MMAP2.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Callable, Sequence

from ...base.fast_stdlib import Protocol
from ...base.memory_budget import Cache, Memory
from ...errors import MachineError, SondeError
from ...layouts import uapi
from .. import syscalls
from ..foreign import files, mapped
from ..perf_ring import RECORD_LOST, RING_BYTES, PerfRing
from . import binaries
from .user_symbols import INODE_BITS, Mapping, is_file, read_maps

_DUMMY = 9            # PERF_COUNT_SW_DUMMY
# bits of perf_event_attr
_MMAP, _COMM, _TASK, _WATERMARK, _ID_ALL = 1 << 8, 1 << 9, 1 << 13, 1 << 14, 1 << 18
_MMAP2, _COMM_EXEC, _BUILD_ID = 1 << 23, 1 << 24, 1 << 34
_SAMPLE_TIME = 1 << 2
_RECORD_COMM, _RECORD_FORK, _RECORD_MMAP2 = 3, 7, 10
_MISC_EXEC = 1 << 13  # of a COMM record: by execve()
_MISC_BUILD_ID = 1 << 14  # of a MMAP2 record
# pid, tid, address, length, offset; then 24 bytes: device and inode, or the build id's size and (after 4 bytes)
# itself; then protection and flags, and the name.
_MMAP2_BODY = struct.Struct("=IIQQQB")
_MMAP2_ID, _MMAP2_INODE, _MMAP2_NAME, _MOST_ID = 36, 40, 64, 20
_INODE = struct.Struct("=Q")
LOOK = 0.2        # s: the limit for the processes that run at the start
OPENING = 0.1     # s: the limit, at each reading, for the files that processes elsewhere map
_ELSEWHERE = 0  # the kernel's pid for processes outside of our PID namespace: kernel/events/core.c
REST, MOST_REST = 0.0005, 0.05  # s: how long a report that was read delays the next ones; and all of them together
HALF = RING_BYTES // 256        # reports that a ring has room for, and as many again
Report = tuple[int, int, int, bytes]  # its time, kind, misc, the rest
PROCESSES = 4096  # whose parents are remembered; the oldest are dropped first
_PROCESS = 200    # bytes that a process takes besides its mappings


class Watcher(Protocol):
    """An object that wants to hear of mappings at once."""

    def add_mapping(self, pid: int, mapping: Mapping) -> None:
        """A process has mapped this."""

    def look_again(self) -> None:
        """Some time has passed since the last call."""


class ProcessLosses(Protocol):
    """The part of a run's losses (runtime.losses) that concerns processes."""

    short: int
    unseen: int
    early: int
    shared: int


class MappingLog:
    """The executable mappings since :meth:`start`; keeps what it has read when it is closed.

    ``lost`` counts reports that found a ring full, ``short`` the stacks that the caller could not unwind to their end,
    ``early`` the Python stacks wanted of processes before they were known, ``shared`` the addresses at which a process
    had one file after another, of which the later one gave the name. ``changed`` is called with the id of each
    process that is new, or that executes another program: what was known about that id is no longer valid. ``watchers``
    are told of each mapping as soon as it is made. What is remembered takes ``memory`` bytes.
    """

    def __init__(self, changed: Callable[[int], None] = lambda pid: None,
                 memory: int = Memory().symbols // 8,
                 watchers: Sequence[Watcher] = ()) -> None:
        self.lost = 0
        self.short = 0
        self.early = 0
        self.shared = 0
        self._watchers = watchers
        self.changed = changed
        self._rings: list[PerfRing] = []
        self._waiting: list[Report] = []
        self._mappings: Cache[int, list[Mapping]] = Cache(memory)
        self._parents: dict[int, int] = {}
        self._opening = 0.0  # the time until which files are opened
        self._roots: dict[int, str] = {}  # of processes, as of this reading
        self.rest = 0.0  # s that reports can wait while nobody asks
        self._read_at = 0.0  # the time of the last reading

    def start(self) -> None:
        """Watch every process. If the kernel does not permit that, nothing is remembered."""
        flags = _MMAP | _COMM | _TASK | _WATERMARK | _ID_ALL | _MMAP2 | _COMM_EXEC
        if not self._open_rings(flags | _BUILD_ID):
            self._open_rings(flags)  # before Linux 5.12
        self._read_existing_maps()

    def _open_rings(self, flags: int) -> bool:
        """A ring for each CPU, of some 2000 mappings; we are woken at once, but less often by many than by few:
        ``rest``."""
        try:
            for cpu in range(os.cpu_count() or 1):
                self._rings.append(PerfRing(syscalls.perf_event_open(
                    uapi.PERF_TYPE_SOFTWARE, _DUMMY, cpu=cpu, flags=flags, sample_type=_SAMPLE_TIME, wakeup=1)))
        except (MachineError, SondeError):
            self.close()
        return bool(self._rings)

    def _read_existing_maps(self) -> None:
        """Read the maps of existing processes, which may end before anybody asks for them. One that has no
        others than ours is a fork of ours, which waits to execute a command: as any fork, it keeps none of its own."""
        enough, us = time.monotonic() + LOOK, os.getpid()
        own = {(each.start, each.name) for each in read_maps(us, self._mappings.most // 8)}
        for pid in sorted([int(name) for name in os.listdir("/proc") if name.isdigit()], reverse=True):
            if time.monotonic() > enough or self._mappings.size > self._mappings.most // 2:
                return  # the youngest came first; the others are read when they are seen
            maps = read_maps(pid, self._mappings.most // 8)
            if maps and pid != us and own.issuperset((each.start, each.name) for each in maps):
                self._parents[pid] = us
            elif maps:
                self._mappings.put(pid, maps, _PROCESS + sum([mapping.size for mapping in maps]))

    @property
    def is_prompt(self) -> bool:
        """Whether a watcher has to be told as soon as there is something to read."""
        return bool(self._watchers)

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

    def count_losses(self, losses: ProcessLosses) -> None:
        """Add what was not seen of processes to a run's losses (runtime.losses)."""
        losses.short += self.short
        losses.unseen += self.lost
        losses.early += self.early
        losses.shared += self.shared

    def find_mapping(self, pid: int, address: int) -> Mapping | None:
        """The newest mapping that the process, or an ancestor that it was forked from, had at an address."""
        self.drain_rings()
        seen = set()
        while pid not in seen:
            seen.add(pid)
            for mapping in reversed(self._mappings.get(pid) or ()):
                if mapping.start <= address < mapping.end:
                    return mapping
            pid = self._parents.get(pid, pid)
        return None

    def note_name(self, pid: int, address: int) -> None:
        """An address of a process has been given a name: count it if it may be that of another file."""
        files = {mapping.name for mapping in self._mappings.get(pid) or () if mapping.start <= address < mapping.end}
        self.shared += len(files) > 1

    def drain_rings(self) -> None:
        """Take in what has been reported, in the order of time: a process may move between CPUs, and their rings. What
        is older than the newest report and reached one ring while another was read is found by a second reading; what
        is newer waits for the next one."""
        for watcher in self._watchers:
            watcher.look_again()
        reports = self._waiting + self._read_rings()
        self._waiting = []
        self._fit_rest(len(reports))
        if not reports:
            return
        newest = max(reports)[0]
        for record in self._read_rings():
            (reports if record[0] <= newest else self._waiting).append(record)
        self._opening = time.monotonic() + OPENING
        self._roots = {}
        for _, kind, misc, body in sorted(reports):
            self._apply_record(kind, misc, body)

    def _fit_rest(self, reports: int) -> None:
        """Delay the next reports the longer, the more there were, but not until a ring is full."""
        now = time.monotonic()
        full = HALF * (now - self._read_at) / max(reports, 1)
        self.rest, self._read_at = min(REST * reports, MOST_REST, full), now

    def _read_rings(self) -> list[Report]:
        return [(int.from_bytes(body[-8:], sys.byteorder), kind, misc, body[:-8])
                for ring in self._rings for kind, misc, body in ring.drain_records()]

    def _apply_record(self, kind: int, misc: int, body: bytes) -> None:
        if kind == _RECORD_FORK:
            pid, parent = struct.unpack_from("=II", body)
            if pid not in (parent, _ELSEWHERE):
                self._parents.pop(pid, None)
                self._parents[pid] = parent  # the youngest
                self._mappings.drop(pid)  # the id was another process's
                self.changed(pid)
        elif kind == _RECORD_MMAP2:
            pid, _, start, length, offset, size = _MMAP2_BODY.unpack_from(body)
            if pid == _ELSEWHERE:
                return
            name = body[_MMAP2_NAME:].split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
            known, inode = "", None
            if misc & _MISC_BUILD_ID:
                known = body[_MMAP2_ID:_MMAP2_ID + min(size, _MOST_ID)].hex()
            else:
                inode = _INODE.unpack_from(body, _MMAP2_INODE)[0] & INODE_BITS
            path = self._openable(pid, name, known) if is_file(name) else ""
            mapping = Mapping(start, start + length, offset, path, name, known, inode or None)
            self._remember_mapping(pid, mapping)
            for watcher in self._watchers if path else ():
                watcher.add_mapping(pid, mapping)
        elif kind == _RECORD_COMM and misc & _MISC_EXEC:
            self.changed(struct.unpack_from("=I", body)[0])
        elif kind == RECORD_LOST:
            self.lost += struct.unpack_from("=QQ", body)[1]
        if len(self._parents) > PROCESSES:
            del self._parents[next(iter(self._parents))]

    def _remember_mapping(self, pid: int, mapping: Mapping) -> None:
        known = self._mappings.get(pid)
        if known is None:
            known = []
            self._mappings.put(pid, known, _PROCESS)
        known.append(mapping)
        self._mappings.grow(pid, mapping.size)
        if self._mappings.size_of(pid) > self._mappings.most // 4:  # it maps and unmaps all the time
            self._mappings.grow(pid, -sum([old.size for old in known[:len(known) // 2]]))
            del known[:len(known) // 2]

    def _openable(self, pid: int, name: str, build_id: str) -> str:
        """The path by which the file can be opened from here: in the process's root while it exists. What cannot be
        read there is not looked for in our root, where another file may have that name."""
        root = self._roots.get(pid)
        if root is None:
            root = self._roots[pid] = binaries.process_root(pid)
        if not root:
            if time.monotonic() < self._opening:
                mapped.hold_file(name, build_id)
            return name
        if time.monotonic() < self._opening:
            try:  # the path ends with the process: the file is opened now
                return files.open_elf(root + name).path
            except MachineError:
                pass
        return root + name
