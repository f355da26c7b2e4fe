#!/usr/bin/env python3
"""Two services that share a file: one answers requests, the other writes reports, for docs/cases/slow-requests.md.

    slow_requests.py [SECONDS]      as root, where control groups of version 2 can be made

Each is a Python process in a control group as systemd makes it for a service (web.service, reports.service). Both
append to one journal under flock(). The record of what was done is printed as JSON when it ends: for each service its
process and how long, in milliseconds, it waited for the lock and held it, each time.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import tempfile
import time
from pathlib import Path

Record = dict[str, list[float]]


def append(journal: int, line: bytes, record: Record, work: float) -> None:
    """Add a line under the lock, for which others may have to wait; ``work`` seconds are spent in between."""
    asked = time.monotonic()
    fcntl.flock(journal, fcntl.LOCK_EX)
    got = time.monotonic()
    make_entry(journal, line, got + work)
    done = time.monotonic()
    fcntl.flock(journal, fcntl.LOCK_UN)
    record["waited"].append(1000 * (got - asked))
    record["held"].append(1000 * (done - got))


def make_entry(journal: int, line: bytes, until: float) -> None:
    os.write(journal, line)
    while time.monotonic() < until:
        time.sleep(0.001)


def answer_requests(journal: int, record: Record, until: float) -> None:
    while time.monotonic() < until:
        append(journal, b"GET /\n", record, 0)
        time.sleep(0.005)


def write_reports(journal: int, record: Record, until: float) -> None:
    while time.monotonic() < until:
        append(journal, b"report\n", record, 0.06)
        time.sleep(0.25)


def enter_service(mount: Path, name: str) -> None:
    group = mount / "system.slice" / name
    group.mkdir(parents=True, exist_ok=True)
    (group / "cgroup.procs").write_text(str(os.getpid()))


def group_mount() -> Path:
    """Where control groups of version 2 are mounted."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, path, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(path)
    sys.exit("slow_requests.py: control groups of version 2 are not mounted")


def main() -> None:
    until = time.monotonic() + float(sys.argv[1] if len(sys.argv) > 1 else 10)
    mount, outcome, children = group_mount(), {}, []
    with tempfile.TemporaryDirectory() as folder:
        for name, work in (("web.service", answer_requests), ("reports.service", write_reports)):
            record: Record = {"waited": [], "held": []}
            child = os.fork()
            if child == 0:
                enter_service(mount, name)
                work(os.open(f"{folder}/journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT), record, until)
                Path(f"{folder}/{name}").write_text(json.dumps(record))
                os._exit(0)
            children.append((child, name))
        for child, name in children:
            os.waitpid(child, 0)
            outcome[name] = {"pid": child, **json.loads(Path(f"{folder}/{name}").read_text())}
            (mount / "system.slice" / name).rmdir()
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
