"""Whose events are they? ``-p`` asks which process runs when one happens; an interrupt's happen while any does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..options import Parsed
    from ..spec import ScriptSpec

# Attach points that interrupts set off too.
INTERRUPTS = ("tracepoint:irq*:*", "tracepoint:napi:*", "tracepoint:neigh:*", "tracepoint:net:*", "tracepoint:qdisc:*",
              "tracepoint:skb:*", "tracepoint:tcp:*", "tracepoint:timer:*", "tracepoint:udp:*",
              "tracepoint:block:block_rq_complete", "tracepoint:block:block_io_done", "tracepoint:sched:sched_wak*",
              "tracepoint:sock:sock_rcvqueue_full", "tracepoint:sock:inet_sock_set_state",
              "tracepoint:sock:sk_data_ready")


def interrupted(probes: Iterable[str]) -> list[str]:
    """Those of the attach points that interrupts set off too."""
    return [probe for probe in probes if any(fnmatchcase(probe, pattern) for pattern in INTERRUPTS)]


def warnings(spec: ScriptSpec, parsed: Parsed) -> Iterator[str]:
    """What there is to say before a trace begins: the compiler's findings, and what -p cannot do where the user chose the
    probes of a tool or command."""
    for warning in spec.warnings:
        yield warning.render()
    if parsed.has("pid") and _takes_probes(parsed) and (found := interrupted(spec.probes)):
        others = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield (f"WARNING: {found[0]}{others}: interrupts set it off too, whichever process is running; -p keeps what "
               f"happens while {parsed.get('pid')} does\n"
               "HINT: where the event itself says whose it is, filter by that: args.pid, the port, the socket")


def _takes_probes(parsed: Parsed) -> bool:
    from . import find
    tool = find(parsed.tool) if parsed.tool else None
    return bool(tool.required) if tool is not None else parsed.words[:1] == ["argdist"]
