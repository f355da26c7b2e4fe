"""Unwind tables outside the BPF programs: read from the files that processes have mapped, stored where programs search
them. See :mod:`sonde.layouts.unwind_format`."""

from __future__ import annotations

import os
import time

from ...base.fast_stdlib import deque
from ...errors import MachineError, SondeError
from ...kernel.foreign import files
from ...kernel.foreign.files import ElfFile
from ...kernel.foreign.opening import Stamp
from ...kernel.libc import address_of
from ...kernel.names import unwind_store
from ...kernel.names.binaries import find_binaries
from ...kernel.names.user_symbols import Mapping, read_maps, vdso_file
from ...kernel.notices import show_notice
from ...layouts import unwind_format as table
from ...layouts.shared_maps import UNWIND_ASKS, UNWIND_FILES, UNWIND_ROWS
from ..losses import Losses
from ..maps.access import Map
from ..records.ringbuf import Ring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Mapping as Named
    from typing import TypeAlias

LOOK = 1.0        # s: for the files of processes that are there, when all of them are traced
MOST_SECONDS = 20.0  # for a file
SLOW = 0.1        # s: what takes longer is kept for the next run
MOST_LIBRARIES = 256  # of a command
MOST_ASKS = 4096  # that wait
FindMapping: TypeAlias = "Callable[[int, int], Mapping | None]"  # what a process has mapped at an address


