"""AArch64 (Procedure Call Standard for the Arm 64-bit Architecture; arch/arm64/include of the kernel).

``struct pt_regs`` is ``struct user_pt_regs {regs[31], sp, pc, pstate}``, then the kernel's orig_x0 and s32 syscallno.
"""

from __future__ import annotations

from .row import INTEGER, Arch

_AT = {f"r{index}": 8 * index for index in range(31)}
_AT |= {"sp": 248, "pc": 256, "pstate": 264, "orig_x0": 272, "syscallno": 280}
_AT |= {f"x{index}": 8 * index for index in range(31)} | {"fp": _AT["r29"], "lr": _AT["r30"]}

# Written by scripts/gen_syscalls.py.
_SYSCALLS = """
io_setup io_destroy io_submit io_cancel io_getevents setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr
listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr getcwd lookup_dcookie eventfd2 epoll_create1
epoll_ctl epoll_pwait dup dup3 fcntl inotify_init1 inotify_add_watch inotify_rm_watch ioctl ioprio_set ioprio_get
flock mknodat mkdirat unlinkat symlinkat linkat renameat umount2 mount pivot_root nfsservctl statfs fstatfs truncate
ftruncate fallocate faccessat chdir fchdir chroot fchmod fchmodat fchownat fchown openat close vhangup pipe2 quotactl
getdents64 lseek read write readv writev pread64 pwrite64 preadv pwritev sendfile pselect6 ppoll signalfd4 vmsplice
splice tee readlinkat newfstatat fstat sync fsync fdatasync sync_file_range timerfd_create timerfd_settime
timerfd_gettime utimensat acct capget capset personality exit exit_group waitid set_tid_address unshare futex
set_robust_list get_robust_list nanosleep getitimer setitimer kexec_load init_module delete_module timer_create
timer_gettime timer_getoverrun timer_settime timer_delete clock_settime clock_gettime clock_getres clock_nanosleep
syslog ptrace sched_setparam sched_setscheduler sched_getscheduler sched_getparam sched_setaffinity sched_getaffinity
sched_yield sched_get_priority_max sched_get_priority_min sched_rr_get_interval restart_syscall kill tkill tgkill
sigaltstack rt_sigsuspend rt_sigaction rt_sigprocmask rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigreturn
setpriority getpriority reboot setregid setgid setreuid setuid setresuid getresuid setresgid getresgid setfsuid
setfsgid times setpgid getpgid getsid setsid getgroups setgroups uname sethostname setdomainname getrlimit setrlimit
getrusage umask prctl getcpu gettimeofday settimeofday adjtimex getpid getppid getuid geteuid getgid getegid gettid
sysinfo mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr msgget msgctl msgrcv msgsnd semget
semctl semtimedop semop shmget shmctl shmat shmdt socket socketpair bind listen accept connect getsockname getpeername
sendto recvfrom setsockopt getsockopt shutdown sendmsg recvmsg readahead brk munmap mremap add_key request_key keyctl
clone execve mmap fadvise64 swapon swapoff mprotect msync mlock munlock mlockall munlockall mincore madvise
remap_file_pages mbind get_mempolicy set_mempolicy migrate_pages move_pages rt_tgsigqueueinfo perf_event_open accept4
recvmmsg =260 wait4 prlimit64 fanotify_init fanotify_mark name_to_handle_at open_by_handle_at clock_adjtime syncfs
setns sendmmsg process_vm_readv process_vm_writev kcmp finit_module sched_setattr sched_getattr renameat2 seccomp
getrandom memfd_create bpf execveat userfaultfd membarrier mlock2 copy_file_range preadv2 pwritev2 pkey_mprotect
pkey_alloc pkey_free statx io_pgetevents rseq kexec_file_load =424 pidfd_send_signal io_uring_setup io_uring_enter
io_uring_register open_tree move_mount fsopen fsconfig fsmount fspick pidfd_open clone3 close_range openat2
pidfd_getfd faccessat2 process_madvise epoll_pwait2 mount_setattr quotactl_fd landlock_create_ruleset
landlock_add_rule landlock_restrict_self memfd_secret process_mrelease futex_waitv set_mempolicy_home_node cachestat
fchmodat2 map_shadow_stack futex_wake futex_wait futex_requeue statmount listmount lsm_get_self_attr lsm_set_self_attr
lsm_list_modules mseal setxattrat getxattrat listxattrat removexattrat open_tree_attr file_getattr file_setattr listns
"""

