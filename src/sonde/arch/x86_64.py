"""x86-64 (System V ABI, AMD64 Architecture Processor Supplement; arch/x86/include of the kernel)."""

from __future__ import annotations

from .row import INTEGER, Arch

_ORDER = str.split("r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di orig_ax ip cs flags sp ss")
_AT = {name: 8 * index for index, name in enumerate(_ORDER)}
_AT["pc"] = _AT["ip"]

# cmp 16(r14),rsp; for larger frames lea -N(rsp),r12 or mov rsp,r12; sub N,r12; jb first. Before 1.17 g is in the TLS:
# mov fs:-8,rcx; cmp 16(rcx),rsp. Then jbe (cmd/internal/obj/x86/obj6.go, stacksplit()).
_GO_CHECK = (r"(?:(?:\x49\x3b\x66\x10|(?:\x4c\x8d\x64\x24.|\x4c\x8d\xa4\x24.{4}|\x49\x89\xe4\x49\x81\xec.{4}"
             r"(?:\x72.|\x0f\x82.{4}))\x4d\x3b\x66\x10)|\x64\x48\x8b\x0c\x25\xf8\xff\xff\xff"
             r"(?:\x48\x3b\x61\x10|\x48\x8d(?:\x44\x24.|\x84\x24.{4})\x48\x3b\x41\x10))(?P<jump>\x76.|\x0f\x86.{4})")

# Written by scripts/gen_syscalls.py.
_SYSCALLS = """
read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn
ioctl pread64 pwrite64 readv writev access pipe select sched_yield mremap msync mincore madvise shmget shmat shmctl
dup dup2 pause nanosleep getitimer alarm setitimer getpid sendfile socket connect accept sendto recvfrom sendmsg
recvmsg shutdown bind listen getsockname getpeername socketpair setsockopt getsockopt clone fork vfork execve exit
wait4 kill uname semget semop semctl shmdt msgget msgsnd msgrcv msgctl fcntl flock fsync fdatasync truncate ftruncate
getdents getcwd chdir fchdir rename mkdir rmdir creat link unlink symlink readlink chmod fchmod chown fchown lchown
umask gettimeofday getrlimit getrusage sysinfo times ptrace getuid syslog getgid setuid setgid geteuid getegid setpgid
getppid getpgrp setsid setreuid setregid getgroups setgroups setresuid getresuid setresgid getresgid getpgid setfsuid
setfsgid getsid capget capset rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigsuspend sigaltstack utime mknod
uselib personality ustat statfs fstatfs sysfs getpriority setpriority sched_setparam sched_getparam sched_setscheduler
sched_getscheduler sched_get_priority_max sched_get_priority_min sched_rr_get_interval mlock munlock mlockall
munlockall vhangup modify_ldt pivot_root _sysctl prctl arch_prctl adjtimex setrlimit chroot sync acct settimeofday
mount umount2 swapon swapoff reboot sethostname setdomainname iopl ioperm create_module init_module delete_module
get_kernel_syms query_module quotactl nfsservctl getpmsg putpmsg afs_syscall tuxcall security gettid readahead
setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr
fremovexattr tkill time futex sched_setaffinity sched_getaffinity set_thread_area io_setup io_destroy io_getevents
io_submit io_cancel get_thread_area lookup_dcookie epoll_create epoll_ctl_old epoll_wait_old remap_file_pages
getdents64 set_tid_address restart_syscall semtimedop fadvise64 timer_create timer_settime timer_gettime
timer_getoverrun timer_delete clock_settime clock_gettime clock_getres clock_nanosleep exit_group epoll_wait epoll_ctl
tgkill utimes vserver mbind set_mempolicy get_mempolicy mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify
mq_getsetattr kexec_load waitid add_key request_key keyctl ioprio_set ioprio_get inotify_init inotify_add_watch
inotify_rm_watch migrate_pages openat mkdirat mknodat fchownat futimesat newfstatat unlinkat renameat linkat symlinkat
readlinkat fchmodat faccessat pselect6 ppoll unshare set_robust_list get_robust_list splice tee sync_file_range
vmsplice move_pages utimensat epoll_pwait signalfd timerfd_create eventfd fallocate timerfd_settime timerfd_gettime
accept4 signalfd4 eventfd2 epoll_create1 dup3 pipe2 inotify_init1 preadv pwritev rt_tgsigqueueinfo perf_event_open
recvmmsg fanotify_init fanotify_mark prlimit64 name_to_handle_at open_by_handle_at clock_adjtime syncfs sendmmsg setns
getcpu process_vm_readv process_vm_writev kcmp finit_module sched_setattr sched_getattr renameat2 seccomp getrandom
memfd_create kexec_file_load bpf execveat userfaultfd membarrier mlock2 copy_file_range preadv2 pwritev2 pkey_mprotect
pkey_alloc pkey_free statx io_pgetevents rseq uretprobe uprobe =424 pidfd_send_signal io_uring_setup io_uring_enter
io_uring_register open_tree move_mount fsopen fsconfig fsmount fspick pidfd_open clone3 close_range openat2
pidfd_getfd faccessat2 process_madvise epoll_pwait2 mount_setattr quotactl_fd landlock_create_ruleset
landlock_add_rule landlock_restrict_self memfd_secret process_mrelease futex_waitv set_mempolicy_home_node cachestat
fchmodat2 map_shadow_stack futex_wake futex_wait futex_requeue statmount listmount lsm_get_self_attr lsm_set_self_attr
lsm_list_modules mseal setxattrat getxattrat listxattrat removexattrat open_tree_attr file_getattr file_setattr listns
"""

