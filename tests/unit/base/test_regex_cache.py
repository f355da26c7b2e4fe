"""Patterns kept from an earlier run are what ``re`` makes of them, and anything wrong with the file only costs time."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sonde.base import regex_cache
from support import SOURCE, environment

CALLS = {"compile", "match", "fullmatch", "search", "sub", "split", "finditer"}
EXAMPLES = [(r"(?P<word>[A-Za-z_]\w*)|(?P<end>\Z)", regex_cache.ASCII), (r"a(b)?(?P<c>c)+", 0),
            (r".*?x(?=y)", regex_cache.DOTALL), (r"\s*([,*&<>()])\s*", 0), ("ß|[é-ö]+", 0)]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(regex_cache, "_new", {})
    forget()
    yield tmp_path / "sonde"
    forget()


def forget() -> None:
    regex_cache._new.clear()
    for remembered in (regex_cache._cached_matchers, regex_cache._compiled):
        remembered.cache_clear()


def files(cache: Path) -> list[Path]:
    return sorted(cache.glob(f"{regex_cache.PREFIX}*"))


def test_the_flags_are_those_of_re() -> None:
    assert (regex_cache.ASCII, regex_cache.DOTALL) == (re.ASCII, re.DOTALL)


@pytest.mark.parametrize(("pattern", "flags"), EXAMPLES)
def test_a_kept_pattern_is_the_compiled_one(cache: Path, pattern: str, flags: int) -> None:
    assert regex_cache.compile(pattern, flags) == re.compile(pattern, flags)
    assert list(regex_cache._new) == [(pattern, flags)]
    regex_cache.keep_patterns()
    forget()
    kept = regex_cache.compile(pattern, flags)
    assert kept == re.compile(pattern, flags) and not regex_cache._new
    assert kept.groupindex == re.compile(pattern, flags).groupindex and kept.flags == re.compile(pattern, flags).flags
    for text in ("abcc", "word 1", "xy\nxy", "a , b", "ßö", ""):
        ours, theirs = kept.search(text), re.search(pattern, text, flags)
        assert (ours and (ours.span(), ours.groupdict(), ours.lastgroup)) \
            == (theirs and (theirs.span(), theirs.groupdict(), theirs.lastgroup))


@pytest.mark.parametrize("damage", [b"", b"\1\2\3", b"\xff" * 400, None])
def test_a_broken_file_is_made_again(cache: Path, damage: bytes | None) -> None:
    regex_cache.compile("a+b")
    regex_cache.keep_patterns()
    (file,) = files(cache)
    whole = file.read_bytes()
    file.write_bytes(whole[:-3] if damage is None else damage)
    forget()
    assert regex_cache.compile("a+b") == re.compile("a+b") and regex_cache._new
    regex_cache.keep_patterns()
    assert file.read_bytes() == whole


def test_a_file_that_others_can_write_is_not_used(cache: Path) -> None:
    regex_cache.compile("a+b")
    regex_cache.keep_patterns()
    files(cache)[0].chmod(0o666)
    forget()
    assert regex_cache.compile("a+b") == re.compile("a+b") and regex_cache._new


def test_nothing_is_kept_without_bytecode(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    regex_cache.compile("a+b")
    regex_cache.keep_patterns()
    assert not files(cache)


def test_another_re_is_used_as_it_is(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = re.compile("a+b")
    monkeypatch.setattr(re, "compile", lambda pattern, flags: made)
    monkeypatch.delattr(re._compiler, "_code")  # type: ignore[attr-defined]
    assert regex_cache.compile("a+b") is made and not regex_cache._new


def test_functions_are_those_of_re(cache: Path) -> None:
    assert regex_cache.sub(r"\[([a-z]+)\]", r"<\1>", "[a] [b]") == "<a> <b>"
    assert regex_cache.sub("x", lambda found: found[0].upper(), "axa") == "aXa"
    assert regex_cache.split(r"\s*,\s*", "a , b,c") == ["a", "b", "c"]
    assert [found[0] for found in regex_cache.finditer("[0-9]+", "1 22 x3")] == ["1", "22", "3"]
    assert regex_cache.match("a", "ba") is None and regex_cache.fullmatch("a", "ab") is None
    assert regex_cache.search("a", "ba")


def test_patterns_stand_in_the_source() -> None:
    """One that is put together at run time would be kept for ever."""
    def is_constant(node: ast.expr) -> bool:
        if isinstance(node, ast.BinOp):
            return is_constant(node.left) and is_constant(node.right)
        return isinstance(node, ast.Constant) or isinstance(node, ast.Name) and node.id.lstrip("_").isupper()

    loose = [f"{path.relative_to(SOURCE)}:{node.lineno}" for path in (SOURCE / "sonde").rglob("*.py")
             for node in ast.walk(ast.parse(path.read_text()))
             if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS
             and isinstance(node.func.value, ast.Name) and node.func.value.id == "patterns"
             and not is_constant(node.args[0])]
    assert loose == []


def test_a_second_start_imports_no_re(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n"
               "from sonde.base import regex_cache as patterns\nimport sonde.language.lexer\n"
               "patterns.keep_patterns()\nprint('re' in sys.modules)"]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True,
                           env=environment({"XDG_CACHE_HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""})).stdout
            for _ in range(2)]
    assert runs == ["True\n", "False\n"]
