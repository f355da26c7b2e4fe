"""Lowering of builtins, one function each; the table at the end pairs with semantics/builtins.py."""

from __future__ import annotations

from collections.abc import Callable

from ...language.ast import Call, Expr, Name
from ...types import KERNEL, Pointer, Str, Struct
from ...uapi import BPF_TASK_ITER_ALL_THREADS
from .. import helpers as h
from ..ir import Operand, Reg
from . import memory
from .clocks import elapsed_time, read_clock
from .contexts import arch_of
from .core import Lower, call_option
from .state import Mem


def pid_tgid(lo: Lower) -> Reg:
    return lo.b.call(h.PID_TGID, [], "pid_tgid", pure=True)


def process_id(lo: Lower, namespace: str = "") -> Operand:
    """The process id in ``namespace`` (curr_ns, init), by default as Sonde's own namespace numbers it: the number
    that -p, cpid and /proc know."""
    if namespace == "curr_ns" or not namespace and lo.world.pid_namespace:
        return _id_in_namespace(lo, 4, namespace)
    return lo.b.alu("rsh", pid_tgid(lo), 32)


def thread_id(lo: Lower, namespace: str = "") -> Operand:
    """The thread id; see :func:`process_id`."""
    if namespace == "curr_ns" or not namespace and lo.world.pid_namespace:
        return _id_in_namespace(lo, 0, namespace)
    return lo.b.extend(pid_tgid(lo), 32, False)


def _id_in_namespace(lo: Lower, off: int, asked: str) -> Operand:
    """struct bpf_pidns_info {u32 pid, tgid} for the namespace that Sonde runs in. A task of another one has no number
    there and gets 0, as in /proc; that is counted as a failure where the script asks for the namespace."""
    with lo.scope():
        info = lo.temp(8)
        memory.clear_bytes(lo, info, 8)
        device, inode = (lo.b.load(lo.unit.global_word(n), 0, 8) for n in ("pidns_dev", "pidns_ino"))
        result = lo.b.call(h.NS_PID_TGID, [device, inode, lo.operand_address(info), 8], "ns_current_pid_tgid")
        if asked:
            lo.on_failure(result, "helper", "get_ns_current_pid_tgid")
        return lo.b.load(info.base, info.off + off, 4)


def _user_id(lo: Lower, node: Expr) -> Operand:
    return lo.b.extend(lo.b.call(h.UID_GID, [], "uid_gid", pure=True), 32, False)


def _group_id(lo: Lower, node: Expr) -> Operand:
    return lo.b.alu("rsh", lo.b.call(h.UID_GID, [], "uid_gid", pure=True), 32)


def cpu_number(lo: Lower) -> Reg:
    return lo.b.call(h.CPU_ID, [], "cpu", pure=True)


def current_task(lo: Lower) -> Operand:
    return lo.b.call(h.TASK, [], "current_task", pure=True)


def task_struct(lo: Lower) -> Struct:
    struct = lo.world.find_struct("task_struct")
    assert struct is not None
    return struct


def task_memory(lo: Lower, node: Expr | None, *path: str) -> Mem:
    """A member of the current task (or of the call's argument), through the pointers on the way."""
    given = call_option(node, "task") if node is not None else None
    struct = task_struct(lo)
    task = lo.scalar_value(given) if given is not None else current_task(lo)
    mem = memory.locate_pointee(lo, task, Pointer(struct, KERNEL))
    for name in path[:-1]:
        field = struct.field(name)
        assert field is not None and isinstance(field.type, Pointer) and isinstance(field.type.to, Struct)
        mem, struct = memory.locate_pointee(lo, memory.read_field(lo, mem, field), field.type), field.type.to
    field = struct.field(path[-1])
    assert field is not None
    return mem.at(field.offset)


def comm_memory(lo: Lower) -> Mem | None:
    """The current task's name where it lies, when kernel memory is loaded directly (the kernel keeps it padded
    with NULs: strscpy_pad in __set_task_comm())."""
    return task_memory(lo, None, "comm") if memory.loads_directly(lo) and lo.world.find_struct("task_struct") else None


def _task_number(*path: str) -> Callable[[Lower, Expr], Operand]:
    from ...types import UINT32
    return lambda lo, node: memory.read_scalar(lo, task_memory(lo, node, *path), UINT32)


def _global_reader(name: str) -> Callable[[Lower, Expr], Operand]:
    return lambda lo, node: lo.b.load(lo.unit.global_word(name), 0, 8)


def traced_address(lo: Lower) -> Reg:
    """Where a function probe was set. A user program has just stopped there; to other programs the kernel tells it."""
    if lo.attach[0].kind in ("uprobe", "usdt"):
        registers = arch_of(lo).registers
        return lo.context.register(lo, registers["ip" if "ip" in registers else "pc"])  # type: ignore[no-any-return]
    return lo.b.call(h.FUNC_IP, [lo.context_pointer()], "func_ip", pure=True)


