"""What sonde alone says: on a terminal five things to try, which are there, and elsewhere the usage."""

from __future__ import annotations

import shlex
import sys

import pytest

from compiled import world
from sonde import compiling
from sonde.cli.command_table import COMMANDS
from sonde.cli.first_words import FIRST_WORDS
from sonde.cli.main import main
from sonde.semantics.script_options import Options
from sonde.tools import tool_names


def test_five_things_to_try_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main([]) == 0
    assert capsys.readouterr().out == FIRST_WORDS


def test_elsewhere_the_usage_and_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 1
    shown = capsys.readouterr()
    assert not shown.out and shown.err.startswith("USAGE:")


def test_what_it_says_is_there_and_fits() -> None:
    lines = [line.split("   ")[0] for line in (line.strip() for line in FIRST_WORDS.splitlines())
             if line.startswith(("sudo sonde", "sonde"))]
    assert len(lines) == 5 and max(map(len, FIRST_WORDS.splitlines())) <= 80
    for line in lines:
        words = shlex.split(line.removeprefix("sudo "))[1:]
        if words[0] == "-e":
            assert compiling.compile(words[1], Options(), world()).probes
        else:
            assert words[0] in [*tool_names(), *COMMANDS]
