"""docs/tutorial.md: every command, as it stands there, in one shell; each answers what the page says of it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from doc_commands import ROOT
from sonde.builtins.stacks import python_obstacle
from sonde.compiling import live_world
from support import environment, sonde_command
from tutorial import PAGE, run_steps

pytestmark = pytest.mark.skipif(not shutil.which("pgrep"), reason="pgrep is not installed")


def from_32(histogram: str) -> int:
    """How many waits took 32 ms or more."""
    return sum(int(count) for low, count in re.findall(r"^\[(\d+), \d+K?\) +(\d+)", histogram, re.M) if int(low) >= 32)


@pytest.mark.timeout(400)
def test_the_tutorial(tmp_path: Path) -> None:
    if problem := python_obstacle(live_world()):
        pytest.skip(f"kernel lacks what pystack needs: {problem}")
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sonde").write_text("#!/bin/sh\nexec " + " ".join(sonde_command([])) + ' "$@"\n')
    (tmp_path / "bin" / "sonde").chmod(0o755)
    path = f"{tmp_path}/bin:{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    steps = run_steps(tmp_path, environment({"PATH": path}))
    said = (tmp_path / "stderr").read_text()
    assert not [step for step in steps if step.status], said
    assert "Lost" not in said, said
    answers = {number: "\n".join(step.output for step in steps if step.number == number) for number in range(1, 10)}
    assert answers[1].strip() == "hello"
    assert "sys_exit_recvfrom" in answers[2] and " ret" in answers[2]
    assert re.search(r"@\[recvfrom\]: \d+", answers[3])
    assert from_32(answers[4])
    assert "@total[futex]" in answers[6] and "@total[fsync]" in answers[6]
    assert re.search(r"@ms\[stock, *\n +stock\.<locals>\.answer \(.*shop\.py:\d+\)", answers[7])
    assert re.search(r"@\[ *\n +stock\.<locals>\.report \(.*shop\.py:\d+\)", answers[8])
    assert "<svg" in (tmp_path / "waits.svg").read_text()
    assert "@ms" in answers[9]


def test_it_has_nine_steps() -> None:
    assert len(re.findall(r"^## \d\. ", PAGE.read_text(), re.M)) == 9
