"""sonde profile --lines: against what a program measures of its own loops, and with sources that it may not read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sonde.compiling import live_world
from support import Tracer, run_sonde, wait_for

pytestmark = [pytest.mark.skipif(os.uname().machine != "x86_64", reason="pystack is for x86_64"),
              pytest.mark.skipif(not live_world().has_feature("bpf_loop"), reason="kernel lacks bpf_loop (Linux 5.17)")]

# Runs as nobody, and says of its functions that they come from a file that only root may read.
PROGRAM = """\
import json, os, select, sys, time, zlib
def loop(n):
    for _ in range(n):
        pass  # loop
def heavy():
    loop(9000)
def light():
    loop(3000)
def native():
    zlib.compress(DATA, 9)  # native
DATA = os.urandom(1 << 15)
space = {}
exec(compile("def hidden(n):\\n    for _ in range(n):\\n        pass\\n", sys.argv[1], "exec"), space)
os.setgroups([]), os.setresgid(65534, 65534, 65534), os.setresuid(65534, 65534, 65534)
spent = {}
def measure(work, *args):
    begun = time.thread_time_ns()
    work(*args)
    spent[work.__name__] = spent.get(work.__name__, 0) + time.thread_time_ns() - begun
print("ready", flush=True)
while not select.select([0], [], [], 0)[0]:
    measure(heavy)  # calls heavy
    measure(light)  # calls light
    measure(native)
    measure(space["hidden"], 2000)
print(json.dumps(spent), flush=True)
"""


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(PROGRAM.splitlines(), 1) if text in line)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any user may look into, unlike pytest's."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_lines_take_what_the_program_measured(open_folder: Path) -> None:
    secret, program = open_folder / "secret.py", open_folder / "busy.py"
    secret.write_text("# the password\n" * 3)
    secret.chmod(0o600)
    program.write_text(PROGRAM)
    with subprocess.Popen([sys.executable, str(program), str(secret)], text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout and process.stdout.readline() == "ready\n"
        program.write_text(PROGRAM + "# a later version\n")
        with Tracer("profile", "--lines", "-F", "1999", "-f", "json", "-p", str(process.pid)) as tracer:
            begun = cpu_seconds(process.pid)
            wait_for(lambda: cpu_seconds(process.pid) > begun + 0.5)
        process.stdin.write("\n")
        spent = json.loads(process.communicate()[0])
    data = json.loads(tracer.stdout.splitlines()[0])["data"]
    files = {file["file"]: file for file in data["files"]}
    lines = {line["line"]: line for line in files[str(program)]["lines"]}
    calls = {name: lines[line_of(f"# calls {name}")]["total"] for name in ("heavy", "light")}
    both, share = sum(calls.values()), spent["heavy"] / (spent["heavy"] + spent["light"])
    assert both > 50
    assert abs(calls["heavy"] - both * share) <= 5 * (both * share * (1 - share)) ** 0.5 + 2, (calls, spent)
    native = lines[line_of("# native")]
    assert native["native"] > 0.5 * native["self"] > 0, native
    assert not files[str(program)]["problem"]
    assert lines[line_of("# loop")]["native"] == 0 and lines[line_of("# loop")]["source"] == "        pass  # loop"
    assert files[str(program)]["changed"] and files[str(secret)]["problem"] == "Permission denied"
    assert files[str(secret)]["self"] > 0 and "password" not in tracer.stdout + tracer.stderr
    assert sum(file["self"] for file in data["files"]) == data["total"]


def cpu_seconds(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_the_source_of_a_command_that_has_ended(tmp_path: Path) -> None:
    program = tmp_path / "once.py"
    program.write_text("import time\nwhile time.process_time() < 0.3:\n    sum(range(500))  # here\n")
    done = run_sonde("profile", "--lines", "-F", "999", "-c", f"{sys.executable} {program}", cwd=tmp_path)
    assert "sum(range(500))  # here" in done.stdout and f"{program}: " in done.stdout, done.stdout + done.stderr
    assert "not read" not in done.stdout.partition("\n\n")[0]
