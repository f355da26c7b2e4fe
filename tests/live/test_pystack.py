"""pystack: against what a Python program says of its own stack at the very system call that is traced."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sonde.compiling import live_world
from support import Tracer, interpreters, run_sonde, trace

pytestmark = [pytest.mark.skipif(os.uname().machine != "x86_64", reason="pystack is for x86_64"),
              pytest.mark.skipif(not live_world().has_feature("bpf_loop"), reason="kernel lacks bpf_loop (Linux 5.17)")]

TARGET = Path(__file__).parents[1] / "pystack_target.py"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
ROUNDS = int(os.environ.get("SONDE_PYSTACK_ROUNDS", "40"))
CLOSE = "tracepoint:syscalls:sys_enter_close /args.fd >= 1048576 && args.fd < 1073741824/"
Stack = list[tuple[str, str, int]]


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> list[str]:
    found = next(interpreters(request.param), None)
    if found is None:
        pytest.skip(f"python{request.param} is not installed")
    return found


def run_target(python: list[str], folder: Path, rounds: int) -> dict[int, Stack]:
    """What the target noted, by number. Below another root it works in that root's /tmp."""
    root = Path(python[1]) if python[0] == "chroot" else None
    place = folder
    if root is not None:
        place = root / "tmp" / f"pystack-{os.getpid()}"
        place.mkdir(parents=True)
    shutil.copy(TARGET, place / "target.py")
    inside = Path("/") / place.relative_to(root) if root is not None else place
    try:
        subprocess.run([*python, "-W", "ignore", str(inside / "target.py"), str(inside / "noted"), str(rounds)],
                       check=True, timeout=120)
        lines = [line for file in place.glob("noted*") for line in file.read_text().splitlines()]
        return {number: [(file, name, line) for file, name, line in stack]
                for number, stack in map(json.loads, lines)}
    finally:
        if root is not None:
            shutil.rmtree(place)


def parse_stacks(text: str) -> dict[int, Stack]:
    """From ``printf("=%d %s", args.fd, pystack)``."""
    found = {}
    for part in text.split("\n=")[1:]:
        number, _, frames = part.partition(" ")
        found[int(number)] = [(file, name, int(line)) for name, file, line in
                              re.findall(r"^ {8}(.*) \(([^\n]*):(\d+)\)$", frames, re.M)]
    return found


@pytest.mark.exact
def test_equals_the_program_s_own(python: list[str], tmp_path: Path) -> None:
    noted: dict[int, Stack] = {}
    tracer = trace(f'{CLOSE} {{ printf("\\n=%d %s", args.fd, pystack); }}',
                   lambda: noted.update(run_target(python, tmp_path, ROUNDS)))
    found = parse_stacks("\n" + tracer.stdout)
    assert len(noted) > 50 * ROUNDS
    assert "not read" not in tracer.stderr and "lost" not in tracer.stderr.lower(), tracer.stderr
    wrong = [(number, noted[number], found.get(number)) for number in noted if found.get(number) != noted[number]]
    assert not wrong, f"{len(wrong)} of {len(noted)}: {wrong[0]}\n{tracer.stderr}"


DEEP = """
import os, sys, time
time.sleep(0.5)  # a process is known a moment after it began
def down(n):
    return down(n - 1) if n else os.getresgid()
sys.setrecursionlimit(5000)
down(200); down(5); down(1000)
"""
GETRESGID = "tracepoint:syscalls:sys_enter_getresgid /pid == cpid/"


