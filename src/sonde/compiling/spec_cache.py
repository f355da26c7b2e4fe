"""Scripts compiled earlier: their specs in the cache directory, so that a second start needs no compiler.

A spec is taken from there if everything that compiling it depended on is unchanged. Most answers of a World cannot
change before the next boot as long as the same modules are loaded: those are ``LASTING``, and the boot, the modules and
Sonde's privileges are part of the key. The contents of tracefs may change at any time: its texts are kept with the
spec, and read again; filters of packets are compiled again by libpcap, and compared. With answers about a program or
library the state of the files that these depend on is kept (``OF_PROGRAMS``; see program_states). After any other
question, such as one about a process, or if the script includes a file, the spec is not kept.
"""

from __future__ import annotations

import marshal
import os

from ..base.cache_dir import digest, read_cache, thin_cache, write_cache
from ..base.package_files import package_identity
from ..kernel import places, syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..semantics.script_options import Options
    from ..source import Source
    from ..spec import ClassicFilter, Implementation, KernelFunction, ScriptSpec, TracepointFormat
    from .program_states import ProgramStates

PREFIX = "spec-"
MOST_FILES, MOST_BYTES = 256, 32 << 20
FORM = 2  # of marshal: one that writes equal values as equal bytes
LASTING = frozenset((
    "arch", "cpus", "release", "pid_namespace", "has_feature", "kfunc_id", "find_struct", "named_type", "enum_constant",
    "struct_names", "raw_tracepoints", "raw_tracepoint_args", "syscall_number", "kernel_functions",
    "is_function_traceable", "takes_typed_program", "is_changed", "forbidden_functions", "kernel_function",
    "function_names", "functions_taking"))
OF_PROGRAMS = frozenset((  # questions about the ELF file at a path
    "user_functions", "user_bits", "user_object", "user_offset", "user_prototype", "user_type", "usdt_probes",
    "inlined_copies", "go_version", "entry_distances", "return_hazard", "function_ends", "is_instruction_start",
    "file_problem"))
# Where functions are listed: that there is such a file and that it can be seen is part of the key.
_LISTS = ("/sys/kernel/tracing/available_filter_functions", "/sys/kernel/debug/tracing/available_filter_functions",
          "/sys/kernel/debug/kprobes/blacklist")


class RecordingWorld:
    """A World that passes questions on to another, and records what the answers depend on."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self.lasting = True
        self.texts: dict[str, bytes | None] = {}  # what was read of tracefs, by path; None: there was none
        self.programs: ProgramStates | None = None  # None: no question was about one
        self.filters: dict[tuple[str, str], bytes] = {}  # what libpcap made of expressions, by these and the link

    def __getattr__(self, name: str) -> Any:
        if name in OF_PROGRAMS:
            return lambda path, *others, **named: self._ask_of_program(name, path, *others, **named)
        self.lasting &= name in LASTING
        return getattr(self._world, name)

    def _ask_of_program(self, question: str, path: str, *others: Any, **named: Any) -> Any:
        self.lasting = self.lasting and self._programs().note_program(path)
        return getattr(self._world, question)(path, *others, **named)

    def _programs(self) -> ProgramStates:
        if self.programs is None:
            from .program_states import ProgramStates
            self.programs = ProgramStates()
        return self.programs

    def find_binaries(self, name: str, pid: int = 0) -> list[str]:
        """As the World says; what matches a pattern, and what processes run, may be more the next time."""
        from ..kernel.names.binaries import paths_looked_at
        looked = [] if pid else paths_looked_at(name)
        self.lasting &= bool(looked)
        if self.lasting:
            self._programs().note_name(name, looked)
        paths: list[str] = self._world.find_binaries(name, pid)
        return paths

    def implementations(self, path: str, names: list[str], pid: int = 0) -> dict[int, Implementation]:
        """As the World says; which code serves an indirect function is asked again."""
        answer: dict[int, Implementation] = self._ask_of_program("implementations", path, names, pid)
        self.lasting &= not answer
        return answer

    def has_feature(self, name: str) -> bool:
        """As the World says; but a feature that could not be tested this time may be the next time."""
        answer: bool = self._world.has_feature(name)
        self.lasting &= answer or self._world.is_certain(name)
        return answer

    def kernel_function(self, name: str, module: str = "") -> KernelFunction | None:
        """As the World says; loaded BPF programs come and go."""
        self.lasting &= not module.startswith("bpf:")
        answer: KernelFunction | None = self._world.kernel_function(name, module)
        return answer

    def kernel_symbol(self, name: str) -> int | None:
        """As the World says; loaded BPF programs come and go, and hidden addresses may be told the next time."""
        answer: int | None = self._world.kernel_symbol(name)
        is_certain = answer is not None or self._world.kernel_symbol("_stext") is not None
        self.lasting &= is_certain and not name.startswith(("bpf_prog_", "bpf_trampoline_"))
        return answer

    def tracepoints(self) -> list[tuple[str, str]]:
        """As the World says."""
        self._note(f"{self._world.tracefs}/available_events")
        names: list[tuple[str, str]] = self._world.tracepoints()
        return names

    def tracepoint_format(self, category: str, event: str) -> TracepointFormat | None:
        """As the World says."""
        self._note(f"{self._world.tracefs}/events/{category}/{event}/format")
        format: TracepointFormat | None = self._world.tracepoint_format(category, event)
        return format

    def packet_filter(self, expression: str, link: str) -> ClassicFilter | None:
        """As the World says; it is compiled again the next time, since names of hosts and services may have changed."""
        answer: ClassicFilter | None = self._world.packet_filter(expression, link)
        self.filters[expression, link] = _filter_bytes(answer)
        return answer

    def _note(self, path: str) -> None:
        self.texts[path] = _read(path)


def script_key(source: Source, options: Options) -> bytes:
    """Everything that compiling a script depends on and that is cheap to read; b"" if the result must not be stored: it
    uses lists of functions or types other than the kernel's. Of the process of -c, only whether there is one."""
    boot = _read("/proc/sys/kernel/random/boot_id")
    if boot is None or places.traceable_functions or not os.path.exists(places.OWN_BTF):
        return b""
    try:
        modules = sorted([(entry.name, entry.inode()) for entry in os.scandir("/sys/module")])
    except OSError:
        return b""
    machine = [boot, *os.uname(), syscalls.effective_capabilities(), modules,
               places.debug_directories, places.debuginfod_servers(),
               *[_identify(path) for path in ("/proc/self/ns/pid", "/proc/self/ns/mnt", *_LISTS)]]
    wanted = [bool(value) if name == "cpid" else value for name, value in zip(options._fields, options.values())]
    return marshal.dumps([package_identity(), machine, *source.values(), *wanted], FORM)


