"""What compiling may ask about the machine that the script is for.

``LiveWorld`` (kernel/types/world.py) answers from the running kernel, ``BtfWorld`` (kernel/types/btf_world.py) from a
file of BTF; neither is imported here. Every answer is a plain value; "no such thing" is None or an empty list, never an
exception.
"""

from __future__ import annotations

from ..base.fast_stdlib import Protocol
from ..base.function_ends import FunctionEnds as FunctionEnds
from ..spec import BpfFunction as BpfFunction
from ..spec import ClassicFilter as ClassicFilter
from ..spec import Implementation as Implementation
from ..spec import Inlined as Inlined
from ..spec import KernelFunction as KernelFunction
from ..spec import SourceLines as SourceLines
from ..spec import TracepointFormat as TracepointFormat  # what both halves speak of
from ..spec import UsdtProbe as UsdtProbe
from ..spec import UserFunction as UserFunction
from ..spec import UserPrototype as UserPrototype
from ..types import Enum, Struct, Type


class World(Protocol):
    """The questions. All type answers use sonde.types; kernel pointers have space "kernel"."""

    arch: str        # a name in sonde.arch
    cpus: int        # possible CPUs: slots of per-CPU memory
    release: str     # "6.18.44", for messages only

    @property
    def pid_namespace(self) -> bool:
        """Whether Sonde runs in another PID namespace than the first: its process ids are not the kernel's."""

    def has_feature(self, name: str) -> bool:
        """Whether the kernel can do ``name``; the names are rows of kernel/features.py, e.g. ``rdonly_cast``,
        ``kprobes``, ``raw_tp_cookie``, ``bpf_loop``, ``for_each_map_elem``."""

    def kfunc_id(self, name: str) -> int:
        """BTF id of a kernel function that programs may call; 0 if there is none."""

    # types

    def find_struct(self, name: str, union: bool = False) -> Struct | None:
        """``struct name`` of the kernel."""

    def named_type(self, name: str) -> Type | None:
        """A typedef (resolved), ``enum x``, or base type of the kernel by its C name."""

    def enum_constant(self, name: str) -> tuple[int, Enum | None] | None:
        """The value of an enum constant of the kernel, and its enum."""

    def struct_names(self) -> list[str]:
        """All struct and union names, for suggestions and -l."""

    # probes

    def tracepoints(self) -> list[tuple[str, str]]:
        """(category, event) of every classic tracepoint, the syscalls: ones included."""

    def tracepoint_format(self, category: str, event: str) -> TracepointFormat | None: ...

    def raw_tracepoints(self) -> list[tuple[str, str]]:
        """(module, event) of every raw tracepoint; the module is "vmlinux" for the built-in ones."""

    def raw_tracepoint_args(self, event: str) -> Struct | None:
        """Its arguments: field i at offset 8 * i, named as in the kernel (from __probestub_/__traceiter_)."""

    def syscall_number(self, name: str) -> int | None:
        """``openat`` → 257."""

    def kernel_functions(self) -> list[tuple[str, str]]:
        """(module, function) of every function that could be traced; [] where kprobes are not built in."""

    def is_function_traceable(self, name: str) -> bool:
        """Whether a function, of the kernel or a module, is among those."""

    def takes_typed_program(self, function: KernelFunction, returns: bool, among_many: bool = False) -> bool:
        """Whether the kernel loads programs for fentry of a function, or for fexit, and no other bears its name;
        ``among_many``: as far as its type tells, since it would take too long to try."""

    def is_changed(self, name: str) -> bool:
        """Whether a function that type information has is there as the compiler changed it only (``f.isra.0``)."""

    def forbidden_functions(self) -> frozenset[str]:
        """Functions in which the kernel lets nobody set kprobes."""

    def function_obstacle(self, function: str, module: str, kind: str) -> tuple[str, list[str]]:
        """Why ``kind:module:function`` cannot be probed, as far as is known, and hints."""

    def kernel_function(self, name: str, module: str = "") -> KernelFunction | None:
        """The prototype of a kernel function that the kernel's type information has; ``module`` "" is any, "bpf:ID" a
        loaded BPF program."""

    def bpf_functions(self) -> list[BpfFunction]:
        """The functions of loaded BPF programs."""

    def function_names(self) -> list[tuple[str, str]]:
        """(module, function) of every function that has a prototype."""

    def functions_taking(self, struct: str) -> dict[tuple[str, str], int]:
        """(module, function) of every traceable function with a parameter ``struct NAME *`` that is in a register, and
        the position of the first one, counted from 0."""

    def process_symbol(self, pid: int, name: str) -> int | None:
        """Address of a data or function symbol in the memory of a process."""

    def kernel_symbol(self, name: str) -> int | None:
        """Address of a kernel symbol."""

    def sample_limit(self) -> int:
        """Samples a second that an event of perf may make on a CPU (kernel.perf_event_max_sample_rate); 0 if not
        known."""

    # user space

    def find_binaries(self, name: str, pid: int = 0) -> list[str]:
        """Absolute paths for a path, glob, command in $PATH, or library name (``c``, ``libc``, ``libc.so.6``)."""

    def user_functions(self, path: str) -> list[UserFunction]:
        """Functions of an ELF file, from .symtab, .dynsym and debug files."""

    def user_bits(self, path: str) -> int:
        """Bits of an address in an ELF file: 32 of a 32-bit program or library, else 64."""

    def implementations(self, path: str, names: list[str], pid: int = 0) -> dict[int, Implementation]:
        """The code of those among the functions of these names that are indirect (IFUNC), by the offset of each, which
        is that of its resolver; ``pid``: as a process has chosen it."""

    def user_object(self, path: str, symbol: str) -> tuple[int, int] | None:
        """(virtual address, size) of a data or function symbol of an ELF file."""

    def file_size(self, path: str) -> int:
        """Bytes of a regular file that need not be a program; 0 if there is none."""

    def user_offset(self, path: str, address: int) -> int | None:
        """File offset of a virtual address of an ELF file."""

    def is_instruction_start(self, path: str, offset: int, distance: int) -> bool:
        """Whether an instruction starts ``distance`` bytes after the one at a file offset; True if not known."""

    def go_version(self, path: str) -> str:
        """Which Go built an ELF file: ``go1.19.8``, or ``go1.18+`` if only the oldest that it can be is known; "" if
        none did."""

    def entry_distances(self, path: str, offsets: list[int], go: bool) -> list[int]:
        """For the functions at these file offsets, how far behind their first instructions probes are set: of ``go`` at
        the end of the check of the stack (Arch.go_stack_check), else behind what marks the beginning, where a probe
        there costs less (Arch.entry_marker)."""

    def return_hazard(self, path: str, offset: int) -> str:
        """Why a return probe of the function at a file offset would harm the traced program: a key of
        semantics.returns.HAZARDS; "" if it is safe."""

    def function_ends(self, path: str, offsets: list[int]) -> list[FunctionEnds]:
        """Where the functions at these file offsets end, by their instructions."""

    def find_import(self, path: str, name: str, pid: int) -> tuple[str, list[int]] | None:
        """(path, file offsets) of the function that a program takes from another file by a name: with a process, from
        one that it has mapped. Several are implementations, of which a process uses one. None where it is not known."""

    def user_prototype(self, path: str, offset: int, own: bool = False) -> UserPrototype:
        """Parameters and result of the function whose first instruction is at a file offset, by debug information:
        ``own`` if it must be in the file itself, as looking elsewhere takes time."""

    def user_type(self, path: str, name: str) -> Type | None:
        """``struct x`` or ``union x`` by a file's debug information."""

    def source_lines(self, path: str, source: str, line: int, column: int = 0) -> SourceLines:
        """Where the code of a source line begins; ``source`` is the end of a source file's path, column 0 any."""

    def inlined_copies(self, path: str, name: str, own: bool = False) -> Inlined | None:
        """The copies of a function in others, by debug information; the name may have C++ namespaces. ``own``: only by
        that in the file itself, and only what a moment's reading finds: there may be more."""

    def demangle(self, names: list[str], source: str = "") -> list[str] | None:
        """C++ names of the file ``source`` as people write them, others as they are; None where there is no
        C++ runtime."""

    def file_problem(self, path: str) -> str:
        """Why a file cannot be read; "" if it can."""

    def usdt_probes(self, path: str) -> list[UsdtProbe]:
        """Static probes of an ELF file, one for each place."""

    def cgroup_id(self, path: str) -> int | None: ...

    def packet_filter(self, expression: str, link: str) -> ClassicFilter | None:
        """A filter of pcap-filter(7) for packets that begin with the header of ``link`` ("ethernet" or "ip"), or what
        is wrong with it; None where libpcap is not installed."""
