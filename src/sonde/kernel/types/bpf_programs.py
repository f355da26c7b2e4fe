"""The functions of loaded BPF programs: fentry and fexit attach to them as to the kernel's own.

A function is identified by its program's id and its name in the program's own BTF. A program that was loaded
without function information (``func_info``) cannot be attached to (bpf_check_attach_target() in kernel/bpf/verifier.c).
"""

from __future__ import annotations

from ...base.fast_stdlib import cache
from ...base.record import Record
from ...btf.query import Btf, parse_btf
from ...errors import MachineError, PrivilegeError, SyscallError
from ...layouts.uapi import PROG_TYPE_NAMES
from ...spec import KernelFunction
from ...types import Pointer, Struct, StructField, Type
from .. import syscalls
from .kernel_types import function_prototype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

# What a program declares as its context, and what the kernel really passes: the pairs of include/linux/bpf_types.h.
CONTEXTS = {
    "__sk_buff": "sk_buff", "xdp_md": "xdp_buff", "bpf_sock": "sock", "bpf_sock_addr": "bpf_sock_addr_kern",
    "bpf_sock_ops": "bpf_sock_ops_kern", "sk_msg_md": "sk_msg", "bpf_perf_event_data": "bpf_perf_event_data_kern",
    "bpf_sysctl": "bpf_sysctl_kern", "bpf_sockopt": "bpf_sockopt_kern", "sk_reuseport_md": "sk_reuseport_kern",
    "bpf_sk_lookup": "bpf_sk_lookup_kern",
}
FLOW_DISSECTOR = 22  # the one program type whose __sk_buff is another struct

FindStruct: TypeAlias = "Callable[[str], Struct | None]"


class KernelProgram(Record):
    """A program in the kernel. ``functions`` are (type id, name) in its BTF, empty without function information."""

    id: int
    name: str  # at most 15 characters
    type: int
    btf: Btf | None
    functions: list[tuple[int, str]]
    compiled: bool

    @property
    def type_name(self) -> str:
        """As bpftool has it: xdp, sched_cls."""
        return PROG_TYPE_NAMES[self.type] if self.type < len(PROG_TYPE_NAMES) else f"type_{self.type}"


def loaded_programs() -> list[KernelProgram]:
    """Every program in the kernel that we may look at."""
    programs = []
    try:
        for number in syscalls.object_ids("program"):
            if (program := program_by_id(number)) is not None:
                programs.append(program)
    except PrivilegeError:
        pass  # without that privilege nothing can be attached either
    return programs


def program_by_id(number: int) -> KernelProgram | None:
    """The program with that id; None if it has gone."""
    try:
        with syscalls.object_by_id("program", number) as fd:
            name, kind, btf_number, functions = syscalls.prog_functions(fd)
            compiled = syscalls.is_compiled(fd)
    except SyscallError:
        return None
    btf = _btf_by_id(btf_number) if btf_number and functions else None
    return KernelProgram(number, name, kind, btf, [(at, btf.raw_type(at).name) for _, at in functions] if btf else [],
                         compiled)


def attach_obstacle(program: KernelProgram) -> str:
    """Why the kernel attaches nothing to a program's functions; "" if nothing is known that speaks against it."""
    if not program.functions:
        return f"program {program.id} was loaded without function information (BTF), and the kernel attaches to none " \
            "that was"
    if not program.compiled:
        return f"program {program.id} is interpreted, and the kernel attaches only to compiled ones " \
            "(sysctl net.core.bpf_jit_enable=1, before it is loaded)"
    return ""


@cache
def _btf_by_id(number: int) -> Btf | None:
    try:
        with syscalls.object_by_id("btf", number) as fd:
            return parse_btf(syscalls.btf_blob(fd), name=f"BTF {number}", kernel=False)
    except (SyscallError, MachineError):
        return None


def program_function(number: int, name: str, find: FindStruct) -> KernelFunction | None:
    """The prototype of a program's function. Structs that the kernel has too are taken from it, by ``find``."""
    program = program_by_id(number)
    id = next((id for id, own in program.functions if own == name), 0) if program else 0
    if program is None or program.btf is None or not id:
        return None
    known = function_prototype(program.btf, id, name, f"bpf:{number}")
    fields = tuple([_to_kernel_field(f, program.type, find) for f in known.args.fields])
    known.args = Struct(known.args.name, known.args.bytes, lambda: fields)
    return known


def _to_kernel_field(field: StructField, kind: int, find: FindStruct) -> StructField:
    return StructField(field.name, _to_kernel_type(field.type, kind, find), field.offset)


def _to_kernel_type(type: Type, kind: int, find: FindStruct) -> Type:
    """A pointer to a program's context points to what the kernel passes in its place, whose layout differs. Any other
    struct is the kernel's if that has one of the same name with all of its members: the program's own declaration may
    be an excerpt (CO-RE), whose offsets were relocated in the code only."""
    if not isinstance(type, Pointer) or not isinstance(type.to, Struct):
        return type
    declared, name = type.to, type.to.name.partition("___")[0]
    real = "bpf_flow_dissector" if (name, kind) == ("__sk_buff", FLOW_DISSECTOR) else CONTEXTS.get(name, name)
    known = find(real)
    if real != name:
        return Pointer(known or Struct(real, 0, tuple), type.space)
    same = known is not None and all(known.field(member) for member in declared.field_names())
    return Pointer(known, type.space) if known is not None and same else type
