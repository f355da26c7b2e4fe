"""docs/cases/udp-reordering.md, end to end: the generator's own record of sends and reads is the oracle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from namespaces import ip
from packet_filters import has_libpcap
from support import Tracer

GENERATOR = Path(__file__).parents[2] / "docs" / "cases" / "udp_reordering.py"
ROUNDS, READERS, BATCH = 20, 2, 3
COUNT = 2 * ROUNDS * BATCH


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    name = f"sondemc{os.getpid() % 100000}"
    ip("netns", "add", name)
    try:
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "route", "add", "239.0.0.0/8", "dev", "lo")
        yield name
    finally:
        ip("netns", "del", name)


Row = dict[str, object]


@pytest.fixture
def traced(namespace: str) -> tuple[list[Row], dict[str, object], Tracer]:
    """(lines of the tool, the generator's record, the tool), of a run for each test: so one can be tried once more."""
    with Tracer("udporder", "--port", "45040", "--offset", "8", "--everything", "-f", "json") as tracer:
        done = subprocess.run(["ip", "netns", "exec", namespace, sys.executable, str(GENERATOR), str(ROUNDS)],
                              capture_output=True, text=True, check=True, timeout=100)
    messages = [json.loads(line) for line in tracer.lines]
    return [m["data"] for m in messages if m["type"] == "row"], json.loads(done.stdout), tracer


def stage(rows: list[Row], name: str) -> list[Row]:
    return [row for row in rows if row["STAGE"] == name]


def late(numbers: list[int]) -> list[int]:
    """By how much each number is below the highest one before it."""
    found, top = [], -1
    for number in numbers:
        found.append(max(top - number, 0))
        top = max(top, number)
    return found


def test_the_machine_reordered(traced: tuple[list[Row], dict[str, dict[str, list[int]]], Tracer]) -> None:
    _, record, tracer = traced
    assert [len(numbers) for numbers in record["read"].values()] == [COUNT] * READERS
    assert all(any(late(numbers)) for numbers in record["read"].values())
    assert "Lost" not in tracer.stderr and "WARNING" not in tracer.stderr


def test_sends(traced: tuple[list[Row], dict[str, list[list[int]]], Tracer]) -> None:
    rows, record, _ = traced
    sends = stage(rows, "send")
    assert [[row["TID"], row["SEQ"]] for row in sends] == record["sent"]
    assert len({row["PID"] for row in sends}) == 1 and {row["CPU"] for row in sends} == {1}
    assert {row["COMM"] for row in sends} == {"sender0", "sender1"} and not any(row["LATE"] for row in sends)


def test_reads(traced: tuple[list[Row], dict[str, dict[str, list[int]]], Tracer]) -> None:
    """Each reader's numbers in its order, with what was late."""
    rows, record, _ = traced
    reads = stage(rows, "read")
    sockets = set()
    for pid, numbers in record["read"].items():
        mine = [row for row in reads if row["PID"] == row["TID"] == int(pid)]
        assert [row["SEQ"] for row in mine] == numbers
        assert [row["LATE"] for row in mine] == late(numbers)
        assert len({row["SOCKET"] for row in mine}) == 1
        sockets.add(mine[0]["SOCKET"])
    assert len(reads) == READERS * COUNT and len(sockets) == READERS


def test_queues(traced: tuple[list[Row], dict[str, dict[str, list[int]]], Tracer]) -> None:
    """Each socket is given each datagram once, on the CPU where it arrived; what two CPUs queued together has no
    number."""
    rows, _, _ = traced
    arrived = {row["SEQ"]: row["CPU"] for row in stage(rows, "arrive")}
    assert sorted(arrived) == list(range(COUNT)) and len(stage(rows, "arrive")) == COUNT
    for socket in {row["SOCKET"] for row in stage(rows, "read")}:
        queued = [row for row in stage(rows, "queue") if row["SOCKET"] == socket]
        known = [row for row in queued if row["SEQ"] != "?"]
        assert len(queued) == COUNT and len({row["SEQ"] for row in known}) == len(known)
        assert all(row["CPU"] == arrived[row["SEQ"]] for row in known)


def test_the_cause(traced: tuple[list[Row], dict[str, dict[str, list[int]]], Tracer]) -> None:
    """Whatever was overtaken came over another CPU than what overtook it; one CPU's datagrams are in order. Those of
    sender0 came over CPU 0 and are the late ones."""
    rows, record, _ = traced
    cpu = {row["SEQ"]: row["CPU"] for row in stage(rows, "arrive")}
    sender = {number: tid for tid, number in record["sent"]}
    first = {row["TID"]: row["COMM"] for row in stage(rows, "send")}
    for numbers in record["read"].values():
        top = -1
        for number in numbers:
            if number < top:
                assert (cpu[number], cpu[top]) == (0, 1)
                assert (first[sender[number]], first[sender[top]]) == ("sender0", "sender1")
            top = max(top, number)
        for each in (0, 1):
            mine = [number for number in numbers if cpu[number] == each]
            assert mine == sorted(mine)


@pytest.mark.skipif(not has_libpcap(), reason="libpcap is not installed")
def test_the_five_lines_of_the_page(namespace: str) -> None:
    script = (GENERATOR.parent / "udp-reordering.md").read_text().partition("## In five lines")[2].split("```")[1]
    assert script.strip().count("\n") == 4
    with Tracer("-f", "json", "-e", script) as tracer:
        done = subprocess.run(["ip", "netns", "exec", namespace, sys.executable, str(GENERATOR), str(ROUNDS)],
                              capture_output=True, text=True, check=True, timeout=100)
    maps = {name: value for line in map(json.loads, tracer.lines) if line["type"] == "map"
            for name, value in line["data"].items()}
    behind = [sum(map(bool, late(numbers))) for numbers in json.loads(done.stdout)["read"].values()]
    assert abs(sum(maps["@late"].values()) - behind[0]) <= 3, (maps, behind)  # two CPUs may look at @newest at once
    assert {key.partition(",")[0] for key in maps["@late"]} == {"0"} and "@late_within_a_cpu" not in maps, maps


def test_only_late_ones_are_shown(namespace: str) -> None:
    with Tracer("udporder", "--port", "45040", "--offset", "8", "-f", "json") as tracer:
        done = subprocess.run(["ip", "netns", "exec", namespace, sys.executable, str(GENERATOR), "10", "1"],
                              capture_output=True, text=True, check=True, timeout=100)
    messages = [json.loads(line) for line in tracer.lines]
    reads = stage([m["data"] for m in messages if m["type"] == "row"], "read")
    numbers = next(iter(json.loads(done.stdout)["read"].values()))
    behind = late(numbers)
    assert [(row["SEQ"], row["LATE"]) for row in reads] == [(n, b) for n, b in zip(numbers, behind) if b]
    counts = {name: value for m in messages if m["type"] in ("map", "stats") for name, value in m["data"].items()}
    assert counts["@late"].get("read", 0) == sum(1 for b in behind if b)
