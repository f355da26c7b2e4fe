"""Constants of the kernel's user-space interface: bpf(2), perf_event_open(2), BPF ring buffers.

The numbers are ABI (include/uapi/linux/bpf.h, perf_event.h) and the same on every architecture and release.
"""

from __future__ import annotations

# bpf(2) commands
BPF_MAP_CREATE = 0
BPF_MAP_LOOKUP_ELEM = 1
BPF_MAP_UPDATE_ELEM = 2
BPF_MAP_DELETE_ELEM = 3
BPF_MAP_GET_NEXT_KEY = 4
BPF_PROG_LOAD = 5
BPF_OBJ_PIN = 6
BPF_PROG_TEST_RUN = 10
BPF_PROG_GET_NEXT_ID = 11
BPF_MAP_GET_NEXT_ID = 12
BPF_PROG_GET_FD_BY_ID = 13
BPF_MAP_GET_FD_BY_ID = 14
BPF_OBJ_GET_INFO_BY_FD = 15
BPF_RAW_TRACEPOINT_OPEN = 17
BPF_BTF_LOAD = 18
BPF_BTF_GET_FD_BY_ID = 19
BPF_BTF_GET_NEXT_ID = 23
BPF_MAP_LOOKUP_AND_DELETE_ELEM = 21
BPF_MAP_FREEZE = 22
BPF_MAP_LOOKUP_BATCH = 24
BPF_MAP_LOOKUP_AND_DELETE_BATCH = 25
BPF_LINK_CREATE = 28
BPF_ENABLE_STATS = 32
BPF_ITER_CREATE = 33

BPF_STATS_RUN_TIME = 0

MAP_TYPES = {
    "hash": 1, "array": 2, "prog_array": 3, "perf_event_array": 4, "percpu_hash": 5, "percpu_array": 6,
    "stack_trace": 7, "cgroup_array": 8, "lru_hash": 9, "lru_percpu_hash": 10, "ringbuf": 27, "task_storage": 29,
}

PROG_TYPES = {
    "socket_filter": 1, "kprobe": 2, "tracepoint": 5, "perf_event": 7, "raw_tracepoint": 17, "tracing": 26,
    "syscall": 31,
}

# Names of the types of programs by number, as in enum bpf_prog_type.
PROG_TYPE_NAMES = str.split("""
unspec socket_filter kprobe sched_cls sched_act tracepoint xdp perf_event cgroup_skb cgroup_sock lwt_in lwt_out lwt_xmit
sock_ops sk_skb cgroup_device sk_msg raw_tracepoint cgroup_sock_addr lwt_seg6local lirc_mode2 sk_reuseport
flow_dissector cgroup_sysctl raw_tracepoint_writable cgroup_sockopt tracing struct_ops ext lsm sk_lookup syscall
netfilter
""")

# flags of maps and of updates
BPF_EXIST = 2
BPF_F_NO_PREALLOC = 1 << 0
BPF_F_RDONLY_PROG = 1 << 7
BPF_F_MMAPABLE = 1 << 10

# flags of programs
BPF_LOG_LEVEL1, BPF_LOG_STATS = 1, 4  # what a verifier's log has: each instruction, or the outcome alone
BPF_F_TEST_RUN_ON_CPU = 1 << 0

# expected_attach_type, and attach types of links
BPF_F_SLEEPABLE = 1 << 4
BPF_TRACE_FENTRY = 24
BPF_TRACE_FEXIT = 25
BPF_TRACE_ITER = 28
BPF_TASK_ITER_ALL_PROCS, BPF_TASK_ITER_ALL_THREADS, BPF_TASK_ITER_PROC_THREADS = range(3)  # kernel/bpf/task_iter.c
BPF_PERF_EVENT = 41
BPF_TRACE_KPROBE_MULTI = 42
BPF_TRACE_UPROBE_MULTI = 48
BPF_TRACE_KPROBE_SESSION = 56
BPF_TRACE_FENTRY_MULTI = 59
BPF_TRACE_FEXIT_MULTI = 60

