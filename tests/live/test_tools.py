"""Every shipped tool against a workload whose answer is known."""

from __future__ import annotations

import operator
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from namespaces import port_of
from printed import histogram_total
from printed import rows as json_rows
from sonde import compiling, tools
from sonde.cli.commands import doctor
from support import RMDIR, Tracer, run_sonde, set_comm, without_counters

ME = str(os.getpid())

FOLDER = Path(__file__).parents[2] / "src" / "sonde" / "tools"


def elsewhere() -> dict[str, str]:
    """The tools that this kernel cannot serve, and what the doctor says about them."""
    world = compiling.live_world()
    lacks = {}
    if not world.has_feature("kprobes") and not world.has_feature("fentry"):
        lacks |= dict.fromkeys(("dcsnoop", "filelife", "funcprofile", "skblife", "vfscount", "vfsstat",
                                "virtiostat", "xfsdist"), "this kernel (")
    elif world.kernel_symbol("xfs_file_read_iter") is None:  # the module is not loaded
        lacks["xfsdist"] = "this kernel has no function xfs_file_read_iter"
    if not world.tracepoint_format("mac80211", "drv_config"):
        lacks["ieee80211scan"] = "No matches for tracepoint cfg80211:rdev_scan."
    if not (exits := world.tracepoint_format("kvm", "kvm_exit")):
        lacks["kvmexit"] = "No matches for tracepoint kvm:kvm_exit."
    elif not any(field.name == "vcpu_id" for field in exits.args.fields):  # of x86's alone
        lacks["kvmexit"] = "does not contain a field named 'vcpu_id'"
    if not world.tracepoint_format("preemptirq", "irq_disable"):
        lacks["criticalstat"] = "this kernel is built without CONFIG_PREEMPTIRQ_TRACEPOINTS"
    return lacks


ELSEWHERE = elsewhere()
COUNTERS = without_counters()
OTHER_KERNEL = bool(os.environ.get("SONDE_VM"))


def rows(tracer: Tracer, *words: str) -> list[list[str]]:
    """The lines that have all ``words`` among their own words, split."""
    split = [line.split() for line in tracer.lines]
    return [row for row in split if all(word in row for word in words)]


