"""The texts of errors, signals and system calls, by their numbers."""

from __future__ import annotations

from ..arch.compat_syscalls import compat_names
from ..arch.syscalls import syscall_names
from ..base.fast_stdlib import cache

LIBRARY_TEXTS = ("strerror", "signal_name", "syscall_name")  # the functions that give them
TEXT_BYTES = 64  # of each, as in bpftrace
LAST_ERROR, LAST_SIGNAL = 133, 64
COMPAT_FROM = 1024  # of a call of a 32-bit program, what stands for its number is so much more

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
    text = _ERRORS.get(number) or (strerror(number) if number <= LAST_ERROR else "")
    return text if text and not text.startswith("Unknown error") else "Unknown error"


def signal_text(number: int) -> str:
    """The name of a signal; "N/A" for a number without one."""
    from signal import strsignal
    if not 0 <= number <= LAST_SIGNAL:
        return "N/A"
    return (strsignal(number) if number else None) or f"Unknown signal {number}"


def syscall_text(number: int, arch: str) -> str:
    """Name of a system call, or "Unknown syscall"."""
    name = compat_names(arch).get(number - COMPAT_FROM) if number >= COMPAT_FROM else syscall_names(arch).get(number)
    return name or "Unknown syscall"


@cache
def list_texts(function: str, arch: str) -> list[str]:
    """All texts that a function gives, by number; the last one is of all other numbers. Of system calls those of 32-bit
    programs are in :func:`list_compat_texts`."""
    if function == "strerror":
        return [error_text(number) for number in range(LAST_ERROR + 2)]
    if function == "signal_name":
        return [signal_text(number) for number in range(LAST_SIGNAL + 2)]
    return [syscall_text(number, arch) for number in range(max(syscall_names(arch), default=-1) + 2)]


@cache
def list_compat_texts(arch: str) -> list[str]:
    """The names of what 32-bit programs call, by number, the last one of all other numbers; [] where there are none."""
    names = compat_names(arch)
    return [syscall_text(COMPAT_FROM + number, arch) for number in range(max(names) + 2)] if names else []


def text_table(function: str, arch: str) -> list[str]:
    """All texts of a function by what stands for them."""
    texts, compat = list_texts(function, arch), list_compat_texts(arch) if function == "syscall_name" else []
    return texts + texts[-1:] * (COMPAT_FROM - len(texts)) + compat if compat else texts
