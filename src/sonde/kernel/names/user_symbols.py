"""Addresses and names in processes: their mappings, the mapped files, and the code that they generated."""

from __future__ import annotations

import os
import time
from sys import getsizeof

from ...base.fast_stdlib import bisect_right, cache
from ...base.memory_budget import Cache, Memory
from ...base.record import Record, Value
from ...errors import MachineError
from ..foreign import files, mapped
from . import binaries, symbol_store
from .process_files import DELETED, MappedPaths, mapped_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .mappings import MappingLog


class UserSymbol(Value):
    """``offset`` bytes into ``name`` of the file ``module``; an empty name means that no function is known there, and
    ``offset`` is then the virtual address in the file."""

    name: str
    offset: int
    module: str = ""


class Mapping(Record):
    """An executable mapping; ``path`` can be opened from here, ``name`` is what the process calls it."""

    start: int
    end: int
    offset: int
    path: str
    name: str
    build_id: str = ""  # of the file when it was mapped, if the kernel reported it
    inode: int | None = None  # the file's number: reported by the kernel, or of what was at the path when it was seen

    @property
    def size(self) -> int:
        """Bytes needed to keep it."""
        return 400 + getsizeof(self.path) + getsizeof(self.name) + len(self.build_id)


INODE_BITS = 0xFFFFFFFF
_MAP_FILES = "/map_files/"  # where the kernel offers the files that a process has mapped
_NO_FILES = ("/dev/zero", "/memfd:", "/SYSV", "//anon")  # memory that has a name


