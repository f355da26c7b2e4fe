"""Tools that bcc has by these names, each against a workload or a counter of the kernel that knows the answer."""

from __future__ import annotations

import mmap
import os
import pty
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from namespaces import Pair, connected, port_of, receive
from printed import histogram_total
from printed import rows as json_rows
from support import Tracer, disk_or_skip, run_sonde, wait_for

ME = str(os.getpid())


def test_cpudist(tmp_path: Path) -> None:
    """As often on a CPU as the kernel counted it to be taken off, and 300 times off it."""
    program = "import os, sys, time\nsys.stdin.readline()\nfor _ in range(300): time.sleep(0.0005)\n" \
              "print(open('/proc/self/status').read())"
    with subprocess.Popen([sys.executable, "-S", "-c", program], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as child:
        pid = str(child.pid)
        with Tracer("cpudist", "-p", pid, "-P", "-e") as on, Tracer("cpudist", "-O", "-p", pid, "-L") as off:
            text = child.communicate(b"\n")[0].decode()
    switches = sum(int(n) for n in re.findall(r"ctxt_switches:\s+(\d+)", text))
    assert 300 <= histogram_total(on.stdout, f"usecs[{pid}]") <= switches + 2
    assert re.search(r"^@summary: \{ .count = 3\d\d, ", on.stdout, re.M)
    assert 300 <= histogram_total(off.stdout, f"usecs[{pid}]") <= switches + 1


def test_cpudist_prints_so_many_times() -> None:
    done = run_sonde("cpudist", "-T", "-m", "1", "2")
    assert len(re.findall(r"^\d\d:\d\d:\d\d$", done.stdout, re.M)) == 2 and "@msecs" in done.stdout


def test_exitsnoop() -> None:
    with Tracer("exitsnoop", "-T", "-f", "json") as every, Tracer("exitsnoop", "-x", "-f", "json") as failed:
        begun = time.monotonic()
        children = [subprocess.Popen(["sh", "-c", command]) for command in ("exit 0", "exit 3", "kill -9 $$; :")]
        children.append(subprocess.Popen(["sleep", "0.3"]))
        for child in children:
            child.wait()
        took = time.monotonic() - begun
    pids = [child.pid for child in children]
    mine = {row["PID"]: row for row in json_rows(every.stdout) if row["PID"] in pids}
    assert [(mine[pid]["STATUS"], mine[pid]["SIGNAL"]) for pid in pids] == [(0, 0), (3, 0), (0, 9), (0, 0)]
    assert {row["PPID"] for row in mine.values()} == {os.getpid()}
    assert mine[pids[3]]["COMM"] == "sleep" and 0.3 <= float(str(mine[pids[3]]["AGE(s)"])) <= took
    assert sorted(row["PID"] for row in json_rows(failed.stdout) if row["PID"] in pids) == sorted(pids[1:3])


def test_wakeuptime() -> None:
    """A thread that another one wakes after a tenth of a second, five times."""
    program = """
import ctypes, os, sys, threading, time
name = ctypes.CDLL(None).prctl
sys.stdin.readline()
reading, writing = os.pipe()
def sleeper():
    name(15, b"the-sleeper", 0, 0, 0)
    for _ in range(5): os.read(reading, 1)
thread = threading.Thread(target=sleeper)
thread.start()
name(15, b"the-waker", 0, 0, 0)
for _ in range(5):
    time.sleep(0.1)
    os.write(writing, b"x")
thread.join()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as child, \
            Tracer("wakeuptime", "-p", str(child.pid), "-m", "50000") as long, \
            Tracer("wakeuptime", "-p", str(child.pid), "-M", "50") as short:
        begun = time.monotonic()
        child.communicate(b"\n")
        took = (time.monotonic() - begun) * 1e6
    blocks = re.findall(r"^@us\[the-sleeper, \n((?:        .*\n)+), the-waker\]: (\d+)$", long.stdout, re.M)
    assert 400_000 <= sum(int(us) for _, us in blocks) <= took
    assert all("pipe_write" in stack or "write" in stack for stack, _ in blocks)
    assert sum(int(us) for us in re.findall(r"^, the-waker\]: (\d+)$", short.stdout, re.M)) < 400_000


DIRECT = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR | os.O_DIRECT)
page = mmap.mmap(-1, 8192)
for _ in range(40): os.pwrite(fd, page, 0)
for _ in range(30): os.preadv(fd, [page], 0)
"""


def test_biotop(tmp_path: Path) -> None:
    disk = disk_or_skip(tmp_path)
    try:
        os.close(os.open(tmp_path / "data", os.O_CREAT | os.O_DIRECT | os.O_RDWR))
    except OSError:
        pytest.skip("the file system of the temporary folder has no O_DIRECT")
    with Tracer("biotop", "-C", "-r", "100", "-d", disk, "-f", "json", "4", "1") as tracer:
        child = subprocess.Popen([sys.executable, "-S", "-c", DIRECT, str(tmp_path / "data")])
        assert child.wait() == 0
        tracer.wait()
    mine = {row["D"]: row for row in json_rows(tracer.stdout) if row["PID"] == child.pid}
    assert mine["W"]["IO"] >= 40 and mine["W"]["KB"] >= 320 and mine["W"]["DISK"] == disk
    assert mine["R"]["IO"] >= 30 and mine["R"]["KB"] >= 240
    number = os.stat(f"/dev/{disk}").st_rdev if os.path.exists(f"/dev/{disk}") else 0
    assert not number or (mine["W"]["MAJ"], mine["W"]["MIN"]) == (os.major(number), os.minor(number))


FILES = """
import os, sys
sys.stdin.readline()
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
for _ in range(12): os.write(fd, b"x" * 4096)
for place in range(7): os.pread(fd, 1024, place)
os.write(1, b"to a pipe")
"""


def files(tmp_path: Path, *words: str) -> tuple[Tracer, subprocess.Popen[bytes]]:
    path = tmp_path / "the-file"
    with subprocess.Popen([sys.executable, "-S", "-c", FILES, str(path)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as child, Tracer(*words, "-f", "json") as tracer:
        child.communicate(b"\n")
        if words[0] == "filetop":
            tracer.wait()
    return tracer, child


@pytest.mark.parametrize("option", [[], ["-a", "-s", "writes"]])
def test_filetop(tmp_path: Path, option: list[str]) -> None:
    tracer, child = files(tmp_path, "filetop", "-r", "200", *option, "4", "1")
    mine = [row for row in json_rows(tracer.stdout) if row["TID"] == child.pid]
    row, = [row for row in mine if row["FILE"] == "the-file"]
    assert (row["READS"], row["WRITES"], row["R_KB"], row["W_KB"], row["T"]) == (7, 12, 7, 48, "R")
    assert any(row["T"] == "O" and row["WRITES"] == 1 for row in mine) == bool(option)


def test_fileslower(tmp_path: Path) -> None:
    tracer, child = files(tmp_path, "fileslower", "-T", "0")
    mine = [row for row in json_rows(tracer.stdout) if row["TID"] == child.pid and row["FILE"] == "the-file"]
    assert [(row["D"], row["BYTES"]) for row in mine] == [("W", 4096)] * 12 + [("R", 1024)] * 7
    assert all(0 <= float(str(row["LAT(ms)"])) < 10_000 for row in mine)


ALL_CALLS = """
import ctypes, os, sys
sys.stdin.readline()
libc = ctypes.CDLL(None)
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
data = bytearray(8192)
os.write(fd, data[:1024]); os.pwrite(fd, data[:2048], 0); os.writev(fd, [data[:3072]])
os.pwritev(fd, [data[:4096]], 0, os.RWF_DSYNC)
os.read(fd, 1); os.pread(fd, 1024, 0); os.lseek(fd, 0, 0)
os.readv(fd, [bytearray(2048)]); os.preadv(fd, [bytearray(3072)], 0)
buffer = ctypes.create_string_buffer(1024)
vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 1024)
offset = ctypes.c_long(0)
assert libc.preadv(fd, vector, 1, offset) == libc.pwritev(fd, vector, 1, offset) == 1024
"""


def test_every_call_that_reads_or_writes_files(tmp_path: Path) -> None:
    path = tmp_path / "all-calls"
    with subprocess.Popen([sys.executable, "-S", "-c", ALL_CALLS, str(path)], stdin=subprocess.PIPE) as child, \
            Tracer("fileslower", "-f", "json", "0") as slower, \
            Tracer("dirtop", "-r", "1000", "-f", "json", "4", "1") as folders, \
            Tracer("filetop", "-r", "1000", "-f", "json", "4", "1") as top:
        child.communicate(b"\n")
        folders.wait()
        top.wait()
    assert child.returncode == 0
    row, = [row for row in json_rows(top.stdout) if row["FILE"] == "all-calls"]
    assert [row[name] for name in ("READS", "WRITES", "R_KB", "W_KB")] == [5, 5, 7, 11]
    row, = [row for row in json_rows(folders.stdout) if row["PATH"] == str(tmp_path)]
    assert [row[name] for name in ("READS", "WRITES", "R_KB", "W_KB")] == [5, 5, 7, 11]
    calls = [(row["D"], row["BYTES"]) for row in json_rows(slower.stdout) if row["FILE"] == "all-calls"]
    assert calls == [("W", 1024), ("W", 2048), ("W", 3072), ("W", 4096), ("R", 0), ("R", 1024), ("R", 2048),
                     ("R", 3072), ("R", 1024), ("W", 1024)]


def test_fileslower_shows_the_slow_ones() -> None:
    """A pipe that answers late, and one at once."""
    program = "import os, sys, time\nsys.stdin.readline()\nos.read(int(sys.argv[1]), 1)\nos.read(int(sys.argv[1]), 1)"
    reading, writing = os.pipe()
    with subprocess.Popen([sys.executable, "-S", "-c", program, str(reading)], stdin=subprocess.PIPE,
                          pass_fds=[reading]) as child, \
            Tracer("fileslower", "-a", "-p", str(child.pid), "-f", "json", "100") as tracer:
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.flush()
        time.sleep(0.5)
        os.write(writing, b"xy")
        child.wait()
    os.close(reading)
    os.close(writing)
    late = [row for row in json_rows(tracer.stdout) if row["BYTES"] == 1 and row["D"] == "R" and row["FILE"] == ""]
    assert len(late) >= 1 and all(float(str(row["LAT(ms)"])) >= 100 for row in late)


def test_cachestat(tmp_path: Path) -> None:
    disk_or_skip(tmp_path)
    check_cachestat(tmp_path)


def check_cachestat(folder: Path) -> None:
    """A file of 2000 pages that is read when it is not in memory, and then six times when it is."""
    path = folder / "pages"
    path.write_bytes(os.urandom(2000 * mmap.PAGESIZE))
    sums: dict[str, list[int]] = {}
    with path.open("rb") as file:
        os.fsync(file.fileno())
        for state in ("cold", "warm"):
            if state == "cold":
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            with Tracer("cachestat", "-T", "-f", "json", "1") as tracer:
                for _ in range(1 if state == "cold" else 6):
                    os.lseek(file.fileno(), 0, os.SEEK_SET)
                    while os.read(file.fileno(), 1 << 20):
                        pass
                time.sleep(1.2)
            found = json_rows(tracer.stdout)
            sums[state] = [sum(int(str(row[name])) for row in found) for name in ("HITS", "MISSES")]
    assert sums["cold"][1] >= 1900  # but for pages that the kernel kept
    assert 11_700 <= sums["warm"][0] < 2 * 12_000  # what others read is among them


def test_memleak(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    source = tmp_path / "leak.c"
    source.write_text("""
#include <stdlib.h>
#include <unistd.h>
void *keep[100];
__attribute__((noinline)) void leak(int i) { keep[i] = malloc(1000); }
__attribute__((noinline)) int aligned(void) { return posix_memalign(&keep[99], 64, 5000); }
int main(void) {
    for (int i = 0; i < 50; i++) leak(i);
    for (int i = 0; i < 20; i++) free(malloc(333));
    aligned();
    for (int i = 1; i < 10; i++) free(keep[i]);
    keep[0] = realloc(keep[0], 2000);
    keep[98] = calloc(7, 11);
    sleep(60); /* it is ended with the tracing */
    return 0;
}
""")
    subprocess.run([compiler, "-O1", "-fno-omit-frame-pointer", "-fno-builtin", "-o", tmp_path / "leak", source],
                   check=True)
    seconds = "15" if os.environ.get("SONDE_VM") else "1"  # until it has got there
    done = run_sonde("memleak", "-o", "100", "-c", str(tmp_path / "leak"), seconds, "1")
    assert done.returncode == 0, done.stderr
    found = {name: sorted((stack.split("+")[0].split()[-1], int(n)) for stack, n in
                          re.findall(rf"^@{name}\[\n((?:        .*\n)+)\]: (\d+)$", done.stdout, re.M))
             for name in ("bytes", "allocations")}
    assert found["bytes"] == [("aligned", 5000), ("leak", 40_000), ("main", 77), ("main", 2000)]
    assert found["allocations"] == [("aligned", 1), ("leak", 40), ("main", 1), ("main", 1)]
    only = run_sonde("memleak", "-o", "100", "-z", "1500", "-Z", "4000", "-c", str(tmp_path / "leak"), seconds, "1")
    assert re.findall(r"^\]: (\d+)$", only.stdout, re.M) == ["2000", "1"]
    source.write_text("#include <stdlib.h>\n"
                      "int main(void) { free(malloc(5000)); malloc(7000); return malloc(9000) == 0; }")
    subprocess.run([compiler, "-O0", "-fno-omit-frame-pointer", "-fno-builtin", "-o", tmp_path / "short", source],
                   check=True)
    ended = run_sonde("memleak", "-z", "1000", "-c", str(tmp_path / "short"))  # -o 500: it does not live for so long
    assert sorted(re.findall(r"^\]: (\d+)$", ended.stdout, re.M)) == ["1", "1", "7000", "9000"]


FAMILY = """
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) void *leak(int bytes) { return malloc(bytes); }
__attribute__((noinline)) void *lost(int bytes) { return malloc(bytes); }
int main(int count, char **words) {
    if (count > 1) { /* what a child executes */
        for (int i = 0; i < 7; i++) free(leak(6400));
        for (int i = 0; i < 10; i++) leak(5000);
        return 0;
    }
    void *copied = leak(10000), *freed = leak(20000);
    for (int i = 0; i < 3; i++)
        if (!fork()) {
            free(copied);
            lost(12345); /* goes with the program */
            execl("/proc/self/exe", "family", "child", (char *)0);
        }
    while (wait(0) > 0);
    free(freed);
    return 0;
}
"""


def test_memleak_of_a_family(tmp_path: Path) -> None:
    """Pieces are a process's own: what a child frees is its copy, and what it executes has other memory."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed")
    (tmp_path / "family.c").write_text(FAMILY)
    subprocess.run([compiler, "-O1", "-fno-omit-frame-pointer", "-fno-builtin", "-o", tmp_path / "family",
                    tmp_path / "family.c"], check=True)
    done = run_sonde("memleak", "-z", "5000", "--follow", "-c", str(tmp_path / "family"))
    assert done.returncode == 0, done.stderr
    assert sorted(map(int, re.findall(r"^\]: (\d+)$", done.stdout, re.M))) == [
        1, 10, 10, 10, 10_000, 50_000, 50_000, 50_000]
    assert "lost" not in done.stdout


def test_memleak_of_the_kernel() -> None:
    with Tracer("memleak", "-o", "1", "-T", "100000", "60") as tracer:
        pipes = [os.pipe() for _ in range(50)]
        time.sleep(0.1)
    for pair in pipes:
        for fd in pair:
            os.close(fd)
    blocks = re.findall(r"^@kernel_allocations\[\n((?:        .*\n)+)\]: (\d+)$", tracer.stdout, re.M)
    assert sum(int(n) for stack, n in blocks if "pipe" in stack) >= 50


def test_slabratetop() -> None:
    """Objects of a cache that opening a file takes: as many as files are opened, or more."""
    with Tracer("slabratetop", "-C", "-r", "500", "-p", ME, "-f", "json", "4", "1") as tracer:
        for _ in range(400):
            os.close(os.open("/etc/hostname", os.O_RDONLY))
        tracer.wait()
    found = {str(row["CACHE"]): row for row in json_rows(tracer.stdout)}
    filp, = [row for name, row in found.items() if name == "filp"]
    assert filp["ALLOCS"] >= 400 and filp["BYTES"] % filp["ALLOCS"] == 0


def congestion_state(sock: socket.socket) -> int:
    """What the kernel itself says of a connection: 0 open, 4 loss ..."""
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[1]


def test_tcpcong_of_a_connection_that_loses_its_acknowledgements() -> None:
    """Open, then loss while nothing comes back, then open: as TCP_INFO has it, and with its times."""
    with Pair() as (a, b), b.listener() as listener:
        client, server = connected(a, listener)
        port = port_of(client)
        with Tracer("tcpcong", "-m", "-L", str(port)) as near, Tracer("tcpcong", "-d", "-m") as every:
            client.sendall(b"x" * 1000)  # while all is well
            receive(server, 1000)
            b.tc("qdisc", "add", "dev", b.device, "root", "pfifo", "limit", "0")
            before = time.monotonic()
            client.sendall(b"x")
            wait_for(lambda: congestion_state(client) == 4)
            begun = time.monotonic()
            time.sleep(0.4)
            still = time.monotonic()
            b.tc("qdisc", "del", "dev", b.device, "root")
            wait_for(lambda: congestion_state(client) == 0)
            ended = time.monotonic()
        client.close()
        server.close()
    here = f"{a.v4}, {port}, {b.v4}"
    assert [int(n) for n in re.findall(rf"^@changes\[{re.escape(here)}, \d+\]: (\d+)$", near.stdout, re.M)] == [2]
    times = re.findall(rf"^@time\[(\w+), {re.escape(here)}, \d+\]: (\d+)$", near.stdout, re.M)
    assert [state for state, _ in times] == ["loss"]
    assert (still - begun) * 1000 - 1 <= int(times[0][1]) <= (ended - before) * 1000
    assert histogram_total(every.stdout, "msecs[loss]") >= 1 and "@since" not in near.stdout + every.stdout


def test_tcpcong_is_silent_of_connections_that_do_not_change() -> None:
    """The kernel sets "open" on each socket that it makes or gives up: neither is a change, nor has it a time."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and does not listen
        with Tracer("tcpcong", "-m") as tracer:
            for _ in range(20):
                with socket.socket() as refused, pytest.raises(ConnectionRefusedError):
                    refused.connect(unused.getsockname())
            time.sleep(0.2)
            ports = set()
            for _ in range(20):
                client = socket.create_connection(listener.getsockname())
                server, _ = listener.accept()
                client.sendall(b"x" * 1000)
                ports |= {port_of(client), port_of(listener)}
                client.close()
                server.close()
    rows = re.findall(r"^@(?:changes|time)\[(?:\w+, )?([\d.]+), (\d+), [\d.]+, (\d+)\]", tracer.stdout, re.M)
    assert [row for row in rows if row[0] == "0.0.0.0" or {int(row[1]), int(row[2])} & ports] == []


def test_tcpsubnet() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, \
            Tracer("tcpsubnet", "-i", "60", "-p", ME, "127.0.0.2/32,127.0.0.0/8,0.0.0.0/0") as tracer:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        for _ in range(10):
            client.sendall(b"x" * 1234)
        client.close()
        server.close()
    assert re.findall(r"^@bytes\[(.*)\]: (\d+)$", tracer.stdout, re.M) == [("127.0.0.0/8", "12340")]
    for wrong in ("10.0.0.1/8", "10.0.0.0/33", "::1/128", "x"):
        assert "is no network of IPv4" in run_sonde("tcpsubnet", wrong).stderr


def test_netqtop() -> None:
    def growth(before: tuple[int, int]) -> tuple[int, int]:
        now = counters()
        return now[0] - before[0], now[1] - before[1]

    def counters() -> tuple[int, int]:
        folder = Path("/sys/class/net/lo/statistics")
        return int((folder / "tx_packets").read_text()), int((folder / "rx_packets").read_text())

    outside = counters()
    with Tracer("netqtop", "-n", "lo", "-t", "-f", "json", "4", "1") as tracer:
        inside = counters()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for _ in range(50):
                sock.sendto(b"x" * 1000, ("127.0.0.1", 9))
        least = growth(inside)
        tracer.wait()
    most = growth(outside)
    sent, received = json_rows(tracer.stdout)
    assert least[0] <= sent["PACKETS"] <= most[0] and least[1] <= received["PACKETS"] <= most[1]
    assert sent["<2K"] >= 50 and sent["QUEUE"] == 0
    assert sum(int(str(sent[name])) for name in ("<64", "<512", "<2K", "<16K", ">=16K")) == sent["PACKETS"]
    assert "netqtop needs --name DEVICE" in run_sonde("netqtop").stderr


def test_ttysnoop() -> None:
    master, slave = pty.openpty()
    other, silent = pty.openpty()
    with Tracer("ttysnoop", "-s", "20", os.ttyname(slave)) as tracer:
        os.write(slave, b"hello there\n")
        os.write(silent, b"not this\n")
        os.write(slave, b"y" * 300)
        os.write(slave, b"\0a\0\0b\n")
        os.writev(slave, [b"in ", b"", b"pieces\0, ", b"z" * 300])
    for fd in (master, slave, other, silent):
        os.close(fd)
    assert tracer.stdout.strip() == "hello there\n" + "y" * 20 + "ab\nin pieces, " + "z" * 8
    assert "there is no terminal '/etc/passwd'" in run_sonde("ttysnoop", "/etc/passwd").stderr


def limited_group() -> Path:
    """A control group of 16 MiB, of either version."""
    for root, limit in (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")):
        group = Path(root) / f"sonde-drsnoop-{ME}"
        if not Path(root, "cgroup.procs").exists():
            continue
        group.mkdir()
        try:
            with open(group / limit, "r+", encoding="ascii") as file:
                file.write(str(16 << 20))
            return group
        except OSError:
            group.rmdir()
    pytest.skip("no control group with a memory limit can be made here")


def test_drsnoop(tmp_path: Path) -> None:
    """A process in a control group of 16 MiB that writes a file of 64 has to reclaim; its siblings have not."""
    group = limited_group()
    program = ("import os, sys\nsys.stdin.readline()\nwith open(sys.argv[1], 'wb') as file:\n"
               "    for _ in range(64): file.write(b'x' * (1 << 20))\n")
    command = [sys.executable, "-S", "-c", program]
    try:
        with subprocess.Popen([*command, str(tmp_path / "big")], stdin=subprocess.PIPE) as child, \
                subprocess.Popen([*command, str(tmp_path / "free")], stdin=subprocess.PIPE) as free, \
                Tracer("drsnoop", "-T", "-f", "json") as tracer:
            (group / "cgroup.procs").write_text(str(child.pid))
            child.communicate(b"\n")
            free.communicate(b"\n")
    finally:
        for _ in range(50):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.1)
    found = json_rows(tracer.stdout)
    mine = [row for row in found if row["PID"] == child.pid]
    assert sum(int(str(row["PAGES"])) for row in mine) >= 64 * 256 - 2 * 16 * 256  # what does not fit twice over
    assert all(0 <= float(str(row["LAT(ms)"])) < 60_000 for row in mine)
    assert free.pid not in {row["PID"] for row in found}
