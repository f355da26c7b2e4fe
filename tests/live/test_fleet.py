"""Fleets of real agents on this machine: child processes, an sshd on loopback, a Unix socket."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import pytest

import sonde
from sonde.errors import MachineError
from sonde.fleet.transport.protocol import FROM_AGENT, Decoder
from sshd import ADDRESSES, Sshd, sshd_obstacle
from support import PATIENCE, SOURCE, environment, run_sonde, sonde_command
from terminal import Terminal

OWN = f"/pid == {os.getpid()}/"
GETPPID = "tracepoint:syscalls:sys_enter_getppid"


@pytest.fixture(autouse=True)
def same_sonde(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that are children run this tree."""
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))


def calls(number: int) -> None:
    for _ in range(number):
        os.getppid()


def wait_for_windows(tracing: sonde.FleetTrace, more: int = 2) -> None:
    """Until all hosts have told of what happened before now."""
    goals = {member.name: member.windows + more for member in tracing.members}
    deadline = time.monotonic() + PATIENCE
    while any(member.windows < goals[member.name] for member in tracing.members if member.is_live):
        assert time.monotonic() < deadline
        for _ in tracing.events(timeout=0.1):
            pass


@pytest.mark.exact
def test_three_agents_see_each_call_once_each() -> None:
    """Three agents of one kernel: each sum is three times what the workload knows, while it runs and at the end."""
    script = (f"{GETPPID} {OWN} {{ @ = count(); @k[pid, comm] = sum(2); @h = hist(5); @m = max(7); @s = stats(3); "
              "@l = lhist(4, 0, 10, 2); @p = 9; }")
    with sonde.fleet("local:x[1-3]", script, window=0.2) as tracing:
        calls(500)
        wait_for_windows(tracing)
        assert tracing.maps["@"].value == 1500
        calls(100)
    assert tracing.missing == {} and not tracing.losses
    assert tracing.maps["@"].value == 1800
    [(key, total)] = tracing.maps["@k"].items()
    assert key[0] == os.getpid() and total == 3600
    histogram, stats = tracing.maps["@h"].value, tracing.maps["@s"].value
    assert [(b.low, b.high, b.count) for b in histogram] == [(4, 8, 1800)]
    assert (stats.count, stats.average, stats.total) == (1800, 3, 5400)
    assert tracing.maps["@m"].value == 7 and tracing.maps["@l"].value.total == 1800
    assert dict(tracing.maps["@p"]) == {"x1": 9, "x2": 9, "x3": 9}
    assert str(tracing).startswith("3 of 3 hosts; window ")


def test_no_agent_has_loaded_what_runs_data() -> None:
    """An agent at work, with a stack's names looked up: neither pickle's module nor any like it is mapped."""
    with sonde.fleet("local:a", f"{GETPPID} {OWN} {{ @[kstack, ustack] = count(); }}", window=0.2) as tracing:
        calls(10)
        wait_for_windows(tracing)
        connection = tracing.members[0].connection
        assert connection is not None and connection.process is not None
        mapped = Path(f"/proc/{connection.process.pid}/maps").read_text()
    assert "python" in mapped and "_json" in mapped and "_pickle" not in mapped
    assert sum(tracing.maps["@"].values()) == 10


def test_prints_at_intervals_are_merged_by_turn() -> None:
    script = f"{GETPPID} {OWN} {{ @[comm] = count(); }} interval:ms:300 {{ print(@); clear(@); }}"
    seen = []
    with sonde.fleet(["local:a", "local:b"], script, window=0.1) as tracing:
        calls(700)
        for event in tracing.events(timeout=PATIENCE):
            assert event.kind == "print_map" and event.args[0] == "@"
            seen += [count for _, count in event.args[1]]
            if sum(seen) == 1400:
                break
    assert sum(seen) == 1400


def test_lines_come_in_one_order_of_time_with_the_host_in_front() -> None:
    script = 'begin { printf("PID\\n"); } interval:ms:100 { printf("%d\\n", pid); }'
    done = run_sonde("fleet", "-H", "local:a,local:long", "--window", "0.2", "-e", script, "1")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and [line for line in lines if "PID" in line] == ["     PID"]
    assert {line.split()[0] for line in lines if line[:1] not in ("", " ")} == {"a", "long"}
    assert re.match(r"2 of 2 hosts; window 1\.\d s; clocks within ", done.stderr.splitlines()[-1])
    with sonde.fleet(["local:a", "local:b"], script, window=0.2, seconds=1.0) as tracing:
        times = [event.time for event in tracing if event.probe != "begin"]
    assert times == sorted(times) and len(times) >= 10


