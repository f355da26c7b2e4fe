"""Manual pages and completions say what --help says, and are read by what they are for."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from sonde import tools
from sonde.cli import command_table
from sonde.cli.commands import command_page, man
from sonde.cli.completion import complete_words
from sonde.cli.completion.probes import cut_names
from sonde.cli.completion.shells import SCRIPTS, answer_shell, split_line
from sonde.cli.options import OPTIONS, parse_command_line
from sonde.cli.pages.manual import manual_names
from sonde.cli.pages.overview import overview
from sonde.cli.requests import options_of_tool
from sonde.errors import UsageError
from sonde.tools.subjects import SUBJECTS, related_tools
from support import sonde_command
from terminal import Terminal

NAMES = [*tools.tool_names(), *command_table.COMMANDS]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man")
    assert man.write_pages(str(folder)) == len(NAMES) + 1
    return folder


def test_there_is_a_page_for_everything(pages: Path) -> None:
    assert sorted(file.name for file in pages.iterdir()) == sorted(["sonde.1", *[f"sonde-{name}.1" for name in NAMES]])
    assert manual_names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_pages_are_whole(name: str, pages: Path) -> None:
    """Each says what it is for, how it is called, with what options, shows an example, and names related pages."""
    text = (pages / f"sonde-{name}.1").read_text()
    titles = [line[5:-1] for line in text.splitlines() if line.startswith('.SH "')]
    assert titles[:3] == ["SYNOPSIS", "DESCRIPTION", "OPTIONS"] and titles[-1] == "SEE ALSO" and "EXAMPLE" in titles
    assert ("COLUMNS" in titles) == (name not in command_table.COMMANDS or "COLUMNS" in command_page(name).sections)
    page = command_page(name) if name in command_table.COMMANDS else tools.find_tool(name)
    assert page is not None
    main, *related = text.partition('.SH "SEE ALSO"\n')[2].strip().split(", ")
    assert main == "sonde(1)" and related and set(related) <= {f"sonde\\-{each}(1)" for each in NAMES if each != name}
    for row in page.options:
        assert f"\\fB{', '.join(row.names)}".replace("-", "\\-") in text
    for line in page.sections["EXAMPLE"].splitlines():
        assert line.strip().replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq") in text


def test_pages_are_read_without_a_complaint(pages: Path) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(["groff", "-man", "-ww", "-Wbreak", "-Tutf8", "-P-cbou", *map(str, sorted(pages.iterdir()))],
                          capture_output=True, text=True, check=True)
    assert not done.stderr
    words = " ".join(done.stdout.split())
    for row in OPTIONS:
        assert " ".join(row.help.split("'")[0].split()) in words


def test_subjects_are_of_all_tools_once() -> None:
    assert sorted(" ".join(SUBJECTS.values()).split()) == tools.tool_names()
    assert sorted(" ".join(command_table.TOPICS.values()).split()) == sorted(command_table.COMMANDS)
    assert all(name not in related_tools(name) and 3 < len(related_tools(name)) <= 6 for name in tools.tool_names())


def test_help_has_all_by_topic_in_80_columns() -> None:
    lines = overview().splitlines()
    assert max(map(len, lines)) <= 80
    for row in OPTIONS:
        assert any(line.startswith(f"    {', '.join(row.names)}") for line in lines)
    assert {line[4:].partition(" ")[0] for line in lines} >= set(command_table.COMMANDS)
    assert set(" ".join(lines).split()) >= set(tools.tool_names())


@pytest.mark.parametrize("name", NAMES)
def test_help_of_each_is_of_80_columns_and_loses_no_word(name: str) -> None:
    page = command_page(name) if name in command_table.COMMANDS else tools.find_tool(name)
    assert page is not None
    text = tools.tool_help(page)
    example = {line.rstrip() for line in page.sections["EXAMPLE"].splitlines()}
    assert [line for line in text.splitlines() if len(line) > 80 and line not in example and " " in line.strip()] == []
    for section in page.sections.values():
        assert " ".join(section.split()) in " ".join(text.split())


# --- completion -------------------------------------------------------------------------------------------


def words_for(*words: str) -> list[str]:
    *before, current = words
    return [each.word for each in complete_words(before, current).candidates]


@pytest.mark.parametrize(("line", "expected"), [
    ("tcpli", ["tcplife"]), ("doct", ["doctor"]), ("tcplife --do", ["--dot"]), ("-f perf", ["perfetto"]),
    ("flame --off-c", ["--off-cpu"]), ("top runqla", ["runqlat"]), ("--heat", ["--heatmap"]),
    ("--format=perf", ["--format=perfetto"]), ("check -f s", ["sarif"]), ("-e 'begin { }' -f perf", ["perfetto"]),
    ("help lhis", ["lhist"]), ("help tracep", ["tracepoint"]), ("help missing_p", ["missing_probes"]),
    ("help hist x", []), ("man tcpli", ["tcplife"]), ("completion z", ["zsh"]), ("ucalls -l pyth", ["python"]),
    ("record doct", []), ("cost runqla", ["runqlat"]), ("--by p", ["pod"]), ("--mode tes", ["test"]),
    ("-l interv", ["interval:"]), ("-l begin,interval:m", ["begin,interval:ms:"]),
    ("-e 'begin { } interval:m", ["begin { } interval:ms:"]), ("-e 'begin { @x = lhis", ["begin { @x = lhist"]),
])  # fmt: skip
def test_words_are_completed(line: str, expected: list[str]) -> None:
    assert words_for(*split_line(line)[0]) == expected


def test_the_own_options_of_a_tool_come_first() -> None:
    tool = tools.find_tool("opensnoop")
    assert tool is not None
    own = [name for row in tool.options for name in row.names]
    assert words_for("opensnoop", "-")[:len(own)] == own
    assert words_for("opensnoop", "-").count("-e") == 1  # the tool's, in place of Sonde's


def test_many_names_are_cut_after_their_next_part() -> None:
    """So that what all candidates have in common is right to insert, and none is left out."""
    names = [f"{first}_{second}" for first in ("tcp", "udp", "vfs") for second in range(50)]
    assert cut_names(names, 0) == ["tcp_", "udp_", "vfs_"]
    assert cut_names(names[:50], 4) == names[:50]
    assert cut_names([f"tcp_{n}_x" for n in range(150)], 4)[:2] == ["tcp_0_", "tcp_1_"]


@pytest.mark.parametrize(("line", "words", "quote"), [
    ("sonde -e 'a b", ["sonde", "-e", "a b"], "'"), ('sonde "x\\"y', ["sonde", 'x"y'], '"'),
    ("sonde a\\ b ", ["sonde", "a b", ""], ""), ("sonde '' x", ["sonde", "", "x"], ""), ("", [""], ""),
])
def test_lines_are_split_as_shells_split_them(line: str, words: list[str], quote: str) -> None:
    assert split_line(line) == (words, quote)


def test_bash_replaces_only_the_end_of_a_word() -> None:
    """It breaks words at colons: what is before stays."""
    assert answer_shell("bash", ["sonde -l interval:m", "m"]).splitlines()[1:] == ["ms:\x01\t"]
    assert answer_shell("zsh", ["-l", "interval:m"]).splitlines()[1:] == ["interval:ms:\x01\t"]
    with pytest.raises(UsageError):
        man.main(parse_command_line(["man", "nosuch"], options_of_tool))




SHELLS = {
    "bash": "PS1='$ ' exec bash --norc --noprofile -i",
    "zsh": "PS1='$ ' exec zsh -f -i", "fish": "exec fish --no-config -i",
}
SOURCED = {"bash": ". {}", "zsh": "autoload -Uz compinit; compinit -u -D; . {}", "fish": "source {}"}


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_in_real_shells(shell: str, tmp_path: Path) -> None:
    """Typed into each, in a terminal: a tool, a probe behind colons, and a function in a program's quotes."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    command = tmp_path / "sonde"
    command.write_text(f"#!/bin/sh\nexec {shlex.join(sonde_command([]))} \"$@\"\n")
    command.chmod(0o755)
    (tmp_path / "script").write_text(SCRIPTS[shell])
    subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)
    start = f"cd {tmp_path}; PATH={tmp_path}:$PATH HOME={tmp_path} {SHELLS[shell]}; "
    with Terminal(before=start) as terminal:
        terminal.keys("-l", SOURCED[shell].format(tmp_path / "script") + "; echo rea''dy")
        terminal.keys("Enter")
        terminal.wait_for("^ready")
        for typed, expected in (("sonde tcpli", "sonde tcplife"), ("sonde -l interval:m", "sonde -l interval:ms:"),
                                ("sonde -e 'begin { @ = lhis", "sonde -e 'begin { @ = lhist")):
            terminal.keys("-l", typed)
            terminal.keys("Tab")
            terminal.wait_for(expected.replace("{", "\\{"))
            terminal.keys("C-u")  # C-c would take typed keys with it
