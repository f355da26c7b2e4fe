"""Macros: substitution, hygiene, limits."""

from __future__ import annotations

import pytest

from compiled import world
from sonde import compiling
from sonde.errors import CompileError
from sonde.semantics.script_options import Options
from unit.fake_world import check_text, findings

MACROS = """
macro one() { 1 }
macro add_one(x) { x + 1 }
macro add_two(x) { add_one(x) + 1 }
macro bump($a, @b) { $a += 1; @b[$a] = 1; }
macro keep(x) { let $x = x; $x + $x }
macro twice(x) { x; x; }
"""


@pytest.mark.parametrize(("statements", "types"), [
    ("$v = one()", {"v": "int8"}), ("$v = one", {"v": "int8"}), ("$v = add_two(pid)", {"v": "uint64"}),
    ("$v = 1; bump($v, @m)", {"v": "int64"}), ("$x = comm; $v = keep(5)", {"x": "string[16]", "v": "int64"}),
    ("$v = add_one(add_one(1))", {"v": "int8"}), ("twice(print(1)); $v = 1", {"v": "int8"}),
    ("$v = keep(keep(nsecs))", {"v": "uint64"}),
])
def test_macro(statements: str, types: dict[str, str]) -> None:
    checked = check_text(f"{MACROS} BEGIN {{ {statements}; }}")
    own = {v.name: str(v.type) for v in checked.probes[0].variables if "#" not in v.name}
    assert own == types


def test_maps_are_those_of_the_caller() -> None:
    checked = check_text(f"{MACROS} BEGIN {{ $v = 1; bump($v, @m); }}")
    assert list(checked.maps) == ["@m"]


@pytest.mark.parametrize(("text", "code"), [
    ("macro m() { @x = 1; } BEGIN { m(); }", "macro-hygiene"), ("macro m($x) { $x++; } BEGIN { m(1); }",
                                                                "bad-argument"),
    ("macro m(@x) { @x = 1; } BEGIN { $a = 1; m($a); }", "bad-argument"), ("macro m(x) { x } BEGIN { m(); }", "arity"),
    ("macro m(x) { m(x) } BEGIN { m(1); }", "macro-depth"), ("macro m() { 1 } macro m() { 2 } BEGIN { m; }",
                                                             "redefinition"),
    ("macro m(x) { m(x) + m(x) } BEGIN { m(1); }", "macro-depth"),
    ("macro m() { $caller } BEGIN { $caller = 1; $x = m; }",
                                                                    "undefined-variable"),
])
def test_refused(text: str, code: str) -> None:
    assert findings(text)[0][0] == code


def test_forms_of_a_macro_may_differ_in_the_kinds_of_their_parameters() -> None:
    text = "macro m($x) { $x + 1 } macro m(x) { x + 2 } macro m(@x) { 9 } macro m(x, $y) { 3 } macro m(x, y) { 4 }"
    body = 'static_assert(m(5) == 7 && m(@a) == 9 && m(1, 2) == 4, ""); $a = 1; print((m($a), m(1, $a)));'
    compiling.compile(f"{text} begin {{ @a = 1; {body} }}", Options(), world())
    with pytest.raises(CompileError, match="Redefinition of macro: m"):
        compiling.compile("macro m($x) { 1 } macro m($y) { 2 } begin { }", Options(), world())
