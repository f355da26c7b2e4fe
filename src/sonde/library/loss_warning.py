"""The warning that a table is incomplete."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .traced_run import TracedRun

# kind of ErrorSite -> what is missing
_INCOMPLETE = {"map_full": "{map} was full", "map_busy": "updates of {map} failed", "stack_lost": "stacks lost",
               **dict.fromkeys(("preempted", "args_lost", "return_missed", "tail_unseen"), "events dropped")}


def warn_of_losses(trace: TracedRun) -> None:
    """A RuntimeWarning if the trace lost anything: what is missing from a table cannot be seen in it."""
    import warnings
    losses = trace.losses
    lost = sum(count for _, count in losses.records)
    failed = [site for site, _ in losses.errors if site.kind in _INCOMPLETE]
    skipped = sum(count for _, count in losses.skipped)
    if lost or failed or skipped or losses.withheld:
        parts = [f"{lost} events lost"] if lost else []
        parts += [f"{skipped} events skipped by the kernel"] if skipped else []
        parts += ["events kept back by the budget"] if losses.withheld else []
        parts += sorted({_INCOMPLETE[site.kind].format(map=site.map) for site in failed})
        warnings.warn(f"the trace is incomplete: {', '.join(parts)} (Trace.losses has all)", RuntimeWarning,
                      stacklevel=4)
