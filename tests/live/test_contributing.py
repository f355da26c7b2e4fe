"""The recipes of CONTRIBUTING.md: each is applied to a copy of the tree, and does what it says."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import environment

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(diff|text|sonde) ([^\n]+)\n(.*?)^```$", re.M | re.S)
RECIPES = {text.partition("\n")[0]: BLOCK.findall(text)
           for text in (ROOT / "CONTRIBUTING.md").read_text().split("\n### ")[1:]}


def apply(tree: Path, kind: str, path: str, body: str) -> None:
    """Write a file, or put the lines with a plus in the place of those with a minus, which are there once."""
    target = tree / path
    if kind == "text":
        assert not target.exists()
        target.write_text(body)
        return
    old, new = ["\n".join([line[1:] for line in body.splitlines() if line[0] == sign]) for sign in "-+"]
    text = target.read_text()
    assert len(re.findall(f"^{re.escape(old)}", text, re.M)) == 1, old
    target.write_text(re.sub(f"^{re.escape(old)}", lambda _: new, text, count=1, flags=re.M))


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_works(recipe: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    *changes, (kind, head, body) = RECIPES[recipe]
    assert changes and kind == "sonde"
    for change in changes:
        apply(tmp_path, *change)
    # Under the words of a command line stands what it prints, above a script stands that.
    command = head.startswith("-") or " -" in head
    words, wanted = (shlex.split(head), body) if command else (["-q", "-e", body], head)
    done = subprocess.run([sys.executable, "-m", "sonde", *words], capture_output=True, text=True, check=False,
                          timeout=60, env={**environment(), "PYTHONPATH": str(tmp_path / "src"),
                                           "XDG_CACHE_HOME": str(tmp_path)})
    assert wanted.strip() in f"{' '.join(done.stdout.split())}\n{done.stdout}{done.stderr}", done.stdout + done.stderr
