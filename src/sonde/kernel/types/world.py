"""What the compiler may ask, answered by the running kernel.

Making a World costs nothing: everything is read on demand. "No such thing" is None or an empty
list; MachineError is raised if that cannot be found out (no tracefs, no privileges).
"""

from __future__ import annotations

import os

from ...arch import ARCHES, NARROW, this_arch
from ...arch.syscalls import syscall_number
from ...base.fast_stdlib import cached_property
from ...base.function_ends import FunctionEnds
from ...btf.query import Btf
from ...errors import MachineError
from ...layouts.uapi import BPF_TRACE_FENTRY, BPF_TRACE_FEXIT
from ...spec import (
    BpfFunction,
    ClassicFilter,
    Implementation,
    Inlined,
    KernelFunction,
    SourceLines,
    TracepointFormat,
    UsdtProbe,
    UserFunction,
    UserPrototype,
)
from .. import host, places
from ..features import Features, can_load_program, is_feature
from ..names.symbols import FunctionList, KernelSymbols, traceable_functions
from . import tracefs
from .btf_files import has_own_btf, open_types
from .kernel_types import KernelTypes, open_modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...types import Type
    from ..foreign.files import ElfFile

INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO: include/linux/proc_ns.h


def _elf_file(path: str) -> ElfFile:
    """The file; MachineError. Imported here: most scripts need no ELF file."""
    from ..foreign.files import open_elf

    return open_elf(path)


