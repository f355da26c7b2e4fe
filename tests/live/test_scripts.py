"""Scripts as people write them, what they print and how they end: rows of one table.

``out`` is the exact standard output without the two empty lines before the maps and empty lines at the end, or, when it
begins with ``~``, a regular expression that must be found in it. ``err`` is searched for in standard error, where
``Attached`` lines are left out; by default there must be nothing. ``target`` in a script is a small C program that is
compiled for the tests.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from sonde.base.record import Record
from sonde.kernel.types.world import LiveWorld
from support import compile_c, run_sonde

# write(2): its number, and the register that has its buffer.
WRITE = {"x86_64": (1, "si"), "aarch64": (64, "regs[1]")}[os.uname().machine]

TARGET = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
struct inner { int a; char name[8]; };
struct outer { int x; long y; struct inner in; struct inner *p; unsigned bits:3; int negative:5; char *text; };
int number = 42;
char text[16] = "globe";
__attribute__((noinline)) int add(int a, int b) { __asm__ volatile(""); return a + b; }
__attribute__((noinline)) char *name(struct outer *o) { __asm__ volatile(""); return o->text; }
__attribute__((noinline)) void nested(int n) { __asm__ volatile(""); if (n) nested(n - 1); else add(7, 8);
                                               __asm__ volatile(""); }
int main(int argc, char **argv)
{
    static struct inner in = {9, "inner"};
    static char text[] = "hello world";
    static struct outer o = {-1, 1234567890123L, {5, "abc"}, &in, 5, -3, text};
    int times = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < times; i++) {
        add(i, -i * 2); name(&o); nested(2); syscall(SYS_getppid);
    }
    return 5;
}
"""


class Case(Record):
    """A row: what is run (-e ``program`` between ``options`` and ``params``), and what must come of it."""

    program: str
    out: str = ""
    err: str = ""
    status: int = 0
    options: tuple[str, ...] = ()
    params: tuple[str, ...] = ()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(TARGET, tmp_path_factory.mktemp("target"), "target", "-fno-omit-frame-pointer")


def check(case: Case, target: str = "") -> None:
    """Run a row and compare."""
    options = [word.replace("TARGET", target) for word in case.options]
    done = run_sonde(*options, "-e", case.program.replace("TARGET", target), *case.params)
    out = re.sub(r"\n\n\n(?=@)", "\n", "\n" + done.stdout.strip("\n")).strip("\n")
    err = "".join(line for line in done.stderr.splitlines(True) if not line.startswith("Attached "))
    if case.out.startswith("~"):
        assert re.search(case.out[1:], out), out + err
    else:
        assert out == case.out, err
    assert re.search(case.err, err) if case.err else not err, err
    assert done.returncode == case.status


