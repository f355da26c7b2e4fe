"""-c of the tools: the command and all that it starts, to the last one, and nobody else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from printed import rows
from support import run_sonde

# Each process writes its number to a file, and calls getppid() once, as the first thing that it does.
TREE = """
import os, sys, threading, time

log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
end, held = os.pipe()
os.set_inheritable(held, True)


def note():
    os.getppid()
    os.write(log, f"{os.getpid()}\\n".encode())


def begin(work):
    if os.fork() == 0:
        note()
        work()
        os._exit(0)


def nothing():
    pass


def run_from_a_thread():
    program = "import os, sys; os.fork() or (os.getppid(), os.write(int(sys.argv[1]), f'{os.getpid()}\\\\n'.encode()))"
    os.set_inheritable(log, True)
    threading.Thread(target=os.execv, args=(sys.executable, [sys.executable, "-S", "-c", program, str(log)])).start()
    time.sleep(60)


note()
for _ in range(20):
    begin(lambda: [begin(nothing) for _ in range(5)])  # of some the parent is gone before they begin
begin(lambda: begin(lambda: (time.sleep(0.1), begin(nothing))))
thread = threading.Thread(target=begin, args=(nothing,))
thread.start()
thread.join()
begin(run_from_a_thread)
os.close(held)
os.read(end, 1)
"""
PROCESSES = 1 + 20 * 6 + 3 + 1 + 2


@pytest.mark.parametrize("tool", ["exitsnoop", "syscount", "threadsnoop"])
def test_the_command_and_all_that_it_starts(tool: str, tmp_path: Path) -> None:
    """Beside it another process does the same all the time."""
    (tmp_path / "tree.py").write_text(TREE)
    words = [sys.executable, "-S", str(tmp_path / "tree.py")]
    other = subprocess.Popen(["sh", "-c", f"while :; do {' '.join(words)} {tmp_path / 'others'}; done"])
    try:
        done = run_sonde(tool, *(["--syscall", "getppid"] if tool == "syscount" else []), "-f", "json",
                         "-c", " ".join([*words, str(tmp_path / "mine")]))
    finally:
        other.kill()
        other.wait()
    assert done.returncode == 0 and "could not be followed" not in done.stderr, done.stderr
    mine = [int(line) for line in (tmp_path / "mine").read_text().split()]
    assert len(mine) == PROCESSES
    if tool == "syscount":
        assert re.findall(r'"getppid": (\d+)', done.stdout) == [str(PROCESSES)], done.stdout
    elif tool == "exitsnoop":
        ended = [row["PID"] for row in rows(done.stdout)]  # the first thread of one ends before it, by execve()
        assert set(ended) == set(mine) and len(ended) == PROCESSES + 1
    else:  # by a uprobe: one thread of the command's, and one of the process that runs a program from it
        begun = [row["PID"] for row in rows(done.stdout)]
        assert len(begun) == 2 and begun[0] == mine[0] and begun[1] in mine


def test_a_tool_with_a_process_option_of_its_own_traces_the_command_alone(tmp_path: Path) -> None:
    """biosnoop knows a request's process by its number: what the command starts is not among them."""
    script = tmp_path / "work.sh"
    script.write_text(f"dd if=/dev/zero of={tmp_path / 'data'} bs=4k count=4 oflag=dsync 2>/dev/null; :\n")
    done = run_sonde("biosnoop", "-f", "json", "-c", f"sh {script}")
    assert done.returncode == 0 and rows(done.stdout) == []


def test_pidpersec_counts_what_a_process_starts(tmp_path: Path) -> None:
    """Seven processes, of which three start a thread: of all that the command starts, and of it alone."""
    script = tmp_path / "starts.py"
    script.write_text("import os, threading, time\n"
                      "for number in range(7):\n"
                      "    if os.fork() == 0:\n"
                      "        if number < 3: threading.Thread(target=int).start()\n"
                      "        time.sleep(0.1)\n"
                      "        os._exit(0)\n"
                      "time.sleep(2.5)\n")
    words = f"{os.path.realpath(sys.executable)} -S {script}"

    def counted(*options: str) -> int:
        done = run_sonde("pidpersec", *options, "-c", words, "1", "2")
        assert done.returncode == 0, done.stderr
        return sum(map(int, re.findall(r"PIDs/sec: (\d+)", done.stdout)))

    assert (counted(), counted("-P")) == (10, 7)
