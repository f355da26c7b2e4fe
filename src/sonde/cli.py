"""The command line: a thin face on :mod:`sonde.api`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import commands
from .commands import COMMANDS
from .errors import CompileError, OptionError, SondeError, UsageError, VerifierError, shortened
from .kernel import notices
from .language.source import Source
from .options import TOOL as TOOLS_OWN
from .options import Option, Parsed, budget_of, parse, usage
from .ownership import open_guarded
from .scripts import COMMAND, FILE, LARGEST, TOOL, meaning, read_script, script_of

if TYPE_CHECKING:
    from .api import Trace
    from .monitor import Follower
    from .output import Output
    from .output.views import Showing
    from .semantics.typed import Options

VERSION = "0.1.0"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status. Never ends in a traceback."""
    if argv is None:
        _have_standard_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    parsed: Parsed | None = None
    try:
        parsed = parse(arguments, _tool_options)
        status = _dispatch(parsed)
        if argv is None and parsed.command == "top":
            from .monitor import leave
            leave(status)
        return status
    except CompileError as error:
        for text in commands.findings(error, parsed):
            complain(text)
        return 2 if any(item.code == "header-not-found" for item in error.diagnostics) else 1  # as bpftrace
    except VerifierError as error:
        _explain_rejection(error, parsed is not None and parsed.has("verbose"))
        return 255  # as bpftrace
    except OptionError as error:
        complain("\n".join([f"ERROR: {shortened(error.message)}", *[f"HINT: {hint}" for hint in error.hints]]))
        if arguments[0].startswith("-"):
            complain("\n" + usage())
        return 1
    except SondeError as error:
        complain(f"ERROR: {shortened(error.message)}")
        for hint in error.hints:
            complain(f"HINT: {shortened(hint)}")
        return 1
    except BrokenPipeError:
        _give_up_stdout()
        return 0
    except KeyboardInterrupt:
        return 130
    except RecursionError:
        complain("ERROR: the program is nested too deeply")
        return 1
    except MemoryError:
        complain("ERROR: out of memory")
        return 1
    except OSError as error:  # a full disk, a terminal that is gone
        _give_up_stdout()
        complain(f"ERROR: {f'{error.filename}: ' if error.filename else ''}{error.strerror or error}")
        return 1
    except Exception as error:  # a mistake of Sonde's own: said in a line, in full with -v
        if parsed is not None and parsed.has("verbose"):
            raise
        complain(f"ERROR: internal error, please report it: {type(error).__name__}: {error}\n"
                  "HINT: -v shows where it happened")
        return 1


def _have_standard_streams() -> None:
    """Open to nowhere what the caller has closed: else the kernel gives its number to a map or a ring."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def complain(text: str) -> None:
    """A message for people, on standard error. Names of files and functions in it steer no terminal."""
    from .output.text import terminal_safe
    sys.stdout.flush()
    sys.stderr.write(terminal_safe(text).encode("utf-8", "backslashreplace").decode("utf-8") + "\n")


def _give_up_stdout() -> None:
    """Nobody reads on: let the interpreter's own flush at exit go nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)


def _explain_rejection(error: VerifierError, verbose: bool) -> None:
    from .language.diagnostics import ERROR, Diagnostic
    hints = [] if verbose else ["-v shows the verifier's log"]
    complain(Diagnostic(ERROR, "verifier", f"{error.message}: {error.cause}" if error.cause not in error.message
                         else error.message, error.span, hints).render())
    if verbose:
        complain(error.log)


# --- commands ---------------------------------------------------------------------------------------------


def _dispatch(parsed: Parsed) -> int:
    notices.tell = complain
    words = parsed.words
    if parsed.has("heatmap") and parsed.options.setdefault("format", "heatmap") != "heatmap":
        raise UsageError(f"one form at a time: --heatmap or -f {parsed.get('format')}")
    tool = words[0] if words and not parsed.has("e") else ""
    if parsed.has("help") and not tool and not parsed.command:
        sys.stdout.write(usage())
        return 0
    if parsed.has("version"):
        sys.stdout.write(f"sonde v{VERSION}\n")
        return 0
    if parsed.has("info"):
        return _info()
    if parsed.has("debuginfo") or parsed.has("traceable-functions"):
        _look_elsewhere(parsed)
    if parsed.has("list"):
        return _list(parsed)
    if parsed.first in COMMANDS:
        return commands.run(parsed.first, parsed)
    if parsed.command and not words and not parsed.has("e"):
        return commands.run(parsed.command, parsed)
    return _trace(parsed)


