"""``sonde profile``: the stacks that run on the CPUs, sampled."""

from __future__ import annotations

from ...base.numbers import parse_whole
from ...errors import UsageError
from ...tools.tool_arguments import check_processes
from .generated import number_list_option, number_option, run_script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
profile: sample the stacks that run on the CPUs, and count them

USAGE
  sonde profile [OPTIONS] [-c COMMAND] [SECONDS]
  sonde profile --lines [--file NAME] [-f text | html | csv | json] [OPTIONS] [-c COMMAND] [SECONDS]

  Prints the counts when it ends: at Ctrl-C, with the command, or after SECONDS. "-f folded" makes lines for flame
  graphs of them, "-f flamegraph" draws one. With --lines it shows the lines of Python's source that ran.

OPTIONS
  -p, --processes PIDS  only these processes: 1, or 1,200, or 1-99
  -L, --threads TIDS    only these threads
  -F, --frequency HZ    samples in a second, on each CPU (49)
  --period N            instead a sample each N cycles of the processor, as its counters count them
  -U, --user            user stacks only
  -K, --kernel          kernel stacks only
  -C, --cpu N           only what runs on this CPU
  -I, --idle            also CPUs that have nothing to do
  --cgroup PATH         only processes in this control group, a folder of /sys/fs/cgroup
  --lines               lines of Python's source, with what ran in each, instead of stacks
  --file NAME           with --lines: all lines of the files whose path ends with this, and no others

COLUMNS
  @samples[KSTACK, USTACK, COMM, PID]   how often the stacks were met in this process
  @samples[KSTACK, COMM, PID]           with -K: the same without user stacks
  @samples[USTACK, COMM, PID]           with -U: the same without kernel stacks

  with --lines, of each line: TOTAL% of all samples in Python functions with what it called, SELF% in the line itself,
  NATIVE% and KERNEL% of them in native code and in the kernel, SAMPLES in the line itself

EXAMPLE
  # sonde profile -K -c 'dd if=/dev/zero of=/dev/null bs=1M count=5000 status=none'
  Sampling at 49 Hertz. Ctrl-C to end.
  [...]
  @samples[
          rep_stos_alternative+64
          iov_iter_zero+181
          read_zero+42
          vfs_read+180
          ksys_read+111
          do_syscall_64+113
          entry_SYSCALL_64_after_hwframe+118
  , dd, 5022]: 31

  # sonde profile --lines -F 199 -p 4242 8
  /srv/shop.py: 99.7% itself, 99.7% with what it calls
  TOTAL%  SELF% NATIVE% KERNEL%    SAMPLES   LINE  SOURCE
                                                4  def count_stock(n):
                                                5      total = 0
    14.4   14.4             1.2         49      6      for i in range(n):
    32.3   32.3             0.6        110      7          total += i * i
            8.8                                            _PyObject_Malloc (libpython3.12.so.1.0)
                                                8      return total
     ...
                                               16  def report():
    33.4   33.4    32.3     1.2        114     17      return zlib.compress(DATA, 9)
           29.6                                        deflate (libz.so.1.2.13)
  [...]
  341 samples in Python functions
  1 of them in lines that are not shown

NEEDS
  the kernel's software clock (perf events); with --period a processor that counts its cycles; --lines CPython 3.11 to
  3.14 on x86_64 and Linux 5.17

NOTES
  49 in a second, and not 50, so that samples do not keep step with what happens at round times. A sample that falls on
  the idle thread (pid 0) is left out without -I. User stacks need frame pointers.

  --lines shows lines that took 1 % themselves, or 5 % with what they call, and two lines around each; under a line the
  functions that ran there (three, of 1 % and more). Time is native where any file but the interpreter's own and the C
  library ran for the line: an extension module, or a library that it calls. Functions in C within the interpreter's
  file (sum(), sorted()) count as Python's own, and stand under their line. A line that waits takes no CPU: see sonde
  flame --off-cpu.

  Sources are read as the process's user sees them: in its container, and none that the user may not read. It is said
  of a file if it changed after the process began, for then other lines may have run. -f csv and -f json have all lines.
  -f lines does the same for any script that counts by pystack.
