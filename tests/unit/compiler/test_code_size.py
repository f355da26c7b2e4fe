"""How many instructions common one-liners take to their end, with everything that seldom happens after it."""

from __future__ import annotations

import pytest

from compiled import compiled
from sonde.asm.insn import decode_program

EXIT = 0x95


def instructions(code: bytes) -> int:
    """Those before the first exit: the cold blocks come behind it."""
    return next(number for number, (_, insn) in enumerate(decode_program(code), 1) if insn.code == EXIT)


@pytest.mark.parametrize(("script", "most"), [
    ("tracepoint:raw_syscalls:sys_enter { @ = count(); }", 11),
    ("tracepoint:raw_syscalls:sys_enter { @[args.id] = count(); }", 39),
    ("tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }", 61),
    ("tracepoint:raw_syscalls:sys_enter { @[pid, comm] = count(); }", 73),
    ('tracepoint:syscalls:sys_exit_read /comm == "dd"/ { @ = sum(args.ret); }', 39),
    ("tracepoint:syscalls:sys_exit_read /pid == 5/ { @ = hist(args.ret); }", 81),
    ("tracepoint:syscalls:sys_exit_read { @ = lhist(args.ret, 0, 1000, 100); }", 45),
    ("tracepoint:syscalls:sys_exit_read { @ = stats(args.ret); }", 38),
    ("tracepoint:syscalls:sys_enter_read { @s[tid] = nsecs; }", 67),
    ("tracepoint:syscalls:sys_exit_read /@s[tid]/ { @ = hist(nsecs - @s[tid]); delete(@s, tid); }", 95),
    ("profile:hz:99 { @[kstack] = count(); }", 107),
    ('tracepoint:syscalls:sys_enter_openat { printf("%d %s %s\\n", pid, comm, str(args.filename)); }', 63),
])
def test_no_more_instructions(script: str, most: int) -> None:
    (program,) = [program for program in compiled(script).programs if program.attach[0].kind not in ("begin", "end")]
    assert instructions(program.code) <= most
