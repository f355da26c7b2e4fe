"""The control group of the current task, and whether it is part of a container, pod or service.

Programs cannot read names. The map ``__groups`` has the answers by group, one bit for each question; those for groups
that existed when the script started are also in memory that is read without a call. See layouts/shared_maps.py.
"""

from __future__ import annotations

from ...layouts.shared_maps import EARLY, EARLY_SLOTS, EARLY_UNSURE, GROUPS, UNPLACED, UNPLACED_BIT
from ...types import UINT64, Pointer
from .. import helpers as h
from ..ir import BasicBlock, MapAddr, MapFd, Operand
from . import memory, tasks
from .core import Lower
from .maps import access

_PATH = (("cgroups", "css_set"), ("dfl_cgrp", "cgroup"), ("kn", "kernfs_node"))


def current_group(lo: Lower) -> Operand:
    """The id of the current task's control group (version 2)."""
    if not memory.loads_directly(lo) or not _knows_path(lo):
        return lo.b.call(h.CGROUP_ID, [], "cgroup_id", pure=True)
    mem = tasks.task_memory(lo, tasks.current_task(lo), *[name for name, _ in _PATH], "id")
    return memory.read_scalar(lo, mem, UINT64)


def _knows_path(lo: Lower) -> bool:
    """Whether the kernel's types have all members on the path from a task to its group's id."""
    struct = lo.world.find_struct("task_struct")
    for name, to in _PATH:
        field = struct.field(name) if struct is not None else None
        if field is None or not isinstance(field.type, Pointer) or str(field.type.to) != f"struct {to}":
            return False
        struct = lo.world.find_struct(to)
    field = struct.field("id") if struct is not None else None
    return field is not None and field.type == UINT64


def branch_on_group(lo: Lower, kinds: tuple[str, ...], text: str, yes: BasicBlock, no: BasicBlock) -> None:
    """Branch on whether the task belongs to a group of these kinds with this name. Where that is not known yet it
    counts as outside, and the event is counted."""
    wanted = sum([1 << lo.unit.number_group(kind, text) for kind in kinds])
    b = lo.b
    group = current_group(lo)
    early, ask, recent = b.block("early"), b.block("ask"), b.block("recent")
    b.branch("jgt", group, b.load(lo.unit.global_word("groups_until"), 0), recent, early)
    b.start(early)
    slot = b.alu("lsh", b.alu("and", group, EARLY_SLOTS - 1), 2)
    answers = b.load(b.alu("add", b.address(MapAddr(EARLY)), slot), 0, 4)
    b.branch("jne", b.alu("and", answers, wanted), 0, yes, ask)
    b.start(ask)
    b.branch("jne", b.alu("and", answers, EARLY_UNSURE), 0, recent, no)
    b.start(recent)
    with lo.scope():
        key = lo.temp(16, "group")
        b.store(key.base, key.off, group)
        row = b.call(h.MAP_LOOKUP, [MapFd(GROUPS), lo.operand_address(key)], "map_lookup_elem")
        known, outside, unplaced = b.block("known"), b.block("outside"), b.block("unplaced", cold=True)
        b.branch("jeq", row, 0, no, known)
        b.start(known)
        answers = b.load(row, 0)
        b.branch("jne", b.alu("and", answers, wanted), 0, yes, outside)
        b.start(outside)
        b.branch("jeq", b.alu("and", answers, wanted << UNPLACED_BIT), 0, no, unplaced)
        b.start(unplaced)
        b.store(key.base, key.off + 8, wanted)
        count = b.function.reg("count")
        access.insert_missing(lo, UNPLACED, key, count, 8, no)
        b.atomic_add(count, 0, 1)
        b.jump(no)
