"""Mistakes that are made often, for docs/errors.md, and what Sonde says of each example of that page. The kernel is a
recorded one, so that it says the same on every machine."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from compiled import world  # noqa: E402
from sonde import compiling  # noqa: E402
from sonde.cli import main, options  # noqa: E402
from sonde.errors import CompileError  # noqa: E402
from sonde.semantics.script_options import Options  # noqa: E402
from sonde.semantics.world import World  # noqa: E402
from sonde.source import Diagnostic  # noqa: E402

OPEN = "tracepoint:syscalls:sys_enter_openat"
LONGEST = 1200  # characters of an answer that the page shows

# What somebody wanted -> command lines that do not do it.
MISTAKES: dict[str, tuple[str, ...]] = {
    "The command line": (
        """sonde 'begin { printf("hello\\n"); }'""",
        f"sonde {OPEN}",
        "sonde --foo",
        "sonde tcplife --foo",
        "sonde flame --offcpu",
        "sonde execsnop",
        "sonde doctr",
        "sonde nosuch.bt",
        "sonde -e",
        "sonde -p sshd -e 'begin { exit(); }'",
        "sonde -f jsn -e 'begin { exit(); }'",
        "sonde --by contaner -e 'begin { exit(); }'",
    ),
    "Probes": (
        "sonde -e 'tracepoint:syscalls:sys_enter_opnat { print(comm); }'",
        "sonde -e 'tracepoint:sys_enter_openat { print(comm); }'",
        "sonde -e 'openat { print(comm); }'",
        "sonde -e 'syscall:::entry { @[comm] = count(); }'",
        "sonde -e 'uprobe:malloc { print(comm); }'",
        "sonde -e 'interval:5 { print(1); }'",
        "sonde -e 'begin print(1);'",
        "sonde -e '{ print(1); }'",
        "sonde -e 'begin { print(1); }; end { print(2); }'",
        f"sonde -e '{OPEN} if (pid == 1) {{ print(comm); }}'",
        f"sonde -e '{OPEN} /pid = 1/ {{ print(comm); }}'",
    ),
    "Arguments and names": (
        f"sonde -e '{OPEN} {{ print(args.fname); }}'",
        f"sonde -e '{OPEN} {{ print(arg0); }}'",
        f"sonde -e '{OPEN} {{ print(retval); }}'",
        f"""sonde -e '{OPEN} {{ printf("%s\\n", args.filename); }}'""",
        f"""sonde -e '{OPEN} /args.filename == "/etc/passwd"/ {{ print(comm); }}'""",
        "sonde -e 'begin { if (comm == sshd) { print(1); } }'",
        "sonde -e 'begin { print(execname); }'",
        "sonde -e 'begin { prnt(1); }'",
        "sonde -e 'begin { @ = quantize(1); }'",
        "sonde -e 'begin { print($pid); }'",
        "sonde -e 'begin { @bytes = sum(1); print(@byte); }'",
    ),
    "Types": (
        """sonde -e 'begin { $a = 1; $a = "one"; }'""",
        "sonde -e 'begin { @a = count(); @a = 1; }'",
        """sonde -e 'begin { @a[1] = 1; @a["one"] = 1; }'""",
        """sonde -e 'begin { @a[1] = 1; printf("%d\\n", @a); }'""",
        """sonde -e 'begin { if (pid == "1") { print(1); } }'""",
        "sonde -e 'begin { $x = hist(1); }'",
        "sonde -e 'begin { @x = count; }'",
        """sonde -e 'begin { printf("%d %d\\n", 1); }'""",
        """sonde -e 'begin { printf("%d\\n", "one"); }'""",
    ),
    "Syntax": (
        """sonde -e "begin { printf('x'); }\"""",
        """sonde -e 'begin { if (comm = "sshd") { print(1); } }'""",
        """sonde -e 'begin { printf("hello); }'""",
        """sonde -e 'begin { printf("hello"; }'""",
        "sonde -e 'begin { print(1); /* open }'",
        "sonde -e 'begin { if (pid == 1) { print(1); }'",
        "sonde -e 'begin { print(1) print(2); }'",
        "sonde -e 'begin { x = 5; }'",
        "sonde -e 'begin { int x = 5; }'",
        "sonde -e 'begin { for (i = 0; i < 5; i++) { print(i); } }'",
        "sonde -e 'begin { if (1) { print(1); } elif (2) { print(2); } }'",
        """sonde -e 'begin { print "one"; }'""",
        "sonde -e 'begin { # a comment'",
        "sonde -e 'begin { if (pid == 1 and tid == 1) { print(1); } }'",
    ),
}

# Of these codes the text depends on what is installed, or on the machine.
VARYING = {"bad-filter", "bad-header", "too-many-programs", "unsettled"}


def findings(text: str, here: World | None = None, **given: object) -> list[Diagnostic]:
    """A script's diagnostics, for the recorded kernel."""
    try:
        spec = compiling.compile(text, Options(**given), here or world())  # type: ignore[arg-type]
    except CompileError as error:
        return error.diagnostics
    return spec.warnings


def findings_of_example(example: str) -> list[Diagnostic]:
    """The same of an example of the page. Its first line may say how it comes about: a command line, a machine without
    control groups of version 2, or what is in a file."""
    first, _, rest = example.removeprefix("// ").partition("\n")
    if example.startswith("// sonde "):
        line = options.parse_command_line(shlex.split(first)[1:])
        return findings(rest, probe_filter=line.get("probe-filter"), by=line.get("by"),
                        named=dict(word[2:].split("=") for word in line.rest))
    if first == "on version 1":
        here = world()
        known, here.cgroup_id = here.cgroup_id, lambda path: None  # type: ignore[method-assign,assignment]
        try:
            return findings(rest, here)
        finally:
            here.cgroup_id = known  # type: ignore[method-assign]
    if re.match(r"// \w+\.h: ", example):
        name, _, text = first.partition(": ")
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            Path(name).write_text(text + "\n")
            return findings(rest)
    return findings(example)


def answer(line: str) -> str:
    """What Sonde says to a command line."""
    words = shlex.split(line)[1:]
    parsed = None if words == ["-e"] else options.parse_command_line(words) if words[:1] == ["-e"] else None
    if parsed is not None:
        return "\n".join([item.render() for item in findings(parsed.get("e"))])
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        main.main(words)
    return said.getvalue()


def mistakes_text() -> str:
    """The page's part about mistakes."""
    parts = []
    for title, lines in MISTAKES.items():
        parts.append(f"### {title}")
        parts += [f"```\n# {line}\n{_trimmed(answer(line))}\n```" for line in lines]
    return "\n\n".join(parts)


def _trimmed(text: str) -> str:
    """Text without blanks at the ends of its lines."""
    return "\n".join([line.rstrip() for line in text.rstrip("\n").split("\n")])


def example_text(code: str, example: str) -> str:
    """A code's example, and what Sonde says of it."""
    said = "" if code in VARYING else _trimmed("\n".join([each.render() for each in findings_of_example(example)
                                                           if each.code == code][:1]))
    shown = f"\n\n```\n{said}\n```" if said and len(said) <= LONGEST else ""
    return f"\n\n```\n{example}\n```{shown}"
