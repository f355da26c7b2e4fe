"""Go programs, stripped and not, by each Go at hand: the program itself says how often it called what."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from go_programs import COMPILERS, build_go
from sonde.semantics.go_names import without_types
from support import Tracer, run_sonde

NAMES = r"""
package main
import ("fmt"; "os")
type Number interface{ ~int | ~float64 }
//go:noinline
func Sum[T Number](xs []T) T { var s T; for _, x := range xs { s += x }; return s }
type Stack[T any] struct{ items []T }
//go:noinline
func (s *Stack[T]) Push(x T) { s.items = append(s.items, x) }
type Square struct{ side int }
//go:noinline
func (s *Square) Area() int { return s.side * s.side }
func main() {
	st, n := &Stack[string]{}, 0
	for i := 0; i < 50; i++ {
		n += Sum([]int{i, 2}) + int(Sum([]float64{1.5}))
		st.Push("x")
		n += (&Square{i}).Area()
	}
	fmt.Println(n, len(st.items), len(os.Args))
}
"""
OUTPUT = "41800 50 1\n"
STRIPPED = "-ldflags=-s -w"


@pytest.fixture(scope="module", params=COMPILERS)
def compiler(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=[(), (STRIPPED,), (STRIPPED, "-buildmode=pie")],
                ids=["whole", "stripped", "pie"])
def program(request: pytest.FixtureRequest, compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_go(tmp_path_factory.mktemp("names"), NAMES, *request.param, compiler=compiler)


def counts(program: Path, *probes: str) -> dict[str, int]:
    """How often each function was called, by name."""
    script = f"{', '.join(f'uprobe:{program}:{probe}' for probe in probes)} {{ @[func] = count(); }}"
    done = run_sonde("-f", "json", "-e", script, "-c", str(program))
    assert done.returncode == 0 and OUTPUT in done.stdout, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    maps = [line["data"]["@"] for line in lines if line["type"] == "map"]
    return {name: int(count) for name, count in maps[0].items()} if maps else {}


def test_functions_and_methods(program: Path) -> None:
    assert counts(program, "main.(*Square).Area", "main.main") == {"main.(*Square).Area": 50, "main.main": 1}


@pytest.mark.parametrize("probe", ["main.Sum[...]", 'go:"main.Sum"', 'go:"main.Sum[...]"', 'main.Sum*'])
def test_one_name_for_each_type(program: Path, probe: str) -> None:
    names = counts(program, probe)
    assert sum(names.values()) == 100 and all(name.startswith("main.Sum[") for name in names)


def test_a_method_of_any_type(program: Path) -> None:
    assert sum(counts(program, 'go:"main.(*Stack).Push"').values()) == 50


def test_listed(program: Path) -> None:
    lines = run_sonde("-l", f"uprobe:{program}:main.*").stdout.splitlines()
    assert f"uprobe:{program}:main.(*Square).Area" in lines
    assert any(line.startswith(f"uprobe:{program}:main.Sum[") for line in lines)


def test_the_same_functions_as_the_symbols(compiler: str, tmp_path: Path) -> None:
    """Of a stripped program all functions have names, at the addresses that the symbols of the other say."""
    whole = build_go(tmp_path, NAMES, compiler=compiler)
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, whole], check=True)
    symbols = subprocess.run(["nm", whole], check=True, capture_output=True, text=True).stdout
    known = set(re.findall(r"^\w+ [tT] (main\.\S+)$", symbols, re.M))
    lines = run_sonde("-l", f"uprobe:{stripped}:main.*").stdout.splitlines()
    names = {line.rpartition(":")[2] for line in lines}
    assert {without_types(name) for name in names} == {without_types(name) for name in known}
    assert b"\0.symtab\0" not in stripped.read_bytes()


def test_stacks(program: Path) -> None:
    done = run_sonde("-e", f"uprobe:{program}:main.(*Square).Area {{ @[ustack(3)] = count(); }}", "-c", str(program))
    assert re.findall(r"^\s+(\S+)\+\d+$", done.stdout, re.M) == [
        "main.(*Square).Area", "main.main", "runtime.main"]


ARGUMENTS = r"""
package main
import ("errors"; "fmt"; "os"; "runtime"; "strings"; "sync")
type P struct{ X, Y int }
type Reader interface{ Read() int }
func (p P) Read() int { return p.X }
//go:noinline
func nums(a int, b int8, c uint16, d bool, e int64, f uint32, g, h, i, j, k int) int {
	return a + int(b) + int(c) + int(e) + int(f) + g + h + i + j + k
}
//go:noinline
func text(s string, n int, b []byte) int { return len(s) + n + len(b) }
//go:noinline
func mixed(p P, x float64, err error, m map[string]int, ch chan int, r Reader, q *P) int {
	if err != nil { return len(m) + p.X + q.Y + r.Read() }
	return int(x) + cap(ch)
}
//go:noinline
func unnamed(a int, _ int, c string) int { return a }
//go:noinline
func deep(n int) int {
	var a [64]int
	a[n % 64] = n
	if n == 0 { return a[0] }
	return deep(n - 1) + a[n % 64]
}
func main() {
	m, ch, t := map[string]int{"a": 1, "b": 2, "c": 3}, make(chan int, 7), 0
	ch <- 1
	ch <- 2
	for i := 0; i < 10; i++ {
		t += nums(i, -3, 65000, true, 1 << 40, 4000000000, 7, 8, 9, 10, 11)
		t += text(strings.Repeat("xy", i), i, make([]byte, i, 20))
		var err error
		if i % 2 == 1 { err = errors.New(fmt.Sprint("odd ", i)) }
		t += mixed(P{i, 2}, 2.5, err, m, ch, P{5, 6}, &P{1, 2}) + mixed(P{i, 3}, 2.5, nil, nil, nil, P{5, 6}, &P{1, 2})
		t += unnamed(i, 3, "cc")
	}
	var wg sync.WaitGroup
	for i := 0; i < 8; i++ {
		wg.Add(1)
		go func(i int) {
			defer wg.Done()
			for k := 0; k < 50; k++ { deep(200 + i); runtime.Gosched() }
		}(i)
	}
	wg.Wait()
	fmt.Println(t, len(os.Args))
}
"""


@pytest.fixture(scope="module", params=[(), ("-gcflags=-N -l",)], ids=["optimised", "unoptimised"])
def called(request: pytest.FixtureRequest, compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_go(tmp_path_factory.mktemp("arguments"), ARGUMENTS, *request.param, compiler=compiler)


def lines_of(program: Path, script: str) -> list[str]:
    """What a script prints while the program runs, which prints what it always does."""
    done = run_sonde("-q", "-e", script.replace("PROG", str(program)), "-c", str(program))
    own = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert done.returncode == 0 and done.stdout.count(own) == 1, done.stderr
    return [line for line in done.stdout.replace(own, "").splitlines() if line]


def test_arguments_in_order(called: Path) -> None:
    lines = lines_of(called, """uprobe:PROG:main.nums {
        printf("%d %d %d %d %lld %u %d %d %d %d %d\\n", arg0, (int8)arg1, (uint16)arg2, (uint8)arg3, arg4, (uint32)arg5,
               arg6, arg7, arg8, arg9, arg10) }""")
    assert lines == [f"{i} -3 65000 1 1099511627776 4000000000 7 8 9 10 11" for i in range(10)]


def test_arguments_by_name(called: Path) -> None:
    assert lines_of(called, "uprobe:PROG:main.nums { print(args); }") == [
        f"{{ .a = {i}, .b = -3, .c = 65000, .d = 1, .e = 1099511627776, .f = 4000000000, .g = 7, .h = 8, .i = 9, "
        ".j = 10, .k = 11 }" for i in range(10)]


def test_strings_are_shown_as_texts(called: Path) -> None:
    """Alone, in structs, as keys, and where they are compared."""
    lines = lines_of(called, """uprobe:PROG:main.text /args.n > 7/ {
        print(args.s); print((args.n, args.s));
        if (args.s == "xyxyxyxyxyxyxyxy") { printf("%s|%d\\n", args.s, args.s.len) }
        if (strcontains(args.s, "xyxyxyxyxyxyxyxyxy")) { @key[args.s] = count(); @last = args.s; print(args) } }""")
    eight, nine = "xy" * 8, "xy" * 9
    assert lines[:5] == [eight, f"(8, {eight})", f"{eight}|16", nine, f"(9, {nine})"]
    assert lines[5].startswith(f"{{ .s = {nine}, .n = 9, .b = {{ .array = 0x") and ".cap = 20 } }" in lines[5]
    assert sorted(lines[6:]) == [f"@key[{nine}]: 1", f"@last: {nine}"]


def test_strings_and_lengths(called: Path) -> None:
    assert lines_of(called, """uprobe:PROG:main.text {
        printf("%s %d %d %d %d\\n", str(args.s), len(args.s), args.n, len(args.b), args.b.cap) }""") == [
        f"{'xy' * i} {2 * i} {i} {i} 20" for i in range(10)]
    assert lines_of(called, """uprobe:PROG:main.mixed {
        printf("%d %d %d %d %d\\n", args.p.X, args.err.tab != 0, len(args.m), len(args.ch), args.q->Y) }""") == [
        line for i in range(10) for line in (f"{i} {i % 2} 3 2 2", f"{i} 0 0 0 2")]


def test_arguments_that_cannot_be_had(called: Path, compiler: str) -> None:
    """Registers for floats cannot be read; parameters after one without a name are right, or not given at all."""
    failed = run_sonde("-e", f"uprobe:{called}:main.mixed {{ print(args.x); }}", "-c", str(called))
    assert "x of uprobe" in failed.stderr and "is passed in a vector register" in failed.stderr
    script = f"uprobe:{called}:main.unnamed {{ printf(\"%s\\n\", str(args.c)); }}"
    done = run_sonde("-q", "-e", script, "-c", str(called))
    assert done.stdout.count("cc\n") == 10 or "after a parameter without a name" in done.stderr


def test_every_call_once(called: Path) -> None:
    """Functions that wait for a larger stack, or are preempted where they check it, begin once more; the program
    recurses 81,800 times in eight goroutines, whose stacks grow."""
    lines = lines_of(called, "uprobe:PROG:main.deep { @ = count(); @of[goid] = count(); }")
    assert lines[0] == "@: 81800"
    assert sorted(int(line.rpartition(" ")[2]) for line in lines[1:]) == [50 * (201 + i) for i in range(8)]


def test_goroutines_of_system_calls(compiler: str, tmp_path: Path) -> None:
    """In other probes a goroutine is found by its thread; the program says which one it is."""
    program = build_go(tmp_path, GOROUTINE, compiler=compiler)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        number = int(process.stdout.readline())
        with Tracer("-p", str(process.pid), "-e", "tracepoint:syscalls:sys_enter_getppid { @[goid] = count(); }") as t:
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"
        process.stdin.close()
    assert f"@[{number}]: 30\n" in t.stdout


GOROUTINE = r"""
package main
import ("bytes"; "fmt"; "os"; "runtime"; "syscall")
func work(done chan int) {
	text := make([]byte, 64)
	text = bytes.Fields(text[:runtime.Stack(text, false)])[1]
	fmt.Println(string(text))
	os.Stdin.Read(make([]byte, 1))
	for i := 0; i < 30; i++ { syscall.Getppid(); runtime.Gosched() }
	fmt.Println("done")
	os.Stdin.Read(make([]byte, 1))
	done <- 1
}
func main() {
	done := make(chan int)
	go work(done)
	<-done
}
"""


def test_goid_elsewhere() -> None:
    done = run_sonde("-e", "tracepoint:syscalls:sys_enter_getppid { @[goid] = count(); }")
    assert "is in no Go program" in done.stderr and "-p PID" in done.stderr and done.returncode == 1


C_AND_GO = r"""
package main
// __attribute__((noinline)) int add(int a, int b) { return a + b; }
import "C"
import "fmt"
func main() {
	n := 0
	for i := 0; i < 5; i++ { n += int(C.add(C.int(i), 7)) }
	fmt.Println(n)
}
"""


def test_functions_of_c_keep_c_s_convention(tmp_path: Path) -> None:
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    program = build_go(tmp_path, C_AND_GO)
    lines = lines_of(program, "uprobe:PROG:add { printf(\"%d %d\\n\", (int32)arg0, (int32)arg1); }")
    assert lines == [f"{i} 7" for i in range(5)]
