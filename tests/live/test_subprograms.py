"""Functions of the script, in the kernel."""

from __future__ import annotations

import sys

import pytest

from support import run_sonde

FUNCTIONS = """
fn add($a: int64, $b: int64): int64 { return $a + $b; }
fn clamp($x: int64): int64 { if ($x > 10) { return 10; } return $x; }
fn both($a: int64): int64 { return add(clamp($a), 1); }
fn pure($a: int64, $b: int64, $c: int64, $d: int64, $e: int64): int64 { return $a + $b * $c - $d * $e; }
fn show($s: string[16], $n: uint32) { printf("%s=%d\\n", $s, $n); @calls = count(); }
fn total($n: uint64): uint64 {
  $sum = (uint64)0;
  for ($i : 0..$n) { $sum += $i; if ($sum > 1000000) { return 7; } }
  return $sum;
}
fn lookup($k: int64): int64 { for ($kv : @m) { if ($kv.0 == $k) { return $kv.1; } } return -1; }
fn change($s: string) { $s = "changed"; print($s); }
fn is_me($s: string): bool { return comm == $s; }
fn greet($n: int64): string[32] { if ($n > 1) { return "many"; } return "one"; }
fn pair($n: int64): typeof((1, "abc")) { return ((int8)$n, "xy"); }
fn named(): typeof((a=1, b="abc")) { return (a=2, b="x"); }
fn bytes(): uint8[4] { return (uint8[4])(uint32)258; }
fn name($t: struct task_struct *): string[16] { return $t->comm; }
fn text($t: typeof((1, "abcd"))): string[8] { return $t.1; }
fn load($l: struct load_weight): uint64 { return $l.weight; }
fn search($n: int64): string[8] { for ($i : 0..1000) { if ($i == $n) { return "found"; } } return "none"; }
fn joined($a: string[8], $b: string[8]): string[16] { return str_concat($a, $b); }
fn cut($n: int64): string[4] { if ($n > 5) { return "abcdefgh"; } }
fn home(): inet { return ntop(pton("127.0.0.1")); }
fn never($n: int64): int64 { @nobody[$n] = 1; return arg0 + $n; }
fn stop($c: int64) { if ($c > 2) { printf("stopping\\n"); exit(); } }
"""


@pytest.mark.parametrize(("action", "expected"), [
    ("$x = 5; print((add($x, 3), clamp(50), both(100), add(-7, 2)));", ["(8, 10, 11, -5)"]),
    ("print(pure(1, 2, 3, 4, 5));", ["-13"]),
    ('show("abc", 7); show("def", 1);', ["abc=7", "def=1", "", "", "@calls: 2"]),
    ("print((total(1000), total(100000)));", ["(499500, 7)"]),
    ("@m[1] = 10; @m[2] = 20; print((lookup(2), lookup(3))); clear(@m);", ["(20, -1)"]),
    ('$s = "kept"; change($s); print($s);', ["changed", "kept"]),
    ('if (is_me(comm) && !is_me("x")) { print(1); }', ["1"]),
    ("@[add(1, 1)] = add(2, 2); print(@[2]); clear(@);", ["4"]),
    ("for ($i : 0..1000) { stop($i); @n = count(); }", ["stopping", "", "", "@n: 3"]),
    ("$s = greet(2); print($s); printf(\"%s %s\\n\", greet(1), joined(\"ab\", \"cd\")); @[greet(1)] = 1; print(@); "
     "clear(@); print(greet(5) == \"many\");", ["many", "one abcd", "@[one]: 1", "true"]),
    ("print(pair(3)); print(pair(9).0); @t = pair(4); print(@t); print(named()); print(named().b);",
     ["(3, xy)", "9", "@t: (4, xy)", "{ .a = 2, .b = x }", "x", "", "", "@t: (4, xy)"]),
    ("print(bytes()); print(bytes()[1]); print(text((5, \"hey\"))); print(name(curtask) == comm); print(home());",
     ["[2,1,0,0]", "1", "hey", "true", "127.0.0.1"]),
    ("print(search(500)); print(search(5000)); print((cut(6), cut(1), load(curtask->se.load) > 0));",
     ["found", "none", "(abc, , true)"]),
    ("greet(1); _ = greet(2); print(1);", ["1"]),
    ("unroll (3) { print(add(1, 1)); }", ["2", "2", "2"]),
])
def test_functions(action: str, expected: list[str]) -> None:
    done = run_sonde("-q", "-e", f"{FUNCTIONS}\nbegin {{ @m[0] = 0; delete(@m, 0); {action} exit(); }}",
                     env={"SONDE_CHECK_IR": "1"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().splitlines() == expected, done.stderr


def test_functions_in_tracepoints() -> None:
    """A function that uses the context is called from a program whose context matters."""
    text = """fn mine(): bool { return pid == cpid; }
              tracepoint:syscalls:sys_enter_getppid /mine()/ { @ = count(); }"""
    done = run_sonde("-q", "-e", text, "-c", "/usr/bin/python3 -c 'import os; [os.getppid() for _ in range(5)]'")
    assert "@: 5" in done.stdout, done.stderr


def test_which_attach_point_fired() -> None:
    """One program serves both system calls: callbacks and functions, called by each other, know which one it was."""
    script = """
fn which(): uint64 { return probe == "tracepoint:syscalls:sys_exit_getppid" ? 1 : 2; }
fn often(): uint64 { $n = (uint64)0; for ($i : 0..1000) { $n += which(); } return $n; }
tracepoint:syscalls:sys_exit_getppid, tracepoint:syscalls:sys_exit_getpgid /pid == cpid/ {
  for ($i : 0..1000) { @[probe] = count(); }
  @found[probe, which(), often()] = count();
}"""
    command = f"{sys.executable} -S -c 'import os; [(os.getppid(), os.getppid(), os.getpgid(0)) for _ in range(5)]'"
    done = run_sonde("-q", "-e", script, "-c", command)
    assert sorted(line for line in done.stdout.splitlines() if line) == [
        "@[tracepoint:syscalls:sys_exit_getpgid]: 5000", "@[tracepoint:syscalls:sys_exit_getppid]: 10000",
        "@found[tracepoint:syscalls:sys_exit_getpgid, 2, 2000]: 5",
        "@found[tracepoint:syscalls:sys_exit_getppid, 1, 1000]: 10"], done.stderr
