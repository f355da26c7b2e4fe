"""Every command that README.md and docs/first-steps.md show with its output is run as it stands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from support import run_sonde

PROJECT = Path(__file__).parents[2]
STEPS = "docs/first-steps.md"


def commands(page: str) -> list[str]:
    """The commands behind ``# sonde`` in a page's fenced blocks: up to the line where all quotes are closed."""
    found = []
    for block in re.findall(r"^```\n(# sonde .*?)^```$", (PROJECT / page).read_text(), re.M | re.S):
        lines = block.splitlines()
        command = lines.pop(0).removeprefix("# ")
        while command.count("'") % 2:
            command += "\n" + lines.pop(0)
        found.append(command)
    return found


def test_the_readme_has_three_and_the_first_steps_seven_more() -> None:
    assert [len(commands(page)) for page in ("README.md", STEPS)] == [3, 7]
    assert len({*commands("README.md"), *commands(STEPS)}) == 10


@pytest.mark.parametrize("command", [*commands("README.md"), *commands(STEPS)])
def test_command_of_a_page(command: str, request: pytest.FixtureRequest) -> None:
    if "sock_send_length" in command:
        request.getfixturevalue("socket_lengths")
    done = run_sonde(*shlex.split(command)[1:], cwd=PROJECT)
    assert done.returncode == 0, done.stderr
    assert "ERROR" not in done.stderr
    assert done.stdout.strip()


@pytest.mark.usefixtures("socket_lengths")
def test_python_example(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)
    code = re.search(r"^```python\n(.*?)^```$", (PROJECT / STEPS).read_text(), re.M | re.S)
    assert code is not None
    exec(compile(code[1], STEPS, "exec"), {})
    *_, sizes, losses = capsys.readouterr().out.splitlines()
    assert sizes == "40 Bucket(low=128, high=256, count=5)"
    assert losses == "nothing was lost"
