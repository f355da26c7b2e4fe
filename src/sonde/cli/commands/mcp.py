"""``sonde mcp``: tools for language models."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ...errors import UsageError

if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
mcp: a server of tools for language models, which trace within a policy

USAGE
  sonde mcp [--policy FILE] [--recordings DIR]

  An agent starts it, and talks to it over standard input and output by the Model Context Protocol. docs/agents.md has
  the settings, and a first question in five minutes.

OPTIONS
  --policy FILE      what is allowed (/etc/sonde/mcp.toml; without that file the defaults below)
  --recordings DIR   keep recordings there; default: in a folder that is removed at the end
  --job              carry out the request at standard input: the server starts itself so, nobody else does

COLUMNS
  -   nothing is printed

EXAMPLE
  # cat /etc/sonde/mcp.toml
  users = ["oncall"]       # who may start it; default: everybody who can
  others = true            # scripts may read the memory of all processes, not only of the user's own (false)
  scripts = true           # scripts, and not only Sonde's own tools; this is the default
  probes = ["tracepoint", "uprobe"]  # kinds of probes; default: those that need no program's file
  seconds = 60             # of a run, at most; this is the default
  budget = 5.0             # percent of one CPU's time, at most; this is the default
  programs = 200           # attach points, at most; this is the default
  keys = 524288            # elements of all maps together, at most; this is the default
  memory = 64              # MiB of a run beyond maps and rings; this is the default
  rows = 200               # of each table of an answer; this is the default
  disk = 128               # MiB of all recordings; this is the default
  runs = 2                 # at once; this is the default
  unsafe = false           # system(), signal() ...; this is the default
  files = false            # #include "..", cat(), skboutput(); this is the default
  audit = "syslog"         # or stderr, or a file; this is the default

NEEDS
  the extra mcp (mcp); root, for what traces

NOTES
  The file is of the same kind as that of sonde agent. docs/security.md says what a model that is allowed to trace can
  still learn, and what it can cost. Let somebody else start it as root by sudo for exactly `sonde mcp`.
"""
TAKES = set[str]()


def main(parsed: Parsed) -> int:
    """Serve until the client ends it; the exit status."""
    from ...library.data_frames import import_extra
    from ...library.policy import Policy, asking_uid, read_policy
    own = parsed.named
    if parsed.words[1:] or parsed.rest:
        raise UsageError("mcp takes no words", ["sonde mcp --help explains"])
    if "job" in own:
        from ..mcp.child import serve_job
        return serve_job()
    tight = Policy(**TIGHT)
    policy = read_policy(own.get("policy", PATH), tight)
    policy.check_user(asking_uid(), False)
    folder = own.get("recordings", "")
    if folder and not os.path.isdir(folder):
        raise UsageError(f"--recordings: there is no directory {folder}")
    import_extra("mcp", "mcp")
    from ..mcp.server import serve
    serve(policy, asking_uid(), os.path.abspath(folder) if folder else "")
    return 0


PATH = "/etc/sonde/mcp.toml"
# What a model may do if nobody says what: the page above has the same.
TIGHT: dict[str, Any] = {
    "probes": "tracepoint rawtracepoint kprobe kretprobe fentry fexit profile software hardware iter".split(),
    "others": False, "seconds": 60.0, "programs": 200, "keys": 1 << 19, "budget": 5.0, "memory": 64, "rows": 200,
    "disk": 128, "runs": 2}
