"""What the command line asks for: the script, the options, the process, and the trace of it."""

from __future__ import annotations

import os
import sys

from ..base.numbers import parse_whole
from ..base.trusted_files import open_guarded
from ..errors import UsageError
from ..source import Source
from ..types import GROUPS
from . import commands
from .display_choice import count, is_watched, makes_recording, parse_memory
from .options import TOOL as TOOLS_OWN
from .options import Option, Parsed, budget_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..base.json_checks import Json, JsonObject
    from ..compiling import Show
    from ..library.trace import Trace
    from ..recording.recorder import RecordingTrace
    from ..runtime.traced_command import Process
    from ..semantics.script_options import Options
    from ..semantics.world import World
    from ..tools import Tool


def print_to_stderr(text: str) -> None:
    """A message for people, on standard error. Names of files and functions in it steer no terminal."""
    from ..output.text import terminal_safe
    sys.stdout.flush()
    sys.stderr.write(terminal_safe(text).encode("utf-8", "backslashreplace").decode("utf-8") + "\n")


def options_of_tool(name: str) -> list[Option]:
    """The own options of the tool or command called ``name``; none if there is neither."""
    from .. import tools
    from .script_names import COMMAND, TOOL, classify_word
    kind = classify_word(name)
    tool = commands.command_page(name) if kind == COMMAND else tools.find_tool(name) if kind == TOOL else None
    return [Option(row.names, row.value, TOOLS_OWN, row.help) for row in tool.options] if tool else []


def kernel_of(parsed: Parsed) -> World:
    """The World to compile for: this machine, or the kernel whose BTF --btf names."""
    if parsed.get("btf"):
        from ..kernel.types.btf_world import BtfWorld
        return BtfWorld(parsed.get("btf"))
    from ..compiling import live_world
    return live_world()


def permitted(world: World, parsed: Parsed) -> World:
    """The World without the features that --no-feature denies."""
    from ..compiling import mask_features
    from ..kernel.features import ROWS, is_feature
    denied = [name for name in parsed.get("no-feature").split(",") if name]
    for name in denied:
        if not is_feature(name):
            raise UsageError(f"--no-feature: there is no feature '{name}'", [f"there are {', '.join(sorted(ROWS))}"])
    return mask_features(world, denied) if denied else world


def program_of(parsed: Parsed) -> tuple[Source | None, list[str]]:
    """The script, and the parameters given to it; None if only a tool's help was wanted."""
    words = parsed.words
    if parsed.has("e") and not parsed.get("e"):
        raise UsageError("USAGE: filename or -e 'program' required.")
    if parsed.has("e"):
        return Source("stdin", parsed.get("e")), words + parsed.rest
    if not words:
        from .pages.overview import overview
        print_to_stderr(overview())
        raise UsageError("USAGE: filename or -e 'program' required.")
    from .script_names import LARGEST, TOOL, classify_word, read_script, script_of
    name, params = words[0], words[1:] + parsed.rest
    if name == "-":
        return script_of("stdin", sys.stdin.buffer.read(LARGEST + 1)), params
    from .. import tools
    tool = tools.find_tool(name) if classify_word(name) == TOOL else None
    if tool is None and not os.path.exists(name):
        from .meant_words import hints_of_no_file
        raise UsageError(f"failed to open file '{name}': No such file or directory", hints_of_no_file(words))
    if tool is not None and parsed.has("help"):
        sys.stdout.write(tools.tool_help(tool))
        return None, []
    if tool is not None:
        _apply_tool(parsed, tool, params)
    return read_script(name), params


def _apply_tool(parsed: Parsed, tool: Tool, params: list[str]) -> None:
    """Check what a tool is given, and note in the command line what follows from the tool. A regular expression among
    ``params`` becomes probes."""
    from ..tools.tool_arguments import check_arguments, probes_by_regex
    for warning in check_arguments(tool, params, parsed.named):
        print_to_stderr(warning)
    if parsed.has("count") and tool.parameters == ["INTERVAL", "COUNT"] and len(params) < 2:
        params += ["0"] * (1 - len(params)) + [str(count(parsed))]  # its last interval is a whole one: it is to know
    if parsed.named.pop("regexp", ""):
        for index, pattern in enumerate(params):
            params[index], parsed.options["probe-filter"] = probes_by_regex(pattern)
    if parsed.has("pid"):
        tool.check_process()
    if parsed.has("container"):
        tool.check_container()
    if parsed.has("follow"):
        tool.check_follow()
    parsed.columns, parsed.tool, parsed.process_option = tool.columns, tool.name, tool.process_option
    parsed.follows_command = tool.asks_who_runs
    if parsed.has("by"):
        parsed.columns = [parsed.get("by").upper() if name == "COMM" else name for name in parsed.columns]
    if tool.parameters[:1] == ["SECONDS"]:
        parsed.seconds = seconds_of(params) * (seconds_of(params[1:]) or 1)
    elif "duration" in parsed.named:
        parsed.seconds = seconds_of([parsed.named["duration"]])


