"""Hints that name a path or a package are right for how Sonde came onto the machine."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sonde import tools
from sonde.base import installation
from sonde.builtins import BUILTINS
from sonde.cli.command_table import COMMANDS
from sonde.cli.main import main
from sonde.functions import FUNCTIONS
from sonde.kinds import kind_names
from sonde.semantics.config import VARIABLES

ROOT = Path(__file__).parents[3]


def test_the_extras_are_those_of_the_package() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, packages in installation.EXTRAS.items():
        assert [re.split(r"[<>=]", each)[0] for each in declared[extra]] == list(packages)
    assert set(declared) - set(installation.EXTRAS) == {"dev", "docs"}  # what changing Sonde needs


@pytest.mark.parametrize("name", list(COMMANDS))
def test_each_command_has_a_page(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for line in ([name, "--help"], ["help", name]):
        assert main(line) == 0
        shown = capsys.readouterr()
        assert shown.out.startswith(f"{name}: ") and f"sonde {name}" in shown.out and not shown.err


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0 and capsys.readouterr().out.startswith("USAGE:")
    # type: ignore[arg-type]
    assert main(["help", "tcplife"]) == 0 and capsys.readouterr().out == tools.tool_help(tools.find_tool("tcplife"))
    assert main(["help", "tcplif"]) == 0 and "\n    sonde tcplife --help\n" in capsys.readouterr().out
    assert main(["version"]) == 0 and re.fullmatch(r"sonde v\d+\.\d+\.\d+\n", capsys.readouterr().out)
    assert main(["top"]) == 1 and "sonde top needs a script" in capsys.readouterr().err


def test_help_of_the_language(capsys: pytest.CaptureFixture[str]) -> None:
    """Every function, builtin, kind of probe and variable has its text; a word that is a command, too, has both."""
    for name in (*FUNCTIONS, *BUILTINS, *kind_names(), *VARIABLES):
        assert main(["help", name]) == 0, name
        assert capsys.readouterr().out.strip(), name
    assert main(["help", "hist"]) == 0
    assert capsys.readouterr().out == """\
hist(n[, bits])
  Histogram by powers of two. (as a map's value only)
  @ = hist(args.ret)
"""
    assert main(["help", "profile"]) == 0
    both = capsys.readouterr().out
    assert both.startswith("profile: ") and "\nprofile:unit:count (p)\n" in both
    assert main(["help", "hst"]) == 1 and "did you mean hist?" in capsys.readouterr().err


@pytest.mark.parametrize(("line", "hints"), [
    (["tcpconnect", "--prot", "80"], ["did you mean --port?", "see sonde tcpconnect --help"]),
    (["tcplife", "--ifno"], ["see sonde tcplife --help"]),
    (["ipecn", "-d", "2"], ["ipecn has no -d of its own: see sonde ipecn --help"]),
    (["--fromat", "json"], ["did you mean --format?", "sonde --help shows all options"]),
    (["--foo"], ["parameters of the program that begin with a dash stand after --", "sonde --help shows all options"]),
    (["tcplife", "--foo"], ["see sonde tcplife --help"]),
    (["flame", "-d", "all"], ["sonde flame --help explains"]),
    (["profile", "-d", "4", "5"], ["see sonde profile --help"]),
    (["overhead", "-c", "ls"], ["sonde overhead --help explains"]),
    (["trace", "-e", "begin { }"], ["sonde trace --help explains"]),
    (["doctor", "-p1"], ["sonde doctor --help explains"]),
])
def test_hints_come_from_what_was_asked_for(line: list[str], hints: list[str],
                                            capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line) == 1
    shown = re.findall("HINT: (.*)", capsys.readouterr().err)
    assert [hint for hint in shown if not hint.startswith("its options are ")] == hints


def test_commands_take_seconds_as_tools_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["overhead", "-d", "0"]) == 1
    assert "SECONDS has to be more than 0" in capsys.readouterr().err
    assert main(["profile", "-d", "4", "5"]) == 1
    assert "profile takes a number of SECONDS, not '5 4'" in capsys.readouterr().err


def test_the_options_of_a_tool_are_listed_where_one_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tcplife", "--foo"]) == 1
    assert "HINT: its options are -p, -T, --timestamp, " in capsys.readouterr().err


@pytest.mark.parametrize("started", ["sonde", "-c", str(ROOT / "src" / "sonde" / "__main__.py")])
def test_what_root_is_told_to_type_runs(started: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From any folder, with root's PATH."""
    monkeypatch.setattr(sys, "argv", [started, "help", "tcplife"])
    sudo, _, command = installation.as_root().partition(" ")
    assert sudo == "sudo"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, cwd=tmp_path,
                          env={"PATH": "/usr/bin:/bin"})
    assert done.stdout.startswith("tcplife: "), done.stderr


def test_a_program_that_uses_the_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["my programs/first.py", "7", "read=2ms"])
    assert installation.as_root() == f"sudo {sys.executable} 'my programs/first.py' 7 read=2ms"


OURS = {installation.DISTRIBUTION, ".", "", "-e", "dist/sonde_tracer-*.whl"}
# What pages, hints and scripts name beside the packages of the extras: each is what its name says.
OTHERS = {"dask-jobqueue", "pip", "setuptools", "wheel", "build"}
_INSTALL = re.compile(r"(?:pip3?|pipx)[ \"',]+(?:install|inject|download)\b([^`\n|#;&)]*)")


def _packages_of(text: str) -> set[str]:
    """The packages that commands of pip and pipx in a text name."""
    found = set()
    for match in _INSTALL.finditer(text):
        for word in match[1].replace("'", " ").replace('"', " ").split():
            name = re.split(r"[\[<>=~!]", word)[0]
            if not word.startswith(("-", "$", "{", "(")) and re.fullmatch(r"[A-Za-z0-9._/*-]*", name):
                found.add(name.rstrip(".,:") or ".")
    return found


def test_the_distribution_is_called_as_hints_say() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"] == installation.DISTRIBUTION


def test_pages_hints_and_scripts_name_only_packages_that_are_meant() -> None:
    """On PyPI the name of the command is a stranger's package: whoever follows a page must not install that."""
    known = OURS | OTHERS | {package for packages in installation.EXTRAS.values() for package in packages}
    dev = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dev"]
    known |= {re.split(r"[<>=\[]", each)[0] for each in dev}
    files = [path for pattern in ("README.md", "CONTRIBUTING.md", "Makefile", "docs/**/*.md", "deploy/*", "scripts/*",
                                  "src/sonde/**/*.py", "src/sonde/**/*.bt", ".ci/run")
             for path in ROOT.glob(pattern) if path.is_file()]
    assert len(files) > 400
    strange = {(str(path.relative_to(ROOT)), name) for path in files
               for name in _packages_of(path.read_text(errors="replace")) - known
               if not name.startswith(("/", "..", "http"))}
    assert not strange
    assert _packages_of("`pip install 'sonde[fleet]'` and pipx install sonde") == {"sonde"}
    assert not any(re.search(r"\bsonde\[[a-z]", path.read_text(errors="replace")) for path in files)