USER = [
    Case("uprobe:TARGET:main+9999 { }", "", "Offset outside the function bounds \\('main' size is \\d+\\)", 255),
    Case("config = { missing_probes = warn } uprobe:TARGET:main+9999, begin { print(1); exit(); }", "1",
         "WARNING: Offset outside the function bounds .* Skipping"),
    Case("uprobe:TARGET:main+9999 { } begin { print(nosuch); }", "", "Unknown identifier", 1),
    Case("uprobe:TARGET:main+2 { print(1); }", "",
         "into middle of instruction: .*/target:main\\+2\n.*\n.*\nHINT: .*--unsafe", 255),
    Case("uprobe:TARGET:add /arg0 == 7/ { print(ustack(2)); print(ustack(perf, 1)); printf(\"%s\", ustack(1)); }",
         "~^ +add\\+0\n +nested\\+\\d+\n\n\n\t[0-9a-f]+ add\\+0 \\(/.*target\\)\n\n\n +add\\+0$",
         options=("-c", "TARGET")),
    Case("uprobe:TARGET:add { @[func] = count(); @k[kstack] = 1; @u[ustack(1)] = count(); }",
         "@[add]: 4\n@k[\n]: 1\n@u[\n        add+0\n]: 4", options=("-c", "TARGET 2")),
    Case("uprobe:TARGET:add, uprobe:TARGET:name { printf(\"%d %s \", *uaddr(\"number\"), str(uaddr(\"text\"))); }",
         "42 globe 42 globe 42 globe ", options=("-c", "TARGET")),
    Case("uretprobe:TARGET:add { printf(\"%d %s \", *(uint32 *)uaddr(\"number\"), func); }", "42 add 42 add ",
         options=("-c", "TARGET")),
    Case("uretprobe:TARGET:add { print(uaddr(\"nosuch\")); }", "", "Could not resolve symbol: /.*target:nosuch", 1),
    Case("""struct inner { int a; char name[8]; };
struct outer { int x; long y; struct inner in; struct inner *p; unsigned bits:3; int negative:5; char *text; };
uprobe:TARGET:name {
  $o = (struct outer *)arg0;
  printf("%d %ld %s %s %d %d %s\\n", $o->x, $o->y, $o->in.name, $o->p->name, $o->bits, $o->negative, str($o->text));
  print($o->in); print(*$o->p); @[$o->in.name] = count(); @s = $o->in;
}""", "-1 1234567890123 abc inner 5 29 hello world\n{ .a = 5, .name = abc }\n{ .a = 9, .name = inner }\n"
         "@[abc]: 1\n@s: { .a = 5, .name = abc }", options=("-c", "TARGET")),
]


@pytest.mark.parametrize("case", USER, ids=lambda case: case.program[:60])
def test_user_programs(case: Case, target: Path) -> None:
    if "uretprobe" in case.program and not LiveWorld().has_feature("uretprobe_func"):
        pytest.skip("kernel lacks uretprobe_func")
    check(case, str(target))


