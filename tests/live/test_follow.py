"""--follow: the process of -p or -c and all that it starts, to the last one, and nobody else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import sonde
from c_targets import build_target
from support import Tracer, run_sonde

COUNTS = ("uprobe:%s:work { @calls = count(); @sum = sum(arg0); } "
          "tracepoint:syscalls:sys_enter_getppid { @ppid = count(); }")
# A parent, and four workers that it forked before anybody looked, under names of their own, each with a child to come.
WORKERS = """
import os, sys, time
for number in range(4):
    if os.fork() == 0:
        with open("/proc/self/comm", "w") as name:
            name.write(f"worker-{number}")
        while os.getppid() != 1:
            sum(range(20000))
            if os.fork() == 0:
                os.getpgid(0)
                os._exit(0)
            os.wait()
        os._exit(0)
print("ready", flush=True)
sys.stdin.read()
"""
NAMES = {f"worker-{number}" for number in range(4)}


@pytest.fixture(scope="module")
def burst(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_target("burst.c", tmp_path_factory.mktemp("follow"))


@pytest.fixture
def others(burst: str) -> Iterator[None]:
    """Somebody else does the same all the time."""
    with subprocess.Popen([burst, "100000", "80"]) as process:
        yield
        process.kill()


@pytest.fixture
def parent() -> Iterator[int]:
    """A process that waits, and its four workers."""
    with subprocess.Popen([sys.executable, "-S", "-c", WORKERS], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None and process.stdout.readline() == b"ready\n"
        yield process.pid
        process.stdin.close()


def numbers_of(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"^@(\w+): (\d+)$", text, re.MULTILINE)}


@pytest.mark.usefixtures("others")
def test_a_burst_of_short_processes_is_counted_exactly(burst: str) -> None:
    done = run_sonde("--follow", "-c", f"{burst} 1500 500", "-e", COUNTS % burst)
    assert done.returncode == 0 and "could not be followed" not in done.stderr, done.stderr
    assert numbers_of(done.stdout) == {"calls": 4500, "sum": 4500, "ppid": 1500}


def test_without_it_the_command_alone_is_traced(burst: str) -> None:
    done = run_sonde("-c", f"{burst} 20 500", "-e",
                     f"uprobe:{burst}:work {{ @calls = count(); }} end {{ print(@calls); }}")
    assert "@calls: 0" in done.stdout, done.stdout


def test_the_workers_that_are_there_and_their_children(parent: int) -> None:
    """Each event is of a worker, of a child of one, or of the parent; strangers make the same calls."""
    program = """tracepoint:syscalls:sys_enter_getppid, tracepoint:syscalls:sys_enter_getpgid {
                   @[probe, comm] = count();
                   @odd[in_family] = count();
                 }
                 interval:s:1 { exit(); }"""
    calls = "import os\nwhile True: os.getppid(); os.getpgid(0)"
    with subprocess.Popen([sys.executable, "-S", "-c", calls]) as stranger:
        done = run_sonde("--follow", "-p", str(parent), "-e", program)
        stranger.kill()
    names = re.findall(r"@\[tracepoint:syscalls:sys_enter_(\w+), ([\w-]+)\]", done.stdout)
    assert {name for _, name in names} == NAMES and len(names) == 8, done.stdout
    assert re.findall(r"@odd\[(\w+)\]", done.stdout) == ["true"] and "not traced" not in done.stderr


def test_cpid_is_the_process_of_p(parent: int) -> None:
    done = run_sonde("--follow", "-p", str(parent), "-e", "begin { printf(\"%d %d\", cpid, has_cpid); exit(); }")
    assert done.stdout.split() == [str(parent), "1"] and "WARNING" not in done.stderr


@pytest.mark.parametrize("kind", ["--on-cpu", "--off-cpu"])
def test_a_flame_graph_of_a_parent_shows_all_workers(kind: str, parent: int) -> None:
    done = run_sonde("flame", kind, "-p", str(parent), "--follow", "--by-process", "--by-role", "-f", "folded", "2")
    assert done.returncode == 0 and "not traced" not in done.stderr, done.stderr
    split = [line.split(";") for line in done.stdout.splitlines()]
    heads = {(name, pid) for _, name, pid, *_ in split}
    roles = {role for role, name, *_ in split if name in NAMES and role != name}  # which it is while it has no memory
    assert len(roles) == 1 and re.match(rf"{re.escape(sys.executable)} -S -c .* \(forked\)$", roles.pop())
    own = {Path(path).name for path in (sys.executable, os.path.realpath(sys.executable))}
    assert NAMES <= {name for name, _ in heads} <= NAMES | own
    workers = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    assert len(workers) == len(NAMES) and {*workers} <= {pid for name, pid in heads if name in NAMES}


@pytest.mark.parametrize("tool", ["runqlat", "offcputime", "cpudist", "profile"])
def test_a_tool_that_knows_processes_by_their_number(tool: str, parent: int) -> None:
    """The parent waits for its standard input: all that there is to see is the workers'."""
    alone = run_sonde(tool, "-p", str(parent), "1")
    done = run_sonde(tool, "-p", str(parent), "--follow", "1")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) > len(alone.stdout) + 50, (done.stdout, alone.stdout)
    if tool in ("offcputime", "profile"):
        assert "worker-0" in done.stdout and "worker-0" not in alone.stdout


