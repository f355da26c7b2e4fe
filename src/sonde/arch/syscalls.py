"""The numbers and names of system calls on each architecture."""

from __future__ import annotations

from ..base.fast_stdlib import cache
from . import find_arch


@cache
def syscall_numbers(arch: str) -> dict[str, int]:
    """Name to number, as in the uapi headers; {} for an architecture without a table."""
    row = find_arch(arch)
    return read_numbers(row.syscall_names if row else "")


def read_numbers(table: str) -> dict[str, int]:
    """Of names in the order of their numbers, where =N sets the number of the next one."""
    numbers: dict[str, int] = {}
    following = 0
    for word in table.split():
        if word[0] == "=":
            following = int(word[1:])
        else:
            numbers[word] = following
            following += 1
    return numbers


def syscall_number(name: str, arch: str) -> int | None:
    """Number of a system call by its own name, or by the name in its tracepoints (``newfstat``): this one, where it is
    the name of another call, too."""
    table, events = syscall_numbers(arch), _syscall_event_names(arch)
    called = next((own for own, event in events.items() if event == name), None)
    if name in table and not (called and name in events):
        return table[name]
    return table.get(called) if called else None


@cache
def syscall_names(arch: str) -> dict[int, str]:
    """Number to name."""
    return {number: name for name, number in syscall_numbers(arch).items()}


def _syscall_event_names(arch: str) -> dict[str, str]:
    row = find_arch(arch)
    return row.event_names if row else {}
