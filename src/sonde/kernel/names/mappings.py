"""What processes map executable, as the kernel reports it: stacks of a process that has ended can be named."""

from __future__ import annotations

import os
import struct
import time

from ...base.fast_stdlib import Protocol
from ...base.memory_budget import Cache, Memory
from ...errors import MachineError
from ..foreign import files, mapped
from . import binaries
from .process_reports import (
    BUILD_ID,
    ELSEWHERE,
    MISC_EXEC,
    MMAP2_NAME,
    RECORD_COMM,
    RECORD_FORK,
    RECORD_MMAP2,
    ProcessReports,
)
from .user_symbols import INODE_BITS, Mapping, is_file, read_maps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MISC_BUILD_ID = 1 << 14  # of a MMAP2 record
# pid, tid, address, length, offset; then 24 bytes: device and inode, or the build id's size and (after 4 bytes)
# itself; then protection and flags, and the name.
_MMAP2_BODY = struct.Struct("=IIQQQB")
_MMAP2_ID, _MMAP2_INODE, _MOST_ID = 36, 40, 20
_INODE = struct.Struct("=Q")
LOOK = 0.2        # s: the limit for the processes that run at the start
OPENING = 0.1     # s: the limit, at each reading, for the files that processes elsewhere map
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


class MappingLog(ProcessReports):
    """The executable mappings since :meth:`start`; keeps what it has read when it is closed.

    ``short`` counts the stacks that the caller could not unwind to their end,
    ``early`` the Python stacks wanted of processes before they were known, ``shared`` the addresses at which a process
    had one file after another, of which the later one gave the name. ``changed`` is called with the id of each
    process that is new, or that executes another program: what was known about that id is no longer valid. ``watchers``
    are told of each mapping as soon as it is made. What is remembered takes ``memory`` bytes.
    """

    def __init__(self, changed: Callable[[int], None] = lambda pid: None,
                 memory: int = Memory().symbols // 8,
                 watchers: Sequence[Watcher] = ()) -> None:
        super().__init__()
        self.short = 0
        self.early = 0
        self.shared = 0
        self._watchers = watchers
        self.changed = changed
        self._mappings: Cache[int, list[Mapping]] = Cache(memory)
        self._parents: dict[int, int] = {}
        self._opening = 0.0  # the time until which files are opened
        self._roots: dict[int, str] = {}  # of processes, as of this reading

    def start(self) -> None:
        """Watch every process. If the kernel does not permit that, nothing is remembered."""
        try:
            if not self.open_rings(BUILD_ID):
                self.open_rings()  # before Linux 5.12
            self._read_existing_maps()
        except BaseException:
            self.close()
            raise

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
        """Take in what has been reported."""
        for watcher in self._watchers:
            watcher.look_again()
        super().drain_rings()

    def begin_reading(self) -> None:
        """Files may be opened for a moment."""
        self._opening = time.monotonic() + OPENING
        self._roots = {}

    def apply_record(self, kind: int, misc: int, body: bytes) -> None:
        """Remember a mapping, a fork, or that a process runs another program."""
        if kind == RECORD_FORK:
            pid, parent = struct.unpack_from("=II", body)
            if pid not in (parent, ELSEWHERE):
                self._parents.pop(pid, None)
                self._parents[pid] = parent  # the youngest
                self._mappings.drop(pid)  # the id was another process's
                self.changed(pid)
        elif kind == RECORD_MMAP2:
            self._apply_mapping(misc, body)
        elif kind == RECORD_COMM and misc & MISC_EXEC:
            self.changed(struct.unpack_from("=I", body)[0])
        if len(self._parents) > PROCESSES:
            del self._parents[next(iter(self._parents))]

    def _apply_mapping(self, misc: int, body: bytes) -> None:
        pid, _, start, length, offset, size = _MMAP2_BODY.unpack_from(body)
        if pid == ELSEWHERE:
            return
        name = body[MMAP2_NAME:].split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
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