class UserSide:
    """The questions about programs and libraries, which do not depend on the kernel."""

    def find_binaries(self, name: str, pid: int = 0) -> list[str]:
        """Absolute paths for a path, glob, command in $PATH, or library name."""
        from ..names import binaries

        return binaries.find_binaries(name, pid)

    def user_functions(self, path: str) -> list[UserFunction]:
        """Functions of an ELF file; [] if it is not one."""
        try:
            return _elf_file(path).functions()
        except MachineError:
            return []

    def user_bits(self, path: str) -> int:
        """Bits of an address in a file: 64, or 32."""
        try:
            return _elf_file(path).bits
        except MachineError:
            return 64

    def implementations(self, path: str, names: list[str], pid: int = 0) -> dict[int, Implementation]:
        """The code of indirect functions."""
        from ..names import indirect

        try:
            return indirect.find_implementations(path, names, pid)
        except MachineError:
            return {}

    def user_object(self, path: str, symbol: str) -> tuple[int, int] | None:
        """(virtual address, size) of a data or function symbol."""
        try:
            return _elf_file(path).find_object(symbol)
        except MachineError:
            return None

    def file_size(self, path: str) -> int:
        """Size of a regular file in bytes; 0 if it is not one."""
        import os
        import stat

        try:
            status = os.stat(path)
        except (OSError, ValueError):
            return 0
        return status.st_size if stat.S_ISREG(status.st_mode) else 0

    def user_offset(self, path: str, address: int) -> int | None:
        """File offset of a virtual address."""
        try:
            return _elf_file(path).address_to_offset(address)
        except MachineError:
            return None

    def is_instruction_start(self, path: str, offset: int, distance: int) -> bool:
        """Whether an instruction starts there; see semantics.world."""
        from ...arch.instructions import is_instruction_start
        from ..foreign.opening import read_start
        code = read_start(path, distance + 16, offset)
        return not code or is_instruction_start(this_arch(), code, distance)

    def go_version(self, path: str) -> str:
        """Which Go built a file; "" if none did."""
        try:
            return str(_elf_file(path).ask_reader("go_version"))
        except MachineError:
            return ""

    def entry_distances(self, path: str, offsets: list[int], go: bool) -> list[int]:
        """How far behind their first instructions probes of functions are set."""
        from ...arch.function_entries import MOST_CHECK, marker_length, stack_check_length
        from ..foreign.opening import read_parts
        row = this_arch() if self.user_bits(path) == 64 else ARCHES[NARROW[0]]
        return [stack_check_length(row, code) if go else marker_length(row, code)
                for code in read_parts(path, MOST_CHECK, offsets)]

    def return_hazard(self, path: str, offset: int) -> str:
        """Why a return probe of the function there would do harm; "unclear" if the file cannot be read."""
        from ..names import returns
        try:
            return returns.return_hazard(_elf_file(path), offset)
        except MachineError:
            return "unclear"

    def packet_filter(self, expression: str, link: str) -> ClassicFilter | None:
        """A filter of pcap-filter(7); None where libpcap is not installed."""
        from ..pcap import compile_filter

        return compile_filter(expression, link)

    def function_ends(self, path: str, offsets: list[int]) -> list[FunctionEnds]:
        """Where functions end; "unreadable" if the file cannot be read."""
        from ..names import returns
        try:
            return returns.function_ends(_elf_file(path), offsets)
        except MachineError:
            return [FunctionEnds(problem="unreadable") for _ in offsets]

    def find_import(self, path: str, name: str, pid: int) -> tuple[str, list[int]] | None:
        """The function of another file that a program calls by a name."""
        from ..names.imports import find_import
        return find_import(path, name, pid)

    def process_symbol(self, pid: int, name: str) -> int | None:
        """Address of a symbol in a process, from the files that it has mapped."""
        from ..names.user_symbols import process_symbol

        return process_symbol(pid, name)

    def user_prototype(self, path: str, offset: int, own: bool = False) -> UserPrototype:
        """Parameters and result of the function that begins at a file offset."""
        try:
            file = _elf_file(path)
            return file.function_prototype(offset) if file.has_debug_info or not own else UserPrototype()
        except MachineError as problem:
            return UserPrototype(problem=problem.message)

    def user_type(self, path: str, name: str) -> Type | None:
        """``struct x`` or ``union x`` by a file's debug information, if it has any."""
        try:
            return _elf_file(path).named_type(name)
        except MachineError:
            return None

    def source_lines(self, path: str, source: str, line: int, column: int = 0) -> SourceLines:
        """Where the code of a source line begins."""
        try:
            return _elf_file(path).source_lines(source, line, column)
        except MachineError as problem:
            return SourceLines(problem=problem.message)

    def inlined_copies(self, path: str, name: str, own: bool = False) -> Inlined | None:
        """The inlined copies of a function."""
        from ..foreign.files import inlined_copies

        return inlined_copies(path, name, own)

    def demangle(self, names: list[str], source: str = "") -> list[str] | None:
        """C++ names as in source code; None where there is no C++ runtime."""
        from ..foreign.readable_names import demangle

        return demangle(names, source)

    def usdt_probes(self, path: str) -> list[UsdtProbe]:
        """Static probes of an ELF file; [] if it is not one."""
        try:
            return _elf_file(path).usdt_probes()
        except MachineError:
            return []

    def file_problem(self, path: str) -> str:
        """Why a file cannot be read; "" if it can."""
        try:
            return _elf_file(path).problem
        except MachineError as problem:
            return problem.message

    def cgroup_id(self, path: str) -> int | None:
        """Id of a cgroup v2 directory."""
        from .. import procfs

        return procfs.cgroup_id(path)


