"""The command line's options: one row each, from which parsing and ``--help`` follow."""

from __future__ import annotations

from ..base.record import Record
from ..errors import OptionError, UsageError
from .aliases import own_words
from .commands import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import NoReturn


class Option(Record):
    """A row. ``value`` names the argument ("" for a switch; "[X]" for an optional one that must be separate)."""

    names: tuple[str, ...]
    value: str
    group: str
    help: str

    @property
    def key(self) -> str:
        """How the parsed value is called: the long name without dashes."""
        return max(self.names, key=len).lstrip("-")


OPTIONS = [
    Option(("-e",), "PROGRAM", "OPTIONS", "run this program"),
    Option(("-l", "--list"), "[SEARCH]", "OPTIONS", "list probes, structs and enums; with -v their arguments"),
    Option(("-p", "--pid"), "PID", "OPTIONS", "trace this process only, and end with it"),
    Option(("-C", "--container"), "NAME", "OPTIONS",
           "trace this container, pod or service only: its name, or a container's id"),
    Option(("--by",), "KIND", "OPTIONS", "container, pod or service: shown in the place of processes' names"),
    Option(("-c", "--cmd"), "COMMAND", "OPTIONS",
           "run a command once all is attached, end with it; tools that take -p trace it and what it starts"),
    Option(("-o", "--output"), "FILE", "OPTIONS", "write the trace's output to a file"),
    Option(("-f", "--format"), "FORMAT", "OPTIONS",
           "output format: text, json, folded, flamegraph, pprof, otlp, heatmap, dot, html, csv, perfetto or "
           "recording"),
    Option(("--record",), "FILE", "OPTIONS", "keep the run in a recording as well, for sonde replay and sonde diff"),
    Option(("--events",), "PROBES", "OPTIONS", "record: all events of these tracepoints, to be asked by replay -e"),
    Option(("--flight",), "TIME[,SIZE]", "OPTIONS",
           "30s[,64M]: keep the latest records in the kernel, give them out when a dump is asked for"),
    Option(("--flight-to",), "DIR", "OPTIONS", "flight: each dump to a file there, of which the 16 newest stay"),
    Option(("--when",), "CONDITION", "OPTIONS", "flight: dump when it holds: '@errors > 10 within 1s'"),
    Option(("--heatmap",), "", "OPTIONS", "-f heatmap: histograms over time"),
    Option(("--every",), "SECONDS", "OPTIONS", "how often top, serve and heat maps look at maps (1)"),
    Option(("--count",), "N", "OPTIONS", "end after N blocks of what interval probes print"),
    Option(("--redraw",), "", "OPTIONS", "on a terminal, each block over the one before it, as tools have it"),
    Option(("--no-redraw",), "", "OPTIONS", "each block below the one before it"),
    Option(("--port",), "PORT", "OPTIONS", "serve: the port on 127.0.0.1 (any that is free)"),
    Option(("-B",), "MODE", "OPTIONS", "output buffering: line, full or none"),
    Option(("-q", "--quiet"), "", "OPTIONS", "keep messages about the tracer quiet"),
    Option(("-v", "--verbose"), "", "OPTIONS", "details: how probes are attached, the verifier's whole log"),
    Option(("-k", "--warnings"), "", "OPTIONS", "count and report failed reads of memory too"),
    Option(("--no-warnings",), "", "OPTIONS", "no warnings"),
    Option(("--memory",), "SIZE", "OPTIONS", "hold no more than this beyond maps and rings (128M)"),
    Option(("--budget",), "SHARE", "OPTIONS",
           "of one CPU's time, as 2%: what the script's programs may take; beyond it events are skipped"),
    Option(("--unsafe",), "", "OPTIONS", "allow system(), signal() and other functions that act"),
    Option(("--dry-run",), "", "OPTIONS", "end as soon as everything is attached"),
    Option(("--test",), "", "OPTIONS", "run the script's test probes; the status says whether all passed"),
    Option(("--bench",), "", "OPTIONS", "measure the script's bench probes"),
    Option(("--mode",), "MODE", "OPTIONS", "trace, test, bench, format, codegen (compile only) or compiler-bench"),
    Option(("--fmt",), "", "OPTIONS", "print the program formatted"),
    Option(("--probe-filter",), "REGEX", "OPTIONS", "attach only matching probes"),
    Option(("--no-feature",), "LIST", "OPTIONS", "do without these kernel features"),
    Option(("-I",), "DIR", "OPTIONS", "look for C headers there too"),
    Option(("--include",), "FILE", "OPTIONS", "as if the program began with #include FILE"),
    Option(("--debuginfo",), "DIR[:DIR]", "OPTIONS", "look for separate debug files there first"),
    Option(("--debuginfod",), "URLS", "OPTIONS",
           "ask these servers for debug files, by build id; '': none, not those of DEBUGINFOD_URLS either"),
    Option(("--traceable-functions",), "FILE", "OPTIONS", "the functions that can be traced, one to a line"),
    Option(("-h", "--help"), "", "OPTIONS", "this help; after a tool's name, that tool's"),
    Option(("-V", "--version"), "", "OPTIONS", "the version"),
    Option(("--info",), "", "OPTIONS", "what this kernel offers"),
    Option(("-d", "--debug"), "STAGE", "DEBUGGING", "show a stage of the compiler, or all"),
    Option(("--stats",), "", "DEBUGGING", "runs and time of each program at the end"),
    Option(("--check",), "", "DEBUGGING", "tools: which work on this kernel, how, and what keeps the others from it"),
    Option(("--btf",), "[FILE]", "DEBUGGING", "the kernel's types, if it shows none; check, doctor: another kernel's"),
    Option(("--verify-llvm-ir",), "", "NOTHING TO DO", "there is no LLVM, and no intermediate code of it"),
    Option(("--usdt-file-activation",), "", "NOTHING TO DO", "the kernel activates probes wherever their file is used"),
    Option(("--dwarf-pid",), "PID", "NOTHING TO DO", "dw_ustack finds the unwind tables of every process"),
]
# Options of bpftrace that ask for what only LLVM makes.
WITHOUT_LLVM = ("--emit-llvm", "--emit-elf", "--aot")
_BY_NAME = {name: row for row in OPTIONS for name in row.names}
VIEWERS = ("top", "serve", "record")  # words before the program that say what is made of the run
WRAPPERS = ("fleet",)  # commands that take a program, which may be a tool with options of its own
_WRAPPED = [(name,) for name in WRAPPERS]
TOOL = "TOOL"  # the group of a tool's own options
SHARED = {"no-redraw"}  # options of ours that a tool may have by a letter of its own
REPEATED = {"I", "include", "hosts"}  # may be given several times: the values are lines


