"""Where ``probe`` has to be a string, and so a program for each name, and where it need not."""

from __future__ import annotations

import pytest

from unit.fake_world import check_text

TWO = "u:prog:work, u:prog:main"


@pytest.mark.parametrize("body", [
    '@p["begin"] = 1; @p[probe] = 2', '@p[probe] = 1; delete(@p, "x")', 'delete(@p, probe); @p["x"] = 1',
    '$s = probe; $s = "a"', '@s = "a"; @s = probe', '@t = ("a", 1); @t = (probe, 1)',
    '@m["a", 1] = 1; @m[probe, 2] = 2',
    'print(comm == "x" ? probe : "none")', '$x = pid ? probe : comm; print($x)', "print(str(probe))",
    "$p = probe; print(strlen($p))", '$x = probe; @p["x"] = 1; @p[$x] = 2', '@p[comm] = 1; @p[probe] = 1',
])
def test_where_a_string_meets_it(body: str) -> None:
    probes = check_text(f"{TWO} {{ {body} }}").probes
    assert [[a.name for a in p.attach] for p in probes] == [["uprobe:/bin/prog:work"], ["uprobe:/bin/prog:main"]]


@pytest.mark.parametrize("body", [
    "@p[probe] = count()", "print(probe)", '$s = probe; @q["x"] = 1; print($s)', 'if (probe == "x") { print(1) }',
    '@m["a", probe] = 1; @m["b", probe] = 2', 'printf("%s\\n", probe)', "$x = pid ? probe : probe; print($x)",
])
def test_where_programs_are_shared(body: str) -> None:
    assert len(check_text(f"{TWO} {{ {body} }}").probes) == 1
