"""Which eBPF programs a clause becomes: how each of its attach points is best served."""

from __future__ import annotations

from ..base.record import Record
from ..kinds import KINDS, ProbeKind
from ..language.ast import Clause
from ..semantics.nodes import Use
from ..semantics.typed import CheckedProbe
from ..spec import Attach, StaticDetail, UserDetail, detail_of, serves_all
from .compilation import Unit
from .lower.probes.contexts import (
    Context,
    GoEntryContext,
    KernelFunctionContext,
    PerfEventContext,
    RawEventContext,
    RecordedEnterContext,
    RecordedExitContext,
    ReturnInstructionContext,
    SyscallContext,
    SyscallEnterContext,
    SyscallExitContext,
    TestRunContext,
    TracepointContext,
    UserFunctionContext,
    checks_stack,
)
from .lower.probes.iterators import IteratorContext
from .lower.probes.raw_fields import raw_fields
from .lower.probes.tracing import TracedFunction, TracedFunctions
from .lower.probes.usdt import StaticProbe


def _kernel_context(kind: ProbeKind) -> type[Context] | None:
    """The context of a kind that serves kernel functions."""
    if not kind.twin:
        return None
    return TracedFunction if kind.typed else KernelFunctionContext


def _own_context(kind: ProbeKind) -> type[Context]:
    """The context of a kind whose events all have one layout; for tracepoints, that of raw ones."""
    if kind.iterates:
        return IteratorContext
    if kind.session:
        return TestRunContext
    if kind.user:
        return UserFunctionContext
    return PerfEventContext if kind.programs == ("perf_event",) else RawEventContext


FUNCTIONS = {name: context for name, kind in KINDS.items() if (context := _kernel_context(kind))}
_SIMPLE = {name: _own_context(kind) for name, kind in KINDS.items() if name not in FUNCTIONS}

# Tracepoints, by category and first letters, that fire where interrupts are off or one is being handled.
_UNPREEMPTED = {"irq": ("",), "irq_vectors": ("",), "exceptions": ("",), "timer": ("timer_expire_", "hrtimer_expire_"),
                "sched": ("sched_switch", "sched_wak", "sched_stat_", "sched_migrate_task")}


class Plan(Record):
    """A program to be: attach points that it serves, and in what context it runs. ``method`` is ProgramSpec.method.

    Programs with an equal ``key`` fire at the same events and may become one; None: nothing else fires there.
    ``helps``: it runs no clause, but does something for this one's program."""

    attach: list[Attach]
    context: Context
    method: str = ""
    key: object = None
    numbers: list[int] = []  # of the attach points in ScriptSpec.probes
    helps: CheckedProbe | None = None


def args_used(probe: CheckedProbe) -> set[str] | None:
    """Names of the fields of ``args`` that the clause reads; None if it uses ``args`` as a whole."""
    return Use([probe.clause.predicate, probe.clause.body]).fields


def _classic_context(unit: Unit, probe: CheckedProbe) -> bool:
    """Whether a system call's clause is better served by its classic tracepoint. From a raw tracepoint the unwinder has
    three more frames to walk, some 50 ns each, more than all that is saved; and a system call's classic tracepoint is
    not nested into others."""
    return len(probe.attach) == 1 and probe.facts.kernel_stacks and unit.feature("syscall_stacks")


def plan_script(unit: Unit, probes: list[CheckedProbe]) -> list[tuple[CheckedProbe, Plan]]:
    """The programs of all clauses, in the script's order."""
    classic = _mixed_tracepoints(unit, probes)
    plans = [plan for probe in probes for planned in plan_probe(unit, probe, classic)
             for plan in _with_helpers(unit, probe, planned)]
    return split_by_clauses(plans)


def _with_helpers(unit: Unit, probe: CheckedProbe, planned: Plan) -> list[tuple[CheckedProbe, Plan]]:
    """The program, and those that it needs beside it."""
    if any(isinstance(point.detail, UserDetail) and point.detail.tails for point in planned.attach):
        return _with_tails(unit, probe, planned)
    return _with_entry(unit, probe, planned)


