"""Manual pages and completions say what --help says, and are read by what they are for."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sonde import tools
from sonde.cli import command_table
from sonde.cli.options import OPTIONS

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("manual")
    subprocess.run([sys.executable, str(ROOT / "scripts" / "manual.py"), str(folder)], check=True)
    return folder / "share"


def names() -> list[str]:
    return [*tools.tool_names(), *command_table.COMMANDS]


def test_there_is_a_page_for_everything(share: Path) -> None:
    assert sorted(file.name for file in (share / "man" / "man1").iterdir()) \
        == sorted(["sonde.1", *[f"sonde-{name}.1" for name in names()]])


def test_pages_are_read_without_a_complaint(share: Path) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    pages = sorted((share / "man" / "man1").iterdir())
    done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-P-cbou", *map(str, pages)], capture_output=True,
                          text=True, check=True)
    assert not done.stderr
    for row in OPTIONS:
        assert row.help.split("'")[0] in done.stdout
    life = tools.find_tool("tcplife")
    assert life is not None
    for line in life.sections["EXAMPLE"].splitlines():
        assert line.strip() in done.stdout


@pytest.mark.parametrize(("line", "expected"), [
    (["sonde", "tcpli"], ["tcplife"]), (["sonde", "doct"], ["doctor"]), (["sonde", "tcplife", "--do"], ["--dot"]),
    (["sonde", "-f", "perf"], ["perfetto"]), (["sonde", "flame", "--off-c"], ["--off-cpu"]),
    (["sonde", "top", "runqla"], ["runqlat"]), (["sonde", "--heat"], ["--heatmap"]),
])
def test_bash_completes(share: Path, line: list[str], expected: list[str], tmp_path: Path) -> None:
    script = (f". {share}/bash-completion/completions/sonde\nCOMP_WORDS=({' '.join(line)}); "
              f"COMP_CWORD={len(line) - 1}; _sonde; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == expected and not done.stderr


@pytest.mark.parametrize(("shell", "file"), [("zsh", "zsh/site-functions/_sonde"),
                                             ("fish", "fish/vendor_completions.d/sonde.fish")])
def test_other_shells_parse_theirs(share: Path, shell: str, file: str) -> None:
    assert all(name in (share / file).read_text() for name in names())
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([shell, "-n", str(share / file)], check=True)
