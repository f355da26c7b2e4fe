"""Options of tools that came from bcc's tools of the same names: each against a workload that knows the answer."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from namespaces import port_of
from printed import histogram_total
from printed import rows as json_rows
from support import RMDIR, Tracer, disk_or_skip, run_sonde

ME = str(os.getpid())
NOBODY = 65534


def python(program: str, *words: str, user: int = 0, folder: str | Path = "/") -> subprocess.Popen[bytes]:
    """A process that runs ``program`` as ``user`` in ``folder``."""
    change = f"import os, socket, sys\nos.setuid({user})\n"  # who cannot read the library may not import later on
    return subprocess.Popen([sys.executable, "-S", "-c", change + program, *words], cwd=folder)


def test_opensnoop_columns_and_full_paths(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    opens = """
import os
os.close(os.open("made", os.O_CREAT | os.O_WRONLY))
folder = os.open("here", os.O_RDONLY | os.O_DIRECTORY)
os.close(os.open("below", os.O_CREAT | os.O_WRONLY | os.O_APPEND, dir_fd=folder))
os.close(os.open("../made", os.O_RDONLY, dir_fd=folder))
"""
    with Tracer("opensnoop", "-U", "-e", "-F", "-f", "json") as every, \
            Tracer("opensnoop", "-F", "--flag", "O_APPEND", "-f", "json") as appended:
        child = python(opens, folder=tmp_path)
        assert child.wait() == 0
    opened = [row for row in json_rows(every.stdout) if row["PID"] == child.pid]
    mine = [row for row in opened if f"{tmp_path}/" in str(row["PATH"])]
    assert [row["PATH"] for row in mine] == [
        f"{tmp_path}/made", f"{tmp_path}/here", f"{tmp_path}/here/below", f"{tmp_path}/here/../made"], \
        (opened[-8:], every.stderr)
    assert {row["UID"] for row in mine} == {0}
    write = os.O_CREAT | os.O_WRONLY
    flags = [write, os.O_RDONLY | os.O_DIRECTORY, write | os.O_APPEND, os.O_RDONLY]
    assert [int(str(row["FLAGS"]), 8) & ~os.O_CLOEXEC & ~0o100000 for row in mine] == flags
    found = [row["PATH"] for row in json_rows(appended.stdout) if row["PID"] == child.pid]
    assert found == [f"{tmp_path}/here/below"]


def test_opensnoop_of_a_user_or_a_thread(tmp_path: Path) -> None:
    opens = f"open({str(tmp_path / 'missing')!r})"
    with Tracer("opensnoop", "-u", "nobody", "-f", "json") as others, \
            Tracer("opensnoop", "-t", ME, "-d", "1", "-f", "json") as thread:
        with pytest.raises(FileNotFoundError):
            os.open(tmp_path / "missing", os.O_RDONLY)  # before the second is over
        children = [python(f"try: {opens}\nexcept OSError: pass", user=user) for user in (0, NOBODY)]
        assert [child.wait() for child in children] == [0, 0]
        thread.wait()  # -d
    assert {row["PID"] for row in json_rows(others.stdout) if str(tmp_path) in str(row["PATH"])} == {children[1].pid}
    assert [row["PID"] for row in json_rows(thread.stdout) if str(tmp_path) in str(row["PATH"])] == [os.getpid()]
    assert "there is no user 'nosuchuser'" in run_sonde("opensnoop", "-u", "nosuchuser").stderr
    assert "there is no flag of open() 'O_NOSUCH'" in run_sonde("opensnoop", "--flag", "O_NOSUCH").stderr


def test_execsnoop_tells_failures(tmp_path: Path) -> None:
    script = tmp_path / "text"
    script.write_text("no program")
    attempts = """
import os, sys
for path in sys.argv[1:]:
    try:
        os.execv(path, [path, "an argument", "more", "most"])
    except OSError:
        pass
