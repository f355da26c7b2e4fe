"""``sonde ugc``: the garbage collections of a program in Python, Java, Ruby or Node, as they end."""

from __future__ import annotations

from .generated import number_option, quote_string
from .runtimes import HEAD, Collection, Runtime, RuntimeProbes, choose_process, find_runtimes, seconds_of, trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
ugc: show the garbage collections of a program in Python, Java, Ruby or Node, and how long each takes

USAGE
  sonde ugc [OPTIONS] PID
  sonde ugc [OPTIONS] -c COMMAND

OPTIONS
  -l, --language NAME  java, node, python or ruby. Without, what the process has
  -m, --milliseconds   times in milliseconds instead of microseconds
  -M, --least MS       only collections that took at least so many milliseconds
  -F, --filter TEXT    only those whose KIND contains TEXT

COLUMNS
  TIME(s)   when it ended, in seconds since the tracing began
  LAT(us)   microseconds that it took
  LAT(ms)   with -m: milliseconds
  FREED     objects that were collected (Python); kilobytes (1024) that a pool has fewer than before (Java)
  KIND      what was collected: a generation (Python), mark or sweep (Ruby), V8's kind (Node), full or partial (Java);
            for each of Java's pools COLLECTOR:POOL

EXAMPLE
  # sonde ugc -c 'python3 t.py'
  Tracing garbage collections (python). Ctrl-C to end.
  TIME(s)       LAT(us)    FREED KIND
     0.032187        99        0 generation 0
     0.046105       106       24 generation 0
     1.064302      1913        0 generation 2

READING
  The program does nothing else while Python collects, or Ruby, or a full collection of Java is under way.

NEEDS
  uprobes; a runtime with static probes (USDT), as ucalls needs it; Node before 19

NOTES
  Collectors that work beside the program (Java's ZGC and Shenandoah) show phases, not pauses.
"""

def main(parsed: Parsed) -> int:
    """Trace; the exit status."""
    seconds_of("ugc", choose_process(parsed, "ugc"), 0)
    text = script(parsed.named, find_runtimes(parsed, _needs))
    return trace("ugc", text, parsed)


def _needs(language: RuntimeProbes) -> tuple[str, ...]:
    return tuple(each.begin for each in language.collections)


# Tables of those of which it is known how much they freed, and of others.
_FREED = {"collections": "%8lld", "others": "%8s"}


def script(named: dict[str, str], runtimes: list[Runtime]) -> str:
    """The program for these options and runtimes."""
    subject = ", ".join(runtime.name for runtime in runtimes)
    unit, form = ("LAT(ms)", "%5llu.%03llu") if "milliseconds" in named else ("LAT(us)", "%9llu")
    pairs = [(runtime, which) for runtime in runtimes for which in runtime.language.collections]
    clauses = [_collection(runtime, which, index, named) for index, (runtime, which) in enumerate(pairs)]
    return "".join([  # a thread may end within a collection: the oldest go
        HEAD,
        *[f"let @began{index} = lruhash(max_keys);\n" for index, clause in enumerate(clauses) if clause],
        f'table collection {{ "TIME(s)": "%4llu.%06llu"; "{unit}": "{form}"; }}\n',
        *[f'table {name} {{ collection; FREED: "{freed}"; KIND: "%s%s%s"; }}\n' for name, freed in _FREED.items()],
        f'begin {{ printf("Tracing garbage collections ({subject}). Ctrl-C to end.\\n"); heading(collections); }}\n',
        *clauses])


def _collection(runtime: Runtime, which: Collection, index: int, named: dict[str, str]) -> str:
    """The clauses of a collection: its begin is kept until it ends, in a map for each kind of collection."""
    begun = f"@began{index}"
    conditions = [f"$ns >= {number_option(named, 'least') * 1000000}"] if "least" in named else []
    if "filter" in named:
        conditions.append(f"strcontains($was.1, {quote_string(named['filter'])})")
    took = "$ns / 1000000, $ns / 1000 % 1000" if "milliseconds" in named else "$ns / 1000"
    table, freed = ("collections", which.freed) if which.freed else ("others", '"-"')
    shown = (f'{table}(elapsed / 1000000000, elapsed / 1000 % 1000000, {took}, {freed}, $was.1, '
             f'{which.pool} == "" ? "" : ":", {which.pool});')
    guarded = f"if ({' && '.join(conditions)}) {{ {shown} }}" if conditions else shown
    key = f"tid, (uint64){which.key}"
    return runtime.clause([which.begin], f"{begun}[{key}] = (nsecs, {which.kind}, {which.keep});") \
        + runtime.clause([which.end], f"$was = {begun}[{key}]; $ns = nsecs - $was.0; $kept = $was.2;\n"
                         f"{guarded}\ndelete({begun}, ({key}));", f"has_key({begun}, ({key}))")