def _look_elsewhere(parsed: Parsed) -> None:
    from .kernel.places import look_for
    look_for(parsed.get("debuginfo"), parsed.get("traceable-functions"))


def _tool_options(name: str) -> list[Option]:
    """The own options of the tool or command called ``name``; none if there is neither."""
    from . import tools
    kind = meaning(name)
    tool = commands.page(name) if kind == COMMAND else tools.find(name) if kind == TOOL else None
    return [Option(row.names, row.value, TOOLS_OWN, row.help) for row in tool.options] if tool else []


def _info() -> int:
    from .kernel.info import info
    from .kernel.world import LiveWorld
    section = ""
    for title, name, value in info(LiveWorld().features, VERSION):
        if title != section:
            sys.stdout.write(f"{section and chr(10)}{title}\n")
            section = title
        sys.stdout.write(f"  {name}: {value}\n")
    return 0


def _list(parsed: Parsed) -> int:
    from .kernel.listing import listing, why_nothing
    from .kernel.world import LiveWorld
    from .output.text import encode, terminal_safe
    pattern = parsed.get("list") or (parsed.words[0] if parsed.words else "")
    pid = pid_of(parsed)
    found = False
    world = LiveWorld()
    for wanted in _points(parsed, pattern):
        for line in listing(world, wanted, parsed.has("verbose"), pid):
            found = True
            sys.stdout.buffer.write(encode(terminal_safe(line) + "\n"))
    sys.stdout.flush()
    if not found and pattern:
        file = pattern.endswith(".bt")
        complain("\n".join([f"WARNING: It appears that '{pattern}' is a filename but the file does not exist. Treating "
                            f"'{pattern}' as a search pattern." if file else f"WARNING: nothing matches {pattern!r}",
                            *[f"HINT: {hint}" for hint in why_nothing(world, pattern)]]))
    return 0


def _points(parsed: Parsed, pattern: str) -> list[str]:
    """What -l is to list: a pattern, or the attach points of a script."""
    if not parsed.has("e") and not (meaning(pattern) == FILE and os.path.isfile(pattern)):
        return [pattern]
    from .language.diagnostics import Diagnostics
    from .language.parser import parse as parse_script
    diagnostics = Diagnostics()
    script = parse_script(Source("stdin", parsed.get("e")) if parsed.has("e") else read_script(pattern), diagnostics)
    diagnostics.check()
    from .semantics.providers import find_provider
    points = [point.parts for clause in script.clauses for point in clause.points]
    with_count = ("interval", "profile", "software", "hardware")
    kinds = [(found.name if (found := find_provider(parts[0])) is not None else parts[0]) for parts in points]
    return [":".join([kind, *parts[1:2], ""] if kind in with_count else [kind, *parts[1:]])
            for kind, parts in zip(kinds, points) if kind not in ("begin", "end", "self", "test", "bench")]


def kernel_of(parsed: Parsed) -> Any:
    """The World to compile for: this machine, or the kernel whose BTF --btf names."""
    if parsed.has("btf"):
        from .kernel.recorded import BtfWorld
        return BtfWorld(parsed.get("btf"))
    from .api import live_world
    return live_world()


def _trace(parsed: Parsed) -> int:
    source, params = program_of(parsed)
    if source is None:
        return 0
    if parsed.has("fmt") or parsed.get("mode") == "format":
        return _format(source, params)
    from .api import live_world
    if "--help" in params:
        from .parameters import parameter_hints
        sys.stderr.write(f"HINT: {parameter_hints(source, options_of(parsed, params), live_world().release)}")
        return 1
    options, process = options_and_process(parsed, params)
    show = _shower(parsed.get("debug"), parsed.tool) if parsed.has("debug") else None
    trace = new_trace(source, options, process, parsed, show)
    from .commands import warnings
    for text in warnings(trace.spec, parsed, options.pid) if options.warnings else []:
        complain(text)
    if show is not None or parsed.get("mode") == "codegen":
        return 0
    if parsed.get("mode") == "compiler-bench":
        from .selftest import benchmark_compiler
        return benchmark_compiler(trace, parsed.get("format", "text"))
    return run(trace, parsed)


def _format(source: Source, params: list[str]) -> int:
    from .api import format
    formatted = format(source, params)
    sys.stdout.buffer.write(formatted.encode("utf-8", "surrogateescape"))
    sys.stdout.flush()
    return 0


def permitted(world: Any, parsed: Parsed) -> Any:
    """The World without the features that --no-feature denies."""
    from .api import Without
    denied = [name for name in parsed.get("no-feature").split(",") if name]
    return Without(world, frozenset(denied)) if denied else world


