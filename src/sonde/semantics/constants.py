"""Numbers that C programs know as macros, which BTF cannot hold.

Most come from Python's modules, by how their names begin (``AF_INET``: ``socket``, ``EPOLLIN``: ``select``); each is
imported only when a script uses such a name. The rest is here, each with its header.
"""

from __future__ import annotations

from ..layouts.c_library_texts import list_texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_TABLE: dict[str, int] = {
    # include/uapi/linux/if_ether.h
    "ETH_ALEN": 6, "ETH_HLEN": 14, "ETH_DATA_LEN": 1500, "ETH_FRAME_LEN": 1514,
    "ETH_P_LOOP": 0x60, "ETH_P_IP": 0x800, "ETH_P_ARP": 0x806, "ETH_P_RARP": 0x8035, "ETH_P_8021Q": 0x8100,
    "ETH_P_IPV6": 0x86DD, "ETH_P_PAUSE": 0x8808, "ETH_P_MPLS_UC": 0x8847, "ETH_P_PPP_SES": 0x8864,
    "ETH_P_PAE": 0x888E, "ETH_P_8021AD": 0x88A8, "ETH_P_LLDP": 0x88CC, "ETH_P_ALL": 3,
    # include/uapi/linux/icmp.h, icmpv6.h; RFC 4861
    "ICMP_ECHOREPLY": 0, "ICMP_DEST_UNREACH": 3, "ICMP_SOURCE_QUENCH": 4, "ICMP_REDIRECT": 5, "ICMP_ECHO": 8,
    "ICMP_TIME_EXCEEDED": 11, "ICMP_PARAMETERPROB": 12, "ICMP_TIMESTAMP": 13, "ICMP_TIMESTAMPREPLY": 14,
    "ICMPV6_DEST_UNREACH": 1, "ICMPV6_PKT_TOOBIG": 2, "ICMPV6_TIME_EXCEED": 3, "ICMPV6_PARAMPROB": 4,
    "ICMPV6_ECHO_REQUEST": 128, "ICMPV6_ECHO_REPLY": 129, "NDISC_ROUTER_SOLICITATION": 133,
    "NDISC_ROUTER_ADVERTISEMENT": 134, "NDISC_NEIGHBOUR_SOLICITATION": 135, "NDISC_NEIGHBOUR_ADVERTISEMENT": 136,
    # include/uapi/linux/neighbour.h
    "NUD_INCOMPLETE": 1, "NUD_REACHABLE": 2, "NUD_STALE": 4, "NUD_DELAY": 8, "NUD_PROBE": 16, "NUD_FAILED": 32,
    "NUD_NOARP": 64, "NUD_PERMANENT": 128, "NUD_NONE": 0,
    # include/uapi/linux/if_arp.h
    "ARPOP_REQUEST": 1, "ARPOP_REPLY": 2, "ARPHRD_ETHER": 1, "ARPHRD_LOOPBACK": 772, "ARPHRD_NONE": 0xFFFE,
    # include/net/tcp.h, tcp_states.h; include/net/inet_ecn.h
    "TCP_ESTABLISHED": 1, "TCP_SYN_SENT": 2, "TCP_SYN_RECV": 3, "TCP_FIN_WAIT1": 4, "TCP_FIN_WAIT2": 5,
    "TCP_TIME_WAIT": 6, "TCP_CLOSE": 7, "TCP_CLOSE_WAIT": 8, "TCP_LAST_ACK": 9, "TCP_LISTEN": 10, "TCP_CLOSING": 11,
    "TCP_NEW_SYN_RECV": 12, "TCPHDR_FIN": 1, "TCPHDR_SYN": 2, "TCPHDR_RST": 4, "TCPHDR_PSH": 8, "TCPHDR_ACK": 16,
    "TCPHDR_URG": 32, "TCPHDR_ECE": 64, "TCPHDR_CWR": 128, "TCP_CA_Open": 0, "TCP_CA_Disorder": 1, "TCP_CA_CWR": 2,
    "TCP_CA_Recovery": 3, "TCP_CA_Loss": 4,
    "INET_ECN_NOT_ECT": 0, "INET_ECN_ECT_1": 1, "INET_ECN_ECT_0": 2, "INET_ECN_CE": 3, "INET_ECN_MASK": 3,
    # include/net/sock.h
    "SK_MEM_SEND": 0, "SK_MEM_RECV": 1,
    # include/linux/netdevice.h
    "IFNAMSIZ": 16, "NETDEV_TX_OK": 0, "NETDEV_TX_BUSY": 16, "__QUEUE_STATE_DRV_XOFF": 0,
    "__QUEUE_STATE_STACK_XOFF": 1, "__QUEUE_STATE_FROZEN": 2,
    # include/linux/sched.h; include/linux/kdev_t.h
    "TASK_RUNNING": 0, "TASK_INTERRUPTIBLE": 1, "TASK_UNINTERRUPTIBLE": 2, "__TASK_STOPPED": 4, "__TASK_TRACED": 8,
    "TASK_COMM_LEN": 16, "PF_KTHREAD": 0x00200000, "PF_EXITING": 4, "MINORBITS": 20, "MINORMASK": 0xFFFFF,
    "PAGE_SIZE": 4096, "PAGE_SHIFT": 12, "PATH_MAX": 4096, "NAME_MAX": 255,
    # include/linux/compiler_types.h and friends
    "true": 1, "false": 0, "NULL": 0,
    "INT_MAX": 0x7FFFFFFF, "INT_MIN": -0x80000000, "UINT_MAX": 0xFFFFFFFF, "LONG_MAX": (1 << 63) - 1,
    "ULONG_MAX": (1 << 64) - 1, "S32_MAX": 0x7FFFFFFF, "U32_MAX": 0xFFFFFFFF, "U16_MAX": 0xFFFF, "U8_MAX": 0xFF,
    "S64_MAX": (1 << 63) - 1, "U64_MAX": (1 << 64) - 1, "INT64_MAX": (1 << 63) - 1, "UINT64_MAX": (1 << 64) - 1,
    # include/uapi/linux/in.h, include/linux/socket.h: what Python's socket may lack
    "IPPROTO_ICMPV6": 58, "IPPROTO_UDPLITE": 136, "IPPROTO_SCTP": 132, "IPPROTO_MPTCP": 262, "SOL_SOCKET": 1,
    "SCM_RIGHTS": 1, "SCM_CREDENTIALS": 2, "AF_UNSPEC": 0, "AF_UNIX": 1, "AF_LOCAL": 1, "AF_INET": 2, "AF_INET6": 10,
    "AF_NETLINK": 16, "AF_PACKET": 17, "AF_BLUETOOTH": 31, "AF_ALG": 38, "AF_VSOCK": 40, "AF_XDP": 44,
    "SS_FREE": 0, "SS_UNCONNECTED": 1, "SS_CONNECTING": 2, "SS_CONNECTED": 3, "SS_DISCONNECTING": 4,
    # include/linux/errno.h
    "ERESTARTSYS": 512, "ERESTARTNOINTR": 513, "ERESTARTNOHAND": 514, "ENOIOCTLCMD": 515, "EPROBE_DEFER": 517,
    # include/uapi/linux/fcntl.h, futex.h, wait.h, mman.h
    "AT_FDCWD": -100, "CLONE_VM": 0x100, "CLONE_FS": 0x200, "CLONE_FILES": 0x400, "CLONE_THREAD": 0x10000,
    "CLONE_NEWNS": 0x20000, "CLONE_NEWNET": 0x40000000, "CLONE_NEWPID": 0x20000000, "CLONE_NEWUSER": 0x10000000,
    "FUTEX_PRIVATE_FLAG": 128, "FUTEX_CLOCK_REALTIME": 256, "FUTEX_CMD_MASK": -385,
    "MAP_FIXED": 16, "MAP_FIXED_NOREPLACE": 0x100000, "MS_ASYNC": 1, "MS_INVALIDATE": 2, "MS_SYNC": 4,
    # signal.h, unistd.h, sys/epoll.h, sys/stat.h, time.h, limits.h, sys/timerfd.h, dirent.h
    "SA_NOCLDSTOP": 1, "SA_NOCLDWAIT": 2, "SA_SIGINFO": 4, "SA_ONSTACK": 0x08000000, "SA_RESTART": 0x10000000,
    "SA_NODEFER": 0x40000000, "SA_RESETHAND": 0x80000000, "STDIN_FILENO": 0, "STDOUT_FILENO": 1, "STDERR_FILENO": 2,
    "EPOLL_CTL_ADD": 1, "EPOLL_CTL_DEL": 2, "EPOLL_CTL_MOD": 3, "S_IFMT": 0o170000, "CLOCKS_PER_SEC": 1000000,
    "DT_UNKNOWN": 0, "DT_FIFO": 1, "DT_CHR": 2, "DT_DIR": 4, "DT_BLK": 6, "DT_REG": 8, "DT_LNK": 10, "DT_SOCK": 12,
    "DT_WHT": 14,
    "CHAR_BIT": 8, "TFD_NONBLOCK": 0o4000, "TFD_CLOEXEC": 0o2000000,
    # include/uapi/linux/mount.h
    "MS_RDONLY": 1, "MS_NOSUID": 2, "MS_NODEV": 4, "MS_NOEXEC": 8, "MS_SYNCHRONOUS": 16, "MS_REMOUNT": 32,
    "MS_NOATIME": 1024, "MS_NODIRATIME": 2048, "MS_BIND": 4096, "MS_MOVE": 8192, "MS_REC": 16384, "MS_SILENT": 32768,
    "MS_UNBINDABLE": 1 << 17, "MS_PRIVATE": 1 << 18, "MS_SLAVE": 1 << 19, "MS_SHARED": 1 << 20, "MS_RELATIME": 1 << 21,
    "MNT_FORCE": 1, "MNT_DETACH": 2, "MNT_EXPIRE": 4,
    # include/uapi/linux/inotify.h
    "IN_ACCESS": 1, "IN_MODIFY": 2, "IN_ATTRIB": 4, "IN_CLOSE_WRITE": 8, "IN_CLOSE_NOWRITE": 16, "IN_OPEN": 32,
    "IN_MOVED_FROM": 64, "IN_MOVED_TO": 128, "IN_CREATE": 256, "IN_DELETE": 512, "IN_DELETE_SELF": 1024,
    "IN_MOVE_SELF": 2048,
    # include/uapi/linux/ptrace.h, prctl.h
    "PTRACE_TRACEME": 0, "PTRACE_PEEKTEXT": 1, "PTRACE_PEEKDATA": 2, "PTRACE_POKETEXT": 4, "PTRACE_POKEDATA": 5,
    "PTRACE_CONT": 7, "PTRACE_KILL": 8, "PTRACE_SINGLESTEP": 9, "PTRACE_ATTACH": 16, "PTRACE_DETACH": 17,
    "PTRACE_SYSCALL": 24, "PTRACE_SETOPTIONS": 0x4200, "PTRACE_SEIZE": 0x4206,
    "PR_SET_PDEATHSIG": 1, "PR_GET_DUMPABLE": 3, "PR_SET_DUMPABLE": 4, "PR_SET_NAME": 15, "PR_GET_NAME": 16,
    "PR_SET_SECCOMP": 22, "PR_SET_MM": 35, "PR_SET_CHILD_SUBREAPER": 36, "PR_SET_NO_NEW_PRIVS": 38,
    # include/uapi/linux/netlink.h
    "NETLINK_ROUTE": 0, "NETLINK_SOCK_DIAG": 4, "NETLINK_XFRM": 6, "NETLINK_AUDIT": 9, "NETLINK_CONNECTOR": 11,
    "NETLINK_NETFILTER": 12, "NETLINK_KOBJECT_UEVENT": 15, "NETLINK_GENERIC": 16, "NLM_F_REQUEST": 1, "NLM_F_MULTI": 2,
    "NLM_F_ACK": 4, "NLM_F_DUMP": 0x300,
    # include/uapi/linux/magic.h
    "EXT4_SUPER_MAGIC": 0xEF53, "TMPFS_MAGIC": 0x01021994, "PROC_SUPER_MAGIC": 0x9FA0, "SYSFS_MAGIC": 0x62656572,
    "XFS_SUPER_MAGIC": 0x58465342, "BTRFS_SUPER_MAGIC": 0x9123683E, "NFS_SUPER_MAGIC": 0x6969,
    "OVERLAYFS_SUPER_MAGIC": 0x794C7630, "CGROUP2_SUPER_MAGIC": 0x63677270,
    # include/linux/blk_types.h: request flags that old scripts spell out
    "REQ_OP_READ": 0, "REQ_OP_WRITE": 1, "REQ_OP_FLUSH": 2, "REQ_OP_DISCARD": 3, "REQ_OP_BITS": 8,
    "REQ_OP_MASK": 255,
}

