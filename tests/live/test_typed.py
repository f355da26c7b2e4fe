"""The library under ``mypy --strict``: what a user's program says of a script's types is checked twice, by the type
checker and against the script."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import sonde
from support import environment

PROGRAM = Path(__file__).parents[1] / "typed" / "user_script.py"
SCRIPT = """begin { printf("%d %s", 5, comm); printf("a=%d b=%s", 1, "x"); print((a=2, b="y"));
    @n[comm, 1] = count(); @h = hist(3); @s["x"] = stats(4); @stack[kstack] = avg(5); exit(); }"""


def mypy(file: Path) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir=/dev/null", "--config-file=", str(file)]
    return subprocess.run(command,
                          capture_output=True, text=True, cwd=file.parent, check=False,
                          env=environment(None) | {"MYPYPATH": str(Path(sonde.__file__).parents[1])})


def test_a_users_program_is_typed() -> None:
    done = mypy(PROGRAM)
    assert done.returncode == 0, done.stdout


def test_a_wrong_use_is_found(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(PROGRAM.read_text().replace("comm.upper()", "comm + 1").replace("call.pid + 0", "call.uid"))
    done = mypy(wrong)
    assert 'has no attribute "uid"' in done.stdout and "Unsupported operand types" in done.stdout


def test_it_runs() -> None:
    command = [sys.executable, "-S", "-c", "import os; [os.getppid() for _ in range(3)]"]
    done = subprocess.run([sys.executable, str(PROGRAM), *command], capture_output=True, text=True, timeout=120,
                          env=environment(None), check=False)
    assert done.returncode == 0, done.stderr
    *events, calls, sizes, total = done.stdout.splitlines()
    assert len(events) == 3 and len(set(events)) == 1 and events[0].startswith("event python")
    assert calls.startswith("calls PYTHON") and calls.endswith(" 4") and sizes == "sizes 3" and total == "total 9"


class Pair(NamedTuple):
    a: int
    b: str


@dataclass
class Same:
    a: int
    b: Any


class Other(NamedTuple):
    a: str
    b: str


class Unknown(NamedTuple):
    c: int


def test_what_is_expected_is_checked_against_the_script() -> None:
    with sonde.trace(SCRIPT) as tracing:
        maps = tracing.maps
        for name, key, value in (("@n", tuple[str, int], int), ("@h", None, Any),
                                 ("@n", object, int), ("@s", str, sonde.Stats), ("@h", None, sonde.Histogram)):
            assert maps[name].of(key, value).name == name
        for name, key, value, said in (
                ("@n", str, int, "the keys of @n are tuple[str, int], not str"),
                ("@n", tuple[str, str], int, "the keys of @n are tuple[str, int], not tuple[str, str]"),
                ("@h", None, int, "the values of @h are Histogram, not int"),
                ("@h", int, sonde.Histogram, "the keys of @h are None, not int"),
                ("@s", None, sonde.Stats, "the keys of @s are str, not None")):
            with pytest.raises(sonde.UsageError) as caught:
                maps[name].of(key, value)
            assert said in str(caught.value)
        events = tracing.events(timeout=30)
        with pytest.raises(sonde.UsageError, match="a of Other is str; the script sends int"):
            events.of(Other)
        with pytest.raises(sonde.UsageError, match=r"sends \(c\)"):
            events.of(Unknown)
        assert list(events.of(Pair)) == [Pair(1, "x"), Pair(2, "y")]
    with sonde.trace(SCRIPT) as tracing:
        assert list(tracing.events(timeout=30).of(Same)) == [Same(1, "x"), Same(2, "y")]


def test_a_map_is_read_once_for_all_its_values() -> None:
    with sonde.trace("begin { for ($i : 0..50) { @[$i] = $i * 2; } exit(); }") as tracing:
        list(tracing.events(timeout=30))
        reads: list[str] = []
        view = tracing.maps["@"]
        read, view._read = view._read, lambda name: (reads.append(name), read(name))[1]
        assert sorted(view.values()) == list(range(0, 100, 2)) and (7, 14) in view.items() and len(view.values()) == 50
        assert len(reads) == 3
        assert dict(view) == dict(view.items())
