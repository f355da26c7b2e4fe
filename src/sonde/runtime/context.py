"""The live decoding context: names from this machine, frames from the script's stack map."""

from __future__ import annotations

from ..arch import this_arch
from ..base.fast_stdlib import cached_property
from ..base.memory_budget import Memory
from ..errors import MachineError, SondeError
from ..kernel import host
from ..kernel.clocks import boot_time
from ..layouts.shared_maps import PY_IMAGES, UNWIND_FILES, is_python_frame
from ..spec import ScriptSpec
from ..types import GROUPS, Stack, Symbol, Tuple, Type, USym
from .maps.access import Map

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..kernel.groups.lookup import Groups
    from ..kernel.names.mappings import MappingLog
    from ..kernel.names.symbols import KernelSymbols
    from ..kernel.names.unwind import Unwinder
    from ..kernel.names.user_symbols import UserSymbols
    from ..kernel.procfs import Cgroups
    from .records.source_text import SourceText
    from .stacks.frames import StackFrames
    from .stacks.pythons import Pythons
    from .stacks.sources import Sources
    from .stacks.unwind_tables import UnwindTables
    from .traced_command import Process


class LiveContext:
    """See :class:`sonde.runtime.records.values.DecodingContext`. ``maps`` are the session's.

    Whatever is looked up is kept, so that values which were printed once can be printed after the session.
    """

    def __init__(self, spec: ScriptSpec, maps: Mapping[str, Map], kernel: KernelSymbols | None = None,
                 memory: Memory | None = None) -> None:
        self.text_size = spec.config.text_size
        self._demangle = spec.config.cpp_demangle
        self._shows_lines = spec.config.show_debug_info
        self.trailer = spec.config.str_trunc_trailer
        self._probes = spec.probes
        if kernel is not None:
            self._kernel = kernel
        self._memory = memory or Memory()
        self._python = _find_pythons(maps)
        if self._python is not None and self._python.frames is not None:
            self._python.begins = lambda pid: self._sources.remember_process(pid)
        self.unwind_tables = self._new_unwind_tables(maps) if UNWIND_FILES in maps else None
        walks = self._python is not None or self.unwind_tables is not None  # a program may only count frames
        self.groups = _new_groups(self._cgroups) if asks_for_groups(spec) else None
        self._unwinder: Unwinder | None = None
        self._spec, self._maps = spec, maps
        self._offsets: dict[str, int] = {}
        self._log = self._start_mapping_log() if walks or names_user_addresses(spec) else None

    @cached_property
    def _cgroups(self) -> Cgroups:
        from ..kernel.procfs import Cgroups
        return Cgroups()

    @cached_property
    def _stacks(self) -> StackFrames:
        from .stacks.frames import StackFrames
        return StackFrames(self._spec, self._maps, self._memory.stacks)

    @cached_property
    def _kernel(self) -> KernelSymbols:
        from ..kernel.names.symbols import KernelSymbols
        return KernelSymbols()

    @cached_property
    def _user_symbols(self) -> UserSymbols:
        from ..kernel.foreign import files
        from ..kernel.names.user_symbols import UserSymbols
        files.limit_kept_bytes(self._memory.symbols)
        return UserSymbols(self._log, self._memory.symbols // 4)

    @cached_property
    def _sources(self) -> Sources:
        from .stacks.sources import Sources
        return Sources(self._memory.views)

    def _start_mapping_log(self) -> MappingLog:
        from ..kernel.names.mappings import MappingLog
        log = MappingLog(memory=self._memory.symbols // 8,
                         watchers=[each for each in (self._python, self.unwind_tables) if each is not None])
        log.start()
        if self._python is not None:
            self._python.watch(log)
        log.changed = lambda pid: self._user_symbols.forget_process(pid)
        return log

    def _new_unwind_tables(self, maps: Mapping[str, Map]) -> UnwindTables:
        from .stacks.unwind_tables import UnwindTables
        return UnwindTables(maps, lambda pid, address: self._user_symbols.find_mapping(pid, address),
                            lambda: self._log.drain_rings() if self._log is not None else None)

    def stack_frames(self, stack: int) -> Sequence[int]:
        """Addresses of a stack, innermost first; empty if it was not kept."""
        return self._stacks.stack_frames(stack)

    def ksym(self, address: int) -> tuple[str, int] | None:
        """Name of the kernel symbol around ``address`` and the offset into it."""
        symbol = self._kernel.lookup(address)
        return (symbol.name, symbol.offset) if symbol else None

    def usym(self, address: int, tgid: int) -> tuple[str, int, str] | None:
        """The same of a user address, with the file; the name is "" where the file has no symbol for it. Of a Python
        frame: its function's qualified name, the line (0 if it is not known), and the source file."""
        if self._python is not None and self._python.frames is not None and is_python_frame(address):
            return self._python.frames.frame_at(address)
        symbol = self._user_symbols.lookup(tgid, address)
        if symbol is None:
            return None
        return self._show_name(symbol.name, symbol.module), symbol.offset, symbol.module

    def code_places(self, address: int, tgid: int) -> Sequence[tuple[str, str, int]]:
        """(function, source file, line) of a user address, innermost first, if the script shows source lines."""
        if not self._shows_lines or is_python_frame(address):
            return ()
        try:
            frames = self._user_symbols.code_places(tgid, address)
        except MachineError as problem:
            if problem.hints and self._shows_lines:  # the library that reads it is missing
                from ..kernel.notices import show_notice
                show_notice(f"WARNING: no source lines: {problem.message}; {problem.hints[0]}")
                self._shows_lines = False
            return ()
        return [(self._show_name(name), file, line) for name, file, line in frames]

    def _show_name(self, name: str, source: str = "") -> str:
        """A name as people write it."""
        if self._demangle and name.startswith(("_Z", "_R", "_D", "$s", "$S", "_$s", "_$S")):
            from ..kernel.foreign.readable_names import demangle
            return (demangle([name], source) or [name])[0]
        return name

    def source_text(self, file: str, tgid: int) -> SourceText | None:
        """A file of Python's source as a process sees it."""
        return self._sources.read_source(tgid, file)

    def build_id(self, address: int, tgid: int) -> tuple[str, int] | None:
        """Build id of the file mapped at ``address``, and the offset in that file."""
        mapping = self._user_symbols.find_mapping(tgid, address)
        if mapping is None or not mapping.path:
            return None
        try:
            return self._user_symbols.open_file(mapping).build_id.hex(), address - mapping.start + mapping.offset
        except SondeError:
            return None

    def unwind_stack(self, registers: dict[str, int], stack: bytes, base: int, tgid: int, limit: int) -> Sequence[int]:
        """Instruction addresses of a stack, by the tables of the files that the process has mapped."""
        if self._unwinder is None:
            from ..kernel.names import unwind
            self._unwinder = unwind.Unwinder(this_arch())
        addresses = self._unwinder.walk_stack(registers, stack, base,
                                              lambda address: self._user_symbols.find_mapping(tgid, address), limit)
        if self._log is not None:
            self._log.short = self._unwinder.short
        return addresses

    def probe_name(self, index: int) -> str:
        """Full name of an attach point."""
        return self._probes[index] if 0 <= index < len(self._probes) else str(index)

    def user_name(self, uid: int) -> str:
        """Login name, or the number as text."""
        from ..kernel.procfs import user_name
        return user_name(uid)

    def syscall_name(self, number: int) -> str:
        """Name of a system call, or "Unknown syscall"."""
        from ..layouts.c_library_texts import syscall_text
        return syscall_text(number, this_arch().name)

    def cgroup_path(self, cgroup: int, filter: str) -> str:
        """``unified:/path``; "" for a cgroup that cannot be seen from here."""
        return ",".join([f"{hierarchy}:{path}"
                         for hierarchy, path in self._cgroups.cgroup_paths(cgroup, filter or "*")])

    def group_name(self, kind: str, cgroup: int) -> str:
        """Name of the container, pod or service that a cgroup is a part of; "" if it is of none."""
        assert self.groups is not None
        return self.groups.name_of(kind, cgroup)

    def wall_clock(self, nanoseconds: int, clock: str) -> int:
        """Nanoseconds since 1970 (UTC) of a moment of the boot, monotonic or tai clock."""
        if clock not in self._offsets:
            self._offsets[clock] = host.wall_clock_offset(clock)
        return nanoseconds + self._offsets[clock]

    def boot_time(self) -> int:
        """Nanoseconds of the boot clock, now."""
        return boot_time()

    def remember_process(self, pid: int) -> None:
        """Read a process's mappings, so that its stacks can be named after it has ended."""
        if self._log is not None:
            self._user_symbols.remember_process(pid)

    @property
    def mapping_log(self) -> MappingLog | None:
        """The log of processes' mappings (kernel.names.mappings.MappingLog); None if the script needs no names."""
        return self._log

    def prepare_process(self, process: Process | None) -> None:
        """Store the unwind tables of the process that is traced, or is to begin; without one those of all. If it runs
        Python, its libraries are looked at."""
        tables = self.unwind_tables
        if process is None:
            if tables is not None:
                tables.prepare_all()
            return
        from .traced_command import Child
        if self._python is not None:
            self._python.judge_tasks(process.pid, not isinstance(process, Child))
        if tables is None:
            return
        tables.process = process.pid
        if isinstance(process, Child):
            tables.prepare_command(process.command[0])
        else:
            tables.prepare_process(process.pid)

    def close(self) -> None:
        """Stop watching processes; what is known of them stays."""
        if self.unwind_tables is not None:
            self.unwind_tables.close()
        if self._log is not None:
            self._log.close()


def asks_for_groups(spec: ScriptSpec) -> bool:
    """Whether the script prints names of containers, pods or services, or asks whether a task is in one."""
    return bool(spec.groups) or _has_value(spec, is_group)


def is_group(type: Type) -> bool:
    """Whether values of the type are containers, pods or services, or tuples with such."""
    if isinstance(type, Tuple):
        return any(map(is_group, type.of))
    return isinstance(type, Symbol) and type.kind in GROUPS


def names_user_addresses(spec: ScriptSpec) -> bool:
    """Whether the script prints names of addresses in processes."""
    return _has_value(spec, _has_user_address)


def _has_value(spec: ScriptSpec, test: Callable[[Type], bool]) -> bool:
    """Whether the script sends or keeps a value with such a type."""
    return any([test(type) for site in spec.sites for type in [field.type for field in site.fields]]
               + [test(type) for m in spec.maps for type in (m.key, m.value) if type is not None])


def _has_user_address(type: Type) -> bool:
    if isinstance(type, Tuple):
        return any(_has_user_address(t) for t in type.of)
    return isinstance(type, USym) or isinstance(type, Stack) and type.user


def _find_pythons(maps: Mapping[str, Map]) -> Pythons | None:
    if PY_IMAGES not in maps:
        return None
    from .stacks.pythons import Pythons
    return Pythons(maps)


def _new_groups(cgroups: Cgroups) -> Groups:
    from ..kernel.groups.lookup import Groups
    return Groups(cgroups)
