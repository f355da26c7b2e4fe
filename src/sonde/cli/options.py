"""The command line's options: one row each, from which parsing and ``--help`` follow."""

from __future__ import annotations

from ..base.record import Record
from ..errors import OptionError, UsageError
from .command_table import COMMANDS, VIEWERS, WRAPPERS, own_words

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


OPTIONS = [  # in the order of --help, by topic
    Option(("-e",), "PROGRAM", "PROGRAMS", "run this program"),
    Option(("-l", "--list"), "[SEARCH]", "PROGRAMS", "list probes, structs and enums; with -v their arguments"),
    Option(("-I",), "DIR", "PROGRAMS", "also look for C headers in this directory"),
    Option(("--include",), "FILE", "PROGRAMS", "as if the program began with #include FILE"),
    Option(("--unsafe",), "", "PROGRAMS", "allow system(), signal() and other functions that act"),
    Option(("--dry-run",), "", "PROGRAMS", "end as soon as everything is attached"),
    Option(("--fmt",), "", "PROGRAMS", "print the program formatted"),
    Option(("--probe-filter",), "REGEX", "PROGRAMS", "attach only matching probes"),
    Option(("--mode",), "MODE", "PROGRAMS", "trace, test, bench, format, codegen (compile only) or compiler-bench"),
    Option(("--test",), "", "PROGRAMS", "run the script's test probes; the status says whether all passed"),
    Option(("--bench",), "", "PROGRAMS", "measure the script's bench probes"),
    Option(("-p", "--pid"), "PID", "WHAT TO TRACE", "trace this process only, and end with it"),
    Option(("-C", "--container"), "NAME", "WHAT TO TRACE",
           "trace this container, pod or service only: its name, or a container's id"),
    Option(("--by",), "KIND", "WHAT TO TRACE", "container, pod or service: show it in place of process names"),
    Option(("-c", "--cmd"), "COMMAND", "WHAT TO TRACE",
           "run a command when everything is attached, and end with it; tools with [-p PID] trace what it starts"),
    Option(("--follow",), "", "WHAT TO TRACE", "with -p or -c: also trace what the process starts, and nothing else"),
    Option(("-o", "--output"), "FILE", "OUTPUT", "write the trace's output to a file"),
    Option(("-f", "--format"), "FORMAT", "OUTPUT",
           "output format: text, json, folded, flamegraph, lines, pprof, otlp, heatmap, dot, html, csv, perfetto, "
           "pcapng or recording"),
    Option(("--heatmap",), "", "OUTPUT", "-f heatmap: histograms over time"),
    Option(("--every",), "SECONDS", "OUTPUT", "how often top, serve and heat maps read maps (1)"),
    Option(("--count",), "N", "OUTPUT", "end after N blocks of what interval probes print"),
    Option(("--redraw",), "", "OUTPUT", "on a terminal, draw each block over the last one, as tools do"),
    Option(("--no-redraw",), "", "OUTPUT", "each block below the one before it"),
    Option(("--port",), "PORT", "OUTPUT", "serve: the port on 127.0.0.1 (any that is free)"),
    Option(("-B",), "MODE", "OUTPUT", "output buffering: line, full or none"),
    Option(("-q", "--quiet"), "", "OUTPUT", "keep messages about the tracer quiet"),
    Option(("-v", "--verbose"), "", "OUTPUT", "details: how probes are attached, the verifier's whole log"),
    Option(("-k", "--warnings"), "", "OUTPUT", "count and report failed reads of memory too"),
    Option(("--no-warnings",), "", "OUTPUT", "no warnings"),
    Option(("--record",), "FILE", "RECORDINGS", "keep the run in a recording as well, for sonde replay and sonde diff"),
    Option(("--events",), "PROBES", "RECORDINGS", "record: all events of these tracepoints, for scripts of replay -e"),
    Option(("--flight",), "TIME[,SIZE]", "RECORDINGS",
           "30s[,64M]: keep the latest records in the kernel, and write them when a dump is requested"),
    Option(("--flight-to",), "DIR", "RECORDINGS", "flight: write each dump to a file there; the 16 newest stay"),
    Option(("--when",), "CONDITION", "RECORDINGS", "flight: dump when it becomes true: '@errors > 10 within 1s'"),
    Option(("--memory",), "SIZE", "LIMITS", "use at most this much memory beyond maps and rings (128M)"),
    Option(("--budget",), "SHARE", "LIMITS",
           "limit the script's programs to this share of one CPU, such as 2%; beyond it events are skipped"),
    Option(("--returns",), "WAY", "LIMITS",
           "uretprobes: at the functions' return instructions, or by the kernel's return probe (instructions, kernel)"),
    Option(("--no-feature",), "LIST", "LIMITS", "do not use these kernel features"),
    Option(("--debuginfo",), "DIR[:DIR]", "SYMBOLS", "look for separate debug files in these directories first"),
    Option(("--debuginfod",), "URLS", "SYMBOLS",
           "ask these servers for debug files, by build id; '': none, not those of DEBUGINFOD_URLS either"),
    Option(("--traceable-functions",), "FILE", "SYMBOLS", "the functions that can be traced, one to a line"),
    Option(("--btf",), "[FILE]", "SYMBOLS", "the kernel's types, if it shows none; check, doctor: another kernel's"),
    Option(("-h", "--help"), "", "HELP", "this help; after a tool's name, the tool's help"),
    Option(("-V", "--version"), "", "HELP", "the version"),
    Option(("--info",), "", "HELP", "what this kernel offers"),
    Option(("--check",), "", "HELP", "tools: say which work on this kernel, how, and why the others do not"),
    Option(("-d", "--debug"), "STAGE", "DEBUGGING", "show a stage of the compiler, or all"),
    Option(("--stats",), "", "DEBUGGING", "runs and time of each program at the end"),
    Option(("--verify-llvm-ir",), "", "NOTHING TO DO", "accepted for compatibility: Sonde does not use LLVM"),
    Option(("--usdt-file-activation",), "", "NOTHING TO DO", "the kernel activates probes wherever their file is used"),
    Option(("--dwarf-pid",), "PID", "NOTHING TO DO", "dw_ustack finds the unwind tables of every process"),
]
# Options of bpftrace that ask for what only LLVM makes.
WITHOUT_LLVM = ("--emit-llvm", "--emit-elf", "--aot")
_BY_NAME = {name: row for row in OPTIONS for name in row.names}
TOOL = "TOOL"  # the group of the own options of tools and commands
SHARED = {"no-redraw"}  # options of ours that a tool may have by a letter of its own
REPEATED = {"I", "include", "hosts"}  # may be given several times: Parsed.lists has all their values
_NOT_TWICE = {"warnings": "USAGE: -kk has been deprecated. Use a single -k for runtime warnings for errors in map "
                          "lookups and probe reads."}