ITERATORS_OF_ONE = ("bpf_map_elem", "bpf_sk_storage_map", "sockmap", "cgroup")  # need a map or cgroup to go over

BPF_LINK_TYPE_PERF_EVENT = 7
BPF_LINK_TYPE_KPROBE_MULTI = 8

BPF_F_UPROBE_MULTI_RETURN = 1 << 0
BPF_F_KPROBE_MULTI_RETURN = 1 << 0

# source register of a 16-byte load: what its immediate means
BPF_PSEUDO_MAP_FD = 1
BPF_PSEUDO_MAP_VALUE = 2

BPF_OBJ_NAME_LEN = 16
BPF_MAX_RAW_TP_CONTEXT = 12 * 8  # bytes of context of a raw tracepoint program: MAX_BPF_FUNC_ARGS words

# ring buffer
BPF_RINGBUF_BUSY_BIT = 1 << 31
BPF_RINGBUF_DISCARD_BIT = 1 << 30
BPF_RB_PROD_POS = 3

# perf_event_open(2)
PERF_TYPE_HARDWARE = 0
PERF_TYPE_SOFTWARE = 1
PERF_TYPE_TRACEPOINT = 2
PERF_TYPE_BREAKPOINT = 5

PERF_COUNT_SW_CPU_CLOCK = 0

SOFTWARE_EVENTS = {
    "cpu-clock": 0, "task-clock": 1, "page-faults": 2, "context-switches": 3, "cpu-migrations": 4,
    "minor-faults": 5, "major-faults": 6, "alignment-faults": 7, "emulation-faults": 8, "dummy": 9, "bpf-output": 10,
    "cgroup-switches": 11, "cpu": 0, "faults": 2, "cs": 3,
}

HARDWARE_EVENTS = {
    "cpu-cycles": 0, "instructions": 1, "cache-references": 2, "cache-misses": 3, "branch-instructions": 4,
    "branch-misses": 5, "bus-cycles": 6, "frontend-stalls": 7, "backend-stalls": 8, "ref-cycles": 9,
    "cycles": 0, "branches": 4,
}

PERF_FLAG_FD_CLOEXEC = 8

# bits of perf_event_attr's flag word
PERF_ATTR_DISABLED = 1 << 0
PERF_ATTR_INHERIT = 1 << 1
PERF_ATTR_FREQ = 1 << 10
PERF_ATTR_INHERIT_THREAD = 1 << 35  # Linux 5.13

PERF_EVENT_IOC_ENABLE = 0x2400
PERF_EVENT_IOC_SET_BPF = 0x40042408

ENOTSUPP = 524  # the kernel's own "not supported"; never meant for user space, but bpf(2) returns it

