"""The tutorial's commands, run in the order of the page by one shell."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from doc_commands import ROOT, goes_on

PAGE = ROOT / "docs" / "tutorial.md"
_END = "the end of a command"


class Step(NamedTuple):
    """A command, the number of the page's step, and what it printed when it was run."""

    text: str
    number: int
    status: int
    output: str


def commands(text: str) -> Iterator[tuple[int, str]]:
    """(number of the step, command), each with the lines that it goes on to."""
    for number, section in enumerate(re.split(r"^## \d\. .*$", text, flags=re.M)):
        for block in re.findall(r"^```\n(.*?)^```$", section, re.M | re.S):
            lines = iter(block.splitlines())
            for line in lines:
                if line.startswith("# "):
                    command = line[2:]
                    while goes_on(command) or "<<'END'" in command and not command.endswith("\nEND"):
                        command += "\n" + next(lines)
                    yield number, command


def run_steps(folder: Path, environment: Mapping[str, str]) -> list[Step]:
    """Run the page in a folder that has ``scripts``; the file ``stderr`` there gets what goes to stderr."""
    steps = []
    with open(folder / "stderr", "w") as said, subprocess.Popen(
            ["bash", "-m"], cwd=folder, env=environment, stdin=subprocess.PIPE, text=True, stdout=subprocess.PIPE,
            stderr=said) as shell:
        assert shell.stdin is not None and shell.stdout is not None
        for number, text in commands(PAGE.read_text()):
            shell.stdin.write(f"{text}\necho \"\n{_END} $?\"\n")
            shell.stdin.flush()
            lines = []
            while not (line := shell.stdout.readline()).startswith(_END):
                assert line, (folder / "stderr").read_text()
                lines.append(line)
            steps.append(Step(text, number, int(line.split()[-1]), "".join(lines).removesuffix("\n")))
        shell.stdin.close()
    return steps
