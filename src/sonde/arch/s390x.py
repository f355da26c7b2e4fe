"""IBM Z, 64 bits (ELF Application Binary Interface s390x Supplement; arch/s390/include of the kernel).

``struct pt_regs`` begins with ``struct user_pt_regs {args[1], psw, gprs[16]}`` (uapi/asm/ptrace.h), then the kernel's
orig_gpr2 and int_code, whose lower half is a system call's number.
"""

from __future__ import annotations

from .row import INTEGER, Arch

_AT = {"arg": 0, "pswmask": 8, "pswaddr": 16, **{f"r{index}": 24 + 8 * index for index in range(16)}, "orig_gpr2": 152}
_AT |= {"pc": _AT["pswaddr"], "fp": _AT["r11"], "lr": _AT["r14"], "sp": _AT["r15"]}

# Written by scripts/gen_syscalls.py.
_SYSCALLS = """
=1 exit fork read write open close restart_syscall creat link unlink execve chdir =14 mknod chmod =19 lseek getpid
mount umount =26 ptrace alarm =29 pause utime =33 access nice =36 sync kill rename mkdir rmdir dup pipe times =45 brk
=48 signal =51 acct umount2 =54 ioctl fcntl =57 setpgid =60 umask chroot ustat dup2 getppid getpgrp setsid sigaction
=72 sigsuspend sigpending sethostname setrlimit =77 getrusage gettimeofday settimeofday =83 symlink =85 readlink
uselib swapon reboot readdir mmap munmap truncate ftruncate fchmod =96 getpriority setpriority =99 statfs fstatfs =102
socketcall syslog setitimer getitimer stat lstat fstat =110 lookup_dcookie vhangup idle =114 wait4 swapoff sysinfo ipc
fsync sigreturn clone setdomainname uname =124 adjtimex mprotect sigprocmask create_module init_module delete_module
get_kernel_syms quotactl getpgid fchdir bdflush sysfs personality afs_syscall =141 getdents select flock msync readv
writev getsid fdatasync _sysctl mlock munlock mlockall munlockall sched_setparam sched_getparam sched_setscheduler
sched_getscheduler sched_yield sched_get_priority_max sched_get_priority_min sched_rr_get_interval nanosleep mremap
=167 query_module poll nfsservctl =172 prctl rt_sigreturn rt_sigaction rt_sigprocmask rt_sigpending rt_sigtimedwait
rt_sigqueueinfo rt_sigsuspend pread64 pwrite64 =183 getcwd capget capset sigaltstack sendfile getpmsg putpmsg vfork
getrlimit =198 lchown getuid getgid geteuid getegid setreuid setregid getgroups setgroups fchown setresuid getresuid
setresgid getresgid chown setuid setgid setfsuid setfsgid pivot_root mincore madvise getdents64 =222 readahead =224
setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr
fremovexattr gettid tkill futex sched_setaffinity sched_getaffinity tgkill =243 io_setup io_destroy io_getevents
io_submit io_cancel exit_group epoll_create epoll_ctl epoll_wait set_tid_address fadvise64 timer_create timer_settime
timer_gettime timer_getoverrun timer_delete clock_settime clock_gettime clock_getres clock_nanosleep =265 statfs64
fstatfs64 remap_file_pages mbind get_mempolicy set_mempolicy mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify
mq_getsetattr kexec_load add_key request_key keyctl waitid ioprio_set ioprio_get inotify_init inotify_add_watch
inotify_rm_watch migrate_pages openat mkdirat mknodat fchownat futimesat newfstatat unlinkat renameat linkat symlinkat
readlinkat fchmodat faccessat pselect6 ppoll unshare set_robust_list get_robust_list splice sync_file_range tee
vmsplice move_pages getcpu epoll_pwait utimes fallocate utimensat signalfd timerfd eventfd timerfd_create
timerfd_settime timerfd_gettime signalfd4 eventfd2 inotify_init1 pipe2 dup3 epoll_create1 preadv pwritev
rt_tgsigqueueinfo perf_event_open fanotify_init fanotify_mark prlimit64 name_to_handle_at open_by_handle_at
clock_adjtime syncfs setns process_vm_readv process_vm_writev s390_runtime_instr kcmp finit_module sched_setattr
sched_getattr renameat2 seccomp getrandom memfd_create bpf s390_pci_mmio_write s390_pci_mmio_read execveat userfaultfd
membarrier recvmmsg sendmmsg socket socketpair bind connect listen accept4 getsockopt setsockopt getsockname
getpeername sendto sendmsg recvfrom recvmsg shutdown mlock2 copy_file_range preadv2 pwritev2 s390_guarded_storage
statx s390_sthyi kexec_file_load io_pgetevents rseq pkey_mprotect pkey_alloc pkey_free =392 semtimedop semget semctl
shmget shmctl shmat shmdt msgget msgsnd msgrcv msgctl =424 pidfd_send_signal io_uring_setup io_uring_enter
io_uring_register open_tree move_mount fsopen fsconfig fsmount fspick pidfd_open clone3 close_range openat2
pidfd_getfd faccessat2 process_madvise epoll_pwait2 mount_setattr quotactl_fd landlock_create_ruleset
landlock_add_rule landlock_restrict_self memfd_secret process_mrelease futex_waitv set_mempolicy_home_node cachestat
fchmodat2 map_shadow_stack futex_wake futex_wait futex_requeue statmount listmount lsm_get_self_attr lsm_set_self_attr
lsm_list_modules mseal setxattrat getxattrat listxattrat removexattrat open_tree_attr file_getattr file_setattr listns
"""

