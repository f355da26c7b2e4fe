"""Fleets that are looked at: ``sonde top fleet``, ``sonde serve fleet``, rows of tools in JSON and CSV."""

from __future__ import annotations

import csv
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from browser import Browser
from sonde.compiling import live_world
from support import PATIENCE, environment, run_sonde, sonde_command
from terminal import Terminal

HOSTS = ("-H", "local:a,local:b,local:c", "--window", "0.2")
OWN = f"/pid == {os.getpid()}/"
SCRIPT = f"""tracepoint:syscalls:sys_enter_getppid {OWN} {{ @calls[comm] = count(); @sizes = lhist(7, 0, 10, 1); }}
begin {{ @level["x"] = 5; }} interval:ms:300 {{ printf("tick <i>\\033[2J%d</i>\\n", 7); }}
end {{ printf("the end\\n"); }}"""


def calls(number: int) -> None:
    for _ in range(number):
        os.getppid()


def test_top() -> None:
    """Merged tables, the fleet's state on top, its hosts as a table; the maps when it has ended."""
    pytest.importorskip("textual", reason="textual is not installed")
    if os.environ.get("SONDE_VM") and live_world().has_feature("preemptible_raw_tp"):
        pytest.skip("the kernel skips events while one of three agents is preempted in bpf(2), as they say")
    with Terminal("top", "fleet", *HOSTS, "-e", SCRIPT) as terminal:
        terminal.wait_for("^ 3 of 3 hosts; window ", r"^[abc] tick <i>\\x1b\[2J7</i>", "nothing lost")
        calls(100)
        terminal.wait_for(r"^ +@calls +@sizes +@level +hosts", r" 300 ", gone=["% of a CPU"])
        terminal.keys("Tab")
        terminal.wait_for("@sizes  since the start", r"\[7\].* 300 █{18}")
        terminal.keys("Tab")
        terminal.wait_for("@level  now, 3 rows", *[rf"^ {host} +x +5 " for host in "abc"])
        terminal.keys("Tab")
        terminal.wait_for("hosts  the fleet, 3 rows", r"^ [abc] +tracing +\d+ +0 ")
        terminal.keys("q")
        left = terminal.wait_for_end()
    assert re.search(r"^@calls\[.*\]: 300$", left, re.MULTILINE) and "ended=0" in left
    assert re.search(r"^ +the end$", left, re.MULTILINE) and left.count("the end") == 1  # which all say
    assert re.search("^3 of 3 hosts; ", left, re.MULTILINE) and "@level[b, x]: 5" in left


def test_top_shows_rows_of_tools_and_names_who_dies() -> None:
    """The word may stand behind the hosts, too."""
    pytest.importorskip("textual", reason="textual is not installed")
    name = f"sonde-test-{os.getpid()}"
    with Terminal("fleet", "-H", "local:a,local:b", "--window", "0.2", "top", "execsnoop",
                  "--line", name) as terminal:
        terminal.wait_for("2 of 2 hosts", "^ +hosts *$")
        agents = _children_of_terminal(terminal)
        subprocess.run(["/bin/sh", "-c", "exit 0", name], check=True)
        terminal.wait_for(r"^ HOST +TIME +PID +PPID +COMM +RET +ARGS")
        terminal.wait_for("the last rows, 2 rows", rf"^ a .*{name}", rf"^ b .*{name}")
        os.kill(agents[0], signal.SIGKILL)
        terminal.wait_for(r"1 of 2 hosts; missing: [ab] \(connection lost while tracing, after \d+ windows?\)")
        terminal.keys("C-c")
        assert "ended=3" in terminal.wait_for_end()


def _children_of_terminal(terminal: Terminal) -> list[int]:
    """The agents that a sonde in a terminal has started."""
    shell = terminal.tmux("display-message", "-p", "#{pane_pid}").strip()
    [sonde] = _children_of(shell)
    found = _children_of(sonde)
    assert len(found) == 2
    return [int(pid) for pid in found]


def _children_of(pid: str) -> list[str]:
    return subprocess.run(["ps", "-o", "pid=", "--ppid", pid], capture_output=True, text=True,
                          check=True).stdout.split()


