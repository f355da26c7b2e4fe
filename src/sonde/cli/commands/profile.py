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

  Prints the counts when it ends: at Ctrl-C, with the command, or after SECONDS. "-f folded" makes lines for flame
  graphs of them, "-f flamegraph" draws one.

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

COLUMNS
  @samples[KSTACK, USTACK, COMM, PID]   how often the stacks were met in this process
  @samples[KSTACK, COMM, PID]           with -K: the same without user stacks
  @samples[USTACK, COMM, PID]           with -U: the same without kernel stacks

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

NEEDS
  the kernel's software clock (perf events); with --period a processor that counts its cycles

NOTES
  49 in a second, and not 50, so that samples do not keep step with what happens at round times. A sample that falls on
  the idle thread (pid 0) is left out without -I. User stacks need frame pointers.
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
    return run_script("profile", build_script(parsed.named, words), parsed, int(words[0]) if words else 0)


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
    stacks = "ustack" if "user" in named else "kstack" if "kernel" in named else "kstack, ustack"
    subject = f"each {period} cycles" if period else f"at {hertz} Hertz"
    lines = [f'begin {{ printf("Sampling {subject}. Ctrl-C to end.\\n"); }}',
             f"hardware:cpu-cycles:{period}" if period else f"profile:hz:{hertz}",
             f"/{_build_condition(named)}/" if _build_condition(named) else "",
             f"{{ @samples[{stacks}, comm, pid] = count(); }}"]
    if words:
        lines.append(f"interval:s:{max(seconds, 1)} {{ exit(); }}")
    return "\n".join(lines) + "\n"


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
