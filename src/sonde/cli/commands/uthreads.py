"""``sonde uthreads``: the threads that a program in Java, or any other, starts."""

from __future__ import annotations

from .runtimes import HEAD, Runtime, RuntimeProbes, choose_process, find_runtimes, seconds_of, trace, wanted_languages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
uthreads: show the threads that a program starts, by the names that Java has for them, or by the function

USAGE
  sonde uthreads [OPTIONS] PID
  sonde uthreads [OPTIONS] -c COMMAND

OPTIONS
  -l, --language NAME  java for Java's threads only, c or none for pthread_create() only. Without, what the process has

COLUMNS
  TIME(s)   seconds since the tracing began
  TID       the thread that starts or stops; for pthread, the one that starts another
  EVENT     start or stop of a thread of Java; pthread for a call of pthread_create()
  NAME      the thread's name in Java; the function that it begins in

EXAMPLE
  # sonde uthreads -l java 5120
  Tracing threads (java). Ctrl-C to end.
  TIME(s)     TID     EVENT   NAME
  2.104317    5177    start   worker-one
  2.104839    5177    stop    worker-one

NEEDS
  uprobes; a C library with symbols, or Java built with --enable-dtrace

NOTES
  threadsnoop shows the same of all processes.
"""

_ROW = "threads(elapsed / 1000000000, elapsed / 1000 % 1000000"


def main(parsed: Parsed) -> int:
    """Trace; the exit status."""
    seconds_of("uthreads", choose_process(parsed, "uthreads"), 0)
    return trace("uthreads", script(_runtimes(parsed), parsed.named.get("language", "") != "java"), parsed)


def _runtimes(parsed: Parsed) -> list[Runtime]:
    from ...errors import UsageError
    if wanted_languages(parsed, _needs, "c", "none") in (["c"], ["none"]):
        return []
    try:
        return find_runtimes(parsed, _needs)
    except UsageError:
        if parsed.named.get("language"):
            raise
        return []


def _needs(language: RuntimeProbes) -> tuple[str, ...]:
    return language.threads


def script(runtimes: list[Runtime], native: bool) -> str:
    """The program for these runtimes, and pthread_create() if ``native``."""
    subject = ", ".join([*[runtime.name for runtime in runtimes], *["pthread"] * native])
    return "".join([
        HEAD, 'table threads { "TIME(s)": "%4llu.%06llu"; TID: "%-7d"; EVENT: "%-7s"; NAME: "%s"; }\n',
        f'begin {{ printf("Tracing threads ({subject}). Ctrl-C to end.\\n"); heading(threads); }}\n',
        *[runtime.clause([probe], f'{_ROW}, arg3, "{probe.rpartition("_")[2]}", str(arg0, arg1 + 1));')
          for runtime in runtimes for probe in runtime.language.threads],
        *[f"uprobe:{library}:pthread_create\n"
          f'/{condition}exists("uprobe:libpthread:pthread_create") && (!has_cpid || pid == cpid || in_family)/\n'
          f'{{ {_ROW}, tid, "pthread", usym(arg2)); }}\n'
          for library, condition in (("libpthread", ""), ("libc", "!")) if native]])