"""
    words = [str(tmp_path / "missing"), str(script), "/bin/true"]
    with Tracer("execsnoop", "-x", "-q", "-f", "json") as every, \
            Tracer("execsnoop", "--max-args", "2", "-n", "true", "-f", "json") as started, \
            Tracer("execsnoop", "-u", "nobody", "-U", "-f", "json") as others:
        child = python(attempts, *words)
        assert child.wait() == 0
        other = python(attempts, "/bin/true", user=NOBODY)
        assert other.wait() == 0
    mine = [row for row in json_rows(every.stdout) if row["PID"] == child.pid and "an argument" in str(row["ARGS"])
            and "-c" not in str(row["ARGS"])]
    assert [row["RET"] for row in mine] == [-2, -13, 0]
    assert [row["ARGS"] for row in mine] == [f'"{word}" "an argument" "more" "most"' for word in words]
    assert mine[-1]["COMM"] == "true" and mine[0]["COMM"] != "true"
    cut, = [row["ARGS"] for row in json_rows(started.stdout) if row["PID"] == child.pid]
    assert cut == "/bin/true an argument ..."
    rest = [row for row in json_rows(others.stdout) if row["PID"] in (child.pid, other.pid)]
    assert {(row["PID"], row["UID"]) for row in rest} == {(other.pid, NOBODY)}


def test_tcpconnect_columns() -> None:
    connects = "s = socket.socket(); s.connect(('127.0.0.1', int(sys.argv[1]))); s.recv(1)"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        port = port_of(listener)
        with Tracer("tcpconnect", "-L", "-U", "-t", "-P", str(port), "-f", "json") as every, \
                Tracer("tcpconnect", "-u", "nobody", "-P", str(port), "-f", "json") as others:
            children = [python(connects, str(port), user=user) for user in (0, NOBODY)]
            ports = set()
            for _ in children:
                server, (_, remote) = listener.accept()
                ports.add(remote)
                server.close()
            assert [child.wait() for child in children] == [0, 0]
    mine = json_rows(every.stdout)
    assert {row["LPORT"] for row in mine} == ports
    assert {(row["PID"], row["UID"]) for row in mine} == {(children[0].pid, 0), (children[1].pid, NOBODY)}
    assert all(float(str(row["TIME(s)"])) > 0 for row in mine)
    assert [row["PID"] for row in json_rows(others.stdout)] == [children[1].pid]


def test_tcplife_and_tcptop_values() -> None:
    namespace = os.stat("/proc/self/ns/mnt").st_ino
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = port_of(listener)
        with Tracer("tcplife", "-s", "-t", "-D", str(port)) as lived, \
                Tracer("tcptop", "--mntns", "1", "-f", "json", "1", "2") as elsewhere, \
                Tracer("tcptop", "-C", "-S", "--mntns", str(namespace), "-f", "json", "1", "2") as here:
            client = socket.create_connection(listener.getsockname())
            server, _ = listener.accept()
            client.sendall(b"x" * 5120)
            assert server.recv(5120, socket.MSG_WAITALL)
            local = port_of(client)
            client.close()
            server.close()
            here.wait()
            elsewhere.wait()
    assert lived.lines[0] == "TIME(s),PID,COMM,LADDR,LPORT,RADDR,RPORT,TX_KB,RX_KB,MS"
    (row,) = [line.split(",") for line in lived.lines[1:]]
    assert row[1] == ME and row[3:9] == ["127.0.0.1", str(local), "127.0.0.1", str(port), "5.00", "0.00"]
    assert re.fullmatch(r"\d+\.\d{3}", row[0]) and 0 < float(row[9]) < 10_000
    assert [row["TX_KB"] for row in json_rows(here.stdout) if row["LPORT"] == local] == [5]
    assert "loadavg" not in here.stdout and "loadavg" in elsewhere.stdout
    assert json_rows(elsewhere.stdout) == []


def requests(folder: Path, count: int) -> None:
    import mmap

    try:
        fd = os.open(folder / "data", os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
    except OSError:
        pytest.skip("the file system of the temporary folder has no O_DIRECT")
    with mmap.mmap(-1, 4096) as page:
        for _ in range(count):
            os.pwrite(fd, page, 0)
    os.close(fd)


def test_biolatency_by_disk_and_flags(tmp_path: Path) -> None:
    disk = disk_or_skip(tmp_path)
    requests(tmp_path, 1)  # the file is there
    with Tracer("biolatency", "-D", "-F", "-d", disk) as every, Tracer("biolatency", "-d", "nosuch") as none, \
            Tracer("biolatency", "-Q", "-e", "-d", disk) as queued:
        requests(tmp_path, 64)
    writes = histogram_total(every.stdout, f"usecs[{disk}, Write-Sync]")
    assert writes >= 64
    assert "@usecs" not in none.stdout
    (summary,) = re.findall(r"^@summary: \{ .count = (\d+), .average = \d+, .total = \d+ \}$", queued.stdout, re.M)
    assert int(summary) == histogram_total(queued.stdout, "usecs") >= 64


def test_histograms_so_many_times_over() -> None:
    begun = time.monotonic()
    done = run_sonde("runqlat", "-L", "-m", "-T", "1", "2")
    assert time.monotonic() - begun >= 2
    assert len(re.findall(r"^\d\d:\d\d:\d\d$", done.stdout, re.M)) == 2
    last = re.split(r"^\d\d:\d\d:\d\d$", done.stdout, flags=re.M)[-1]
    assert last.count("@msecs[") == len(set(re.findall(r"@msecs\[\d+\]", last)))  # no more of what came after


def test_runqlat_of_threads_and_namespaces() -> None:
    namespace = os.stat("/proc/self/ns/pid").st_ino
    with Tracer("runqlat", "-p", ME, "-L") as threads, Tracer("runqlat", "-p", ME, "--pidnss") as spaces:
        for _ in range(100):
            time.sleep(0.0005)
    assert histogram_total(threads.stdout, f"usecs[{ME}]") >= 100
    assert histogram_total(spaces.stdout, f"usecs[{namespace}]") >= 100


def off_cpu(text: str, name: str) -> int:
    """Microseconds of all the stacks of the threads called ``name``."""
    return sum(int(n) for n in re.findall(rf"^(?:.*, )?{re.escape(name)}\]: (\d+)$", text, re.M))


def test_offcputime_filters() -> None:
    name = Path("/proc/self/comm").read_text().strip()
    with Tracer("offcputime", "-U", "-t", ME, "-m", "1000") as long, \
            Tracer("offcputime", "-K", "-t", ME, "-M", "900") as short, \
            Tracer("offcputime", "-k", "-p", ME) as kernel, \
            Tracer("offcputime", "-u", "-K", "--state", "2", "-p", ME) as disk, \
            Tracer("offcputime", "-u", "-K", "--state", "1", "-p", ME, "-m", "1000") as sleeping:
        for _ in range(20):
            time.sleep(0.01)
    assert off_cpu(long.stdout, name) >= 200_000 and "@us_user[" in long.stdout
    assert off_cpu(short.stdout, name) < 200_000
    assert off_cpu(kernel.stdout, name) == 0
    assert off_cpu(disk.stdout, name) < 200_000 <= off_cpu(sleeping.stdout, name)


CALLS = """
import os, sys, time
sys.stdin.readline()
for _ in range(20): time.sleep(0.01)
for _ in range(7):
    try: os.rmdir(sys.argv[1])
    except FileNotFoundError: pass
