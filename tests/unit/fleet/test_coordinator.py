"""The coordinator against agents that tell what is known, that misbehave: sums are exact, who is missing is named."""

from __future__ import annotations

import json
import os
import resource
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from simulated import COUNT, Contents, SimulatedAgent, SimulatedFleet, run_simulated, sum_contents
from sonde.fleet.state import coordinator
from sonde.fleet.state.coordinator import Fleet
from sonde.fleet.transport.hosts import expand_hosts, fold_names
from sonde.fleet.transport.request import FleetRequest
from sonde.fleet.views.show import JsonPresenter, Presenter
from sonde.source import Source
from sonde.types import Aggregate

REQUEST = FleetRequest(Source("stdin", "begin { }"), window=0.1)


def growing(host: str, window: int) -> Contents:
    """Keys that all have, and one of the host's own; larger with each window."""
    number = int(host[1:])
    return {**{key: [(window + 1) * (key + number % 7)] for key in range(20)}, 1000 + number: [window + 1]}


def run(transport: SimulatedFleet, hosts: str, **options: Any) -> Fleet:
    """A fleet that has come to its end."""
    return run_simulated(transport, hosts, REQUEST, 60, **options)[0]


def test_the_sum_is_exact() -> None:
    fleet = run(SimulatedFleet(growing), "h[1-30]")
    assert dict(fleet.results.pairs_of("@")) == sum_contents([growing(f"h{i}", 3) for i in range(1, 31)])
    assert fleet.describe_state().startswith("30 of 30 hosts; window 0.4 s; clocks within ")
    assert not fleet.missing and list(fleet.describe_losses()) == []


BEHAVIOURS = {"h03": "dies", "h07": "stalls", "h11": "repeats", "h12": "disorder", "h13": "hostile", "h14": "refuses",
              "h15": "dies", "h16": "other", "h17": "repeats", "h18": "disorder"}


