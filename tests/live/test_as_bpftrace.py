"""What scripts that were written for bpftrace 0.27 rely on, each as a user sees it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from sonde.compiling import live_world
from sonde.semantics.config import SHORT_TEXTS
from support import compile_c, run_sonde

PROGRAM = """
struct packed { short b:8; int c:4; unsigned d:4; signed char e:3; long l:40; } given = { (short) 0xd9, -3, 9, -1, -5 };
__attribute__((noinline)) int work(struct packed *p) { asm volatile("" :: "r"(p) : "memory"); return 0; }
int main(void) { return work(&given); }
"""
STRUCT = "struct packed { short b:8; int c:4; unsigned d:4; signed char e:3; long l:40; }\n"
LONGEST = 1024 if live_world().has_feature("long_keys") else SHORT_TEXTS


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(PROGRAM, tmp_path_factory.mktemp("as_bpftrace"), "worker")


def printed(script: str, *more: str) -> str:
    done = run_sonde("-q", *more, "-e", script)
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n")


@pytest.mark.parametrize("type, size", [("int8", 1), ("int16", 2), ("int32", 4), ("uint64", 8), ("void*", 8)])
def test_pointers_in_compound_assignments_go_by_elements(type: str, size: int) -> None:
    script = (f"begin {{ @n = 3; @p = ({type}*)100; @p += 1; @q[1] = ({type}*)100; @q[1] -= 2; $r = ({type}*)100; "
              f"$r += @n; @p += @n; printf(\"%d %d %d\", @p, @q[1], $r); clear(@n); clear(@p); clear(@q); }}")
    assert printed(script).split() == [str(100 + 4 * size), str(100 - 2 * size), str(100 + 3 * size)]


def test_usermode_is_1_where_a_program_is_at_work(program: Path) -> None:
    script = f"begin {{ print(usermode); }} uprobe:{program}:work {{ print(usermode); }} " \
             f"uretprobe:{program}:work {{ print(usermode); }} end {{ print(usermode); }}"
    assert printed(script, "-c", str(program)).split() == ["1"] * 4


def test_usermode_of_a_profile() -> None:
    script = "profile:hz:200 /pid == cpid/ { @[usermode] = count(); }"
    found = dict(re.findall(r"@\[(\d+)\]: (\d+)", printed(script, "-c", f"{sys.executable} -c sum(range(30000000))")))
    assert set(found) <= {"0", "1"} and int(found["1"]) > int(found.get("0", "0"))


def test_print_of_a_map_in_begin_shows_what_begin_has_made() -> None:
    assert printed("begin { @ = 1; print(@); } end { @ = 2; print(@); clear(@); }").split() == ["@:", "1", "@:", "2"]


def test_what_was_asked_for_before_exit_happens_while_probes_are_attached() -> None:
    script = 'begin { system("ls -l /proc/$PPID/fd | grep -c perf_event"); exit(); } interval:s:1 { }'
    assert int(printed(script, "--unsafe")) > 0


def test_probes_attach_though_begin_exits() -> None:
    done = run_sonde("-e", "begin { exit(3); } interval:ms:1 { print(1); } end { print(2); }")
    assert (done.returncode, done.stdout.split()) == (3, ["2"])
    assert done.stderr.splitlines() == ["Attached 3 probes"]


def test_fields_of_a_record_are_evaluated_as_written() -> None:
    script = "begin { $r = (foo=1, bar=2); $n = 10; $r = (bar=$n++, foo=$n++); print($r); }"
    assert printed(script) == "{ .foo = 11, .bar = 10 }"


def test_records_compare_whatever_the_order_of_their_fields() -> None:
    script = ('begin { $a = (x=1, s="abc"); $b = (s="abc", x=(int64)1); $c = (s="abcdefgh", x=1); '
              'print(($a == $b, $a != $b, $a == $c, (p=1, q=(r=2, s=3)) == (q=(s=3, r=2), p=1))); '
              '@[(a=1, b=2)] = 1; @[(b=2, a=1)] += 5; }')
    assert printed(script) == "(true, false, false, true)\n\n\n@[{ .a = 1, .b = 2 }]: 6"


def test_bitfields_have_no_sign(program: Path) -> None:
    script = STRUCT + f'uprobe:{program}:work {{ $p = (struct packed *)arg0; print(($p.b, $p.c, $p.d, $p.e, $p.l)); ' \
                      "print(*$p); }"
    assert printed(script, "-c", str(program)).splitlines()[:2] == [
        "(217, 13, 9, 7, 1099511627771)", "{ .b = 217, .c = 13, .d = 9, .e = 7, .l = 1099511627771 }"]


def test_a_struct_of_the_script_hides_the_kernels() -> None:
    script = "struct mm_struct { int x; } begin { print(curtask->mm->x); print(curtask->mm->pgd); }"
    done = run_sonde("-q", "-e", script)
    assert done.stderr.splitlines()[0].endswith(
        "ERROR: Struct/union of type 'struct mm_struct' does not contain a field named 'pgd'")
    assert printed("struct task_struct { int x[4]; } begin { print(sizeof(*curtask)); }") == "16"


def test_sizes_of_enums() -> None:
    script = "enum A { X, Y } struct S { enum A a; } begin { print((sizeof(X), sizeof(enum A), sizeof(struct S), " \
             "sizeof(((struct S *)0)->a))); }"
    assert printed(script) == "(8, 8, 4, 4)"


@pytest.mark.parametrize("name", ["missing.h", "nowhere/missing.h"])
def test_a_header_that_is_nowhere_is_an_error_at_its_line(name: str) -> None:
    done = run_sonde("-e", f"#include <stdint.h>\n#include <{name}>\nbegin {{ }}")
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, f"stdin:2:1-{12 + len(name)}: ERROR: '{name}' file "
                                                              "not found")


def test_the_c_librarys_headers_are_known() -> None:
    headers = "#include <stdint.h>\n#include <stdio.h>\n"
    assert printed(headers + "struct A { uint32_t x; uint64_t y; } begin { print(sizeof(struct A)); }") == "16"
    assert printed("begin { print(ENOENT); }", "--include", "errno.h") == "2"


@pytest.mark.parametrize("script, wanted", [
    ("macro size(a, b) { sizeof(a[2]) + sizeof(b*) } begin { print(size(typeof(uint64*), typeof(struct mm_struct))); }",
     "24"),
    ("macro of(a) { sizeof(a) } macro on(a) { of(a) } begin { print(on(typeof(uint16))); }", "2"),
    ("macro at(a) { (a*)-1 } begin { print((uint64)at(typeof(int32)) == 0xffffffffffffffff); }", "true"),
    ("macro cpu(x) { x + 1000 } begin { print((cpu(1), cpu() < 1000)); }", "(1001, true)"),
    ("macro m(a) { a } macro m(a, b) { a + b } begin { print((m(1), m(1, 2))); }", "(1, 3)"),
    ("begin { @ = { let $a = 100; avg($a) }; }", "@: 100"),
    ('begin { $a = (string[8])"abc"; print($a); }', "abc"),
    ("begin { print((__builtin_config.max_strlen, __builtin_pid == pid)); }", f"({LONGEST}, true)"),
    ("struct S { char a; int b; } /* x */ __attribute__((packed)) __attribute__((aligned(16))) begin "
     "{ print(sizeof(struct S)); }", "16"),
    ("struct S { float a; double b; int c; } begin { print((sizeof(struct S), offsetof(struct S, c))); }", "(24, 16)"),
])
def test_language(script: str, wanted: str) -> None:
    assert printed(script).strip() == wanted


def test_probe_is_a_string_for_functions_of_strings(program: Path) -> None:
    script = f'uprobe:{program}:work, uprobe:{program}:main {{ printf("%d %s\\n", strcontains(probe, ":work"), ' \
             'str_concat(probe, "!")); }'
    assert sorted(printed(script, "-c", str(program)).split("\n")) == [
        f"0 uprobe:{program}:main!", f"1 uprobe:{program}:work!"]


def test_named_parameters() -> None:
    script = 'begin { print((getopt("x", false), getopt("y"), getopt("n", 5), getopt("m", 5))); }'
    done = run_sonde("-q", "-e", script, "--", "--x=TRUE", "--y=False", "--n=0xffffffffffffffff", "--m=-1")
    assert done.stdout.split("\n")[0] == "(true, false, 18446744073709551615, -1)"
    done = run_sonde("-e", script, "--", "--n=abc")
    assert (done.returncode, done.stderr) == (
        1, "ERROR: program command line option --n invalid integer (value: abc)\n")


def test_literals_fold() -> None:
    script = ('begin { print("ab" + "cd"); print("abcdef" + 2); print("a" < "b"); print("x" && true); '
              'print((1, 2) == (1, 2, 3)); print(comptime (7, 8).1); if ("") { print("no"); } else { print("else"); } }'
              ' begin /"x"/ { print("yes"); }')
    assert printed(script).split() == ["abcd", "cdef", "true", "true", "false", "8", "else", "yes"]


@pytest.mark.parametrize("given,default,wanted", [
    (-10, -1, -10), (-10, 5, -10), (7, -1, 7), (7, 1, 7), (2**63 - 1, -1, 2**63 - 1), (2**64 - 1, 1, 2**64 - 1),
    (-2**63, 1, -2**63), (None, -5, -5)])
def test_numbers_of_the_command_line_keep_their_sign(given: int | None, default: int, wanted: int) -> None:
    """Wherever they are used: alone, in tuples beside other options, as keys and values, compared."""
    value = f'getopt("b", {default})'
    script = f"""begin {{ print({value}); print(({value}, getopt("c", "x"))); @[{value}, 1] = {value}; $v = {value};
        print((x={value}, y=$v)); print({value} < 0); print($v < 0); printf("%lld\\n", {value}); exit(); }}"""
    options = ["--", *([f"--b={given}"] if given is not None else []), "--c=text"]
    result = run_sonde("-e", script, *options)
    sign = str(wanted < 0).lower()
    assert result.stdout.split("\n")[:6] == [
        str(wanted), f"({wanted}, text)", f"{{ .x = {wanted}, .y = {wanted} }}", sign, sign,
        str(wanted if wanted < 2**63 else wanted - 2**64)], result.stdout + result.stderr
    assert f"@[{wanted}, 1]: {wanted}" in result.stdout
