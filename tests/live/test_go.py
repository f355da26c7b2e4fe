"""Go programs, stripped and not, by each Go at hand: the program itself says how often it called what."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from go_programs import COMPILERS, build_go
from sonde.semantics.go_names import without_types
from support import run_sonde

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