TEXT = [
    Case('begin { 0 == 1 ? print("a") : print("b"); nsecs > 0 ? print("c") : print("d"); 2 > 1 ? exit(3) : print(1); }',
         "b\nc", status=3),
    Case("begin { @ = (); }", err="assign value of type .none. when", status=1),
    Case("begin { $l = curtask.se.load; print($l.weight > 0); print(curtask.cred.uid); exit(); }",
         "true\n{ .val = 0 }"),
    Case("begin { (); (1, 2); _ = (); print(1); exit(); }", "1", "1:9-12: WARNING: Return value discarded.(?s:.*)"
         "1:13-20: WARNING: Return value discarded."),
    Case("macro twice(x) { x; x } begin { twice({ printf(\"hi\") }); exit(); }", "hihi"),
    Case("begin { if (pid > -1) { print(1); } print((uint32)5 + (int32)-6); $a = (uint32)5; $b = (int32)-6; "
         "print($a + $b); print($a > $b); print($a / $b); exit(); }", "1\n-1\n-1\ntrue\n0", "signed operands for '/'"),
    Case("begin { $a = nsecs; $b = (int64)rand; print($b < $a); exit(); }", "true", "WARNING: Expression of "
         "type: uint64 being cast to type: int64."),
    Case("begin { if (getopt(\"x\", false)) { @u = 5; } print(@u); clear(@u); exit(); }"),
    Case("config = { missing_probes = ignore } t:foo:bar { @z[args.x] = count(); } begin { print(@z); "
         "zero(@z); exit(); }"),
    Case("begin { if (getopt(\"x\", false)) { @u[1] = 5; } for ($q : @u) { } }", "", "Undefined map: @u\n.*\n.*\nHINT: "
         "it is filled at stdin:1:35-44, which is left out in this run", 1),
    Case('begin { print((memcmp("abc", "abd", 3), memcmp("abd", "abc", 3), '
         'memcmp("abcdefghijk", "abcdefghijz", 10), memcmp("abcdefghijk", "abcdefghijz", 11), '
         'memcmp("\\x80", "\\x01", 1))); exit(); }', "(-1, 1, 0, -15, -129)"),
    Case('begin { print(("a", (uint8[8])(uint64)0x0102030405060708, "b", (uint8[4])(uint32)-1)); exit(); }',
         "(a, [8,7,6,5,4,3,2,1], b, [255,255,255,255])"),
    Case("t:syscalls:sys_enter_execve /pid == cpid/ { $n = 4; printf(\"%s %r \", str(*(uint64 *)args.argv), "
         "buf(*(uint64 *)args.argv, $n)); exit(); }", "~^/bin/true /bin", options=("-c", "/bin/true")),
    Case("rt:sys_enter /pid == cpid/ { $r = (struct pt_regs *)arg0; "
         f'if (arg1 == {WRITE[0]}) {{ printf("%r", buf($r->{WRITE[1]}, 3)); }} }}',
         "~(?m)^hey$", options=("-c", "/bin/echo hey")),
    Case('begin { print(ntop(10, (uint8[16])pton("::1"))); print((uint8[4])pton("1.2.3.4")); exit(); }',
         "::1\n[1,2,3,4]", "Unnecessary cast"),
    Case("begin { @b[1] = 1; delete(@b[1], @b[2], @b[3]); strlen(); str(); }", "", r"(?s)delete\(\) takes up to 2 "
         r"arguments \(3 provided\).*strlen\(\) requires one argument \(0 provided\).*str\(\) requires at least one "
         r"argument", 1),
    Case('begin { print(getopt("port", 1)); exit(); }', "", "options: --prot\n"
         r"HINT: did you mean --port\?\nHINT: expected program options: --port$", 1, params=("--", "--prot=5")),
    Case('begin { print((getopt("port", 1), $1, getopt("x"))); exit(); }', "(5, 7, true)", params=("--", "--port=5",
                                                                                              "--x", "7")),
    Case("begin { @a[1] = 1; $x = @a[5]; if (@a[6]) { } $x = @a[1]; delete(@a, 7); _ = has_key(@a, 8); exit(); }",
         "@a[1]: 1",
         "^stdin:1:25-30: WARNING: Can't lookup map element because it does not exist.\nAdditional Info - helper: "
         "map_lookup_elem, retcode: 0\n[^\n]*\n *~~~~~\nstdin:1:36-41: WARNING: Can't lookup[^\n]*\n[^\n]*\n"
         "[^\n]*\n *~~~~~\n$", options=("-k",)),
    Case("begin { @a[1] = 1; $x = @a[5]; delete(@a, 7); exit(); }", "@a[1]: 1", "^$"),
    Case("begin { $x = 0; print(5 / $x); $y = 7 % $x; print($y); exit(); }", "1\n1",
         "^stdin:1:23-29: WARNING: Divide or modulo by 0 detected[^\n]*\n[^\n]*\n {22}~{6}\nstdin:1:37-43: WARN"),
    Case("begin { print(1 + *(int32 *)8); exit(); }", "1", "^stdin:1:19-30: WARNING: Bad address. [^\n]*\n"
         "Additional Info - helper: probe_read_kernel, retcode: -14\n", options=("-k",)),
    Case("config = { max_strlen = 5; str_trunc_trailer = \"_xxx\" } t:syscalls:sys_enter_execve /pid == cpid/ { "
         "$s = str(args.filename); print(($s, str(args.filename, 4), strlen($s))); exit(); }", "(/bin/_xxx, /bi, 5)",
         options=("-c", "/bin/true")),
    Case("begin { print((str($1, 3), str($1 + 1, 3), str($1, 99), str($1))); exit(); }", "(abc, bcd, abcdef, abcdef)",
         params=("abcdef",)),
    Case("begin { @ = lhist(1, 0, 10, 20); }", "", "step is too large for the given range .provided step 20 for", 1),
    Case("t:*sys_enter_execve /pid == cpid/ { print(probe); exit(); }", "tracepoint:syscalls:sys_enter_execve",
         options=("-c", "/bin/true")),
    Case("i:ms:30 { @i++; if (@i < 4) { @c = count(); @h = hist(3); } if (@i == 1) { clear(@c); clear(@h); } "
         "if (@i == 3) { delete(@c); delete(@h); } if (@i == 6) { clear(@i); exit(); } }", ""),
    Case('begin { @x = 1; print((delete(@x), delete(@x))); @y = 0; if (pid == 0) { @never = 1; @h = hist(1); } @w = 2; '
         'zero(@w); @c = count(); clear(@c); @s = sum(0); @t = ""; clear(@t); @z = min(3); delete(@z); exit(); }',
         "(true, false)\n@s: 0\n@w: 0\n@y: 0"),
    Case("begin { @x = 1; print(@x); clear(@x); print(@x); @y[1] = 1; clear(@y); print(@y); } end { print(2); }",
         "@x: 1\n@x: 0\n2"),
    Case('begin { printf("%s %s %s %s|%p %p|%5s\\n", 5, (1, "a"), (int8 *)16, (uint8[2])(uint16)258, true, 0, -1); }',
         "5 (1, a) 0x10 [2,1]|0x1 0|   -1", r"%s prints the address \(int8 \*\)16, not the text there"),
    Case("begin { $a = (int64)-5; $b = (uint64)7; print(($a < $b, $b > -1, $a & $b, $b * -1, $b + $a, $a | 1));"
         " $u = (uint64)5; $u += -10; print($u); @n = $a; @u = $b; @r[@n * @u] = 1; print(~(uint16)5); print(~5); }",
         "(true, true, 3, -7, 2, -5)\n-5\n65530\n18446744073709551610\n@n: -5\n@r[-35]: 1\n@u: 7",
         options=("--no-warnings",)),
    Case("begin { print(($1, $2, $3, $4, $5, $6)); }", "(5000000, 1000, 8, -16, 3, 5x)",
         params=("--", "5ms", "1e3", "010", "-0x10", "0b11", "5x")),
    Case("enum { X = 3, Y } begin { print((X, X + 1)); $x = X; $x = Y; print($x); @k[X] = Y; }", "(X, 4)\nY\n@k[X]: Y"),
    Case("interval:10ms { print(probe); exit(); }", "interval:us:10000"),
    Case("config = { print_maps_on_exit = false } begin { @x = 1; print(@x); }", "@x: 1"),
    Case("begin { while (1) { } print(1); exit(); }", "1",
         "WARNING: A loop or a search was stopped after 8388608 rounds, the most that the kernel allows"),
    Case('begin { $t = (1, "a", (2, 3)); print(($t[0], $t[1], $t[2][1], (7, 8)[1])); exit(); }', "(1, a, 3, 8)"),
    Case("begin { $a = (uint8[8])12345; print($a); print((uint64)$a); print((uint16[4])-2); print((uint8[])(uint32)1); "
         "exit(); }", "[57,48,0,0,0,0,0,0]\n12345\n[65534,65535,65535,65535]\n[1,0,0,0]"),
    Case("begin { print(((uint64)1 - 2, (uint8)1 - (uint8)2, (int32)1 - 2, 1 - 2)); exit(); }",
         "(-1, -1, -1, -1)"),
    Case("begin { $a = (uint64)5; $b = (uint64)6; print(($a - $b, ($a - $b) / 2, (uint64)($a - $b))); $c = (uint8)0; "
         "$c--; $u = (uint64)3; $u -= 4; @m = (uint64)0; --@m; print(($c, $u, @m, pid - 4294967295 < 0)); "
         "@m -= 5; exit(); }", "(-1, 0, 18446744073709551615)\n(-1, -1, -1, true)\n@m: -6",
         "signed operands for '/'"),
    Case("begin { let $a: uint8 = 0; $a--; let $b: uint32 = 1; $b -= 2; print(($a, $b)); exit(); }",
         "(255, 4294967295)", "Expression of type: int64 being cast to type: uint32"),
    Case('begin { $a = (color="green", size=1); $a = (size=2, color="blue"); print($a); exit(); }',
         "{ .color = blue, .size = 2 }"),
    Case('begin { @m[(p=1, q="a")] = (x=1, y=(u=2, v=3)); @m[(q="a", p=1)] = (y=(v=30, u=20), x=70000); '
         'print(@m[(q="a", p=1)].y.u); print(has_key(@m, (q="a", p=1))); exit(); }',
         "20\ntrue\n@m[{ .p = 1, .q = a }]: { .x = 70000, .y = { .u = 20, .v = 30 } }"),
    Case("begin { $a = (x=1, y=2); $a = (x=1, z=2); exit(); }", "", "Type mismatch", 1),
    Case('begin { $a = (int8[])"mystring"; print($a); print(($a[0], (uint16[])"abc")); exit(); }',
         "[109,121,115,116,114,105,110,103,0]\n(109, [25185,99])"),
    Case('begin { printf("100%% %d%% %s|%5s|%-5s|%.2s\\n", 5, "a", "b", "c", "def"); exit(); }',
         "100% 5% a|    b|c    |def"),
    Case('begin { printf("50% done %q\\n"); exit(); }', "50% done %q", "no conversion: '%q"),
    Case('begin { @[3] = count(); @[1] = count(); @[2] = count(); @[2] = count(); @s["b"] = sum(1); @s["a"] = sum(1); '
         'exit(); }', "@[1]: 1\n@[3]: 1\n@[2]: 2\n@s[a]: 1\n@s[b]: 1"),
]


