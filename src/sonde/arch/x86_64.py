"""x86-64 (System V ABI, AMD64 Architecture Processor Supplement; arch/x86/include of the kernel)."""

from __future__ import annotations

from .row import Arch

_ORDER = str.split("r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di orig_ax ip cs flags sp ss")
_AT = {name: 8 * index for index, name in enumerate(_ORDER)}
_AT["pc"] = _AT["ip"]

X86_64 = Arch(
    name="x86_64", elf_machine=62, audit=0xC000003E, loader_flags=0x0303, objdump="i386:x86-64",
    syscalls={"bpf": 321, "perf_event_open": 298, "membarrier": 324, "openat2": 437, "capset": 126},
    syscall_prefix="__x64_sys_",
    # Where the kernel function behind a system call, and so its tracepoint, is not called as the call is.
    event_names={"stat": "newstat", "lstat": "newlstat", "fstat": "newfstat", "uname": "newuname",
                 "umount2": "umount", "sendfile": "sendfile64"},
    syscall_arguments=tuple(_AT[n] for n in ("di", "si", "dx", "r10", "r8", "r9")),
    syscall_number=_AT["orig_ax"], syscall_number_size=8,
    compat_flag=(None, 2),  # TS_COMPAT (arch/x86/include/asm/thread_info.h)
    compat_state=(_AT["cs"], 0xFFFF, 0x23),  # __USER32_CS (arch/x86/include/asm/segment.h)
    compat_function="__ia32_compat_sys_ioctl",  # the calls' entry itself is not in the BTF of older kernels
    registers=_AT,
    arguments=tuple(_AT[n] for n in ("di", "si", "dx", "cx", "r8", "r9")),
    return_value=_AT["ax"], stack_pointer=_AT["sp"], instruction_pointer=_AT["ip"], frame_pointer=_AT["bp"],
    stack_arguments=8,  # above the return address
    pt_regs_size=168,
    # figure 3.36
    dwarf_registers=tuple(str.split("ax dx cx bx si di bp sp r8 r9 r10 r11 r12 r13 r14 r15")),
    dwarf_stack_pointer=7, dwarf_frame_pointer=6, dwarf_vectors=range(17, 33),
    frame_to_cfa=16,  # saved with the return address
    signal_return=(b"", 0),  # the C library's has a table
    code_address_bits=64,
    instruction_size=0, breakpoint_size=1, execute_length=8, watches_reads=False, fentry_since=(5, 5),
    ordered_memory=True)
