"""The current task without a call: calls of the helper become loads where the pointer's place is known.

See :mod:`sonde.kernel.tasks.current_task`. A CPU whose word in the table is empty, such as one that came online later,
calls the helper.
"""

from __future__ import annotations

from ..arch import ARCHES
from . import helpers as h
from .builder import Builder
from .compilation import Unit
from .ir import BasicBlock, BpfFunction, MapAddr, Op

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .lower.core import Lower

NUMBER = "timespec64"  # a struct of the kernel that begins with a number of 64 bits


def loads_current(unit: Unit) -> bool:
    """Whether the current task is known without a call. Not with -k, where helpers read kernel memory."""
    return bool(ARCHES[unit.world.arch].current_task) and unit.feature("current_task_variable") \
        and unit.feature("rdonly_cast") and not unit.options.count_reads and unit.world.find_struct(NUMBER) is not None


def load_current_tasks(lo: Lower) -> None:
    """Replace the remaining helper calls for the current task by loads."""
    for function in lo.program.functions:
        for block in list(function.blocks):
            while (call := _find_call(block)) is not None and loads_current(lo.unit):
                block = _split_block(lo.unit, function, block, call)


def _find_call(block: BasicBlock) -> Op | None:
    return next((op for op in block.ops if op.kind == "call" and op.imm == h.TASK), None)


def _split_block(unit: Unit, function: BpfFunction, block: BasicBlock, call: Op) -> BasicBlock:
    """End the block with the load, and the call as its fallback; returns a block with the rest."""
    at = block.ops.index(call)
    rest = function.block("task", block.cold)
    rest.ops, block.ops = block.ops[at + 1:], block.ops[:at]
    b = Builder(function)
    function.blocks.pop()  # the builder's own first block
    b.current, b.span = block, call.span
    known, unknown = b.block("known", block.cold), b.block("unknown", cold=True)
    table, task, number = unit.current_tasks(), function.reg("task"), unit.world.find_struct(NUMBER)
    assert number is not None
    cpu = b.region_number(table.cpus)
    variable = b.load(b.alu("add", b.address(MapAddr(table.name)), b.alu("lsh", cpu, 3)), 0)
    b.branch("jeq", variable, 0, unknown, known)
    b.start(unknown)
    b.set(task, b.call(h.TASK, [], "current_task"))
    b.jump(rest)
    b.start(known)
    cast = b.kfunc(unit.world.kfunc_id("bpf_rdonly_cast"), [variable, number.btf_id], "rdonly_cast", pure=True)
    b.set(task, b.load(cast, 0))
    b.start(rest)
    rest.ops.insert(0, Op("mov", call.dst, [task], span=call.span))
    return rest
