"""What Sonde has to know of a CPU architecture, and of Linux on it."""

from __future__ import annotations

from ..record import Record


class Arch(Record):
    """An architecture.

    Register offsets are in bytes within the ``struct pt_regs`` that programs of type kprobe receive as their
    context (uprobes too) and that the raw tracepoints ``sys_enter`` and ``sys_exit`` receive as first argument.

    ``arguments`` are the offsets of the registers of the first integer arguments of a function call,
    ``syscall_arguments`` those of a system call's six (as they are during ``sys_enter`` and ``sys_exit``).
    Further call arguments lie on the stack, the first at stack pointer + ``stack_arguments``.
    ``syscall_number_size`` is in bytes.

    ``dwarf_registers`` are names in DWARF's order; ``frame_to_cfa`` is how far above the address in the frame pointer
    a frame of unoptimised code ends. ``signal_return`` is the code in the vdso that signal handlers return to, where it
    has no unwinding table, and how far above the stack pointer there the interrupted registers lie: in DWARF's order,
    then the instruction pointer. ``compat_flag`` is a register and the bit in it that marks a system call of a 32-bit
    process; without a register it is one of ``thread_info.status``. ``compat_state`` is a register, a mask and what it
    shows of the register wherever a 32-bit program is interrupted. ``code_address_bits`` of an address of user code
    are the address; those above them may sign it.
    """

    name: str  # uname -m
    elf_machine: int  # EM_
    audit: int  # AUDIT_ARCH_
    loader_flags: int  # of 64-bit libraries in /etc/ld.so.cache (glibc, sysdeps/generic/ldconfig.h)
    objdump: str  # objdump -m
    # system calls
    syscalls: dict[str, int]  # those that Sonde itself makes by number
    syscall_prefix: str  # of the kernel's functions behind them
    event_names: dict[str, str]  # where tracepoints call one by another name
    syscall_arguments: tuple[int, ...]
    syscall_number: int
    syscall_number_size: int
    compat_flag: tuple[int | None, int]
    compat_state: tuple[int, int, int]
    compat_function: str  # a kernel function that is there if 32-bit processes can run
    # registers and calls
    registers: dict[str, int]
    arguments: tuple[int, ...]
    return_value: int
    stack_pointer: int
    instruction_pointer: int
    frame_pointer: int
    stack_arguments: int
    pt_regs_size: int
    # debug information
    dwarf_registers: tuple[str, ...]
    dwarf_stack_pointer: int
    dwarf_frame_pointer: int
    dwarf_vectors: range
    frame_to_cfa: int
    signal_return: tuple[bytes, int]
    code_address_bits: int
    # the machine
    instruction_size: int  # bytes; 0: they differ
    breakpoint_size: int  # bytes of the instruction that a uprobe plants
    execute_length: int  # of a watchpoint on execution; 0: any
    watches_reads: bool  # without writes
    fentry_since: tuple[int, int]  # the first Linux
    ordered_memory: bool  # loads are seen in the program's order, and so are stores
