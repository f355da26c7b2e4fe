#!/usr/bin/env python3
"""What the shipped tools cost: each runs on a workload of scripts/workload.py while the kernel counts its programs'
runs and their time (--stats). Writes docs/tools/overhead.json, which scripts/gen_tool_docs.py puts on the tools' pages.

    scripts/measure_tools.py [TOOL...]      as root; without names, all tools
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from sonde import tools  # noqa: E402
from support import Tracer  # noqa: E402

FILE = ROOT / "docs" / "tools" / "overhead.json"
ALL = ("tcp", "refused", "udp")
PARTS = {  # of the workload, where it is not ALL
    "bashreadline": ("shells",), "biolatency": ("writes",), "execsnoop": ("execs",), "opensnoop": ("opens",) * 50,
    "syscount": ("reads",), "gethostlatency": ("names",), "offcputime": ("sleeps",) * 20, "runqlat": ("sleeps",) * 20,
    "offwaketime": ("sleeps",) * 20, "softirqs": ("udp",) * 10, "hardirqs": ("writes",), "sofdsnoop": ("fds",),
    "tcpretrans": ("unanswered",), "qdisclat": ("shaped",), "nettxlat": ("shaped",), "arplat": ("udp",) * 10,
    "superping": ("udp",) * 10, "ipecn": ("udp",) * 10, "netsize": ("udp",) * 10, "skbdrop": ("refused",) * 10,
    "tcpdrop": ("refused",) * 10, "udplife": ("udp",) * 10, "udpconnect": ("udpconnects",),
    "pacinglat": ("sleeps",) * 20, "solisten": ("listens",), "tcpbind": ("listens",), "sormem": ("udp",) * 10,
    "biosnoop": ("writes",), "biostacks": ("writes",), "bitesize": ("writes",), "syncsnoop": ("writes",),
    "naptime": ("sleeps",) * 20, "cpuwalk": ("busy",), "runqlen": ("sleeps",) * 20,
    "pidpersec": ("execs",), "capable": ("execs",), "statsnoop": ("execs",), "undump": ("fds",),
    "biotop": ("writes",), "cachestat": ("writes",) * 5, "cpudist": ("sleeps",) * 20, "drsnoop": ("writes",),
    "exitsnoop": ("execs",), "fileslower": ("writes",) * 5, "filetop": ("writes",) * 5, "killsnoop": ("kills",),
    "memleak": ("udp",), "hrtimers": ("sleeps",) * 20, "setuids": ("identities",), "slabratetop": ("udp",),
    "stackcount": ("execs",), "funccount": ("execs",), "threadsnoop": ("threads",), "wakeuptime": ("sleeps",) * 20,
    "writeback": ("writes",) * 5, "tcpcong": ("tcp",) * 5, "tcpnagle": ("tcp",) * 5, "netqtop": ("udp",) * 10,
    "sslsnoop": ("handshakes",), "ssllatency": ("handshakes",), "biopattern": ("writes",), "biolatpcts": ("writes",),
    "cachetop": ("writes",) * 5, "dirtop": ("writes",) * 5, "readahead": ("writes",) * 5,
    "filegone": ("execs", "writes"), "runqslower": ("sleeps",) * 20, "cpuunclaimed": ("busy",),
    "klockstat": ("threads",), "funclatency": ("names",), "funcslower": ("names",),
}
# Events in programs that the workload starts.
EVERYBODY = {"bashreadline", "capable", "statsnoop", "exitsnoop", "stackcount", "funccount"}
OPTIONS = {"netqtop": ("-n", "lo"), "memleak": ("-z", "1"), "funclatency": ("c:getaddrinfo",),
           "funcslower": ("c:getaddrinfo",)}
SETTLED = ("begin", "end", "interval")


def measure(name: str) -> dict[str, object]:
    """runs and ns of the tool's programs, by probe, without those that run once."""
    parts = PARTS.get(name, ALL)
    command = [sys.executable, "-S", str(ROOT / "scripts" / "workload.py"), *parts]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        tool = tools.find_tool(name)
        assert tool is not None
        mine = ["-p", str(process.pid)] if tool.takes_process and name not in EVERYBODY else []
        with Tracer("--stats", "-f", "json", *mine, name, *OPTIONS.get(name, tool.sample_arguments),
                    timeout=100) as tracer:
            os.kill(process.pid, signal.SIGUSR1)
            assert process.stdout.readline() == "done\n"
        os.kill(process.pid, signal.SIGUSR1)
    stats = [json.loads(line)["data"] for line in tracer.lines if line.startswith('{"type": "stats"')][-1]
    rows = [{"probe": row["probe"], "how": row["how"], "runs": row["runs"], "ns": round(row["ns_per_run"])}
            for row in stats["probes"] if row["runs"] and not row["probe"].startswith(SETTLED)]
    return {"parts": " ".join(dict.fromkeys(parts)), "release": os.uname().release, "probes": rows}


def main() -> None:
    found = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in sys.argv[1:] or tools.tool_names():
        found[name] = measure(name)
        print(name, sum(row["runs"] for row in found[name]["probes"]), file=sys.stderr)
        FILE.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
