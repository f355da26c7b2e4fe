"""From one planned program to IR."""

from __future__ import annotations

from ...layouts.shared_maps import SCRATCH
from ...layouts.uapi import BPF_F_MMAPABLE
from ...semantics.typed import CheckedProbe
from ...spec import MapSpec
from ...types import GROUPS, round_up
from .. import counted_calls
from .. import helpers as h
from ..builder import Builder
from ..compilation import Unit, region_count
from ..dominators import dominator_tree, first_use
from ..gated_clauses import asks_for_group, has_gate, is_exempt
from ..ir import BasicBlock, BpfFunction, MapAddr, Op, Reg
from ..plan import Plan
from . import expressions, family, groups, locations, memory, statements, writing
from .control import conditions, gate, loops, subprograms
from .core import Lower
from .state import COMMITS, RESERVES
from .tasks import process_id


class ProgramLowering(Lower):
    """Implements Lower's abstract operations."""

    scalar_value = expressions.scalar_value
    branch_on = conditions.branch_on
    locate_value = locations.locate_value
    write_value = writing.write_value
    store_value = memory.store_value
    lower_block = statements.lower_block


def lower_program(unit: Unit, probe: CheckedProbe, planned: Plan, name: str) -> Lower:
    """Lower a program: its prologue (is this event ours?), predicate and action."""
    lo = ProgramLowering(unit, probe, planned.context, planned.attach, name, planned.numbers)
    lo.b.span = probe.clause.points[0].span
    if unit.options.gated and not is_exempt(probe):
        gate.count_run(lo)
    planned.context.prologue(lo, lo.state.done)
    pid = planned.attach[0].pid
    if pid and planned.context.must_filter_pid(unit, planned.attach[0]):
        _only_process(lo, pid)
    if unit.options.family and not is_exempt(probe):
        _only_family(lo)
    if unit.options.group and asks_for_group(planned.helps or probe):
        _only_group(lo, unit.options.group)
    if unit.stops_at_exit and planned.attach[0].kind != "end":
        _unless_exiting(lo)
    if unit.uncounted:
        counted_calls.count_event(lo)
    if loops.has_callbacks(unit, probe.clause) or subprograms.calls_functions(probe.clause):
        loops.prepare_frame(lo, probe.clause)
    planned.context.begin(lo, lo.state.done)
    if probe.clause.predicate is not None:
        lo.b.span = probe.clause.predicate.span
        body = lo.b.block("action")
        with lo.scope():
            lo.branch_on(probe.clause.predicate, body, lo.state.done)
        lo.b.start(body)
    if has_gate(unit.options, probe) and not planned.helps:
        gate.pass_gate(lo)
    lo.lower_block(probe.clause.body)
    lo.b.start(lo.state.done)
    lo.b.span = None
    lo.b.exit(0)
    return lo


def _only_process(lo: Lower, pid: int) -> None:
    """Leave for other processes than that of -p, where the probe fires for all."""
    ours = lo.b.block("process")
    lo.b.branch("jeq", process_id(lo), pid, ours, lo.state.done)
    lo.b.start(ours)


def _only_family(lo: Lower) -> None:
    """Leave for other processes than that of -p or -c and what it starts."""
    ours = lo.b.block("family")
    family.branch_on_current(lo, ours, lo.state.done)
    lo.b.start(ours)


def _only_group(lo: Lower, name: str) -> None:
    """Leave for tasks outside of the groups of -C."""
    ours = lo.b.block("group")
    groups.branch_on_group(lo, GROUPS, name, ours, lo.state.done)
    lo.b.start(ours)


def _unless_exiting(lo: Lower) -> None:
    """Leave after exit(), except in ``end``: detaching takes user space a moment."""
    running = lo.b.block("running")
    lo.b.branch("jeq", lo.b.load(lo.unit.global_word("exiting"), 0, 8), 0, running, lo.state.done)
    lo.b.start(running)


def scratch_parts(lo: Lower) -> int:
    """How many programs may use a CPU's scratch memory at a time. Kernels that know no atomic exchange (before 5.12)
    let no program be preempted."""
    return PARTS if lo.context.preemptible and lo.unit.feature("atomic_fetch") else 1


