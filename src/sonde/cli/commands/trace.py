"""``sonde trace``: a line for each event of a probe, with a filter and a format, like bcc's trace."""

from __future__ import annotations

import os
import re

from ...base.numbers import parse_whole
from ...errors import UsageError
from .generated import number_option, quote_string, run_script
from .specifiers import Specifier, read_specifier, split_at_closing, split_outside_brackets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
trace: show each event of some probes: who, where, and what a format makes of the arguments

USAGE
  sonde trace [OPTIONS] [-p PID] PROBE [PROBE ...]

  PROBE is one word of the shell, in bcc's form:
    [p|r]:[LIBRARY]:FUNCTION[+OFFSET][(SIGNATURE)] [(CONDITION)]
        ["FORMAT", VALUES]
    t:CATEGORY:EVENT [(CONDITION)] ["FORMAT", VALUES]
    u:LIBRARY:PROBE [(CONDITION)] ["FORMAT", VALUES]
  p is the entry of a function, r its return, t a tracepoint, u a static probe of a program (USDT). LIBRARY is a path, a
  program, or a library's name without lib: c. Without one the function is the kernel's.

OPTIONS
  -t, --elapsed        a column with the seconds since the tracing began
  -u, --unix           with -t: seconds since 1970
  -T, --timestamp      a column with the time
  -C, --print-cpu      a column with the CPU
  -L, --tid TID        only this thread
  --uid UID            only processes of this user, by number
  -n, --name NAME      only threads whose name contains NAME
  -M, --max-events N   end after so many lines
  -z, --size BYTES     characters of a string at most
  -K, --kernel-stack   the kernel's stack after each line
  -U, --user-stack     the user's
  -S, --self           also Sonde's own events
  --cgroup PATH        only processes in this control group, a folder of /sys/fs/cgroup

COLUMNS
  TIME(s)   seconds since the tracing began (with -t)
  TIME      when, as HH:MM:SS (with -T)
  CPU       where (with -C)
  PID       process
  TID       thread
  COMM      the thread's name
  FUNC      the function, event or probe
  MSG       what the format makes of the values

EXAMPLE
  # sonde trace -M 2 't:syscalls:sys_enter_openat "%s", args->filename'
  PID     TID     COMM            FUNC             MSG
  3860    3860    cat             sys_enter_openat /etc/ld.so.cache
  3860    3860    cat             sys_enter_openat /etc/hostname

  # sonde trace -TC 'p:c:write(int fd, char *buf, size_t count) (fd == 1 && count > 3) "%d bytes", count'
  TIME     CPU PID     TID     COMM            FUNC             MSG
  06:37:34 0   3885    3885    sh              write            6 bytes
  06:37:34 0   3888    3888    head            write            8192 bytes

NEEDS
  what the probes need: functions of the kernel CONFIG_KPROBES or fentry

NOTES
  Values and conditions are expressions of C: arg1 to arg6, the names of the signature, retval, args->FIELD, and $pid
  (the thread), $tgid, $uid, $gid, $cpu, $task; STRCMP("text", value) compares strings. %s prints the string at an
  address, %K the kernel's symbol of one, %U the user's. A signature's types are known to the kernel's BTF, or plain
  ones of C. A FUNCTION of one word, without colons, is the kernel's.
