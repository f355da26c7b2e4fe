"""Results of Go functions, against what the program itself prints of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from go_programs import COMPILERS, build_go
from support import run_sonde

# Each kind of result: by sign and width, strings, slices, several; on stacks that have to grow; on the stack itself.
PROGRAM = r"""
package main

import ("fmt"; "os"; "strings")

type pair struct { x, y int }

//go:noinline
func price(n int) int { if n < 2 { return -7 }; return n * 2 }
//go:noinline
func name(n int) string { return strings.Repeat("ab", n) }
//go:noinline
func find(n int) (text string, size int, _ bool) { return fmt.Sprint("text ", n), -n, n > 1 }
//go:noinline
func list(n int) ([]byte, uint16) { return make([]byte, n, n + 3), uint16(65535 - n) }
//go:noinline
func small(n int) (int8, float64, *int) { return int8(-n), 1.5, nil }
//go:noinline
func both(n int) pair { return pair{n, -n} }
//go:noinline
func deep(n int) (string, int) {
	var room [64]int
	room[n % 64] = n
	if n == 0 { return "deep", room[0] }
	s, m := deep(n - 1)
	return s, m + room[n % 64]
}
//go:noinline
func many(n int) (a, b, c, d, e, f, g, h int, last [1]string) {
	last[0] = "last"
	return n, 2, 3, 4, 5, 6, 7, 8, last
}
//go:noinline
func nothing(n int) { if n > 99 { fmt.Println(n) } }

func main() {
	for n := 0; n < 4; n++ {
		fmt.Println("price", price(n))
		fmt.Println("name", name(n), len(name(n)))
		text, size, ok := find(n)
		fmt.Println("find", text, size, ok)
		b, u := list(n)
		fmt.Println("list", len(b), cap(b), u)
		i, _, p := small(n)
		fmt.Println("small", i, p != nil)
		v := both(n)
		fmt.Println("both", v.x, v.y)
		nothing(n)
	}
	s, m := deep(3000)
	fmt.Println("deep", s, m)
	many(len(os.Args))
}
"""

SCRIPT = r"""
uretprobe:PROG:main.price { printf("price %d\n", retval); }
uretprobe:PROG:main.name { @calls++; if (@calls & 1) { printf("name %s %d\n", retval, len(retval)); } }
uretprobe:PROG:main.name { @named[retval] = count(); }
uretprobe:PROG:main.find { printf("find %s %d %s\n", retval, results.size, results.r2 ? "true" : "false"); }
uretprobe:PROG:main.list { printf("list %d %d %d\n", len(retval), results.r0.cap, results.r1); }
uretprobe:PROG:main.small { printf("small %d %s\n", retval, results.r2 != 0 ? "true" : "false"); }
uretprobe:PROG:main.both { printf("both %d %d\n", retval.x, results.r0.y); }
uretprobe:PROG:main.deep { @deep[retval] = count(); @last = results.r1; }
uretprobe:PROG:main.price, uretprobe:PROG:main.name, uretprobe:PROG:main.nothing { @words[func] = count(); }
end { printf("deep %d\n", @last); clear(@last); clear(@calls); }
"""


@pytest.fixture(scope="module", params=COMPILERS)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_go(tmp_path_factory.mktemp("results"), PROGRAM, compiler=request.param)


def test_results(program: Path) -> None:
    done = run_sonde("-e", SCRIPT.replace("PROG", str(program)), "-c", str(program))
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    printed = done.stdout.splitlines()
    lines = [line for line in printed if line.split(" ")[0] in ("price", "name", "find", "list", "small", "both")]
    own = [line for line in lines if lines.count(line) == 1]
    assert not own and len(lines) == 48, own  # each both by the program and by Sonde
    assert "deep deep 4501500" in printed and "deep 4501500" in printed and "@deep[deep]: 3001" in printed
    assert {f"@named[{'ab' * n}]: 2" for n in range(4)} <= set(printed)
    assert {"@words[main.price]: 4", "@words[main.name]: 8", "@words[main.nothing]: 4"} <= set(printed)


REFUSED = {
    "main.small { print(results.r1); }": "r1 of uretprobe:PROG:main.small is passed in a vector register",
    "main.nothing { print(retval); }": "main.nothing returns nothing",
    "main.nothing { print(results); }": "it has none that can be read",
    "main.find { print(results.txt); }": "Can't find function result txt",
    "main.find { print(args.n); }": "its results have names: results.text, results.size, results.r2",
    "main.many { print(results.last); }": "last of uretprobe:PROG:main.many is on the stack",
}


def test_results_that_cannot_be_had(program: Path) -> None:
    done = run_sonde("-e", "\n".join(f"uretprobe:{program}:{body}" for body in REFUSED))
    assert done.returncode == 1
    assert [text for text in REFUSED.values() if text.replace("PROG", str(program)) not in done.stderr] == []


def test_patterns(program: Path) -> None:
    """They have first words; -l says what there is."""
    script = f"uretprobe:{program}:main.pric* {{ @ = min((int64)retval); @n = sum(retval > 1 << 63 ? 1 : 0); }}"
    assert "@: -7\n@n: 2\n" in run_sonde("-e", script, "-c", str(program)).stdout
    listed = run_sonde("-lv", f"uretprobe:{program}:main.fi*").stdout
    assert "results (struct string text, int size, bool r2)" in listed
