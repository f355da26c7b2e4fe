"""Floating-point numbers in scripts: their literals, and what they can be used for."""

from __future__ import annotations

import pytest

from sonde.language.lexer import parse_float
from unit.fake_world import findings

STRUCT = "struct s { float f; double d; double a[2]; long double l; };"


@pytest.mark.parametrize(("text", "value"), [
    ("1.5", 1.5), ("0.1", 0.1), ("1.5e3", 1500.0), ("1.5e-3", 0.0015), ("2e-3", 0.002), ("1_0.2_5", 10.25),
    ("007.5", 7.5),
    ("1.5x", None), ("1.5e", None), ("1.5e400", None), ("1.5_", None), ("1._5", None)])
def test_literals(text: str, value: float | None) -> None:
    assert parse_float(text) == value


@pytest.mark.parametrize("statements", [
    "print(1.5); print(-1.5); print(1.5e-3 < 2);", "$t = (1, (2, 3)); print($t.1.0);", "for ($i : 0..2) { print($i); }",
    "$x = $s->f; $x = $s->d;", "let $x: double = $s->f; let $y: float = $s->f;", "@x[$s->d] = $s->f; @x[1.5] = $s->d;",
    "if ($s->d > 1 && $s->f != $s->d) { }", "print((int64)$s->d); print((double)pid);", "print(*$s); print($s->a);",
    "@ = sum($s->d);", "@ = lhist($s->f, 0, 1, 0.125);", "@ = hist($s->d, 5);", "print(scaled($s->d, 1000) * 3);",
    "$p = (double *)5; print(*$p);", "print($s->d > 0 ? $s->d : $s->f);", 'printf("%f %8.3e %a", $s->d, $s->f, 1.5);'])
def test_fine(statements: str) -> None:
    assert findings(f"{STRUCT} begin {{ $s = (struct s *)0; {statements} }}") == []


@pytest.mark.parametrize(("statements", "code", "where"), [
    ("$x = $s->d + 1;", "floating-point", "$s->d + 1"), ("$x = 2 * 1.5;", "floating-point", "2 * 1.5"),
    ("if ($s->d) { }", "bad-condition", "if ($s->d) { }"), ("$x = ~1.5;", "bad-operand", "~1.5"),
    ('$x = 1.5 < "a";', "type-mismatch", '1.5 < "a"'), ("$x = 1; $x = 1.5;", "type-mismatch", "$x = 1.5"),
    ("@ = 1.5; @++;", "type-mismatch", "@++"), ("$x = (float)1;", "bad-cast", "(float)"),
    ("$x = (uint8 *)1.5;", "bad-cast", "(uint8 *)"), ("$x = $s->l;", "no-value", "$x = $s->l"),
    ('printf("%d", 1.5);', "format-type", 'printf("%d", 1.5)'), ('printf("%f", 1);', "bad-format", 'printf("%f", 1)'),
    ("@ = lhist(pid, 0, 1, 0.5);", "bad-argument", "lhist(pid, 0, 1, 0.5)"),
    ("@ = lhist(1.5, 0, 1, 0.0000001);", "bad-argument", "lhist(1.5, 0, 1, 0.0000001)"),
    ("@ = tseries(1.5, 1s, 5);", "bad-argument", "tseries(1.5, 1s, 5)"), ("$x = scaled(1.5, 0);", "bad-argument", "0"),
    ("@a = avg(1.5); print((int64)@a);", "bad-cast", "(int64)"), ("$x = 1.5e400;", "invalid-number", "1.5e400"),
    ("$x = scaled(1, 5);", "bad-argument", "scaled(1, 5)"), ("@ = sum(1.5); @ = sum(1);", "type-mismatch", "sum(1)")])
def test_refused(statements: str, code: str, where: str) -> None:
    assert findings(f"{STRUCT} begin {{ $s = (struct s *)0; {statements} }}")[:1] == [(code, where)]
