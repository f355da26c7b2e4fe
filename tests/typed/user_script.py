"""A program as a user writes it: ``mypy --strict`` knows the types of what the script collects. It prints that."""

from __future__ import annotations

import asyncio
from typing import NamedTuple, assert_type

import sonde

SCRIPT = """
tracepoint:syscalls:sys_enter_getppid /pid == cpid/ {
    printf("%d %s\\n", pid, comm);
    @calls[comm, pid] = count();
    @sizes[comm] = hist(7);
    @total = sum(3);
}
"""


class Call(NamedTuple):
    pid: int
    comm: str


def main(command: list[str]) -> None:
    with sonde.trace(SCRIPT, command=command) as tracing:
        for call in tracing.events(timeout=60).of(Call):
            assert_type(call, Call)
            assert_type(call.comm, str)
            print("event", call.comm, call.pid + 0)
    calls = tracing.maps["@calls"].of(tuple[str, int], int)
    assert_type(calls, sonde.MapView[tuple[str, int], int])
    for (comm, pid), count in calls.items():
        assert_type(pid, int)
        print("calls", comm.upper(), pid, count + 1)
    for histogram in tracing.maps["@sizes"].of(str, sonde.Histogram).values():
        assert_type(histogram.quantile(0.5), float | None)
        print("sizes", histogram.total)
    total = tracing.maps["@total"].of(None, int).value
    assert_type(total, int | None)
    print("total", total)


def decorated() -> None:
    """What a type checker knows of functions that are traced or watched."""
    @sonde.trace(SCRIPT)
    def work(times: int) -> str:
        return "x" * times

    @sonde.watch(p99={"read": "2ms"})
    async def serve(port: int) -> bytes:
        return bytes(port)
    assert_type(work(1), str)
    assert_type(work.tracing, sonde.Trace)
    assert_type(work.events, list[sonde.Event])
    assert_type(asyncio.run(serve(1)), bytes)
    with sonde.watch(no_connect=True) as watching:
        assert_type([each.measured for each in watching], list[int])


if __name__ == "__main__":
    import sys
    main(sys.argv[1:])