def pid_of(parsed: Parsed) -> int:
    """The number of -p, 0 without it."""
    if not parsed.has("pid"):
        return 0
    text = parsed.get("pid").strip()
    if not text.removeprefix("-").isdecimal() or not text.isascii():
        wrong = "trailing bytes" if text[:1].isdigit() else "integer"
        from .meant_words import hints_of_process
        raise UsageError(f"Failed to parse pid: invalid {wrong}: {text}", hints_of_process(text))
    number = parse_whole(text, 1 << 22)
    if not number:
        raise UsageError(f"Pid out of range: {text}", [f"a process has a number from 1 to {1 << 22}"])
    return number


def process_of(parsed: Parsed) -> Process | None:
    """The process of -p or -c; None without either."""
    if parsed.has("cmd") and parsed.has("pid"):
        raise UsageError("USAGE: Cannot use both -c and -p.")
    if parsed.has("cmd"):
        from ..runtime.traced_command import Child
        return Child(parsed.get("cmd"), held=parsed.has("dry-run"))
    pid = pid_of(parsed)
    if not pid:
        return None
    from ..runtime import traced_command
    return traced_command.Process(pid)


def options_of(parsed: Parsed, params: list[str]) -> Options:
    """What the command line asks of the compiler, with a script's parameters."""
    from ..compiling import script_environment
    from ..semantics.script_options import Options
    named = dict(parsed.named)
    plain = []
    for word in params:
        if word.startswith("--") and len(word) > 2:
            name, _, value = word[2:].partition("=")
            named[name] = value
        else:
            plain.append(word)
    if parsed.get("B", "line") not in ("line", "full", "none"):
        from .meant_words import refuse_choice
        refuse_choice("USAGE: -B must be either 'line', 'full', or 'none'.", parsed.get("B"), ("line", "full", "none"))
    viewed = parsed.get("format", "text") not in ("text", "json", "recording")
    if viewed:
        from ..output.views import view_class
        view_class(parsed.get("format"))
    region = 0
    if parsed.has("flight"):
        from .flight_settings import settings_of
        region = settings_of(parsed).region
    elif parsed.has("flight-to") or parsed.has("when"):
        raise UsageError("--flight-to and --when are of a flight: --flight 30s")
    if parsed.has("container") and not parsed.get("container"):
        raise UsageError("-C takes the name of a container, pod or service")
    if parsed.has("by") and parsed.get("by") not in GROUPS:
        from .meant_words import refuse_choice
        refuse_choice(f"--by takes {', '.join(GROUPS[:-1])} or {GROUPS[-1]}, not '{parsed.get('by')}'",
                      parsed.get("by"), GROUPS)
    if parsed.has("returns") and parsed.get("returns") not in ("instructions", "kernel"):
        from .meant_words import refuse_choice
        refuse_choice(f"--returns takes instructions or kernel, not '{parsed.get('returns')}'", parsed.get("returns"),
                      ("instructions", "kernel"))
    return Options(params=plain, named=named, pid=pid_of(parsed), by=parsed.get("by"), group=parsed.get("container"),
                   unsafe=parsed.has("unsafe"), returns=parsed.get("returns"), mode=_mode(parsed),
                   exercises=parsed.has("dry-run"),
                   compile_only=parsed.get("mode") == "codegen",
                   warnings=not parsed.has("no-warnings"), count_reads=parsed.has("warnings"),
                   probe_filter=parsed.get("probe-filter"),
                   timed=viewed or is_watched(parsed) or makes_recording(parsed) or region > 0, flight=region,
                   env=script_environment(),
                   directories=parsed.lists.get("I", []),
                   headers=parsed.lists.get("include", []))


def options_and_process(parsed: Parsed, params: list[str]) -> tuple[Options, Process | None]:
    """What is asked of the compiler, and the process of -p or -c. A tool or command that can be limited to a process
    traces that of -c alone, unless it follows what the command starts; a script asks for ``cpid`` itself. With --follow
    each traces what the process starts, too."""
    follows = parsed.has("follow")
    if follows:
        hand_over_process(parsed)
    options = options_of(parsed, params)
    process = process_of(parsed)
    if process is None:
        return options, process
    own = parsed.process_option not in ("", "pid")
    if follows or parsed.has("cmd"):
        options.cpid = process.pid
    if follows and own:
        options.knows_family, options.pid = True, 0
    elif follows or parsed.has("cmd") and parsed.follows_command:
        options.family = True
    elif parsed.has("cmd") and parsed.process_option == "pid":
        options.pid = process.pid
    if own and options.cpid and not options.family:
        options.named.setdefault(parsed.process_option, str(process.pid))
    return options, process


