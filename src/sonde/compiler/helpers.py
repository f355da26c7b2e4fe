"""Numbers of the kernel helpers that generated code calls, and of their flags and results."""

from __future__ import annotations

from errno import E2BIG as E2BIG

from ..layouts.uapi import BPF_RB_PROD_POS, HELPERS


def _find(names: str) -> list[int]:
    return [HELPERS[name] for name in names.split()]


MAP_LOOKUP, MAP_UPDATE, MAP_DELETE = _find("map_lookup_elem map_update_elem map_delete_elem")
FOR_EACH_MAP, PERCPU_LOOKUP, LOOP = _find("for_each_map_elem map_lookup_percpu_elem loop")
KTIME_NS, BOOT_NS, TAI_NS, JIFFIES = _find("ktime_get_ns ktime_get_boot_ns ktime_get_tai_ns jiffies64")
RANDOM, CPU_ID, NUMA_NODE = _find("get_prandom_u32 get_smp_processor_id get_numa_node_id")
PID_TGID, UID_GID, COMM = _find("get_current_pid_tgid get_current_uid_gid get_current_comm")
TASK, TASK_BTF, TASK_REGISTERS = _find("get_current_task get_current_task_btf task_pt_regs")
CGROUP_ID, NS_PID_TGID, SOCKET_COOKIE = _find("get_current_cgroup_id get_ns_current_pid_tgid get_socket_cookie")
GET_STACK, D_PATH, FUNC_IP, ATTACH_COOKIE = _find("get_stack d_path get_func_ip get_attach_cookie")
FUNC_ARG, FUNC_RET, OVERRIDE_RETURN = _find("get_func_arg get_func_ret override_return")
READ_USER, READ_KERNEL, WRITE_USER = _find("probe_read_user probe_read_kernel probe_write_user")
READ_USER_STR, READ_KERNEL_STR = _find("probe_read_user_str probe_read_kernel_str")
SEND_SIGNAL, SEND_SIGNAL_THREAD = _find("send_signal send_signal_thread")
SEQ_PRINTF, TRACE_PRINTK, TRACE_VPRINTK = _find("seq_printf trace_printk trace_vprintk")
RING_OUTPUT, RING_RESERVE, RING_SUBMIT = _find("ringbuf_output ringbuf_reserve ringbuf_submit")
RING_DISCARD, RING_QUERY = _find("ringbuf_discard ringbuf_query")

RING_PRODUCER_POSITION = BPF_RB_PROD_POS  # flag of RING_QUERY
UPDATE_ANY, UPDATE_NEW, UPDATE_EXIST = 0, 1, 2
USER_STACK = 1 << 8         # flag of GET_STACK
# Bits in the result of MAP_UPDATE and MAP_DELETE: the verifier replaces the call by one of the map's own function,
# which returned an int until Linux 6.4; what that leaves in the upper half of the register is anybody's guess.
MAP_RESULT = 32