class Served:
    """``sonde serve fleet``."""

    def __init__(self, *args: str) -> None:
        self.process = subprocess.Popen(sonde_command(["serve", "fleet", *args]), stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.PIPE, env=environment())
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if found := re.search(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", line):
                self.url = found[0]
                return
        raise AssertionError("it does not serve")

    def end(self) -> tuple[str, str, int]:
        """(output, errors, status) after a Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=PATIENCE)
        return out, err, self.process.returncode

    def snapshots(self) -> Iterator[dict[str, Any]]:
        """What browsers get."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=PATIENCE)
        connection.request("GET", f"{parts.path}events", headers={"Host": parts.netloc})
        answer = connection.getresponse()
        try:
            while line := answer.readline():
                if line.startswith(b"data: {"):
                    yield json.loads(line[6:])
        finally:
            connection.close()


def test_serve() -> None:
    served = Served(*HOSTS, "-e", SCRIPT)
    calls(50)
    deadline = time.monotonic() + PATIENCE
    for snapshot in served.snapshots():
        tables = {table["name"]: table for table in snapshot["tables"]}
        if [row["cells"][1] for row in tables["@calls"]["rows"]] == [150] and len(tables["@level"]["rows"]) == 3:
            break
        assert time.monotonic() < deadline
    assert snapshot["state"].startswith("3 of 3 hosts; window ") and snapshot["costs"] == []
    assert [row["cells"][1] for row in tables["hosts"]["rows"]] == ["tracing"] * 3
    out, err, status = served.end()
    assert status == 0 and out.count("the end") == 1 and re.search(r"^@calls\[.*\]: 150$", out, re.MULTILINE)
    assert err.splitlines()[-1].startswith("3 of 3 hosts; window ")


def test_in_the_browser() -> None:
    with Browser() as browser:
        served = Served(*HOSTS, "-e", SCRIPT)
        browser.open(served.url)
        calls(70)
        rows = 'Array.from(document.querySelectorAll(\'[data-table="@calls"] tbody tr\')).map(r => r.innerText)'
        browser.wait_for(f"{rows}.some(r => r.includes('210'))")
        browser.wait_for("document.querySelector('#fleet').textContent.startsWith('3 of 3 hosts; window ')")
        assert browser.eval("document.querySelector('#probes').hidden && document.querySelector('#cost').hidden")
        assert not browser.eval("document.querySelector('#fleet').hidden")
        served.process.send_signal(signal.SIGINT)
        browser.wait_for("document.querySelector('#state').textContent == 'ended: interrupted'")
        assert not browser.complaints
    served.end()


def test_what_cannot_be_looked_at_is_refused() -> None:
    for words, said in {("top",): "sonde top needs a terminal", ("serve", "-f", "csv"): "-f csv has no place there",
                        ("serve", "--every", "2"): "--window says how often"}.items():
        done = run_sonde(words[0], "fleet", "-H", "local:a", *words[1:], "-e", "begin { }", "1")
        assert done.returncode == 1 and said in done.stderr, done.stderr


def test_nobody_to_look_at() -> None:
    done = run_sonde("serve", "fleet", "-H", "local:a", "-e", "foo:bar { }")
    assert done.returncode == 1 and "0 of 1 host; missing: a (Invalid probe type: foo)" in done.stderr
    assert "Serving" not in done.stderr


@pytest.mark.parametrize("form", ["json", "csv"])
def test_rows_of_tools(form: str) -> None:
    """What one host gives as objects and columns many give so, with the host."""
    name = f"sonde-test-{os.getpid()}"
    command = sonde_command(["fleet", *HOSTS, "-f", form, "execsnoop", "--line", name])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, stderr=subprocess.PIPE,
                          env=environment()) as process:
        assert process.stderr is not None
        said = ""
        while "Tracing on 3 of 3 hosts" not in said:
            said += process.stderr.readline()
            assert process.poll() is None, said
        child = subprocess.Popen([sys.executable, "-c", "", name])
        child.wait()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE)
    if form == "json":
        rows = [{"HOST": each["host"], **each["data"]} for each in map(json.loads, out.splitlines())
                if each["type"] == "row"]
    else:
        rows = [*csv.DictReader(line for line in out.splitlines() if not line.startswith("#"))]
    mine = [row for row in rows if name in row["ARGS"]]
    assert sorted(row["HOST"] for row in mine) == ["a", "b", "c"]
    assert {(str(row["PID"]), str(row["PPID"]), str(row["RET"])) for row in mine} \
        == {(str(child.pid), str(os.getpid()), "0")}


def test_what_end_prints_on_all_hosts_is_a_heading() -> None:
    """As on one host: the heading, its map, the next heading, its map; in text and in JSON."""
    script = r"""begin { @x = count(); @y = sum(5); } interval:ms:300 { exit(); }
end { printf("first\n"); print(@x); printf("second\n"); print(@y); clear(@x); clear(@y); }"""
    done = run_sonde("fleet", *HOSTS, "-e", script)
    assert [line.strip() for line in done.stdout.splitlines() if line] == ["first", "@x: 3", "second", "@y: 15"]
    done = run_sonde("fleet", *HOSTS, "-f", "json", "-e", script)
    assert [json.loads(line)["data"] for line in done.stdout.splitlines()][:4] \
        == ["first\n", {"@x": 3}, "second\n", {"@y": 15}]