def test_chaos(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts die, stall, repeat themselves, come out of order and send nonsense: all numbers are of the hosts and
    windows that are named, exactly."""
    monkeypatch.setattr(coordinator, "SILENCE", 1.5)
    transport = SimulatedFleet(growing, behaviour=lambda host: BEHAVIOURS.get(host, ""))
    fleet = run(transport, "h[01-40]")
    missing = {member.name: member.reason for member in fleet.missing}
    assert set(missing) == {name for name, what in BEHAVIOURS.items() if what not in ("repeats", "disorder")}
    assert missing["h03"].startswith("connection lost while tracing") and missing["h03"].endswith("after 2 windows")
    assert missing["h07"] == "silent for 2 s, after 2 windows"
    assert missing["h13"].startswith("no frame, but ") and missing["h14"] == "BTF: none"
    assert missing["h16"].startswith("@ is lhist(0, 7, 1) on h16, but count_t on h")
    complete = [transport.agents[name].told for name in transport.agents if name not in missing]
    partly = [growing(name, 1) for name in ("h03", "h07", "h13", "h15")]
    assert dict(fleet.results.pairs_of("@")) == sum_contents(complete + partly)
    assert sum(member.repeated for member in fleet.members) >= 4
    assert "33 of 40 hosts; missing: h03 (" not in fleet.describe_state(0) and "and 6 more" in fleet.describe_state(0)


def test_ctrl_c_collects_what_there_is_in_two_seconds() -> None:
    transport = SimulatedFleet(growing, windows=10_000, behaviour=lambda host: "stalls" if host == "h5" else "")
    with transport, Fleet(expand_hosts(["h[1-10]"]), REQUEST, transport) as fleet:
        deadline = time.monotonic() + 20
        while not all(member.windows > 3 for member in fleet.members):
            fleet.poll(0.1)
            assert time.monotonic() < deadline
        transport.agents["h5"].advance = transport.agents["h5"].read = lambda *_: None  # type: ignore[method-assign,assignment]
        asked = time.monotonic()
        fleet.stop()
        while not fleet.done:
            fleet.poll(0.1)
    assert time.monotonic() - asked < coordinator.COLLECTING + 2
    assert {member.name: member.reason.partition(",")[0] for member in fleet.missing} == {"h5": "no answer at the end"}


def test_a_host_that_talks_on_does_not_keep_a_run_beyond_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """All windows are valid, and there is no end of them."""
    monkeypatch.setattr(coordinator, "OVERTIME", 0.3)
    transport = SimulatedFleet(growing, windows=10_000, behaviour=lambda host: "talks on" if host == "h2" else "")
    request = FleetRequest(REQUEST.source, window=0.1, seconds=0.4)
    fleet = run_simulated(transport, "h[1-3]", request, 60)[0]
    assert {member.name: member.reason.partition(",")[0] for member in fleet.missing} == {"h2": "no answer at the end"}


def test_half_a_frame_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host whose readiness never comes whole, while the others are ready."""
    monkeypatch.setattr(coordinator, "READYING", 3600.0)
    transport = SimulatedFleet(growing, behaviour=lambda host: "trickles" if host == "h2" else "")
    fleet = run(transport, "h[1-3]", patience=0.5)
    assert {member.name: member.reason for member in fleet.missing} == {"h2": "timeout while compiling"}


def test_nobody_is_waited_for_that_cannot_be_reached() -> None:
    class Unreachable(SimulatedFleet):
        def connect(self, host: str, seconds: float) -> Any:
            from sonde.fleet.transport.connection import UnreachableError
            if host == "h2":
                raise UnreachableError("no way there")
            return super().connect(host, seconds)
    fleet = run(Unreachable(growing), "h[1-3]")
    assert fleet.describe_state().startswith("2 of 3 hosts; missing: h2 (no way there); ")


def test_hosts_apart_and_outliers() -> None:
    hist = Aggregate("hist")

    def latencies(host: str, window: int) -> Contents:
        buckets = [0] * hist.words
        buckets[20 if host == "h3" else 10] = 100 * (window + 1)
        return {"read": buckets}
    fleet = run(SimulatedFleet(latencies, aggregate=hist), "h[1-5]", by_host=True, outliers=True)
    assert {key for key, _ in fleet.results.pairs_of("@")} == {(f"h{i}", "read") for i in range(1, 6)}
    name, ranked = fleet.results.rank_hosts("@")
    assert name.startswith("Wasserstein") and ranked[0] == ("h3", 10.0) and ranked[1][1] == 2.5


def shown(fleet: Fleet, presenter: type[Presenter], tmp_path: Path, quiet: bool = False) -> str:
    file = os.open(tmp_path / "out", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        printing = presenter(fleet, file, quiet)
        printing.finish()
        printing.close()
        return (tmp_path / "out").read_text()
    finally:
        os.close(file)


def test_what_is_missing_is_said_however_quiet(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fleet = run(SimulatedFleet(growing, behaviour=lambda host: "refuses" if host == "h2" else ""), "h[1-2]")
    assert "@[1001]: 4\n" in shown(fleet, Presenter, tmp_path, quiet=True)
    assert capfd.readouterr().err.startswith("1 of 2 hosts; missing: h2 (BTF: none); window 0.4 s; ")
    lines = [json.loads(line) for line in shown(fleet, JsonPresenter, tmp_path).splitlines()]
    assert [line["type"] for line in lines] == ["fleet", "map", "run"]
    assert lines[0]["data"]["missing"] == {"h2": "BTF: none"} and lines[1]["data"]["@"]["1001"] == 4


def test_texts_of_hosts_steer_no_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A key, and the reason of a host that is missing."""
    fleet = run(SimulatedFleet(lambda host, window: {"\x1b[2Jx": [1]}), "h1")
    fleet.members[0].state = "tracing"
    fleet.members[0].leave("\x1b]0;owned\x07\n1,2,3")
    assert fleet.members[0].reason == "\\x1b]0;owned\\x07 1,2,3, after 4 windows"
    shown(fleet, Presenter, tmp_path)
    assert "\x1b" not in capfd.readouterr().err


def test_a_million_keys_are_bounded_and_named() -> None:
    def flood(host: str, window: int) -> Contents:
        return {key: [1] for key in range(300_000 if host == "h1" else 10)}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sonde.merge.table.MOST_KEYS", 100_000)
        patch.setattr(coordinator, "SILENCE", 50.0)  # one thread tells for all hosts, and is long about the first
        fleet = run(SimulatedFleet(flood, windows=1), "h[1-3]")
    assert [member.name for member in fleet.missing] == ["h1"], fleet.missing
    assert "more than 25000 keys" in fleet.missing[0].reason
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10
    assert COUNT.words == 1


def test_a_host_that_was_silent_is_there_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not waited for, and named; when it speaks, all that it tells counts."""
    monkeypatch.setattr(coordinator, "SILENCE", 1.0)
    mute = threading.Event()

    class Pausing(SimulatedAgent):
        def advance(self, now: float) -> None:
            if not (mute.is_set() and self.name == "h2"):
                super().advance(now)
    transport = SimulatedFleet(growing, windows=30, period=0.2, kind=Pausing)
    with transport, Fleet(expand_hosts(["h[1-3]"]), REQUEST, transport) as fleet:
        while not all(member.windows for member in fleet.members):
            fleet.poll(0.1)
        mute.set()
        while not fleet.missing:
            fleet.poll(0.1)
        assert fleet.describe_state().startswith("2 of 3 hosts; missing: h2 (silent for ") and not fleet.done
        mute.clear()
        while not fleet.done:
            fleet.poll(0.1)
    wanted = sum_contents([growing(f"h{i}", 29) for i in range(1, 4)])
    assert not fleet.missing and dict(fleet.results.pairs_of("@")) == wanted


def test_hosts_that_are_missing_for_one_reason_are_said_at_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]
                                                                 ) -> None:
    fleet = run(SimulatedFleet(growing, behaviour=lambda host: "refuses" if host > "h005" else ""), "h[001-500]")
    state = "5 of 500 hosts; missing: h[006-500] (BTF: none); "
    assert fleet.describe_state().startswith(state)
    fleet.members[1].state = "tracing"
    for member in fleet.members[1:3]:
        member.state = "tracing"
        member.leave(f"ssh: connect to host {member.name} port 22: refused")
    assert "h[002-003] (ssh: connect to host h002 port 22: refused, after 4 windows), h[006-500] (" in \
        fleet.describe_state()
    printing = Presenter(fleet, 1)
    printing.say_missing(fleet.missing)
    assert capfd.readouterr().err.splitlines() == [
        "WARNING: h[002-003] are missing from now on: ssh: connect to host h002 port 22: refused, after 4 windows",
        "WARNING: h[006-500] are missing from now on: BTF: none"]


@pytest.mark.parametrize("words", ["web1", "web[1-3,7]", "db[08-11].x,alone,web9", "10.0.0.[1-254]", "a,b"])
def test_names_are_folded_as_they_are_written(words: str) -> None:
    hosts = expand_hosts([words])
    assert expand_hosts(fold_names(hosts)) == hosts and ",".join(fold_names(hosts)) == words


def test_a_coordinator_that_was_stopped_blames_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """All were stopped together, as on a machine that had no time for any of them: the hosts are not gone."""
    monkeypatch.setattr(coordinator, "SILENCE", 2.0)
    running = threading.Event()
    running.set()

    class Stoppable(SimulatedAgent):
        def advance(self, now: float) -> None:
            if running.is_set():
                super().advance(now)
    transport = SimulatedFleet(growing, windows=20, period=0.2, kind=Stoppable)
    with transport, Fleet(expand_hosts(["h[1-3]"]), REQUEST, transport) as fleet:
        while not all(member.windows for member in fleet.members):
            fleet.poll(0.1)
        running.clear()
        fleet.poll(0.3)  # what is on its way
        time.sleep(2.5)
        fleet.poll(0)
        running.set()
        while not fleet.done:
            fleet.poll(0.1)
    wanted = sum_contents([growing(f"h{i}", 19) for i in range(1, 4)])
    assert not fleet.missing and dict(fleet.results.pairs_of("@")) == wanted
