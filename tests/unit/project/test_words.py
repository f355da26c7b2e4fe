"""scripts/check_words.py counts each kind of name that is not wanted, and nothing else."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

sys.path[:0] = [str(ROOT / "scripts")]

import check_words  # noqa: E402


def words(text: str) -> list[str]:
    return sorted(use[0] for use in check_words.find_uses([(Path("module.py"), ast.parse(text))]))


@pytest.mark.parametrize(("text", "expected"), [
    ("def f():\n  found = 1\n  found = 2\n  _found = 3", ["found"] * 2),  # once in each scope, for each name
    ("def f():\n  found = 1\ndef g():\n  found = 2", ["found"] * 2),
    ("def f(place, *, told): ...", ["place", "told"]),
    ("def kept(): ...", ["kept"]), ("class C:\n  how: str", ["how"]),
    ("def f(self):\n  self._asked = behind = 1", ["asked", "behind"]),
    ("x = [place for place in y]", ["place"]), ("x = lambda found: 1", ["found"]),
    ("def was_found(): ...\nuser_places = KEPT = _told_once = 1", ["found", "kept", "place", "told"]),
    ("class UserPlace: ...\nclass StackPlaces: ...", ["place"] * 2),
    ("founder = placement = whose.found", []), ("def place_slots(): ...\ndef _place_value(): ...", []),
    ("class Gone(Exception): ...", ["Error", "participle"]),
    ("class A(B): ...\nclass B(errors.C): ...\nclass C(OSError): ...", ["Error"] * 3),
    ("class WrongError(ValueError): ...\nclass Fine: ...", []),
    ("class Told: ...", ["participle", "told"]), ("class _Planned: ...", ["participle"]),
    ("class RowShown: ...", ["participle"]),
    ("class ToldHost: ...", ["told"]), ("class Speed: ...\nclass Plan: ...", []),
])
def test_each_kind_is_counted(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_more_than_there_may_be_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "module.py").write_text("found = 1\ndef f(found): ...\n")
    monkeypatch.setattr(check_words, "SOURCE", tmp_path)
    monkeypatch.setattr(check_words, "MOST", {"found": 2})
    assert check_words.main([]) == 0 and capsys.readouterr().out == ""
    monkeypatch.setattr(check_words, "MOST", {"found": 1})
    assert check_words.main([]) == 1 and capsys.readouterr().out.startswith("found: 2 names, and at most 1 is allowed")
