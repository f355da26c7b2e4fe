"""The cookbook's entries have their form: a question, a command, what it printed, how to read that, what next."""

from __future__ import annotations

import re
import shlex

from compiled import world
from cookbook import FOLDER, all_entries
from sonde import compiling, tools
from sonde.cli import options
from sonde.cli.command_table import COMMANDS
from sonde.cli.requests import options_of_tool
from sonde.compiling import Options
from sonde.errors import ERROR, CompileError

KNOWN = {*COMMANDS, *tools.tool_names()}
OF_THE_MACHINE = {"missing-probe", "missing-feature"}


def test_each_question_is_asked_once() -> None:
    questions = [entry.question for entry in all_entries()]
    assert len(set(questions)) == len(questions) and all(question.endswith("?") for question in questions)


def test_each_answer_is_shown() -> None:
    for entry in all_entries():
        assert entry.command.startswith("sonde "), entry.question
        assert entry.output.strip(), entry.question
        assert "`" in entry.next or "](" in entry.next, entry.question  # something to run or to read


def test_each_page_is_listed() -> None:
    start = (FOLDER / "README.md").read_text()
    for page in FOLDER.glob("[a-z]*.md"):
        assert f"({page.name})" in start


def test_the_cookbook_has_sixty_entries() -> None:
    assert len(all_entries()) >= 60


def problems(program: str) -> list[str]:
    try:
        compiling.compile(program, Options(), world())
    except CompileError as error:
        return [d.render() for d in error.diagnostics if d.severity == ERROR and d.code not in OF_THE_MACHINE]
    return []


def test_commands_in_the_text_are_commands() -> None:
    """What a page only names is not run: its tool has to be there, and its script to compile."""
    folders = "cookbook", "coming-from", "language"
    pages = [page for folder in folders for page in FOLDER.parent.glob(f"{folder}/*.md")]
    assert len(pages) > 15
    for page in pages:
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
        for command in re.findall(r"`sonde ([^`]+)`", text):
            words = shlex.split(command)
            if not words[0].endswith(".bt"):  # whose options nobody knows
                options.parse_command_line(words, options_of_tool)
            programs = [words[at + 1] for at, word in enumerate(words) if word == "-e" and "{" in words[at + 1]]
            assert not [problem for program in programs for problem in problems(program)], f"{page.name}: {command}"
            named = [word for word in words if word in KNOWN or word.endswith(".bt")]
            assert programs or named or words[0].startswith(("-l", "--", "-e")), f"{page.name}: {command}"