class Parsed(Record):
    """What the command line says: values of options by key, then what is no option."""

    options: dict[str, str]
    words: list[str]
    rest: list[str]  # after --
    named: dict[str, str] = {}  # a tool's own options
    columns: list[str] = []     # a tool's columns
    tool: str = ""              # the tool's name
    process_option: str = ""    # by which it is limited to a process: "pid", ours, or its own; "" if it is not
    follows_command: bool = False  # -c: what the command starts is traced too
    seconds: int = 0            # for how long a tool or command is asked to trace; 0: not said
    command: str = ""           # top, serve or record: what is made of the run
    first: str = ""             # the first word, if it stood before any -e: perhaps a command
    given: list[str] = []       # all of the command line
    wrapping: dict[str, str] = {}  # the own options of a command of WRAPPERS that stand before its program

    def has(self, key: str) -> bool:
        return key in self.options

    def get(self, key: str, default: str = "") -> str:
        return self.options.get(key, default)

    def refuse_options(self, keys: set[str], command: str, takes_seconds: bool) -> NoReturn:
        """UsageError for one of these, as it was spelled if it was spelled by itself, which ``command`` has not."""
        found = [(word, row.key) for row in OPTIONS if row.key in keys
                 for word in [word for word in self.given if word in row.names] or row.names[:1]]
        spelled, key = min(found, key=lambda each: each[0] not in self.given)
        lasts = key == "debug" and takes_seconds and self.get(key).isdecimal()  # as some of bcc's have it
        raise UsageError(f"sonde {command} has no {spelled}", [
            f"seconds stand at the end: sonde {command} ... {self.get(key)}" if lasts else
            f"sonde {command} --help explains"])


