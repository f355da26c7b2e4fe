"""``sonde ucalls``: how often functions of a program in Python, Java, Ruby ... are called, and how long they take."""

from __future__ import annotations

from ...errors import UsageError
from .generated import number_option
from .runtimes import HEAD, Runtime, RuntimeProbes, choose_process, find_runtimes, seconds_of, trace, wanted_languages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
ucalls: count the calls of functions in a program in Python, Java, Ruby, PHP, Perl or Tcl

USAGE
  sonde ucalls [OPTIONS] PID [SECONDS]
  sonde ucalls [OPTIONS] -c COMMAND [SECONDS]

  Prints the counts when it ends: at Ctrl-C, with the process, or after SECONDS.

OPTIONS
  -l, --language NAME  java, perl, php, python, ruby or tcl; none for system calls only. Without, what the process has
  -T, --top N          the N functions with the most calls, or the most time
  -L, --latency        how long the calls take too
  -m, --milliseconds   times in milliseconds instead of microseconds
  -S, --syscalls       the process's system calls too

COLUMNS
  @calls[CLASS, METHOD]   calls; Python has the file in the place of the class, Perl the package, Tcl nothing
  @us[CLASS, METHOD]      with -L: calls that began and ended meanwhile, their average and their sum in microseconds
  @ms[CLASS, METHOD]      with -L -m: the same in milliseconds
  @syscalls[NAME]         with -S: system calls
  @syscall_us[NAME], @syscall_ms[NAME]   with -S -L: how often, their average and their sum

EXAMPLE
  # sonde ucalls -L -c 'env USE_ZEND_DTRACE=1 php t.php'
  Counting calls (php). Ctrl-C to end.
  @us[Foo, leaf]: { .count = 10, .average = 66, .total = 661 }
  @us[, outer]: { .count = 1, .average = 1523, .total = 1523 }
  @us[, main]: { .count = 1, .average = 1505107, .total = 1505107 }

  # sonde ucalls -T 3 3520
  Counting calls (java). Ctrl-C to end.
  @calls[java/lang/StringLatin1, inflate]: 1202
  @calls[java/lang/String, charAt]: 8610
  @calls[java/lang/StringLatin1, charAt]: 8610

READING
  The time of a call has in it what it calls, and what it waits for.

NEEDS
  uprobes; a runtime with static probes (USDT): Python 3.6 to 3.11 built --with-dtrace, Ruby, PHP, Java and Tcl built
  --enable-dtrace, Perl with -Dusedtrace. Debian's Python 3.11, Ruby, PHP and OpenJDK have them

NOTES
  Each call costs one or two traps, tens of microseconds under a hypervisor. Java has these probes switched off: start
  it with -XX:+ExtendedDTraceProbes; PHP with USE_ZEND_DTRACE=1 in its environment. Python 3.11 meets its probe of a
  function's begin hardly ever: calls are counted as they return, and -L has nothing to measure there. Ruby 3.1 meets
  the probes of its built-in methods only, and may crash by a fault of its own while they are on (rb_dtrace_setup, with
  classes without a name). With -c the command itself is counted, not what it starts.
"""


def _needs(language: RuntimeProbes) -> tuple[str, ...]:
    return language.counts


def main(parsed: Parsed) -> int:
    """Trace; the exit status."""
    words = choose_process(parsed, "ucalls")
    seconds = seconds_of("ucalls", words)
    none = wanted_languages(parsed, _needs, "none") == ["none"]
    if none and "syscalls" not in parsed.named:
        raise UsageError("-l none leaves nothing to count without -S")
    return trace("ucalls", script(parsed.named, [] if none else find_runtimes(parsed, _needs), seconds), parsed)


def script(named: dict[str, str], runtimes: list[Runtime], seconds: list[int]) -> str:
    """The program for these options and runtimes."""
    subject = ", ".join(runtime.name for runtime in runtimes) or "system calls"
    timed = "latency" in named
    unit, divisor = ("ms", 1000000) if "milliseconds" in named else ("us", 1000)
    clauses = [_timed(runtime, unit, divisor) if timed else _counted(runtime) for runtime in runtimes]
    maps = [f"@{unit}" if timed else "@calls"] if runtimes else []
    if "syscalls" in named:
        clauses.append(_syscalls(timed, unit, divisor))
        maps.append(f"@syscall_{unit}" if timed else "@syscalls")
    top = number_option(named, "top")
    shown = " ".join(f"print({name}{f', {top}' if top else ''});" for name in maps)
    ends = [f"interval:s:{seconds[0]} {{ exit(); }}\n"] if seconds else []
    sizes = "let @depth = lruhash(max_keys);\nlet @began = lruhash(max_keys);\n"  # a thread may end within its calls
    return "".join([HEAD, sizes if timed and runtimes else "",
                    f'begin {{ printf("Counting calls ({subject}). Ctrl-C to end.\\n"); }}\n', *clauses, *ends,
                    f"end {{ {shown} }}\n"])


def _counted(runtime: Runtime) -> str:
    language = runtime.language
    return runtime.clause(language.counts, f"@calls[{language.owner}, {language.method}] = count();")


def _timed(runtime: Runtime, unit: str, divisor: int) -> str:
    """The clauses with times; a call within a call of the same method is timed separately."""
    language = runtime.language
    who = f"$who = (tid, {language.owner}, {language.method});"
    return runtime.clause(language.enter, f"{who} @depth[$who]++; @began[$who, @depth[$who]] = nsecs;") \
        + runtime.clause(language.leave, f"""\
{who}
if (has_key(@depth, $who)) {{
	$depth = @depth[$who];
	@{unit}[$who.1, $who.2] = stats((nsecs - @began[$who, $depth]) / {divisor});
	delete(@began, ($who, $depth));
	if ($depth > 1) {{ @depth[$who] = $depth - 1; }} else {{ delete(@depth, $who); }}
}}""")


def _syscalls(timed: bool, unit: str, divisor: int) -> str:
    mine = "/!has_cpid || pid == cpid || in_family/"
    if not timed:
        return f"tracepoint:raw_syscalls:sys_enter {mine} {{ @syscalls[syscall_name(args.id)] = count(); }}\n"
    return ("let @entered = hash(max_threads);\n"
            f"tracepoint:raw_syscalls:sys_enter {mine} {{ @entered[tid] = nsecs; }}\n"
            f"tracepoint:raw_syscalls:sys_exit /has_key(@entered, tid)/ {{\n"
            f"@syscall_{unit}[syscall_name(args.id)] = stats((nsecs - @entered[tid]) / {divisor});\n"
            f"delete(@entered, tid); }}\n"
            "tracepoint:sched:sched_process_exit { delete(@entered, tid); }\n"
            "tracepoint:sched:sched_process_exec { delete(@entered, (uint32)args.old_pid); }\n")
