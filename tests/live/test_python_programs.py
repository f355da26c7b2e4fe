"""docs/python-programs.md: its service is asked as there; each command must name the cause, in the line of the page."""

from __future__ import annotations

import ast
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from doc_commands import ROOT, shown_commands
from sonde.compiling import live_world
from support import run_sonde

pytestmark = [pytest.mark.skipif(os.uname().machine != "x86_64", reason="pystack is for x86_64"),
              pytest.mark.skipif(not live_world().has_feature("bpf_loop"), reason="kernel lacks bpf_loop (Linux 5.17)")]

PAGE, SERVICE = "docs/python-programs.md", str(ROOT / "docs/cases/python_service.py")
LINES = {frame.partition(" ")[0]: frame for frame in
         re.findall(r"\w+ \(python_service\.py:\d+\)", (ROOT / PAGE).read_text().replace("/srv/", ""))}
COMMANDS = [shown.text for shown in shown_commands(PAGE)]
SERVE, SERVE_WORKERS = [text.split()[2:-1] for text in COMMANDS if " serve" in text and text.startswith("python3")]
ASK = [text.split()[2:] for text in COMMANDS if " ask " in text]
REPORT, ORDER, STOCK, SEARCH, LOGIN = [text for text in COMMANDS if text.startswith("sonde")]


@contextmanager
def service(words: list[str]) -> Iterator[tuple[int, int]]:
    """Its process id and its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, SERVICE, words[0], str(port), *words[2:]]
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            end = time.monotonic() + 60
            with socket.socket() as probe:
                while probe.connect_ex(("127.0.0.1", port)) and time.monotonic() < end:
                    time.sleep(0.05)
            yield process.pid, port
        finally:
            os.killpg(process.pid, 9)


@pytest.fixture(scope="module")
def alone() -> Iterator[tuple[int, int]]:
    with service(SERVE) as where:
        yield where


def answer(command: str, path: str, where: tuple[int, int]) -> str:
    """What a command of the page answers, in a second, while the path is asked for; files without their folders."""
    pid, port = where
    short = re.sub(r" [23]$", " 1", command.replace("interval:s:3", "interval:s:1").replace("4242", str(pid)))
    ask = [sys.executable, SERVICE, "ask", path, "300", str(port)]
    with subprocess.Popen(ask, stdout=subprocess.DEVNULL) as client:
        try:
            done = run_sonde(*shlex.split(short)[1:])
        finally:
            client.kill()
    assert done.returncode == 0, done.stderr
    return re.sub(r"\(/\S*/(?=python_service)", "(", done.stdout)


def frames(*names: str) -> str:
    """A pattern for these frames, one below the other, in the lines that the page shows."""
    return "".join(rf" +{re.escape(LINES[name])}\n" for name in names)


def test_what_stops_the_loop(alone: tuple[int, int]) -> None:
    shown = answer(REPORT, "/report", alone)
    stall = rf"^ .* syscall +clock_nanosleep +/report *\n\n{frames('write_report', 'report', 'app')}"
    assert re.search(stall, shown, re.M), shown


def test_what_a_task_waits_for(alone: tuple[int, int]) -> None:
    shown = answer(ORDER, "/order", alone)
    waits = re.search(rf"@off_cpu_ms\[/order, ?\n{frames('write_journal', 'order')}\]: {{.*\.average = (\d+), ", shown)
    assert waits and int(waits[1]) >= 8, shown


def test_who_holds_the_lock(alone: tuple[int, int]) -> None:
    """In one of the two lines of its loop: the holder is at the head or in the body when it is looked at or loses its
    CPU, and each line is an entry, of which ``-n 1`` shows the heavier."""
    [loop] = [node for function in ast.parse(Path(SERVICE).read_text()).body
              if isinstance(function, ast.FunctionDef) and function.name == "count_stock"
              for node in function.body if isinstance(node, ast.For)]
    lines = {f"count_stock (python_service.py:{line})" for line in (loop.lineno, loop.end_lineno)}
    shown = answer(STOCK, "/stock", alone)
    holders = re.findall(r"@blocking_us\[\d+, \S+, (?:running|no CPU), ?\n +(.+)\n", shown)
    assert len(holders) == 1 and holders[0] in lines and LINES["count_stock"] in lines, shown
    assert "@waited_us[" in shown


def test_what_the_workers_compute() -> None:
    with service(SERVE_WORKERS) as where:
        shown = answer(SEARCH, "/search", where)
    role = re.compile(rf"\S+ \S+python_service\.py serve {where[1]} 2 \(forked\);")
    heaviest = max([line for line in shown.splitlines() if role.match(line)], key=lambda line: int(line.split()[-1]))
    assert LINES["search"] in heaviest and LINES["find_articles"] in heaviest, shown


def test_which_files_it_opens(alone: tuple[int, int]) -> None:
    shown = answer(LOGIN, "/login", alone)
    opened = re.search(rf"settings\.json, ?\n{frames('read_settings', 'login')}\]: (\d+)", shown)
    assert opened and int(opened[1]) >= 300, shown


def test_who_asks_says_how_long_it_took(alone: tuple[int, int]) -> None:
    assert [words[1] for words in ASK] == ["/report", "/order", "/stock", "/search", "/login"]
    done = subprocess.run([sys.executable, SERVICE, "ask", "/login", "0.3", str(alone[1])], text=True, check=True,
                          capture_output=True)
    assert re.match(r"\d+ requests; half within \S+ ms, 99 of 100 within \S+ ms, the slowest \S+ ms$", done.stdout)
