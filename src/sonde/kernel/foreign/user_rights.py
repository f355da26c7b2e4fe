"""Another user's rights, for opening files."""

from __future__ import annotations

import os
import struct
from errno import EPERM

from ...arch import this_arch
from ...arch.syscalls import syscall_number
from ...base.fast_stdlib import contextmanager
from ..libc import address_of, system_call
from ..syscalls import syscall_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@contextmanager
def act_for_user(user: int, group: int, groups: Sequence[int]) -> Iterator[None]:
    """Open files with another user's rights: this thread alone (the system calls, unlike the C library's functions,
    change one thread), and without the capabilities that let root pass (cap_task_fix_setuid() in security/commoncap.c).
    A process that is not root's acts with its own rights."""
    if os.geteuid() != 0:
        yield
        return
    machine = this_arch().name
    set_user, set_group, set_groups = [syscall_number(name, machine) or -1 for name in
                                       ("setfsuid", "setfsgid", "setgroups")]

    def change(user: int, group: int, groups: Sequence[int]) -> bool:
        numbers = struct.pack(f"={len(groups)}I", *groups)
        if system_call(set_groups, len(groups), address_of(numbers or bytes(4)), 0, 0, 0, 0) != 0:
            return False
        for number, id in ((set_group, group), (set_user, user)):
            system_call(number, id, 0, 0, 0, 0, 0)
            if system_call(number, -1, 0, 0, 0, 0, 0) != id:  # which changes nothing
                return False
        return True

    own = os.getgroups()
    try:
        if not change(user, group, groups):
            raise syscall_error("setfsuid", EPERM)
        yield
    finally:
        if not change(0, os.getegid(), own):
            raise syscall_error("setfsuid", EPERM)
