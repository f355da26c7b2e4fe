"""Tools that see what programs do, whatever the way: by io_uring, by calls of 32-bit programs, over MPTCP."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from c_targets import build_target
from printed import rows
from support import Tracer, run_sonde


def build_compat(source: str, folder: Path, *words: str) -> str:
    """A 32-bit program without a library; ``words`` are what it can be tried with."""
    if os.uname().machine != "x86_64":
        pytest.skip("32-bit programs of x86")
    program = build_target(source, folder, "-m32", "-static", "-nostdlib", "-fno-pie", "-no-pie",
                           "-fno-stack-protector", "-mpreferred-stack-boundary=2")
    try:
        assert subprocess.run([program, *words], check=False).returncode == 0
    except OSError:
        pytest.skip("this kernel runs no 32-bit programs")
    return program


@pytest.fixture
def compat_target(tmp_path: Path) -> str:
    return build_compat("compat_target.c", tmp_path, "/nosuch")


def json_lines(text: str) -> list[dict[str, object]]:
    return rows("\n".join(line for line in text.splitlines() if line[:1] == "{"))


@pytest.fixture
def ring_target(tmp_path: Path) -> str:
    """A program that asks io_uring for what it does with files."""
    if "io_uring_submit_req" not in run_sonde("-l", "rawtracepoint:io_uring_*").stdout:
        pytest.skip("this kernel does not tell of io_uring's requests")
    program = build_target("ring_target.c", tmp_path)
    if subprocess.run([program, "18"], check=False).returncode == 77:
        pytest.skip("no io_uring here")
    return program


def test_tools_say_what_went_by_io_uring(ring_target: str, tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(3)]
    for path in paths:
        path.write_text("")
    words = " ".join(map(str, paths))
    asked = run_sonde("statsnoop", "-c", f"{ring_target} 21 {words}")
    assert "WARNING: 3 calls by io_uring are not among these" in asked.stderr.splitlines()
    gone = run_sonde("filegone", "-c", f"{ring_target} 36 {words}")
    assert not any(path.exists() for path in paths)
    assert "WARNING: 3 calls by io_uring are not among these" in gone.stderr.splitlines()
    assert "io_uring" not in run_sonde("filegone", "-c", "true").stderr


def test_opensnoop_of_io_uring(ring_target: str, tmp_path: Path) -> None:
    there, missing = tmp_path / "there", tmp_path / "missing"
    there.write_text("")

    def told(*options: str) -> list[tuple[object, ...]]:
        done = run_sonde("opensnoop", *options, "-f", "json", "-c", f"{ring_target} 18 {there} {missing} {there}")
        assert done.returncode == 0, done.stderr
        return [(row["COMM"], int(str(row["FD"])) >= 0, row["ERR"], row["PATH"]) for row in json_lines(done.stdout)
                if str(tmp_path) in str(row["PATH"])]

    opened = ("ring_target", True, 0, str(there))
    failed = ("ring_target", False, 2, str(missing))
    assert told() == [opened, failed, opened]
    assert told("-x") == [failed]
    assert told("-n", "other") == []


def test_execsnoop_of_32_bit_programs(compat_target: str) -> None:
    """One that is started, and what it starts itself."""
    done = run_sonde("execsnoop", "-f", "json", "-c", f"{compat_target} /nosuch /bin/sh -c true")
    assert done.returncode == 0, done.stderr
    assert [(row["COMM"], row["RET"], row["ARGS"]) for row in json_lines(done.stdout)] == [
        ("compat_target", 0, f"{compat_target} /nosuch /bin/sh -c true"), ("sh", 0, "/bin/sh -c true")]
    quoted = run_sonde("execsnoop", "-q", "--max-args", "2", "-c", f"{compat_target} /nosuch /bin/sh -c true")
    assert re.search(r' "/bin/sh" "-c" \.\.\.$', quoted.stdout, re.M), quoted.stdout


@pytest.mark.parametrize(("tool", "calls", "others"), [
    ("shmsnoop", "117.21 117.22 117.23 117.24 395.0 396.0 397.9 398.1", "117.1 117.13 394.0"),
    ("sofdsnoop", "102.16 102.17 102.19 102.20 370.0 372.0 337.0 345.0 417.0 438.99", "102.3 371.0"),
    ("statsnoop", "106.0 107.0 195.0 196.0 99.0 268.0 300.0 383.0", "33.0 85.0"),
    ("statsnoop -a", "33.0 85.0 305.0 307.0 341.0 439.0 106.0", "5.0"),
    ("opensnoop", "5.0 8.0 295.0 342.0 437.0", "6.99"),
    ("mountsnoop", "21.0 22.0 52.0 217.0 428.0 429.0 430.0 431.99 432.99 433.0 442.0 467.0", "20.0"),
    ("tcpbind", "361.0 102.2", "362.0"), ("udpconnect", "362.0 102.3", "361.0"), ("solisten", "363.0 102.4", "361.0"),
    ("sofamily", "362.0 364.0 102.3 102.5 102.18", "361.0"), ("soprotocol", "362.0 364.0 102.3", "361.0"),
    ("soconnlat", "362.0 102.3", "364.0"), ("so1stbyte", "362.0 102.3", "364.0"), ("solife", "362.0 364.0", "361.0"),
    ("udplife", "359.0 102.1", "360.0"), ("udporder --port 9", "369.0 371.0 372.0 102.11 102.12 102.17", "370.0 102.9"),
    ("tcptop --splice", "313.0", "314.0"), ("socketio --splice", "313.0", "314.0"),
    ("socksize --splice", "313.0", "314.0"), ("execsnoop -x", "11.0 358.99", "5.0"),
    ("sockstat", "359.0 360.0 361.0 362.0 363.0 364.0 102.1 102.2 102.3 102.4 102.5 102.8 102.18", "102.9 372.0"),
])
def test_tools_count_the_calls_of_32_bit_programs(tool: str, calls: str, others: str, tmp_path: Path) -> None:
    program = build_compat("compat_calls.c", tmp_path)
    done = run_sonde(*tool.split(), "-c", f"{program} {calls} {others}")
    assert done.returncode == 0, done.stderr
    assert f"{len(calls.split())} calls of 32-bit programs are not among these" in done.stderr


FILES = """
import os, sys
source, target = (os.open(path, os.O_RDWR | os.O_CREAT) for path in sys.argv[1:])
os.write(source, b"x" * 8192)
os.sendfile(target, source, 0, 100)
os.copy_file_range(source, target, 100, 0, 0)
read, write = os.pipe()
os.splice(source, write, 100, 0)
os.splice(read, target, 100)
"""


@pytest.mark.parametrize("tool", ["fileslower", "filetop", "dirtop"])
def test_tools_say_what_the_kernel_copied(tool: str, tmp_path: Path) -> None:
    words = [sys.executable, "-S", "-c", FILES, str(tmp_path / "one"), str(tmp_path / "two")]
    done = run_sonde(tool, "-c", shlex.join(words))
    assert "4 calls of sendfile(), splice() and copy_file_range() are not among these" in done.stderr, done.stderr


def test_ttysnoop_says_what_was_written_another_way(tmp_path: Path) -> None:
    terminal, other = os.openpty()
    (tmp_path / "text").write_text("text")
    program = """
