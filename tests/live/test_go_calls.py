"""Calls of Go functions from entry to return: programs of ten kinds put out what they put out alone, and count what
Sonde counts; calls and returns of a thousand goroutines belong together."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from go_kinds import FUNCTIONS, LARGE, MANY, PLAIN
from go_programs import COMPILERS, build_go
from support import run_sonde


@pytest.fixture(scope="module", params=COMPILERS)
def compiler(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def programs(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By what they are; large ones need C, too."""
    folder = tmp_path_factory.mktemp("kinds")
    built = {"plain": build_go(folder, PLAIN, compiler=compiler, name="plain"),
             "pie": build_go(folder, PLAIN, "-buildmode=pie", "-ldflags=-s -w", compiler=compiler, name="pie"),
             "stripped": folder / "stripped"}
    shutil.copy(built["plain"], built["stripped"])
    subprocess.run(["strip", built["stripped"]], check=True)
    if shutil.which("gcc"):
        built["large"] = build_go(folder, LARGE, compiler=compiler, name="large")
    return built


def own_counts(output: str) -> dict[str, tuple[int, ...]]:
    """Function → calls, their arguments, returns, their results."""
    return {name: tuple(map(int, numbers.split())) for name, numbers in
            re.findall(r"^(\w+) (-?\d+ -?\d+ -?\d+ -?\d+)$", output, re.MULTILINE)}


def counting_script(program: Path, functions: set[str]) -> str:
    return "".join([f"uprobe:{program}:{FUNCTIONS[name][0]} {{ @c{name} = count(); "
                    f"@a{name} = sum((int64){argument(name)}); }} "
                    f"uretprobe:{program}:{FUNCTIONS[name][0]} {{ @r{name} = count(); "
                    f"@s{name} = sum((int64)retval); }} "
                    for name in sorted(functions)])


def argument(name: str) -> str:
    return f"(int32)arg{FUNCTIONS[name][1]}" if name == "twice" else f"arg{FUNCTIONS[name][1]}"


@pytest.mark.parametrize(("build", "kinds"), [
    ("plain", "fan"), ("plain", "channels"), ("plain", "panics"), ("plain", "closures methods generics"),
    ("plain", "recursion preempted sleeping"), ("large", "calls"), ("large", "serve"), ("stripped", "panics generics"),
    ("pie", "recursion methods")])
def test_every_call_and_return_is_counted(programs: dict[str, Path], build: str, kinds: str) -> None:
    if build not in programs:
        pytest.skip("gcc is not installed")
    program = programs[build]
    alone = subprocess.run([program, *kinds.split()], capture_output=True, text=True, check=True).stdout
    traced = run_sonde("-c", f"{program} {kinds}", "-e", counting_script(program, {*own_counts(alone)}))
    own = own_counts(traced.stdout)
    assert traced.returncode == 0 and own and own.keys() == own_counts(alone).keys(), traced.stderr
    assert kinds == "channels" or own == own_counts(alone)  # there some depends on the time
    measured = {name: tuple([int(value) for key in "cars" for value in
                             re.findall(rf"^@{key}{name}: (-?\d+)$", traced.stdout, re.MULTILINE)]) for name in own}
    assert measured == own


@pytest.fixture(scope="module")
def many(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_go(tmp_path_factory.mktemp("many"), MANY, "-ldflags=-s -w", compiler=compiler)


def test_calls_of_a_thousand_goroutines(many: Path) -> None:
    """Each return belongs to the call with its arguments, and takes as long as the goroutine says."""
    script = f"""uprobe:{many}:main.work {{ enter_call(@depth, @calls, @left, (arg0, arg1)); }}
        uretprobe:{many}:main.work {{ return_call(@depth, @calls, @left, $call, {{
            @same[retval == 100 * $call.3.0 + $call.3.1] = count();
            @took[$call.3.0] = sum(nsecs - $call.0); }}); }}
        end {{ print(@same); printf("%d calls under way, %d left\\n", len(@calls), (int64)@left); clear(@depth);
               clear(@calls); clear(@same); clear(@left); }}"""
    done = run_sonde("-c", str(many), "-e", script)
    assert done.returncode == 0 and "get mixed up" not in done.stderr, done.stderr
    assert "@same[true]: 13000\n" in done.stdout and "@same[false]" not in done.stdout
    assert "0 calls under way, 0 left\n" in done.stdout
    own = re.findall(r"^goroutine (\d+) (\d+) (\d+)$", done.stdout, re.MULTILINE)
    took = dict(re.findall(r"^@took\[(\d+)\]: (\d+)$", done.stdout, re.MULTILINE))
    assert len(own) == len(took) == 1000
    assert all(int(within) <= int(took[g]) <= int(without) for g, within, without in own)


def test_tools_pair_calls_by_goroutine(many: Path) -> None:
    place = f"{many}:main.work"
    done = run_sonde("funclatency", "-c", str(many), place)
    assert ".count = 13000," in done.stdout and "did not return" not in done.stdout and "WARNING" not in done.stderr
    done = run_sonde("funcslower", "-f", "json", "-u", "1", "-a", "2", "-c", str(many), place)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    calls = [row["data"] for row in rows if row["type"] == "row"]
    assert len(calls) == 13000 and "WARNING" not in done.stderr
    assert all(int(call["RVAL"]) == 100 * int(call["ARG0"], 16) + int(call["ARG1"], 16) for call in calls)
    done = run_sonde("argdist", "-C", "-c", str(many), f"r:{place}(int g, int i):int:100*$entry(g)+$entry(i)-$retval")
    assert "@probe0[0]: 13000\n" in done.stdout and "get mixed up" not in done.stderr
