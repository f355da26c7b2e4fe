"""The shipped tools: scripts in this folder that run by name, as ``sonde execsnoop``.

A tool's text begins with ``//`` lines that are its documentation; ``--help`` is made from them::

    // NAME: what it is for, in one line
    //
    // USAGE
    //   sonde NAME [OPTIONS] [-p PID] [-c COMMAND] [INTERVAL [COUNT]]
    //
    //   With -p and -c if events happen in the process that they are about.
    //
    // OPTIONS
    //   -P, --port PORT   only this port; the script has it as getopt("port", 0)
    //   -t, --timestamp   a column with the time: getopt("timestamp", false)
    //
    // COLUMNS
    //   PID   process that ...
    //
    // EXAMPLE
    //   ...
    //
    // READING
    //   what the numbers mean for the machine, where that is not plain
    //
    // NEEDS
    //   tracepoints, types or binaries that the kernel or the machine must have
    //
    // NOTES
    //   what it does not see, and why
"""

from __future__ import annotations

import os

from ..base.fast_stdlib import cache
from ..base.package_files import list_shipped, read_shipped
from ..base.record import Record
from ..errors import UsageError
from ..kinds import KINDS
from ..language.comments import describe_columns, parse_entries

FOLDER = os.path.dirname(os.path.abspath(__file__))
SECTIONS = ("USAGE", "OPTIONS", "COLUMNS", "EXAMPLE", "READING", "NEEDS", "NOTES")


class ToolOption(Record):
    """A line of OPTIONS: ``-P, --port PORT   what it does``; a switch has no ``value``."""

    names: tuple[str, ...]
    value: str
    help: str

    @property
    def key(self) -> str:
        """What the script calls it: ``getopt("port")``."""
        return max(self.names, key=len).lstrip("-")


class Tool(Record):
    """A shipped script. ``sections`` maps each of ``SECTIONS`` to its text, without the comment signs."""

    name: str
    path: str
    purpose: str
    sections: dict[str, str]

    @property
    def options(self) -> list[ToolOption]:
        """Its own options, as OPTIONS lists them."""
        return [_parse_option(left, right) for left, right in parse_entries(self.sections.get("OPTIONS", ""))]

    @property
    def takes_process(self) -> bool:
        """Does -p do right by it? It has one of its own, or its USAGE names Sonde's, which asks who runs at an event:
        what interrupts, timers and packets set off happens while any process runs."""
        return self.asks_who_runs or bool(self._own_process)

    @property
    def process_option(self) -> str:
        """What its script, or with "pid" Sonde itself, knows the process of -p by; "" if it takes none."""
        return self._own_process or ("pid" if self.asks_who_runs else "")

    @property
    def _own_process(self) -> str:
        """The key of an option of its own that is -p PID; "" if there is none."""
        return next((option.key for option in self.options
                     if "-p" in option.names and option.value.startswith("PID")), "")

    @property
    def asks_who_runs(self) -> bool:
        """Whether Sonde's own -p, -c and -C hold for it: its events happen in the process that they are about. -c then
        means all that the command starts, too."""
        return "[-p PID]" in self.sections.get("USAGE", "")

    def check_process(self) -> None:
        """UsageError if -p is not for it."""
        if not self.takes_process:
            raise UsageError(f"{self.name} cannot be limited to a process: its events (interrupts, timers, packets) "
                             "happen whichever process is running", [f"without -p it shows all: sonde {self.name}"])

    def check_container(self) -> None:
        """UsageError if -C is not for it."""
        if not self.asks_who_runs:
            raise UsageError(f"{self.name} cannot be limited to a container: its events happen whichever task is "
                             "running", [f"without -C it shows all: sonde {self.name}"])

    def check_follow(self) -> None:
        """UsageError if --follow is not for it: it neither is of who runs, nor does its script ask for the family."""
        self.check_process()
        if not self.asks_who_runs and b"in_family" not in read_shipped(self.path):
            raise UsageError(f"{self.name} is of one process, not of what that starts: it takes no --follow")

    def needs_in(self, release: str) -> str:
        """A sentence with what it needs, where that has "(Linux 5.19)" and is younger than ``release`` ("5.10.0"); else
        ""."""
        needs = " ".join(self.sections.get("NEEDS", "").split())
        named = [part.replace(",", ")").partition(")")[0] for part in needs.split("(Linux ")[1:]]
        return f"it needs {needs}" if release and any(_series(each) > _series(release) for each in named) else ""

    @property
    def parameters(self) -> list[str]:
        """The parameters, but for options, that USAGE names, in order."""
        words = self.sections.get("USAGE", "").partition("\n")[0].replace("[OPTIONS]", "").split()[2:]
        named = [word.strip("[]") for before, word in zip(["", *words], words) if before.strip("[")[:1] != "-"]
        return [word for word in named if word[:1] != "-"]

    @property
    def required_parameters(self) -> list[str]:
        """Those of them that stand outside of brackets."""
        text = self.sections.get("USAGE", "").partition("\n")[0]
        return [name for name in self.parameters if f"[{name}" not in text]

    @property
    def required_options(self) -> list[str]:
        """The options that USAGE names outside of brackets."""
        words = self.sections.get("USAGE", "").partition("\n")[0].split()[2:]
        return [word for word in words if word[:1] == "-"]

    @property
    def sample_arguments(self) -> list[str]:
        """What its script is given for the required parameters of its example."""
        import shlex
        needed = self.required_parameters
        values = shlex.split(self.sections["EXAMPLE"].splitlines()[0])[-len(needed):] if needed else []
        return [word for name, value in zip(needed, values)
                for word in (both_ends(value) if name == "FUNCTION" else [value])]

    @property
    def columns(self) -> list[str]:
        """The names of the columns that it prints, as COLUMNS explains them; maps (``@x``) are not columns."""
        names = [word for left, _ in parse_entries(self.sections.get("COLUMNS", "")) if left[0] != "@"
                 for word in left.split()]
        return [name for name in names if any(map(str.isalnum, name))]

    @property
    def descriptions(self) -> dict[str, str]:
        """What COLUMNS says of each column and map."""
        return describe_columns(self.sections.get("COLUMNS", ""))


