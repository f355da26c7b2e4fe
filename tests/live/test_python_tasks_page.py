"""docs/python-tasks.md: its service is started and its commands are run, which must answer what the page shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from doc_commands import ROOT, shown_commands
from sonde.compiling import live_world
from support import run_sonde

pytestmark = [pytest.mark.skipif(os.uname().machine != "x86_64", reason="pytask is for x86_64"),
              pytest.mark.skipif(not live_world().has_feature("bpf_loop"), reason="kernel lacks bpf_loop (Linux 5.17)")]

PAGE = "docs/python-tasks.md"
SOURCE = (ROOT / PAGE).read_text().partition("```python\n")[2].partition("```")[0]
LOOP, BLOCKED, SENT, WAITED, TASKS = [shown.text for shown in shown_commands(PAGE)]
CLIENT = """
import socket, sys, time
with socket.socket(socket.AF_UNIX) as peer:
    while peer.connect_ex(sys.argv[1]):  # it is bound before it listens
        time.sleep(0.01)
    stream = peer.makefile("rwb", 0)
    while stream.write(b"abc\\n") and stream.readline():
        pass
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The process id of the page's service, which listens on a socket of the test's own, with a client that asks it."""
    folder = tmp_path_factory.mktemp("page")
    program, path = folder / "shop.py", folder / "socket"
    program.write_text(SOURCE.replace('start_server(serve, "127.0.0.1", 8080)', f'start_unix_server(serve, "{path}")'))
    with subprocess.Popen([sys.executable, program]) as shop, \
            subprocess.Popen([sys.executable, "-c", CLIENT, path]) as client:
        try:
            end = time.monotonic() + 60
            while not path.exists() and time.monotonic() < end:
                time.sleep(0.05)
            yield shop.pid
        finally:
            client.kill()
            shop.kill()


def answer(command: str, pid: int) -> str:
    done = run_sonde(*shlex.split(re.sub(r"-p 4242\b", f"-p {pid}", command))[1:])
    assert "WARNING" not in done.stderr, done.stderr
    return done.stdout


def test_iterations_of_the_loop(service: int) -> None:
    rows = re.findall(r"^\[(\d+)(?:, \d+)?[\])] +(\d+) \|", answer(LOOP, service), re.M)
    assert sum(int(count) for least, count in rows if int(least) >= 64) >= 2, rows
    assert sum(int(count) for _, count in rows) > 10


def test_the_line_that_stops_it(service: int) -> None:
    shown = answer(BLOCKED, service)
    blocked = re.search(r"@blocked_ms\[report, clock_nanosleep, ?\n +write_report \(\S+shop\.py:11\)\n"
                        r" +report \(\S+shop\.py:18\)\n\]: \{ \.count = (\d+), \.average = (\d+)", shown)
    assert blocked and int(blocked[1]) >= 2 and int(blocked[2]) >= 120, shown


def test_what_each_task_sends(service: int) -> None:
    sent = dict(re.findall(r"^@sent\[(.*)\]: (\d+)$", answer(SENT, service), re.M))
    assert any(re.fullmatch(r"Task-\d+", name) for name in sent) and "report" not in sent, sent


def test_what_the_tasks_wait_for(service: int) -> None:
    done = run_sonde(*shlex.split(WAITED.replace("4242", str(service)))[1:])  # tasks that change may be left out
    stacks = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines() if line[:1] != "#")
    ready = [int(stacks[stack]) for stack in stacks if stack.startswith("serve ") and stack.endswith("for the loop]")]
    assert sum(ready) > 0 and any(stack.startswith("report (shop.py:17);sleep") for stack in stacks), stacks
    shown = run_sonde(*shlex.split(TASKS.replace("4242", str(service)))[1:]).stdout
    assert f"Event loop of thread {service}: " in shown and re.search(r"^Task-1 +waits +>\d", shown, re.M), shown
