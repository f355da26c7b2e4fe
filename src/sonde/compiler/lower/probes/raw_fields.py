"""Fields of classic tracepoints that are plain copies of their raw tracepoint's arguments.

A row says where a field comes from: ``param`` (the argument itself), ``param:struct.member.member`` (a member of what
it points to, read as that struct), with ``be16`` before it if its bytes are in network order. Fields that the kernel
computes are not listed; a script that uses one of those attaches to the classic tracepoint. The parameters are found by
name in the kernel's BTF and the members in its structs, so a row that does not fit a kernel is not used there;
``tests/live/test_raw_fields.py`` attaches both ways at once and compares. Source: TP_fast_assign in the kernel's
include/trace/events/.
"""

from __future__ import annotations

from ....semantics.world import World
from ....types import KERNEL, Pointer, Scalar, Struct, StructField, Type
from ...ir import Operand
from .. import memory
from ..core import Lower
from ..state import Mem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

RawField: TypeAlias = "Callable[[Lower, StructField], Operand | Mem]"

_INET = "sock.__sk_common"
_ADDRESSES = {"sport": "be16 sk:inet_sock.inet_sport", "dport": f"be16 sk:{_INET}.skc_dport",
              "family": f"sk:{_INET}.skc_family", "saddr": "sk:inet_sock.inet_saddr", "daddr": f"sk:{_INET}.skc_daddr"}
_TASK = {"comm": "p:task_struct.comm", "pid": "p:task_struct.pid", "prio": "p:task_struct.prio"}
_LENGTH = {"sk": "sk", "family": f"sk:{_INET}.skc_family", "protocol": "sk:sock.sk_protocol", "ret": "ret",
           "flags": "flags"}

ROWS: dict[str, dict[str, str]] = {
    "raw_syscalls:sys_enter": {"id": "id"},
    "raw_syscalls:sys_exit": {"ret": "ret"},
    "sched:sched_switch": {
        "prev_comm": "prev:task_struct.comm", "prev_pid": "prev:task_struct.pid", "prev_prio": "prev:task_struct.prio",
        "next_comm": "next:task_struct.comm", "next_pid": "next:task_struct.pid", "next_prio": "next:task_struct.prio"},
    "sched:sched_wakeup": _TASK, "sched:sched_waking": _TASK, "sched:sched_wakeup_new": _TASK,
    "sched:sched_process_exit": _TASK, "sched:sched_process_free": _TASK, "sched:sched_wait_task": _TASK,
    "sched:sched_migrate_task": {**_TASK, "dest_cpu": "dest_cpu"},
    "sched:sched_process_exec": {"pid": "p:task_struct.pid", "old_pid": "old_pid"},
    "sched:sched_process_fork": {"parent_pid": "parent:task_struct.pid", "child_pid": "child:task_struct.pid",
                                 "parent_comm": "parent:task_struct.comm", "child_comm": "child:task_struct.comm"},
    "sched:sched_stat_runtime": {"comm": "tsk:task_struct.comm", "pid": "tsk:task_struct.pid", "runtime": "runtime"},
    "task:task_newtask": {"pid": "task:task_struct.pid", "comm": "task:task_struct.comm", "clone_flags": "clone_flags"},
    "sock:inet_sock_set_state": {"skaddr": "sk", "oldstate": "oldstate", "newstate": "newstate", **_ADDRESSES,
                                 "protocol": "sk:sock.sk_protocol"},
    "sock:sock_send_length": _LENGTH, "sock:sock_recv_length": _LENGTH,
    "tcp:tcp_retransmit_skb": {"skaddr": "sk", "skbaddr": "skb", "state": f"sk:{_INET}.skc_state", **_ADDRESSES,
                               "err": "err"},
    "net:net_dev_queue": {"skbaddr": "skb", "len": "skb:sk_buff.len"},
    "net:netif_receive_skb": {"skbaddr": "skb", "len": "skb:sk_buff.len"},
    "net:netif_rx": {"skbaddr": "skb", "len": "skb:sk_buff.len"},
    "skb:consume_skb": {"skbaddr": "skb", "location": "location"},
    "skb:kfree_skb": {"skbaddr": "skb", "location": "location", "reason": "reason", "rx_sk": "rx_sk",
                      "protocol": "be16 skb:sk_buff.protocol"},
    "irq:softirq_entry": {"vec": "vec_nr"}, "irq:softirq_exit": {"vec": "vec_nr"},
    "irq:softirq_raise": {"vec": "vec_nr"},
    "irq:irq_handler_entry": {"irq": "irq"}, "irq:irq_handler_exit": {"irq": "irq", "ret": "ret"},
    "signal:signal_deliver": {"sig": "sig"}, "signal:signal_generate": {"sig": "sig"},
    "kmem:kfree": {"call_site": "call_site", "ptr": "ptr"},
    "exceptions:page_fault_user": {"address": "address", "error_code": "error_code"},
    "timer:hrtimer_start": {"hrtimer": "hrtimer", "mode": "mode"},
    "timer:hrtimer_cancel": {"hrtimer": "hrtimer"}, "timer:hrtimer_expire_exit": {"hrtimer": "hrtimer"},
}


def raw_fields(world: World, category: str, event: str) -> dict[str, RawField]:
    """The fields that this kernel's raw tracepoint offers, each with its reader."""
    row = ROWS.get(f"{category}:{event}")
    params = world.raw_tracepoint_args(event) if row else None
    format = world.tracepoint_format(category, event) if params is not None else None
    if row is None or params is None or format is None:
        return {}
    fields: dict[str, RawField] = {}
    for name, text in row.items():
        field = format.args.field(name)
        reader = _make_reader(world, params, text) if field is not None and not field.data_loc else None
        if reader is not None:
            fields[name] = reader
    return fields


def _make_reader(world: World, params: Struct, text: str) -> RawField | None:
    """The reader that a row's text describes, for this kernel."""
    swapped = text.startswith("be16 ")
    param, _, path = text.removeprefix("be16 ").partition(":")
    argument = params.field(param)
    if argument is None:
        return None
    if not path:
        return lambda lo, field: _read_argument(lo, argument, field)
    struct, *members = path.split(".")
    root = world.find_struct(struct)
    type: Type | None = root
    offset = 0
    for name in members:
        member = type.field(name) if isinstance(type, Struct) else None
        if member is None or member.bit_size:
            return None
        offset, type = offset + member.offset, member.type
    if root is None or type is None:
        return None
    return lambda lo, field: _read_member(lo, argument, root, offset, type, field, swapped)


def _read_pointer(lo: Lower, argument: StructField) -> Operand:
    return lo.b.load(lo.context_pointer(), argument.offset, 8, pure=True)


def _read_argument(lo: Lower, argument: StructField, field: StructField) -> Operand:
    return lo.normalise(lo.normalise(_read_pointer(lo, argument), argument.type), field.type)


def _read_member(lo: Lower, argument: StructField, root: Struct, offset: int, type: Type, field: StructField,
            swapped: bool) -> Operand | Mem:
    mem = memory.locate_pointee(lo, _read_pointer(lo, argument), Pointer(root, KERNEL)).at(offset)
    if not isinstance(field.type, Scalar):
        return mem
    value = memory.read_scalar(lo, mem, type)
    return lo.normalise(lo.b.swap(value, 16) if swapped and lo.byte_order == "little" else value, field.type)
