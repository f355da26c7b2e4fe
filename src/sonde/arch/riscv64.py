"""RV64 (RISC-V ABIs Specification: calling convention and DWARF; arch/riscv/include of the kernel).

``struct pt_regs`` begins with ``struct user_regs_struct``; ``epc`` is the program counter, ``s0`` the frame pointer.
"""

from __future__ import annotations

from .row import INTEGER, Arch

_GENERAL = str.split("ra sp gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6")
_AT = {name: 8 * index for index, name in enumerate(["epc", *_GENERAL, "status", "badaddr", "cause", "orig_a0"])}
_AT |= {"pc": _AT["epc"], "fp": _AT["s0"]}

# Written by scripts/gen_syscalls.py.
_SYSCALLS = """
io_setup io_destroy io_submit io_cancel io_getevents setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr
listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr getcwd lookup_dcookie eventfd2 epoll_create1
epoll_ctl epoll_pwait dup dup3 fcntl inotify_init1 inotify_add_watch inotify_rm_watch ioctl ioprio_set ioprio_get
flock mknodat mkdirat unlinkat symlinkat linkat =39 umount2 mount pivot_root nfsservctl statfs fstatfs truncate
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
recvmmsg =258 riscv_hwprobe riscv_flush_icache wait4 prlimit64 fanotify_init fanotify_mark name_to_handle_at
open_by_handle_at clock_adjtime syncfs setns sendmmsg process_vm_readv process_vm_writev kcmp finit_module
sched_setattr sched_getattr renameat2 seccomp getrandom memfd_create bpf execveat userfaultfd membarrier mlock2
copy_file_range preadv2 pwritev2 pkey_mprotect pkey_alloc pkey_free statx io_pgetevents rseq kexec_file_load =424
pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen fsconfig fsmount fspick
pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2 process_madvise epoll_pwait2 mount_setattr quotactl_fd
landlock_create_ruleset landlock_add_rule landlock_restrict_self memfd_secret process_mrelease futex_waitv
set_mempolicy_home_node cachestat fchmodat2 map_shadow_stack futex_wake futex_wait futex_requeue statmount listmount
lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal setxattrat getxattrat listxattrat removexattrat
open_tree_attr file_getattr file_setattr listns
"""

ROW = Arch(
    name="riscv64", byte_order="little", elf_machine=243, word=8, indirect_relocation=58, slot_relocations=(),
    audit=0xC00000F3, loader_flags=0x1003, objdump="riscv:rv64",
    c_macros=("__riscv",), aligns_unnamed_bits=False, largest_alignment=16,
    syscalls={"bpf": 280, "perf_event_open": 241, "membarrier": 283, "openat2": 437, "capset": 91, "prctl": 167,
              "recvmsg": 212},
    syscall_names=_SYSCALLS, syscall_prefix="__riscv_sys_",
    event_names={"fstat": "newfstat", "uname": "newuname", "umount2": "umount", "sendfile": "sendfile64",
                 "fadvise64": "fadvise64_64"},
    # a0 is both first argument and result, so a system call's first argument is in orig_a0.
    syscall_arguments=(_AT["orig_a0"], *(_AT[f"a{index}"] for index in range(1, 6))),
    calls_by_address=(), syscall_number=_AT["a7"], syscall_number_size=8,
    compat_flag=(_AT["status"], 1 << 32, True),  # SR_UXL, of which SR_UXL_32 is the lower bit (asm/csr.h)
    compat_state=(_AT["status"], 3 << 32, 1 << 32),
    user_state=(_AT["status"], 0x100, 0),  # SR_SPP: the mode that was left
    compat_function="__riscv_compat_sys_ioctl",
    registers=_AT,
    arguments=tuple(_AT[f"a{index}"] for index in range(8)),
    return_value=_AT["a0"], stack_pointer=_AT["sp"], instruction_pointer=_AT["pc"], frame_pointer=_AT["fp"],
    link_register=_AT["ra"], stack_arguments=0,
    vector_arguments=8, result_address_first=True, splits_structs=False, sizes_by_value=(),
    pt_regs_size=288,
    go_arguments=(), go_goroutine=None, go_stack_arguments=8, go_stack_check="", go_check_taken=None,
    entry_marker="",
    operands=(
        ("constant", rf"(?P<offset>{INTEGER})"), ("constant", "zero"),
        ("memory", rf"(?P<offset>{INTEGER})?\((?P<base>\w+)\)"), ("register", r"(?P<base>\w+)")),
    operand_registers=((r"(ra|[sgtf]p|[ast]\d+)", r"\1", 0),),
    dwarf_registers=("zero", *_GENERAL),
    dwarf_stack_pointer=2, dwarf_frame_pointer=8, dwarf_return=1, dwarf_vectors=range(32, 64),
    frame_to_cfa=0, frame_record=-16, cfa_above_stack=0, unwinds_in_kernel=True,
    least_gap=16,
    plt_entry=((0xFFF, 0xE17), (0xFFFFF, 0xE3E03)), plt_jump=0x000E0367,  # auipc t3, n; ld t3, n(t3). jalr t1, t3.
    signal_return=(b"", 0),  # the vdso's has a table
    code_address_bits=64,
    instruction_sizes=((3, 3, 4), (0, 0, 2)), control_flow=(), table_jumps=(), padding=(),
    execute_length=0, watches_reads=False,
    fentry_since=(6, 8),
    current_task=(), thread_pointer="",  # registers have both
    ordered_memory=False)