def load_compiled(key: bytes) -> ScriptSpec | None:
    """The spec stored under a key; None if there is none, or if tracefs has changed."""
    data = read_cache(_file_name(key)) or b""
    if len(data) < 8 or digest(data[8:]) != data[:8]:
        return None
    stored_key, texts, filters, programs, packed = marshal.loads(data[8:])
    if stored_key != key or any(_read(path) != text for path, text in texts.items()) or not _same_filters(filters) \
            or programs is not None and not _same_programs(programs):
        return None
    from .spec_codec import unpack_spec
    return unpack_spec(packed)


def keep_compiled(key: bytes, spec: ScriptSpec, options: Options, witness: RecordingWorld) -> None:
    """Store a spec for the next start, if possible: a probe that is only for the process of -c names it."""
    from ..layouts.shared_maps import CURRENT
    from .spec_codec import NotPlainError, pack_spec
    if not witness.lasting or options.cpid and any(
            point.pid == options.cpid for program in spec.programs for point in program.attach):
        return
    for map in spec.maps:
        if map.name == CURRENT:
            from ..kernel.tasks.current_task import locator_of_kernel
            spec.locator = locator_of_kernel(map.cpus)  # so that the next start need not look into BTF
    programs = witness.programs.to_keep() if witness.programs is not None else None
    if witness.programs is not None and programs is None:
        return
    try:
        data = marshal.dumps([key, witness.texts, witness.filters, programs, pack_spec(spec)], FORM)
    except NotPlainError:
        return
    if write_cache(_file_name(key), [digest(data), data]):
        thin_cache(PREFIX, MOST_FILES, MOST_BYTES)


def _filter_bytes(filter: ClassicFilter | None) -> bytes:
    return b"" if filter is None else marshal.dumps([filter.instructions, filter.problem], FORM)


def _same_filters(filters: dict[tuple[str, str], bytes]) -> bool:
    """Whether libpcap makes the same of all expressions as it did."""
    if not filters:
        return True
    from ..kernel.pcap import compile_filter
    return all(_filter_bytes(compile_filter(*key)) == made for key, made in filters.items())


def _same_programs(states: Any) -> bool:
    """Whether the files that answers about programs depended on are as they were."""
    from .program_states import are_same
    return are_same(states)


def _file_name(key: bytes) -> str:
    """The name of a key's file: keys with the same name replace one another."""
    return PREFIX + digest(key).hex()


def _read(path: str) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb", buffering=0) as file:
        return file.read()


def _identify(path: str) -> tuple[int, int]:
    """Device and inode of a file; (0, 0) where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino
