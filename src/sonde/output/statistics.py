"""``--stats``: what each program of a run cost, as a table or as JSON."""

from __future__ import annotations

from ..runtime.costs.statistics import ProbeCost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_HEAD = ("runs", "ns/run", "CPU", "skipped", "lost", "probe")


def cost_lines(costs: Sequence[ProbeCost]) -> list[str]:
    """A table, and its sum."""
    if not costs:
        return ["no programs ran"]
    rows = [(str(c.runs), f"{c.mean:.0f}", share_text(c.share), str(c.skipped), str(c.lost), _cost_name(c))
            for c in costs]
    runs, time = sum(c.runs for c in costs), sum(c.time_ns for c in costs)
    rows.append((str(runs), f"{time / runs if runs else 0:.0f}", share_text(sum(c.share for c in costs)),
                 str(sum(c.skipped for c in costs)), str(sum(c.lost for c in costs)), "all programs"))
    return [f"In {costs[0].seconds:.3f} s the programs took, of one CPU's time:", *format_table(_HEAD, rows)]


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = ()) -> list[str]:
    """Lines with the columns aligned to the right, but for the last one and those in ``left``."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head) - 1)]
    return ["  ".join([*[cell.ljust(width) if i in left else cell.rjust(width)
                         for i, (cell, width) in enumerate(zip(row, widths))], row[-1]]) for row in (head, *rows)]


def share_text(share: float) -> str:
    """Per cent of one CPU, with two digits that count."""
    return f"{share:.2%}" if share < 0.1 else f"{share:.1%}"


def _cost_name(cost: ProbeCost) -> str:
    more = f" and {cost.points - 1} more" if cost.points > 1 else ""
    return f"{cost.probe}{more}" + (f" (by {cost.method})" if cost.method else "")

