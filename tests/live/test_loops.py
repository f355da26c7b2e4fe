"""Loops of every size: their results, and that what does not end is stopped and said."""

from __future__ import annotations

import pytest

from sonde.compiling import live_world
from support import run_sonde

LONG = pytest.mark.skipif(not live_world().has_feature("bpf_loop"), reason="kernel lacks bpf_loop (Linux 5.17)")
LOOPS = [
    ("$i = 0; $n = 0; while ($i < 5000) { $i++; if ($i % 3 == 0) { continue; } $n += $i; } print(($i, $n));",
     "(5000, 8336667)"),
    ("$j = 100000; while (1) { $j--; if ($j == 17) { break; } } print($j);", "17"),
    ("$i = 0; $t = 0; while ($i < 100) { $i++; $j = 0; while ($j < 100) { $j++; $k = 0; while ($k < 10) { $k++; "
     "if ($k == $j) { break; } $t++; } } } print($t);", "94500"),
    pytest.param("$p = curtask; $d = 0; while ($p->pid > 1) { $p = $p->real_parent; $d++; } print(($p->pid < 2, "
                 "$d > 0));", "(true, true)", marks=LONG),
    ("$n = 0; for ($i : 0..3000) { if ($i & 1) { $n += $i; } else { $n -= 1; } } print($n);", "2248500"),
    ("".join(f"for ($v{i} : 0..4) {{ " for i in range(7)) + "@n++; if ($v0 == $v6) { @e++; } " + "} " * 7
     + "print((@n, @e));", "(16384, 4096)"),
    ("for ($i : 0..3000) { @m[$i] = $i; } $n = 0; for ($p : @m) { if ($p.1 % 2) { continue; } $n += $p.1; } print($n); "
     "clear(@m);", "2248500"),
    ("$n = 3; while ($n > 0) { $n--; $t = 0; for ($i : 0..1000) { $t++; if ($t >= 5) { break; } } @s[$n] = $t; } "
     "print((@s[0], @s[2])); clear(@s);", "(5, 5)"),
    ("unroll (60) { unroll (60) { @u++; } } print(@u);", "@u: 3600"),
    ("for ($i : 0..1000) { @a[$i % 10] = avg($i); if (@a[3] > 5) { @c++; } } print(@c); clear(@a);", "@c: 987"),
    # What the first iteration finds is not what the next ones find; nor is there always one.
    ('$s = ""; $f = 0; $t = (0, 1); for ($i : 0..3000) { if ($f == 7) { @seven++; } if ($s == "x") { @x++; } '
     'if ($t.0 > 5) { @t++; } $f = 7; $s = "x"; $t = (9, 2); } '
     "for ($kv : @none) { $f = 1; } if ($f == 1) { @f = 1; } @none[1] = 1; delete(@none, 1); "
     "print((@seven, @x, @t, @f)); clear(@none);", "(2999, 2999, 2999, 0)"),
]


@pytest.mark.parametrize(("action", "line"), LOOPS, ids=range(len(LOOPS)))
def test_loops(action: str, line: str) -> None:
    done = run_sonde("-q", "-e", f"begin {{ {action} exit(); }}", env={"SONDE_CHECK_IR": "1"})
    assert done.returncode == 0 and done.stdout.splitlines()[0] == line, done.stdout + done.stderr


@LONG
def test_a_loop_without_end_is_stopped_and_said() -> None:
    done = run_sonde("-q", "-e", "begin { $i = 0; while (1) { $i++; } print($i); exit(); }")
    assert done.stdout.splitlines()[0] == "8388608"
    assert "A loop or a search was stopped after 8388608 rounds" in done.stderr


def test_a_return_leaves_a_long_loop_and_the_action() -> None:
    done = run_sonde("-q", "-e", "begin { $i = 0; while ($i >= 0) { $i++; if ($i > 2000) { print($i); exit(); } } "
                                 "print(0); }")
    assert done.stdout.splitlines()[0] == "2001", done.stderr


@pytest.mark.skipif(not live_world().has_feature("long_jumps"), reason="kernel lacks long_jumps (Linux 6.6)")
def test_a_thousand_statements_need_long_jumps() -> None:
    body = " ".join([f'if (@x == {i}) {{ exit(); }} @m[{i}, "key {i}"] = @x + {i};' for i in range(1000)])
    done = run_sonde("-q", "-e", f'begin {{ @x = 5000; {body} print(@m[999, "key 999"]); clear(@m); exit(); }}',
                     timeout=300)
    assert done.stdout.splitlines()[0] == "5999", done.stderr


def test_a_loop_whose_condition_is_found_false_late() -> None:
    """Only where values have their places is the element of the tuple known: the loop's function goes with the loop."""
    done = run_sonde("-e", "begin { @m[1] = 1; $a = (1, 2); if ($a.0 == 2) { for ($kv : @m) { print($kv.0); } } }")
    assert (done.returncode, done.stdout.strip()) == (0, "@m[1]: 1")
