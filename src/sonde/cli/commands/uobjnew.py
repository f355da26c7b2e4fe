"""``sonde uobjnew``: which kinds of objects a program in Java, Ruby or Tcl makes, or what sizes of memory one in C."""

from __future__ import annotations

from .generated import number_option
from .runtimes import HEAD, Runtime, RuntimeProbes, choose_process, find_runtimes, seconds_of, trace, wanted_languages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
uobjnew: count the objects that a program in Java, Ruby or Tcl makes, by type, or those of malloc() by size

USAGE
  sonde uobjnew [OPTIONS] PID [SECONDS]
  sonde uobjnew [OPTIONS] -c COMMAND [SECONDS]

  Prints the counts when it ends: at Ctrl-C, with the process, or after SECONDS.

OPTIONS
  -l, --language NAME    c, java, ruby or tcl. Without, what the process has of the latter three
  -C, --top-count N      only the N types of which there were the most objects
  -S, --top-size N       only the N types that took the most bytes

COLUMNS
  @objects[TYPE]   objects that were made
  @bytes[TYPE]     bytes of them; of Ruby only those of strings are known, of Tcl none
  @objects[SIZE], @bytes[SIZE]   with -l c: calls of malloc(), by the bytes that they asked for

EXAMPLE
  # sonde uobjnew -C 3 -c 'ruby t.rb'
  Counting new objects (ruby). Ctrl-C to end.
  @objects[Array]: 1033
  @objects[Foo]: 1200
  @objects[String]: 7207

NEEDS
  uprobes; a runtime with static probes (USDT), as ucalls needs it; with -l c a C library with symbols

NOTES
  Java has this probe switched off: start it with -XX:+ExtendedDTraceProbes, which also makes it slower. Each object
  costs a trap. What was freed again is counted too: memleak shows what is kept.
"""

def main(parsed: Parsed) -> int:
    """Trace; the exit status."""
    seconds = seconds_of("uobjnew", choose_process(parsed, "uobjnew"))
    native = wanted_languages(parsed, _needs, "c") == ["c"]
    runtimes = [] if native else find_runtimes(parsed, _needs)
    return trace("uobjnew", script(parsed.named, runtimes, seconds), parsed)


def _needs(language: RuntimeProbes) -> tuple[str, ...]:
    return tuple(probe for probe, _, _ in language.objects)


def script(named: dict[str, str], runtimes: list[Runtime], seconds: list[int]) -> str:
    """The program for these options and runtimes; without runtimes, for malloc()."""
    subject = ", ".join(runtime.name for runtime in runtimes) or "c"
    clauses = [_made(runtime) for runtime in runtimes] or [
        "uprobe:libc:malloc\n/!has_cpid || pid == cpid || in_family/\n"
        "{ @objects[arg0] = count(); @bytes[arg0] = sum(arg0); }\n"]
    tops = [(name, number_option(named, option))
            for name, option in (("@objects", "top-count"), ("@bytes", "top-size"))]
    sized = not runtimes or any(size for runtime in runtimes for _, _, size in runtime.language.objects)
    shown = [f"print({name}{f', {top}' if top else ''});" for name, top in tops
             if (top or not any(n for _, n in tops)) and (sized or name == "@objects")]
    ends = [f"interval:s:{seconds[0]} {{ exit(); }}\n"] if seconds else []
    return "".join([HEAD, f'begin {{ printf("Counting new objects ({subject}). Ctrl-C to end.\\n"); }}\n', *clauses,
                    *ends, f"end {{ {' '.join(shown)} }}\n"])


def _made(runtime: Runtime) -> str:
    return "".join(runtime.clause([probe], f"@objects[{kind}] = count();"
                                  + (f" @bytes[{kind}] = sum((uint64){size});" if size else ""))
                   for probe, kind, size in runtime.language.objects)
