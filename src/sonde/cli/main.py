"""The command line: a thin layer over :mod:`sonde.library.trace`."""

from __future__ import annotations

import os
import sys
from errno import EMFILE

from ..base.module_cache import keep_pack
from ..base.version import __version__
from ..errors import AttachError, CompileError, SondeError, UsageError, VerifierError
from ..kernel import notices
from ..source import Source, shorten_message
from . import commands
from .command_table import COMMANDS
from .options import Parsed, parse_command_line
from .requests import (
    ask_for_recording,
    new_trace,
    options_and_process,
    options_of,
    options_of_tool,
    pid_of,
    print_to_stderr,
    program_of,
)
from .script_run import run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from ..compiling import Show
    from ..source import Diagnostic


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status. Never ends in a traceback."""
    if argv is None:
        _have_standard_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    parsed: Parsed | None = None
    try:
        parsed = parse_command_line(arguments, options_of_tool)
        status = _dispatch_command(parsed)
        if argv is None and (parsed.command == "top" or not parsed.command and not sys.warnoptions):
            _exit_at_once(status)
        return status
    except SondeError as error:
        return _report_error(error, parsed, arguments)
    except BrokenPipeError:
        _give_up_stdout()
        return 0
    except KeyboardInterrupt:
        return 130
    except RecursionError:
        print_to_stderr("ERROR: the program is nested too deeply")
        return 1
    except MemoryError:
        os.write(2, b"ERROR: out of memory\n")  # without what more memory would be needed for
        return 1
    except OSError as error:  # a full disk, a terminal that is gone
        _give_up_stdout()
        where = f"{error.filename}: " if error.filename and error.errno != EMFILE else ""  # then: Sonde's own modules
        _print_error(f"{where}{error.strerror or error}", [])
        return 1
    except Exception as error:  # a mistake of Sonde's own: said in a line, in full with -v
        if isinstance(error, ImportError) and os.strerror(EMFILE) in str(error):  # a module of Python's
            _print_error(os.strerror(EMFILE), [])
            return 1
        if parsed is not None and parsed.has("verbose"):
            raise
        print_to_stderr(f"ERROR: internal error, please report it: {type(error).__name__}: {error}\n"
                  "HINT: -v shows where it happened")
        return 1


def _report_error(error: SondeError, parsed: Parsed | None, arguments: Sequence[str]) -> int:
    """Say what is wrong; the exit status."""
    if isinstance(error, CompileError):
        for text in commands.compile_findings(error, parsed):
            print_to_stderr(text)
        return _status_of_findings([item for item in error.diagnostics if item.severity == "ERROR"])
    if isinstance(error, VerifierError):
        _explain_rejection(error, parsed is not None and parsed.has("verbose"))
        return 255  # as bpftrace
    _print_error(error.message, error.hints)
    return 255 if isinstance(error, AttachError) else 1  # as bpftrace


def _print_error(message: str, hints: Sequence[str]) -> None:
    """An error in words. What lacks a descriptor lacks nothing else."""
    if os.strerror(EMFILE).lower() in message.lower():
        hints = ["the limit of open files is too low: ulimit -n 65536 raises it"]
    for line in [f"ERROR: {shorten_message(message)}", *[f"HINT: {shorten_message(hint)}" for hint in hints]]:
        print_to_stderr(line)


def _status_of_findings(errors: Sequence[Diagnostic]) -> int:
    """The exit status of a script that does not compile, as bpftrace's."""
    if any(item.code == "header-not-found" or item.code == "config-value" and item.span is None for item in errors):
        return 2
    return 255 if errors and all(item.code in _REFUSED_WHEN_ATTACHING for item in errors) else 1


_REFUSED_WHEN_ATTACHING = ("mid-instruction", "no-boundary", "outside-function")  # by bpftrace


