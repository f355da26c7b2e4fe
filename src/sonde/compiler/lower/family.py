"""Whether a task belongs to the process of -p or -c or to what that has started: see library/process_family.py."""

from __future__ import annotations

from ...types import UINT64
from .. import helpers as h
from ..ir import BasicBlock, MapFd, Operand
from .core import Lower
from .memory import read_scalar
from .tasks import current_task, process_id, task_memory


def branch_on_current(lo: Lower, yes: BasicBlock, no: BasicBlock) -> None:
    """Does the current task? The first process is known by its number, too."""
    other = lo.b.block("started")
    lo.b.branch("jeq", process_id(lo), lo.b.load(lo.unit.global_word("cpid"), 0, 8), yes, other)
    lo.b.start(other)
    branch_on_task(lo, current_task(lo), yes, no)


def branch_on_task(lo: Lower, task: Operand, yes: BasicBlock, no: BasicBlock) -> None:
    """Does the task of this ``struct task_struct``?"""
    with lo.scope():
        key = lo.temp(8, "process")
        lo.b.store(key.base, key.off, read_scalar(lo, task_memory(lo, task, "signal"), UINT64))
        member = lo.b.call(h.MAP_LOOKUP, [MapFd(lo.unit.family()), lo.operand_address(key)], "map_lookup_elem")
        lo.b.branch("jne", member, 0, yes, no)