def run_deep(*options: str, script: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    target = tmp_path / "deep.py"
    target.write_text(DEEP)
    return run_sonde(*options, "-c", f"{sys.executable} {target}", "-e", f"{GETRESGID} {{ {script} }}")


def test_deep_recursion_is_bounded_and_said(tmp_path: Path) -> None:
    done = run_deep(script="@[pystack] = count();", tmp_path=tmp_path)
    counts = [(len(re.findall(r"^ +down ", part, re.M)), "<module>" in part, part.split("]: ")[-1].strip())
              for part in done.stdout.split("@[")[1:]]
    assert sorted(counts) == [(6, True, "1"), (127, False, "2")]
    assert "Python stack deeper than 127 frames: the innermost are shown. [2 times]" in done.stderr


def test_a_limit_is_what_was_asked_for(tmp_path: Path) -> None:
    done = run_deep(script="@[pystack(2)] = count();", tmp_path=tmp_path)
    assert re.sub(r"\(.*/", "(", done.stdout).split() == \
        "@[ down (deep.py:5) down (deep.py:5) ]: 3".split()
    assert "deeper" not in done.stderr


def test_forms_of_output(tmp_path: Path) -> None:
    done = run_deep("-f", "json", script="print((1, pystack(1)));", tmp_path=tmp_path)
    values = [line["data"] for line in map(json.loads, done.stdout.splitlines()) if line["type"] == "value"]
    assert values == [[1, f"\n        down ({tmp_path}/deep.py:5)\n"]] * 3
    done = run_deep("-f", "folded", script="@[comm, pystack(2)] = count();", tmp_path=tmp_path)
    assert re.findall(r";down \(deep.py:5\);down \(deep.py:5\) 3$", done.stdout, re.M)
    kept = tmp_path / "kept.sonde"
    run_deep("-f", "recording", "-o", str(kept), script="@[pystack(2)] = count();", tmp_path=tmp_path)
    shown = run_sonde("replay", str(kept)).stdout
    assert shown.count(f"        down ({tmp_path}/deep.py:5)\n") == 2 and "]: 3" in shown


def test_calls_in_one_line_are_one_key(tmp_path: Path) -> None:
    (tmp_path / "twice.py").write_text("import os\nfor _ in range(100):\n    os.getppid(); os.getppid()\n")
    done = run_sonde("-c", f"{sys.executable} {tmp_path}/twice.py", "-e", "t:syscalls:sys_enter_getppid /pid == cpid/ "
                     "{ @[pystack] = count(); @sum[comm, pystack(1)] = sum(2); @last[pystack] = nsecs; }")
    shown = re.findall(r"^@(\w*)\[[^\]]*twice.py:3\)\n\]: (\d+)$", done.stdout, re.M)
    assert [(name, value) for name, value in shown if name != "last"] == [("", "200"), ("sum", "400")]
    assert [name for name, _ in shown].count("last") == 2  # two times do not add up


def test_no_stack_of_other_programs(tmp_path: Path) -> None:
    done = run_sonde("-c", "/bin/sh -c :", "-e", "t:syscalls:sys_enter_close /pid == cpid/ { @[pystack] = count(); }")
    assert re.fullmatch(r"\s*@\[\s*\]: \d+\s*", done.stdout)
    assert "Python" not in done.stderr


def test_short_processes_are_shown_or_counted(tmp_path: Path) -> None:
    target, count = tmp_path / "short.sh", 40
    target.write_text(f"for i in $(seq {count}); do\n{sys.executable} -S -E -c 'import os\ndef go(): os.getresgid()\n"
                      "go()'\ndone\n")
    with Tracer("-e", f'tracepoint:syscalls:sys_enter_getresgid /comm == "{Path(sys.executable).name[:15]}"/ '
                "{ @[pystack] = count(); }") as tracer:
        subprocess.run(["bash", target], check=True)
    go = r"^ +go \(<string>:2\)\n +<module> \(<string>:3\)\n\]: (\d+)$"
    shown = sum(map(int, re.findall(go, tracer.stdout, re.M)))
    unread = re.search(r"(\d+) Python stacks? or tasks? not read", tracer.stderr)
    assert shown + (int(unread[1]) if unread else 0) == count
    assert shown


WAITS = """
import time
def long(): time.sleep(0.3)
def short():
    time.sleep(0.1)
end = time.time() + 100
while time.time() < end:
    long(); short()
"""


@pytest.mark.parametrize("merged", [True, False])
def test_which_line_waits(merged: bool, tmp_path: Path) -> None:
    target = tmp_path / "waits.py"
    target.write_text(WAITS)
    with subprocess.Popen([sys.executable, target]) as process:
        done = run_sonde("flame", "--off-cpu", "-p", str(process.pid), "-f", "folded",
                         *([] if merged else ["--no-python"]), "4")
        process.kill()
    assert ("waits.py" in done.stdout) == merged
    if not merged:
        return
    asleep = {name: sum(int(line.rpartition(" ")[2]) for line in done.stdout.splitlines() if f";{name}" in line)
              for name in ("long (waits.py:3)", "short (waits.py:5)")}
    long, short = asleep.values()
    assert 2 < (long + 300_000_000) / short and long / (short + 100_000_000) < 4  # ns; the last turn may be half
    assert ";<module> (waits.py:8);long (waits.py:3);" in done.stdout
    assert "_PyEval" not in done.stdout
