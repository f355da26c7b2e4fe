"""``sonde uflow``: the calls and returns of functions in a program in Python, Java, Ruby ..., as they happen."""

from __future__ import annotations

from .generated import quote_string
from .runtimes import HEAD, Runtime, RuntimeProbes, choose_process, find_runtimes, seconds_of, trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
uflow: show the calls and returns of functions in a program in Python, Java, Ruby, PHP, Perl or Tcl

USAGE
  sonde uflow [OPTIONS] PID
  sonde uflow [OPTIONS] -c COMMAND

OPTIONS
  -l, --language NAME  java, perl, php, python, ruby or tcl. Without, what the process has
  -M, --method TEXT    only methods whose name begins with TEXT
  -C, --class TEXT     only classes (Python: files) whose name begins with TEXT

COLUMNS
  CPU        where it ran
  PID        process
  TID        thread
  TIME(us)   microseconds since the tracing began
  METHOD     "->" a call, "<-" a return, and CLASS.METHOD, further to the right within calls that are shown

EXAMPLE
  # sonde uflow -c 'env USE_ZEND_DTRACE=1 php t.php'
  Tracing calls (php). Ctrl-C to end.
  CPU PID     TID     TIME(us)     METHOD
  1   32104   32104   36316        -> main
  1   32104   32104   1037213        -> outer
  1   32104   32104   1037330          -> Foo.leaf
  1   32104   32104   1037401          <- Foo.leaf
  1   32104   32104   1039110        <- outer
  1   32104   32104   1540390      <- main

NEEDS
  uprobes; a runtime with static probes (USDT), as ucalls needs it

NOTES
  What ucalls's NOTES say of the runtimes holds here too. Of Python 3.11 returns are shown, and hardly any call. Calls
  deeper than 15 stand in the column of the fifteenth. A return whose call began before the tracing stands at the left.
"""

_DEEPEST = 15
_SPACES = " " * (2 * _DEEPEST)


def main(parsed: Parsed) -> int:
    """Trace; the exit status."""
    seconds_of("uflow", choose_process(parsed, "uflow"), 0)
    return trace("uflow", script(parsed.named, find_runtimes(parsed, _needs)), parsed)


def _needs(language: RuntimeProbes) -> tuple[str, ...]:
    return language.enter + language.leave


def script(named: dict[str, str], runtimes: list[Runtime]) -> str:
    """The program for these options and runtimes."""
    subject = ", ".join(runtime.name for runtime in runtimes)
    return "".join([
        HEAD,
        "let @depth = hash(max_threads);\n",
        'table flow { CPU: "%-3d"; PID: "%-7d"; TID: "%-7d"; "TIME(us)": "%-12llu"; METHOD: "%s%s%s%s%s"; }\n',
        f'begin {{ printf("Tracing calls ({subject}). Ctrl-C to end.\\n"); heading(flow); }}\n',
        f"macro shown(arrow, depth, owner, method) {{\n"
        f'flow(cpu, pid, tid, elapsed / 1000,\n'
        f'    str("{_SPACES}", (depth < {_DEEPEST} ? depth : {_DEEPEST}) * 2 + 1), arrow, owner, '
        f'owner == "" ? "" : ".", method); }}\n',
        *[_flow(runtime, named) for runtime in runtimes],
        "tracepoint:sched:sched_process_exit { delete(@depth, tid); }\n"])


def _flow(runtime: Runtime, named: dict[str, str]) -> str:
    language = runtime.language
    begins = [(language.owner, named.get("class", "")), (language.method, named.get("method", ""))]
    condition = " && ".join(f"strncmp({value}, {quote_string(text)}, {len(text.encode())}) == 0"
                            for value, text in begins if text)
    names = f"{language.owner}, {language.method}"
    return runtime.clause(language.enter, f'shown("-> ", @depth[tid], {names}); @depth[tid]++;', condition) \
        + runtime.clause(language.leave, "if (@depth[tid] > 0) { @depth[tid]--; }\n"
                         f'shown("<- ", @depth[tid], {names});', condition)
