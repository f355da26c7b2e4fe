"""The system call that the current task is in."""

from __future__ import annotations

from ...types import KERNEL, UINT64, Struct
from ..ir import Operand, Reg
from . import memory
from .core import Lower
from .probes.contexts import task_registers
from .state import Mem

_USER_MODE = 3  # in the code segment, the privilege level


def knows_call(registers: Struct | None) -> bool:
    """Whether a task's registers in user space, a struct pt_regs, tell if it is in a system call."""
    return registers is not None and registers.field("orig_ax") is not None


def read_call(lo: Lower, name: str, otherwise: int) -> Operand:
    """The register ``name`` of a task in a system call, ``orig_ax`` for its number; ``otherwise`` of a task in none.

    On x86_64 ``orig_ax`` has the number, but after an exception an error code. The instruction ``syscall`` leaves the
    address of the next one in rcx (entry_SYSCALL_64, arch/x86/entry/entry_64.S), so that it equals the saved rip then.
    """
    b, struct = lo.b, lo.world.find_struct("pt_regs")
    assert struct is not None
    task = task_registers(lo)
    result, user, inside, done = b.function.reg("call"), b.block("user"), b.block("inside"), b.block("done")

    def register(name: str) -> Reg:
        field = struct.field(name)
        assert field is not None
        return b.mov(memory.read_scalar(lo, Mem(task, field.offset, KERNEL, btf=1), UINT64))

    b.set(result, otherwise)
    b.branch("jset", register("cs"), _USER_MODE, user, done)
    b.start(user)
    b.branch("jeq", register("cx"), register("ip"), inside, done)
    b.start(inside)
    b.set(result, register(name))
    b.jump(done)
    b.start(done)
    return result