"""

_CONVERSION = re.compile(r"%(?:%|[-+ #0-9.]*(?:hh|h|ll|l|z|j|t)?[a-zA-Z])")


def main(parsed: Parsed) -> int:
    """Trace; the exit status."""
    return run_script("trace", build_script(parsed.named, parsed.words[1:] + parsed.rest), parsed, advice=True)


def build_script(named: dict[str, str], probes: list[str]) -> str:
    """The program for these options and probes; UsageError if they make no sense."""
    if not probes:
        raise UsageError("trace needs a PROBE", ["sonde trace 't:syscalls:sys_enter_openat \"%s\", args->filename'"])
    if "unix" in named and "elapsed" not in named:
        raise UsageError("-u is about the times of -t: give both")
    columns, values = _build_columns(named)
    size = number_option(named, "size", 0, 4096)
    config = f"max_strlen = {size}; " if size else ""
    lines = [f"config = {{ {config}print_maps_on_exit = false }}", f"table event {{ {columns} }}",
             'table events { event; MSG: "%s"; }', "begin { heading(events); }"]
    for index, text in enumerate(probes):
        probe = read_specifier(text)
        condition, message, arguments = _parse_message(probe)
        conditions = [*_build_filters(named), *([f"({condition})"] if condition else [])]
        message, arguments = _message_columns(message, arguments)
        stacks = [stack for name, stack in (("kernel-stack", "kstack"), ("user-stack", "ustack")) if name in named]
        below = " ".join(f'{stack.upper()}: "\\n%s";' for stack in stacks)
        row = ", ".join([*values, quote_string(probe.name), *arguments, *stacks])
        lines += [f"table event{index} {{ event; {message} {below} }}", probe.attach_point,
                  f"/{' && '.join(conditions)}/" if conditions else "",
                  f"{{ {_build_action(named, f'event{index}({row});')} }}"]
    return "\n".join(lines) + "\n"


def _build_columns(named: dict[str, str]) -> tuple[str, list[str]]:
    """The columns before the message, and their values but for the last one's."""
    rows = [("elapsed", "TIME(s)", "%-15s", 'strftime("%s.%f", nsecs)') if "unix" in named else
            ("elapsed", "TIME(s)", "%4lld.%06lld", "elapsed / 1000000000, elapsed % 1000000000 / 1000"),
            ("timestamp", "TIME", "%-8s", 'strftime("%H:%M:%S", nsecs)'), ("print-cpu", "CPU", "%-3d", "cpu"),
            ("", "PID", "%-7d", "pid"), ("", "TID", "%-7d", "tid"), ("", "COMM", "%-15s", "comm")]
    shown = [row for row in rows if not row[0] or row[0] in named]
    columns = " ".join(f'"{head}": "{form}";' for _, head, form, _ in shown)
    return f'{columns} FUNC: "%-16s";', [row[3] for row in shown]


def _message_columns(message: str, arguments: list[str]) -> tuple[str, list[str]]:
    """A column for each line of a message, as each needs a value: what has none is one."""
    columns, values, left = [], [], list(arguments)
    for number, line in enumerate(message.split("\n")):
        count = sum(conversion != "%%" for conversion in _CONVERSION.findall(line))
        values += left[:count] if count else [quote_string(line.replace("%%", "%"))]
        form = line if count else "%s"
        columns.append(f"MSG{number + 1 if number else ''}: {quote_string(chr(10) * (number > 0) + form)};")
        del left[:count]
    return " ".join(columns), values


def _build_filters(named: dict[str, str]) -> list[str]:
    filters = [] if "self" in named else [f"pid != {os.getpid()}"]
    for option, builtin in (("tid", "tid"), ("uid", "uid")):
        if option in named:
            number = parse_whole(named[option])
            if number is None:
                raise UsageError(f"--{option} is a whole number, not '{named[option]}'")
            filters.append(f"{builtin} == {number}")
    if "name" in named:
        filters.append(f"strcontains(comm, {quote_string(named['name'])})")
    if "cgroup" in named:
        filters.append(f"cgroup == cgroupid({quote_string(named['cgroup'])})")
    return filters


def _parse_message(probe: Specifier) -> tuple[str, str, list[str]]:
    """Condition, format and values in the text after a probe."""
    condition, rest = "", probe.rest
    if rest.startswith("("):
        condition, rest = split_at_closing(rest[1:])
    if not rest.strip():
        return probe.translate_expression(condition), "", []
    form, *values = split_outside_brackets(rest, ",")
    if len(form) < 2 or form[0] != '"' or form[-1] != '"':
        raise UsageError(f"'{rest.strip()}': a format stands in quotation marks", ['"read %d bytes", arg3'])
    form = form.strip('"').replace('\\"', '"').replace("\\n", "\n").replace("\\t", "\t")
    conversions = [conversion for conversion in _CONVERSION.findall(form) if conversion != "%%"]
    if len(conversions) != len(values):
        raise UsageError(f"the format has {len(conversions)} conversions, and there are {len(values)} values: {rest}")
    shown = iter(conversions)
    wraps = {"s": "str", "K": "ksym", "U": "usym"}
    arguments = [f"{wraps[c[-1]]}({value})" if c[-1] in wraps else value
                 for c, value in zip(shown, map(probe.translate_expression, values))]
    return probe.translate_expression(condition), re.sub(r"(%[-0-9.]*)[KU]", r"\1s", form), arguments


def _build_action(named: dict[str, str], row: str) -> str:
    most = number_option(named, "max-events")
    if not most:
        return row
    return f"@events++; if (@events <= {most}) {{ {row} }} if (@events >= {most}) {{ exit(); }}"