def test_what_begin_prints_differently_has_the_host_in_front() -> None:
    script = r'begin { printf("same\n"); printf("%d\n", pid); printf("same\n"); } '
    script += "interval:ms:300 { print(@n); exit(); }"
    script += " self:signal:SIGUSR1 { @n = count(); }"
    done = run_sonde("fleet", "-H", "local:a,local:b", "--window", "0.1", "-e", script)
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.strip() == "same"] == ["  same"] * 2
    assert sorted(line.split()[0] for line in lines if line[:1] in ("a", "b")) == ["a", "b"]
    assert lines.count("@n: 0") == 1


def test_agents_end_with_their_coordinator() -> None:
    code = ("import sonde, sys, time\nwith sonde.fleet('local:a,local:b', 'interval:s:1 { @ = count(); }') as t:\n"
            "    print(*[m.connection.process.pid for m in t.members], flush=True); time.sleep(60)")
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    agents = process.stdout.readline().split()
    assert len(agents) == 2
    process.kill()
    process.communicate()
    deadline = time.monotonic() + PATIENCE
    while any(os.path.exists(f"/proc/{agent}") for agent in agents):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_tools_and_their_options() -> None:
    done = run_sonde("fleet", "-H", "local:a,local:b", "--seconds", "1", "--outliers", "runqlat", "-m")
    assert done.returncode == 0 and "@msecs" in done.stdout and "farthest from the rest (Wasserstein" in done.stdout


def test_by_host_and_json_and_csv(tmp_path: Path) -> None:
    script = f"{GETPPID} {{ @[comm] = count(); }} begin {{ @[\"x\"] = count(); }}"
    hosts = ("-H", "local:a,local:b", "--by", "host")
    done = run_sonde("fleet", *hosts, "-f", "json", "-e", script, "0.5")
    objects = [json.loads(line) for line in done.stdout.splitlines()]
    assert objects[0]["type"] == "fleet" and objects[0]["data"]["complete"] == 2
    assert {"a,x", "b,x"} <= set(objects[-1]["data"]["@"])
    done = run_sonde("fleet", *hosts, "-f", "csv", "-o", str(tmp_path / "x.csv"), "-e", script, "0.5")
    text = (tmp_path / "x.csv").read_text()
    assert text.startswith("host,comm,value\n") and "a,x,1\n" in text and "# 2 of 2 hosts (Linux" in text


@pytest.mark.parametrize(("form", "script", "has"), [
    ("html", "profile:hz:99 { @[kstack] = count(); }", "<html"),
    ("flamegraph", "profile:hz:99 { @[kstack] = count(); }", "<svg"),
    ("heatmap", "profile:hz:99 { @ = hist(pid); }", "hosts"),
    ("folded", "profile:hz:99 { @[comm] = count(); @s[ustack, kstack] = count(); }", " ")])
def test_views(form: str, script: str, has: str, tmp_path: Path) -> None:
    done = run_sonde("fleet", "-H", "local:a,local:b", "-f", form, "-o", str(tmp_path / "x"), "-e", script, "1.5")
    assert done.returncode == 0 and has in (tmp_path / "x").read_text(), done.stderr


@pytest.mark.parametrize("form", ["csv", "html", "parquet"])
def test_files_have_the_host_of_each_line(form: str, tmp_path: Path) -> None:
    """Also where the script has a column of that name."""
    if form == "parquet":
        pytest.importorskip("pyarrow")
    script = 'interval:ms:300 { printf("host=%d ", 7); printf("end\\n"); print((1, 2)); @n[1] = count(); exit(); }'
    file = tmp_path / f"out.{form}"
    done = run_sonde("fleet", "-H", "local:a,local:b", "-f", form, "-o", str(file), "-e", script)
    assert done.returncode == 0, done.stderr
    if form == "csv":
        rows = [row.split(",")[1:] for row in file.read_text().splitlines() if row.startswith(("time", "2"))]
        assert rows[0] == ["table", "key", "host", "host_", "value1", "value2", "value"]
        for host in ("a", "b"):
            assert ["interval:ms:300", "", host, "7", "", "", ""] in rows
            assert ["interval:ms:300", "", host, "", "1", "2", ""] in rows
    elif form == "html":
        lines = file.read_text().partition("<pre ")[2].partition(">")[2].partition("</pre>")[0].splitlines()
        assert sorted(lines) == ["a (1, 2)", "a host=7 end", "b (1, 2)", "b host=7 end"]
    else:
        from pyarrow.parquet import read_table
        table = read_table(BytesIO((tmp_path / "out.events.parquet").read_bytes()))
        assert table.column_names[:3] == ["time", "host", "probe"] and "host_" in table.column_names
        assert sorted(table["host"].to_pylist()) == ["a"] * 3 + ["b"] * 3
        assert f"Wrote {tmp_path}/out.events.parquet: 6 rows" in done.stderr


