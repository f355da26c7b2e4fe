"""Who an event belongs to: threads by their own names, processes as Sonde's PID namespace numbers them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sonde.kernel.types.world import LiveWorld
from support import environment, run_sonde, sonde_command

THREAD = """
import ctypes, threading
libc = ctypes.CDLL(None)
def work():
    libc.prctl(15, b"worker")  # PR_SET_NAME
    libc.getppid()
libc.prctl(15, b"master")
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


def test_a_thread_and_its_process_have_names_of_their_own(tmp_path: Path) -> None:
    if not LiveWorld().kfunc_id("bpf_iter_task_new"):
        pytest.skip("the kernel lacks bpf_iter_task_new() (Linux 6.7)")
    (tmp_path / "main.py").write_text(THREAD)
    done = run_sonde("-e", 'tracepoint:syscalls:sys_enter_getppid /comm == "worker"/ { printf("%s|%s|%s|%s\\n", comm, '
                     'comm(tid), comm(pid), comm(4194305)); }', "-c", f"{sys.executable} {tmp_path}/main.py")
    assert done.stdout.strip() == "worker|worker|master|", done.stderr  # no process has a number above 2^22


def in_namespace(*args: str) -> subprocess.CompletedProcess[str]:
    """Run sonde as process 1 of a PID namespace of its own."""
    return subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", *sonde_command(args)], capture_output=True,
                          text=True, timeout=60, env=environment(), check=False)


def test_processes_have_the_numbers_of_the_namespace() -> None:
    done = in_namespace("-e", "tracepoint:syscalls:sys_enter_execve /pid == cpid/ { print((pid == cpid, tid == pid, "
                        "pid == pid(curr_ns), pid(init) == pid, tid(init) == pid(init), pid < 10)); }",
                        "-c", "/bin/true")
    assert done.stdout.strip() == "(true, true, true, false, true, true)", done.stderr


def test_a_process_is_chosen_by_its_number_in_the_namespace() -> None:
    """-p 1 means the first process of the namespace, which is the tracer; it asks for the time all the while."""
    done = in_namespace("-p", "1", "-e", "tracepoint:syscalls:sys_enter_* { @[pid, comm] = count(); } "
                        "interval:ms:300 { exit(); }")
    assert done.stdout.strip().startswith("@[1, "), done.stderr
    assert done.stdout.strip().count("\n") == 0, done.stdout


def test_outside_of_a_namespace_nothing_changes() -> None:
    assert os.stat("/proc/self/ns/pid").st_ino == 0xEFFFFFFC, "this test must run in the first PID namespace"
    done = run_sonde("-e", "begin { print((pid == pid(init), tid == pid(curr_ns))); exit(); }")
    assert done.stdout.strip() == "(true, true)", done.stderr
