"""What Sonde has to know of a CPU architecture, and of Linux on it."""

from __future__ import annotations

from ..base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

INTEGER = r"[-+]?(?:0x[0-9a-fA-F]+|\d+)"  # as assemblers write them


class Arch(Record):
    """An architecture.

    Register offsets are in bytes within the ``struct pt_regs`` that programs of type kprobe receive as their
    context (uprobes too) and that the raw tracepoints ``sys_enter`` and ``sys_exit`` receive as first argument.

    ``arguments`` are the offsets of the registers of the first integer arguments of a function call,
    ``syscall_arguments`` those of a system call's six (as they are during ``sys_enter`` and ``sys_exit``).
    Further call arguments lie on the stack, the first at stack pointer + ``stack_arguments``.
    ``syscall_number_size`` is in bytes.

    ``result_address_first``: a function whose result lies in memory is told where by its first argument.
    ``splits_structs``: each eight bytes of a small struct go to a register of their class, and large structs to the
    stack (System V); else whole structs go to registers of one class, large ones by the address of a copy (AAPCS64).
    ``sizes_by_value``: values of any other size go by the address of a copy, and all structs are returned in
    memory; () where neither is so.

    ``operands`` are the ways in which an assembler writes where a static probe's argument is: a kind of
    ``UsdtArgument`` (or "symbol": an object's address) and a regular expression with the groups base, index, offset,
    before (another offset), scale, shift, symbol. ``operand_registers`` turn its names of registers into ours: a
    regular expression, a template and the bits to shift right.

    ``dwarf_registers`` are names in DWARF's order, ``dwarf_return`` is the number of the return address;
    ``frame_to_cfa`` is how far above the address in the frame pointer a frame of unoptimised code ends (None: that
    is not fixed), ``cfa_above_stack`` how far the frame that DWARF means ends above the caller's stack pointer, and
    ``frame_record`` where from there the caller's frame pointer and the return address are saved. ``least_gap``
    is in bytes: a smaller one between functions is there to align them. ``plt_entry`` is (mask, value) of what an entry
    of the PLT without a table is made of, and ``plt_jump`` its last instruction. ``signal_return`` is the code in the
    vdso that signal handlers return to, where it has no unwinding table, and how far above the stack pointer there the
    interrupted registers lie: in DWARF's order, then the instruction pointer. ``code_address_bits`` of an address of
    user code are the address; those above them may sign it.

    ``compat_flag`` is a register, the bit in it that marks a system call of a 32-bit process, and whether it is set
    then; without a register it is a bit of ``thread_info.status``. ``compat_state`` is a register, a mask and what it
    shows of the register wherever a 32-bit program is interrupted, ``user_state`` the same wherever a user program is.

    ``go_arguments`` are the registers of Go's own calling convention (cmd/compile/abi-internal.md), () where all
    arguments lie on the stack, ``go_goroutine`` is where it has the address of the running goroutine's ``g``;
    ``go_stack_arguments`` is where the first argument on the stack lies above the stack pointer, and ``go_stack_check``
    a regular expression of the instructions with which functions begin that may need a larger stack: they are run again
    when the stack has grown, and after a goroutine was preempted there. Where a probe of the jump by which they end
    (the group "jump") costs less than one behind it, ``go_check_taken`` is a register and bits of it: if any is set,
    the jump will be taken. ``entry_marker`` is a regular expression of an instruction with which functions begin and
    which does nothing, where a probe behind it costs less.

    ``instruction_sizes`` are (mask, value, bytes): the first whose value the first 16 bits of an instruction have tells
    its size; () where that takes a decoder. ``control_flow`` are (mask, value, kind, lowest bit, bits): where control
    goes from an instruction, a kind of flows.Flow, and which bits of it are the distance, in instructions; () where
    that takes a decoder, or is not known. ``table_jumps`` are (mask, value) of what computes the target of a switch,
    ``padding`` instructions that stand between pieces of code.
    """

    name: str  # uname -m
    byte_order: Literal["little", "big"]
    elf_machine: int  # EM_
    word: int  # bytes of an address
    indirect_relocation: int  # R_..._IRELATIVE
    slot_relocations: tuple[int, ...]  # R_..._GLOB_DAT and R_..._JUMP_SLOT; () where linkage.py reads no jumps by slots
    audit: int  # AUDIT_ARCH_
    loader_flags: int  # of 64-bit libraries in /etc/ld.so.cache (glibc, sysdeps/generic/ldconfig.h)
    objdump: str  # objdump -m
    c_macros: tuple[str, ...]  # that C compilers define for it
    aligns_unnamed_bits: bool  # structs, that is, as if these bit-fields had names
    largest_alignment: int  # of any type of C
    # system calls
    syscalls: dict[str, int]  # those that Sonde itself makes by number
    syscall_names: str  # in the order of their numbers; =N sets the number of the next name
    syscall_prefix: str  # of the kernel's functions behind them
    event_names: dict[str, str]  # where tracepoints call one by another name
    syscall_arguments: tuple[int, ...]
    calls_by_address: tuple[str, ...]  # their only argument is where the arguments are, which seccomp cannot see
    syscall_number: int
    syscall_number_size: int
    compat_flag: tuple[int | None, int, bool]
    compat_state: tuple[int, int, int]
    user_state: tuple[int, int, int]
    compat_function: str  # a kernel function that is there if 32-bit processes can run
    # registers and calls
    registers: dict[str, int]
    arguments: tuple[int, ...]
    return_value: int
    stack_pointer: int
    instruction_pointer: int
    frame_pointer: int
    link_register: int | None  # which calls leave the return address in; None: they push it
    stack_arguments: int
    vector_arguments: int  # how many registers there are for them
    result_address_first: bool
    splits_structs: bool
    sizes_by_value: tuple[int, ...]
    pt_regs_size: int
    operands: tuple[tuple[str, str], ...]
    operand_registers: tuple[tuple[str, str, int], ...]
    go_arguments: tuple[int, ...]
    go_goroutine: int | None
    go_stack_arguments: int
    go_stack_check: str  # of bytes as Latin-1
    go_check_taken: tuple[int, int] | None
    entry_marker: str  # the same
    # debug information
    dwarf_registers: tuple[str, ...]
    dwarf_stack_pointer: int
    dwarf_frame_pointer: int
    dwarf_return: int
    dwarf_vectors: range
    frame_to_cfa: int | None
    frame_record: int
    cfa_above_stack: int
    unwinds_in_kernel: bool  # programs can follow its tables
    least_gap: int
    plt_entry: tuple[tuple[int, int], ...]
    plt_jump: int
    signal_return: tuple[bytes, int]
    code_address_bits: int
    # the machine
    instruction_sizes: tuple[tuple[int, int, int], ...]
    control_flow: tuple[tuple[int, int, str, int, int], ...]
    table_jumps: tuple[tuple[int, int], ...]
    padding: tuple[int, ...]
    execute_length: int  # of a watchpoint on execution; 0: any
    watches_reads: bool  # without writes
    fentry_since: tuple[int, int]  # the first Linux
    current_task: tuple[str, ...]  # variables of each CPU that have the running task's address, by themselves or inside
    thread_pointer: str  # the member of thread_struct that has it while the thread runs; "" if none does
    ordered_memory: bool  # loads are seen in the program's order, and so are stores
