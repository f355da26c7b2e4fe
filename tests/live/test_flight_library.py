"""The flight recorder as a Python library has it: armed by ``flight=``, its dumps are iterated over."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import sonde

PROJECT = Path(__file__).parents[2]
NULL = os.open("/dev/null", os.O_RDONLY)
LSEEK = f"tracepoint:syscalls:sys_enter_lseek /pid == {os.getpid()} && args.fd == {NULL}/"
NUMBERED = (f'{LSEEK} {{ printf("number=%d cpu=%d\\n", args.offset, cpu); @calls = count(); '
            '@last[comm] = args.offset; }')


class Row(NamedTuple):
    number: int
    cpu: int


def seek(first: int, count: int) -> None:
    """Numbered calls."""
    for number in range(first, first + count):
        os.lseek(NULL, number, 0)


@contextmanager
def seeking() -> Iterator[None]:
    """Numbered calls without end, in a thread of its own that stays on a CPU."""
    over = threading.Event()

    def go_on() -> None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        number = 1
        while not over.is_set():
            os.lseek(NULL, number, 0)
            number += 1
    caller = threading.Thread(target=go_on)
    caller.start()
    try:
        yield
    finally:
        over.set()
        caller.join()


def numbers(dump: sonde.FlightDump) -> list[int]:
    return [event.args[0] for event in dump if event.kind == "printf"]


def test_dumps_one_after_another() -> None:
    with sonde.trace(NUMBERED, flight="1h,1M") as tracing:
        assert not numbers(tracing.dump())
        seek(1, 500)
        first = tracing.dump("half way")
        seek(501, 700)
        second = tracing.dump()
        assert numbers(first) == list(range(1, 501)) and len(first) == 500 and numbers(first) == numbers(first)
        assert numbers(second) == list(range(1, 1201))
        assert first.maps["@calls"].value == 500 and second.maps["@calls"].value == 1200
        assert set(first.maps["@last"].values()) == {500} and set(second.maps["@last"].values()) == {1200}
        assert (first.number, first.why, first.by, second.number) == (2, "half way", "dump", 3)
        assert sum(part.count for part in first.cpus) == 500 and not first.lost
        assert str(first).startswith("dump 2: dump: half way\n") and "500 records" in repr(first)
        times = [event.time for event in second]
        assert times == sorted(times) and first.when < second.when
        assert list(second.of(Row)) == [Row(*event.args) for event in second]
    assert numbers(second) == list(range(1, 1201)), "it outlives the flight"
    with pytest.raises(sonde.UsageError, match="closed"):
        tracing.dump()


def test_many_dumps_of_a_storm_are_exact() -> None:
    last = 0
    with sonde.trace(NUMBERED, flight="1h,512K") as tracing, seeking():
        for _ in range(20):
            threading.Event().wait(0.02)
            own = [row.number for row in tracing.dump().of(Row)]
            assert own == list(range(own[0], own[0] + len(own))) and own[-1] > last
            last = own[-1]
        assert not tracing.losses


def test_the_window() -> None:
    with sonde.trace(NUMBERED, flight="200ms,1M") as tracing:
        seek(1, 100)
        threading.Event().wait(0.4)
        seek(101, 3)
        assert numbers(tracing.dump()) in ([101, 102, 103], [102, 103], [103], [])  # on a machine that stands still


ASKING = f'{LSEEK} {{ printf("%d\\n", args.offset); if (args.offset == 100) {{ dump("a hundred"); }} }} '


def test_the_script_asks() -> None:
    script = "config = { unstable_dump = enable } " + ASKING
    with sonde.trace(script, flight="1h,1M") as tracing:
        assert not list(tracing.dumps(timeout=0.05))
        seek(1, 100)
        found = next(iter(tracing.dumps(timeout=60)))
        assert (found.why, found.by) == ("a hundred", "dump()") and numbers(found) == list(range(1, 101))
        seek(100, 1)
        assert not list(tracing.dumps(timeout=0.2)), "it is not heard twice within ten seconds"
        with pytest.raises(sonde.UsageError, match=r"dump\(\)"):
            tracing.events()


def test_the_end_asks_too() -> None:
    script = ('config = { unstable_dump = enable } ' + NUMBERED +
              'interval:ms:300 { exit(); } end { printf("that is all\\n"); dump("over"); }')
    with sonde.trace(script, flight="1h,1M") as tracing:
        seek(1, 10)
        dumps = list(tracing.dumps(timeout=60))
        assert [dump.why for dump in dumps] == ["over"]
        *calls, last = dumps[0]
        assert [event.args[0] for event in calls] == list(range(1, 11)) and last.args == ()
        assert [event.kind for event in tracing.stop()] == ["printf"]
    assert tracing.maps["@calls"].value == 10


def test_awaited() -> None:
    script = "config = { unstable_dump = enable } " + ASKING

    async def wait() -> list[int]:
        async with sonde.trace(script, flight="1h,1M") as tracing:
            asyncio.get_running_loop().call_later(0.1, seek, 1, 100)
            async for dump in tracing.dumps(timeout=60):
                return numbers(dump)
        return []
    assert asyncio.run(wait()) == list(range(1, 101))


def test_what_is_to_be_cleared_is() -> None:
    with sonde.trace(f"{LSEEK} {{ @n[args.offset] = count(); }} interval:ms:50 {{ clear(@n); }}",
                     flight="1h,1M") as tracing:
        seek(1, 100)
        for _ in range(200):
            threading.Event().wait(0.05)
            if not len(tracing.dump().maps["@n"]):
                return
    raise AssertionError("the map was never cleared")


def test_stacks_and_tables() -> None:
    with sonde.trace(f'{LSEEK} {{ printf("%s %d\\n", kstack, args.offset); }}', flight="1h,1M") as tracing:
        seek(1, 3)
        dump = tracing.dump()
        frames = [event.args[0].frames for event in dump]
        assert len(frames) == 3 and all(frames)
    with pytest.raises(sonde.UsageError, match="stacks"):
        list(dump)
    pytest.importorskip("pandas", reason="pandas is not installed")
    with sonde.trace(NUMBERED, flight="1h,1M") as tracing:
        seek(1, 5)
        frame = tracing.dump().to_pandas()
    assert list(frame["number"]) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("script", "options", "said"), [
    (NUMBERED, {"flight": "soon"}, "takes a time"), (NUMBERED, {"flight": "1s,1K"}, "at least"),
    (f"{LSEEK} {{ system(\"true\"); }}", {"flight": "1s", "unsafe": True}, "has no place in a flight")],
    ids=["time", "size", "action"])
def test_what_makes_no_sense(script: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(sonde.UsageError, match=said):
        sonde.trace(script, **options)


def test_without_a_flight() -> None:
    with sonde.trace(NUMBERED) as tracing, pytest.raises(sonde.UsageError, match="flight="):
        tracing.dump()


def test_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    """That of docs/flight.md."""
    block, = re.findall(r"^```python\n(.*?)^```$", (PROJECT / "docs" / "flight.md").read_text(), re.M | re.S)
    over = threading.Event()

    def open_files() -> None:
        while not over.wait(0.001):
            os.close(os.open("/etc/hostname", os.O_RDONLY))
    opener = threading.Thread(target=open_files)
    opener.start()
    space: dict[str, Any] = {}
    try:
        exec(compile(block.replace("print(sum", "import time; time.sleep(0.3); print(sum"), "docs/flight.md", "exec"),
             space)
    finally:
        over.set()
        opener.join()
    printed = capsys.readouterr().out
    assert f" {os.getpid()} /etc/hostname\n" in printed and "dump 1: dump: it went wrong" in printed
    assert len(space["dump"]) >= 5
