"""The scripts that are measured, and bpftrace's figures for them, measured once with both of its versions.

The scripts are in the dialect that every version of bpftrace accepts. ``PUBLISHED`` is nanoseconds per event by
``kernel.bpf_stats_enabled``, statistics included, of bpftrace 0.17 and 0.26 on one machine (2 cores, Linux 6.18).
"""

from __future__ import annotations

from typing import NamedTuple

GETPPID = "tracepoint:syscalls:sys_enter_getppid"
OPENAT = "tracepoint:syscalls:sys_enter_openat"


class Script(NamedTuple):
    """A row. ``workload``: the arguments of nswork for a round."""

    name: str
    text: str  # BIN stands for the path of nswork
    workload: tuple[str, ...]
    old: float | None  # ns per event of bpftrace 0.17
    new: float | None  # of bpftrace 0.26
    pause: float = 0.0  # seconds after each round, for the reader to catch up

    @property
    def events(self) -> int:
        """Events that a round makes; 0 if that is not known before."""
        return 0 if self.workload[0] == "tcp" else int(self.workload[1])


CALLS = ("getppid", "100000")

SCRIPTS = [
    Script("{ }", f"{GETPPID} {{ }}", CALLS, 53, 52),
    Script("@ = count()", f"{GETPPID} {{ @ = count(); }}", CALLS, 78, 80),
    Script("@[comm] = count()", f"{GETPPID} {{ @[comm] = count(); }}", CALLS, 197, 115),
    Script("@[pid, comm] = count()", f"{GETPPID} {{ @[pid, comm] = count(); }}", CALLS, 205, 122),
    Script('/comm == "nothere"/', f'{GETPPID} /comm == "nothere"/ {{ @ = count(); }}', CALLS, 90, 87),
    Script("@ = hist(n)", f"{GETPPID} {{ @ = hist(nsecs & 0xffff); }}", CALLS, 195, 116),
    Script("@[comm] = hist(n)", f"{GETPPID} {{ @[comm] = hist(nsecs & 0xffff); }}", CALLS, 244, 165),
    Script("@ = lhist(n, 0, 256, 8)", f"{GETPPID} {{ @ = lhist(nsecs & 0xff, 0, 256, 8); }}", CALLS, 232, 116),
    Script("@[pid] = stats(n)", f"{GETPPID} {{ @[pid] = stats(nsecs & 0xff); }}", CALLS, 313, 127),
    Script(
        "enter and exit: latency hist",
        f"{GETPPID} {{ @s[tid] = nsecs; }}"
        " tracepoint:syscalls:sys_exit_getppid /@s[tid]/ { @ns = hist(nsecs - @s[tid]); delete(@s[tid]); }",
        CALLS, 271, 233,
    ),
    Script("@[kstack] = count()", f"{GETPPID} {{ @[kstack] = count(); }}", ("getppid", "40000"), 1433, 1598),
    Script(
        "@[str(args.filename)] = count()",
        f'{OPENAT} /comm == "nswork"/ {{ @[str(args->filename)] = count(); }}', ("openat", "40000"), None, 571,
    ),
    Script(
        "printf of three values",
        f'{GETPPID} /comm == "nswork"/ {{ printf("%d %s %llu\\n", pid, comm, nsecs); }}',
        ("getppid", "2000"), None, 275, 0.05,  # 0.17: 7075, nearly all of it waking the reader; it scales nothing
    ),
    Script(
        "printf with a string",
        f'{OPENAT} /comm == "nswork"/ {{ printf("%d %s %s\\n", pid, comm, str(args->filename)); }}',
        ("openat", "1000"), None, 1593, 0.05,
    ),
    Script(
        "uprobe: @[str(arg0)] = hist(arg1)", "uprobe:BIN:f { @[str(arg0)] = hist(arg1); }",
        ("call", "40000"), 409, 714,
    ),
    Script(
        "raw inet_sock_set_state: three walks",
        "rawtracepoint:inet_sock_set_state { $sk = (struct sock *)arg0; @[$sk->__sk_common.skc_num,"
        " $sk->__sk_common.skc_daddr, $sk->__sk_common.skc_family] = count(); }",
        ("tcp", "1000"), None, 266,
    ),
    Script(
        "curtask: three walks",
        f"{GETPPID} {{ $t = (struct task_struct *)curtask; @[$t->real_parent->pid, $t->group_leader->start_time,"
        " (uint64)$t->mm->pgd] = count(); }",
        CALLS, 310, 231,
    ),
]  # fmt: skip

FOUR_PROBES = (
    "tracepoint:syscalls:sys_enter_read { @s[tid] = nsecs; @calls[comm] = count(); }"
    " tracepoint:syscalls:sys_exit_read /@s[tid]/ { @ns[comm] = hist(nsecs - @s[tid]); delete(@s[tid]); }"
    " tracepoint:sched:sched_switch { @switches = count(); }"
    ' interval:ms:10 { printf("%d\\n", 1); clear(@s); exit(); }'
)

# figure -> (bpftrace 0.17, bpftrace 0.26, the target of Sonde's own), in the unit of the figure, on the machine above
ANCHORS = {
    "start wall s": (0.25, 0.37, 0.15),
    "start cpu s": (0.04, 0.15, 0.10),
    "start memory MiB": (88, 160, 40),
    "four probes wall s": (0.60, 0.63, 0.30),
    "drain cpu s": (1.30, 0.92, 0.9),
    "129 tracepoints wall s": (12.2, 11.8, 1.6),
    "empty probe ns": (None, 235, 150),
}