@pytest.fixture(params=[socket.AF_INET, socket.AF_INET6], ids=["v4", "v6"])
def listener(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    host = "127.0.0.1" if request.param == socket.AF_INET else "::1"
    with socket.socket(request.param, socket.SOCK_STREAM) as sock:
        sock.bind((host, 0))
        sock.listen(5)
        yield sock


def connect(listener: socket.socket) -> socket.socket:
    sock = socket.socket(listener.family, socket.SOCK_STREAM)
    sock.connect(listener.getsockname()[:2])
    return sock


def converse(listener: socket.socket) -> tuple[int, int]:
    """A connection from birth to death, the client closing first; (client's port, server's port)."""
    client = connect(listener)
    server, _ = listener.accept()
    ports = port_of(client), port_of(server)
    client.sendall(b"x" * 100)
    client.close()
    while server.recv(4096):
        pass
    server.close()
    return ports


def test_execsnoop() -> None:
    """Processes that a shell of another name starts, one of them by a descriptor (execveat)."""
    true = shutil.which("true")
    assert true is not None
    fd = os.open(true, os.O_RDONLY)
    starts = "import os, sys; os.execve(int(sys.argv[1]), ['by-descriptor', 'sonde-marker', '3'], {})"
    with Tracer("execsnoop", "-f", "json", "-U", "-t") as tracer:
        pids = []
        for number in range(3):
            shell = subprocess.Popen(["sh", "-c", f"exec {true} sonde-marker '' {number}"])
            pids.append(shell.pid)
            shell.wait()
        child = subprocess.Popen([sys.executable, "-S", "-c", starts, str(fd)], pass_fds=[fd])
        child.wait()
    os.close(fd)
    found = json_rows(tracer.stdout)
    common = {"UID": 0, "PPID": os.getpid(), "RET": 0}
    expected = [{**common, "PID": pid, "COMM": "true", "ARGS": f"{true} sonde-marker  {number}"}
                for number, pid in enumerate(pids)]
    expected.append({**common, "PID": child.pid, "COMM": "true", "ARGS": "by-descriptor sonde-marker 3"})
    mine = [row for row in found if row["PID"] in (*pids, child.pid) and "sh -c" not in row["ARGS"]
            and "sys.argv" not in row["ARGS"]]
    if mine[-1]["COMM"] == str(fd):  # before Linux 6.14 the name of what a descriptor started
        mine[-1]["COMM"] = "true"
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d", row.pop("TIME")) and float(row.pop("TIME(s)")) > 0 for row in mine)
    assert mine == expected


def test_execsnoop_filters() -> None:
    true = shutil.which("true")
    assert true is not None
    with Tracer("execsnoop", "-l", f"marker-{ME}") as marked, Tracer("execsnoop", "-P", ME, "-f", "json") as mine:
        subprocess.run([true, f"marker-{ME}", "one"], check=True)
        subprocess.run(["/bin/sh", "-c", f"{true} marker-{ME} two; :"], check=True)  # the shell's child
        subprocess.run([true, "other"], check=True)
    assert [row["ARGS"] for row in json_rows(mine.stdout)] == [
        f"{true} marker-{ME} one", f"/bin/sh -c {true} marker-{ME} two; :", f"{true} other"]
    assert [line.split()[-1] for line in marked.lines[1:]] == ["one", ":", "two"]


def test_opensnoop(tmp_path: Path) -> None:
    there, missing = tmp_path / "there", tmp_path / "missing"
    there.write_text("")
    with Tracer("opensnoop", "-p", ME) as tracer:
        for _ in range(20):
            fd = os.open(there, os.O_RDONLY)
            os.close(fd)
        with pytest.raises(FileNotFoundError):
            os.open(missing, os.O_RDONLY)
    good, bad = rows(tracer, str(there)), rows(tracer, str(missing))
    assert len(good) == 20
    assert all(row[0] == ME and row[-3] == str(fd) and row[-2] == "0" for row in good)
    assert [row[-3:-1] for row in bad] == [["-1", "2"]]
    assert {row[0] for row in rows(tracer)[1:]} == {ME}


def test_opensnoop_filters(tmp_path: Path) -> None:
    there, missing = tmp_path / "there", tmp_path / "missing"
    there.write_text("")

    def work() -> None:
        set_comm(f"opens-{ME}")
        os.close(os.open(there, os.O_RDONLY))
        with pytest.raises(FileNotFoundError):
            os.open(missing, os.O_RDONLY)

    with Tracer("opensnoop", "-T", "-x", "-p", ME) as failed, Tracer("opensnoop", "-n", f"ns-{ME}") as named:
        os.close(os.open(there, os.O_RDONLY))
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    times = [line for line in failed.lines[1:] if re.match(r"\d\d:\d\d:\d\d ", line)]
    assert [line.split()[-1] for line in times if str(tmp_path) in line] == [str(missing)]
    assert len(times) == len(failed.lines) - 1
    assert [line.split()[-1] for line in named.lines[1:] if str(tmp_path) in line] == [str(there), str(missing)]
    assert {line.split()[1] for line in named.lines[1:]} == {f"opens-{ME}"}


def test_opensnoop_sees_every_call(tmp_path: Path) -> None:
    """open, openat and openat2 of threads, with descriptor 0 too; each thread by its process and its own name."""
    names = [tmp_path / name for name in ("open", "openat", "openat2", "zero")]
    for name in names:
        name.write_text("")
    program = f"""
import ctypes, os, threading
call = ctypes.CDLL(None).syscall
def work():
    with open("/proc/thread-self/comm", "w") as file:
        file.write("opener")
    {f"os.close(call(2, {str(names[0]).encode()}, 0))" if os.uname().machine == "x86_64" else ""}
    os.close(os.open({str(names[1])!r}, os.O_RDONLY))
    how = (ctypes.c_uint64 * 3)(0, 0, 0)
    os.close(call(437, -100, {str(names[2]).encode()}, how, 24))
    os.close(0)
    os.open({str(names[3])!r}, os.O_RDONLY)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
    with Tracer("opensnoop", "-f", "json") as tracer:
        child = subprocess.Popen([sys.executable, "-S", "-c", program], stdin=subprocess.DEVNULL)
        assert child.wait() == 0
    found = json_rows(tracer.stdout)
    found = [row for row in found if row["PATH"].startswith(str(tmp_path))]
    expected = [str(name) for name in names if name.name != "open" or os.uname().machine == "x86_64"]
    assert [row["PATH"] for row in found] == expected
    assert {(row["PID"], row["COMM"], row["ERR"]) for row in found} == {(child.pid, "opener", 0)}
    assert found[-1]["FD"] == 0 and all(row["FD"] > 2 for row in found[:-1])


def test_syscount() -> None:
    with Tracer("syscount", "-p", ME) as tracer:
        for _ in range(12345):
            os.getppid()
    assert "@syscall[getppid]: 12345\n" in tracer.stdout
    comm = Path("/proc/self/comm").read_text().strip()
    total = re.search(rf"^@process\[{re.escape(comm)}\]: (\d+)$", tracer.stdout, re.M)
    assert total is not None
    assert int(total[1]) >= 12345


def test_syscount_counts_calls_that_never_return() -> None:
    program = "import os, sys; sys.stdin.readline(); os._exit(0)"
    child = subprocess.Popen([sys.executable, "-S", "-c", program], stdin=subprocess.PIPE)
    with Tracer("syscount", "-p", str(child.pid)) as tracer:
        child.communicate(b"\n")
    assert "@syscall[exit_group]: 1\n" in tracer.stdout


def test_syscount_of_failures(tmp_path: Path) -> None:
    with Tracer("syscount", "-x", "-p", ME) as tracer:
        for _ in range(77):
            with pytest.raises(FileNotFoundError):
                os.rmdir(tmp_path / "missing")
        for _ in range(33):
            with pytest.raises(NotADirectoryError):
                os.rmdir("/etc/hostname")
    assert f"@failed[{RMDIR}, No such file or directory]: 77\n" in tracer.stdout
    assert f"@failed[{RMDIR}, Not a directory]: 33\n" in tracer.stdout
    assert "@syscall" not in tracer.stdout and "Success" not in tracer.stdout


def test_syscount_shows_the_ten_most_frequent() -> None:
    """Twelve threads, each with a name and a system call of its own, and the k-th makes it 100 k times."""
    calls: list[Callable[[], object]] = [
        os.getpid, os.getppid, os.getuid, os.geteuid, os.getgid, os.getegid, os.getpgrp, lambda: os.getsid(0),
        os.sched_yield, os.getcwd, os.getresuid, os.getresgid]
    names = ["getpid", "getppid", "getuid", "geteuid", "getgid", "getegid", "getpgrp", "getsid", "sched_yield",
             "getcwd", "getresuid", "getresgid"]
    def work(number: int) -> None:
        set_comm(f"syscount-{number}")
        for _ in range(100 * number):
            calls[number - 1]()

    with Tracer("syscount", "-p", ME) as tracer:
        for k in range(1, 13):  # one after the other: threads that wait for each other make system calls without number
            thread = threading.Thread(target=work, args=[k])
            thread.start()
            thread.join()
    by_call = re.findall(r"^@syscall\[(\w+)\]: (\d+)$", tracer.stdout, re.M)
    by_name = re.findall(r"^@process\[(.*)\]: (\d+)$", tracer.stdout, re.M)
    assert (len(by_call), len(by_name)) == (10, 10)
    made = {names[k - 1]: 100 * k for k in range(1, 13) if names[k - 1] != "getpgrp"}
    assert {name: int(n) for name, n in by_call if name in made}.items() <= made.items()
    assert {"getresgid", "getresuid", "getcwd", "sched_yield"} <= dict(by_call).keys()
    # A thread also waits, at its beginning and its end; and so does the one that started them, perhaps among the ten.
    own = {int(name.removeprefix("syscount-")): int(n) for name, n in by_name if name.startswith("syscount-")}
    assert set(own) >= set(range(4, 13))
    assert all(100 * k <= n < 100 * k + 100 for k, n in own.items())


def test_syscount_ends_by_itself() -> None:
    begun = time.monotonic()
    done = run_sonde("syscount", "1")
    assert time.monotonic() - begun >= 1
    assert done.returncode == 0
    assert "most frequent" in done.stdout


def switches() -> tuple[int, int]:
    """How often this process went to sleep, and how often it was taken off a CPU."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_nvcsw, usage.ru_nivcsw


def test_runqlat() -> None:
    """Each of 300 short sleeps ends in a wait for the CPU, and so does each time that another process gets it."""
    everywhere = os.sched_getaffinity(0)
    spinner = subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"])
    try:
        for pid in (0, spinner.pid):
            os.sched_setaffinity(pid, {min(everywhere)})
        outside, begun = switches(), time.monotonic()
        with Tracer("runqlat", "-p", ME) as tracer, Tracer("runqlat", "-p", ME, "-P", "-m", "-i", "1", "-T") as others:
            inside = switches()
            for _ in range(300):
                time.sleep(0.0005)
            end = time.process_time() + 0.1
            while time.process_time() < end:
                pass
            inner = switches()
        outer = switches()
    finally:
        os.sched_setaffinity(0, everywhere)
        spinner.kill()
        spinner.wait()
    preempted = inner[1] - inside[1]
    assert preempted > 0
    assert 300 + preempted <= histogram_total(tracer.stdout, "usecs") <= sum(outer) - sum(outside)
    assert "@since" not in tracer.stdout
    # the same by process, in milliseconds, in as many blocks as there were seconds
    assert 300 + preempted <= histogram_total(others.stdout, f"msecs[{ME}]") <= sum(outer) - sum(outside)
    low = re.findall(r"^([\[(].*[)\]]) +\d+ \|", others.stdout, re.M)
    assert "[0]" in low and "usecs" not in others.stdout
    assert len(re.findall(r"^\d\d:\d\d:\d\d$", others.stdout, re.M)) <= time.monotonic() - begun


def test_tcpconnect(listener: socket.socket) -> None:
    with Tracer("tcpconnect", "-p", ME) as tracer:
        for _ in range(7):
            converse(listener)
    host, port = listener.getsockname()[:2]
    found = rows(tracer, str(port))
    assert len(found) == 7
    family = "4" if listener.family == socket.AF_INET else "6"
    assert all(row[1] == ME and row[-4] == family and row[-2:] == [host, str(port)] for row in found)


def test_tcpaccept(listener: socket.socket) -> None:
    host, port = listener.getsockname()[:2]
    with Tracer("tcpaccept") as tracer:
        clients = [connect(listener) for _ in range(5)]  # none is accepted meanwhile
        time.sleep(0.1)
    ports = [str(port_of(client)) for client in clients]
    for client in clients:
        client.close()
    family = "4" if listener.family == socket.AF_INET else "6"
    found = rows(tracer, str(port))
    assert [row[1:6] for row in found] == [[family, host, client, host, str(port)] for client in ports]
    assert [row[6] for row in found] == [f"{waiting}/5" for waiting in range(5)]


def test_soconnect(listener: socket.socket) -> None:
    host, port = listener.getsockname()[:2]
    with socket.socket(listener.family, socket.SOCK_STREAM) as unused:
        unused.bind((host, 0))
        closed = port_of(unused)
    with Tracer("soconnect", "-p", ME) as tracer:
        for _ in range(3):
            converse(listener)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, closed)).close()
        with socket.socket(socket.AF_UNIX) as unix, pytest.raises(OSError):
            unix.connect("/nowhere")
    good, refused = rows(tracer, str(port)), rows(tracer, str(closed))
    assert len(good) == 3
    assert all(row[0] == ME and row[-1] == "Success" for row in good)
    assert {(row[-5], row[-4], row[-3]) for row in good} == {(str(int(listener.family)), host, str(port))}
    assert [row[-2:] for row in refused] == [["Connection", "refused"]]
    assert len(rows(tracer)) == 5  # the heading and these: nothing of the Unix socket