def _with_tails(unit: Unit, probe: CheckedProbe, planned: Plan) -> list[tuple[CheckedProbe, Plan]]:
    """The program of functions that end with jumps to others, and those that follow these jumps."""
    from .lower.probes.tail_calls import tail_programs
    helper = Clause(probe.clause.span, points=probe.clause.points, predicate=None, body=[])
    pairs: list[tuple[CheckedProbe, Plan]] = []
    for context, attach, runs in [(planned.context, planned.attach, True), *tail_programs(unit, planned.attach)]:
        points = [point for point in attach if point.exits]
        for part in [points] if context.shares(unit) else [[point] for point in points]:
            if part and runs:
                pairs.append((probe, Plan(part, context.fresh())))
            elif part:
                pairs.append((CheckedProbe(helper, part, None, []), Plan(part, context.fresh(), helps=probe)))
    return pairs


def _with_entry(unit: Unit, probe: CheckedProbe, planned: Plan) -> list[tuple[CheckedProbe, Plan]]:
    """The program; for a return served by a kretprobe that needs arguments, preceded by one that saves them at the
    entry."""
    point, used = planned.attach[0], args_used(probe)
    if not KINDS[point.kind].typed or KINDS[point.method].typed or not KINDS[point.kind].returns or used == set():
        return [(probe, planned)]
    from .lower.probes.entry_arguments import EntryContext, ReturnContext, keep_arguments
    pairs = []
    for item in planned.attach:
        arguments = keep_arguments(unit, probe, used)
        entry = Attach(item.kind, item.name, item.target, item.event, pid=item.pid, args=item.args, detail=item.detail,
                       way="kprobe", wild=item.wild)
        clause = Clause(probe.clause.span, points=probe.clause.points, predicate=None, body=[])
        pairs += [(CheckedProbe(clause, [entry], probe.args, []),
                   Plan([entry], EntryContext(arguments), entry.way, helps=probe)),
                  (probe, Plan([item], ReturnContext(arguments), item.way))]
    return pairs


def _mixed_tracepoints(unit: Unit, probes: list[CheckedProbe]) -> set[str]:
    """Tracepoints that one clause takes classic and another raw. All clauses must take them classic: the kernel would
    not keep the order of the clauses otherwise."""
    clauses = [[a for a in probe.attach if a.kind == "tracepoint"] for probe in probes]
    count: dict[str, int] = {}
    for name in [a.name for points in clauses for a in points]:
        count[name] = count.get(name, 0) + 1
    ways: dict[str, set[str]] = {}
    for probe, points in zip(probes, clauses):
        used = args_used(probe) if points else None
        for point in points:
            if count[point.name] > 1:
                ways.setdefault(point.name, set()).add(_choose_context(unit, probe, point, used)[1])
    return {name for name, methods in ways.items() if len(methods) > 1}


def split_by_clauses(plans: list[tuple[CheckedProbe, Plan]]) -> list[tuple[CheckedProbe, Plan]]:
    """Give each program only attach points at which the same clauses fire, so that one program can run these clauses
    in the script's order, and give those that can become one a common ``key``."""
    firing: dict[object, list[int]] = {}
    for index, (_, planned) in enumerate(plans):
        if not KINDS[planned.attach[0].kind].session and not serves_all(planned.method):
            for point in planned.attach:
                firing.setdefault(_point_key(planned, point), []).append(index)
    return [(probe, part) for probe, planned in plans for part in _split_clause(planned, firing)]


def _split_clause(planned: Plan, firing: dict[object, list[int]]) -> list[Plan]:
    if serves_all(planned.method):
        planned.key = planned.method  # one program sees them all, and asks which it is
        return [planned]
    parts: dict[object, list[Attach]] = {}
    for point in planned.attach:
        parts.setdefault(tuple(firing.get(_point_key(planned, point), ())), []).append(point)
    programs = []
    for clauses, points in parts.items():
        context = planned.context if len(parts) == 1 else planned.context.fresh()
        context.exclusive = context.exclusive and len(parts) == 1
        programs.append(Plan(points, context, planned.method, _shared_probe(clauses), helps=planned.helps))
    return programs


