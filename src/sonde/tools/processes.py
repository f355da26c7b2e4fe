"""Whose events are they? ``-p`` asks which process runs when one happens; an interrupt's happen while any does."""

from __future__ import annotations

from fnmatch import fnmatchcase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# Attach points that interrupts set off too.
INTERRUPTS = ("tracepoint:irq*:*", "tracepoint:napi:*", "tracepoint:neigh:*", "tracepoint:net:*", "tracepoint:qdisc:*",
              "tracepoint:skb:*", "tracepoint:tcp:*", "tracepoint:timer:*", "tracepoint:udp:*",
              "tracepoint:block:block_rq_complete", "tracepoint:block:block_io_done", "tracepoint:sched:sched_wak*",
              "tracepoint:sock:sock_rcvqueue_full", "tracepoint:sock:inet_sock_set_state",
              "tracepoint:sock:sk_data_ready")


def interrupted_probes(probes: Iterable[str]) -> list[str]:
    """Those of the attach points that interrupts set off too."""
    return [probe for probe in probes if any(fnmatchcase(probe, pattern) for pattern in INTERRUPTS)]


def process_caution(probes: Iterable[str], pid: int) -> str:
    """What -p cannot do with these attach points; "" if it can."""
    interrupted = interrupted_probes(probes)
    if not interrupted:
        return ""
    others = f" and {len(interrupted) - 1} more" if len(interrupted) > 1 else ""
    return (f"WARNING: {interrupted[0]}{others}: interrupts set it off too, whichever process is running; -p keeps "
            f"what happens while {pid} does\n"
            "HINT: where the event itself says whose it is, filter by that: args.pid, the port, the socket")
