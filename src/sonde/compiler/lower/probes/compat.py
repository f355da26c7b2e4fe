"""System calls of 32-bit programs: they have another numbering, and other registers."""

from __future__ import annotations

from ....arch import ARCHES
from ....layouts.c_library_texts import list_compat_texts
from ....semantics.library_texts import is_of_every_call
from ....spec import Attach
from ....types import KERNEL, Int, Pointer
from ... import helpers as h
from ...compilation import Unit
from ...ir import BasicBlock, Operand
from .. import memory
from ..core import Lower
from ..state import Mem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def sees_compat_calls(unit: Unit, points: Sequence[Attach]) -> bool:
    """Whether a program also runs for system calls of 32-bit programs, and their names are known."""
    return any(is_of_every_call(point) for point in points) and unit.feature("compat_syscalls") and bool(
        list_compat_texts(unit.world.arch))


def branch_on_compat(lo: Lower, native: BasicBlock, compat: BasicBlock,
                     registers: Callable[[Lower], Mem] | None = None) -> None:
    """Branch on whether the current system call is a 32-bit program's, as the classic tracepoints decide it
    (ARCH_TRACE_IGNORE_COMPAT_SYSCALLS); native if that cannot be known."""
    register, bit, when_set = ARCHES[lo.world.arch].compat_flag
    flags = _thread_status(lo) if register is None else \
        memory.read_scalar(lo, registers(lo).at(register), Int(64, False)) if registers else None
    if flags is None:
        lo.b.jump(native)
    else:
        lo.b.branch("jset", flags, bit, *((compat, native) if when_set else (native, compat)))


def _thread_status(lo: Lower) -> Operand | None:
    """thread_info.status of the current task."""
    task, info = lo.world.find_struct("task_struct"), lo.world.find_struct("thread_info")
    status = info.field("status") if info else None
    where = task.field("thread_info") if task else None
    if task is None or status is None or where is None:
        return None
    current = memory.locate_pointee(lo, lo.b.call(h.TASK, [], "current_task", pure=True), Pointer(task, KERNEL))
    return memory.read_scalar(lo, current.at(where.offset + status.offset), status.type)
