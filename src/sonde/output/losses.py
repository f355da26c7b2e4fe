"""What did not get through, said where it matters: events by probe, map updates and other failures by script line."""

from __future__ import annotations

from errno import E2BIG, EFAULT, ENOENT
from typing import TYPE_CHECKING

from ..spec import ErrorSite
from .text import failure

if TYPE_CHECKING:
    from ..runtime.session import Losses
    from . import Output

# kind of ErrorSite → what happened; the first words are the ones that bpftrace's users search for
_MESSAGES = {
    "map_full": "Map full; can't update element. Raise max_map_keys, or declare {map} larger: let {map} = hash(20000);",
    "map_busy": "Can't update map element: the kernel had no memory for {map} at that moment, or was at work on it.",
    "no_key": "Can't delete map element because it does not exist.",
    "divide": "Divide or modulo by 0 detected. This can lead to unexpected results. 1 is being used as the result.",
    "loop": "A loop or a search was stopped after 8388608 rounds, the most that the kernel allows.",
    "index": "Array access out of bounds. This can lead to unexpected results. Element 0 is being used.",
    "stack_lost": "Stack trace lost: there was no room for it, or the kernel could not take it.",
    "preempted": "Event dropped: too many tasks were in this program on one CPU at once.",
    "read": "Bad address. This can lead to unexpected results. 0 is being used as the result.",
}
_CODES = {"map_full": E2BIG, "no_key": ENOENT, "read": EFAULT}  # the failures that say which error it was


_EXPECTED = ("read", "no_key")  # what many scripts live with: no part of the output without -k


def report_losses(out: Output, losses: Losses, reads: bool = False, asked: bool = True) -> None:
    """Say everything that was lost; ``reads`` includes failed reads of memory. Unless ``asked`` for (-k), what scripts
    live with is said on stderr in any format."""
    lost = sum(count for _, count in losses.records)
    if lost:
        out.lost_events(lost)
        if len(losses.records) > 1:
            for probe, count in losses.records:
                out.note(f"  {count} of {probe}")
    for site, count in losses.errors:
        if site.kind != "read" or reads:
            code = _CODES.get(site.kind, 0)
            found = message(site, count), site.span, site.helper if code else "", -code
            if site.kind in _EXPECTED and not asked:
                out.note(failure(*found))
            else:
                out.runtime_error(*found)
    if losses.late:
        out.note(f"WARNING: {losses.late} event{'' if losses.late == 1 else 's'} came late, out of order")
    if losses.short:
        which = "1 stack of dw_ustack ends" if losses.short == 1 else f"{losses.short} stacks of dw_ustack end"
        out.note(f"WARNING: {which} early: deeper than the 16 KiB that are copied, or through code without unwind "
                 "tables")
    if losses.unseen:
        out.note(f"WARNING: {losses.unseen} mapping{'' if losses.unseen == 1 else 's'} of processes went unseen: names "
                 "in user stacks may be missing")
    for probe, count in losses.skipped:
        out.note(f"WARNING: {probe}: {skipped(probe, count)}")


def skipped(probe: str, count: int) -> str:
    """How often a program was not run. A kretprobe's calls under way share a few of the kernel's records."""
    if probe.startswith("kretprobe:"):
        return f"the kernel missed {count} return{'' if count == 1 else 's'}: too many calls under way, or nested"
    return f"the kernel skipped {count} nested event{'' if count == 1 else 's'}"


def message(site: ErrorSite, count: int) -> str:
    """What happened at a place in the script, and how often."""
    text = _MESSAGES.get(site.kind, f"{site.helper or site.kind} failed.").format(map=site.map)
    return text if count == 1 else f"{text} [{count} times]"
