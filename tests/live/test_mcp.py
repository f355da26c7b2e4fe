"""docs/agents.md and its server, by the SDK's own client over standard input and output: an incident that it solves
step by step, and requests of a model that has been turned against its user."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from support import PATIENCE, SOURCE, environment

PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()
SONDE = [sys.executable, "-P", "-m", "sonde"]
NAME = "ignore; rm -rf"  # what a hostile program may be called
# Syncs its journal twice as often as its data, without an end.
WORKLOAD = f"""
import os, sys
with open("/proc/self/comm", "w") as comm:
    comm.write({NAME!r})
journal, data = (os.open(f"{{sys.argv[1]}}/{{name}}", os.O_CREAT | os.O_WRONLY) for name in ("journal", "data"))
print(journal, data, flush=True)
while True:
    for file in (journal, data, journal):
        os.pwrite(file, b"x", 0)
        os.fsync(file)
    os.close(os.open(f"{{sys.argv[1]}}/data", os.O_RDONLY))
"""


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[tuple[int, int, int]]:
    """The program that syncs: its process, and the descriptors of journal and data."""
    with subprocess.Popen([sys.executable, "-c", WORKLOAD, tmp_path], stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            journal, data = map(int, program.stdout.readline().split())
            yield program.pid, journal, data
        finally:
            program.kill()


class Asking:
    """Calls tools, and takes what they answer apart."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, name: str, **arguments: Any) -> Any:
        """The answer, which its schema fits (the client checks that)."""
        result = await self.client.call_tool(name, arguments)
        assert not result.is_error, result.content[0]
        return result.structured_content

    async def refused(self, name: str, **arguments: Any) -> str:
        """Why there is none."""
        result = await self.client.call_tool(name, arguments)
        assert result.is_error
        answer = json.loads(result.content[0].text)  # type: ignore[union-attr]
        return " ".join([answer["error"], *answer["hints"]])


def rows(answer: Any, name: str) -> list[list[Any]]:
    """The rows of a table."""
    [table] = [each for each in answer["tables"] if each["name"] == name]
    assert table["total"] >= len(table["rows"])
    return list(table["rows"])


def talk(steps: Any, folder: Path, policy: str) -> None:
    """Take steps with a server that has this policy."""
    file = folder / "mcp.toml"
    file.write_text(f'audit = "{folder}/audit"\n{policy}')
    file.chmod(0o600)

    async def run() -> None:
        server = StdioServerParameters(command=SONDE[0], args=[*SONDE[1:], "mcp", f"--policy={file}"],
                                       env=environment())
        async with Client(stdio_client(server)) as client:
            await asyncio.wait_for(steps(Asking(client)), PATIENCE * 2)
    asyncio.run(run())


def test_an_incident_is_solved_step_by_step(slow: tuple[int, int, int], tmp_path: Path) -> None:
    pid, journal, data = slow
    script = "tracepoint:syscalls:sys_enter_fsync { @syncs[pid, comm] = count(); }"

    async def steps(ask: Asking) -> None:
        answers = (await ask("find", question="which program has files written to disk, fsync"))["answers"]
        assert "syncsnoop" in [each["name"] for each in answers]
        [found] = (await ask("probes", pattern="tracepoint:syscalls:sys_enter_fsync"))["probes"]
        assert "unsigned int fd" in found["arguments"]
        first = await ask("run", script=script, seconds=1, rows=100)
        assert [[pid, NAME]] == [row[:2] for row in rows(first, "@syncs") if row[0] == pid] and first["complete"]
        narrow = "tracepoint:syscalls:sys_enter_fsync { @files[args.fd] = count(); @calls = hist(args.fd); }"
        second = await ask("run", script=narrow, pid=pid, seconds=1)
        counts = dict(rows(second, "@files"))
        assert counts.keys() == {journal, data} and abs(counts[journal] - 2 * counts[data]) <= 2
        opened = "tracepoint:syscalls:sys_enter_openat { @[str(args.filename)] = count(); }"
        assert "other users' processes" in await ask.refused("run", script=opened, seconds=1)
        third = await ask("run", script=opened, pid=pid, seconds=1)  # the user's own
        assert [row[0] for row in rows(third, "@")] == [f"{tmp_path}/data"]
        again = await ask("ask", recording=second["recording"])
        assert (again["tables"], again["seconds"]) == (second["tables"], second["seconds"])
        compared = await ask("compare", before=first["recording"], after=second["recording"])
        assert {row[0] for row in compared["findings"]["rows"]} == {"@syncs", "@files", "@calls"}
        picture = await ask.client.read_resource(second["pictures"][0]["uri"])
        assert picture.contents[0].text.startswith("<?xml")  # type: ignore[union-attr]
        events = await ask("record", events="tracepoint:syscalls:sys_enter_fsync", pid=pid, seconds=0.5)
        asked = await ask("ask", recording=events["recording"], script=narrow)
        assert sum(count for _, count in rows(asked, "@files")) == rows(events, "@events")[0][1] > 0
    talk(steps, tmp_path, "budget = 50.0\n")
    audit = (tmp_path / "audit").read_text().splitlines()
    assert [sum(line.startswith(word) for line in audit) for word in ("started", "ended", "refused")] == [5, 5, 0]


