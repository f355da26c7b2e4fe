"""AArch64 (Procedure Call Standard for the Arm 64-bit Architecture; arch/arm64/include of the kernel).

``struct pt_regs`` is ``struct user_pt_regs {regs[31], sp, pc, pstate}``, then the kernel's orig_x0 and s32 syscallno.
"""

from __future__ import annotations

from .row import Arch

_AT = {f"r{index}": 8 * index for index in range(31)}
_AT |= {"sp": 248, "pc": 256, "pstate": 264, "orig_x0": 272, "syscallno": 280}
_AT |= {f"x{index}": 8 * index for index in range(31)} | {"fp": _AT["r29"], "lr": _AT["r30"]}

AARCH64 = Arch(
    name="aarch64", elf_machine=183, audit=0xC00000B7, loader_flags=0x0A03, objdump="aarch64",
    syscalls={"bpf": 280, "perf_event_open": 241, "membarrier": 283, "openat2": 437, "capset": 91},
    syscall_prefix="__arm64_sys_",
    event_names={"fstat": "newfstat", "uname": "newuname", "umount2": "umount", "sendfile": "sendfile64",
                 "fadvise64": "fadvise64_64"},
    # x0 is both first argument and result, so a system call's first argument is in orig_x0.
    syscall_arguments=(_AT["orig_x0"], *(_AT[f"r{index}"] for index in range(1, 6))),
    syscall_number=_AT["syscallno"], syscall_number_size=4,
    compat_flag=(_AT["pstate"], 0x10),  # PSR_MODE32_BIT (uapi/asm/ptrace.h)
    compat_state=(_AT["pstate"], 0x10, 0x10),
    compat_function="__arm64_compat_sys_ioctl",
    registers=_AT,
    arguments=tuple(_AT[f"r{index}"] for index in range(8)),
    return_value=_AT["r0"], stack_pointer=_AT["sp"], instruction_pointer=_AT["pc"], frame_pointer=_AT["fp"],
    stack_arguments=0,  # the return address is in a register
    pt_regs_size=288,
    # DWARF for the Arm 64-bit Architecture, 4.1
    dwarf_registers=(*(f"r{index}" for index in range(31)), "sp"),
    dwarf_stack_pointer=31, dwarf_frame_pointer=29, dwarf_vectors=range(64, 96),
    frame_to_cfa=16,
    # struct rt_sigframe: siginfo (128), ucontext before its sigcontext (176), fault_address (8); no table since 5.8
    signal_return=(bytes.fromhex("681180d2 010000d4"), 312),  # mov x8, #139; svc #0
    code_address_bits=48,  # pointer authentication signs return addresses above them (-mbranch-protection)
    instruction_size=4, breakpoint_size=4, execute_length=0, watches_reads=True,
    fentry_since=(6, 4),  # ftrace has no direct calls before
    ordered_memory=False)
