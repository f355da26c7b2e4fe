"""Generated code computes what the language says: random expressions against Python, and each operator by name."""

from __future__ import annotations

import pytest

from compiled import KERNELS, begin, run, value, world
from reference import Expressions, cut, evaluate_kept
from sonde.compiling import check_source
from sonde.semantics.script_options import Options
from sonde.source import Source

BOTH = pytest.mark.parametrize("kernel", list(KERNELS))


@BOTH
@pytest.mark.parametrize("block", range(8))
def test_random_expressions(block: int, kernel: str) -> None:
    """A dozen expressions in one script, with one variable of each integer type."""
    for seed in range(block * 12, block * 12 + 12):
        writer = Expressions(seed)
        texts = [writer.text() for _ in range(10)]
        body = " ".join(f"let $r{i} = {t}; print($r{i});" for i, t in enumerate(texts))
        script = f"BEGIN {{ {writer.definitions()} {body} }}"
        checked = check_source(Source("stdin", script), Options(), world(kernel), None)
        found = [s for s in checked.probes[0].clause.body if getattr(s, "declared", 1) is None]
        wanted = [cut(evaluate_kept(s.value, writer.env), s.target.slot.type) for s in found]
        assert [int(e.args[0]) for e in run(script, kernel).events] == wanted, script


@BOTH
@pytest.mark.parametrize(("expression", "result"), [
    ("$m / 3", -2), ("$m % 3", -1), ("$m / -3", 2), ("7 / $m", -1), ("$big / 2", (1 << 63) - 1), ("$m >> 1", -4),
    ("$big >> 60", 15), ("(uint8)$m", 249), ("(int8)200", -56), ("-$m", 7), ("~$m", 6), ("!$m", 0), ("!!$m", 1),
    ("$m < 0", 1), ("$big > 0", 1), ("$m == -7", 1), ("$m ?: 3", -7), ("$none ?: 3", 3), ("$m ? 1 : 2", 1),
    ("1 << 40", 1 << 40), ("$m & 0xff", 249), ("$m | 1", -7), ("$m ^ $m", 0), ("bswap((uint16)0x1234)", 0x3412),
    ("bswap((uint32)$big)", 0xFEFFFFFF), ("(uint64)-1 == $big + 1", 1), ("sizeof(uint32)", 4),
    ("$none && 1 / $none", 0), ("$m || 1 / $none", 1), ("(1, 2, 3).1", 2), ("(a=1, b=9).b", 9),
    ("{ let $y = 4; $y * $y }", 16), ("if ($m > 0) { 1 } else if ($m == -7) { 2 } else { 3 }", 2),
    ("((uint8[8])$big)[0]", 254), ("((int8[8])$big)[1]", -1), ("$m++ + $m", -13), ("++$m + $m", -12),
    ('one_of($m * -1, "1,7")', 1), ('one_of($m, "1,5-9")', 0), ('one_of($none + 80, "1-79,81-90")', 0),
    ('one_of($none + 80, "22, 80-90")', 1), ('one_of($big, "1-999999999999999999")', 0), ('one_of($m, "")', 0),
])
def test_operator(expression: str, result: int, kernel: str) -> None:
    before = "@v[0] = (int64)-7; @v[1] = (int64)-2; $m = @v[0]; $big = (uint64)@v[1]; $none = @v[2];"
    assert value(expression, kernel, before) == result


@BOTH
@pytest.mark.parametrize("op", ["/", "%"])
def test_division_by_zero_is_one_and_counted(op: str, kernel: str) -> None:
    made = begin(f"@v[0] = 1; $zero = @v[1]; $x = 5 {op} $zero; $x = 6 {op} $zero; @ = 7; @ {op}= $zero; "
                 "print($x);", kernel)
    assert made.events[0].args == (1,)
    assert made.value() == 1
    assert [(kind, count) for kind, _, count in made.errors()] == [("divide", 1)] * 3
    assert begin(f"@v[0] = 1; $two = @v[1] + 2; $x = 5 {op} $two;", kernel).errors() == []


