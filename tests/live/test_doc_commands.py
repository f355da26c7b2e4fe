"""Every command of every page is run as it stands there, in the order of the page; one that goes on until Ctrl-C gets
that, once it has begun. What a page's own test runs, and what no test can run, is in tests/doc_commands.py."""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from doc_commands import ELSEWHERE, NOT_HERE, ROOT, STAND_INS, Shown, pages, shown_commands
from sonde.tools import tool_listing
from support import PATIENCE, Tracer, environment, run_sonde, sonde_command

TOOLS = [f"docs/tools/{name}.md" for name in [line.split()[0] for line in tool_listing().splitlines()]]
COOKBOOK = [page for page in pages() if page.startswith("docs/cookbook/") and shown_commands(page)
            and page != "docs/cookbook/practice.md"]  # whose commands are not attached, or not alone
PAGES = [page for page in pages() if page not in {*ELSEWHERE, *TOOLS, *COOKBOOK} and shown_commands(page)]
BEGUN = re.compile(r"^(Attached \d+ probe|Tracing on |Serving |.*http://127\.0\.0\.1:\d+)", re.M)
ENDS = re.compile(r"sonde (replay|diff|cost|overhead|flame|unit) ")  # by itself
SECOND_TERMINAL = re.compile(r"curl |sonde (dump|overhead)")  # these need what the block began before them
PLAIN_TOOL = re.compile(r"sonde [a-z0-9]+$")  # which its own page shows
# What a machine may lack: the command has to say so.
LACKS = re.compile(r"this kernel (\S+ )?(has no|is built without)|the kernel has no|no such hardware counter"
                   r"|needs libpcap|No matches for tracepoint cfg80211")  # or no WLAN
WORKLOAD = """
import os, socket, tempfile, threading, time
lock = threading.Lock()
def wait():
    while True:
        with lock: time.sleep(0.002)
def write():
    with tempfile.TemporaryFile() as file:
        while True:
            os.pwrite(file.fileno(), b"x" * 4096, 0); os.fsync(file.fileno()); time.sleep(0.02)
for _ in range(3): threading.Thread(target=wait, daemon=True).start()
def talk():
    with socket.create_server(("127.0.0.1", 0)) as server:
        near, (far, _) = socket.create_connection(server.getsockname()), server.accept()
        while True:
            near.sendall(b"x"); far.recv(1); far.sendall(b"y"); near.recv(1); time.sleep(0.01)
for work in (write, talk): threading.Thread(target=work, daemon=True).start()
while True:
    sorted(range(9000), key=lambda n: -n); os.getppid(); os.close(os.open("/dev/null", os.O_RDONLY)); time.sleep(0.001)
"""
FILES = {
    "errors.bt": "tracepoint:syscalls:sys_exit_openat /args.ret < 0/ { @errors = count(); }",
    "opens.bt": "tracepoint:syscalls:sys_enter_openat { @[comm] = count(); }",
    "latency.bt": "tracepoint:syscalls:sys_exit_openat { @[comm] = count(); }",
    "once.c": "#include <unistd.h>\n__attribute__((noinline)) int leaf() { return getppid() + 1; }\n"
              "__attribute__((noinline)) int top() { return leaf() + 1; }\nint main() { return top() < 0; }\n",
    "t.py": "import gc\nfor _ in range(100): gc.collect()\n",
    "stats.py": "import os\nfor _ in range(200): os.stat('/')\n",
    "names.py": "import socket\nfor _ in range(5): socket.getaddrinfo('localhost', 80)\n",
    "sorting.py": "import os\nfor _ in range(5): sorted([2, 1], key=lambda n: os.getppid())\n",
    "t.php": "<?php function f() { return 1; } for ($i = 0; $i < 9; $i++) f();",
    "t.rb": "99.times { Array.new }",
}
BUSY = "int main() { for (volatile long i = 0; i < 300000000; i++); }"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A folder with the files that the pages name, and what stands in for processes, programs and hosts."""
    folder = tmp_path_factory.mktemp("pages")
    for name, text in FILES.items():
        (folder / name).write_text(text + "\n")
    (folder / "busy.c").write_text(BUSY)
    subprocess.run(["cc", "-o", "busy", "busy.c"], cwd=folder, check=True)
    for name in ("old", "new", "work", "leak", "web-client", "inl"):
        (folder / name).symlink_to("busy")
    for name in ("scripts", "docs"):
        (folder / name).symlink_to(ROOT / name)
    for name in ("dumps", "bin"):
        (folder / name).mkdir()
    run_sonde("record", "-o", str(folder / "trace.sonde"), "-c", "true", str(folder / "opens.bt"))
    for name in ("before", "after"):
        (folder / f"{name}.sonde").symlink_to("trace.sonde")
    (folder / "locks.bt").write_text(next(block for block in (ROOT / "docs/flight.md").read_text().split("```")
                                          if "sys_enter_flock" in block))
    # ssh HOST COMMAND, where all hosts are this one
    for name, lines in (("sonde", "exec " + " ".join(sonde_command([])) + ' "$@"'),
                        ("ssh", 'while [ "$1" != -- ]; do shift; done; shift 2; exec sh -c "$*"')):
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{lines}\n")
        (folder / "bin" / name).chmod(0o755)
    with subprocess.Popen([sys.executable, "-c", WORKLOAD]) as process, Collector() as collector, \
            Tracer("-e", f"tracepoint:syscalls:sys_enter_getppid /pid == {process.pid}/ {{ @ = count(); }}") as tracer:
        said = json.loads(run_sonde("overhead", "-f", "json", "0.1").stdout.splitlines()[-1])["data"]["programs"]
        program = str(max(each["id"] for each in said if f"/{tracer.pid}" in str(each["held_by"])))
        yield {"folder": str(folder), "pid": str(process.pid), "collector": collector.url, "group": "/",
               "program": program}
        process.kill()
        collector.shutdown()


class Collector(http.server.ThreadingHTTPServer):
    """Takes whatever is sent to it, as OTLP's receivers do."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