@pytest.mark.parametrize("case", TEXT, ids=lambda case: case.program[:60])
def test_scripts(case: Case) -> None:
    check(case)


def test_kfuncs() -> None:
    """Two that kernels of some age have, one of them for programs of other kinds only, and none."""
    names = "bpf_rdonly_cast", "bpf_xdp_metadata_rx_hash", "bpf_nothing"
    if LiveWorld().kfunc_id(names[1]) == 0:
        pytest.skip("kernel lacks bpf_xdp_metadata_rx_hash (Linux 6.3)")
    asked = ", ".join(f'{what}("{name}")' for what in ("kfunc_exist", "kfunc_allowed") for name in names)
    check(Case(f"begin {{ print(({asked})); exit(); }}", "(true, true, false, true, false, false)"))


LARGE = {
    "counting": ("begin { $n = 0; for $i : 0..200 { if (rand % 2) { $n++; } if (rand % 3) { $n += 2; } } "
                 "print($n >= 0 && $n <= 600); exit(); }", "true"),
    "counting long": ("begin { $n = 0; for $i : 0..2000 { if (rand % 2) { $n++; } } "
                      "print($n >= 0 && $n <= 2000); exit(); }", "true"),
    "counting while": ("begin { $n = 0; $i = 0; while ($i < 1000) { if (rand % 2) { $n++; } if ($n > 5000) { break; } "
                       "$i++; } print($n >= 0 && $n <= 1000); exit(); }", "true"),
    "counting exactly": ("begin { $n = 0; $m = (uint8)250; for $i : 0..250 { if ((uint64)$i % 3 == 0) { $n += $i; } "
                         "else { $m--; } } print(($n, $m)); exit(); }", "(10458, 84)"),
    "elses": ('begin { $x = 90; if ($x == 0) { print(0); } '
              + " ".join(f"else if ($x == {i}) {{ print({i}); }}" for i in range(1, 150)) + " exit(); }", "90"),
    "statements": ("begin { " + " ".join(
        f"$v{i} = {i}; @m{i % 20}[{i}] = count(); if ($v{i} > 3) {{ @t = sum($v{i}); }}" for i in range(400))
        + " print(@t); " + "".join(f"clear(@m{i});" for i in range(20)) + " clear(@t); exit(); }", "@t: 79794"),
    "variables": ("begin { " + " ".join(f"$v{i} = nsecs % 2 + {i};" for i in range(100)) + " $s = "
                  + "+".join(f"$v{i}" for i in range(100)) + "; print($s >= 4950 && $s <= 5050); exit(); }", "true"),
    "tuples": ("begin { print(" + "(1," * 60 + "2" + ")" * 60 + "); exit(); }", "(1, " * 60 + "2" + ")" * 60),
    "range": ("begin { for $i : 0..1000000 { @s = sum($i); } printf(\"%ld\", @s); clear(@s); exit(); }",
              "499999500000"),
    "map": ("begin { for $i : 0..4096 { @a[$i] = $i * 2; } $n = 0; for $kv : @a { $n += $kv.1; } print($n); "
            "clear(@a); exit(); }", "16773120"),
    "format": ("begin { printf(\"" + "%d " * 30 + "\", " + ", ".join(map(str, range(30))) + "); exit(); }",
               " ".join(map(str, range(30))) + " "),
    "strings": ("begin { @[str($1), str($1), comm, str($1)] = (str($1), str($1)); exit(); }",
                "~^@\\[(x{500}), \\1, \\w+, \\1\\]: \\(\\1, \\1\\)$"),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_scripts(name: str) -> None:
    """Nothing that people write may hit the verifier's limits or the 512 bytes of stack."""
    program, out = LARGE[name]
    case = Case(program, out if out.startswith("~") else "~^" + re.escape(out) + "\n*(@s: 0)?\n*(@t: 0)?$",
                "While loops are deprecated" if "while" in program else "", params=("x" * 500,))
    check(case)


def shell(command: str) -> tuple[int, str, str]:
    """A shell line in which ``sonde`` is this tree's."""
    import subprocess
    import sys

    from support import environment
    done = subprocess.run(["sh", "-c", command.replace("sonde ", f"{sys.executable} -m sonde ")], capture_output=True,
                          env=environment(), text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(("command", "status", "out", "err"), [
    ("sonde -e 'begin { print(1); exit(); }' >&-", 0, "", "Attached 1 probe"),
    ("sonde -e 'begin { print(1); exit(); }' 2>&-", 0, "1\n", ""),
    ("sonde -e 'begin { print(1); exit(); }' <&-", 0, "1\n", "Attached 1 probe"),
    ("sonde -e 'begin { print(1); exit(); }' >/dev/full", 1, "", "No space left on device"),
    ("sonde -e 'begin { for $i : 0..100000 { print($i); } }' | head -n 2", 0, "0\n1\n", "Attached 1 probe"),
    ("sonde /bin/sh", 1, "", "is no script: it contains binary data"),
    ("sonde -l -e 'begin { } t:syscalls:sys_enter_getp*id, interval:s:1 { }'", 0,
     "tracepoint:syscalls:sys_enter_getpgid\ntracepoint:syscalls:sys_enter_getpid\n"
     "tracepoint:syscalls:sys_enter_getppid\ninterval:s:\n", ""),
    ("sonde -q -e 'begin { print(comm); exit(); }'", 0, "sonde\n", ""),
])
def test_shell(command: str, status: int, out: str, err: str) -> None:
    done = shell(command)
    assert done[0] == status
    assert done[1].removesuffix("\n\n") == out, done[2]
    assert err in done[2]


ONE_LINERS = [line for line in (Path(__file__).parent / "oneliners.txt").read_text().splitlines() if line.strip()]
ABSENT = {"missing-probe", "unknown-symbol", "no-probes", "bad-argument", "unknown-cgroup"}  # what a machine may lack
ABSENT |= {"missing-feature", "unknown-field"} if os.environ.get("SONDE_VM") else set()  # and a kernel


def test_one_liners() -> None:
    """Each compiles and is accepted by the verifier; nothing is attached."""
    from sonde import compiling
    from sonde.errors import CompileError, MachineError
    from sonde.runtime.session import Session
    from sonde.semantics.script_options import Options
    world = compiling.live_world()
    refused = []
    for program in ONE_LINERS:
        try:
            spec = compiling.compile(program, Options(unsafe=True), world)
        except CompileError as error:
            refused.append(program)
            assert {d.code for d in error.diagnostics if d.severity == "ERROR"} <= ABSENT, \
                program + "\n" + "\n".join(d.render() for d in error.diagnostics)
            continue
        session = Session(spec)
        try:
            session.load()
        except MachineError:
            refused.append(program)
        finally:
            session.close()
    assert len(refused) < len(ONE_LINERS) // 4, refused