def read_maps(pid: int, most: int = Memory().symbols // 8) -> list[Mapping]:
    """A process's executable mappings by ascending address; [] if it is gone. They take little more than ``most``
    bytes: of a process with some thousands, those beyond stay without names."""
    paths = MappedPaths(pid)
    mappings: list[Mapping] = []
    size = 0
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                parts = line.rstrip("\n").split(None, 5)
                if len(parts) < 5 or "x" not in parts[1]:
                    continue
                if size > most:
                    break
                start, end = mapped_range(parts[0])
                name = parts[5] if len(parts) > 5 else ""
                path = paths.path_of(name, start, end) if is_file(name) else ""
                mappings.append(Mapping(start, end, int(parts[2], 16), path,
                                        paths.own_name(name).removesuffix(DELETED),
                                        inode=_inode_at(path) if path else None))
                size += mappings[-1].size
    except OSError:
        return []
    return mappings


def _inode_at(path: str) -> int | None:
    """The inode's number of what is at a path, without the bits that overlayfs adds; None if it cannot be seen."""
    try:
        return os.stat(path).st_ino & INODE_BITS
    except (OSError, ValueError):
        return None


def is_file(name: str) -> bool:
    """Whether a mapping of that name has a readable file."""
    return name.startswith("/") and not name.startswith(_NO_FILES)


class _Process:
    """What has been seen of one process."""

    def __init__(self, pid: int, most: int) -> None:
        self.pid = pid
        self._most = most  # bytes of its mappings
        self.owner = 0  # user id
        self.maps: list[Mapping] = []
        self.names: dict[int, UserSymbol] = {}  # by address
        self.read_at = -1.0
        self.jit: files.JitMap | None = None
        self.jit_at = -1.0

    def refresh_maps(self) -> int:
        """Read the maps again, and return by how many bytes they grew. Those of a process that has ended stay."""
        self.read_at = time.monotonic()
        maps = read_maps(self.pid, self._most)
        if not maps:
            return 0
        before, self.maps, self.owner = self.maps, maps, _process_owner(self.pid)
        return sum([m.size for m in maps]) - sum([m.size for m in before])

    def find_mapping(self, address: int) -> Mapping | None:
        at = bisect_right(self.maps, address, key=lambda m: m.start) - 1
        return self.maps[at] if at >= 0 and address < self.maps[at].end else None

    def find_jit_function(self, address: int) -> tuple[str, int] | None:
        """(name, offset) of a function that the process generated at run time, by the newest of its maps."""
        function = self._lookup_jit_map(address)
        if function is None and (self._jit_has_grown() or time.monotonic() - self.jit_at > REFRESH):
            self.close()
            self.jit_at = time.monotonic()
            paths = (f"/proc/{self.pid}/root/tmp/perf-{_namespace_pid(self.pid)}.map", f"/tmp/perf-{self.pid}.map")
            self.jit = next((m for path in paths if (m := files.open_jit_map(path, self.owner))), None)
            function = self._lookup_jit_map(address)
        return function

    def _jit_has_grown(self) -> bool:
        """Whether a map that is cheap to read has grown."""
        try:
            return self.jit is not None and self.jit.size < os.stat(self.jit.path).st_size < SMALL
        except OSError:
            return False

    def _lookup_jit_map(self, address: int) -> tuple[str, int] | None:
        try:
            return self.jit.function_at(address) if self.jit is not None else None
        except MachineError:
            return None

    def close(self) -> None:
        """Close its files."""
        if self.jit is not None:
            self.jit.forget_contents()
            self.jit.close()
            self.jit = None


SMALL = 1 << 20  # bytes of a map of a run-time compiler: a larger one is not read again at each unknown address
REFRESH = 0.5  # seconds between looks at the maps of a process that shows unknown addresses
_PROCESS = 700  # bytes that a process takes besides its mappings and names
_NAMED = 250    # bytes that a named address takes besides the name


class UserSymbols:
    """Symbols of processes' addresses. Maps are read when a process is first seen; ``log`` (kernel.names.mappings)
    knows those of processes that ended before they were seen. They take ``memory`` bytes: the processes least recently
    asked about are dropped first."""

    def __init__(self, log: MappingLog | None = None, memory: int = Memory().symbols // 4) -> None:
        self._log = log
        self._processes: Cache[int, _Process] = Cache(memory, _Process.close)

    def remember_process(self, pid: int) -> None:
        """Read a process's mappings while it exists."""
        if pid not in self._processes:
            self._touch_process(pid)

    def forget_process(self, pid: int) -> None:
        """Drop what is known about a process (it called exec, or its id was reused)."""
        self._processes.drop(pid)

    def lookup(self, pid: int, address: int) -> UserSymbol | None:
        """The symbol at an address of a process; None if the address belongs to no known mapping."""
        process = self._touch_process(pid)
        symbol = process.names.get(address)
        if symbol is None:
            symbol = self._find_symbol(process, address)
            if symbol is not None and (symbol.name or symbol.module != ANONYMOUS):  # the next look may find a name
                process.names[address] = symbol
                if self._log is not None:
                    self._log.note_name(pid, address)
                self._processes.grow(pid, _NAMED + getsizeof(symbol.name))
                if self._processes.size_of(pid) > self._processes.most * 3 // 4:
                    self._drop_names(process)
        return symbol

    def _drop_names(self, process: _Process) -> None:
        """Drop the names of a process that takes most of the room: they can be found again, its mappings perhaps
        not."""
        self._processes.grow(process.pid, -sum([_NAMED + getsizeof(symbol.name) for symbol in process.names.values()]))
        process.names = {}

    def _touch_process(self, pid: int) -> _Process:
        process = self._processes.get(pid)
        if process is None:
            process = _Process(pid, self._processes.most // 2)
            self._processes.put(pid, process, _PROCESS + process.refresh_maps())
        return process

    def find_mapping(self, pid: int, address: int) -> Mapping | None:
        """The executable mapping that contains an address of a process."""
        return self._find_process_mapping(self._touch_process(pid), address)

    def _find_process_mapping(self, process: _Process, address: int) -> Mapping | None:
        mapping = process.find_mapping(address)
        if mapping is None and time.monotonic() - process.read_at > REFRESH:
            self._processes.grow(process.pid, process.refresh_maps())
            mapping = process.find_mapping(address)
        if self._log is not None and (mapping is None or not mapping.build_id):
            logged = self._log.find_mapping(process.pid, address)
            if mapping is None:
                mapping = logged
            elif logged is not None and (logged.start, logged.offset,
                                         logged.name) == (mapping.start, mapping.offset, mapping.name):
                mapping.build_id = logged.build_id
        return mapping

    def _find_symbol(self, process: _Process, address: int) -> UserSymbol | None:
        mapping = self._find_process_mapping(process, address)
        if mapping is None:
            return None
        if not mapping.path:
            return self._fileless_symbol(process, mapping, address)
        if _is_replaced(mapping):
            self._processes.grow(process.pid, process.refresh_maps())  # it has another path there
            mapping = process.find_mapping(address) or mapping
        offset = address - mapping.start + mapping.offset
        try:
            file = self.open_file(mapping)
        except MachineError:
            return UserSymbol("", offset, mapping.name)
        self._keep_symbols(process.pid, mapping, file)
        return symbol_in(file, offset, mapping.name)

    def open_file(self, mapping: Mapping) -> files.ElfFile:
        """The file of a mapping, even if another is at its path now. MachineError if it cannot be found."""
        if _is_replaced(mapping):
            raise MachineError(f"{mapping.path} has been replaced")
        return mapped.open_mapped(mapping.path, mapping.build_id)

    def code_places(self, pid: int, address: int) -> list[tuple[str, str, int]]:
        """(function, source file, line) of an address, after those of the functions inlined there; [] where debug
        information does not say. MachineError if it cannot be read."""
        mapping = self.find_mapping(pid, address)
        if mapping is None or not mapping.path:
            return []
        file = self.open_file(mapping)
        virtual = file.offset_to_address(address - mapping.start + mapping.offset)
        return file.code_places(virtual) if virtual is not None else []

    def _keep_symbols(self, pid: int, mapping: Mapping, file: files.ElfFile) -> None:
        """Keep the symbols of a file that has been removed or replaced in the store, if it is root's or ours: other
        users' files, and files of containers, are not trusted to have the build id that they claim."""
        deleted = _MAP_FILES in mapping.path
        if file.was_kept or mapped.is_in_place(file, mapping.name if deleted else mapping.path):
            return
        file.was_kept = True
        elsewhere = mapping.path != mapping.name and not (
            deleted and os.path.exists(f"/proc/{pid}/ns/mnt") and not binaries.process_root(pid))
        try:
            if not elsewhere and file.owner in (0, os.geteuid()):
                symbol_store.keep_symbols(file, mapping.name)
        except MachineError:
            pass  # it has names while it is open

    def _fileless_symbol(self, process: _Process, mapping: Mapping, address: int) -> UserSymbol:
        """The symbol in the vdso, or in code that the process generated."""
        if mapping.name in ("[vdso]", "[vsyscall]", "[uprobes]"):
            narrow = mapping.end <= 1 << 32  # a 32-bit process has another vdso than this one
            inside = _vdso_symbol(address - mapping.start) if mapping.name == "[vdso]" and not narrow else None
            return inside or UserSymbol(mapping.name, address - mapping.start, mapping.name)
        function = process.find_jit_function(address)
        return UserSymbol(function[0], function[1], f"/tmp/perf-{process.pid}.map") if function else \
            UserSymbol("", address, ANONYMOUS)


ANONYMOUS = "[anon]"


def symbol_in(file: files.ElfFile, offset: int, name: str) -> UserSymbol:
    """The symbol at a file offset of an ELF file; ``name`` is what to call the file."""
    address = file.offset_to_address(offset)
    try:
        symbol = file.function_at(address) if address is not None else None
    except MachineError:
        return UserSymbol("", offset, name)
    if symbol is None:
        return UserSymbol("", offset if address is None else address, name)
    return UserSymbol(symbol[0], symbol[1], name)


def _is_replaced(mapping: Mapping) -> bool:
    """Whether another file is at a mapping's path now; a known build id decides better."""
    return not mapping.build_id and mapping.inode is not None and _inode_at(mapping.path) not in (None, mapping.inode)


@cache
def vdso_image() -> bytes:
    """Code that the kernel maps into every process; this one's is as good as any. b"" if there is none."""
    mapping = next((m for m in read_maps(os.getpid()) if m.name == "[vdso]"), None)
    if mapping is None:
        return b""
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            return os.pread(memory.fileno(), mapping.end - mapping.start, mapping.start)
    except OSError:
        return b""


class Vdso(files.ElfFile):
    """Code that the kernel maps into every process, from this one's memory: a copy is made for each question."""

    def __init__(self, code: bytes) -> None:
        self._code = code
        super().__init__("[vdso]", self._reopen_file())

    def _reopen_file(self) -> int:
        descriptor = os.memfd_create("vdso", os.MFD_CLOEXEC)
        os.write(descriptor, self._code)
        return descriptor


@cache
def vdso_file() -> files.ElfFile | None:
    """The same, as a file."""
    try:
        return Vdso(vdso_image()) if vdso_image() else None
    except MachineError:
        return None


def _vdso_symbol(offset: int) -> UserSymbol | None:
    file = vdso_file()
    try:
        symbol = file.function_at(offset) if file is not None else None
    except MachineError:
        return None
    return UserSymbol(symbol[0], symbol[1], "[vdso]") if symbol else None


def _process_owner(pid: int) -> int:
    """The user id of a process; root's if the kernel does not say."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return 0


def _namespace_pid(pid: int) -> int:
    """The pid that the process itself sees."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            return next((int(line.split()[-1]) for line in file if line.startswith("NSpid:")), pid)
    except (OSError, ValueError):
        return pid


def process_symbol(pid: int, name: str) -> int | None:
    """Address of a data or function symbol in a process: in the first mapped file that defines it."""
    seen: set[str] = set()
    paths = MappedPaths(pid)
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.rstrip("\n").split(None, 5) for line in file]
    except OSError:
        return None
    for parts in lines:
        if len(parts) < 6 or not parts[5].startswith("/") or parts[5] in seen:
            continue
        seen.add(parts[5])
        try:
            opened = files.open_elf(paths.path_of(parts[5], *mapped_range(parts[0])))
            symbol = opened.find_object(name)
        except MachineError:
            continue
        base = opened.offset_to_address(int(parts[2], 16))
        if symbol is not None and base is not None:
            return int(parts[0].partition("-")[0], 16) - base + symbol[0]
    return None
