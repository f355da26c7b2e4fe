"""Objects that end in every way in which they can, far more of them than the maps have room for: the tools still tell
of those that come after. SONDE_MAX_MAP_KEYS makes the maps small."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from support import Tracer, compile_c

HERE = Path(__file__).parents[1]
MANY, NAPS, NAP_US = 3500, 5, 20_000
SOCKETS = 250
ROOM = {"SONDE_MAX_MAP_KEYS": "1500"}  # also for the rows of the output
SMALL = {"SONDE_MAX_MAP_KEYS": "700"}  # room for what the rest of the machine does meanwhile
WAYS = ("close", "reset", "shutdown", "dup2", "close_range", "exit", "kill", "exec")


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c((HERE / "lives.c").read_text(), tmp_path_factory.mktemp("lives"), "lives")


@contextmanager
def asking(lives: Path, *steps: str) -> Iterator[subprocess.Popen[str]]:
    """The generator, which waits for a line before each step."""
    words = " + ".join(steps).split()
    with subprocess.Popen([str(lives), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env=os.environ | {"LIVES_ASKS": "1"}) as process:
        yield process
        if process.poll() is None:
            process.kill()


def let_live(process: subprocess.Popen[str], steps: int) -> None:
    """Have it go through all its steps."""
    out, _ = process.communicate("\n" * steps, timeout=60)
    assert process.returncode == 0 and len(out.split("\n")) == steps + 1


def skipped(tracer: Tracer) -> int:
    """Events of which the tracer itself says that the kernel skipped them, one within another, and those that had no
    room, since the end of others was skipped."""
    return sum(map(int, re.findall(r"(?:the kernel skipped|@\w+ is full:) (\d+) (?:event|update)", tracer.stderr)))


def slept(text: str) -> dict[str, int]:
    """Microseconds by thread nap0 to nap3, of maps whose keys have stacks over several lines."""
    found: dict[str, int] = {}
    for key, us in re.findall(r"^@us\w*\[(.*?)\]: (\d+)$", text, re.M | re.S):
        for name in set(re.findall(r"\bnap\d\b", key.rpartition("\n")[2] if "\n" in key else key)):
            found[name] = found.get(name, 0) + int(us)
    return found


def test_threads_that_end_do_not_hide_those_that_live_on(lives: Path) -> None:
    """3500 threads end, with room for 1500; then four sleep five times for 20 ms each. A busy machine may take them off
    the CPU when their timers run already: half of their time is asked for; deaf tools would see nothing of it."""
    with asking(lives, f"threads {MANY}", f"nap {NAPS} {NAP_US}") as process, ExitStack() as tracers:
        pid = str(process.pid)
        off, on_off, woken, both = (tracers.enter_context(Tracer(*words, "-p", pid, env=ROOM)) for words in (
            ("offcputime", "-K"), ("cpudist", "-O"), ("wakeuptime", "-f", "folded"), ("offwaketime", "-f", "folded")))
        begun = time.monotonic()
        let_live(process, 2)
        lived = (time.monotonic() - begun) * 1e6
    for tracer in (off, on_off, woken, both):
        assert "full" not in tracer.stderr, tracer.stderr
    least = NAPS * NAP_US // 2
    times = slept(off.stdout)
    assert sorted(times) == ["nap0", "nap1", "nap2", "nap3"] and all(least <= us <= lived for us in times.values())
    for tracer in (woken, both):
        for name in times:
            us = sum(int(line.rpartition(" ")[2]) for line in tracer.stdout.splitlines() if line.startswith(f"{name};"))
            assert least <= us <= lived, (name, tracer.stdout)
    counts = re.findall(r"^\[(\d+)K, \d+K\) +(\d+) ", on_off.stdout, re.M)
    assert sum(int(count) for low, count in counts if int(low) >= 8) >= 4 * NAPS // 2, on_off.stdout


def test_connections_that_end_in_every_way(lives: Path) -> None:
    """Of both ends of 4000 connections, with room for 700 sockets: TCP's ends are all seen, those by close() too."""
    steps = [f"tcp{4 if way in WAYS[::2] else 6} {SOCKETS} {way}" for way in WAYS]
    with asking(lives, *steps) as process, ExitStack() as tracers:
        life, states, closed, first = (tracers.enter_context(Tracer(tool, env=SMALL)) for tool in (
            "tcplife", "tcpstates", "solife", "so1stbyte"))
        for _ in steps:
            let_one_live(process)
            give_memory_back()
        process.communicate(timeout=60)
    for tracer in (life, states, closed, first):
        assert "full" not in tracer.stderr or skipped(tracer), tracer.stderr
    ends = 2 * SOCKETS * len(WAYS)
    known = r"^\d+ +(?:lives|exe) "
    assert ends - skipped(life) <= len(re.findall(known, life.stdout, re.M)) <= ends, life.stderr
    # close(), after a reset or shutdown() too, of both ends; with dup2() only the others are closed
    assert len(re.findall(known, closed.stdout, re.M)) == 7 * SOCKETS, closed.stderr
    opened = len(re.findall(r" lives .* CLOSE +-> SYN_SENT ", states.stdout))
    assert SOCKETS * len(WAYS) - skipped(states) <= opened <= SOCKETS * len(WAYS)
    assert "lives" not in first.stdout


def give_memory_back() -> None:
    """Have the kernel free what ended sockets were: it may wait ten seconds for more (CONFIG_RCU_LAZY), but for the end
    of a network namespace (cleanup_net() calls rcu_barrier())."""
    subprocess.run(["unshare", "--net", "true"], check=True)
    time.sleep(0.5)


def let_one_live(process: subprocess.Popen[str]) -> None:
    """Have it make the objects of one step, and end them."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline()


def test_udp_sockets_that_end_in_every_way(lives: Path) -> None:
    """Each is shown, with the one that they are connected to, though there is room for fewer than there were."""
    ways = ("close", "dup2", "exit", "kill")
    with asking(lives, *[f"udp {SOCKETS} {way}" for way in ways]) as process, \
            Tracer("udplife", env=SMALL, settle=0.2) as tracer:
        for _ in ways:
            let_one_live(process)
            give_memory_back()
        process.communicate(timeout=60)
    assert "full" not in tracer.stderr, tracer.stderr
    shown = len(re.findall(r"^\d+ +lives ", tracer.stdout, re.M))
    assert len(ways) * (SOCKETS + 1) - skipped(tracer) <= shown <= len(ways) * (SOCKETS + 1)


FILLING = "interval:ms:50 { @n++; for ($i : 0..40) { @x[$i] = 1; } } interval:s:4 { exit(); }"


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_full_map_is_said_before_the_end(form: str) -> None:
    with Tracer("-f", form, "-e", FILLING, env={"SONDE_MAX_MAP_KEYS": "16"}) as tracer:
        deadline = time.monotonic() + 20
        said = ""
        while not said and time.monotonic() < deadline:
            time.sleep(0.05)
            text = tracer._read(tracer._out if form == "json" else tracer._err)
            said = next((line for line in text.splitlines() if "map_full" in line or "is full" in line), "")
        assert tracer.process.poll() is None  # it still runs
    assert "SONDE_MAX_MAP_KEYS=64" in said
    if form == "json":
        data = json.loads(said)["data"]
        assert (data["map"], data["keys"]) == ("@x", 16) and data["count"] >= 24
