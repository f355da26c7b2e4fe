"""docs/go.md: its server is built and its commands are run, which must answer what the page shows."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from doc_commands import ROOT, shown_commands
from go_programs import build_go
from support import Tracer, run_sonde

PAGE = "docs/go.md"
TEXT = (ROOT / PAGE).read_text()
COMMANDS = [shown.text for shown in shown_commands(PAGE) if shown.text.startswith("sonde ")]
LOCK_MS = 2  # that a request for orders sleeps


LOAD = """
import sys, time, urllib.request
with open(sys.argv[2], "ab", 0) as done:
    while True:
        for path in ("orders", "prices"):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/{path}", timeout=20).read()
                done.write(b"x")
            except OSError:
                time.sleep(0.05)
"""


class Server:
    """The page's server, and a process that asks it one thing after the other and notes each answer in a file."""

    def __init__(self, program: Path, port: int) -> None:
        self.program, self.port, self.log = program, port, program.with_suffix(".log")
        self.log.touch()
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen([self.program], stdout=subprocess.DEVNULL)
        self.load = subprocess.Popen([sys.executable, "-c", LOAD, str(self.port), self.log])
        self.await_requests(2)

    @property
    def requests(self) -> int:
        return self.log.stat().st_size

    def await_requests(self, count: int) -> None:
        end, wanted = time.monotonic() + 60, self.requests + count
        while self.requests < wanted and time.monotonic() < end:
            time.sleep(0.05)
        assert self.requests >= wanted

    def stop(self) -> None:
        for process in (self.load, self.process):
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    source = TEXT.partition("```go\n")[2].partition("```")[0].replace("127.0.0.1:8080", f"127.0.0.1:{port}")
    running = Server(build_go(tmp_path_factory.mktemp("page"), source, name="svc"), port)
    yield running
    running.stop()


def words_of(command: str, server: Server) -> list[str]:
    command = command.replace("-p 4242", f"-p {server.process.pid}").replace("./svc", str(server.program))
    return shlex.split(re.sub(r" 10$", " 3", command))[1:]


def run_command(part: str, server: Server) -> str:
    """The output of the page's command that has this part."""
    words = words_of(next(command for command in COMMANDS if part in command), server)
    if words[0] in ("flame", "-l", "-lv"):
        done = run_sonde(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout
    with Tracer(*words) as tracer:
        server.await_requests(10)
    assert tracer.status == 0, tracer.stderr
    return tracer.stdout


def test_every_command_is_run_below() -> None:
    parts = ("main.*", "-lv", "net/http.*", "@[args.text", "goroutine %d", "funclatency", "flame --off-cpu")
    assert [sum(part in command for part in parts) for command in COMMANDS] == [1] * len(parts)


def test_listed(server: Server) -> None:
    lines = run_command("main.*", server).splitlines()
    assert {f"uprobe:{server.program}:main.{name}" for name in ("main", "orders", "prices", "report")} <= set(lines)


def test_parameters(server: Server) -> None:
    assert run_command("-lv", server).splitlines()[1:] == [
        "    net/http.ResponseWriter w", "    struct string text", "    int status"]


def test_functions_of_a_package(server: Server) -> None:
    counted = dict(re.findall(r"^@\[(.*)\]: (\d+)$", run_command("net/http.*", server), re.M))
    assert int(counted["net/http.(*conn).readRequest"]) >= 10 and "net/http.(*conn).serve" in counted


def test_arguments(server: Server) -> None:
    counted = dict(re.findall(r"^@\[(.*)\]: (\d+)$", run_command("@[args.text", server), re.M))
    assert counted.keys() == {"/orders, 200", "42, 200"} and min(map(int, counted.values())) >= 4


def test_goroutines(server: Server) -> None:
    lines = [line for line in run_command("goroutine %d", server).splitlines() if line]
    assert len(lines) >= 10
    assert all(re.fullmatch(r"goroutine [1-9]\d*: (/orders|42)", line) for line in lines)


def test_latency(server: Server) -> None:
    """Each call sleeps so long."""
    shown = run_command("funclatency", server)
    count, average = map(int, re.search(r"\.count = (\d+), \.average = (\d+)", shown).groups())  # type: ignore[union-attr]
    assert count >= 4 and average >= LOCK_MS * 1000


@pytest.mark.parametrize("stripped", [False, True])
def test_what_they_wait_for(server: Server, stripped: bool) -> None:
    """Each request for orders sleeps so long; nobody else has the lock."""
    if stripped:
        server.stop()
        subprocess.run(["strip", server.program], check=True)
        server.start()
    before = server.requests
    folded = run_command("flame --off-cpu", server)
    orders = (server.requests - before) // 2 + 1
    asleep = r"svc;(sleep|waiting);.*;main\.orders;time\.Sleep;"
    slept = [line for line in folded.splitlines() if re.match(asleep, line)]
    received = re.findall(r"^svc;(?:chan receive|waiting);.*;main\.prices;.*runtime\.gopark (\d+)$", folded, re.M)
    total = sum(int(line.rpartition(" ")[2]) for line in slept)
    assert received and LOCK_MS * 1_000_000 <= total and total >= LOCK_MS * 1_000_000 * (orders // 8)