def stand_in(text: str, stage: dict[str, str]) -> str:
    """The command with what stands in for the page's names."""
    for pattern, instead in STAND_INS:
        text = re.sub(pattern, instead.format(**stage), text)
    return text


def surroundings(stage: dict[str, str]) -> dict[str, str]:
    """The environment in which ``sonde`` is this one, and ``ssh`` ours."""
    path = f"{stage['folder']}/bin:{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    return environment({"PATH": path, "TERM": "xterm", "PYTHONWARNINGS": ""})


def describe_failure(shown: Shown, status: int, said: str) -> str:
    """What is wrong with how a command ended; "" if nothing is."""
    if "Traceback" in said or "internal error" in said or (status and not LACKS.search(said)):
        return f"{shown.page}:{shown.line}: {shown.text}: status {status}\n{said[-1500:]}"
    return ""


class Running:
    """A command, begun."""

    def __init__(self, shown: Shown, stage: dict[str, str]) -> None:
        self.shown = shown
        text = stand_in(shown.text, stage)
        self.is_screen = "sonde top" in text
        command = ["script", "-qec", text, "/dev/null"] if self.is_screen else ["bash", "-c", text]
        self.file = open(os.path.join(stage["folder"], f"said-{shown.line}"), "w+")  # noqa: SIM115  (until it is finished)
        self.process = subprocess.Popen(command, cwd=stage["folder"], stdin=subprocess.PIPE, stdout=self.file,
                                        stderr=subprocess.STDOUT, start_new_session=True,
                                        env=surroundings(stage))

    def said(self) -> str:
        return os.pread(self.file.fileno(), 1 << 20, 0).decode(errors="replace")

    def await_beginning(self) -> None:
        """Until it is seen to work, or has ended."""
        if ENDS.match(self.shown.text):
            self.process.wait(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        ready = re.compile(r"\x1b\[\?1049h") if self.is_screen else BEGUN
        while self.process.poll() is None and not ready.search(self.said()):
            assert time.monotonic() < deadline, f"{self.shown.text}: neither began nor ended\n{self.said()}"
            time.sleep(0.02)
        try:
            self.process.wait(0.5)
        except subprocess.TimeoutExpired:
            pass

    def finish(self) -> str:
        """End it as its user does; what is wrong with how it ended."""
        if self.process.poll() is None and not self.is_screen:
            os.killpg(self.process.pid, signal.SIGINT)
        self.process.communicate(b"q" if self.is_screen and self.process.poll() is None else None, PATIENCE)
        status = self.process.returncode
        said = self.said()
        self.file.close()
        return describe_failure(self.shown, status, said)


def can_run(shown: Shown) -> bool:
    """Whether it is no exception."""
    return not any(re.match(pattern, shown.text) for pattern in NOT_HERE)


def run_block(block: list[Shown], stage: dict[str, str]) -> list[str]:
    """Run its commands, one after the other; what is wrong."""
    found, going = [], []
    try:
        for at, shown in enumerate(block):
            if can_run(shown):
                going.append(Running(shown, stage))
                going[-1].await_beginning()
            if not any(SECOND_TERMINAL.match(later.text) for later in block[at + 1:]):
                found += [each.finish() for each in going]
                going = []
    finally:
        for each in going:
            os.killpg(each.process.pid, signal.SIGKILL)
            each.finish()
    return [each for each in found if each]


@pytest.mark.timeout(8 * PATIENCE)
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page(page: str, stage: dict[str, str], tmp_path: Path) -> None:
    here = shutil.copytree(stage["folder"], tmp_path / "here", symlinks=True)
    for name in re.findall(r" (before|after|yesterday)/", (ROOT / page).read_text()):  # folders of recordings
        (here / name).mkdir(exist_ok=True)
        (here / name / "1.sonde").symlink_to("../trace.sonde")
    stage = {**stage, "folder": str(here)}
    shown = shown_commands(page)
    blocks = {each.block: [other for other in shown if other.block == each.block] for each in shown}
    wrong = [each for block in blocks.values() for each in run_block(block, stage)]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.timeout(8 * PATIENCE)
@pytest.mark.parametrize("part", [TOOLS, COOKBOOK], ids=["tools", "cookbook"])
def test_the_examples_attach(part: list[str], stage: dict[str, str]) -> None:
    """Each is begun, and ends when all is attached: what tools count is known to tests of their own."""
    def run_example(shown: Shown) -> str:
        text = stand_in(shown.text, stage).replace("sonde ", "sonde --dry-run ", 1)
        done = subprocess.run(["bash", "-c", text], cwd=stage["folder"], env=surroundings(stage), capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=2 * PATIENCE, check=False)
        return describe_failure(shown, done.returncode, done.stdout + done.stderr)
    examples = {page: shown_commands(page) for page in part}
    assert all(examples.values())
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(run_example, [shown for each in examples.values() for shown in each if can_run(shown)
                                          and (part is TOOLS or not PLAIN_TOOL.match(shown.text))])
    assert not (wrong := [each for each in found if each]), "\n\n".join(wrong)


def test_each_exception_is_one() -> None:
    """A page's own test knows the page; what cannot be run is somewhere shown."""
    for page, test in ELSEWHERE.items():
        text = (ROOT / test).read_text()
        assert Path(page).stem in text or Path(page).stem.replace("-", "_") in text
    texts = [shown.text for page in pages() for shown in shown_commands(page)]
    for pattern in NOT_HERE:
        assert any(re.match(pattern, text) for text in texts), pattern
