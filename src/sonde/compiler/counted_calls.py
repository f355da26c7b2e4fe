"""Counting the calls and returns of user functions that a script probes at both: what is missing at the end did not
return. An exception, longjmp() or the end of a thread leaves a call without a return, and no event says so."""

from __future__ import annotations

from ..layouts.shared_maps import CALLS, COUNTING
from ..semantics.typed import CheckedProbe
from ..spec import Attach, CountedCalls, UserDetail
from .compilation import Unit
from .lower import family
from .lower.core import Lower
from .lower.probes.contexts import JUMPS, TAIL_RETURNS
from .plan import Plan

COUNTERS = 3  # of each attach point, where calls end with jumps to other functions: see Context.counter


def pair_calls(unit: Unit, plans: list[tuple[CheckedProbe, Plan]]) -> list[CountedCalls]:
    """The functions whose calls can be counted, and room for the counts. None for a script that matches calls and
    returns itself, or whose probes a budget may detach. Of a function that is not probed at its entry, calls can be
    counted at jumps to functions that return in its place."""
    if unit.checked.matches_calls or unit.options.gated:
        return []
    entries: dict[tuple[str, int], int] = {}
    exits: dict[tuple[str, int], tuple[int, str]] = {}
    jumps: dict[tuple[str, int], int] = {}
    for _, planned in plans:
        if planned.context.counter in (None, TAIL_RETURNS):
            continue
        for number, point in zip(planned.numbers, planned.attach):
            if planned.numbers.count(number) > 1 or not isinstance(point.detail, UserDetail):
                continue
            key = _function_of(point, point.detail)
            if planned.context.counter == JUMPS:
                jumps.setdefault(key, number)
            if point.kind == "uretprobe":
                exits.setdefault(key, (number, point.name.partition(":")[2]))
            elif point.kind == "uprobe" and point.detail.entry:
                entries.setdefault(key, number)
    count = len(unit.probes)
    calls = [CountedCalls(name, entries[key], [number, *([TAIL_RETURNS * count + number] if jumps else ())])
             for key, (number, name) in exits.items() if key in entries]
    calls += [CountedCalls(exits[key][1], JUMPS * count + number, [TAIL_RETURNS * count + number])
              for key, number in jumps.items() if key not in entries]
    if calls:
        unit.globals += [f"{CALLS}{number}" for number in range((COUNTERS if jumps else 1) * count)]
        unit.uncounted = {(number, type(planned.context)) for _, planned in plans for number in planned.numbers}
    return calls


def _function_of(point: Attach, detail: UserDetail) -> tuple[str, int]:
    """The file, and where in it the function begins."""
    return point.target, point.offset - detail.skipped


def count_event(lo: Lower) -> None:
    """In the first program of each kind of an attach point: count this event."""
    counted = {(number, type(lo.context)) for number in lo.numbers}
    if lo.context.counter is None or lo.unit.uncounted.isdisjoint(counted):
        return
    lo.unit.uncounted.difference_update(counted)
    counts, on = lo.b.block("counts"), lo.b.block("on")
    lo.b.branch("jne", lo.b.load(lo.unit.global_word(COUNTING), 0, 8), 0, counts, on)
    lo.b.start(counts)
    if lo.unit.options.knows_family:  # the probes fire for strangers too, and the script turns those away
        ours = lo.b.block("ours")
        family.branch_on_current(lo, ours, on)
        lo.b.start(ours)
    index, base = lo.probe_index(), lo.context.counter * len(lo.unit.probes)
    if isinstance(index, int):
        lo.b.atomic_add(lo.unit.global_word(f"{CALLS}{base + index}"), 0, 1)
        lo.b.jump(on)
    else:
        inside = lo.b.block("inside")
        lo.b.branch("jlt", index, len(lo.unit.probes), inside, on)
        lo.b.start(inside)
        first = lo.b.address(lo.unit.global_word(f"{CALLS}{base}"))
        lo.b.atomic_add(lo.b.alu("add", first, lo.b.alu("lsh", index, 3)), 0, 1)
        lo.b.jump(on)
    lo.b.start(on)