def parse_command_line(argv: Sequence[str], own: Callable[[str], list[Option]] | None = None) -> Parsed:
    """Options may stand before and, as long as they are known, after the program; ``--`` ends them, and the program
    may come behind it.

    ``own`` tells the options of a tool; after its name they come before ours of the same name.
    """
    found = Parsed({}, [], [], given=list(argv))
    known = _BY_NAME
    pending = list(argv)
    while pending:
        word = pending.pop(0)
        if word == "--":
            if pending and not found.words and not found.has("e"):
                found.words.append(pending.pop(0))
            found.rest = pending
            break
        if word == "-" or not word.startswith("-") or _is_number(word) and word not in known:
            if word in VIEWERS and (not found.words or tuple(found.words) in _WRAPPED) and not found.command \
                    and not found.has("e") and own is not None:
                found.command = word
                continue
            if own is not None and (not found.words or tuple(found.words) in _WRAPPED) and not found.has("e"):
                word, *more = own_words(word)
                pending[:0] = more
                known = (known if found.words else _BY_NAME) | {name: row for row in own(word) for name in row.names}
                found.wrapping, found.named = (found.named, {}) if found.words else ({}, found.named)
                found.first = found.first or word
                _hand_over(found, known)
            found.words.append(word)
            continue
        for single in _split_switches(word, known):
            _parse_option(single, pending, found, known)
    if argv and argv[-1] == found.get("btf") and not found.words and not {"e", "list", "info"} & found.options.keys():
        found.words = [found.options.pop("btf")]  # bpftrace's takes no file
    return found


def _hand_over(found: Parsed, known: dict[str, Option]) -> None:
    """A -p before the name of a tool that has one of its own is meant for the tool: the tool knows which events are of
    that process, where our filter asks who runs at the time."""
    row = known["-p"]
    if row.group == TOOL and found.has("pid"):
        found.named[row.key] = found.options.pop("pid")


def _is_number(word: str) -> bool:
    """A negative number is a parameter, but where a tool has an option like -4."""
    return word[1:].isdigit()


def _split_switches(word: str, known: dict[str, Option]) -> list[str]:
    """``-lv`` → -l -v; ``-qe`` → -q -e, ``-vfjson`` → -v -fjson: the first that takes a value has what is left, or the
    next word; ``--x=y`` and single options as they are."""
    if word.startswith("--") or len(word) == 2 or word in known:
        return [word]
    letters = []
    for at in range(1, len(word)):
        row = known.get("-" + word[at])
        if row is None or row.value and not row.value.startswith("["):
            letters.append("-" + (word[at:] if row is not None else word[at]))
            break
        letters.append("-" + word[at])
    return sorted(letters, key=lambda letter: letter in known and known[letter].value.startswith("["))


def _parse_option(word: str, pending: list[str], found: Parsed, known: dict[str, Option]) -> None:
    name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
    row = known.get(name) or _find_abbreviated(name, known)
    if row is None and not word.startswith("--") and known.get(word[:2]) is not None:
        row, equals, value = known[word[:2]], "=", word[2:]
    if row is None:
        if name in WITHOUT_LLVM:
            raise UsageError(f"{name}: there is no LLVM here whose code could be written", [
                "-d ir shows the intermediate code, -d dis the program"])
        raise OptionError(f"unrecognized option '{word}'" if word.startswith("--") else
                          f"invalid option -- '{word[1:2]}'", _other_options(name, found.first, known))
    if not row.value:
        if equals:
            raise UsageError(f"{name} takes no value")
        value = "yes"
    elif not equals:
        if row.value.startswith("["):
            value = pending.pop(0) if pending and not (pending[0].startswith("-") and pending[0] != "-") else ""
        elif not pending or pending[0] in known:
            raise OptionError(f"option '{name}' requires an argument" if name.startswith("--") else
                              f"option requires an argument -- '{name[1:]}'",
                              [f"{name} needs {'an' if row.value[0] in 'AEIOU' else 'a'} {row.value}"])
        else:
            value = pending.pop(0)
    if row.group == TOOL and row.key not in SHARED:
        before = f"{found.named[row.key]}\n" if row.key in REPEATED and row.key in found.named else ""
        found.named[row.key] = before + value if row.value else "true"
        return
    if row.key == "warnings" and row.key in found.options:
        raise UsageError("USAGE: -kk has been deprecated. Use a single -k for runtime warnings for errors in map "
                         "lookups and probe reads.")
    if {row.key, *found.options} >= {"warnings", "no-warnings"}:
        raise UsageError("USAGE: -k conflicts with --no-warnings")
    if row.key in ("format", "output") and not value:  # -o "$FILE" where there is no such variable
        return
    if row.key in REPEATED and row.key in found.options:
        value = f"{found.options[row.key]}\n{value}"
    found.options[row.key] = value


