"""Odd statements: each is refused with words or compiles and runs; no input ends in a traceback."""

from __future__ import annotations

import pytest

from compiled import KERNELS, begin, loaded
from sonde.errors import CompileError

STATEMENTS = [
    "print(curtask.mm & 0xff);", "$m = curtask.mm; print($m & 0xff); print($m % 16); print($m + pid); print($m - $m);",
    "print((uint64)curtask.mm >> 3);", "$m = curtask.mm; print((uint32)$m); @[(uint64)$m] = hist((uint64)$m);",
    "$m = curtask.mm; $m++; print($m); $m += 2; print($m);", "$i = pid; print(curtask.comm[$i % 16]);",
    "print((struct task_struct *)curtask.mm); print(((struct task_struct *)curtask.mm).pid);",
    "print(typeof(1));", "$x = typeof(pid);", 'let $x: typeof(comm) = "abc"; print($x);', "print(sizeof(typeof(1)));",
    "@ = kstack; print(@);", "@[ustack, kstack] = count();", "$s = kstack; print($s);", "$s = ustack; @[$s] = 1;",
    "print(len(kstack));", "print(len(ustack(3)));", "print(&@);", "$p = &$x;", "$x = 1; $p = &$x; print(*$p);",
    "@x = 1; $p = &@x; print(*$p);", "@x[1] = 1; $p = &@x[1]; print(*$p);", "$x = comm; $p = &$x; print($p);",
    "let $a: int32[4]; $a[1] = 2;", "let $a: int32[4]; print($a[3]);", "let $a: int32[4]; $i = pid; print($a[$i]);",
    "print(());", "$t = ();", "@[()] = 1;", "print((1,));", '@x = (1, (2, (3, "abc"))); print(@x.1.1.0);',
    '$t = (1, comm); $t = (1000, "x"); print($t.0);', '@a[1] = (1, "a"); for ($kv : @a) { print($kv); @b[$kv] = 1; }',
    '$x = @a[1]; @a[1] = (1, "x"); print($x);', '$x = (1, "abc") == (1, comm); print($x);',
    'print(comm == "x" ? (1, "a") : (2, "bc"));', "$x = {  (1, 2) }; print($x.1);",
    '$x = if (pid) { "a" } else { comm }; print($x);', "print(if (pid) { (1,2) } else { (3, 4) });",
    "print({ let $x = comm; $x });", "@x = count(); print(@x + 1);", "@x = count(); $y = (int64)@x; print($y);",
    "@x = avg(1); @x = avg(2); if (@x > 1) { print(1); }", "@x[1] = hist(3); print(@x[1]);",
    "@x[1] = stats(3); print(@x[1]);", "@x = hist(3); clear(@x); zero(@x); print(@x);",
    "@x[1] = lhist(1, 0, 10, 1); for ($kv : @x) { print($kv.1); }", "@x = stats(2); for ($kv : @y) { } @y[1] = 1;",
    "@a[1] = stats(3); for ($kv : @a) { print($kv); }", "@a[1] = min(3); for ($kv : @a) { print($kv.1 + 1); }",
    'printf("%s", (1, 2));', 'printf("%d", true);', 'printf("%s %s", comm, probe);', 'printf("%p", &$x);',
    'printf("%s", kstack);', 'printf("%r", buf(comm, 3));', 'printf("%s", ntop(1));', 'printf("%s", macaddr(comm));',
    'printf("%s", username);', 'printf("%s", ksym(5));', 'printf("%-10s|%5d|%05x", comm, 1, 2);',
    'printf("%s", strftime("%H", nsecs));', 'printf("%%");', 'printf("%s", @x); @x = 1;',
    'printf("%d", @x); @x = count();', "time();", "join(5);", 'cat("/x");', 'system("x %s", comm);', "exit(1);",
    "exit(pid);", "@x[exit()] = 1;", "print(exit());", "signal(9);", 'signal("KILL");', "signal(pid);",
    "$x = delete(@a, 1); @a[1] = 1; print($x);", "if (delete(@a, 1)) { } @a[1] = 1;", "delete(@a); @a = 1;",
    "delete(@h); @h = hist(1);", "delete(@c, 1); @c[1] = count();", "_ = @x++;", "_ = comm;", "_ = (1, comm);", "pid;",
    "comm;", "kstack;", "(1, 2);", '"abc";', "@x[1]; @x[1] = comm;",
    "@x[1]++; @x[1]--; ++@x[2]; print(@x[1]++ + ++@x[1]);", "let $x: uint8 = 255; $x++; print($x);",
    "let $x: int8 = 127; $x += 1; print($x);", "$x = (int32*)5; $x++; $x += 2; print($x); print($x - (int32 *)1);",
    "@p = (int32 *)5; @p++; print(@p);", "@p[1] = (int32 *)5; @p[1]++; print(@p[1]);",
    "$x = curtask; $x++; print($x);", "print(curtask + 1);", "print(curtask & 0xff);", "print(curtask == 0);",
    "print(curtask < 5);", "print(!curtask);", "@[curtask] = 1;", "$x = curtask ? 1 : 2;", "print(curtask.comm);",
    "print(*curtask);", "print(curtask.mm);", "print(curtask->mm->pgd);", "print(curtask.files.fdt.fd[1].f_mode);",
    "$f = curtask.files.fdt.fd; print($f[2]);", "print(*$f);", "@ = *curtask;", "$t = *curtask; print($t.pid);",
    "@x = curtask.se;", "print(curtask.comm[2]);", "$i = pid; print(curtask.comm[$i % 16]);",
    "print(curtask.cpus_mask.bits[0]);", "print(sizeof(*curtask));", "print(offsetof(struct task_struct, comm));",
    "@[curtask.comm] = 1;", "print(curtask.comm == comm);", "print(str(curtask.comm, 3));", "print(buf(curtask, 8));",
    "print(container_of(curtask, struct task_struct, pid));",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_refused_or_run(statement: str) -> None:
    for kernel in KERNELS:
        for probe in ("BEGIN", "interval:s:1", "u:c:malloc"):
            try:
                made = loaded(f"{probe} {{ {statement} }}", kernel, unsafe=True)
            except CompileError as error:
                assert all(d.message and d.span for d in error.diagnostics)
                continue
            made.run()


@pytest.mark.parametrize("kernel", list(KERNELS))
@pytest.mark.parametrize(("statements", "values"), [
    ("$x = 5; $p = &$x; print(*$p); $x = 7; print(*$p);", [5, 7]), ("let $s = comm; $p = &$s; print(*$p);", ["tester"]),
    ("@x = 5; $p = &@x; @x = 8; print(*$p);", [8]),
    ("@y[1] = 3; $p = &@y[1]; print(*$p); $q = &@y[2]; print(*$q);", [3, 0]),
    ("@m[1] = 1; $x = (int64)3; $p = &$x; for ($k : @m) { $x = 9; print(*$p); } print(*$p); print($x);", [9, 9, 9]),
    ("$t = (1, comm); $p = &$t; print((*$p).1);", ["tester"]),
])
def test_addresses(statements: str, values: list[object], kernel: str) -> None:
    assert [e.args[0] for e in begin(statements, kernel).events] == values
