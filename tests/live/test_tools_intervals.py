"""What tools print at intervals: what the last one had, which was not a whole one, comes at the end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from printed import rows
from support import Tracer, disk_or_skip, run_sonde

PYTHON = os.path.realpath(sys.executable)  # nothing else starts on the way to it

# Twice 15 writes of 1024 bytes to a file, then over TCP and read there; some time passes between the two.
WORKLOAD = """
import os, socket, sys, time
fd = os.open(sys.argv[1] + "/the-file", os.O_CREAT | os.O_WRONLY)
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
peer = server.accept()[0]
for number in range(30):
    os.write(fd, bytes(1024))
    client.sendall(bytes(1024))
    peer.recv(1024, socket.MSG_WAITALL)
    if number == 14: time.sleep(float(sys.argv[2]))
"""


def run_for(tmp_path: Path, pause: float, *tool: str) -> str:
    """What a tool prints of the workload."""
    script = tmp_path / "program.py"
    script.write_text(WORKLOAD)
    done = run_sonde(*tool, "-c", f"{PYTHON} -S {script} {tmp_path} {pause}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def total(text: str, column: str, **wanted: object) -> int:
    """The sum of a column of the rows that have what is wanted."""
    return sum(int(str(row[column])) for row in rows(text) if all(row[name] == wanted[name] for name in wanted))


@pytest.mark.parametrize("pause", [0, 1.5])
def test_the_intervals_together_have_all(tmp_path: Path, pause: float) -> None:
    """Of a command that ends within the first interval, and of one that ends within a later one."""
    text = run_for(tmp_path, pause, "sockstat", "1")
    for name in ("send", "recv"):
        probe = rf"(?:tracepoint:sock:sock_{name}_length|fexit:vmlinux:inet_{name}msg)"
        counts = re.findall(rf"^@\[{probe}\]: (\d+)$", text, re.M)
        assert sum(map(int, counts)) == 30 and len(counts) >= (2 if pause else 1)
    text = run_for(tmp_path, pause, "tcptop", "-f", "json", "1")
    assert total(text, "TX_KB", LADDR="127.0.0.1") == total(text, "RX_KB", LADDR="127.0.0.1") == 30
    text = run_for(tmp_path, pause, "filetop", "-r", "1000", "-f", "json", "1")
    assert total(text, "WRITES", FILE="the-file") == total(text, "W_KB", FILE="the-file") == 30
    text = run_for(tmp_path, pause, "dirtop", "-r", "1000", "-f", "json", "1")
    assert total(text, "WRITES", PATH=str(tmp_path)) == total(text, "W_KB", PATH=str(tmp_path)) == 30


STEADY = """
import os, sys, time
fd = os.open(sys.argv[1] + "/the-file", os.O_CREAT | os.O_WRONLY)
while True:
    os.write(fd, bytes(1024))
    time.sleep(0.01)
