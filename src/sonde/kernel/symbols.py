"""Addresses and names: of the kernel (kallsyms) and of processes (their maps, ELF files and JIT maps)."""

from __future__ import annotations

import os
import time
from array import array
from bisect import bisect_right
from typing import Any

from ..errors import EnvironmentProblem
from ..record import Record, Value
from . import binaries, elf, places

_FAR = 1 << 24  # a symbol this far below an address has nothing to do with it


class KernelSymbol(Value):
    """``offset`` bytes into ``name``; ``module`` is "" for the kernel proper."""

    name: str
    offset: int
    module: str = ""


class KernelSymbols:
    """/proc/kallsyms, read when first asked. An unreadable or zeroed one has no answers (see ``restricted``)."""

    def __init__(self, path: str = "/proc/kallsyms") -> None:
        self._path = path
        self._data: bytes | None = None
        self._addresses: array[int] | None = None
        self._lines = array("I")  # where each symbol's line starts in _data
        self._cache: dict[int, KernelSymbol | None] = {}

    def _text(self) -> bytes:
        if self._data is None:
            try:
                with open(self._path, "rb", buffering=0) as file:
                    self._data = file.read()
            except OSError:
                self._data = b""
        return self._data

    @property
    def restricted(self) -> bool:
        """Whether the kernel hides its addresses (kernel.kptr_restrict, or no CAP_SYSLOG), or has no symbols."""
        head = self._text()[:16384].splitlines()[:100]
        return not any(line[:16].strip(b"0 ") for line in head)

    def address(self, name: str) -> int | None:
        """Address of a symbol; the kernel proper's comes before a module's."""
        at = self._find(name) if name and not self.restricted else -1
        return int(self._text()[at - 18:at - 2], 16) if at >= 0 else None

    def kind(self, name: str) -> str:
        """The letter by which nm tells what a symbol is, "t" or "T" for a function; "" if there is none."""
        at = self._find(name)
        return chr(self._text()[at - 1]) if at >= 0 else ""

    def clones(self, name: str) -> list[str]:
        """``name.isra.0`` and the like: what the compiler made of a function."""
        found, text, start = [], self._text(), 0
        while (at := text.find(f" {name}.".encode(), start)) >= 0:
            start = text.find(b"\n", at)
            found.append(text[at + 1:start if start >= 0 else len(text)].partition(b"\t")[0].decode())
            if start < 0:
                break
        return list(dict.fromkeys(found))

    def _find(self, name: str) -> int:
        """Where a symbol's name begins in the text, less one; -1 if it is not there."""
        places = (self._text().find(b" " + name.encode() + end) for end in (b"\n", b"\t"))
        return next((at for at in places if at >= 0), -1)

    def lookup(self, address: int) -> KernelSymbol | None:
        """The symbol that holds an address; None if it is not the kernel's."""
        if address not in self._cache:
            self._cache[address] = self._lookup(address)
        return self._cache[address]

    def _lookup(self, address: int) -> KernelSymbol | None:
        addresses = self._sorted()
        at = bisect_right(addresses, address) - 1
        if at < 0 or address - addresses[at] > _FAR or not addresses[at]:
            return None
        while at and addresses[at - 1] == addresses[at]:
            at -= 1  # of several names, the kernel prints the first
        line = self._line(at)
        name, _, module = line[19:].partition("\t")
        return KernelSymbol(name, address - addresses[at], module.strip("[]"))

    def _line(self, at: int) -> str:
        start = self._lines[at]
        text = self._text()
        end = text.find(b"\n", start)
        return text[start:end if end >= 0 else len(text)].decode("utf-8", "replace")

    def _sorted(self) -> array[int]:
        if self._addresses is None:
            self._addresses = self._index()
        return self._addresses

    def _index(self) -> array[int]:
        """Addresses ascending, and into ``_lines`` where their lines start."""
        addresses, lines, text = array("Q"), array("I"), b"" if self.restricted else self._text()
        start, ordered, last = 0, True, 0
        while (end := text.find(b"\n", start)) >= 0:
            address = int(text[start:start + 16], 16)
            ordered = ordered and address >= last
            last = address
            addresses.append(address)
            lines.append(start)
            start = end + 1
        if not ordered:  # modules and BPF programs come after the kernel
            order = sorted(range(len(addresses)), key=addresses.__getitem__)
            lines = array("I", [lines[i] for i in order])
            addresses = array("Q", [addresses[i] for i in order])
        self._lines = lines
        return addresses