_IN_ORDER = {  # from 0
    # include/uapi/linux/capability.h
    "CAP_": "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE "
            "NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT "
            "SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE "
            "AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ "
            "PERFMON BPF CHECKPOINT_RESTORE",
    # include/uapi/linux/futex.h
    "FUTEX_": "WAIT WAKE FD REQUEUE CMP_REQUEUE WAKE_OP LOCK_PI UNLOCK_PI TRYLOCK_PI WAIT_BITSET WAKE_BITSET "
              "WAIT_REQUEUE_PI CMP_REQUEUE_PI LOCK_PI2",
}
_MODULES = {  # of Python, and how the names begin that they have
    "socket": ("AF_", "SOCK_", "IPPROTO_", "SOL_", "SO_", "TCP_", "IP_", "IPV6_", "MSG_", "SHUT_", "INADDR_"),
    "signal": ("SIG", "ITIMER_"),
    "stat": ("S_I",),
    "os": ("O_", "R_OK", "W_OK", "X_OK", "F_OK", "SEEK_", "SCHED_", "WNOHANG", "WUNTRACED", "WCONTINUED", "WEXITED",
           "P_", "PRIO_", "RTLD_", "EFD_", "GRND_", "MFD_", "SPLICE_F_", "POSIX_FADV_", "XATTR_"),
    "fcntl": ("F_", "LOCK_", "FD_"),
    "select": ("EPOLL", "POLL"),
    "mmap": ("PROT_", "MAP_", "MADV_"),
    "resource": ("RLIMIT_", "RUSAGE_"),
    "time": ("CLOCK_",),
    "termios": ("TIOC", "FION"),
    "errno": ("E",),
}
_HANDLERS = ("SIG_DFL", "SIG_IGN")  # pointers
_SYSCALL = ("__NR_", "SYS_")