"""

LIMIT = 4096  # CPUs


def main(parsed: Parsed) -> int:
    """Trace; the exit status."""
    words = parsed.words[1:] + parsed.rest
    if parsed.has("follow"):
        from ..requests import hand_over_process
        parsed.process_option = "processes"
        hand_over_process(parsed)
    if "processes" in parsed.named:
        check_processes("--processes", parsed.named["processes"])
    script = build_script(parsed.named, words)
    if "lines" in parsed.named:
        _show_lines(parsed)
    elif "file" in parsed.named:
        raise UsageError("--file is for --lines: all lines of that file")
    return run_script("profile", script, parsed, int(words[0]) if words else 0)


def _show_lines(parsed: Parsed) -> None:
    """Have the counts shown beside the lines. UsageError if a process cannot be followed."""
    for pid in parsed.named.get("processes", "").split(","):
        if pid.isdecimal():
            from ...kernel.names.python_process import PythonProcess
            PythonProcess(int(pid))
    form = parsed.get("format", "lines")
    if form in ("text", "html", "csv", "json"):
        parsed.options["lines-form"] = form
    elif form not in ("lines", "recording"):
        raise UsageError(f"--lines is shown as text, html, csv or json, not as {form}",
                         ["without --lines the stacks have the other forms"])
    parsed.options["format"] = form if form == "recording" else "lines"
    parsed.options["lines-file"] = parsed.named.get("file", "")
    parsed.options["unit"] = "samples"


def build_script(named: dict[str, str], words: list[str]) -> str:
    """The program for these options and words; UsageError if they make no sense."""
    seconds = parse_whole(words[0]) if words else 0
    if len(words) > 1 or seconds is None:
        raise UsageError(f"profile takes a number of SECONDS, not '{' '.join(words)}'", ["see sonde profile --help"])
    if "user" in named and "kernel" in named:
        raise UsageError("one at a time: -U user stacks or -K kernel stacks")
    hertz, period = number_option(named, "frequency", 49, 20000), number_option(named, "period", 0, 10**9)
    if period and "frequency" in named:
        raise UsageError("one at a time: -F samples in a second or --period cycles")
    if "lines" in named:
        return _build_lines_script(named, hertz, period, max(seconds, 1) if words else 0)
    stacks = "ustack" if "user" in named else "kstack" if "kernel" in named else "kstack, ustack"
    subject = f"each {period} cycles" if period else f"at {hertz} Hertz"
    lines = [f'begin {{ printf("Sampling {subject}. Ctrl-C to end.\\n"); }}',
             f"hardware:cpu-cycles:{period}" if period else f"profile:hz:{hertz}",
             f"/{_build_condition(named)}/" if _build_condition(named) else "",
             f"{{ @samples[{stacks}, comm, pid] = count(); }}"]
    if words:
        lines.append(f"interval:s:{max(seconds, 1)} {{ exit(); }}")
    return "\n".join(lines) + "\n"


def _build_lines_script(named: dict[str, str], hertz: int, period: int, seconds: int) -> str:
    """Stacks by the second: the files of a process are read while it is there."""
    from ...compiling import live_world
    from ...semantics.context import unwinding_obstacle
    if "user" in named or "kernel" in named:
        raise UsageError("--lines shows Python's, native and kernel time: it takes neither -U nor -K")
    native = "ustack" if unwinding_obstacle(live_world()) else "dw_ustack"
    condition = _build_condition(named)
    lines = ["config = { max_map_keys = 16384 }",
             f"hardware:cpu-cycles:{period}" if period else f"profile:hz:{hertz}",
             f"/{condition}/" if condition else "",
             f"{{ @samples[pid, pystack, {native}, kstack] = count(); }}",
             "interval:s:1 { print(@samples); clear(@samples); }"]
    return "\n".join([*lines, f"interval:s:{seconds} {{ exit(); }}" if seconds else ""]) + "\n"


def _build_condition(named: dict[str, str]) -> str:
    from .generated import quote_string
    parts = [] if "idle" in named else ["pid != 0"]
    for option, builtin in (("processes", "pid"), ("threads", "tid")):
        if number_list_option(named, option):
            parts.append(f'one_of({builtin}, "{number_list_option(named, option)}")')
    if "cpu" in named:
        cpu = parse_whole(named["cpu"], LIMIT - 1)
        if cpu is None:
            raise UsageError(f"--cpu takes the number of a CPU, not '{named['cpu']}'")
        parts.append(f"cpu == {cpu}")
    if "cgroup" in named:
        parts.append(f"cgroup == cgroupid({quote_string(named['cgroup'])})")
    return " && ".join(parts)