ROW = Arch(
    name="s390x", byte_order="big", elf_machine=22, word=8, indirect_relocation=61, slot_relocations=(),
    audit=0x80000016, loader_flags=0x0403, objdump="s390:64-bit",
    c_macros=("__s390__", "__s390x__"), aligns_unnamed_bits=False, largest_alignment=8,
    syscalls={"bpf": 351, "perf_event_open": 331, "membarrier": 356, "openat2": 437, "capset": 185, "prctl": 172,
              "recvmsg": 372},
    syscall_names=_SYSCALLS, syscall_prefix="__s390x_sys_",
    event_names={"stat": "newstat", "lstat": "newlstat", "fstat": "newfstat", "uname": "newuname",
                 "umount": "oldumount", "umount2": "umount", "sendfile": "sendfile64",
                 "fadvise64": "fadvise64_64", "mmap": "old_mmap", "personality": "s390_personality",
                 "ipc": "s390_ipc"},
    # r2 is both first argument and result, so a system call's first argument is in orig_gpr2.
    syscall_arguments=(_AT["orig_gpr2"], *(_AT[f"r{index}"] for index in range(3, 8))),
    calls_by_address=("mmap",), syscall_number=162, syscall_number_size=2,
    compat_flag=(_AT["pswmask"], 1 << 32, False),  # PSW_MASK_EA: addresses of 64 bits
    compat_state=(_AT["pswmask"], 1 << 32, 0),
    user_state=(_AT["pswmask"], 1 << 48, 1 << 48),  # PSW_MASK_PSTATE
    compat_function="__s390_compat_sys_ioctl",  # gone in 7.0
    registers=_AT,
    arguments=tuple(_AT[f"r{index}"] for index in range(2, 7)),
    return_value=_AT["r2"], stack_pointer=_AT["r15"], instruction_pointer=_AT["pswaddr"], frame_pointer=_AT["r11"],
    link_register=_AT["r14"], stack_arguments=160,  # above where the called function saves registers
    vector_arguments=4, result_address_first=True, splits_structs=False, sizes_by_value=(1, 2, 4, 8),
    pt_regs_size=168,
    go_arguments=(), go_goroutine=None, go_stack_arguments=8, go_stack_check="", go_check_taken=None,
    entry_marker="",
    operands=(
        ("constant", rf"(?P<offset>{INTEGER})"), ("register", r"%(?P<base>r\d+)"),
        ("memory", rf"(?P<offset>{INTEGER})?\((?:%(?P<index>r\d+)\s*,\s*)?%(?P<base>r\d+)\)")),
    operand_registers=((r"(r(?:\d|1[0-5]))", r"\1", 0),),
    dwarf_registers=tuple(f"r{index}" for index in range(16)),
    dwarf_stack_pointer=15, dwarf_frame_pointer=11, dwarf_return=14, dwarf_vectors=range(16, 32),
    frame_to_cfa=None,  # a frame's size lies between
    frame_record=0, cfa_above_stack=160, unwinds_in_kernel=False,
    least_gap=16, plt_entry=(), plt_jump=0, signal_return=(b"", 0),
    code_address_bits=64,
    instruction_sizes=((0xC000, 0, 2), (0xC000, 0xC000, 6), (0, 0, 4)), control_flow=(), table_jumps=(), padding=(),
    execute_length=0, watches_reads=False,
    fentry_since=(6, 3),
    current_task=(), thread_pointer="",  # the lowcore has the one, access registers the other
    ordered_memory=True)  # Principles of Operation, Storage-Operand References