_EXCLUSIVE = (({"warnings", "no-warnings"}, "USAGE: -k conflicts with --no-warnings"),)
_IGNORED_IF_EMPTY = ("format", "output")  # -o "$FILE" where there is no such variable


class Parsed(Record):
    """What the command line says: values of options by key, then what is no option."""

    options: dict[str, str]
    words: list[str]
    rest: list[str]  # after --
    named: dict[str, str] = {}  # a tool's own options
    command_options: dict[str, str] = {}  # the own options of a command of WRAPPERS, wherever they stand
    lists: dict[str, list[str]] = {}  # all values of the options of REPEATED, by key
    columns: list[str] = []     # a tool's columns
    tool: str = ""              # the tool's name
    process_option: str = ""    # by which it is limited to a process: "pid", ours, or its own; "" if it is not
    follows_command: bool = False  # -c: what the command starts is traced too
    seconds: int = 0            # for how long a tool or command is asked to trace; 0: not said
    command: str = ""           # top, serve or record: what is made of the run
    first: str = ""             # the first word, if it stood before any -e: perhaps a command
    given: list[str] = []       # all of the command line

    def has(self, key: str) -> bool:
        return key in self.options

    def get(self, key: str, default: str = "") -> str:
        return self.options.get(key, default)

    def refuse_options(self, keys: set[str], command: str) -> NoReturn:
        """UsageError for one of these, as it was spelled if it was spelled by itself, which ``command`` has not."""
        refused = [(word, row.key) for row in OPTIONS if row.key in keys
                 for word in [word for word in self.given if word in row.names] or row.names[:1]]
        spelled, _ = min(refused, key=lambda each: each[0] not in self.given)
        raise UsageError(f"sonde {command} has no {spelled}", [f"sonde {command} --help explains"])


def parse_command_line(argv: Sequence[str], own: Callable[[str], list[Option]] | None = None) -> Parsed:
    """Options may stand before and, as long as they are known, after the program; ``--`` ends them, and the program
    may come behind it.

    ``own`` returns the options of a tool or command; after its name they come before ours of the same name.
    """
    return _Parser(argv, own).parse()


