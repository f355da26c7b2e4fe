"""The task that is running, and its relatives."""

from __future__ import annotations

from ..compiler import helpers as h
from ..compiler.ir import Operand
from ..compiler.lower import current_call, family, memory, tasks
from ..compiler.lower.calls import Builtin, helper_caller
from ..compiler.lower.core import Lower
from ..compiler.lower.state import Mem
from ..language.ast import Call, Choice, Expr, Reference
from ..layouts.uapi import BPF_TASK_ITER_ALL_THREADS
from ..semantics import convert
from ..semantics.builtins import choice_checker, type_of
from ..semantics.context import CheckContext, callback_hints
from ..types import (
    BOOL,
    INT64,
    KERNEL,
    UINT32,
    UINT64,
    Bool,
    Pointer,
    Str,
    Struct,
    Symbol,
    Type,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_NAMESPACES = ("curr_ns", "init")


class Namespace(Choice):
    """The PID namespace that numbers a process: "curr_ns" or "init"."""

    namespace: str


class Task(Choice):
    """A task other than the current one, by its task_struct."""

    task: Expr


class Packet(Choice):
    """A packet, by its address, and the type that this points to."""

    skb: Expr
    struct: Struct


class Thread(Choice):
    """A thread other than the current one, by its id."""

    pid: Expr


def _type_of_task(context: CheckContext, node: Reference) -> Type:
    struct = context.world.find_struct("task_struct")
    return Pointer(struct, KERNEL) if struct is not None else UINT64


def _check_argument(context: CheckContext, node: Call) -> Type | None:
    """The type of a call's only argument."""
    if len(node.args) > 1:
        context.error("arity", convert.no_match(node.name), node)
        return None
    return context.check_value(node.args[0])


def _check_task_call(context: CheckContext, node: Call) -> Type | None:
    type = _check_argument(context, node)
    if type is None:
        return None
    target = type.to if isinstance(type, Pointer) else context.aggregate_of(node.args[0]) or type
    if not isinstance(target, Struct) or target.name != "task_struct":
        first = "group_leader" if node.name.startswith("leader") else "real_parent"
        wrong = f"Struct/union of type '{target}' does not contain a field named '{first}'" \
            if isinstance(target, Struct) else \
            f"Can not access field '{first}' on expression of type '{convert.type_name(target)}'"
        context.error("bad-argument", wrong, node, ["it takes a struct task_struct pointer, such as curtask"])
        return None
    node.choice = Task(node.args[0])
    return type_of(context, context.builtins[node.name], node)


def _check_comm_call(context: CheckContext, node: Call) -> Type | None:
    type = _check_argument(context, node)
    if type is None:
        return None
    if convert.as_int(type) is None or isinstance(type, Bool):
        context.error("bad-argument", "Only integer supported for comm()'s pid", node)
        return None
    if not context.world.has_feature("kfunc_bpf_iter_task_new"):
        context.error("missing-feature", "programs of this kernel cannot look for a process (Linux 6.7)", node,
                      callback_hints(context.world))
        return None
    node.choice = Thread(node.args[0])
    return Str(16)


def _type_of_call(context: CheckContext, node: Reference) -> Type | None:
    world = context.world
    if current_call.knows_call(world.find_struct("pt_regs")) and world.has_feature("helper_task_pt_regs"):
        return INT64
    context.error("missing-feature", f"{node.name} is read from a task's registers, on x86_64 from Linux 5.15 on", node)
    return None


def _namespace(node: Reference) -> str:
    return node.choice.namespace if isinstance(node.choice, Namespace) else ""


def _user_id(lo: Lower, node: Reference) -> Operand:
    return lo.b.extend(lo.b.call(h.UID_GID, [], "uid_gid", pure=True), 32, False)


def _group_id(lo: Lower, node: Reference) -> Operand:
    return lo.b.alu("rsh", lo.b.call(h.UID_GID, [], "uid_gid", pure=True), 32)


def _task(lo: Lower, node: Reference) -> Operand:
    """The task that a call names; by default the current one."""
    return lo.scalar_value(node.choice.task) if isinstance(node.choice, Task) else tasks.current_task(lo)


def _task_number(*path: str) -> Callable[[Lower, Reference], Operand]:
    return lambda lo, node: memory.read_scalar(lo, tasks.task_memory(lo, _task(lo, node), *path), UINT32)


def _check_net_ns_call(context: CheckContext, node: Call) -> Type | None:
    type = _check_argument(context, node)
    target = type.to if isinstance(type, Pointer) else None
    if not isinstance(target, Struct) or target.name != "sk_buff":
        if type is not None:
            context.error("bad-argument", f"net_ns() expects a pointer to a struct sk_buff ({convert.type_name(type)} "
                          "provided)", node, ["cast it: (struct sk_buff *)args.skbaddr"])
        return None
    node.choice = Packet(node.args[0], target)
    return UINT64


def _network_namespace(lo: Lower, node: Reference) -> Operand:
    """That of the current task, 0 of one that is ending; that of a packet's device, of its socket as long as it has no
    device, 0 where there is neither. A kernel without network namespaces has no members for them."""
    if not isinstance(node.choice, Packet):
        task = lo.world.find_struct("task_struct")
        return _namespace_number(lo, tasks.current_task(lo), task, "nsproxy", "net_ns")
    b, skb, struct = lo.b, lo.scalar_value(node.choice.skb), node.choice.struct
    device, number = tasks.read_members(lo, skb, struct, "dev"), b.function.reg("net_ns")
    socket, on = b.block("socket"), b.block("on")
    b.set(number, _namespace_number(lo, skb, struct, "dev", "nd_net", "net"))
    b.branch("jeq", device, 0, socket, on)
    b.start(socket)
    b.set(number, _namespace_number(lo, skb, struct, "sk", "__sk_common", "skc_net", "net"))
    b.jump(on)
    b.start(on)
    return number


def _namespace_number(lo: Lower, address: Operand, struct: Struct | None, *path: str) -> Operand:
    return tasks.read_members(lo, address, struct, *path, "ns", "inum")


def _locate_name(*path: str) -> Callable[[Lower, Reference], Mem | None]:
    """The memory from which the name of the task at the end of the path can be loaded."""
    def locate(lo: Lower, node: Reference) -> Mem | None:
        if isinstance(node.choice, Thread):
            return None
        return tasks.name_memory(lo, _task(lo, node), *path) if path else tasks.comm_memory(lo)
    return locate


def _write_name(*path: str) -> Callable[[Lower, Reference, Mem], None]:
    """Write the name into memory of at least its 16 bytes."""
    def write(lo: Lower, node: Reference, into: Mem) -> None:
        source = _locate_name(*path)(lo, node)
        if isinstance(node.choice, Thread):
            _comm_of(lo, node.choice.pid, into)
        elif source is not None:
            memory.copy_bytes(lo, source, into, 16)
        else:
            # 5.18 to 6.2 do not clear what follows: bpf_get_current_comm() in kernel/bpf/helpers.c used strscpy().
            memory.clear_bytes(lo, into, 16)
            lo.b.call(h.COMM, [lo.operand_address(into), 16], "current_comm")
    return write


def _comm_of(lo: Lower, pid: Expr, into: Mem) -> None:
    """Write the name of the thread with that id. It is found by walking all threads, which every kind of program may do
    only by an iterator."""
    struct = tasks.task_struct(lo)
    number, comm = struct.field("pid"), struct.field("comm")
    assert number is not None and comm is not None
    wanted = lo.b.extend(lo.scalar_value(pid), 32, False)
    memory.clear_bytes(lo, into, 16)
    lo.forget()
    with lo.scope():
        iterator = lo.temp(24, "tasks")  # struct bpf_iter_task
        where = lo.operand_address(iterator)
        lo.b.kfunc(lo.world.kfunc_id("bpf_iter_task_new"), [where, 0, BPF_TASK_ITER_ALL_THREADS], "iter_task_new")
        loop, one, match, done = (lo.b.block(n) for n in ("tasks", "task", "found", "done"))
        lo.b.start(loop)
        task = lo.b.kfunc(lo.world.kfunc_id("bpf_iter_task_next"), [where], "iter_task_next")
        lo.b.branch("jne", task, 0, one, done)
        lo.b.start(one)
        lo.b.branch("jeq", lo.b.load(task, number.offset, 4), wanted, match, loop)
        lo.b.start(match)
        memory.copy_bytes(lo, Mem(task, comm.offset, KERNEL, struct.btf_id), into, 16)
        lo.b.jump(done)
        lo.b.start(done)
        lo.b.kfunc(lo.world.kfunc_id("bpf_iter_task_destroy"), [where], "iter_task_destroy")


def _type_of_membership(context: CheckContext, node: Reference) -> Type:
    if not context.options.is_followed:
        node.const = 0
    return BOOL


def _is_in_family(lo: Lower, node: Reference) -> Operand:
    result = lo.b.function.reg("member")
    lo.b.set(result, 1)
    stranger, member = lo.b.block("stranger"), lo.b.block("member")
    if isinstance(node.choice, Task):
        family.branch_on_task(lo, _task(lo, node), member, stranger)
    else:
        family.branch_on_current(lo, member, stranger)
    lo.b.start(stranger)
    lo.b.set(result, 0)
    lo.b.start(member)
    return result


ROWS = (
    Builtin("pid", UINT32, "Process id, as the PID namespace numbers it that Sonde runs in.",
            call=choice_checker(Namespace, _NAMESPACES), arguments="[curr_ns|init]",
            scalar=lambda lo, node: tasks.process_id(lo, _namespace(node))),
    Builtin("tid", UINT32, "Thread id, as the PID namespace numbers it that Sonde runs in.",
            call=choice_checker(Namespace, _NAMESPACES), arguments="[curr_ns|init]",
            scalar=lambda lo, node: tasks.thread_id(lo, _namespace(node))),
    Builtin("uid", UINT64, "User id of the current task.", scalar=_user_id),
    Builtin("gid", UINT64, "Group id of the current task.", scalar=_group_id),
    Builtin("username", Symbol("username"), "Name of the current user; looked up when printed.", scalar=_user_id),
    Builtin("comm", Str(16), "Name of the current thread, or of the thread with an id.", call=_check_comm_call,
            arguments="[pid]", locate=_locate_name(), text=_write_name()),
    Builtin("ppid", UINT32, "Process id of a task's parent, as the initial PID namespace numbers it.",
            call=_check_task_call, arguments="[task]", scalar=_task_number("real_parent", "tgid")),
    Builtin("pcomm", Str(16), "Name of a task's parent.", call=_check_task_call, arguments="[task]",
            locate=_locate_name("real_parent", "comm"), text=_write_name("real_parent", "comm")),
    Builtin("leader_tid", UINT32, "Thread id of a task's thread group leader.", call=_check_task_call,
            arguments="[task]", scalar=_task_number("group_leader", "pid")),
    Builtin("leader_comm", Str(16), "Name of a task's thread group leader.", call=_check_task_call, arguments="[task]",
            locate=_locate_name("group_leader", "comm"), text=_write_name("group_leader", "comm")),
    Builtin("curtask", _type_of_task, "The current task, a struct task_struct pointer.",
            scalar=lambda lo, node: tasks.current_task(lo)),
    Builtin("in_family", _type_of_membership, "With --follow: whether a task is of the process of -p or -c, or of what "
            "that has started; else false.", call=_check_task_call, arguments="[task]", scalar=_is_in_family),
    Builtin("cgroup", UINT64, "Id of the current task's cgroup (version 2).",
            scalar=helper_caller(h.CGROUP_ID, "cgroup_id")),
    Builtin("syscall_id", _type_of_call, "Number of the system call that the current task is in, an int64 (x86_64); -1 "
            "if it is in none, or in one for 32-bit programs (`int 0x80`).",
            scalar=lambda lo, node: current_call.read_call(lo, "orig_ax", -1)),
    Builtin("syscall_arg0", _type_of_call, "First argument of that system call, an int64; 0 where `syscall_id` is -1.",
            scalar=lambda lo, node: current_call.read_call(lo, "di", 0)),
    Builtin("net_ns", UINT64, "The inode number of a network namespace, as lsns shows it: the current task's, or a "
            "packet's.", call=_check_net_ns_call, arguments="[skb]", scalar=_network_namespace),
)
