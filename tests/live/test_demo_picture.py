"""The picture that ``make demo`` draws: enough samples to see something, and names of functions alone."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


def test_the_demos_flame_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                               capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.chdir(tmp_path)
    demo = importlib.import_module("demo")
    monkeypatch.setattr(demo, "SONDE", [sys.executable, "-m", "sonde"])
    assert demo.show_picture(), capfd.readouterr()
    picture = (tmp_path / demo.PICTURE).read_text()
    whole = re.search(r"<title>all: (\d+) samples", picture)
    assert whole is not None and int(whole[1]) >= demo.FEWEST
    names = set(re.findall(r'data-name="([^"]*)"', picture))
    assert {"boil (hot.py:2)", "warm (hot.py:3)"} <= names
    shown = " ".join([*names, *re.findall(r'data-about="[^>]*>([^<]*)<', picture)])
    assert not re.search(r"&lt;string|\\\\|\bdef\b", shown), shown
