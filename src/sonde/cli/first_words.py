"""What ``sonde`` alone says on a terminal."""

from __future__ import annotations

FIRST_WORDS = """\
Sonde shows what programs and the kernel do. Five things to try:

    sudo sonde execsnoop                 programs as they start
    sudo sonde opensnoop                 files as they are opened, and by whom
    sudo sonde flame 5                   where CPUs spend time: flame.svg
    sudo sonde -e 'tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }'
                                         system calls by program, until Ctrl-C
    sonde help slow disk                 what answers a question, in any words

`sonde tools` lists the tools, `sonde --help` the options.
"""