def program_of(parsed: Parsed) -> tuple[Source | None, list[str]]:
    """The script, and the parameters given to it; None if only a tool's help was wanted."""
    words = parsed.words
    if parsed.has("e") and not parsed.get("e"):
        raise UsageError("USAGE: filename or -e 'program' required.")
    if parsed.has("e"):
        return Source("stdin", parsed.get("e")), words + parsed.rest
    if not words:
        complain(usage())
        raise UsageError("USAGE: filename or -e 'program' required.")
    name, params = words[0], words[1:] + parsed.rest
    if name == "-":
        return script_of("stdin", sys.stdin.buffer.read(LARGEST + 1)), params
    from . import tools
    tool = tools.find(name) if meaning(name) == TOOL else None
    if tool is None and not os.path.exists(name):
        from .language.diagnostics import nearest
        raise UsageError(f"failed to open file '{name}': No such file or directory",
                         [f"did you mean the tool {c}?" for c in nearest(name, tools.names())[:1]])
    if tool is not None:
        if parsed.has("help"):
            sys.stdout.write(tools.help(tool))
            return None, []
        from .tools.arguments import check, probes_by_regex
        for warning in check(tool, params, parsed.named):
            complain(warning)
        if parsed.named.pop("regexp", ""):
            params[0], parsed.options["probe-filter"] = probes_by_regex(params[0])
        if parsed.has("pid"):
            tool.check_process()
        parsed.columns, parsed.tool, parsed.process_option = tool.columns, tool.name, tool.process_option
        if tool.parameters[:1] == ["SECONDS"]:
            parsed.seconds = seconds_of(params) * (seconds_of(params[1:]) or 1)
        elif "duration" in parsed.named:
            parsed.seconds = seconds_of([parsed.named["duration"]])
    return read_script(name), params


def pid_of(parsed: Parsed) -> int:
    """The number of -p, 0 without it."""
    if not parsed.has("pid"):
        return 0
    text = parsed.get("pid")
    if not text.removeprefix("-").isdecimal() or not text.isascii():
        wrong = "trailing bytes" if text[:1].isdigit() else "integer"
        raise UsageError(f"Failed to parse pid: invalid {wrong}: {text}")
    if not 0 < int(text) <= 1 << 22:
        raise UsageError(f"Pid out of range: {text}", [f"a process has a number from 1 to {1 << 22}"])
    return int(text)


def process_of(parsed: Parsed) -> Any:
    """The process of -p or -c; None without either."""
    from .runtime.child import Child, Process
    if parsed.has("cmd") and parsed.has("pid"):
        raise UsageError("USAGE: Cannot use both -c and -p.")
    if parsed.has("cmd"):
        return Child(parsed.get("cmd"))
    pid = pid_of(parsed)
    return Process(pid) if pid else None


def options_of(parsed: Parsed, params: list[str]) -> Options:
    """What the command line asks of the compiler, with a script's parameters."""
    from .api import environment
    from .semantics.typed import Options
    named = dict(parsed.named)
    plain = []
    for word in params:
        if word.startswith("--") and len(word) > 2:
            name, _, value = word[2:].partition("=")
            named[name] = value
        else:
            plain.append(word)
    if parsed.get("B", "line") not in ("line", "full", "none"):
        raise UsageError("USAGE: -B must be either 'line', 'full', or 'none'.")
    viewed = parsed.get("format", "text") not in ("text", "json")
    if viewed:
        from .output.views import view_class
        view_class(parsed.get("format"))
    return Options(params=plain, named=named, pid=pid_of(parsed), unsafe=parsed.has("unsafe"), mode=_mode(parsed),
                   warnings=not parsed.has("no-warnings"), count_reads=parsed.has("warnings"),
                   probe_filter=parsed.get("probe-filter"), timed=viewed or _watched(parsed), env=environment(),
                   directories=parsed.get("I").split("\n") if parsed.has("I") else [],
                   headers=parsed.get("include").split("\n") if parsed.has("include") else [])


def options_and_process(parsed: Parsed, params: list[str]) -> tuple[Options, Any]:
    """What is asked of the compiler, and the process of -p or -c. A tool or command that can be limited to a process
    traces that of -c alone; a script asks for ``cpid`` itself."""
    options = options_of(parsed, params)
    process = process_of(parsed)
    if parsed.has("cmd"):
        options.cpid = process.pid
        if parsed.process_option == "pid":
            options.pid = process.pid
        elif parsed.process_option:
            options.named.setdefault(parsed.process_option, str(process.pid))
    return options, process