def _series(release: str) -> list[int]:
    """[6, 18] of 6.18.44."""
    return [int(number) for number in release.split(".")[:2]]


def both_ends(function: str) -> list[str]:
    """The probes at the calls and at the returns: of ``vfs_read`` kprobe:vfs_read and kretprobe:vfs_read, of ``c:read``
    those of uprobes. ``uprobe:libc:read`` is what it says."""
    first, colon, rest = function.partition(":")
    kind, target = KINDS.get(first), rest
    if kind is None or not kind.exit or not target:
        kind, target = KINDS["uprobe" if colon else "kprobe"], function
    return [f"{kind.name}:{target}", f"{kind.exit}:{target}"]


def _parse_option(left: str, help: str) -> ToolOption:
    *names, last = left.split(", ")
    name, _, value = last.partition(" ")
    return ToolOption((*names, name), value, help)


def tool_names() -> list[str]:
    """The names of all tools, in order; no file is opened."""
    return [file.removesuffix(".bt") for file in list_shipped(FOLDER) if file.endswith(".bt")]


def all_tools() -> list[Tool]:
    """Every tool, by name."""
    return [_read_tool(name) for name in tool_names()]


def find_tool(name: str) -> Tool | None:
    """The tool called ``name``; None if there is none."""
    return _read_tool(name) if name in tool_names() else None


def tool_help(tool: Tool) -> str:
    """What ``sonde TOOL --help`` prints: 80 columns wide, but for output in examples."""
    from .page_layout import blocks_of, lay_out, wrap_words
    parts = ["\n".join(wrap_words(f"{tool.name}: {tool.purpose}", "", "  "))]
    parts += ["\n".join([title, *lay_out(blocks_of(title, tool.sections[title]))])
              for title in SECTIONS if title in tool.sections]
    return "\n\n".join(parts) + "\n"


def tool_listing() -> str:
    """What ``sonde tools`` prints: a line for each."""
    tools = all_tools()
    width = max(len(tool.name) for tool in tools)
    return "".join(f"{tool.name:{width}}  {tool.purpose}\n" for tool in tools)


@cache
def _read_tool(name: str) -> Tool:
    path = os.path.join(FOLDER, name + ".bt")
    return parse_tool(name, path, read_shipped(path).decode())


def parse_tool(name: str, path: str, text: str) -> Tool:
    """The documentation at the head of a tool's ``text``; UsageError if it has not the form above."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line[2:].removeprefix(" ").rstrip())
    return read_page(name, path, lines)


def read_page(name: str, path: str, lines: list[str]) -> Tool:
    """The documentation that ``lines`` are; UsageError if it has not the form above."""
    first, *rest = lines or [""]
    title, colon, purpose = first.partition(": ")
    if title != name or not colon or not purpose:
        raise UsageError(f"{path}: the first line has to be '// {name}: what it is for'")
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in rest:
        if line in SECTIONS:
            current = sections[line] = []
        else:
            current.append(line)
    return Tool(name, path, purpose, {title: "\n".join(body).rstrip() for title, body in sections.items()})
