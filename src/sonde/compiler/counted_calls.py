"""Counting the calls and returns of user functions that a script probes at both: what is missing at the end did not
return. An exception, longjmp() or the end of a thread leaves a call without a return, and no event says so."""

from __future__ import annotations

from ..layouts.shared_maps import CALLS, COUNTING
from ..semantics.typed import CheckedProbe
from ..spec import Attach, CountedCalls, UserDetail
from .compilation import Unit
from .lower.core import Lower
from .plan import Plan


def pair_calls(unit: Unit, plans: list[tuple[CheckedProbe, Plan]]) -> list[CountedCalls]:
    """The functions whose calls can be counted, and room for the counts. None for a script that matches calls and
    returns itself, or whose probes a budget may detach."""
    if unit.checked.matches_calls or unit.options.gated:
        return []
    entries: dict[tuple[str, int], int] = {}
    exits: dict[tuple[str, int], tuple[int, str]] = {}
    for _, planned in plans:
        for number, point in zip(planned.numbers, planned.attach):
            if planned.numbers.count(number) > 1 or not isinstance(point.detail, UserDetail):
                continue
            if point.kind == "uretprobe":
                exits.setdefault(_function_of(point, point.detail), (number, point.name.partition(":")[2]))
            elif point.kind == "uprobe" and point.detail.entry:
                entries.setdefault(_function_of(point, point.detail), number)
    calls = [CountedCalls(name, entries[key], number) for key, (number, name) in exits.items() if key in entries]
    if calls:
        unit.globals += [f"{CALLS}{number}" for number in range(len(unit.probes))]
        unit.uncounted = {number for each in calls for number in (each.entry, each.exit)}
    return calls


def _function_of(point: Attach, detail: UserDetail) -> tuple[str, int]:
    """The file, and where in it the function begins."""
    return point.target, point.offset - detail.skipped


def count_event(lo: Lower) -> None:
    """In the first program of an attach point whose events are counted: count this one."""
    if lo.unit.uncounted.isdisjoint(lo.numbers):
        return
    lo.unit.uncounted.difference_update(lo.numbers)
    counts, on = lo.b.block("counts"), lo.b.block("on")
    lo.b.branch("jne", lo.b.load(lo.unit.global_word(COUNTING), 0, 8), 0, counts, on)
    lo.b.start(counts)
    index = lo.probe_index()
    if isinstance(index, int):
        lo.b.atomic_add(lo.unit.global_word(f"{CALLS}{index}"), 0, 1)
        lo.b.jump(on)
    else:
        inside = lo.b.block("inside")
        lo.b.branch("jlt", index, len(lo.unit.probes), inside, on)
        lo.b.start(inside)
        first = lo.b.address(lo.unit.global_word(f"{CALLS}0"))
        lo.b.atomic_add(lo.b.alu("add", first, lo.b.alu("lsh", index, 3)), 0, 1)
        lo.b.jump(on)
    lo.b.start(on)
