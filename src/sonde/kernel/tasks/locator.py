"""Running the program that finds where each CPU keeps its current task: see :mod:`sonde.kernel.tasks.current_task`."""

from __future__ import annotations

from struct import pack_into

from ...errors import SyscallError
from ...layouts import uapi
from ...spec import Locator
from .. import syscalls


def load_locator(locator: Locator, table: syscalls.Fd) -> syscalls.Fd:
    """The program, which writes to ``table``. SyscallError if the kernel does not take it."""
    code = bytearray(locator.code)
    for index in locator.places:
        pack_into("=i", code, 8 * index + 4, table.number)  # the low half; the offset is 0
    return syscalls.prog_load(uapi.PROG_TYPES["raw_tracepoint"], bytes(code), "locate_current")


def locate_current_tasks(locator: Locator | None, table: syscalls.Fd, cpus: int) -> None:
    """Fill ``table``, a map of a power of two of u64s; 0 for CPUs whose address is not known, such as offline ones."""
    if locator is None:
        return
    try:
        with load_locator(locator, table) as program:
            for cpu in range(cpus):
                try:
                    syscalls.prog_test_run(program, cpu=cpu)
                except SyscallError:
                    continue
    except SyscallError:
        return