try: os.rmdir("/etc")
except OSError: pass
for _ in range(500): os.getppid()
"""


def test_syscount_options(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-c", CALLS, str(tmp_path / "missing")]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        pid = str(child.pid)
        with Tracer("syscount", "-p", pid, "-L", "--syscall", "clock_nanosleep") as sleeps, \
                Tracer("syscount", "-t", pid, "-e", "ENOENT", "-T", "1") as missing, \
                Tracer("syscount", "--ppid", ME, "-P") as children, \
                Tracer("syscount", "-p", pid, "-L", "-m", "-i", "1", "--syscall", "clock_nanosleep") as twice:
            begun = time.monotonic()
            child.communicate(b"\n")
            took = (time.monotonic() - begun) * 1e6
            time.sleep(1.2)
    total = re.search(r"^@total\[clock_nanosleep\]: (\d+)$", sleeps.stdout, re.M)
    assert total is not None and 200_000 <= int(total[1]) <= took
    assert "@syscall[clock_nanosleep]: 20\n" in sleeps.stdout and sleeps.stdout.count("@syscall[") == 1
    assert f"@failed[{RMDIR}, No such file or directory]: 7\n" in missing.stdout
    assert missing.stdout.count("@failed[") == 1
    calls = re.search(rf"^@process\[{pid}, .*\]: (\d+)$", children.stdout, re.M)
    assert calls is not None and int(calls[1]) >= 500 and "@syscall" not in children.stdout
    outputs = run_sonde("syscount", "-i", "1", "-d", "2", "-T", "1").stdout
    assert len(re.findall(r"^\d\d:\d\d:\d\d$", outputs, re.M)) == 2
    milliseconds = sum(int(n) for n in re.findall(r"^@total\[clock_nanosleep\]: (\d+)$", twice.stdout, re.M))
    assert 198 <= milliseconds <= took / 1000
    assert "there is no system call 'nosuch'" in run_sonde("syscount", "--syscall", "nosuch").stderr


def test_funccount_by_regular_expression() -> None:
    with Tracer("funccount", "-r", "-p", ME, "tracepoint:syscalls:^sys_(enter|exit)_getpp?id$") as tracer:
        for _ in range(30):
            os.getppid()
    assert set(re.findall(r"^@count\[(.*)\]: 30$", tracer.stdout, re.M)) == {
        "tracepoint:syscalls:sys_enter_getppid", "tracepoint:syscalls:sys_exit_getppid"}
    assert "Invalid --probe-filter regex" in run_sonde("funccount", "-r", "tracepoint:sched:(").stderr


@pytest.mark.parametrize("line", [
    ["syscount", "--syscall", "getppid"],                               # limited by Sonde's own -p
    ["tcplife"],                                                        # by an option of its own
    ["funccount", "tracepoint:syscalls:sys_enter_getppid"],
    ["argdist", "-C", "tracepoint:syscalls:sys_enter_getppid", "pid"],  # a command
    ["tcpconnect"],                                                     # whose -c is another option
])
def test_the_command_alone_is_traced(line: list[str], tmp_path: Path) -> None:
    """Beside it another process does the same all the time."""
    (tmp_path / "same.py").write_text(SAME)
    other = subprocess.Popen([sys.executable, "-S", str(tmp_path / "same.py"), "1000000"])
    try:
        option = "--cmd" if line[0] == "tcpconnect" else "-c"
        done = run_sonde("-f", "json", *line, option, f"{sys.executable} -S {tmp_path / 'same.py'} 3")
    finally:
        other.kill()
        other.wait()
    assert done.returncode == 0, done.stderr
    rows = json_rows(done.stdout)
    if line[0].startswith("tcp"):
        assert {row["PID"] for row in rows} and other.pid not in {row["PID"] for row in rows}
        assert len(rows) == (3 if line[0] == "tcpconnect" else 6)
    else:
        counts = re.findall(r'"(?:getppid|tracepoint:[a-z_:]*getppid|\d+)": (\d+)', done.stdout)
        assert counts == ["3"], done.stdout


SAME = """import os, socket, sys, time
server = socket.create_server(("127.0.0.1", 0))
for _ in range(int(sys.argv[1])):
    os.getppid()
    one = socket.create_connection(server.getsockname())
    other, _ = server.accept()
    one.close(); other.close()
    time.sleep(0.002)