def test_soaccept(listener: socket.socket) -> None:
    host = listener.getsockname()[0]
    with Tracer("soaccept", "-p", ME) as tracer:
        ports = [str(converse(listener)[0]) for _ in range(3)]
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
    found = rows(tracer, ME)
    assert [row[-4:] for row in found[:3]] == [[str(int(listener.family)), host, port, "Success"] for port in ports]
    assert " ".join(found[3]).endswith("Try again (operation would block)")
    assert len(found) == 4


def test_bashreadline() -> None:
    if not os.path.exists("/bin/bash"):
        pytest.skip("needs /bin/bash")
    import pty

    with Tracer("bashreadline") as tracer:
        pid, master = pty.fork()
        if pid == 0:
            environment = {"PATH": os.environ["PATH"], "TERM": "dumb"}
            os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-i"], environment)
        try:
            for command in ("echo sonde-one", "echo sonde-two   three", "exit"):
                os.write(master, command.encode() + b"\n")
                read_until_quiet(master)
        finally:
            os.waitpid(pid, 0)
            os.close(master)
    lines = [line.split(None, 2)[2] for line in tracer.lines if f" {pid} " in line]
    assert lines == ["echo sonde-one", "echo sonde-two   three", "exit"]


def read_until_quiet(fd: int) -> None:
    import select

    try:
        while select.select([fd], [], [], 0.3)[0] and os.read(fd, 4096):
            pass
    except OSError:
        pass  # the other side has closed


