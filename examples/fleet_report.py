#!/usr/bin/env python3
"""A report on many hosts: how long reads from disks and network file systems, pipes and sockets take on each.

    sudo python3 examples/fleet_report.py web[001-500] 10

Prints Markdown: a table of hosts, the slowest first, and what the report lacks. `local:a,local:b` are two agents on
this machine.
"""

from __future__ import annotations

import sys

import sonde

SCRIPT = """
tracepoint:syscalls:sys_enter_read { @start[tid] = nsecs; }
tracepoint:syscalls:sys_exit_read /@start[tid]/ {
  @us = hist((nsecs - @start[tid]) / 1000);
  delete(@start, tid);
}
tracepoint:sched:sched_process_exit { delete(@start, tid); }
"""


def report(hosts: list[str], seconds: float) -> str:
    with sonde.fleet(hosts, SCRIPT, seconds=seconds, by_host=True) as tracing:
        tracing.run()
    rows = [(host, times.total, times.quantile(0.5) or 0, times.quantile(0.99) or 0)
            for host, times in tracing.maps["@us"].items()]
    lines = ["| host | reads | p50 us | p99 us |", "|---|---:|---:|---:|"]
    lines += [f"| {host} | {total} | {half:.0f} | {most:.0f} |" for host, total, half, most in
              sorted(rows, key=lambda row: -row[3])]
    lines += ["", f"{tracing}"]
    lines += [f"missing: {host}: {why}" for host, why in tracing.missing.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        print(report(sys.argv[1].split(","), float(sys.argv[2]) if len(sys.argv) > 2 else 10))
    except sonde.SondeError as error:
        sys.exit("\n".join([error.message, *error.hints]))