def test_an_output_without_a_line_s_end_is_whole() -> None:
    """Also where it is drawn while it goes on, as the last of what is printed."""
    with Terminal("fleet", "-H", "local:a", "--redraw", "--window", "0.2", "-e",
                  'interval:ms:500 { printf("whole\\nno end"); exit(); }') as terminal:
        terminal.wait_for_end()
        assert "a whole\na no end" in terminal.history()


def test_ctrl_c_collects() -> None:
    command = sonde_command(["fleet", "-H", "local:a,local:b", "-e", f"{GETPPID} {OWN} {{ @ = count(); }}"])
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    assert process.stderr is not None
    while "Tracing on 2 of 2 hosts" not in process.stderr.readline():
        assert process.poll() is None
    calls(300)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and "@: 600\n" in out and err.startswith("2 of 2 hosts"), err


def test_what_does_not_compile_is_said_as_on_one_host() -> None:
    done = run_sonde("fleet", "-H", "local:a,local:b", "-e", "foo:bar { }", "1")
    assert done.returncode == 1 and "a: stdin:1:1-8: ERROR: Invalid probe type: foo" in done.stderr
    assert "0 of 2 hosts; missing: a, b (Invalid probe type: foo)\n" in done.stderr
    with pytest.raises(MachineError, match="0 of 1 host"), sonde.fleet("local:a", "foo:bar { }"):
        pass


def test_an_agent_that_dies_is_named_and_keeps_its_windows() -> None:
    with sonde.fleet(["local:a", "local:b"], f"{GETPPID} {OWN} {{ @ = count(); }}", window=0.2) as tracing:
        calls(100)
        wait_for_windows(tracing)
        victim = tracing.members[1].connection
        assert victim is not None and victim.process is not None
        os.kill(victim.process.pid, signal.SIGKILL)
        while not tracing.missing:
            for _ in tracing.events(timeout=0.1):
                pass
        calls(50)
    assert tracing.maps["@"].value == 250
    assert tracing.missing["b"].startswith("connection lost while tracing, after ")


def test_async() -> None:
    async def gather() -> list[str]:
        async with sonde.fleet("local:a,local:b", 'interval:ms:100 { printf("%d\\n", 5); }', seconds=0.6,
                               window=0.1) as tracing:
            return [event.host async for event in tracing]
    hosts = asyncio.run(asyncio.wait_for(gather(), PATIENCE))
    assert set(hosts) == {"a", "b"} and len(hosts) >= 8


def test_a_terminal_shows_the_state_and_the_maps_while_it_goes_on() -> None:
    script = 'begin { @ = count(); } interval:ms:200 { @n = max(7); printf("line\\n"); }'
    with Terminal("fleet", "-H", "local:a,local:b", "--redraw", "--window", "0.3", "-e", script) as terminal:
        shown = terminal.wait_for("@n: 7", "^@: 2$", "^a line", "^b line")
        assert shown.startswith("2 of 2 hosts; window ")
        terminal.keys("C-c")
        terminal.wait_for_end()
        assert "@: 2\n" in terminal.history()


def test_the_example_of_the_documentation() -> None:
    code = (SOURCE.parent / "docs" / "fleet.md").read_text().partition("```python\n")[2].partition("```")[0]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True)
    assert done.stdout.startswith("2 of 2 hosts; window ") and done.stdout.rstrip().endswith("} {}")