def _have_standard_streams() -> None:
    """Open to nowhere what the caller has closed: else the kernel gives its number to a map or a ring."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def _exit_at_once(status: int) -> NoReturn:
    """End without taking the interpreter apart: a tenth of a short run, and a quarter of a second of what Textual has
    made. Not where warnings were asked for (-W), which tell then of what was left open."""
    sys.stdout.flush()
    sys.stderr.flush()
    keep_pack()
    if (patterns := sys.modules.get("sonde.base.regex_cache")) is not None:
        patterns.keep_patterns()
    os._exit(status)


def _give_up_stdout() -> None:
    """Nobody reads on: let the interpreter's own flush at exit go nowhere, also where there is no descriptor left."""
    os.close(1)
    null = os.open(os.devnull, os.O_WRONLY)
    if null != 1:
        os.dup2(null, 1)
        os.close(null)


def _explain_rejection(error: VerifierError, verbose: bool) -> None:
    from ..source import ERROR, Diagnostic
    hints = [] if verbose else ["-v shows the verifier's log"]
    print_to_stderr(Diagnostic(ERROR, "verifier", f"{error.message}: {error.cause}" if error.cause not in error.message
                         else error.message, error.span, hints).render())
    if verbose:
        print_to_stderr(error.log)


# --- commands ---------------------------------------------------------------------------------------------


def _dispatch_command(parsed: Parsed) -> int:
    notices.tell = print_to_stderr
    words = parsed.words
    if not parsed.given and sys.stdout.isatty():
        from .first_words import FIRST_WORDS
        sys.stdout.write(FIRST_WORDS)
        return 0
    if parsed.command == "record" and (words or parsed.has("e")):
        ask_for_recording(parsed)
    if parsed.has("heatmap") and parsed.options.setdefault("format", "heatmap") != "heatmap":
        raise UsageError(f"one form at a time: --heatmap or -f {parsed.get('format')}")
    tool = words[0] if words and not parsed.has("e") else ""
    if parsed.has("help") and not tool and not parsed.command:
        from .pages.overview import overview
        sys.stdout.write(overview())
        return 0
    if parsed.has("version"):
        sys.stdout.write(f"sonde v{__version__}\n")
        return 0
    if parsed.has("info"):
        return _print_info()
    if any(map(parsed.has, ("debuginfo", "debuginfod", "traceable-functions", "btf"))):
        _look_elsewhere(parsed)
    if parsed.has("list"):
        return _list_probes(parsed)
    if parsed.first in COMMANDS:
        return commands.run_command(parsed.first, parsed)
    if parsed.command and not words and not parsed.has("e"):
        return commands.run_command(parsed.command, parsed)
    if parsed.command == "top" and words:
        from .commands.top import is_recording, look_back
        if is_recording(words[0]):
            return look_back(parsed)
    return _trace_script(parsed)


def _look_elsewhere(parsed: Parsed) -> None:
    from ..kernel.places import set_debuginfod_servers, set_search_places
    if parsed.has("debuginfod"):
        set_debuginfod_servers(parsed.get("debuginfod"))
    set_search_places(parsed.get("debuginfo"), parsed.get("traceable-functions"),
                      "" if parsed.first in ("check", "doctor", "lsp", "tools") else parsed.get("btf"))


def _print_info() -> int:
    from ..kernel.info import info_rows
    from ..kernel.types.world import LiveWorld
    section = ""
    for title, name, value in info_rows(LiveWorld().features, __version__):
        if title != section:
            sys.stdout.write(f"{section and chr(10)}{title}\n")
            section = title
        sys.stdout.write(f"  {name}: {value}\n")
    return 0


def _list_probes(parsed: Parsed) -> int:
    from ..kernel.types.listing import listing_lines, missing_kind_hints
    from ..kernel.types.world import LiveWorld
    from ..output.text import encode_text, terminal_safe
    from .script_names import FILE, classify_word
    patterns = [word for word in (parsed.get("list"), *parsed.words) if word]
    script = parsed.has("e") or patterns and classify_word(patterns[0]) == FILE and os.path.isfile(patterns[0])
    pid = pid_of(parsed)
    world = LiveWorld()
    missing = []
    for wanted in _points_of_script(parsed, patterns) if script else patterns or [""]:
        is_known = False
        for line in listing_lines(world, wanted, parsed.has("verbose"), pid):
            is_known = True
            sys.stdout.buffer.write(encode_text(terminal_safe(line) + "\n"))
        if not is_known and wanted:
            missing.append(wanted)
    sys.stdout.flush()
    for wanted in missing:
        from .meant_words import hints_of_probe
        message = f"ERROR: No matches for {wanted}." if script else _describe_no_match(wanted)
        print_to_stderr("\n".join([message, *[f"HINT: {hint}" for hint in missing_kind_hints(world, wanted)
                                              or hints_of_probe(wanted, world.tracepoints())]]))
    return 1 if script and missing else 0