def test_a_model_that_is_turned_against_its_user(slow: tuple[int, int, int], tmp_path: Path) -> None:
    flood = 'tracepoint:raw_syscalls:sys_enter { printf("%s %s\\n", comm, "x"); }'
    endless = 'interval:ms:100 { @n++; }'

    async def steps(ask: Asking) -> None:
        for script, words in (
                ('#include "/etc/shadow"\nbegin { }', "may not read files"),
                ("begin { print(*(uint64 *)0xffff888000000000); }", "make addresses"),
                ("begin { " + "@x = 1; " * 30_000 + "}", "too"), ("(" * 50_000, ""), ("\0", "no string"),
                ("tracepoint:syscalls:sys_enter_* { @ = count(); }", "attach points")):
            assert words in await ask.refused("run", script=script), script[:50]
        runs = [ask.client.call_tool("run", {"script": endless, "seconds": 86400}) for _ in range(8)]
        results = await asyncio.gather(*runs)
        assert sum(result.is_error for result in results) == 6  # the policy's two runs end after its second
        ends = [result.structured_content for result in results if not result.is_error]
        assert [end["ended"] for end in ends] == ["seconds"] * 2 and all(end["seconds"] < 10 for end in ends)
        assert all("the policy allows 1 s" in end["notes"] for end in ends)
        full = await ask("run", script=flood)
        assert len(rows(full, "events")) == 20 and not full["complete"] and "rows were left out" in full["notes"][-1]
    talk(steps, tmp_path, "seconds = 1\ndisk = 4\nrows = 20\n")


# Calls of a name of its own, some thousand times a second, until it is killed.
CALLER = """
import os, sys, time
with open("/proc/self/comm", "w") as comm:
    comm.write(sys.argv[1])
print(flush=True)
while True:
    os.getppid()
    time.sleep(0.0002)
"""


def test_the_first_five_minutes(tmp_path: Path) -> None:
    """The page's program prints what the page says: three names and counts, of programs that call all the time or of
    busier ones."""
    with ExitStack() as stack:
        for number in range(3):
            caller = stack.enter_context(subprocess.Popen([sys.executable, "-c", CALLER, f"mcp-caller-{number}"],
                                                          stdout=subprocess.PIPE))
            stack.callback(caller.kill)
            assert caller.stdout is not None and caller.stdout.readline()
        answer, busiest = ask_as_the_page_does(tmp_path)
    assert "syscount" in answer
    counts = [count for _, count in json.loads(busiest)]
    assert len(counts) == 3 and counts == sorted(counts, reverse=True) and counts[-1] > 10


def ask_as_the_page_does(tmp_path: Path) -> list[str]:
    """The lines that the page's program prints."""
    [program] = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    (tmp_path / "ask.py").write_text(program)
    command = [sys.executable, tmp_path / "ask.py", "env", f"PYTHONPATH={SOURCE}", *SONDE, "mcp"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment())
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_settings_of_the_page_name_the_server() -> None:
    [settings] = re.findall(r"```json\n(.*?)```", PAGE, re.S)
    assert json.loads(settings)["mcpServers"]["sonde"]["args"][-2:] == ["sonde", "mcp"]


def test_nothing_goes_on_without_the_client(tmp_path: Path) -> None:
    """A run ends when its client is gone, and so does the server, with its folder."""
    where = tmp_path / "tmp"
    where.mkdir()
    command = [*SONDE, "mcp"]
    lines = [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "run", "arguments": {
            "script": "interval:s:1 { @n++; }", "seconds": 60}}}]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          env=environment() | {"TMPDIR": str(where)}) as server:
        assert server.stdin is not None
        for line in lines:
            server.stdin.write(json.dumps(line).encode() + b"\n")
        server.stdin.flush()
        end = time.monotonic() + PATIENCE
        while not list(where.glob("*/r1.sonde")) and time.monotonic() < end:
            time.sleep(0.05)
        [child] = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        server.stdin.close()
        assert server.wait(PATIENCE) == 0
    assert not os.path.exists(f"/proc/{child}") and not list(where.iterdir())