def define_scratch(lo: Lower) -> None:
    """Point the functions' base registers at this CPU's part of the program's scratch memory, if there is any.

    The address is that of the array's element plus CPU number times stride. It is computed where the scratch memory
    is first needed on every way, not before: an event that a predicate turns away does not pay for it.
    """
    if not lo.program.scratch_size:
        return
    parts = scratch_parts(lo)
    stride = round_up(lo.program.scratch_size + (8 if parts > 1 else 0), 64)
    name = f"{SCRATCH}{lo.first_probe}_{len(lo.unit.maps)}"
    lo.unit.maps[name] = MapSpec(name, "array", 4, stride * parts * region_count(lo.world.cpus), 1, BPF_F_MMAPABLE)
    for function in lo.program.functions:
        base = function.scratch_base
        base.defs = 0
        position = first_use(function, base)
        if position is not None:
            _insert_base(lo, function, base, _outside_records(function, position), name, stride)


def _outside_records(function: BpfFunction, use: tuple[BasicBlock, int]) -> tuple[BasicBlock, int]:
    """``use``, or the point where the record that is being filled there is reserved: computing the base may end the
    program, which must not happen while it holds a record."""
    block, at = use
    way = dominator_tree(function).way(block)
    position = use
    for i, step in enumerate(way):
        for number, op in enumerate(step.ops[:at] if step is block else step.ops):
            if op.label == RESERVES or op.kind == "call" and op.imm == h.RING_RESERVE and (
                    step is block or _has_record(step, way[i + 1])):
                position = step, number
            elif op.label == COMMITS or op.kind == "call" and op.imm == h.RING_SUBMIT:
                position = use
    return position


def _has_record(reserving: BasicBlock, next: BasicBlock) -> bool:
    """Whether ``next`` is where a block that reserves a record goes when it got one."""
    last = reserving.ops[-1]
    return last.kind == "branch" and next is (last.then if last.cond == "jne" else last.other)


PARTS = 8  # of each CPU, for programs that can be preempted: one for each that is under way


def _insert_base(lo: Lower, function: BpfFunction, base: Reg, position: tuple[BasicBlock, int], name: str,
                 stride: int) -> None:
    """Split the block at ``position`` around the computation."""
    block, at = position
    rest = function.block("scratch", block.cold)
    rest.ops, block.ops = block.ops[at:], block.ops[:at]
    builder = Builder(function)
    function.blocks.pop()  # the builder's own first block
    builder.current = block
    builder.span = rest.ops[0].span
    number = builder.region_number(region_count(lo.world.cpus))
    parts = scratch_parts(lo)
    first = builder.alu("add", builder.address(MapAddr(name)), builder.alu("mul", number, stride * parts))
    if parts == 1:
        builder.emit(Op("add", base, [first, 0]))
    else:
        _claim_part(lo, builder, base, first, stride, rest)
    builder.jump(rest)
    function.blocks.append(rest)


def _claim_part(lo: Lower, builder: Builder, base: Reg, first: Reg, stride: int, rest: BasicBlock) -> None:
    """Take the first part whose flag, its first word, was not set; give it back wherever the function ends."""
    function = builder.function
    claimed, own = function.reg("claimed"), function.reg("part")
    have = builder.block("claimed")
    for number in range(PARTS):
        taken, busy = builder.block("taken", cold=number > 0), builder.block("busy", cold=True)
        builder.branch("jeq", builder.xchg(first, number * stride, 1), 0, taken, busy)
        builder.start(taken)
        builder.set(own, number)
        builder.jump(have)
        builder.start(busy)
    builder.atomic_add(lo.unit.error("preempted", builder.span), 0, 1)
    builder.exit(0)
    builder.start(have)
    part = builder.obscure_number(own, lo.unit.zero(8), PARTS - 1)  # or all that follows is verified once for each
    builder.set(claimed, builder.alu("add", first, builder.alu("mul", part, stride)))
    builder.emit(Op("add", base, [claimed, 8]))
    entry = function.blocks[0].ops
    entry.insert(0, Op("mov", claimed, [0]))
    claimed.defs += 1
    _release_part(function, [b for b in function.blocks if b.ops and b.ops[-1].kind == "exit"] + [rest], claimed)


def _release_part(function: BpfFunction, ends: list[BasicBlock], claimed: Reg) -> None:
    """Clear the flag before every exit that may be reached with a part taken."""
    for block in ends:
        last = block.ops[-1]
        if last.kind != "exit":
            continue
        builder = Builder(function)
        function.blocks.pop()
        block.ops.pop()
        builder.current = block
        builder.span = last.span
        giving, leave = builder.block("giving"), builder.block("leave")
        builder.branch("jne", claimed, 0, giving, leave)
        builder.start(giving)
        builder.store(claimed, 0, 0)
        builder.start(leave)
        builder.emit(Op("exit", None, last.args))