def _find_abbreviated(name: str, known: dict[str, Option]) -> Option | None:
    """The option whose name begins with ``name``, as getopt_long(3) has it; OptionError if that may be several."""
    names = [each for each in known if each.startswith(name)] if name.startswith("--") else []
    if len({known[each].key for each in names}) > 1:
        possible = " ".join(f"'{each}'" for each in sorted(names))
        raise OptionError(f"option '{name}' is ambiguous; possibilities: {possible}")
    return known[names[0]] if names else None


def budget_of(parsed: Parsed) -> float:
    """The share of one CPU's time that --budget allows; 0 without it."""
    if not parsed.has("budget"):
        return 0.0
    text = parsed.get("budget")
    number = text.removesuffix("%")
    digits = number.replace(".", "", 1)
    if not digits.isascii() or not digits.isdigit() or len(digits) > 9 or not 0.1 <= float(number) <= 100:
        raise UsageError(f"--budget takes a share of one CPU's time from 0.1% to 100%, not '{text}'",
                         ["--budget 2% and --budget 2 are the same"])
    if parsed.has("test") or parsed.has("bench") or parsed.has("mode"):
        raise UsageError("--budget is for tracing: tests and benchmarks run whole")
    return float(number) / 100


def _other_options(word: str, program: str, known: dict[str, Option]) -> list[str]:
    """Hints for an option that is none: of a tool or command its own, which were meant."""
    own = [name for name, row in known.items() if row.group == TOOL]
    if own or program in COMMANDS:
        return [*_meant_options(word, own), f"see sonde {program} --help"]
    return [*(_meant_options(word, known) or ["parameters of the program that begin with a dash stand after --"]),
            "sonde --help shows all options"]


def _meant_options(word: str, names: Iterable[str]) -> list[str]:
    """A hint at the option that is most like a word. All begin with dashes, which make none of them alike."""
    from ..language.diagnostics import nearest_names
    bare = {name.lstrip("-"): name for name in names if len(name) > 2}
    return [f"did you mean {bare[close]}?" for close in nearest_names(word.lstrip("-"), bare, least=0.7)[:1]]


def usage_text() -> str:
    """``--help``."""
    lines = ["USAGE:", "    sonde [options] FILE [parameters]", "    sonde [options] - [parameters]",
             "    sonde [options] -e 'PROGRAM' [parameters]", "    sonde TOOL [options]",
             *[f"    sonde {line}" for line in COMMANDS.values()], ""]
    for group in dict.fromkeys(row.group for row in OPTIONS):
        lines.append(f"{group}:")
        for row in [r for r in OPTIONS if r.group == group]:
            left = ", ".join(row.names) + (f" {row.value}" if row.value else "")
            lines.append(f"    {left:26}  {row.help}")
        lines.append("")
    lines += ["EXAMPLES:",
              "    sonde -l '*sleep*'                                    list probes containing \"sleep\"",
              "    sonde -e 'tracepoint:syscalls:sys_enter_openat { printf(\"%s %s\\n\", comm, str(args.filename)); }'",
              "                                                          files opened, by process",
              "    sonde -e 'tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }'",
              "                                                          system calls by process",
              "    sonde tcpstates                                       run a tool; `sonde tools` lists them"]
    return "\n".join(lines) + "\n"