def test_hosts_are_those_of_every_word(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("# mine\n[all]\nlocal:c  extra\n")
    done = run_sonde("fleet", "-H", "local:a", "-H", f"local:b,{tmp_path}/hosts", "-e",
                     "begin { @ = count(); exit(); }", "-H", "local:d")
    assert done.returncode == 0 and "@: 4\n" in done.stdout, done.stderr


@pytest.mark.parametrize(("words", "said"), [
    (("--parallel", "0"), "--parallel takes a whole number from 1 up, not '0'"),
    (("--window", "0"), "--window takes a number from 0.05 up"),
    (("-f", "nosuch", "-o", "made"), "perfetto, pcapng, recording or parquet"),
    (("-f", "parquet"), "-f parquet needs -o FILE"),
    (("--dask", "tls://x:1"), "either -H HOSTS or --dask ADDRESS"), (("--by", "pod"), "--by host, not --by pod")])
def test_what_options_cannot_be(words: tuple[str, ...], said: str, tmp_path: Path,
                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run_sonde("fleet", "-H", "local:a", *words, "-e", "begin { exit(); }")
    assert done.returncode == 1 and said in done.stderr and not [*tmp_path.iterdir()], done.stderr


def test_a_tool_explains_itself() -> None:
    assert run_sonde("fleet", "runqlat", "--help").stdout.startswith("runqlat: ")
    assert run_sonde("fleet", "--help").stdout.startswith("fleet: ")


@pytest.mark.parametrize("form", ["text", "json"])
def test_files_say_what_is_missing(form: str, tmp_path: Path) -> None:
    file = tmp_path / "out"
    done = run_sonde("fleet", "-q", "-H", "local:a,unix:/nonexistent", "-f", form, "-o", str(file), "-e",
                     "begin { @ = count(); exit(); }")
    assert done.returncode == 3
    last = file.read_text().splitlines()[-1]
    assert "1 of 2 hosts; missing: /nonexistent (no agent listens there: No such file" in last
    assert "Tracing on 1 of 2 hosts; missing: /nonexistent (" in done.stderr  # however quiet


# over ssh -------------------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    if why := sshd_obstacle():
        pytest.skip(why)
    with Sshd(tmp_path_factory.mktemp("sshd")) as found:
        yield found


@pytest.mark.exact
@pytest.mark.parametrize("push", [False, True], ids=["installed", "pushed"])
def test_three_hosts_by_ssh(sshd: Sshd, push: bool, tmp_path: Path) -> None:
    script = f"{GETPPID} {OWN} {{ @ = count(); @h = hist(3); }}"
    remote = tmp_path / "sonde"
    remote.write_text(f'#!/bin/sh\nPYTHONPATH={SOURCE} exec {sys.executable} -P -m sonde "$@"\n')
    remote.chmod(0o755)
    with sonde.fleet(ADDRESSES, script, ssh=sshd.ssh, push=push, agent=str(remote), window=0.3) as tracing:
        calls(1000)
        wait_for_windows(tracing)
    assert tracing.missing == {} and tracing.maps["@"].value == 3000 and tracing.maps["@h"].value.total == 3000


def test_hosts_that_cannot_be_reached_are_named(sshd: Sshd) -> None:
    done = run_sonde("fleet", "-H", f"{ADDRESSES[0]},no.such.host.invalid", "--ssh", " ".join(sshd.ssh), "--push", "-e",
                     "begin { @ = count(); } interval:s:1 { exit(); }")
    assert done.returncode == 3 and "1 of 2 hosts; missing: no.such.host.invalid (ssh: " in done.stderr
    done = run_sonde("fleet", "-H", ADDRESSES[0], "--ssh", " ".join(sshd.ssh), "--agent", "/nowhere/sonde", "-e",
                     "begin { @ = count(); }")
    assert done.returncode == 1 and "0 of 1 host; missing: 127.0.0.2 (there is no sonde" in done.stderr


def test_the_demonstration() -> None:
    """Three namespaces as hosts, and the sum that the workload knows."""
    if (why := sshd_obstacle()) or not shutil.which("ip"):
        pytest.skip(why or "ip is not installed")
    done = subprocess.run([sys.executable, SOURCE.parent / "scripts" / "demo_fleet.py"], capture_output=True, text=True,
                          env=environment(), timeout=PATIENCE, check=False)
    ways = 1 + (find_spec("distributed") is not None)  # ssh, and a cluster
    assert done.returncode == 0 and done.stdout.count("merged: 19560 writes") == ways, done.stdout + done.stderr


# policies and sockets -------------------------------------------------------------------------------------------------

class Listening:
    """An agent on a Unix socket."""

    def __init__(self, folder: Path, policy: str) -> None:
        self.path, self.audit = folder / "socket", folder / "audit"
        (folder / "policy").write_text(f'audit = "{self.audit}"\n{policy}')
        (folder / "policy").chmod(0o600)
        command = sonde_command(["agent", "--socket", str(self.path), "--policy", str(folder / "policy")])
        self.process = subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL)

    def __enter__(self) -> Listening:
        deadline = time.monotonic() + PATIENCE
        while not self.path.exists():
            assert time.monotonic() < deadline and self.process.poll() is None
            time.sleep(0.02)
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE)
        assert not self.path.exists()


