"""A child to which one system call is denied, as a container's or a security module's policy does: seccomp answers it
with an error of our choice."""

from __future__ import annotations

import ctypes
import errno
import struct
import sys
from collections.abc import Callable

from sonde.arch import this_arch
from sonde.arch.syscalls import syscall_numbers

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCH = 0, 4  # struct seccomp_data
_FIRST = 16 if sys.byteorder == "little" else 20  # the lower half


def deny_call(name: str, first: int | None = None, error: int = errno.EPERM) -> Callable[[], None]:
    """A ``preexec_fn``: from then on ``name`` fails with ``error``; if ``first`` is given, where that is its first
    argument (bpf(2)'s command)."""
    row = this_arch()
    tests = [(_ARCH, row.audit), (_NUMBER, syscall_numbers(row.name)[name]),
             *([(_FIRST, first)] if first is not None else [])]
    code: list[tuple[int, int, int, int]] = []
    for index, (offset, value) in enumerate(tests):
        code += [(_LOAD, 0, 0, offset), (_EQUAL, 0, 2 * (len(tests) - index) - 1, value)]
    code += [(_RETURN, 0, 0, _ERRNO | error), (_RETURN, 0, 0, _ALLOW)]
    filters = ctypes.create_string_buffer(b"".join([struct.pack("=HBBI", *each) for each in code]))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(code), ctypes.addressof(filters)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def install() -> None:
        if prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(_PR_SET_SECCOMP, _MODE_FILTER, program, 0, 0):
            raise OSError(ctypes.get_errno(), "seccomp")
        assert filters
    return install