class _Parser:
    """Reads the words from left to right. ``known`` are the options that the next word may be, by name."""

    def __init__(self, argv: Sequence[str], own: Callable[[str], list[Option]] | None) -> None:
        self.parsed = Parsed({}, [], [], given=list(argv))
        self.pending = list(argv)
        self.own = own
        self.known = _BY_NAME
        self.command_rows: list[Option] = []  # of a command of WRAPPERS

    def parse(self) -> Parsed:
        """All of it."""
        parsed, pending = self.parsed, self.pending
        while pending:
            word = pending.pop(0)
            if word == "--":
                if pending and not parsed.words and not parsed.has("e"):
                    parsed.words.append(pending.pop(0))
                parsed.rest = pending
                break
            if word == "-" or not word.startswith("-") or _is_number(word) and word not in self.known:
                self._take_word(word)
            else:
                for single in _split_switches(word, self.known):
                    self._take_option(single)
        if parsed.given and parsed.given[-1] == parsed.get("btf") and not parsed.words \
                and not {"e", "list", "info"} & parsed.options.keys():
            parsed.words = [parsed.options.pop("btf")]  # bpftrace's takes no file
        return parsed

    def _take_word(self, word: str) -> None:
        parsed = self.parsed
        if self.own is not None and self._awaits_program():
            if word in VIEWERS and not parsed.command:
                parsed.command = word
                return
            word, *more = own_words(word)
            self.pending[:0] = more
            rows = self.own(word)
            if word in WRAPPERS and not parsed.words:
                self.command_rows = rows
            self.known = (self.known if parsed.words else _BY_NAME) | {name: row for row in rows for name in row.names}
            parsed.first = parsed.first or word
            self._hand_over_process()
        parsed.words.append(word)

    def _awaits_program(self) -> bool:
        """Whether the next word names the program, or a command."""
        words = self.parsed.words
        return not self.parsed.has("e") and (not words or len(words) == 1 and words[0] in WRAPPERS)

    def _hand_over_process(self) -> None:
        """A -p before the name of a tool that has one of its own is meant for the tool: the tool knows which events are
        of that process, where our filter asks who runs at the time."""
        row = self.known["-p"]
        if row.group == TOOL and self.parsed.has("pid"):
            self.parsed.named[row.key] = self.parsed.options.pop("pid")

    def _take_option(self, word: str) -> None:
        row, value = self._find_option(word)
        name = word.partition("=")[0] if word.startswith("--") else word
        if not row.value and value is not None:
            raise UsageError(f"{name} takes no value")
        if row.value and value is None:
            value = self._take_value(row, name)
        self._keep_value(row, value or "")

    def _find_option(self, word: str) -> tuple[Option, str | None]:
        """The option, and the value that is part of the word, if there is one."""
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        row = self.known.get(name) or find_abbreviated(name, self.known)
        if row is not None:
            return row, value if equals else None
        if not word.startswith("--") and word[:2] in self.known:
            return self.known[word[:2]], word[2:]
        if name in WITHOUT_LLVM:
            raise UsageError(f"{name}: there is no LLVM here whose code could be written", [
                "-d ir shows the intermediate code, -d dis the program"])
        raise OptionError(f"unrecognized option '{word}'" if word.startswith("--") else
                          f"invalid option -- '{word[1:2]}'", _other_options(name, self.parsed.first, self.known))

    def _take_value(self, row: Option, name: str) -> str:
        """The next word; "" if the value is optional and the next word cannot be one."""
        following = self.pending[0] if self.pending else None
        if row.value.startswith("["):
            if following is None or following.startswith("-") and following != "-" \
                    or row in self.command_rows and self._is_tool(following):
                return ""
        elif following is None or following in self.known:
            raise OptionError(f"option '{name}' requires an argument" if name.startswith("--") else
                              f"option requires an argument -- '{name[1:]}'",
                              [f"{name} needs {'an' if row.value[0] in 'AEIOU' else 'a'} {row.value}"
                               + (": sonde -e 'begin { ... }'" if name == "-e" else "")])
        return self.pending.pop(0)

    def _is_tool(self, word: str) -> bool:
        """Whether a word names a tool or command that has options of its own."""
        return self.own is not None and bool(self.own(own_words(word)[0]))

    def _keep_value(self, row: Option, value: str) -> None:
        if row.key in REPEATED:
            self.parsed.lists.setdefault(row.key, []).append(value)
        if row in self.command_rows:
            self.parsed.command_options[row.key] = value if row.value else "true"
        elif row.group == TOOL and row.key not in SHARED:
            self.parsed.named[row.key] = value if row.value else "true"
        else:
            self._keep_own(row, value)

    def _keep_own(self, row: Option, value: str) -> None:
        """Keep the value of an option of Sonde's, unless it conflicts with others."""
        options = self.parsed.options
        if row.key in options and row.key in _NOT_TWICE:
            raise UsageError(_NOT_TWICE[row.key])
        for keys, complaint in _EXCLUSIVE:
            if {row.key, *options} >= keys:
                raise UsageError(complaint)
        if value or row.key not in _IGNORED_IF_EMPTY:
            options[row.key] = value if row.value else "yes"


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


def find_abbreviated(name: str, known: dict[str, Option]) -> Option | None:
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
        from .meant_words import hints_of_options
        return [*_meant_options(word, own), *hints_of_options(program, own)]
    return [*(_meant_options(word, known) or ["parameters of the program that begin with a dash stand after --"]),
            "sonde --help shows all options"]


def _meant_options(word: str, names: Iterable[str]) -> list[str]:
    """A hint at the option that is most like a word. All begin with dashes, which make none of them alike."""
    from ..language.diagnostics import nearest_names
    bare = {name.lstrip("-"): name for name in names if len(name) > 2}
    return [f"did you mean {bare[close]}?" for close in nearest_names(word.lstrip("-"), bare, least=0.7)[:1]]
