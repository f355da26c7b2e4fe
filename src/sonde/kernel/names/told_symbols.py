"""Symbols of single addresses as the kernel tells them to a program (``%pS`` of bpf_snprintf, Linux 5.16): each takes
microseconds, and the text of /proc/kallsyms 0.04 s before the first one is found.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock

from ...asm import insn
from ...errors import PrivilegeError, SyscallError
from ...layouts import uapi
from .. import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mmap import mmap

    from ..syscalls import Fd

FORMAT = b"%pS\0"
ROOM = 1016  # bytes of a text: more than KSYM_SYMBOL_LEN

_LOADED = (("bpf_prog_", 16, "0123456789abcdef"), ("bpf_trampoline_", 0, "0123456789"))


_shared: list[Teller | None] = []  # none yet, one, or the knowledge that there can be none


class Teller:
    """The program, and memory that it shares with us: an address, and the text that it makes of that."""

    def __init__(self, program: Fd, memory: mmap) -> None:
        self._program, self._memory, self._lock = program, memory, allocate_lock()

    def close(self) -> None:
        """Release both. Harmless twice."""
        self._program.close()
        self._memory.close()

    def find(self, address: int) -> tuple[str, int, str] | None:
        """(name, offset into it, module) of the symbol that contains an address; None if the kernel does not say."""
        try:
            with self._lock:
                self._memory[:8] = address.to_bytes(8, sys.byteorder)
                length = syscalls.prog_test_run(self._program, b"")
                text = self._memory[8:8 + length - 1].decode("utf-8", "replace") if 1 < length <= ROOM else ""
        except (PrivilegeError, SyscallError):
            return None
        return read_symbol(text)


def read_symbol(text: str) -> tuple[str, int, str] | None:
    """``name+0x1f/0x80 [module]`` in parts."""
    start, _, module = text.partition(" ")
    name, plus, digits = start.rpartition("+")
    if not plus or not digits.startswith("0x"):
        return None
    return name, int(digits.partition("/")[0], 16), module.strip("[]").partition(" ")[0] or _loader_of(name)


def _loader_of(name: str) -> str:
    """"bpf" of what /proc/kallsyms says that of: of a loaded program, and of what leads to programs."""
    for prefix, length, digits in _LOADED:
        rest = name.removeprefix(prefix)
        number = rest[:length] if length else rest
        if rest != name and len(number) >= length and number and not number.strip(digits):
            return "bpf" if not length or rest[length:length + 1] in ("", "_") else ""
    return ""


def find_symbol(address: int) -> tuple[str, int, str] | None:
    """See :meth:`Teller.find`: by one that is kept for everybody."""
    if not _shared:
        import atexit
        _shared.append(load_teller())
        atexit.register(release_teller)
    teller = _shared[0]
    return teller.find(address) if teller is not None else None


def release_teller() -> None:
    """Release the one that is kept; the next question makes another."""
    while _shared:
        if (teller := _shared.pop()) is not None:
            teller.close()


def load_teller() -> Teller | None:
    """None if this kernel has no such program, or does not let us load it."""
    try:
        with syscalls.map_create(uapi.MAP_TYPES["array"], 4, len(FORMAT), 1, uapi.BPF_F_RDONLY_PROG, "form") as form, \
                syscalls.map_create(uapi.MAP_TYPES["array"], 4, 8 + ROOM, 1, uapi.BPF_F_MMAPABLE, "text") as text:
            syscalls.map_update(form, bytes(4), FORMAT)
            syscalls.map_freeze(form)
            code = [_value_of(1, text, 8), insn.alu("mov", 2, imm=ROOM), _value_of(3, form, 0), _value_of(4, text, 0),
                    insn.alu("mov", 5, imm=8), insn.call_helper(uapi.HELPERS["snprintf"]), insn.exit_()]
            program = syscalls.prog_load(uapi.PROG_TYPES["syscall"], b"".join([each.encode() for each in code]),
                                         "symbols", flags=uapi.BPF_F_SLEEPABLE)
            return Teller(program, syscalls.mmap_fd(text, 8 + ROOM))
    except (PrivilegeError, SyscallError):
        return None


def _value_of(register: int, map: Fd, offset: int) -> insn.Insn:
    return insn.Insn(insn.WIDE, register, insn.PSEUDO_MAP_VALUE, imm=map.number | offset << 32)