def hand_over_process(parsed: Parsed) -> None:
    """For --follow: the process that a tool's own -p names as Sonde's. UsageError if there is nothing to follow."""
    named = parsed.named.pop(parsed.process_option, "")
    if named:
        parsed.options["pid"] = named
    if not parsed.has("pid") and not parsed.has("cmd"):
        raise UsageError("--follow follows a process and what it starts: -p PID or -c COMMAND")
    if named and parse_whole(named) is None:
        raise UsageError(f"--follow follows one process, not '{named}'", ["its children are followed with it"])


def new_trace(source: Source, options: Options, process: Process | None, parsed: Parsed,
              show: Show | None = None) -> Trace:
    """The trace of a script, as the options of the command line have it."""
    from ..base.memory_budget import Memory
    from ..compiling import live_world
    from ..library.trace import Trace
    measured = parsed.has("stats") or options.mode == "bench" or bool(parsed.command)
    memory = parse_memory(parsed.get("memory")) if parsed.has("memory") else Memory()
    world = permitted(live_world(), parsed) if parsed.has("no-feature") else None
    arguments = source, options, process, world, True, measured, show, memory, budget_of(parsed)
    if makes_recording(parsed):
        from ..recording.recorder import RecordingTrace
        path = recording_path(parsed)
        trace: Trace = _record_trace(RecordingTrace(*arguments), path, parsed)
    else:
        trace = Trace(*arguments)
    trace.words, trace.run_seconds = parsed.given, parsed.seconds
    return trace


def ask_for_recording(parsed: Parsed) -> None:
    """``sonde record``: -f recording."""
    if parsed.has("format"):
        raise UsageError("sonde record makes a recording, which sonde replay -f shows in any form",
                         ["--record FILE keeps a run that is shown as well"])
    parsed.options["format"], parsed.command = "recording", ""


def recording_path(parsed: Parsed) -> str:
    """Where the recording is to go; UsageError where there can be none."""
    alone = parsed.get("format") == "recording"
    if alone and parsed.has("record"):
        raise UsageError("one recording at a time: --record or -f recording")
    if parsed.has("count"):
        raise UsageError("--count ends what is printed; a recording has all that the run handed over")
    if parsed.command or parsed.has("test") or parsed.has("bench") or parsed.has("dry-run"):
        raise UsageError("a recording is made of a run that prints or draws")
    if parsed.has("events") and parsed.words:
        raise UsageError("--events is instead of a script")
    path = parsed.get("output" if alone else "record")
    if not path:
        raise UsageError("a recording goes to a file: -o trace.sonde")
    return path


def _record_trace(trace: RecordingTrace, path: str, parsed: Parsed) -> RecordingTrace:
    """Have a RecordingTrace write its file."""
    from .display_choice import every
    seconds = every(parsed)
    events = None
    if parsed.has("events"):
        from ..compiling import live_world
        from ..recording.events import plain_events
        events = plain_events(parsed.get("events"), live_world())
    trace.record_to(open_to_write(path), recording_facts(parsed, events), seconds)
    return trace


def recording_facts(parsed: Parsed, events: Json = None) -> JsonObject:
    """What the head of a recording says of the command line."""
    return {"tool": parsed.tool, "columns": list(parsed.columns), "title": parsed.get("title"),
            "unit": parsed.get("unit"), "command": parsed.given, "events": events}


def seconds_of(params: list[str]) -> int:
    """For how long to trace, where that is the first parameter; 0 if there is none."""
    return params and parse_whole(params[0]) or 0


def open_output(parsed: Parsed) -> int:
    """A descriptor of -o's file, or 1."""
    if not parsed.has("output"):
        return 1
    if parsed.get("format") == "recording":  # what is printed has no place
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    return open_to_write(parsed.get("output"))


def open_to_write(path: str) -> int:
    """A descriptor of the file, made or emptied; UsageError if that is refused."""
    try:
        return open_guarded(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    except OSError as error:
        raise UsageError(f'Failed to open output file: "{path}": {error.strerror}') from None


_MODES = ("trace", "test", "bench", "format", "codegen", "compiler-bench")


def _mode(parsed: Parsed) -> str:
    """test, bench, or "" for tracing."""
    modes = {name for name in ("test", "bench") if parsed.has(name) or parsed.get("mode") == name}
    if len(modes) > 1:
        raise UsageError("tests and benchmarks are run one at a time: --test or --bench")
    if parsed.has("mode") and parsed.get("mode") not in _MODES:
        from .meant_words import refuse_choice
        refuse_choice("USAGE: --mode can only be 'codegen', 'compiler-bench', 'bench', 'test' or 'format'.",
                      parsed.get("mode"), _MODES, ["and 'trace', which is what happens without it"])
    return next(iter(modes), "")