def traceable_functions(root: str) -> list[tuple[str, str]]:
    """(module, function) of every function that ftrace can probe; "vmlinux" is the kernel proper.

    [] where the kernel does not say: without the function tracer, or locked down.
    """
    try:
        with open(_list_of_functions(root), encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    pairs = []
    for line in lines:
        name, _, module = line.partition(" ")
        if not name.startswith("__ftrace_invalid_address__"):
            pairs.append((module.strip("[] \t") or "vmlinux", name))
    return pairs


def is_traceable(root: str, name: str) -> bool:
    """Whether one function, by its name, is among those: a tenth of the time that making the list takes."""
    try:
        with open(_list_of_functions(root), "rb") as file:
            text = b"\n" + file.read()
    except OSError:
        return False
    return b"\n%s\n" % name.encode() in text or b"\n%s [" % name.encode() in text


def _list_of_functions(root: str) -> str:
    return places.traceable_functions or f"{root}/available_filter_functions"


# ---- processes

class UserSymbol(Value):
    """``offset`` bytes into ``name`` of the file ``module``; an empty name means that no function is known there,
    and then ``offset`` is the place's virtual address in the file."""

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


_NO_FILES = ("/dev/zero", "/memfd:", "/SYSV", "//anon")  # memory that has a name


def read_maps(pid: int) -> list[Mapping]:
    """A process's executable mappings by ascending address; [] if it is gone."""
    root = binaries.process_root(pid)
    found = []
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                parts = line.rstrip("\n").split(None, 5)
                if len(parts) < 5 or "x" not in parts[1]:
                    continue
                start, _, end = parts[0].partition("-")
                name = parts[5] if len(parts) > 5 else ""
                deleted = name.endswith(" (deleted)")
                # maps fills addresses up to eight digits, map_files does not
                path = f"/proc/{pid}/map_files/{int(start, 16):x}-{int(end, 16):x}" if deleted else root + name
                found.append(Mapping(int(start, 16), int(end, 16), int(parts[2], 16),
                                     path if is_file(name) else "", name.removesuffix(" (deleted)")))
    except OSError:
        return []
    return found


def is_file(name: str) -> bool:
    """Whether a mapping of that name has a file that can be read."""
    return name.startswith("/") and not name.startswith(_NO_FILES)


class _Process:
    """What was seen of one process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.maps: list[Mapping] = []
        self.read_at = -1.0
        self.jit: _JitMap | None = None

    def refresh(self) -> None:
        """Read the maps again; those of a process that has gone stay as they were."""
        self.read_at = time.monotonic()
        self.maps = read_maps(self.pid) or self.maps

    def mapping(self, address: int) -> Mapping | None:
        return next((m for m in self.maps if m.start <= address < m.end), None)


class UserSymbols:
    """Symbols of processes' addresses. Maps are read when a process is first seen; ``log`` (kernel.mappings) knows
    those of processes that ended before they were seen."""

    REFRESH = 0.5  # seconds between looks at the maps of a process that shows unknown addresses

    def __init__(self, log: Any = None) -> None:
        self._log = log
        self._processes: dict[int, _Process] = {}
        self._cache: dict[tuple[int, int], UserSymbol | None] = {}

    def snapshot(self, pid: int) -> None:
        """Remember a process's mappings while it is there."""
        if pid not in self._processes:
            self._process(pid)

    def forget(self, pid: int) -> None:
        """Drop what is known of a process (it called exec, or its id is another's now)."""
        if self._processes.pop(pid, None) is None:
            return
        self._cache = {key: value for key, value in self._cache.items() if key[0] != pid}

    def lookup(self, pid: int, address: int) -> UserSymbol | None:
        """The symbol at an address of a process; None if the address belongs to no known mapping."""
        key = (pid, address)
        if key not in self._cache:
            found = self._lookup(pid, address)
            if found is None:
                return None  # the next look may find new mappings
            self._cache[key] = found
        return self._cache[key]

    def _process(self, pid: int) -> _Process:
        process = self._processes.get(pid)
        if process is None:
            process = self._processes[pid] = _Process(pid)
            process.refresh()
        return process

    def mapping(self, pid: int, address: int) -> Mapping | None:
        """The executable mapping that holds an address of a process."""
        process = self._process(pid)
        mapping = process.mapping(address)
        if mapping is None and time.monotonic() - process.read_at > self.REFRESH:
            process.refresh()
            mapping = process.mapping(address)
        if mapping is None and self._log is not None:
            mapping = self._log.mapping(pid, address)
        return mapping

    def _lookup(self, pid: int, address: int) -> UserSymbol | None:
        mapping = self.mapping(pid, address)
        if mapping is None:
            return None
        if not mapping.path:
            return self._elsewhere(self._process(pid), mapping, address)
        return file_symbol(mapping.path, address - mapping.start + mapping.offset, mapping.name)

    def _elsewhere(self, process: _Process, mapping: Mapping, address: int) -> UserSymbol:
        """In the vdso, or in code that the process made itself."""
        if mapping.name in ("[vdso]", "[vsyscall]", "[uprobes]"):
            inside = _vdso_symbol(address - mapping.start) if mapping.name == "[vdso]" else None
            return inside or UserSymbol(mapping.name, address - mapping.start, mapping.name)
        if process.jit is None or process.jit.lookup(address) is None and process.jit.grown():
            process.jit = _JitMap(process.pid)
        found = process.jit.lookup(address)
        return UserSymbol(found[0], found[1], process.jit.path) if found else UserSymbol("", address, "[anon]")


def file_symbol(path: str, offset: int, name: str = "") -> UserSymbol:
    """The symbol at a file offset of an ELF file; ``name`` is how to call the file."""
    try:
        file = elf.open_elf(path)
        address = file.address(offset)
        found = file.function_at(address) if address is not None else None
    except EnvironmentProblem:
        return UserSymbol("", offset, name or path)
    if found is None:
        return UserSymbol("", offset if address is None else address, name or path)
    return UserSymbol(found[0], found[1], name or path)


def vdso() -> elf.Elf | None:
    """Code that the kernel gives every process; this one's is as good as any."""
    if not _vdso:
        _vdso.append(None)
        mapping = next((m for m in read_maps(os.getpid()) if m.name == "[vdso]"), None)
        if mapping is not None:
            try:
                with open("/proc/self/mem", "rb", buffering=0) as memory:
                    memory.seek(mapping.start)
                    _vdso[0] = elf.Inner("[vdso]", memory.read(mapping.end - mapping.start))
            except (OSError, EnvironmentProblem):
                pass
    return _vdso[0]


_vdso: list[elf.Elf | None] = []


def _vdso_symbol(offset: int) -> UserSymbol | None:
    file = vdso()
    found = file.function_at(offset) if file is not None else None
    return UserSymbol(found[0], found[1], "[vdso]") if found else None


class _JitMap:
    """/tmp/perf-PID.map, which run-time compilers write: lines of hexadecimal start and size, then a name."""

    def __init__(self, pid: int) -> None:
        self.path = f"/tmp/perf-{pid}.map"
        rows: list[tuple[int, int, str]] = []
        for path in (f"/proc/{pid}/root/tmp/perf-{self._inner(pid)}.map", self.path):
            self._from, self._size = path, _size_of(path)
            rows = self._read(path)
            if rows:
                break
        rows.sort()
        self._rows = rows
        self._starts = [row[0] for row in rows]

    def grown(self) -> bool:
        """Whether the process has written more since."""
        return _size_of(self._from) > self._size

    @staticmethod
    def _inner(pid: int) -> int:
        """The pid that the process itself sees."""
        try:
            with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
                return next((int(line.split()[-1]) for line in file if line.startswith("NSpid:")), pid)
        except (OSError, ValueError):
            return pid

    @staticmethod
    def _read(path: str) -> list[tuple[int, int, str]]:
        rows = []
        try:
            if not os.path.isfile(path):
                return []
            with open(path, encoding="utf-8", errors="replace") as file:
                for line in file:
                    parts = line.rstrip("\n").split(" ", 2)
                    if len(parts) == 3:
                        rows.append((int(parts[0], 16), int(parts[1], 16), parts[2]))
        except (OSError, ValueError):
            pass
        return rows

    def lookup(self, address: int) -> tuple[str, int] | None:
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        start, size, name = self._rows[at]
        return (name, address - start) if address < start + size else None


def _size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def process_symbol(pid: int, name: str) -> int | None:
    """Address of a data or function symbol in a process: the first file that it has mapped and that defines it."""
    seen: set[str] = set()
    root = binaries.process_root(pid)
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
            opened = elf.open_elf(root + parts[5])
            found = opened.object(name)
        except EnvironmentProblem:
            continue
        base = opened.address(int(parts[2], 16))
        if found is not None and base is not None:
            return int(parts[0].partition("-")[0], 16) - base + found[0]
    return None