def test_block_requests_of_what_a_command_starts(tmp_path: Path) -> None:
    script = tmp_path / "work.sh"
    script.write_text(f"dd if=/dev/zero of={tmp_path / 'data'} bs=4k count=4 oflag=dsync 2>/dev/null; :\n")
    if not re.search(r"^/dev/", subprocess.run(["findmnt", "-no", "SOURCE", "-T", str(tmp_path)], capture_output=True,
                                               text=True, check=False).stdout):
        pytest.skip("the folder of the test is on no disk")
    done = run_sonde("biosnoop", "--follow", "-f", "json", "-c", f"sh {script}")
    assert done.returncode == 0 and '"dd"' in done.stdout, done.stdout


CONNECTIONS = """
import os, socket
server = socket.create_server(("127.0.0.1", 0))
for _ in range(3):
    if os.fork() == 0:
        with socket.create_connection(server.getsockname()) as client:
            client.sendall(bytes(2048))
        os._exit(0)
    with server.accept()[0] as accepted:
        while accepted.recv(4096): pass
    os.wait()
"""


def test_connections_of_what_a_command_starts(tmp_path: Path) -> None:
    """Each has a row of the child that connects, and one of the parent."""
    script = tmp_path / "connect.py"
    script.write_text(CONNECTIONS)
    counts = []
    for follow in ([], ["--follow"]):
        done = run_sonde("tcplife", *follow, "-f", "json", "-c", f"{sys.executable} -S {script}")
        rows = [json.loads(line)["data"] for line in done.stdout.splitlines() if line.startswith('{"type": "row"')]
        assert done.returncode == 0, done.stderr
        counts.append((len([row for row in rows if row["TX_KB"] == 2]), len(rows), len({row["PID"] for row in rows})))
    assert counts == [(0, 3, 1), (3, 6, 4)]


def test_an_iterator_goes_over_the_tree(parent: int) -> None:
    done = run_sonde("--follow", "-p", str(parent), "-e",
                     "iter:task { printf(\"%d %s\\n\", ctx.task.tgid, ctx.task.comm); }")
    listed = dict(line.split(" ", 1) for line in done.stdout.strip().splitlines())
    assert str(parent) in listed and set(listed.values()) >= NAMES and str(os.getpid()) not in listed


def test_from_python(burst: str) -> None:
    with sonde.trace(COUNTS % burst, command=[burst, "30", "500"], follow=True) as trace:
        for _ in trace.events():
            pass
    assert (trace.maps["@calls"].value, trace.maps["@ppid"].value) == (90, 30)
    with pytest.raises(sonde.SondeError, match="follows a process"):
        sonde.trace("begin { exit(); }", follow=True)


def test_record_and_replay(burst: str, tmp_path: Path) -> None:
    path = str(tmp_path / "run.sonde")
    done = run_sonde("record", "--follow", "-c", f"{burst} 40 500", "-o", path, "-e", COUNTS % burst)
    assert done.returncode == 0, done.stderr
    assert numbers_of(run_sonde("replay", path).stdout) == {"calls": 120, "sum": 120, "ppid": 40}


def test_nothing_is_left(burst: str) -> None:
    with Tracer("--follow", "-c", f"{burst} 100000 50", "-e", COUNTS % burst) as tracer:
        time.sleep(0.3)
    assert tracer.status == 0 and numbers_of(tracer.stdout)["calls"] > 0
    used = Path("/sys/kernel/tracing/uprobe_events")
    assert not used.exists() or burst not in used.read_text()


@pytest.mark.parametrize("words,said", [
    (["-e", "begin { exit(); }"], "--follow follows a process"),
    (["biolatency", "-c", "true"], "cannot be limited to a process"),
    (["tcpsend", "-p", "1,2"], "one process, not '1,2'"),
    (["-p", "1", "-e", "iter:tcp { exit(); }"], "--follow cannot choose"),
    (["-p", "1", "-e", "watchpoint:0x1000:8:w { exit(); }"], "an address of one process"),
    (["cost", "-e", "profile:hz:99 { @ = count(); }"], "have no place there"),
    (["overhead"], "has no --follow"),
])
def test_where_it_means_nothing_it_is_refused(words: list[str], said: str) -> None:
    done = run_sonde("--follow", *words)
    assert done.returncode and said in done.stderr, done.stderr
