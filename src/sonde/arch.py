"""What differs between CPU architectures: one row for each that Sonde supports.

Register offsets are in bytes within the ``struct pt_regs`` that programs of type kprobe receive as their
context (uprobes too) and that the raw tracepoints ``sys_enter`` and ``sys_exit`` receive as first argument.
"""

from __future__ import annotations

from .record import Record


class Arch(Record):
    """An architecture.

    ``arguments`` are the offsets of the registers of the first integer arguments of a function call,
    ``syscall_arguments`` those of a system call's six (as they are during ``sys_enter`` and ``sys_exit``).
    Further call arguments lie on the stack, the first at stack pointer + ``stack_arguments``.
    ``syscall_number_size`` is in bytes.
    """

    name: str
    syscalls: dict[str, int]
    registers: dict[str, int]
    arguments: tuple[int, ...]
    syscall_arguments: tuple[int, ...]
    return_value: int
    syscall_number: int
    syscall_number_size: int
    stack_pointer: int
    instruction_pointer: int
    frame_pointer: int
    stack_arguments: int
    pt_regs_size: int
    breakpoint_size: int  # bytes of the instruction that a uprobe plants


def _x86_64() -> Arch:
    order = str.split("r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di orig_ax ip cs flags sp ss")
    at = {name: 8 * index for index, name in enumerate(order)}
    at["pc"] = at["ip"]
    return Arch(
        name="x86_64",
        syscalls={"bpf": 321, "perf_event_open": 298, "membarrier": 324, "openat2": 437, "capset": 126},
        registers=at,
        arguments=tuple(at[n] for n in ("di", "si", "dx", "cx", "r8", "r9")),
        syscall_arguments=tuple(at[n] for n in ("di", "si", "dx", "r10", "r8", "r9")),
        return_value=at["ax"], syscall_number=at["orig_ax"], syscall_number_size=8,
        stack_pointer=at["sp"], instruction_pointer=at["ip"], frame_pointer=at["bp"],
        stack_arguments=8,  # above the return address
        pt_regs_size=168, breakpoint_size=1)


def _aarch64() -> Arch:
    # struct user_pt_regs {regs[31], sp, pc, pstate}, then the kernel's orig_x0 and s32 syscallno.
    # x0 is both first argument and result, so a system call's first argument is in orig_x0.
    at = {f"r{index}": 8 * index for index in range(31)}
    at |= {"sp": 248, "pc": 256, "pstate": 264, "orig_x0": 272, "syscallno": 280}
    at |= {f"x{index}": 8 * index for index in range(31)} | {"fp": at["r29"], "lr": at["r30"]}
    return Arch(
        name="aarch64",
        syscalls={"bpf": 280, "perf_event_open": 241, "membarrier": 283, "openat2": 437, "capset": 91},
        registers=at,
        arguments=tuple(at[f"r{index}"] for index in range(8)),
        syscall_arguments=(at["orig_x0"], *(at[f"r{index}"] for index in range(1, 6))),
        return_value=at["r0"], syscall_number=at["syscallno"], syscall_number_size=4,
        stack_pointer=at["sp"], instruction_pointer=at["pc"], frame_pointer=at["fp"],
        stack_arguments=0,  # the return address is in a register
        pt_regs_size=288, breakpoint_size=4)


ARCHES = {row.name: row for row in (_x86_64(), _aarch64())}
_ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}


def find_arch(name: str) -> Arch | None:
    """The row for a machine name as ``uname -m`` (or Debian) spells it; None if Sonde does not support it."""
    return ARCHES.get(_ALIASES.get(name, name))


def this_arch() -> Arch:
    """The row of the running machine; MissingFeatureError if it is not supported."""
    import os

    from .errors import MissingFeatureError

    machine = os.uname().machine
    row = find_arch(machine)
    if row is None:
        raise MissingFeatureError(f"Sonde does not know the CPU architecture {machine}", "architecture",
                                  [f"supported are {', '.join(ARCHES)}"])
    return row
