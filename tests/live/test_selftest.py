"""test: and bench: probes."""

from __future__ import annotations

import json
import re
from pathlib import Path

from support import run_sonde

TESTS = """
macro add(a, b) { a + b }
begin { printf("begin\\n"); }
test:good { assert(add(1, 2) == 3, "sum"); printf("hidden\\n"); }
test:returns { printf("shown\\n"); return 1; }
test:asserts { assert(add(1, 2) == 4, "no sum"); }
test:exits { exit(3); }
test:says { errorf("oops %d", 4); }
test:loops { for ($i : 0..10) { if ($i == 5) { return 7; } } }
test:maps { @x[1] = 2; if (@x[1] != 2) { return 1; } clear(@x); }
test:ends { exit(); }
bench:count { @c = count(); }
bench:print { printf("%d\\n", 1); }
interval:s:1 { exit(); }
end { printf("end\\n"); }
"""


def script(folder: Path, text: str = TESTS) -> str:
    path = folder / "tests.bt"
    path.write_text(text)
    return str(path)


def test_tests_pass_and_fail(tmp_path: Path) -> None:
    done = run_sonde("--test", script(tmp_path))
    assert done.returncode == 1
    results = re.findall(r"\[(       OK |  FAILED  )\] (\w+) \(\d+ \u03bcs\)", done.stdout)
    assert {name: word.strip() == "OK" for word, name in results} == {
        "good": True, "returns": False, "asserts": False, "exits": False, "says": False, "loops": False, "maps": True,
        "ends": True}
    assert "hidden" not in done.stdout and "shown\n" in done.stdout and "ERROR: assert failed: no sum" in done.stdout
    assert "[==========] 8 tests ran.\n[  PASSED  ] 3 tests.\n[  FAILED  ] 5 tests, listed below:\n" in done.stdout
    assert done.stdout.startswith("begin\n[==========] Running 8 tests.\n") and done.stdout.endswith("end\n\n\n")


def test_all_pass(tmp_path: Path) -> None:
    done = run_sonde("-q", "-f", "json", "--mode", "test", script(tmp_path, "test:one { return 0; } test:two { }"))
    assert done.returncode == 0
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(m["type"], name, result["passed"]) for m in found for name, result in m["data"].items()] == [
        ("test_result", "one", True), ("test_result", "two", True)]


def test_benchmarks(tmp_path: Path) -> None:
    done = run_sonde("-q", "--bench", script(tmp_path))
    assert done.returncode == 0
    assert re.fullmatch(r"begin\nBenchmark +Time\(ns\) +Iterations\n-{66}\ncount +\d+ +\d+\nprint +\d+ +\d+\nend\n\n\n",
                        done.stdout), done.stdout
    done = run_sonde("-q", "-f", "json", "--bench", script(tmp_path, "bench:b { @ = count(); }"))
    found = json.loads(done.stdout)
    assert found["type"] == "benchmark_result" and found["data"]["b"]["iters"] > 0 and found["data"]["b"]["average"] > 0


def test_traces_leave_them_out(tmp_path: Path) -> None:
    done = run_sonde("-q", script(tmp_path))
    assert done.stdout == "begin\nend\n\n\n" and done.returncode == 0
    assert "use --test to run test probes" in run_sonde("-e", "test:x { }").stderr
    assert run_sonde("--test", "--bench", "-e", "test:x { }").returncode == 1