time.sleep(0.1)
"""
def test_nanoseconds_of_interrupts() -> None:
    """Sums in nanoseconds are some thousand times those in microseconds of the same seconds."""
    with Tracer("softirqs") as coarse, Tracer("softirqs", "-N") as fine, Tracer("softirqs", "-dNT") as drawn:
        time.sleep(1.5)
    us, ns = ({kind: int(n) for kind, n in re.findall(rf"^@total_{unit}\[(\w+)\]: (\d+)$", text, re.M)}
              for unit, text in (("us", coarse.stdout), ("ns", fine.stdout)))
    assert us.keys() & ns.keys() and "total_us" not in fine.stdout
    assert sum(ns.values()) > 100 * sum(us.values())
    assert re.search(r"^@ns\[\w+\]: *$", drawn.stdout, re.M) and "@us" not in drawn.stdout
    assert re.search(r"^\d\d:\d\d:\d\d$", drawn.stdout, re.M) and not re.search(r"^\d\d:", fine.stdout, re.M)


def test_binds_and_connects_that_are_chosen() -> None:
    """By port, user and family, with the time."""
    with Tracer("tcpbind", "-t", "-P", "18432", "-u", "root", "-p", ME, "-f", "json") as binds, \
            Tracer("tcpbind", "-u", "nobody", "-f", "json") as others, \
            Tracer("soconnect", "-t", "-6", "-p", ME, "-f", "json") as six, \
            Tracer("soconnect", "-4", "-p", ME, "-f", "json") as four, \
            Tracer("soconnect", "-p", ME, "-f", "json", "5000") as slow:
        for port in (18431, 18432):
            with socket.create_server(("127.0.0.1", port)):
                pass
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            with socket.socket(family) as sock:
                sock.connect_ex((address, 9))
    assert [row["PORT"] for row in json_rows(binds.stdout)] == [18432] and json_rows(others.stdout) == []
    assert [(row["FAM"], row["ADDRESS"]) for row in json_rows(six.stdout)] == [(10, "::1")]
    assert [(row["FAM"], row["ADDRESS"]) for row in json_rows(four.stdout)] == [(2, "127.0.0.1")]
    for found in (json_rows(binds.stdout), json_rows(six.stdout)):
        assert re.fullmatch(r"\d\d:\d\d:\d\d", str(found[0]["TIME"]))
    assert "TIME" not in json_rows(four.stdout)[0] and json_rows(slow.stdout) == []


def test_descriptors_of_one_thread() -> None:
    with Tracer("sofdsnoop", "-T", "-t", ME, "-f", "json") as mine, \
            Tracer("sofdsnoop", "-n", "nobody-is-so", "-f", "json") as none:
        one, two = socket.socketpair()
        with one, two:
            socket.send_fds(one, [b"x"], [0])
            for fd in socket.recv_fds(two, 1, 1)[1]:
                os.close(fd)
    found = json_rows(mine.stdout)
    assert [(row["ACTION"], row["TID"]) for row in found] == [("SEND", os.getpid()), ("RECV", os.getpid())]
    assert re.fullmatch(r"\d\d:\d\d:\d\d", str(found[0]["TIME"])) and json_rows(none.stdout) == []


def test_sleeps_that_are_chosen() -> None:
    """Three naps of 30 milliseconds of a program: between the bounds, or not."""
    def total(text: str) -> int:
        return sum(int(us) for us in re.findall(r"^, [^\n]*\]: (\d+)$", text, re.M))
    naps = "import sys, time\nsys.stdin.readline()\nfor _ in range(3): time.sleep(0.03)"
    with subprocess.Popen([sys.executable, "-S", "-c", naps], stdin=subprocess.PIPE) as child:
        thread = str(child.pid)
        with Tracer("offwaketime", "-t", thread, "-m", "29000", "-u", "--state", "1") as naps_only, \
                Tracer("offwaketime", "-t", thread, "-M", "29000") as short, \
                Tracer("offwaketime", "-t", thread, "-k") as kernel:
            child.communicate(b"\n")
    assert total(naps_only.stdout) >= 90_000 and total(short.stdout) < 87_000 and total(kernel.stdout) == 0
