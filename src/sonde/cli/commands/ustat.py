"""``sonde ustat``: what the language runtimes on this machine do, by process: calls, collections, objects ..."""

from __future__ import annotations

import os

from ...errors import UsageError
from .generated import number_option
from .runtimes import (
    BUILT,
    HEAD,
    LANGUAGES,
    Runtime,
    RuntimeProbes,
    either,
    find_runtimes,
    runtimes_in,
    seconds_of,
    trace,
    usable_of,
    wanted_languages,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
ustat: show what programs in Python, Java, Ruby, PHP ... do: calls, collections, objects, exceptions, each second

USAGE
  sonde ustat [OPTIONS] [-p PID] [INTERVAL [COUNT]]

  Prints a block each INTERVAL seconds (1), COUNT times or until Ctrl-C; a line for each process in which something
  happened.

OPTIONS
  -l, --language NAME  only java, node, perl, php, python, ruby or tcl
  -S, --sort WHAT      the most first, by: method, gc, objnew, cload, excp or thread; without, by the process's number
  -r, --rows N         at most so many lines in a block
  -C, --no-redraw      each block below the one before it

COLUMNS
  PID        process
  COMM       its thread's name
  METHOD/s   calls of functions, in a second
  GC/s       garbage collections
  OBJNEW/s   objects that were made
  CLOAD/s    classes, modules or files that were loaded
  EXCP/s     exceptions that were thrown
  THR/s      threads that were started

EXAMPLE
  # sonde ustat -C 1 1
  Tracing runtimes (java, python). Output every second.
  11:12:40 loadavg: 1.12 1.26 1.30 4/160 7003

  PID     COMM               METHOD/s       GC/s   OBJNEW/s    CLOAD/s     EXCP/s      THR/s
  6944    python3             28114.0        3.0        0.0        4.0          -        0.0
  6951    java                 9120.0        1.0     3310.0       12.0          -        1.0

READING
  A zero may also mean that a runtime has no such probe, a dash that none of them has: Python tells of calls,
  collections and imports, Ruby of all but threads, PHP of calls, loads and exceptions, Java of all but exceptions, Perl
  of calls and loads, Tcl of calls and objects, Node of collections.

NEEDS
  uprobes; runtimes with static probes (USDT), as ucalls needs them

NOTES
  The runtimes are those that processes use when it starts; further processes of the same files are seen too. Calls and
  objects of Java need -XX:+ExtendedDTraceProbes, calls of PHP USE_ZEND_DTRACE=1. A probe that is hit costs its process
  a trap: a million calls a second become a fraction of that.
"""

COLUMNS = {"method": "METHOD/s", "gc": "GC/s", "objnew": "OBJNEW/s", "cload": "CLOAD/s", "excp": "EXCP/s",
           "thread": "THR/s"}
_PARTS = ("java", "jvm", *LANGUAGES)  # in the names of files that may contain a runtime


def main(parsed: Parsed) -> int:
    """Trace; the exit status."""
    if parsed.has("cmd"):
        raise UsageError("ustat shows processes that run: -p PID for one of them")
    sort = parsed.named.get("sort", "")
    if sort and sort not in COLUMNS:
        raise UsageError(f"-S takes {', '.join(COLUMNS)}, not '{sort}'")
    numbers = seconds_of("ustat", parsed.words[1:] + parsed.rest, 2)
    runtimes = find_runtimes(parsed, _needs) if parsed.has("pid") else \
        _of_this_machine(wanted_languages(parsed, _needs))
    text = script(parsed.named, runtimes, *numbers)
    return trace("ustat", text, parsed)


def _of_this_machine(wanted: list[str]) -> list[Runtime]:
    """The runtimes in use by any process except this one."""
    from ...kernel.names.process_files import process_files
    files = {file.path for pid in os.listdir("/proc") if pid.isdigit() for file in process_files(int(pid))
             if any(part in os.path.basename(file.name) for part in _PARTS)}
    same = {(status.st_dev, status.st_ino): file for file in sorted(files, reverse=True)
            if (status := _status(file)) is not None}
    usable = usable_of([runtime for path in sorted(same.values())
                       for runtime in runtimes_in(path, f"pid != {os.getpid()}")], wanted, _needs)
    if not usable:
        raise UsageError(f"no process has static probes of {either(wanted)}", [BUILT])
    return usable


def _status(file: str) -> os.stat_result | None:
    try:
        return os.stat(file)
    except OSError:
        return None


def script(named: dict[str, str], runtimes: list[Runtime], every: int = 1, blocks: int = 0) -> str:
    """The program for these options and runtimes. What no runtime has a probe for is shown as a dash."""
    names = ", ".join(dict.fromkeys(runtime.name for runtime in runtimes))
    known = [what for what in COLUMNS
             if any(runtime.probes.intersection(_probes(runtime.language)[what]) for runtime in runtimes)]
    width = max(map(len, COLUMNS.values())) + 2
    columns = " ".join(f'"{head}": "%{width - 2}llu.%1llu";' if what in known else f'"{head}": "%{width}s";'
                       for what, head in COLUMNS.items())
    tenths = {what: f"value_of(@{what}, $process) * 10 / {every}" for what in known}
    rates = ", ".join(f"{tenths[what]} / 10, {tenths[what]} % 10" if what in known else '"-"' for what in COLUMNS)
    sort = named.get("sort")
    weight = "(int64)0xffffffff - (int64)$pair.0" if sort not in known else f"(int64)value_of(@{sort}, $pair.0)"
    return "".join([
        HEAD, "macro value_of(@map, key) { has_key(@map, key) ? (uint64)@map[key] : 0 }\n",
        f'table rates {{ PID: "%-7d"; COMM: "%-16s"; {columns} }}\n',
        f'begin {{ printf("Tracing runtimes ({names}). Output every {_seconds(every)}.\\n"); }}\n',
        *[_counts(runtime) for runtime in runtimes], f"""
interval:s:{every}
{{
	@blocks++;
	time("%H:%M:%S loadavg: ");
	cat("/proc/loadavg");
	printf("\\n");
	heading(rates);
	for ($round : 0..{number_option(named, "rows", 1000)}) {{
		$most = (int64)-1;
		$process = (uint64)0;
		for ($pair : @comm) {{
			if ({weight} > $most) {{
				$most = {weight};
				$process = (uint64)$pair.0;
			}}
		}}
		if ($most < 0) {{
			break;
		}}
		rates($process, @comm[$process], {rates});
		delete(@comm, $process);
	}}
	printf("\\n");
	clear(@comm);
	{" ".join(f"clear(@{what});" for what in known)}
	{f"if (@blocks >= {blocks}) {{ exit(); }}" if blocks else ""}
}}
"""])


def _seconds(every: int) -> str:
    return "second" if every == 1 else f"{every} seconds"


def _needs(language: RuntimeProbes) -> list[str]:
    return [name for names in _probes(language).values() for name in names]


def _probes(language: RuntimeProbes) -> dict[str, tuple[str, ...]]:
    """The probes whose hits are counted, by column."""
    return {"method": language.counts, "gc": tuple(each.begin for each in language.collections[:1]),
            "objnew": tuple(probe for probe, _, _ in language.objects), "cload": language.loads,
            "excp": language.thrown, "thread": language.threads[:1]}


def _counts(runtime: Runtime) -> str:
    return "".join(runtime.clause(names, f"@{what}[(uint64)pid] = sum(1); @comm[(uint64)pid] = comm;")
                   for what, names in _probes(runtime.language).items())