import os, sys
terminal, text = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY), os.open(sys.argv[2], os.O_RDONLY)
os.write(terminal, b"plain")
os.sendfile(terminal, text, 0, 4)
read, write = os.pipe()
os.write(write, b"word")
os.splice(read, terminal, 4)
"""
    try:
        name = os.ttyname(other)
        command = shlex.join([sys.executable, "-S", "-c", program, name, str(tmp_path / "text")])
        done = run_sonde("ttysnoop", "-c", command, name)
        assert "2 writes that went another way are not among these" in done.stderr, done.stderr
        assert "plain" in done.stdout and "word" not in done.stdout
    finally:
        os.close(terminal)
        os.close(other)


HOSTILE = ["", " ", '"', "\\", 'a" "b', '\\"', '" ...', "..", "a b",
           "l\n09:09:09 1 0 init 0 \"/sbin/evil\"", "\x1b[2J", "\\n", "ü"]


def unquote(shown: str) -> list[str]:
    """The arguments that ``-q`` shows."""
    assert re.fullmatch(r'(?:"(?:[^"\\\n]|\\.)*" ?)*', shown), shown
    words = re.findall(r'"((?:[^"\\]|\\.)*)"', shown)
    plain = {"n": "\n", "x": "\x1b"}
    return [re.sub(r"\\(x1b|.)", lambda found: plain.get(found[1][0], found[1]), word) for word in words]


@pytest.mark.parametrize("way", ["execve", "failed", "32-bit"])
def test_execsnoop_quotes_hostile_arguments(way: str, request: pytest.FixtureRequest) -> None:
    """No argument can pretend to be two, or to be a line."""
    command = ["/bin/true", *HOSTILE]
    if way == "failed":
        command = ["env", "/nosuch", *HOSTILE]
    elif way == "32-bit":
        command = [request.getfixturevalue("compat_target"), "/nosuch", "/bin/true", *HOSTILE]
    done = run_sonde("execsnoop", "-q", "-x", "--max-args", "30", "-c", shlex.join(command))
    last = [line for line in done.stdout.splitlines() if re.match(r"\d\d:\d\d:\d\d", line)][-1]
    expected = command[-len(HOSTILE) - 1:]
    assert unquote(last[last.index('"'):]) == expected, done.stdout
    assert ("-2" in last.split('"')[0]) == (way == "failed")


def test_system_calls_of_32_bit_programs_have_their_names(compat_target: str) -> None:
    """Those of 64-bit programs with the same numbers are fstat (5), writev (20) and munmap (11)."""
    done = run_sonde("syscount", "-c", f"{compat_target} /nosuch")
    assert {"@syscall[open]: 3", "@syscall[getpid]: 7"} <= set(done.stdout.splitlines()), done.stdout
    assert not re.search(r"fstat|writev", done.stdout)
    failed = run_sonde("syscount", "-x", "--syscall", "open", "-c", f"{compat_target} /nosuch")
    assert "@failed[open, No such file or directory]: 3" in failed.stdout
    script = """tracepoint:raw_syscalls:sys_enter /comm == "compat_target"/ {
        $name = syscall_name(args.id);
        if ($name == "getpid") { @text = count(); }
        if (syscall_name(args.id) == "open") { @equal = count(); }
        if (syscall_name(5) == "fstat") { @constant = count(); }
    }
    rawtracepoint:sys_exit /comm == "compat_target" && args.ret == -2/ { @number = count(); }
    end { printf("%d %d %d %d\\n", (int64)@text, (int64)@equal, (int64)@constant >= 11, (int64)@number); clear(@text);
        clear(@equal); clear(@constant); clear(@number); }"""
    asked = run_sonde("-e", script, "-c", f"{compat_target} /nosuch")
    assert asked.stdout.split() == ["7", "3", "1", "3"], asked.stdout + asked.stderr


MULTIPATH = """
import socket, sys
sys.stdin.readline()
with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as listener:
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as client:
        client.connect(listener.getsockname())
        server, _ = listener.accept()
        with server:
            for _ in range(10): client.sendall(b"x" * 10240)
            left = 102400
            while left: left -= len(server.recv(65536))
            print(client.getsockname()[1], listener.getsockname()[1], flush=True)
            sys.stdin.readline()