def test_gethostlatency() -> None:
    with Tracer("gethostlatency", "-p", ME) as tracer:
        begun = time.monotonic()
        for _ in range(4):
            socket.getaddrinfo("localhost", 80)
        socket.gethostbyname("127.0.0.1")
        took = (time.monotonic() - begun) * 1e3
    assert len(rows(tracer, ME, "localhost")) == 4
    assert all(re.fullmatch(r"\d+\.\d{3}", row[-2]) for row in rows(tracer, ME))
    assert 0 < sum(float(row[-2]) for row in rows(tracer, ME)) <= took


def completed() -> int:
    """Requests that block devices have completed since boot: reads, writes, discards and flushes."""
    total = 0
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        total += sum(int(fields[i]) for i in (3, 7, 14, 18) if i < len(fields))
    return total


def test_biolatency(tmp_path: Path) -> None:
    """64 direct writes are 64 requests; the kernel's own count bounds what others add."""
    file = tmp_path / "data"
    try:
        fd = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
    except OSError:
        pytest.skip("the file system of the temporary folder has no O_DIRECT")
    import mmap

    page = mmap.mmap(-1, 4096)
    try:
        os.write(fd, page)
        os.fsync(fd)
        before = completed()
        with Tracer("biolatency") as tracer, Tracer("biolatency", "-D", "-m", "-i", "1", "-T") as others:
            begun = completed()
            longest = 0
            for i in range(64):
                started = time.monotonic_ns()
                os.pwrite(fd, page, i * 4096)
                longest = max(longest, (time.monotonic_ns() - started) // 1000)
            if completed() - begun < 64:
                pytest.skip("the temporary folder is not on a block device that counts its requests")
        total = completed() - before
    finally:
        os.close(fd)
        page.close()
    assert 64 <= histogram_total(tracer.stdout, "usecs") <= total
    buckets = re.findall(r"^[\[(](\d+)(K?)\W.* +(\d+) \|", tracer.stdout, re.M)
    lows = [int(low) * (1024 if kilo else 1) for low, kilo, n in buckets if int(n)]
    assert 1 < min(lows) <= longest  # microseconds: no disk is faster, and ours were among them
    by_disk = {name: histogram_total(others.stdout, f"msecs[{name}]") for name in
               set(re.findall(r"^@msecs\[(\w+)\]:", others.stdout, re.M))}
    assert set(by_disk) <= set(os.listdir("/sys/class/block"))
    assert 64 <= sum(by_disk.values()) <= histogram_total(tracer.stdout, "usecs")  # which began before and ended after


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_of_a_tool(option: str) -> None:
    done = run_sonde("tcpconnect", option)
    assert done.returncode == 0
    assert "USAGE" in done.stdout and "DPORT" in done.stdout


@pytest.mark.parametrize("words", [["tcpstates", "5"], ["syscount", "soon"], ["tcptop", "-r", "abc"], ["udporder"],
                                   ["tcprtt", "-P", "70000"], ["runqlat", "-p", "4194999"], ["tcplife", "-4", "x"]])
def test_what_makes_no_sense_is_said_in_a_line(words: list[str]) -> None:
    """Before anything is traced, and without a line of the tool's own text."""
    done = run_sonde(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("ERROR: ") and ".bt" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_what_does_not_work_here_says_why(name: str) -> None:
    done = run_sonde(name, *(["vfs_read"] if name == "funcprofile" else []))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"ERROR: {name}: ") and "sonde doctor" in done.stderr
    assert len(done.stderr.splitlines()) <= 5
    assert ".bt:" in run_sonde("-v", name, *(["vfs_read"] if name == "funcprofile" else [])).stderr


def test_tools_are_listed() -> None:
    done = run_sonde("tools")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == len(list(FOLDER.glob("*.bt")))


@pytest.mark.parametrize("tool", [tool for tool in tools.all_tools() if tool.name not in ELSEWHERE],
                         ids=operator.attrgetter("name"))
def test_every_tool_compiles_and_attaches(tool: tools.Tool) -> None:
    done = run_sonde("--dry-run", tool.path, *tool.sample_arguments)
    if OTHER_KERNEL and "ERROR: No matches for" in done.stderr:
        pytest.skip(done.stderr)
    if tool.name in COUNTERS:
        assert done.returncode == 255 and COUNTERS[tool.name] in done.stderr, done.stderr
        return
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "WARNING" not in done.stderr, done.stderr


@pytest.mark.timeout(900 if OTHER_KERNEL else 300)  # twice 113 tools are compiled
def test_doctor_knows_them_all() -> None:
    patience = 400 if OTHER_KERNEL else 140
    done = run_sonde("doctor", timeout=patience)
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line[0] != " "}
    missing = ELSEWHERE | COUNTERS
    assert {name for name in tools.tool_names() if "works: " not in lines[name]} == set(missing)
    assert all(why in lines[name] for name, why in missing.items())
    assert done.returncode == bool(missing)
    assert run_sonde("tools", "--check", timeout=patience).stdout == done.stdout