def _describe_no_match(pattern: str) -> str:
    if not pattern.endswith(".bt"):
        return f"WARNING: nothing matches {pattern!r}"
    return f"WARNING: It appears that '{pattern}' is a filename but the file does not exist. Treating '{pattern}' " \
        "as a search pattern."


def _points_of_script(parsed: Parsed, words: list[str]) -> list[str]:
    """The attach points of a script, for -l."""
    from ..language.diagnostics import Diagnostics
    from ..language.parser import parse_script as parse_script
    from .script_names import read_script
    diagnostics = Diagnostics()
    script = parse_script(Source("stdin", parsed.get("e")) if parsed.has("e") else read_script(words[0]), diagnostics)
    diagnostics.raise_if_errors()
    from ..kinds import find_kind
    points = []
    for parts in [point.parts for clause in script.clauses for point in clause.points]:
        kind = find_kind(parts[0])
        if kind is None:
            points.append(":".join(parts))
        elif not kind.session or kind.iterates:
            points.append(":".join([kind.name, *parts[1:2], ""] if kind.counted else [kind.name, *parts[1:]]))
    return points


def _trace_script(parsed: Parsed) -> int:
    source, params = program_of(parsed)
    if source is None:
        return 0
    if parsed.has("fmt") or parsed.get("mode") == "format":
        return _print_formatted(source, params, parsed)
    from ..compiling import live_world
    if "--help" in params:
        from ..compiling.named_parameters import parameter_hints
        sys.stderr.write(f"HINT: {parameter_hints(source, options_of(parsed, params), live_world().release)}")
        return 1
    options, process = options_and_process(parsed, params)
    show = _stage_printer(parsed.get("debug"), parsed.tool) if parsed.has("debug") else None
    trace = new_trace(source, options, process, parsed, show)
    from .commands import startup_warnings
    for text in startup_warnings(trace.spec, parsed, options.pid) if options.warnings else []:
        print_to_stderr(text)
    if show is not None or parsed.get("mode") == "codegen":
        return 0
    if options.cpid and not parsed.tool and not parsed.has("quiet"):
        from .commands.narrowing import command_remark
        if remark := command_remark(options, trace.spec):
            print_to_stderr(remark)
    if parsed.get("mode") == "compiler-bench":
        from .tests_and_benchmarks import benchmark_compiler
        return benchmark_compiler(trace.source, trace.options, trace.world, parsed.get("format", "text"))
    return run(trace, parsed)


def _print_formatted(source: Source, params: list[str], parsed: Parsed) -> int:
    from ..compiling import format_source
    from .requests import open_output
    formatted = format_source(source, params)
    with open(open_output(parsed), "wb", closefd=parsed.has("output")) as out:
        out.write(formatted.encode("utf-8", "surrogateescape"))
    return 0


def _stage_printer(wanted: str, tool: str = "") -> Show:
    """-d: print the stages that were asked for, a list with commas."""
    from ..compiler.pipeline import BPFTRACE_STAGES, STAGES
    stages = {BPFTRACE_STAGES.get(name, name) for name in wanted.split(",")}
    for unknown in sorted(stages - {"all", *STAGES}):
        from .meant_words import refuse_choice
        refuse_choice(f"USAGE: invalid option for -d: {unknown}", unknown, ("all", *STAGES), [
            f"{tool} has no -d of its own: see sonde {tool} --help"] if tool else [
            f"stages are: all, {', '.join(STAGES)}"])

    def print_stage(stage: str, text: str) -> None:
        if "all" in stages or stage in stages:
            sys.stdout.write(f"; --- {stage}\n{text.rstrip()}\n")
    return print_stage
