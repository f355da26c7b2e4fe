"""Loops over tasks and mappings (Linux 6.7), and paths that a script puts together, as this process knows them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import run_sonde

ENABLE = "config = { unstable_iter = enable }"
ACTIONS = [
    ("$n = 0; for ($t : iter_threads()) { $n++; if ($n > 3) { break; } } print($n);", "4"),
    ("$n = 0; $s = 0; for ($t : iter_task()) { $n += 1; if ($n & 1) { continue; } $s += 1; } print($n - $s * 2 < 2);",
     "true"),
    ("$x = \"a\"; $k = (1, 2); for ($t : iter_task()) { $x = \"b\"; $k = ($k.0 + 1, 2); } print(($x, $k.0 > 2));",
     "(b, true)"),
    ("for ($t : iter_task()) { for ($i : 0..3000) { if ($i == 3) { break; } @n += 1; } @m += 3; } print(@n == @m);",
     "true"),
    ("@m[1] = 2; for ($kv : @m) { for ($t : iter_task()) { @seen[$kv.0] = $kv.1; } } print(@seen[1]); "
     "clear(@seen);", "2"),
    ("for ($t : iter_task()) { for ($u : iter_task()) { if ($u.pid == $t.pid) { @a += 1; } } @b += 1; } "
     "print((@a >= @b, @b > 1));", "(true, true)"),
    ("for ($t : iter_task_threads(curtask)) { print($t.tgid == curtask.tgid); }", "true"),
]


def outcome(program: str, *options: str) -> str:
    done = run_sonde("-q", *options, "-e", f"{ENABLE} {program}", env={"SONDE_CHECK_IR": "1"}, timeout=100)
    if "cannot loop over" in done.stderr:
        pytest.skip("this kernel has no open-coded iterators over tasks")
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize(("action", "line"), ACTIONS, ids=range(len(ACTIONS)))
def test_rounds(action: str, line: str) -> None:
    assert outcome(f"begin {{ {action} exit(); }}").splitlines()[0] == line


def test_a_return_ends_the_iterator_too() -> None:
    """The verifier refuses a program that leaves one open."""
    found = outcome("fn first(): int64 { for ($t : iter_task()) { return $t.tgid + 1; } return 0; } "
                    "begin { print(first() > 0); for ($t : iter_task()) { print(1); exit(); } print(2); }")
    assert found.split() == ["true", "1"]


@pytest.fixture
def waiting() -> Iterator[int]:
    """How many threads this process has, three of which wait."""
    gate = threading.Event()
    threads = [threading.Thread(target=gate.wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    yield len(os.listdir("/proc/self/task"))
    gate.set()
    for thread in threads:
        thread.join()


def test_threads_of_a_process(waiting: int) -> None:
    """Every loop that reaches this process finds the same threads of it."""
    found = outcome("begin { for ($t : iter_task()) { if ($t.tgid == curtask.real_parent.tgid) { "
                    "for ($u : iter_task_threads($t)) { @own += 1; } } } "
                    "for ($t : iter_threads()) { if ($t.tgid == curtask.real_parent.tgid) { @all += 1; } } "
                    "print((@own, @all)); exit(); }")
    assert found.splitlines()[0] == f"({waiting}, {waiting})"


def test_mappings() -> None:
    """Their sum is what the kernel itself has counted, but for the stack's growth and the gate page."""
    found = outcome("begin { for ($t : iter_task()) { if ($t.tgid == curtask.real_parent.tgid) { "
                    "for ($v : iter_task_vma($t)) { @bytes += $v.vm_end - $v.vm_start; } "
                    "print(@bytes == $t.mm.total_vm << 12); } } exit(); }")
    assert found.splitlines()[0] == "true"


@pytest.mark.parametrize(("path", "depth", "expected"), [
    ("", 32, "{cwd}"), ("x/y", 32, "{cwd}/x/y"), ("/etc/fstab", 32, "/etc/fstab"), ("x", 1, "/{last}/x"),
])
def test_absolute_paths(path: str, depth: int, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = outcome(f'begin {{ let $p: string[512] = "{path}"; abspath($p, {depth}); print($p); '
                    "print(str(fs_root().d_name.name)); exit(); }")
    assert found.splitlines()[:2] == [expected.format(cwd=tmp_path.resolve(), last=tmp_path.name), "/"]


def test_paths_go_on_above_a_mount_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/proc/sys/kernel")
    found = outcome("begin { let $p: string[64]; abspath($p, 9); print($p); exit(); }")
    assert found.splitlines()[0] == "/proc/sys/kernel"


def test_what_is_no_task_is_told() -> None:
    done = run_sonde("-e", "begin { for ($v : iter_task_vma(5)) { } for ($v : iter_tasks()) { } "
                     "for ($t : iter_task(1)) { } for ($t : iter_task_threads(5)) { } }")
    assert done.returncode == 1
    for words in ("iter_task_threads() expects a struct task_struct pointer",
                  "iter_task_vma() expects curtask or the variable of a loop over tasks",
                  "Unknown iterator: 'iter_tasks'", "did you mean iter_task()?", "iter_task() requires no arguments"):
        assert words in done.stderr