def _shared_probe(clauses: object) -> object:
    """The key of programs that fire together. A clause that names an attach point twice fires twice, by itself."""
    assert isinstance(clauses, tuple)
    return clauses if 1 < len(clauses) == len(set(clauses)) else None


def _point_key(planned: Plan, point: Attach) -> object:
    return type(planned.context), planned.method, point.name, point.target, point.offset


def plan_probe(unit: Unit, probe: CheckedProbe, classic: set[str]) -> list[Plan]:
    """The programs of one clause; ``classic``: tracepoints that must be taken classic."""
    groups: dict[object, Plan] = {}
    used = args_used(probe)
    for attach in probe.attach:
        context, method, key = _choose_context(unit, probe, attach, used if attach.name not in classic else None)
        group = groups.get(key)
        if group is None:
            group = groups[key] = Plan([], context, method)
        group.attach.append(attach)
    planned = list(groups.values())
    split: list[Plan] = []
    for item in planned:
        if len(item.attach) > 1 and not item.context.shares(unit):
            split += [Plan([a], item.context.fresh(), item.method) for a in item.attach]
        else:
            split.append(item)
    return split


def _choose_context(unit: Unit, probe: CheckedProbe, attach: Attach, used: set[str] | None,
                  ) -> tuple[Context, str, object]:
    """(context, method, key) by which an attach point is served: attach points with equal keys can share a program."""
    if attach.kind in FUNCTIONS:
        way = attach.method
        if KINDS[way].typed and attach.reason == "many":
            return TracedFunctions(), f"{way}.multi", (attach.kind, f"{way}.multi")
        return FUNCTIONS[way](), way if way != attach.kind else "", (attach.kind, way)
    if attach.kind == "usdt":
        return StaticProbe(detail_of(attach, StaticDetail).arguments), "", attach.kind
    if attach.by_instructions:
        return ReturnInstructionContext(), "", "return instructions"
    if checks_stack(unit.world.arch, attach):
        return GoEntryContext(), "", "go entry"
    if attach.kind != "tracepoint":
        # A raw tracepoint has its own arguments; the checker already split clauses whose arguments differ.
        return _SIMPLE[attach.kind](), "", attach.kind if attach.kind != "self" else attach.event
    if unit.feature("raw_tp"):
        is_call = attach.target in ("syscalls", "raw_syscalls")
        category, contexts = _syscall_tracepoints(unit) if is_call else ("", None)
        if contexts and attach.target == "syscalls" and used is not None and (
                category != "raw" or not _classic_context(unit, probe)):
            name = attach.event.partition("_")[2].partition("_")
            if unit.world.syscall_number(name[2]) is not None and name[0] in ("enter", "exit"):
                return contexts[name[0] == "exit"](), f"{category}:sys_{name[0]}", f"syscall {name[0]}"
        elif used is not None and attach.target == category:
            return TracepointContext(), "", "tracepoint"
        elif used is not None and not _can_be_preempted(unit, attach) and \
                unit.world.raw_tracepoint_args(attach.event) is not None:
            if not used:
                return RawEventContext(), "raw", "raw event"
            fields = raw_fields(unit.world, attach.target, attach.event)
            if used <= set(fields):
                return RawEventContext(fields), "raw", attach.name
    return TracepointContext(), "", "tracepoint"


def _can_be_preempted(unit: Unit, attach: Attach) -> bool:
    """Whether a raw tracepoint's program can be preempted: see :func:`_syscall_tracepoints`."""
    return unit.feature("preemptible_raw_tp") and not attach.event.startswith(_UNPREEMPTED.get(attach.target, ()))


def _syscall_tracepoints(unit: Unit) -> tuple[str, tuple[type[SyscallContext], type[SyscallContext]]]:
    """The two tracepoints by which all system calls are seen: the raw ones, or their classic ones, whose programs
    cannot be preempted. A preempted program hides later events of its CPU from the others."""
    if unit.feature("preemptible_raw_tp"):
        return "raw_syscalls", (RecordedEnterContext, RecordedExitContext)
    return "raw", (SyscallEnterContext, SyscallExitContext)