"""


def test_no_block_after_the_last_that_was_asked_for(tmp_path: Path) -> None:
    """COUNT blocks, or --count, though the work goes on; without and before them Ctrl-C prints what there is."""
    with subprocess.Popen([PYTHON, "-S", "-c", STEADY, str(tmp_path)]) as child:
        pid = str(child.pid)
        for options, parameters in (([], ["1", "2"]), (["--count", "2"], []), (["--count", "2"], ["1"])):
            done = run_sonde(*options, "filetop", "-p", pid, *parameters)
            assert len(re.findall(r"^TID ", done.stdout, re.M)) == 2, done.stdout
        with Tracer("filetop", "-p", pid, "60") as early, Tracer("filetop", "-p", pid, "60", "1") as earlier:
            time.sleep(0.3)
        child.kill()
    assert [tracer.stdout.count("the-file\n") for tracer in (early, earlier)] == [1, 1]


@pytest.mark.parametrize("tool", [
    ["tcptop"], ["sockstat"], ["filetop"], ["dirtop"], ["pidpersec"], ["netqtop", "-n", "no-such"],
    ["biotop", "-d", "no-such"], ["biopattern", "-d", "no-such"]])
def test_nothing_is_printed_of_nothing(tool: list[str]) -> None:
    asks_who_runs = len(tool) == 1
    with subprocess.Popen(["sleep", "60"]) as child:
        time.sleep(0.2)  # it has begun to sleep
        with Tracer(*tool, *(["-p", str(child.pid)] if asks_who_runs else []), "60") as tracer:
            time.sleep(0.1)
        child.kill()
    assert len(tracer.lines) == 1, tracer.stdout  # the one that begins it


def test_pidpersec_says_a_rate_over_the_time_that_it_was(tmp_path: Path) -> None:
    """30 processes in 0.6 s or a little more."""
    script = tmp_path / "program.py"
    script.write_text("import os, time\nfor _ in range(30):\n    os.fork() or os._exit(0)\n    os.wait()\n"
                      "    time.sleep(0.02)\n")
    begun = time.monotonic()
    done = run_sonde("pidpersec", "60", "-c", f"{PYTHON} -S {script}")
    took = time.monotonic() - begun
    (rate,) = re.findall(r"^\d\d:\d\d:\d\d PIDs/sec: (\d+)$", done.stdout, re.M)
    assert int(30 / took) <= int(rate) <= 30 / 0.6


def test_netqtop_says_rates_over_the_time_that_it_was(tmp_path: Path) -> None:
    """30 segments of 1024 bytes, and half a second at least."""
    begun = time.monotonic()
    text = run_for(tmp_path, 0.5, "netqtop", "-t", "-n", "lo", "60")
    took = time.monotonic() - begun
    found = re.findall(r"^0 +(\d+) .* (\d+) +(\d+) +(\d+)$", text, re.M)
    assert len(found) == 2 and "Sent:" in text and "Received:" in text
    for size, packets, bits, each_second in ([int(word) for word in row] for row in found):
        assert packets >= 30 and packets / took - 1 <= each_second <= packets / 0.5
        assert size * packets * 8 / took <= bits * 1.01 and bits <= (size + 1) * packets * 8 / 0.5


def test_slabratetop_and_cachestat(tmp_path: Path) -> None:
    assert re.search(r"^CACHE .*\n\S+ +\d+ +\d+$", run_for(tmp_path, 0, "slabratetop", "60"), re.M)
    if "mm_filemap_get_pages" in run_sonde("-l", "tracepoint:filemap:*").stdout:
        assert re.search(r"^ +HITS .*\n +\d+ +\d+ +\d+ +\d+\.\d\d$", run_for(tmp_path, 0, "cachestat", "60"), re.M)


@pytest.mark.parametrize(("tool", "row"), [("biotop", r"^\d+ .* {} +\d+ +\d+ "), ("biopattern", r"^\S+ {} +\d+ +\d+ ")])
def test_biotop_and_biopattern(tmp_path: Path, tool: str, row: str) -> None:
    disk = disk_or_skip(tmp_path)
    with Tracer(tool, "-d", disk, "60") as tracer, open(tmp_path / "data", "wb") as file:
        file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())
    assert re.search(row.format(disk), tracer.stdout, re.M), tracer.stdout


# One file is read all the time, on another CPU than the block is made on, and 800 others a few times in each interval.
RANKED = """
import os, sys, time
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
files = [os.open(f"{sys.argv[1]}/{name}", os.O_CREAT | os.O_RDWR) for name in ["busy", *range(800)]]
for fd in files: os.pwrite(fd, bytes(64), 0)
began = last = time.monotonic()
while time.monotonic() < began + 4.5:
    for _ in range(100): os.pread(files[0], 64, 0)
    if time.monotonic() > last + 0.3:
        last = time.monotonic()
        for fd in files: os.pread(fd, 1, 0)
"""


def test_rows_are_in_order_while_they_change(tmp_path: Path) -> None:
    """What changes while a block is made stands at its place, first of all, and no row is in a block twice."""
    script = tmp_path / "program.py"
    script.write_text(RANKED)
    done = run_sonde("filetop", "-C", "-r", "5", "-c", f"{PYTHON} -S {script} {tmp_path}", "1")
    blocks = done.stdout.split("FILE\n")[2:]  # in the first are the interpreter's files
    assert len(blocks) >= 3 and sum("more: see --rows" in block for block in blocks) >= 2, done.stdout
    for block in blocks:
        found = re.findall(r"^(\d+) +\S+ +(\d+) .* (\S+)$", block, re.M)
        assert len({(task, file) for task, _, file in found}) == len(found), done.stdout
        if "more: see --rows" in block:
            assert len(found) == 5 and found[0][2] == "busy" and int(found[0][1]) >= 100, done.stdout