class LiveWorld(KernelTypes, UserSide):
    """The running kernel."""

    def __init__(self) -> None:
        self.arch: str = os.uname().machine
        self.cpus: int = host.possible_cpus()
        self.release: str = host.kernel_release()

    @cached_property
    def pid_namespace(self) -> bool:
        """Whether Sonde's PID namespace is not the initial one, whose inode number is fixed."""
        try:
            return os.stat("/proc/self/ns/pid").st_ino != INITIAL_PID_NAMESPACE
        except OSError:
            return False

    def _open_btf(self) -> Btf | None:
        return open_types()

    def kfunc_id(self, name: str) -> int:
        """The same, valid for the kernel: type ids of a BTF file mean nothing to it."""
        return super().kfunc_id(name) if has_own_btf() else 0

    def _open_modules(self) -> dict[str, Btf]:
        return open_modules(self.btf) if self.btf and has_own_btf() else {}

    @cached_property
    def features(self) -> Features:
        """The kernel's features."""
        return Features(self.btf, has_own_btf())

    @cached_property
    def symbols(self) -> KernelSymbols:
        """The kernel's symbols."""
        return KernelSymbols()

    def sample_limit(self) -> int:
        """The sysctl, which the kernel lowers by itself when interrupts take long (perf_cpu_time_max_percent)."""
        try:
            with open("/proc/sys/kernel/perf_event_max_sample_rate", encoding="ascii") as file:
                return max(0, int(file.read()))
        except (OSError, ValueError):
            return 0

    @cached_property
    def tracefs(self) -> str:
        """Where tracefs is; mounts it if need be, else raises MachineError."""
        return tracefs.find_tracefs()

    def has_feature(self, name: str) -> bool:
        """Whether the kernel can do ``name``, a row of kernel/features.py; False for any other name."""
        return is_feature(name) and self.features.has(name)

    def is_certain(self, feature: str) -> bool:
        """Whether it could be determined if the kernel has a feature."""
        return not is_feature(feature) or self.features.check_feature(feature) is not None

    def tracepoints(self) -> list[tuple[str, str]]:
        """(category, event) of every classic tracepoint."""
        return tracefs.available_events(self.tracefs)

    def tracepoint_format(self, category: str, event: str) -> TracepointFormat | None:
        """A classic tracepoint's format."""
        text = tracefs.read_format(self.tracefs, category, event)
        return tracefs.parse_format(text, category, event, self) if text is not None else None

    def syscall_number(self, name: str) -> int | None:
        """``openat`` → 257; also by the names that tracepoints use (``newfstat``)."""
        return syscall_number(name, self.arch)

    def kernel_functions(self) -> list[tuple[str, str]]:
        """(module, function) of every traceable function; [] where functions cannot be traced, unless the command line
        gave their list."""
        possible = bool(places.traceable_functions) or self.has_feature("kprobes") or self.has_feature("fentry")
        return self._traceable_functions if possible else []

    @cached_property
    def _traceable_functions(self) -> list[tuple[str, str]]:
        return traceable_functions(self.tracefs)

    def _program_function(self, number: int, name: str) -> KernelFunction | None:
        from . import bpf_programs

        return bpf_programs.program_function(number, name, self.btf.find_struct) if self.btf else None

    def bpf_functions(self) -> list[BpfFunction]:
        """The functions of loaded BPF programs. One without function information goes by its program name, of at most
        15 characters."""
        from . import bpf_programs

        return [BpfFunction(program.id, name, bpf_programs.attach_obstacle(program), "" if at else program.type_name)
                for program in bpf_programs.loaded_programs()
                for at, name in enumerate([name for _, name in program.functions] or [program.name])]

    def is_function_traceable(self, name: str) -> bool:
        """Whether a function, of the kernel or a module, is one of those."""
        return self._function_list.count(name) > 0

    @cached_property
    def _function_list(self) -> FunctionList:
        try:
            return FunctionList(self.tracefs)
        except MachineError:
            return FunctionList("")

    def takes_typed_program(self, function: KernelFunction, returns: bool, among_many: bool = False) -> bool:
        """Whether it does, by trying: the verifier refuses some functions of the kernel proper. Of several with one
        name the kernel would take any."""
        if self._function_list.count(function.name) != 1:
            return False
        if among_many:
            return super().takes_typed_program(function, returns)
        at = BPF_TRACE_FEXIT if returns else BPF_TRACE_FENTRY
        return function.module != "vmlinux" or can_load_program("tracing", (), at, function.id) is True

    @cached_property
    def _changed(self) -> frozenset[str]:
        from . import functions

        return functions.changed(self.btf) if self.btf else frozenset()

    def is_changed(self, name: str) -> bool:
        """Whether a function of the kernel proper exists only as changed by the compiler."""
        return name in self._changed

    def forbidden_functions(self) -> frozenset[str]:
        """Functions in which kprobes are forbidden."""
        from . import functions

        return functions.forbidden_functions()

    def function_obstacle(self, function: str, module: str, kind: str) -> tuple[str, list[str]]:
        """What kallsyms, ftrace's list and installed debug information say."""
        from . import functions

        why, hints = functions.function_obstacle(function, module, kind, self.symbols)
        return (why, hints) if why else super().function_obstacle(function, module, kind)

    def kernel_symbol(self, name: str) -> int | None:
        """Address of a kernel symbol; also None if the kernel hides its addresses."""
        return self.symbols.symbol_address(name)
