"""``sonde --help``: the commands and the options by topic, 80 columns wide."""

from __future__ import annotations

from ...tools.page_layout import lay_out_entry
from ...tools.subjects import SUBJECTS
from ..command_table import TOPICS
from ..options import OPTIONS

_COMMANDS, _OPTIONS = 16, 30  # columns at which what is said of them begins

SYNOPSIS = """\
    sonde [options] FILE [parameters]          a script in a file; -: from stdin
    sonde [options] -e 'PROGRAM' [parameters]  a script on the command line
    sonde TOOL [options]                       a tool; `sonde TOOL --help`
    sonde COMMAND [options]                    a command; `sonde COMMAND --help`
"""
EXAMPLES = """\
    sonde help slow disk          what answers a question, in any words
    sonde -l '*sleep*'            list probes containing "sleep"
    sonde tcpstates               run a tool; `sonde tools` lists them
    sonde -e 'tracepoint:syscalls:sys_enter_openat {
        printf("%s %s\\n", comm, str(args.filename)); }'
                                  files opened, by process
    sonde -e 'tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }'
                                  system calls by process
"""


def overview() -> str:
    """All of it."""
    from ..commands import command_page
    lines = ["USAGE:", SYNOPSIS]
    for topic, names in TOPICS.items():
        lines.append(f"{topic}:")
        for name in names.split():
            lines += lay_out_entry(name, command_page(name).purpose, 4, _COMMANDS)
        lines.append("")
    lines.append("TOOLS:")
    for subject, names in SUBJECTS.items():
        lines += lay_out_entry(subject, names, 4, _OPTIONS)
    lines.append("")
    for topic in dict.fromkeys(row.group for row in OPTIONS):
        lines.append(f"{topic}:")
        for row in [row for row in OPTIONS if row.group == topic]:
            left = ", ".join(row.names) + (f" {row.value}" if row.value else "")
            lines += lay_out_entry(left, row.help, 4, _OPTIONS)
        lines.append("")
    return "\n".join([*lines, "EXAMPLES:", EXAMPLES])
