"""The control group of the current task, and whether that is a part of a container, pod or service.

Programs cannot read names. The map ``__groups`` has the answers by group, one bit for each question; see spec.py.
"""

from __future__ import annotations

from ...spec import GROUPS, UNPLACED, UNPLACED_BIT
from .. import helpers as h
from ..ir import Block, MapFd, Operand
from . import maps
from .core import Lower


def current_group(lo: Lower) -> Operand:
    """The id of the current task's control group (version 2)."""
    return lo.b.call(h.CGROUP_ID, [], "cgroup_id", pure=True)


def branch_on_group(lo: Lower, kinds: tuple[str, ...], text: str, yes: Block, no: Block) -> None:
    """Branch on whether the task is in anything of these kinds that is so called. Where that is not known yet it counts
    as outside, and the event is counted."""
    wanted = sum([1 << lo.unit.number_group(kind, text) for kind in kinds])
    b = lo.b
    with lo.scope():
        key = lo.temp(16, "group")
        b.store(key.base, key.off, current_group(lo))
        found = b.call(h.MAP_LOOKUP, [MapFd(GROUPS), lo.operand_address(key)], "map_lookup_elem")
        known, outside, unplaced = b.block("known"), b.block("outside"), b.block("unplaced", cold=True)
        b.branch("jeq", found, 0, no, known)
        b.start(known)
        answers = b.load(found, 0)
        b.branch("jne", b.alu("and", answers, wanted), 0, yes, outside)
        b.start(outside)
        b.branch("jeq", b.alu("and", answers, wanted << UNPLACED_BIT), 0, no, unplaced)
        b.start(unplaced)
        b.store(key.base, key.off + 8, wanted)
        count = b.function.reg("count")
        maps.insert_missing(lo, UNPLACED, key, count, 8, no)
        b.atomic_add(count, 0, 1)
        b.jump(no)
