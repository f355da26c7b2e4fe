"""The current task, the CPU, and the probe's location: what builtins are made of."""

from __future__ import annotations

from ...kinds import KINDS
from ...types import KERNEL, Pointer, Struct
from .. import helpers as h
from ..current import loads_current
from ..ir import BasicBlock, Operand, Reg
from . import memory
from .core import Lower
from .probes.contexts import arch_of
from .state import Mem


def pid_tgid(lo: Lower) -> Reg:
    return lo.b.call(h.PID_TGID, [], "pid_tgid", pure=True)


def process_id(lo: Lower, namespace: str = "") -> Operand:
    """The process id in ``namespace`` (curr_ns, init), by default as Sonde's own namespace numbers it: the number
    that -p, cpid and /proc know."""
    if namespace == "curr_ns" or not namespace and lo.world.pid_namespace:
        return _id_in_namespace(lo, 4, namespace)
    return _id_of_task(lo, "tgid") if loads_current(lo.unit) else lo.b.alu("rsh", pid_tgid(lo), 32)


def thread_id(lo: Lower, namespace: str = "") -> Operand:
    """The thread id; see :func:`process_id`."""
    if namespace == "curr_ns" or not namespace and lo.world.pid_namespace:
        return _id_in_namespace(lo, 0, namespace)
    return _id_of_task(lo, "pid") if loads_current(lo.unit) else lo.b.extend(pid_tgid(lo), 32, False)


def _id_of_task(lo: Lower, member: str) -> Reg:
    mem = task_memory(lo, current_task(lo), member)
    return lo.b.load(mem.base, mem.off, 4, pure=True)


def _id_in_namespace(lo: Lower, off: int, counted: str) -> Operand:
    """struct bpf_pidns_info {u32 pid, tgid} for the namespace that Sonde runs in. A task of another one has no number
    there and gets 0, as in /proc; that is counted as a failure where the script asks for the namespace."""
    with lo.scope():
        info = lo.temp(8)
        memory.clear_bytes(lo, info, 8)
        device, inode = (lo.b.load(lo.unit.global_word(n), 0, 8) for n in ("pidns_dev", "pidns_ino"))
        result = lo.b.call(h.NS_PID_TGID, [device, inode, lo.operand_address(info), 8], "ns_current_pid_tgid")
        if counted:
            lo.on_failure(result, "helper", "get_ns_current_pid_tgid")
        return lo.b.load(info.base, info.off + off, 4)


def slot_number(lo: Lower, cpus: int, otherwise: BasicBlock) -> Reg:
    """This CPU's number; the verifier knows that it is below the number of possible CPUs."""
    if cpus & cpus - 1 == 0:
        return lo.b.region_number(cpus)
    number, inside = lo.b.cpu_number(), lo.b.block("slot")
    lo.b.branch("jlt", number, cpus, inside, otherwise)  # always
    lo.b.start(inside)
    return number


def current_task(lo: Lower) -> Operand:
    return lo.b.call(h.TASK, [], "current_task", pure=True)


def task_struct(lo: Lower) -> Struct:
    struct = lo.world.find_struct("task_struct")
    assert struct is not None
    return struct


def task_memory(lo: Lower, task: Operand, *path: str) -> Mem:
    """A member of a task, through the pointers on the way."""
    struct = task_struct(lo)
    mem = memory.locate_pointee(lo, task, Pointer(struct, KERNEL))
    for name in path[:-1]:
        field = struct.field(name)
        assert field is not None and isinstance(field.type, Pointer) and isinstance(field.type.to, Struct)
        mem, struct = memory.locate_pointee(lo, memory.read_field(lo, mem, field), field.type), field.type.to
    field = struct.field(path[-1])
    assert field is not None
    return mem.at(field.offset)


def read_members(lo: Lower, address: Operand, struct: Struct | None, *path: str) -> Operand:
    """The number at the end of a path from the struct at an address, through pointers and members; 0 where the kernel
    has no such member."""
    at = Pointer(struct, KERNEL) if struct is not None else None
    mem = memory.locate_pointee(lo, address, at) if at is not None else None
    for number, name in enumerate(path):
        field = struct.field(name) if struct is not None else None
        if field is None or mem is None:
            return 0
        if number == len(path) - 1:
            return memory.read_field(lo, mem, field)
        mem, type = mem.at(field.offset), field.type
        if isinstance(type, Pointer):
            mem, type = memory.locate_pointee(lo, memory.read_scalar(lo, mem, type), type), type.to
        struct = type if isinstance(type, Struct) else None
    return 0


def name_memory(lo: Lower, task: Operand, *path: str) -> Mem:
    """The memory of a task's name. Since Linux 5.17, which also brought bpf_loop(), the kernel pads it with NULs
    (strscpy_pad() in __set_task_comm(), fs/exec.c)."""
    mem = task_memory(lo, task, *path)
    mem.padded = lo.unit.feature("bpf_loop")
    return mem


def comm_memory(lo: Lower) -> Mem | None:
    """The memory of the current task's name, when kernel memory is loaded directly."""
    if not memory.loads_directly(lo) or lo.world.find_struct("task_struct") is None:
        return None
    return name_memory(lo, current_task(lo), "comm")


def traced_address(lo: Lower) -> Operand:
    """Where a function probe was set. A user program has just stopped there; to other programs the kernel tells it, or,
    before Linux 5.15, where each function has a program of its own, the symbol table."""
    if lo.context.returned:
        return lo.context.function_address(lo)  # type: ignore[no-any-return]
    kind = KINDS[lo.attach[0].kind]
    if kind.user and not kind.returns:
        return lo.context.register(lo, arch_of(lo).instruction_pointer)  # type: ignore[no-any-return]
    if not lo.unit.feature("helper_get_func_ip"):
        return lo.world.kernel_symbol(lo.attach[0].event) or lo.attach[0].offset
    return lo.b.call(h.FUNC_IP, [lo.context_pointer()], "func_ip", pure=True)


def write_user_symbol(lo: Lower, address: Operand, into: Mem) -> None:
    """An address of the current process as a symbol: address, tgid, probe."""
    lo.b.store(into.base, into.off, address)
    lo.b.store(into.base, into.off + 8, process_id(lo), 4)
    lo.b.store(into.base, into.off + 12, 0, 4)
