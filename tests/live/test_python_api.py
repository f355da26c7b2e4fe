"""Decorators, rows, streams and objectives of the library, on workloads of this process."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import pickle
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import sonde

GETPPID = "tracepoint:syscalls:sys_enter_getppid"
ROWS = """table reads { PID: "%-7d"; COMM: "%-16s"; LAT_US: "%d.%d"; }
table ends { WHY: "%s"; }
begin { heading(reads); for ($i : 0..3) { reads(pid, comm, $i, 5); } ends("over"); printf("no row\\n"); exit(); }"""


def test_calls_are_traced_one_by_one() -> None:
    @sonde.trace(f'{GETPPID} {{ @ = count(); printf("%d", tid); }}', pid=os.getpid())
    def work(times: int) -> int:
        """Ask for the parent."""
        for _ in range(times):
            os.getppid()
        return times * 2

    assert work.__doc__ == "Ask for the parent." and work.events == []
    for times in (5, 3):
        assert work(times) == times * 2
        assert work.tracing.maps["@"].value == len(work.events) == times and not work.tracing.losses

    class Worker:
        @sonde.trace(f"{GETPPID} {{ @ = count(); }}", pid=os.getpid())
        async def fail(self) -> None:
            await asyncio.sleep(0)
            os.getppid()
            raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        asyncio.run(Worker().fail())
    assert Worker.fail.tracing.maps["@"].value == 1


def test_what_has_no_call_is_not_decorated() -> None:
    def generate() -> Iterator[int]:
        yield 1
    with pytest.raises(sonde.UsageError, match=r"generate\(\) is a generator"):
        sonde.trace("begin { }")(generate)
    with pytest.raises(sonde.UsageError, match="without command="):
        sonde.trace("begin { }", command="true")(os.getppid)


class Reads(NamedTuple):
    pid: int
    comm: str
    lat_us: str


def test_rows_are_data_classes() -> None:
    with sonde.trace(ROWS) as tracing:
        types = tracing.events().row_types()
        assert {name: each.__annotations__ for name, each in types.items()} == {
            "reads": {"pid": int, "comm": str, "lat_us": str}, "ends": {"why": str}}
        source: dict[str, Any] = {}
        exec(tracing.events().row_source(), source)
        assert source["Reads"].__annotations__ == Reads.__annotations__ and source["Ends"]._fields == ("why",)
        with pytest.raises(sonde.UsageError, match="no table writes"):
            tracing.events().rows("writes")
        rows = list(tracing.events(timeout=30).rows())
    first, *_, last = rows
    assert len(rows) == 4 and first.pid == os.getpid() and first.lat_us == "0.5" and type(first) is types["reads"]
    assert repr(last) == "Ends(why='over')" and last == types["ends"]("over") and first.event.probe == "begin"
    assert pickle.loads(pickle.dumps(rows)) == rows
    assert dataclasses.asdict(rows[1]) == {"pid": os.getpid(), "comm": first.comm, "lat_us": "1.5"}
    with sonde.trace(ROWS) as tracing:
        assert list(tracing.events(timeout=30).of(Reads)) == [dataclasses.astuple(row) for row in rows[:3]]


def test_streams_are_read_without_a_copy() -> None:
    """A column of numbers is the bytes that were cut out of the ring, in whatever reads the stream."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    script = 'begin { for ($i : 0..500) { @n = sum($i); printf("n=%d comm=%s", $i, comm); } exit(); }'
    with sonde.trace(script) as tracing:
        events = tracing.events(timeout=30)
        batches = list(events.to_reader())
        again = pa.RecordBatchReader.from_stream(pa.RecordBatchReader.from_batches(batches[0].schema, batches))
        column = pa.table(again)["n"]
        again = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
        assert column.to_pylist() == list(range(500))
        assert [chunk.buffers()[1].address for chunk in column.chunks] == [
            batch["n"].buffers()[1].address for batch in batches]
        assert set(pa.table(tracing.maps["@n"]).column_names) == {"value"}
        duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
        numbers = duckdb.sql("SELECT sum(n), count(DISTINCT comm) FROM again")
        assert numbers.fetchall() == [(500 * 499 // 2, 1)]