@BOTH
def test_order_of_evaluation_is_left_to_right(kernel: str) -> None:
    made = begin('$x = 1; printf("%d %d %d", $x, $x++, $x); print($x + $x++); print(($x, $x++, $x)); @i = 1; '
                 'print(@i + @i++);', kernel)
    assert [e.args for e in made.events] == [(1, 1, 2), (4,), ((3, 3, 4),), (2,)]


@BOTH
@pytest.mark.parametrize(("expression", "result"), [
    ('comm == "tester"', 1), ('comm != "tester"', 0), ('comm == "teste"', 0), ('comm == "testers"', 0),
    ('"a" == "a"', 1), ('$s == comm', 1), ('$t == comm', 0), ('$s == $t', 0), ('$t == "no"', 1),
    ('strncmp(comm, "tess", 3)', 0), ('strncmp(comm, "tess", 4)', 1), ('strncmp(comm, $t, 2)', 1),
    ('strncmp($s, comm, 20)', 0), ('strlen(comm)', 6), ('strlen("")', 0), ('strlen($t)', 2),
    ('strcontains(comm, "est")', 1),
    ('strcontains(comm, "tt")', 0), ('strcontains(comm, "")', 1), ('strcontains(comm, "tester")', 1),
    ('strcontains(comm, $t)', 0), ('strcontains($s, "er")', 1), ('strstr(comm, "e")', 1), ('strstr(comm, "er")', 4),
    ('strstr(comm, "x")', -2), ('strstr("hello", $t)', -2), ('strstr("none", $t)', 0), ('strcontains("a no", $t)', 1),
    ('(1, comm) == (1, "tester")', 1), ('(1, "a") == (2, "a")', 0), ('(a=$s, b=1) == (a=comm, b=1)', 1),
    ('memcmp(comm, "tesla", 3)', 0), ('memcmp(comm, "tesla", 4)', 8), ('comm[0]', ord("t")), ('$t[1]', ord("o")),
])
def test_strings(expression: str, result: int, kernel: str) -> None:
    assert value(expression, kernel, 'let $s = comm; $t = "no";') == result


@BOTH
@pytest.mark.parametrize(("expression", "result"), [
    ("comm", "tester"), ('"text"', "text"), ('pid ? "yes" : "no"', "yes"), ('!pid ? "yes" : "never"', "never"),
    ("(1, comm, (2, \"x\"))", (1, "tester", (2, "x"))), ("($s, 1).0", "tester"), ("(n=comm, i=pid).n", "tester"),
    ("if (pid == 1) { comm } else { \"other one\" }", "other one"), ("{ let $y = comm; $y }", "tester"),
    ("pcomm", "parent"), ("leader_comm", "tester"), ("probe", "begin"), ("probetype", "special"),
    ("str(comm)", "tester"), ("str(comm, 4)", "tes"), ("str($s, pid - 1230)", "tes"), ("str($s, pid - 1234)", ""),
    ("buf(comm, 3)", b"tes"), ("ntop(0x0100007f)", "127.0.0.1"),
    ('ntop(pton("10.1.2.3"))', "10.1.2.3"), ('ntop(pton("::1"))', "::1"), ('macaddr($s)', "74:65:73:74:65:72"),
])
def test_values(expression: str, result: object, kernel: str) -> None:
    try:
        got = value(expression, kernel, "let $s = comm;")
    except Exception as error:
        raise AssertionError(expression) from error
    assert got == result or str(got) == result


@BOTH
def test_builtins(kernel: str) -> None:
    made = begin("print((pid, tid, uid, gid, cpu, cgroup, numaid, ppid, leader_tid, ncpus, has_cpid, cpid)); "
                 "print((pid(curr_ns), tid(curr_ns), pid(init)));", kernel)
    first, second = [e.args[0] for e in made.events]
    assert first == (1234, 1235, 1000, 100, 0, 77, 0, 77, 1235, 2, False, 0)
    assert second == (1235, 1236, 1234)


@BOTH
def test_clocks_and_chance(kernel: str) -> None:
    a, b, c, d, e, f = value("(nsecs, nsecs, nsecs(monotonic), elapsed, rand, jiffies)", kernel)
    assert b == a + 10 and c == a + 20 and d == a + 30 - 1000 and (e, f) == (7, 4_300_000_000)