def test_the_socket_of_a_killed_agent_is_taken_over(tmp_path: Path) -> None:
    """That of one that lives is not, and neither is anything else that lies there."""
    killed = Listening(tmp_path, "").__enter__()
    killed.process.kill()
    killed.process.wait(PATIENCE)
    assert killed.path.exists()
    with Listening(tmp_path, ""):
        deadline = time.monotonic() + PATIENCE
        while subprocess.run([*sonde_command(["fleet", "-H", f"unix:{killed.path}", "-e", "begin { exit(); }"])],
                             env=environment(), capture_output=True, timeout=PATIENCE, check=False).returncode:
            assert time.monotonic() < deadline
        again = subprocess.run(sonde_command(["agent", "--socket", str(killed.path)]), env=environment(), text=True,
                               capture_output=True, timeout=PATIENCE, check=False)
        assert again.returncode == 1 and "Address already in use" in again.stderr
    (tmp_path / "socket").write_text("mine")
    again = subprocess.run(sonde_command(["agent", "--socket", str(killed.path)]), env=environment(), text=True,
                           capture_output=True, timeout=PATIENCE, check=False)
    assert again.returncode == 1 and (tmp_path / "socket").read_text() == "mine"


def test_a_socket_serves_whom_the_policy_names_and_says_so(tmp_path: Path) -> None:
    with Listening(tmp_path, 'users = ["root"]\nprobes = ["tracepoint"]') as agent:
        with sonde.fleet(f"unix:{agent.path}", f"{GETPPID} {OWN} {{ @ = count(); }}") as tracing:
            calls(20)
        assert tracing.maps["@"].value == 20
        with pytest.raises(MachineError, match="does not allow profile"), \
                sonde.fleet(f"unix:{agent.path}", "profile:hz:9 { @ = count(); }"):
            pass
        with pytest.raises(MachineError, match="does not allow --unsafe"), \
                sonde.fleet(f"unix:{agent.path}", 'begin { system("id"); }', unsafe=True):
            pass
    lines = agent.audit.read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["started", "ended", "refused", "refused"]
    assert all('user="root"' in line for line in lines) and "getppid" in lines[0]
    assert "does not allow profile" in lines[2]


def test_a_socket_refuses_others(tmp_path: Path) -> None:
    with Listening(tmp_path, 'users = ["nobody"]') as agent, \
            pytest.raises(MachineError, match="policy does not name root"), \
            sonde.fleet(f"unix:{agent.path}", "begin { }"):
        pass


def test_who_connects_is_known_by_the_kernel(tmp_path: Path) -> None:
    """Another user, whom the socket's mode would let in: nothing is run for him that the policy does not allow him."""
    tmp_path.chmod(0o755)
    for folder in [folder for folder in tmp_path.parents if folder.name.startswith(("pytest-", "popen-"))]:
        folder.chmod(0o755)
    with Listening(tmp_path, "") as agent:
        agent.path.chmod(0o666)
        read, write = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
                with socket.socket(socket.AF_UNIX) as end:
                    end.connect(str(agent.path))
                    os.write(write, end.recv(1 << 16))
            finally:
                os._exit(0)
        os.close(write)
        os.waitpid(child, 0)
        with open(read, "rb") as file:
            [frame] = Decoder(FROM_AGENT).feed_bytes(file.read())
    assert frame.kind == "refused" and "no policy that names" in frame["message"]


def test_an_agent_at_rest_is_small_and_still(tmp_path: Path) -> None:
    with Listening(tmp_path, "") as agent:
        def used() -> list[str]:
            return Path(f"/proc/{agent.process.pid}/stat").read_text().split()[13:15]
        before = used()
        time.sleep(1)
        assert used() == before
        status = Path(f"/proc/{agent.process.pid}/status").read_text()
        assert int(status.partition("VmRSS:")[2].split()[0]) <= 25 << 10