# Names of the helper functions by number, as in enum bpf_func_id.
_HELPER_NAMES = str.split("""
unspec map_lookup_elem map_update_elem map_delete_elem probe_read ktime_get_ns trace_printk get_prandom_u32
get_smp_processor_id skb_store_bytes l3_csum_replace l4_csum_replace tail_call clone_redirect get_current_pid_tgid
get_current_uid_gid get_current_comm get_cgroup_classid skb_vlan_push skb_vlan_pop skb_get_tunnel_key
skb_set_tunnel_key perf_event_read redirect get_route_realm perf_event_output skb_load_bytes get_stackid csum_diff
skb_get_tunnel_opt skb_set_tunnel_opt skb_change_proto skb_change_type skb_under_cgroup get_hash_recalc
get_current_task probe_write_user current_task_under_cgroup skb_change_tail skb_pull_data csum_update
set_hash_invalid get_numa_node_id skb_change_head xdp_adjust_head probe_read_str get_socket_cookie get_socket_uid
set_hash setsockopt skb_adjust_room redirect_map sk_redirect_map sock_map_update xdp_adjust_meta
perf_event_read_value perf_prog_read_value getsockopt override_return sock_ops_cb_flags_set msg_redirect_map
msg_apply_bytes msg_cork_bytes msg_pull_data bind xdp_adjust_tail skb_get_xfrm_state get_stack
skb_load_bytes_relative fib_lookup sock_hash_update msg_redirect_hash sk_redirect_hash lwt_push_encap
lwt_seg6_store_bytes lwt_seg6_adjust_srh lwt_seg6_action rc_repeat rc_keydown skb_cgroup_id get_current_cgroup_id
get_local_storage sk_select_reuseport skb_ancestor_cgroup_id sk_lookup_tcp sk_lookup_udp sk_release map_push_elem
map_pop_elem map_peek_elem msg_push_data msg_pop_data rc_pointer_rel spin_lock spin_unlock sk_fullsock tcp_sock
skb_ecn_set_ce get_listener_sock skc_lookup_tcp tcp_check_syncookie sysctl_get_name sysctl_get_current_value
sysctl_get_new_value sysctl_set_new_value strtol strtoul sk_storage_get sk_storage_delete send_signal
tcp_gen_syncookie skb_output probe_read_user probe_read_kernel probe_read_user_str probe_read_kernel_str
tcp_send_ack send_signal_thread jiffies64 read_branch_records get_ns_current_pid_tgid xdp_output get_netns_cookie
get_current_ancestor_cgroup_id sk_assign ktime_get_boot_ns seq_printf seq_write sk_cgroup_id sk_ancestor_cgroup_id
ringbuf_output ringbuf_reserve ringbuf_submit ringbuf_discard ringbuf_query csum_level skc_to_tcp6_sock
skc_to_tcp_sock skc_to_tcp_timewait_sock skc_to_tcp_request_sock skc_to_udp6_sock get_task_stack load_hdr_opt
store_hdr_opt reserve_hdr_opt inode_storage_get inode_storage_delete d_path copy_from_user snprintf_btf
seq_printf_btf skb_cgroup_classid redirect_neigh per_cpu_ptr this_cpu_ptr redirect_peer task_storage_get
task_storage_delete get_current_task_btf bprm_opts_set ktime_get_coarse_ns ima_inode_hash sock_from_file check_mtu
for_each_map_elem snprintf sys_bpf btf_find_by_name_kind sys_close timer_init timer_set_callback timer_start
timer_cancel get_func_ip get_attach_cookie task_pt_regs get_branch_snapshot trace_vprintk skc_to_unix_sock
kallsyms_lookup_name find_vma loop strncmp get_func_arg get_func_ret get_func_arg_cnt get_retval set_retval
xdp_get_buff_len xdp_load_bytes xdp_store_bytes copy_from_user_task skb_set_tstamp ima_file_hash kptr_xchg
map_lookup_percpu_elem skc_to_mptcp_sock dynptr_from_mem ringbuf_reserve_dynptr ringbuf_submit_dynptr
ringbuf_discard_dynptr dynptr_read dynptr_write dynptr_data tcp_raw_gen_syncookie_ipv4 tcp_raw_gen_syncookie_ipv6
tcp_raw_check_syncookie_ipv4 tcp_raw_check_syncookie_ipv6 ktime_get_tai_ns user_ringbuf_drain cgrp_storage_get
cgrp_storage_delete
""")

HELPERS = {name: number for number, name in enumerate(_HELPER_NAMES)}


def is_left_out(function: str) -> bool:
    """Whether patterns leave out a kernel function, as bpftrace has it: what runs while a probe is entered or left (as
    skip_entry() in tools/testing/selftests/bpf/trace_helpers.c), and pieces that the compiler cut off a function."""
    return function.startswith("rcu_") or ".part." in function or \
        function in ("arch_cpu_idle", "default_idle", "bpf_dispatcher_xdp_func")
