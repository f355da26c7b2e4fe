"""Kernel functions that people probe, and tracepoints that see the same events: for kernels that cannot probe
functions."""

from __future__ import annotations

from ..arch import ARCHES
from ..base import regex_cache
from .finder import ProbeFinder

# A function that is often probed → tracepoints that see the same thing, for kernels without kprobes.
SIMILAR = {
    "tcp_connect": "tracepoint:sock:inet_sock_set_state /args.newstate == TCP_SYN_SENT/",
    "tcp_v4_connect": "tracepoint:sock:inet_sock_set_state /args.newstate == TCP_SYN_SENT/",
    "tcp_v6_connect": "tracepoint:sock:inet_sock_set_state /args.newstate == TCP_SYN_SENT/",
    "tcp_set_state": "tracepoint:sock:inet_sock_set_state",
    "inet_csk_accept": "tracepoint:syscalls:sys_exit_accept4",
    "tcp_close": "tracepoint:sock:inet_sock_set_state /args.newstate == TCP_CLOSE/",
    "tcp_sendmsg": "tracepoint:sock:sock_send_length", "udp_sendmsg": "tracepoint:sock:sock_send_length",
    "sock_sendmsg": "tracepoint:sock:sock_send_length", "tcp_recvmsg": "tracepoint:sock:sock_recv_length",
    "tcp_cleanup_rbuf": "tracepoint:sock:sock_recv_length", "udp_recvmsg": "tracepoint:sock:sock_recv_length",
    "sock_recvmsg": "tracepoint:sock:sock_recv_length", "tcp_retransmit_skb": "tracepoint:tcp:tcp_retransmit_skb",
    "tcp_drop": "tracepoint:skb:kfree_skb", "kfree_skb": "tracepoint:skb:kfree_skb",
    "sk_skb_reason_drop": "tracepoint:skb:kfree_skb", "kfree_skb_reason": "tracepoint:skb:kfree_skb",
    "consume_skb": "tracepoint:skb:consume_skb", "tcp_rcv_established": "tracepoint:tcp:tcp_probe",
    "tcp_send_reset": "tracepoint:tcp:tcp_send_reset", "tcp_v4_send_reset": "tracepoint:tcp:tcp_send_reset",
    "tcp_reset": "tracepoint:tcp:tcp_receive_reset",
    "tcp_v4_syn_recv_sock": "tracepoint:sock:inet_sock_set_state /args.newstate == TCP_SYN_RECV/",
    "__netif_receive_skb": "tracepoint:net:netif_receive_skb", "ip_rcv": "tracepoint:net:netif_receive_skb",
    "__udp_enqueue_schedule_skb": "tracepoint:net:netif_receive_skb",
    "__udp4_lib_rcv": "tracepoint:net:netif_receive_skb", "__dev_queue_xmit": "tracepoint:net:net_dev_queue",
    "dev_hard_start_xmit": "tracepoint:net:net_dev_start_xmit", "ip_output": "tracepoint:net:net_dev_queue",
    "inet_bind": "tracepoint:syscalls:sys_exit_bind", "inet_listen": "tracepoint:syscalls:sys_exit_listen",
    "security_socket_connect": "tracepoint:syscalls:sys_enter_connect",
    "security_socket_accept": "tracepoint:syscalls:sys_enter_accept4",
    "vfs_read": "tracepoint:syscalls:sys_enter_read", "vfs_write": "tracepoint:syscalls:sys_enter_write",
    "vfs_open": "tracepoint:syscalls:sys_enter_openat", "do_sys_open": "tracepoint:syscalls:sys_enter_openat",
    "do_sys_openat2": "tracepoint:syscalls:sys_enter_openat", "vfs_fsync": "tracepoint:syscalls:sys_enter_fsync",
    "vfs_unlink": "tracepoint:syscalls:sys_enter_unlinkat",
    "do_nanosleep": "tracepoint:syscalls:sys_enter_clock_nanosleep",
    "hrtimer_nanosleep": "tracepoint:syscalls:sys_enter_clock_nanosleep",
    "try_to_wake_up": "tracepoint:sched:sched_waking", "finish_task_switch": "tracepoint:sched:sched_switch",
    "do_exit": "tracepoint:sched:sched_process_exit", "wake_up_new_task": "tracepoint:sched:sched_wakeup_new",
    "do_syscall_64": "tracepoint:raw_syscalls:sys_enter", "oom_kill_process": "tracepoint:oom:mark_victim",
    "blk_account_io_start": "tracepoint:block:block_io_start", "blk_account_io_done": "tracepoint:block:block_io_done",
    "blk_mq_start_request": "tracepoint:block:block_rq_issue", "submit_bio": "tracepoint:block:block_bio_queue",
    "do_page_fault": "software:page-faults:1", "handle_mm_fault": "software:page-faults:1",
    "kmem_cache_alloc": "tracepoint:kmem:kmem_cache_alloc", "kfree": "tracepoint:kmem:kfree",
    "do_unlinkat": "tracepoint:syscalls:sys_enter_unlinkat", "sched_fork": "tracepoint:sched:sched_process_fork",
}


def similar_probes(finder: ProbeFinder, function: str, returning: bool) -> list[str]:
    """Hints: probes of this kernel that see what a kernel function would show."""
    prefixes = "|".join(row.syscall_prefix for row in ARCHES.values())
    import re
    syscall = re.fullmatch(rf"(?:{prefixes}|(?:__se_|__do_)?[sS]y[sS]_)(\w+)", function)
    known = SIMILAR.get(function)
    if syscall:
        known = f"tracepoint:syscalls:sys_{'exit' if returning else 'enter'}_{syscall.group(1)}"
    elif known and returning:
        known = known.replace("sys_enter_", "sys_exit_")
    if known:
        return [f"{known} sees the same event"]
    core = regex_cache.sub(r"^_+|_nested$|_locked$", "", function).replace("*", "")
    close = finder.nearest_names(core, [e for _, e in finder.tracepoints])
    if not close:
        return ["see the tracepoints of this kernel: sonde -l 'tracepoint:*'"]
    names = [f"tracepoint:{c}:{e}" for c, e in finder.tracepoints if e in close]
    return [f"tracepoints of a like name: {', '.join(names)}"]