def new_trace(source: Source, options: Options, process: Any, parsed: Parsed, show: Any = None) -> Trace:
    """The trace of a script, as the options of the command line have it."""
    from .api import Trace, live_world
    from .memory import Memory, parse_memory
    measured = parsed.has("stats") or options.mode == "bench" or bool(parsed.command)
    memory = parse_memory(parsed.get("memory")) if parsed.has("memory") else Memory()
    trace = Trace(source, options, process, permitted(live_world(), parsed), True, measured, show, memory,
                  budget_of(parsed))
    trace.words = parsed.given
    return trace


def seconds_of(params: list[str]) -> int:
    """For how long to trace, where that is the first parameter; 0 if there is none."""
    return int(params[0]) if params and params[0].isascii() and params[0].isdigit() else 0


_WATCHING = {"count", "redraw"}  # options whose runs monitor.py looks after


def _watched(parsed: Parsed) -> bool:
    """Whether the run needs more than printing what comes. Plain runs do not import what finds it out."""
    if not (parsed.tool or parsed.seconds or parsed.command or parsed.options.keys() & _WATCHING
            or parsed.get("format") == "heatmap"):
        return False
    from .monitor import watched
    return watched(parsed)


_MODES = ("trace", "test", "bench", "format", "codegen", "compiler-bench")


def _mode(parsed: Parsed) -> str:
    """test, bench, or "" for tracing."""
    asked = {name for name in ("test", "bench") if parsed.has(name) or parsed.get("mode") == name}
    if len(asked) > 1:
        raise UsageError("tests and benchmarks are run one at a time: --test or --bench")
    if parsed.has("mode") and parsed.get("mode") not in _MODES:
        raise UsageError("USAGE: --mode can only be 'codegen', 'compiler-bench', 'bench', 'test' or 'format'.",
                         ["and 'trace', which is what happens without it"])
    return next(iter(asked), "")


def _shower(wanted: str, tool: str = "") -> Any:
    """-d: print the stages that were asked for, a list with commas."""
    from .compiler.pipeline import BPFTRACE_STAGES, STAGES
    stages = {BPFTRACE_STAGES.get(name, name) for name in wanted.split(",")}
    for unknown in sorted(stages - {"all", *STAGES}):
        raise UsageError(f"USAGE: invalid option for -d: {unknown}", [
            f"{tool} has no -d of its own: see sonde {tool} --help"] if tool else [
            f"stages are: all, {', '.join(STAGES)}"])

    def show(stage: str, text: str) -> None:
        if "all" in stages or stage in stages:
            sys.stdout.write(f"; --- {stage}\n{text.rstrip()}\n")
    return show


# --- tracing ----------------------------------------------------------------------------------------------


def run(trace: Trace, parsed: Parsed) -> int:
    """Attach, print until the end, print maps and losses, detach."""
    from .output import output
    _be_called("sonde")
    if parsed.command:
        from .monitor import show
        return show(trace, parsed)
    showing = _showing(trace, parsed)
    descriptor = open_output(parsed)
    follower = _follower(trace, parsed, showing)
    if follower is not None and follower.screen is not None:
        out: Output = follower.screen
        if showing is not None:
            showing.text = out
            showing.open(descriptor)
    elif showing is not None:
        out = showing.open(descriptor)
    else:
        out = output(parsed.get("format", "text"), descriptor, 2, parsed.get("B", "line"), parsed.has("quiet"),
                     trace.ending)
    try:
        with trace:
            return _print_all(trace, parsed, out, showing, follower)
    finally:
        if follower is not None and follower.screen is not None:
            follower.screen.leave()
        out.flush(True)
        out.close()
        if showing is not None:
            showing.close()
        if descriptor != 1:
            os.close(descriptor)


def _showing(trace: Trace, parsed: Parsed) -> Showing | None:
    """The view of -f, if it asks for one and the script has what it shows."""
    name = parsed.get("format", "text")
    if name in ("text", "json"):
        return None
    from .output.views import Showing
    if trace.options.mode:
        raise UsageError("tests and benchmarks are printed as text or json")
    return Showing(name, trace.spec, parsed.get("output"), parsed.has("quiet"), parsed.get("title"), parsed.get("unit"),
                   trace.ending, trace.memory, parsed.columns)


def _be_called(name: str) -> None:
    """In ps, and for scripts that leave out the tracer by ``comm``."""
    try:
        with open("/proc/self/comm", "w", encoding="ascii") as file:
            file.write(name)
    except OSError:
        pass


