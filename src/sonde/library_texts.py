"""The texts of errors, signals and system calls, by their numbers."""

from __future__ import annotations

from .arch.syscalls import syscall_names
from .basics import cache

LIBRARY_TEXTS = ("strerror", "signal_name", "syscall_name")  # the functions that give them
TEXT_BYTES = 64  # of each, as in bpftrace
LAST_ERROR, LAST_SIGNAL = 133, 64

# What bpftrace calls otherwise than the C library does.
_ERRORS = {
    5: "I/O error", 9: "Bad file number", 11: "Try again (operation would block)", 12: "Out of memory",
    18: "Cross-device link", 23: "File table overflow", 25: "Not a typewriter",
    33: "Math argument out of domain of func", 34: "Math result not representable",
    35: "Resource deadlock would occur", 37: "No record locks available", 38: "Invalid system call number",
    40: "Too many symbolic links encountered", 74: "Not a data message", 84: "Illegal byte sequence",
    95: "Operation not supported on transport endpoint", 102: "Network dropped connection because of reset",
    122: "Quota exceeded", 125: "Operation Canceled"}


def error_text(number: int) -> str:
    """strerror() of an error number, negated or not."""
    from os import strerror
    number = abs(number)
    found = _ERRORS.get(number) or (strerror(number) if number <= LAST_ERROR else "")
    return found if found and not found.startswith("Unknown error") else "Unknown error"


def signal_text(number: int) -> str:
    """What a signal is called; "N/A" of a number that none has."""
    from signal import strsignal
    if not 0 <= number <= LAST_SIGNAL:
        return "N/A"
    return (strsignal(number) if number else None) or f"Unknown signal {number}"


def syscall_text(number: int, arch: str) -> str:
    """Name of a system call, or "Unknown syscall"."""
    return syscall_names(arch).get(number, "Unknown syscall")


@cache
def list_texts(function: str, arch: str) -> list[str]:
    """All texts that a function gives, by number; the last one is of all other numbers."""
    if function == "strerror":
        return [error_text(number) for number in range(LAST_ERROR + 2)]
    if function == "signal_name":
        return [signal_text(number) for number in range(LAST_SIGNAL + 2)]
    return [syscall_text(number, arch) for number in range(max(syscall_names(arch), default=-1) + 2)]