class UnwindTables:
    """Fills the tables: before anything is attached, and when programs ask. ``find`` tells mappings of processes, also
    of those that have ended. The files that ``process`` maps while it is traced are read before a program asks.
    ``meanwhile`` is called now and then while much is read before anything is attached."""

    def __init__(self, maps: Named[str, Map], find: FindMapping, meanwhile: Callable[[], None]) -> None:
        self._find, self._meanwhile = find, meanwhile
        self._files, rows = maps[UNWIND_FILES], maps[UNWIND_ROWS]
        self._memory, self._room = rows.memory, rows.spec.value_size // table.ROW.size
        self._used = 0   # rows that are stored; more may lie after them, of the file that is being read
        self._stored: dict[Stamp, bytes] = {}  # what is known of files, by what they are
        self._requests: deque[bytes] = deque()
        self.process = 0
        self._mapped: dict[str, None] = {}  # paths of files that it has mapped
        self._reading: tuple[bytes, ElfFile, int, int] | None = None  # key, file, next entry, rows so far
        self._taken = 0.0  # s: that it took so far
        self._full = False
        ring = maps[UNWIND_ASKS]
        self._ring = Ring(ring.fd, ring.spec.max_entries, os.sysconf("SC_PAGE_SIZE"))
        self._more = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)  # readable while there is something to read on
        self._is_open = True
        vdso = vdso_file()
        if vdso is not None:
            self._begin(table.VDSO_KEY, vdso)
            self._read_part()

    # before anything is attached

    def prepare_process(self, pid: int) -> None:
        """Store the tables of all files that a process has mapped."""
        for mapping in read_maps(pid):
            if mapping.path:
                self.prepare_file(mapping.path)

    def prepare_command(self, name: str) -> None:
        """Store the tables of a command's file, and of the libraries that it and they are to be loaded with. What all
        programs have, the loader and the C library, is also mapped here."""
        self.prepare_process(os.getpid())
        waiting, seen = find_binaries(name)[:1], {name}
        while waiting and len(seen) <= MOST_LIBRARIES:
            file = self.prepare_file(waiting.pop(0))
            sonames, folders = _needed(file) if file is not None else ([], [])
            for soname in sonames:
                if soname not in seen:
                    seen.add(soname)
                    paths = [path for folder in folders if files.is_elf(path := f"{folder}/{soname}")]
                    waiting += (paths or find_binaries(soname))[:1]

    def prepare_file(self, path: str) -> ElfFile | None:
        """Store the table of a file; None if it cannot be read."""
        file, announced = self._begin_file(path), False
        while self._reading is not None:
            self._read_part()
            self._meanwhile()
            if self._taken > LOOK and not announced:
                announced = True
                show_notice(f"Reading how to unwind {path}, before anything is attached; it is kept for the next time")
        return file

    def prepare_all(self) -> None:
        """Store the tables of files that processes have mapped, those of the most processes first, in a limited time;
        for the others programs ask."""
        enough, users = time.monotonic() + LOOK, dict[str, int]()
        for name in os.listdir("/proc"):
            if name.isdigit():
                for mapping in read_maps(int(name)):
                    if mapping.path:
                        users[mapping.path] = users.get(mapping.path, 0) + 1
        for path in sorted(users, key=lambda path: -users[path]):
            if time.monotonic() > enough:
                return
            self.prepare_file(path)

    # while programs run

    rest = 0.0

    @property
    def fds(self) -> list[int]:
        """Readable when programs ask, and while a file is being read."""
        return [self._ring.fd.fileno(), self._more]

    @property
    def is_prompt(self) -> bool:
        """Stacks end early until an answer is there."""
        return True

    def drain_rings(self) -> None:
        """Take in what is asked, and read a part of what was: a large file is no reason to let events wait."""
        if not self._is_open:
            return
        batch = self._ring.read_records()
        size = table.ASK.size
        self._requests += [batch.buffer[at:at + size] for at in batch.offsets][:max(0, MOST_ASKS - len(self._requests))]
        if self._reading is not None:
            self._read_part()
        elif self._requests:
            self._answer(self._requests.popleft())
        elif self._mapped:
            path = next(iter(self._mapped))
            del self._mapped[path]
            self._begin_file(path)
        if self._reading is not None or self._requests or self._mapped:
            os.eventfd_write(self._more, 1)
        else:
            try:
                os.eventfd_read(self._more)
            except BlockingIOError:
                pass

    def add_mapping(self, pid: int, mapping: Mapping) -> None:
        """Read the file, if it is the traced process that has mapped it."""
        if pid == self.process and len(self._mapped) < MOST_ASKS:
            self._mapped[mapping.path] = None

    def look_again(self) -> None:
        """Nothing is waited for."""

    def count_losses(self, losses: Losses) -> None:
        """Nothing: programs count the stacks that end early."""

    def close(self) -> None:
        """Read no more."""
        if self._is_open:
            self._is_open = False
            self._ring.close()
            os.close(self._more)

    def _answer(self, ask: bytes) -> None:
        key, (*_, pid, address) = ask[:table.FILE_KEY.size], table.ASK.unpack(ask)
        mapping = self._find(pid, address)
        if mapping is None or not mapping.path:  # it has ended: the next process will ask again
            self._files.delete(key)
            return
        why = "another file is there now"
        for path in (mapping.path, f"/proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}"):
            try:
                file = files.open_elf(path)
                if _key_of(file) == key:
                    self._begin(key, file)
                    return
            except (MachineError, OSError, ValueError) as problem:
                why = getattr(problem, "message", str(problem))
        self._refuse(key, mapping.name, why)

    # reading

    def _begin_file(self, path: str) -> ElfFile | None:
        """None if it cannot be read: a program that meets it will ask."""
        try:
            file = files.open_elf(path)
            self._begin(_key_of(file), file)
        except (MachineError, OSError, ValueError):
            return None
        return file

    def _begin(self, key: bytes, file: ElfFile) -> None:
        known = self._stored.get(file.stamp)
        if known is not None:
            self._files.update(key, known)
        elif not self._recall(key, file):
            self._reading, self._taken = (key, file, 0, 0), 0.0

    def _recall(self, key: bytes, file: ElfFile) -> bool:
        """Store the rows that an earlier run has kept of a file; False if there are none, or no room."""
        rows = unwind_store.read_rows(file)
        if not rows or self._used + len(rows) // table.ROW.size > self._room:
            return False
        self._memory[self._used * table.ROW.size:self._used * table.ROW.size + len(rows)] = rows
        self._finish(key, file, len(rows) // table.ROW.size)
        return True

    def _finish(self, key: bytes, file: ElfFile, count: int) -> None:
        """All rows of a file are there."""
        self._store(key, file.stamp, table.FILE.pack(self._used, count, table.READY if count else table.WITHOUT))
        self._used += count

    def _read_part(self) -> None:
        """Read rows of the file that is being read, as many as come at once; when all are there programs are told."""
        if self._reading is None:
            return
        key, file, following, count = self._reading
        self._reading, begin = None, time.monotonic()
        try:
            if self._taken > MOST_SECONDS:
                raise MachineError(f"reading its unwind table takes longer than {MOST_SECONDS:g} s")
            page = file.unwind_rows(following)
            self._taken += time.monotonic() - begin
        except MachineError as problem:
            self._refuse(key, file.path, problem.message, file.stamp)
            return
        if page is None:
            self._store(key, file.stamp, table.FILE.pack(0, 0, table.WITHOUT))
            return
        rows, following = page
        at, more = self._used + count, len(rows) // table.ROW.size
        if at + more > self._room:
            self._refuse(key, file.path, "there is no more room for unwind tables (--memory)", file.stamp)
            return
        self._memory[at * table.ROW.size:(at + more) * table.ROW.size] = rows
        if following:
            self._reading = key, file, following, count + more
            return
        if self._taken > SLOW:
            first = self._used * table.ROW.size
            unwind_store.keep_rows(file, bytes(self._memory[first:first + (count + more) * table.ROW.size]))
        self._finish(key, file, count + more)

    def _store(self, key: bytes, stamp: Stamp, value: bytes) -> None:
        self._stored[stamp] = value
        try:
            self._files.update(key, value)
        except SondeError as problem:
            if not self._full:
                self._full = True
                show_notice(f"WARNING: not all files' unwind tables can be stored: {problem.message}")

    def _refuse(self, key: bytes, name: str, why: str, stamp: Stamp = ()) -> None:
        show_notice(f"WARNING: stacks through {name} end there: {why}")
        self._store(key, stamp, table.FILE.pack(0, 0, table.REFUSED))


def _needed(file: ElfFile) -> tuple[list[str], list[str]]:
    try:
        return file.needed()
    except MachineError:
        return [], []


def _key_of(file: ElfFile) -> bytes:
    """A file's key: OSError, MachineError. Its device and inode are what maps show of it, which on some file
    systems (btrfs, overlayfs) are not stat()'s; so it is mapped, and not looked at."""
    import mmap
    descriptor = file.open_descriptor()
    with mmap.mmap(descriptor, 1, access=mmap.ACCESS_COPY) as mapping:
        start = f"{address_of(mapping):x}-"
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            line = next((line for line in maps if line.lstrip("0").startswith(start)), "")
    if not line:
        raise MachineError(f"{file.path}: its device is not known")
    _, _, _, device, inode, *_ = line.split(None, 5)
    major, _, minor = device.partition(":")
    number = int(major, 16) << table.DEVICE_MINOR_BITS | int(minor, 16)
    return table.FILE_KEY.pack(number, int(inode), os.fstat(descriptor).st_size)
