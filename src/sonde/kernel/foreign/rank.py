"""How the reader drops whatever it does not need, before it reads the first byte."""

from __future__ import annotations

import os
import resource
import signal
import struct

from ...arch import ARCHES
from ...arch.syscalls import syscall_number
from ...base.limits import lower_limit
from .. import syscalls
from .questions import MOST_MEMORY

NOBODY = 65534
ADDRESSES = 4 << 30  # bytes of address space, most of it never touched
DESCRIPTORS = 256
# The system calls of an interpreter that computes, allocates memory, and reads and writes descriptors that it has.
_CALLS = str.split("""
read pread64 readv write writev sendto sendmsg recvfrom recvmsg close fstat newfstatat lseek dup fcntl ioctl poll ppoll
mmap munmap mremap mprotect madvise brk futex sched_yield getpid gettid clock_gettime clock_nanosleep getrandom
prlimit64 getrlimit getrusage rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack restart_syscall exit exit_group
""")
# These only without some bits of an argument: no executable memory, no other process's limits.
_GUARDED = (("mmap", 2, 4), ("mprotect", 2, 4), ("prlimit64", 0, 0xFFFFFFFF))
_LOAD, _EQUAL, _AND, _RETURN = 0x20, 0x15, 0x54, 0x06  # BPF_LD|W|ABS, JMP|JEQ|K, ALU|AND|K, RET|K
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050001, 0x80000000  # SECCOMP_RET_: ALLOW, ERRNO(EPERM), KILL_PROCESS


def lower_rank(keep: int) -> None:
    """Keep the standard descriptors and ``keep``, no privileges, and little memory. OSError, SondeError if that
    fails."""
    calls = build_seccomp_filter(os.uname().machine)  # while it may open the modules that this needs
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)  # signals are for the tracer; this process ends when its socket is closed
    os.closerange(keep + 1, 1 << 20)
    os.chdir("/")
    _offer_to_the_oom_killer()
    _become_nobody()
    for kind, most in ((resource.RLIMIT_AS, ADDRESSES), (resource.RLIMIT_DATA, MOST_MEMORY),
                       (resource.RLIMIT_NOFILE, DESCRIPTORS), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0),
                       (resource.RLIMIT_NPROC, 0)):
        lower_limit(kind, most)  # a shell's or a service's own limit may be lower, and is not to be raised
    syscalls.drop_privileges()
    syscalls.die_with_parent()
    syscalls.filter_system_calls(calls)


def limit_memory(size: int) -> None:
    """Limit this process's own memory to this many bytes, until told otherwise."""
    lower_limit(resource.RLIMIT_DATA, size, MOST_MEMORY)


def _become_nobody() -> None:
    """Change to nobody if this process may: one without CAP_SETUID, or in a user namespace of its own, stays who it
    is."""
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except OSError:
        pass


def _offer_to_the_oom_killer() -> None:
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
    except OSError:
        pass  # without /proc


def build_seccomp_filter(machine: str) -> bytes:
    """The seccomp filter: these calls and no other."""
    numbers = sorted({number for name in _CALLS if (number := syscall_number(name, machine)) is not None})
    code = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, ARCHES[machine].audit), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    first = 16 if ARCHES[machine].byte_order == "little" else 20  # of seccomp_data: an argument's lower half
    for name, argument, bits in [call for call in _GUARDED if call[0] not in ARCHES[machine].calls_by_address]:
        code += [(_EQUAL, 0, 5, syscall_number(name, machine) or 0), (_LOAD, 0, 0, first + 8 * argument),
                 (_AND, 0, 0, bits), (_EQUAL, 1, 0, 0), (_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]
    for number in numbers:
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    code.append((_RETURN, 0, 0, _REFUSE))
    return b"".join([struct.pack("=HBBI", *row) for row in code])