"""


def test_tools_of_tcp_over_mptcp() -> None:
    """A program sends to itself 10 times 10 KiB; kernel threads make and end the connection below."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).close()
    except OSError:
        pytest.skip("no MPTCP here")
    with subprocess.Popen([sys.executable, "-S", "-c", MULTIPATH], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as child:
        assert child.stdin is not None and child.stdout is not None
        pid = str(child.pid)
        with Tracer("tcplife", "-f", "json") as life, Tracer("tcptop", "-p", pid, "-f", "json", "600") as top, \
                Tracer("tcpsend", "-p", pid, "-f", "json") as send, Tracer("tcpnagle", "-p", pid) as nagle:
            child.stdin.write("\n")
            child.stdin.flush()
            local, remote = map(int, child.stdout.readline().split())
            child.stdin.write("\n")
            child.stdin.flush()
            child.wait()
            time.sleep(0.5)  # the kernel's threads end it
    ports = {(local, remote), (remote, local)}
    assert {(row["LPORT"], row["RPORT"], row["PID"]) for row in json_lines(life.stdout)
            if (row["LPORT"], row["RPORT"]) in ports} == {(*pair, child.pid) for pair in ports}
    assert {(row["RX_KB"], row["TX_KB"]) for row in json_lines(top.stdout)} == {(0, 100), (100, 0)}
    assert len([row for row in json_lines(send.stdout) if row["RPORT"] == remote]) == 10
    assert "10 sends over MPTCP are not among these" in nagle.stderr


@pytest.mark.parametrize(("tool", "count"), [("opensnoop", 3), ("filegone", 0), ("soconnect", 0)])
def test_tools_say_what_32_bit_programs_called(compat_target: str, tool: str, count: int) -> None:
    """They make no other calls of these kinds, though some with the numbers that 64-bit programs have for them."""
    done = run_sonde(tool, "-c", f"{compat_target} /nosuch")
    assert done.returncode == 0, done.stderr
    said = re.findall(r"(\d+) calls of 32-bit programs are not among these", done.stderr)
    assert said == ([str(count)] if count else [])