def open_output(parsed: Parsed) -> int:
    """A descriptor of -o's file, or 1."""
    if not parsed.has("output"):
        return 1
    path = parsed.get("output")
    try:
        return open_guarded(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    except OSError as error:
        raise UsageError(f'Failed to open output file: "{path}": {error.strerror}') from None


def _follower(trace: Trace, parsed: Parsed, showing: Showing | None) -> Follower | None:
    """The run loop of what is redrawn, counted or looked at; None if records are just to be printed."""
    if not _watched(parsed) or trace.options.mode:
        return None
    from . import monitor
    return monitor.Follower(trace, parsed, monitor.blocks(trace, parsed, showing),
                            showing.sample if showing is not None else None)


def _print_all(trace: Trace, parsed: Parsed, out: Output, showing: Showing | None = None,
               follower: Follower | None = None) -> int:
    from .output import Printer
    from .output.losses import report_losses, report_unfinished
    session = trace.session
    if showing is not None:
        printer: Printer = showing.printer(trace.spec, trace.context, trace.take, trace.act, trace.options.warnings)
    else:
        printer = Printer(trace.spec, trace.context, out, trace.take, trace.options.warnings,
                          parsed.columns if parsed.get("format") == "json" else ())
    printer.ending = trace.ending
    for warning in session.warnings:
        out.note(f"WARNING: {warning.message}")
        for hint in warning.hints if parsed.has("verbose") else []:
            out.note(f"HINT: {hint}")
    if trace.retried is not None and parsed.has("verbose"):
        out.note(f"reads kernel memory with helper calls: {trace.retried.cause}")
    printer.is_incomplete, session.tell = session.is_incomplete, out.note
    trace.keeps_maps = False
    if os.isatty(2) and not parsed.has("quiet"):
        trace.when_reading(_reading_bar())
    if not parsed.has("dry-run"):
        if not trace.options.mode:
            out.attached(trace.session.attached)
            out.flush()
        if os.environ.get("__BPFTRACE_NOTIFY_PROBES_ATTACHED"):
            out.write_text(b"__BPFTRACE_NOTIFY_PROBES_ATTACHED\n")
            out.flush(True)
    else:
        return 0
    if parsed.has("verbose"):
        from .verbose import say_how
        say_how(trace, out)
    for path in session.pinned:
        out.note(f"Pinned: cat {path} runs it; rm {path} removes it")
    if trace.options.mode:
        return _rehearse(trace, printer, out, parsed.get("format", "text"))
    if follower is not None:
        follower.run(printer, out.flush)
        follower.rest(printer)
    else:
        _follow(trace, printer, out, showing)
        printer.show(trace.rest(), trace.act)
    printer.final_maps()
    if showing is not None:
        showing.finish(trace.provenance)
    if trace.options.warnings:
        report_losses(out, session.losses(), reads=True, asked=parsed.has("warnings"))
        report_unfinished(out, printer.commands_left)
    if showing is None and parsed.has("output") and session.losses():
        out.run(trace.provenance)
    if parsed.has("stats"):
        from .runtime.statistics import costs
        out.statistics(costs(session))
    if session.detaching:
        out.note(f"Detaching {session.detaching} probes, which this kernel does one by one ...")
    out.flush(True)
    return session.status if session.reason == "exit" else 0


def _reading_bar() -> Any:
    """Says how far the reading of a large map is."""
    bars: list[Any] = []

    def tell(name: str, done: int, whole: int) -> None:
        from .output.progress import progress
        bar = bars[0] if bars else progress()
        bars[:] = [bar]
        if bar is not None:
            bar.show(f"reading {name}", done, whole, "keys")
            if done >= whole:
                bar.clear()
    return tell


def _follow(trace: Trace, printer: Any, out: Output, showing: Showing | None) -> None:
    """Print what comes until the script has ended."""
    session = trace.session
    while not session.done:
        printer.show(trace.records(), trace.act)
        if session.asked:
            session.asked = False
            if showing is None:  # a view is made once, at the end
                printer.maps()
        out.flush()


def _rehearse(trace: Trace, printer: Any, out: Output, form: str) -> int:
    """Run tests or benchmarks between begin and end."""
    from . import selftest
    printer.show(trace.records(0), trace.act)
    status = (selftest.run_tests if trace.options.mode == "test" else selftest.run_benchmarks)(trace, out, form)
    printer.show(trace.rest(), trace.act)
    return status