ROW = Arch(
    name="x86_64", byte_order="little", elf_machine=62, word=8, indirect_relocation=37, slot_relocations=(6, 7),
    audit=0xC000003E, loader_flags=0x0303,
    objdump="i386:x86-64",
    c_macros=("__x86_64__", "__x86_64", "__amd64__", "__amd64"), aligns_unnamed_bits=False, largest_alignment=16,
    syscalls={"bpf": 321, "perf_event_open": 298, "membarrier": 324, "openat2": 437, "capset": 126, "prctl": 157,
              "recvmsg": 47},
    syscall_names=_SYSCALLS, syscall_prefix="__x64_sys_",
    # Where the kernel function behind a system call, and so its tracepoint, is not called as the call is.
    event_names={"stat": "newstat", "lstat": "newlstat", "fstat": "newfstat", "uname": "newuname",
                 "umount2": "umount", "sendfile": "sendfile64"},
    syscall_arguments=tuple(_AT[n] for n in ("di", "si", "dx", "r10", "r8", "r9")),
    calls_by_address=(), syscall_number=_AT["orig_ax"], syscall_number_size=8,
    compat_flag=(None, 2, True),  # TS_COMPAT (arch/x86/include/asm/thread_info.h)
    compat_state=(_AT["cs"], 0xFFFF, 0x23),  # __USER32_CS (arch/x86/include/asm/segment.h)
    user_state=(_AT["cs"], 3, 3),  # the privilege level
    compat_function="__ia32_compat_sys_ioctl",  # the calls' entry itself is not in the BTF of older kernels
    registers=_AT,
    arguments=tuple(_AT[n] for n in ("di", "si", "dx", "cx", "r8", "r9")),
    return_value=_AT["ax"], stack_pointer=_AT["sp"], instruction_pointer=_AT["ip"], frame_pointer=_AT["bp"],
    link_register=None, stack_arguments=8,  # above the return address
    vector_arguments=8, result_address_first=True, splits_structs=True, sizes_by_value=(),
    pt_regs_size=168,
    go_arguments=tuple(_AT[n] for n in ("ax", "bx", "cx", "di", "si", "r8", "r9", "r10", "r11")),
    go_goroutine=_AT["r14"], go_stack_arguments=8, go_stack_check=_GO_CHECK,
    go_check_taken=(_AT["flags"], 0x41),  # carry, zero
    entry_marker=r"\xf3\x0f\x1e\xfa(?=\x41?[\x50-\x57])",  # endbr64, before a push
    operands=(
        ("constant", rf"\$?(?P<offset>{INTEGER})"),
        ("register", r"%(?P<base>\w+)"),
        # The last two: without a base, a table at a fixed address; without (%rip), by its address.
        ("memory", rf"(?P<offset>{INTEGER})?\(\s*%(?P<base>\w+)\s*"
                   r"(?:,\s*%(?P<index>\w+)\s*(?:,\s*(?P<scale>[1248]))?)?\)"),
        ("memory", rf"(?P<offset>{INTEGER})?\(\s*,\s*%(?P<index>\w+)\s*,\s*(?P<scale>[1248])\)"),
        ("symbol", rf"(?:(?P<before>{INTEGER})\+)?(?P<symbol>[A-Za-z_.][\w.$]*)(?P<offset>{INTEGER})?(?:\(%rip\))?")),
    operand_registers=((r"[re]?([abcd]x|[sd]i|[sb]p|ip)", r"\1", 0), (r"(r(?:[89]|1[0-5]))[dwb]?", r"\1", 0),
                       (r"([abcd])l", r"\1x", 0), (r"([abcd])h", r"\1x", 8), (r"([sd]i|[sb]p)l", r"\1", 0)),
    # figure 3.36
    dwarf_registers=tuple(str.split("ax dx cx bx si di bp sp r8 r9 r10 r11 r12 r13 r14 r15")),
    dwarf_stack_pointer=7, dwarf_frame_pointer=6, dwarf_return=16, dwarf_vectors=range(17, 33),
    frame_to_cfa=16, frame_record=0,  # saved with the return address
    cfa_above_stack=0, unwinds_in_kernel=True,
    least_gap=16, plt_entry=(), plt_jump=0,  # linkers make a table of it
    signal_return=(b"", 0),  # the C library's has a table
    code_address_bits=64,
    instruction_sizes=(), control_flow=(), table_jumps=(), padding=(),
    execute_length=8, watches_reads=False, fentry_since=(5, 5),
    current_task=("current_task", "pcpu_hot"), thread_pointer="fsbase",
    ordered_memory=True)
