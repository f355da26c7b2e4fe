#!/usr/bin/env python3
"""A live dashboard in asyncio: how long the system calls of a process take, and the latest slow ones.

    sudo python3 examples/dashboard.py PID [FRAMES]

One task receives the slow calls as rows, another one reads the kernel's sums each half second: no threads.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque

import sonde

SCRIPT = """
table slow { COMM: "%-16s"; TID: "%-7d"; CALL: "%-18s"; US: "%9d"; }
tracepoint:raw_syscalls:sys_enter { @start[tid] = nsecs; }
tracepoint:raw_syscalls:sys_exit /@start[tid]/ {
  $us = (nsecs - @start[tid]) / 1000;
  delete(@start, tid);
  @us[syscall_name(args.id)] = hist($us);
  if ($us > 10000) { slow(comm, tid, syscall_name(args.id), $us); }
}
tracepoint:sched:sched_process_exit { delete(@start, tid); }
"""


async def collect(tracing: sonde.Trace, latest: deque[str]) -> None:
    """The slow calls, as they come."""
    async for row in tracing.events().rows("slow"):
        latest.append(f"{row.comm:<16} {row.tid:<8} {row.call:<18} {row.us / 1000:.1f} ms")


async def draw(tracing: sonde.Trace, latest: deque[str], frames: int) -> None:
    """The maps as they are now, again and again."""
    calls = tracing.maps["@us"]
    while frames:
        await asyncio.sleep(0.5)
        lines = [f"{'CALL':<18} {'COUNT':>9} {'p50 us':>9} {'p99 us':>9}"]
        for name, times in sorted(calls.items(), key=lambda item: -item[1].total)[:10]:
            half, most = times.quantile(0.5) or 0, times.quantile(0.99) or 0
            lines.append(f"{name:<18} {times.total:>9} {half:>9.0f} {most:>9.0f}")
        clear = "\033[H\033[J" if sys.stdout.isatty() else ""
        print(clear + "\n".join([*lines, "", "slow:", *latest, str(tracing.losses)]), flush=True)
        frames -= 1


async def main(pid: int, frames: int) -> None:
    latest: deque[str] = deque(maxlen=5)
    async with sonde.trace(SCRIPT, pid=pid) as tracing:
        tasks = [asyncio.create_task(collect(tracing, latest)), asyncio.create_task(draw(tracing, latest, frames))]
        _, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)  # the process may end first
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for task in tasks:
            if not task.cancelled():
                task.result()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else -1))
    except KeyboardInterrupt:
        pass
    except sonde.SondeError as error:
        sys.exit("\n".join([error.message, *error.hints]))