def _helper_caller(number: int, name: str, pure: bool = True, bits: int = 64) -> Callable[[Lower, Expr], Operand]:
    def lower(lo: Lower, node: Expr) -> Operand:
        value = lo.b.call(number, [], name, pure=pure)
        return value if bits == 64 else lo.b.extend(value, bits, False)
    return lower


SCALARS: dict[str, Callable[[Lower, Expr], Operand]] = {
    "pid": lambda lo, node: process_id(lo, call_option(node, "namespace") or ""),
    "tid": lambda lo, node: thread_id(lo, call_option(node, "namespace") or ""), "uid": _user_id, "gid": _group_id,
    "nsecs": read_clock, "elapsed": elapsed_time, "func": lambda lo, node: traced_address(lo),
    "cpu": lambda lo, node: cpu_number(lo), "cgroup": _helper_caller(h.CGROUP_ID, "cgroup_id"),
    "rand": _helper_caller(h.RANDOM, "random", False, 32), "jiffies": _helper_caller(h.JIFFIES, "jiffies", False),
    "numaid": _helper_caller(h.NUMA_NODE, "numa_node", True, 32), "curtask": lambda lo, node: current_task(lo),
    "ctx": lambda lo, node: lo.context_pointer(), "username": _user_id, "probe": lambda lo, node: lo.probe_index(),
    "retval": lambda lo, node: lo.context.retval(lo), "usermode": lambda lo, node: lo.context.usermode(lo),
    "cpid": _global_reader("cpid"),
    "has_cpid": lambda lo, node: lo.truth(lo.b.load(lo.unit.global_word("cpid"), 0, 8)),
    "ppid": _task_number("real_parent", "tgid"), "leader_tid": _task_number("group_leader", "pid"),
}
NAMES = {"pcomm": ("real_parent", "comm"), "leader_comm": ("group_leader", "comm")}


def scalar_builtin(lo: Lower, node: Name | Call) -> Operand:
    """The value of a builtin that fits a register."""
    name = node.name.removeprefix("__builtin_")
    if name.startswith("arg") and name[3:].isdigit():
        return lo.context.arg(lo, int(name[3:]))  # type: ignore[no-any-return]
    value = SCALARS[name](lo, node)
    return lo.normalise(value, node.type) if name in ("retval",) else value


def text_memory(lo: Lower, node: Name | Call) -> Mem | None:
    """Where comm, pcomm and leader_comm can be loaded from."""
    name = node.name.removeprefix("__builtin_")
    if call_option(node, "pid") is not None:
        return None
    if name == "comm":
        return comm_memory(lo)
    if name in NAMES:
        return task_memory(lo, node, *NAMES[name])
    return None


def write_text(lo: Lower, node: Name | Call, into: Mem) -> None:
    """A string builtin into memory of at least its 16 bytes."""
    source = text_memory(lo, node)
    if call_option(node, "pid") is not None:
        _comm_of(lo, call_option(node, "pid"), into)
    elif source is not None:
        memory.copy_bytes(lo, source, into, 16)
    else:
        # 5.18 to 6.2 do not clear what follows: bpf_get_current_comm() in kernel/bpf/helpers.c used strscpy().
        memory.clear_bytes(lo, into, 16)
        lo.b.call(h.COMM, [lo.operand_address(into), 16], "current_comm")


def _comm_of(lo: Lower, pid: Expr, into: Mem) -> None:
    """The name of the thread with that id: walk all of them, as only an iterator may in every kind of program."""
    struct = task_struct(lo)
    number, comm = struct.field("pid"), struct.field("comm")
    assert number is not None and comm is not None
    wanted = lo.b.extend(lo.scalar_value(pid), 32, False)
    memory.clear_bytes(lo, into, 16)
    lo.forget()
    with lo.scope():
        iterator = lo.temp(24, "tasks")  # struct bpf_iter_task
        where = lo.operand_address(iterator)
        lo.b.kfunc(lo.world.kfunc_id("bpf_iter_task_new"), [where, 0, BPF_TASK_ITER_ALL_THREADS], "iter_task_new")
        loop, one, found, done = (lo.b.block(n) for n in ("tasks", "task", "found", "done"))
        lo.b.start(loop)
        task = lo.b.kfunc(lo.world.kfunc_id("bpf_iter_task_next"), [where], "iter_task_next")
        lo.b.branch("jne", task, 0, one, done)
        lo.b.start(one)
        lo.b.branch("jeq", lo.b.load(task, number.offset, 4), wanted, found, loop)
        lo.b.start(found)
        memory.copy_bytes(lo, Mem(task, comm.offset, KERNEL, struct.btf_id), into, 16)
        lo.b.jump(done)
        lo.b.start(done)
        lo.b.kfunc(lo.world.kfunc_id("bpf_iter_task_destroy"), [where], "iter_task_destroy")


def is_string_builtin(node: Expr) -> bool:
    return isinstance(node, (Name, Call)) and isinstance(node.type, Str) and node.const is None and \
        node.name.removeprefix("__builtin_") in ("comm", *NAMES)
