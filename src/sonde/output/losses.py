"""What was lost, reported where it matters: events by probe, map updates and other failures by script line."""

from __future__ import annotations

from errno import E2BIG, EFAULT

from ..runtime.losses import Losses, describe_error, join_placeless
from .text import failure_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import Output

_ROOM = "HINT: with SONDE_MAX_MAP_KEYS=N in the environment, maps without a declared size have room for N keys"
_CODES = {"map_full": E2BIG, "no_key": 0, "read": EFAULT}  # the failures that say which error it was


def report_losses(out: Output, losses: Losses, reads: bool = False, count_reads: bool = True) -> None:
    """Say everything that was lost; ``reads`` includes failed reads of memory. Without ``count_reads`` (-k), failed
    reads are said on stderr in any format."""
    lost = sum(count for _, count in losses.records)
    if lost:
        out.report_lost_events(lost)
        if len(losses.records) > 1:
            for probe, count in losses.records:
                out.write_note(f"  {count} of {probe}")
    for site, count in join_placeless(losses.errors):
        if site.kind != "read" or reads:
            helper = site.helper if site.kind in _CODES else ""
            failure = describe_error(site), site.span, helper, -_CODES.get(site.kind, 0), count
            if site.kind == "read" and not count_reads:
                out.write_note(failure_message(*failure))
            else:
                out.report_runtime_error(*failure)
    if any(site.kind == "map_full" for site, _ in losses.errors):
        out.write_note(_ROOM)
    if losses.withheld:
        out.report_withheld(losses.withheld)
    for note in losses.notes:
        out.write_note(f"WARNING: {note}")
    if losses.unreturned:
        out.report_unreturned(losses)


def report_unfinished(out: Output, commands: int) -> None:
    """Say what the end of the run has cut short: commands of system(), and output that nobody has read."""
    if commands:
        out.write_note(
            f"WARNING: {commands} command{'' if commands == 1 else 's'} of system() not run: the run was to end")
    out.flush(True)
    if out.unread:
        out.write_note(f"WARNING: {out.unread} bytes of output lost: nobody read them, and the run was to end")
