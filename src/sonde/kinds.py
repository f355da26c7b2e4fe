"""Kinds of probes and of event sites: what every room needs to know about each.

How a probe is written and expanded is in semantics/providers.py, how it is attached in runtime/attach/links.py, and how
it is listed in kernel/types/listing.py.
"""

from __future__ import annotations

from .base.record import Record


class ProbeKind(Record):
    """``aliases``: other ways to write it. ``session``: the session runs its programs, the kernel attaches nothing.
    ``exempt``: rare, and scripts depend on each event: no budget holds it back. ``newest_first``: of several programs
    the kernel runs the one first that was attached last. ``twin``: the kind that may serve the same functions, where
    the kernel has only one of the two. ``feature`` is what a kernel with this kind has, ``multi`` what one has that
    attaches many at once. ``exit`` is the kind of the same functions' returns."""

    name: str
    aliases: tuple[str, ...] = ()
    session: bool = False
    own: bool = False            # fires at the script's beginning, at its end, or by a signal to Sonde
    exercise: bool = False       # runs when that is asked for (--mode test, bench), and not while tracing
    exempt: bool = False
    returns: bool = False        # fires when a function ends
    typed: bool = False          # its arguments have the types of the kernel's type information
    user: bool = False           # in programs and libraries
    function: bool = False       # at a function's entry or end
    signals: bool = False        # signal() can be used: there is a task that is traced
    registers: bool = False      # reg() has those of the traced code
    counted: bool = False        # its last part is a number: a period, events per firing
    ticks: bool = False          # fires by the clock, so attached when all else is: the first time counts from there
    samples: bool = False        # fires by the clock, to see what is running
    iterates: bool = False       # fires once for each object of the kernel, when somebody reads it
    shares_link: bool = False    # one link may have programs for the entries and for the returns of its functions
    newest_first: bool = False
    twin: str = ""
    exit: str = ""
    feature: str = ""
    multi: str = ""
    programs: tuple[str, ...] = ("tracing",)  # the types of program that its clauses may become


_RAW, _PERF, _PROBE = ("raw_tracepoint",), ("perf_event",), ("kprobe",)
KINDS = {kind.name: kind for kind in (
    ProbeKind("begin", ("BEGIN",), session=True, own=True, exempt=True, programs=_RAW),
    ProbeKind("end", ("END",), session=True, own=True, exempt=True, programs=_RAW),
    ProbeKind("self", session=True, own=True, exempt=True, programs=_RAW),
    ProbeKind("tracepoint", ("t",), signals=True, programs=("raw_tracepoint", "tracepoint")),
    ProbeKind("rawtracepoint", ("rt",), signals=True, programs=_RAW),
    ProbeKind("kprobe", ("k",), function=True, signals=True, registers=True, newest_first=True, twin="fentry",
              exit="kretprobe", shares_link=True, feature="kprobes", multi="kprobe_multi", programs=_PROBE),
    ProbeKind("kretprobe", ("kr",), function=True, signals=True, returns=True, registers=True, newest_first=True,
              twin="fexit", shares_link=True, feature="kprobes", multi="kprobe_multi", programs=_PROBE),
    ProbeKind("fentry", ("f", "kfunc"), function=True, signals=True, typed=True, newest_first=True, twin="kprobe",
              exit="fexit", feature="fentry", multi="tracing_multi"),
    ProbeKind("fexit", ("fr", "kretfunc"), function=True, signals=True, returns=True, typed=True, newest_first=True,
              twin="kretprobe", feature="fentry", multi="tracing_multi"),
    ProbeKind("uprobe", ("u",), function=True, signals=True, user=True, registers=True, newest_first=True,
              exit="uretprobe", feature="uprobes", multi="uprobe_multi", programs=_PROBE),
    ProbeKind("uretprobe", ("ur",), function=True, signals=True, returns=True, user=True, registers=True,
              newest_first=True, feature="uprobes", multi="uprobe_multi", programs=_PROBE),
    ProbeKind("usdt", ("U",), signals=True, user=True, registers=True, newest_first=True, feature="uprobes",
              multi="uprobe_multi", programs=_PROBE),
    ProbeKind("interval", ("i",), exempt=True, counted=True, ticks=True, programs=_PERF),
    ProbeKind("profile", ("p",), signals=True, registers=True, counted=True, ticks=True, samples=True, programs=_PERF),
    ProbeKind("software", ("s",), registers=True, counted=True, programs=_PERF),
    ProbeKind("hardware", ("h",), registers=True, counted=True, programs=_PERF),
    ProbeKind("watchpoint", ("w",), registers=True, programs=_PERF),
    ProbeKind("iter", ("it",), signals=True, session=True, exempt=True, iterates=True),
    ProbeKind("test", ("TEST",), session=True, exercise=True, exempt=True, programs=_RAW),
    ProbeKind("bench", ("BENCH",), session=True, exercise=True, exempt=True, programs=_RAW),
)}
_BY_NAME = {name: kind for kind in KINDS.values() for name in (kind.name, *kind.aliases)}


MOST_SLOW_LINKS = 20  # links closed one by one, each with a pause of the kernel's, for which the results still wait


def find_kind(name: str) -> ProbeKind | None:
    """The kind that ``name`` or an alias means, in any case of letters."""
    return _BY_NAME.get(name) or _BY_NAME.get(name.lower())


def kind_names() -> list[str]:
    """Every spelling, for hints."""
    return list(_BY_NAME)


def tracing_kinds() -> tuple[str, ...]:
    """The names of the kinds whose programs the kernel calls with typed arguments, and trusts with more."""
    return tuple([kind.name for kind in KINDS.values() if kind.programs == ("tracing",)])


def kinds_with(fact: str) -> tuple[str, ...]:
    """The names of the kinds of which a fact is true."""
    return tuple([kind.name for kind in KINDS.values() if getattr(kind, fact)])


class SiteKind(Record):
    """Of an event site: its records go by the ``control`` ring; ``data`` is what :class:`~sonde.spec.EventSite` has in
    ``data``, and ``fields`` how many fields at least. What a kind's records hold is said there."""

    name: str
    data: tuple[str, ...] = ()
    fields: int = 0
    control: bool = False
    formatted: bool = False   # ``parts`` is a format, with a conversion for each field
    shows: bool = False       # prints values of the script: an event of it can be a row of a table
    outside: bool = False     # printing it acts on the machine: a recording has the result, and no flight has such
    silent: bool = False      # prints nothing, so it is carried out even when there is no time to print
    empties: bool = False     # takes all elements of a map, or their values
    of_map: bool = False      # is about a whole map
    answers: bool = True      # a question to a recording can have it: needs no machine


SITE_KINDS = {kind.name: kind for kind in (
    SiteKind("printf", formatted=True, shows=True),
    SiteKind("print", fields=1, shows=True),
    SiteKind("time", ("format",)),
    SiteKind("join", ("separator",), fields=1, answers=False),
    SiteKind("cat", formatted=True, outside=True, answers=False),
    SiteKind("system", formatted=True, outside=True, answers=False),
    SiteKind("nstat", outside=True),
    SiteKind("skboutput", ("path",), fields=2, outside=True, answers=False),
    SiteKind("print_map", ("map",), control=True, of_map=True),
    SiteKind("clear", ("map",), control=True, silent=True, empties=True, of_map=True),
    SiteKind("zero", ("map",), control=True, silent=True, empties=True, of_map=True),
    SiteKind("exit", control=True, silent=True),
    SiteKind("dump", ("why",), control=True, answers=False),
)}
