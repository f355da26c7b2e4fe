"""Functions that are written in the language itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import sonde
from compiled import compiled
from sonde import compiling
from sonde.errors import CompileError
from sonde.functions import FUNCTIONS
from sonde.semantics import macros
from sonde.semantics.macros import library_macros
from sonde.types import Str

FOLDER = Path(sonde.__file__).parent / "stdlib"
ROWS = [row for row in FUNCTIONS.values() if row.library]


def finding(text: str) -> tuple[str, str]:
    with pytest.raises(CompileError) as caught:
        compiled(text)
    first = caught.value.diagnostics[0]
    assert first.span is not None
    return first.code, first.span.text


def test_every_macro_has_a_row_and_every_row_its_macros() -> None:
    """For each number of arguments that the row allows."""
    written = {(path.stem, *key) for path in FOLDER.glob("*.bt") for key in library_macros(path.stem)}
    wanted = {(row.library, row.name, count) for row in ROWS
              for count in range(len([p for p in row.params if not p.endswith("?")]), len(row.params) + 1)}
    assert written == wanted and wanted


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.bt")), ids=lambda path: path.stem)
def test_the_library_is_formatted(path: Path) -> None:
    assert compiling.format_source(path.read_text()) == path.read_text()


@pytest.mark.parametrize(("text", "code", "where"), [
    ('begin { print(is_err("x")); }', "bad-cast", 'is_err("x")'),
    ("begin { is_err(); }", "arity", "is_err()"),
    ("begin { assert(1, 2, 3); }", "arity", "assert(1, 2, 3)"),
    ("begin { assert(pid == $nothing); }", "undefined-variable", "$nothing"),
    ("begin { $x = assert(1); }", "no-value", "assert(1)"),
])
def test_what_goes_wrong_is_said_of_the_call(text: str, code: str, where: str) -> None:
    """And of an argument where that is what is wrong, never of the library's own text."""
    assert finding(text) == (code, where)


def test_a_macro_of_the_script_goes_first() -> None:
    sites = compiled('macro is_err(x) { "own" } begin { print(is_err(1)); }').sites
    assert isinstance(sites[0].fields[0].type, Str)


def test_importing_what_is_there_anyway_changes_nothing() -> None:
    assert compiled('import "stdlib/checks.bt"; begin { assert(pid); }').programs


def test_a_script_that_uses_none_reads_none(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def read_file(name: str) -> object:
        read.append(name)
        return library_macros(name)

    monkeypatch.setattr(macros, "library_macros", read_file)
    compiled("begin { print(1); }")
    assert not read
    compiled("begin { print(is_err(1)); }")
    assert set(read) == {"values"}


def test_a_scripts_own_constant_has_the_name_of_a_function() -> None:
    """Only macros that bpftrace has, too, are called without parentheses."""
    text = "%s begin { printf(\"%%d\", caller); }"
    assert compiled(text % "enum e { caller = 4 };").sites
    assert finding(text % "") == ("unknown-identifier", "caller")
    assert compiled("begin { print(default_str_length); }").sites