@pytest.mark.timeout(240)  # nothing of it comes from the cache
@pytest.mark.skipif(OTHER_KERNEL, reason="compiling every tool takes minutes under emulation")
def test_doctor_asks_a_btf_file() -> None:
    """This kernel's own file: what compiles for it is what works here."""
    done = run_sonde("tools", "--check", "--btf", "/sys/kernel/btf/vmlinux", timeout=200)
    failing = {line.split()[0] for line in done.stdout.splitlines() if "does not work" in line}
    # The tracepoints of the one are in modules, whose types are not in this file.
    assert failing <= {"ieee80211scan", "criticalstat"}, done.stdout
    assert done.returncode == bool(failing)
    assert "/sys/kernel/btf/vmlinux; whether it allows" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(("path", "why"), [("/etc/hostname", "not BTF"), ("/proc/nowhere", "No such file")])
def test_doctor_says_once_that_a_file_is_no_btf(path: str, why: str) -> None:
    done = run_sonde("doctor", "--btf", path)
    assert done.returncode == 1 and done.stdout == ""
    assert why in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(("text", "word"), [
    ("tracepoint:nosuch:event { @ = count(); }", "nosuch"),
    ("begin { print(((struct no_such *)0)->field); }", "no_such"),
])
def test_doctor_says_what_is_missing(text: str, word: str, tmp_path: Path) -> None:
    file = tmp_path / "x.bt"
    file.write_text(f"// x: for this test\n{text}\n")
    verdict = doctor.examine_tool(tools.parse_tool("x", str(file), file.read_text()), compiling.live_world())
    assert not verdict.works
    assert word in verdict.why[0]


def test_a_process_before_the_name_of_a_tool_is_the_tools() -> None:
    """Sonde's own filter asks who runs when an event happens; the tool knows whose event it is."""
    with Tracer("-p", ME, "runqlat") as before, Tracer("runqlat", "-p", ME) as behind, \
            Tracer("runqlat", "-p", "1") as init:
        for _ in range(100):
            time.sleep(0.001)
    assert histogram_total(before.stdout, "usecs") >= 100
    assert histogram_total(behind.stdout, "usecs") >= 100
    assert histogram_total(init.stdout, "usecs") < 100