def macro_constant(name: str, syscall: object = None) -> int | None:
    """The value of a C macro; None if it is not known. ``syscall`` maps a system call's name to its number
    (``__NR_read``)."""
    value = _TABLE.get(name)
    if value is not None:
        return value
    prefix, _, rest = name.partition("_")
    order = _IN_ORDER.get(f"{prefix}_", "").split()
    if rest in order:
        return order.index(rest)
    if name.startswith("PF_"):
        name = "AF_" + name[3:]
    if name.startswith(_SYSCALL) and callable(syscall):
        return _plain_integer(syscall(name.split("_", 3)[-1] if name.startswith("__NR_") else name[4:]))
    for module, prefixes in _MODULES.items():
        if name.startswith(prefixes) and name.isupper() and name not in _HANDLERS:
            number = _plain_integer(getattr(__import__(module), name, None))
            if number is not None:
                return number
    return None


def _plain_integer(value: object) -> int | None:
    """Plain int of a constant (``socket.AF_INET`` is an IntEnum)."""
    return int(value) if isinstance(value, int) else None


def signal_number(name: str) -> int | None:
    """``KILL``, ``SIGKILL`` or ``kill`` → 9."""
    name = "SIG" + name.upper().removeprefix("SIG")
    return None if name.startswith("SIG_") else macro_constant(name)  # SIG_BLOCK is no signal


NO_NUMBER = 1 << 62  # of what has no such name


def number_called(function: str, text: str, arch: str, syscall_number: Callable[[str], int | None]) -> int:
    """The number of the system call, signal or error with this name."""
    if function == "syscall_name":
        number = syscall_number(text)
        return NO_NUMBER if number is None else number
    texts = list_texts(function, arch)
    return texts.index(text) if text in texts[:-1] else NO_NUMBER