ROW = Arch(
    name="aarch64", byte_order="little", elf_machine=183, word=8, indirect_relocation=1032, slot_relocations=(),
    audit=0xC00000B7, loader_flags=0x0A03, objdump="aarch64",
    c_macros=("__aarch64__",), aligns_unnamed_bits=True, largest_alignment=16,
    syscalls={"bpf": 280, "perf_event_open": 241, "membarrier": 283, "openat2": 437, "capset": 91, "prctl": 167,
              "recvmsg": 212},
    syscall_names=_SYSCALLS, syscall_prefix="__arm64_sys_",
    event_names={"fstat": "newfstat", "uname": "newuname", "umount2": "umount", "sendfile": "sendfile64",
                 "fadvise64": "fadvise64_64", "personality": "arm64_personality"},
    # x0 is both first argument and result, so a system call's first argument is in orig_x0.
    syscall_arguments=(_AT["orig_x0"], *(_AT[f"r{index}"] for index in range(1, 6))),
    calls_by_address=(), syscall_number=_AT["syscallno"], syscall_number_size=4,
    compat_flag=(_AT["pstate"], 0x10, True),  # PSR_MODE32_BIT (uapi/asm/ptrace.h)
    compat_state=(_AT["pstate"], 0x10, 0x10),
    user_state=(_AT["pstate"], 0xF, 0),  # PSR_MODE_MASK, PSR_MODE_EL0t
    compat_function="__arm64_compat_sys_ioctl",
    registers=_AT,
    arguments=tuple(_AT[f"r{index}"] for index in range(8)),
    return_value=_AT["r0"], stack_pointer=_AT["sp"], instruction_pointer=_AT["pc"], frame_pointer=_AT["fp"],
    link_register=_AT["lr"], stack_arguments=0,
    vector_arguments=8, result_address_first=False, splits_structs=False,  # the address has a register of its own
    sizes_by_value=(),
    pt_regs_size=288,
    # An index of 32 bits, which is extended (sxtw, uxtw), is not understood.
    # ldr 16(x28),x16; cmp x16,sp; for larger frames sub N,sp,x17, or N in x27 first, and bcc; then bls
    # (cmd/internal/obj/arm64/obj7.go, stacksplit()).
    go_arguments=tuple(_AT[f"x{n}"] for n in range(16)), go_goroutine=_AT["x28"], go_stack_arguments=8,
    go_stack_check=r"\x90\x0b\x40\xf9(?:\xff\x63\x30\xeb|(?:\xf1.{2}\xd1|(?:.{3}[\xd2\xf2\xb2]){1,4}"
                   r"\xf1\x63\x3b\xeb.{3}\x54)\x3f\x02\x10\xeb)[\x09\x29\x49\x69\x89\xa9\xc9\xe9].{2}\x54",
    go_check_taken=None, entry_marker="",
    operands=(
        ("constant", rf"#?(?P<offset>{INTEGER})"), ("constant", "[wx]zr"),
        ("memory", rf"\[\s*(?P<base>x\d+|sp)\s*"
                   rf"(?:,\s*#?(?P<offset>{INTEGER})|,\s*(?P<index>x\d+)\s*(?:,\s*lsl\s+#?(?P<shift>\d+))?)?\s*\]"),
        ("register", r"(?P<base>\w+)")),
    operand_registers=((r"[wx](\d+)", r"r\1", 0), (r"w?sp", "sp", 0)),
    # DWARF for the Arm 64-bit Architecture, 4.1
    dwarf_registers=(*(f"r{index}" for index in range(31)), "sp"),
    dwarf_stack_pointer=31, dwarf_frame_pointer=29, dwarf_return=30, dwarf_vectors=range(64, 96),
    frame_to_cfa=16, frame_record=0, cfa_above_stack=0, unwinds_in_kernel=True,
    least_gap=12,  # the vdso has the code that signal handlers return to in one
    # adrp x16; ldr x17, [x16, n]; add x16, x16, n; bti c. br x17.
    plt_entry=((0x9F00001F, 0x90000010), (0xFFC003FF, 0xF9400211), (0xFFC003FF, 0x91000210), (0xFFFFFFFF, 0xD503245F)),
    plt_jump=0xD61F0220,
    # struct rt_sigframe: siginfo (128), ucontext before its sigcontext (176), fault_address (8); no table since 5.8
    signal_return=(bytes.fromhex("681180d2 010000d4"), 312),  # mov x8, #139; svc #0
    code_address_bits=48,  # pointer authentication signs return addresses above them (-mbranch-protection)
    instruction_sizes=((0, 0, 4),),
    control_flow=(
        (0xFFFFFC1F, 0xD65F0000, "return", 0, 0), (0xFFFFFBFF, 0xD65F0BFF, "unknown", 0, 0),  # ret; retaa, retab
        (0xFC000000, 0x14000000, "jump", 0, 26), (0xFF000000, 0x54000000, "branch", 5, 19),   # b; b.cond, bc.cond
        (0x7E000000, 0x34000000, "branch", 5, 19), (0x7E000000, 0x36000000, "branch", 5, 14),  # cbz, cbnz; tbz, tbnz
        (0xFFFFFC1F, 0xD61F0000, "indirect", 0, 0), (0xFEFFF800, 0xD61F0800, "indirect", 0, 0)),  # br; braa, braaz ...
    table_jumps=((0xFFE00000, 0x8B200000), (0xFFE0FC00, 0x8B000800)),  # add with an extended register, or lsl #2
    padding=(0xD503201F, 0, 0xD4200000),  # nop, udf, brk
    execute_length=0, watches_reads=True,
    fentry_since=(6, 4),  # ftrace has no direct calls before
    current_task=(), thread_pointer="",  # a system register has the one; switches alone store the other
    ordered_memory=False)
