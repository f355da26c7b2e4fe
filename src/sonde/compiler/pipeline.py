"""The compiler from end to end: the ordered list of passes, each of which -d can show."""

from __future__ import annotations

from ..asm.assemble import assemble, format_listing
from ..kinds import KINDS, MOST_SLOW_LINKS
from ..semantics.typed import CheckedProbe, CheckedScript
from ..semantics.world import World
from ..spec import ProgramSpec, ScriptSpec, program_name, serves_all
from .compilation import Unit
from .counted_calls import pair_calls
from .emit import emit_program
from .gated_clauses import describe_gate
from .join import SymbolicProgram, group_programs, join_programs
from .lower.core import Lower
from .lower.program import lower_program
from .passes import PASSES, Show, run_passes
from .plan import Plan, plan_script
from .ring_room import data_ring_room
from .widen import find_loops

BPFTRACE_STAGES = {"parse": "ast", "codegen": "ir", "codegen-opt": PASSES[-1].name}  # what comes closest
STAGES = ["ast", "types", "ir", *[step.name for step in PASSES], "dis"]


def compile_checked(checked: CheckedScript, world: World, show: Show | None = None,
                    verify: bool = False) -> ScriptSpec:
    """The spec of a checked script. ``show(stage, text)`` gets each stage; ``verify`` checks the IR after each pass;
    so does SONDE_CHECK_IR=1."""
    verify = verify or checked.options.env.get("SONDE_CHECK_IR", "0") != "0"
    unit = Unit(checked, world)
    unit.sends_data = any(probe.facts.sends for probe in checked.probes)  # then control records note its position
    unit.stops_at_exit = detaches_slowly(checked, world) or any(
        probe.facts.exits for probe in probes_that_stop(checked))
    lowered: list[tuple[Lower, Plan]] = []
    plans = _number_probes(unit, plan_script(unit, checked.probes))
    calls = pair_calls(unit, plans)
    for probe, planned in plans:
        lowered.append((lower_program(unit, probe, planned, f"p{len(lowered)}"), planned))
    for lo, _ in lowered:
        run_passes(lo, show, verify)
    maps = unit.finish(data_ring_room(checked, unit.sites, unit.maps))
    emitted = [_emit_code(lo, planned) for lo, planned in lowered]
    specs = [_assemble_program([(*lowered[i], emitted[i]) for i in group], show) for group in group_programs(emitted)]
    if any(spec.type == "kprobe" for spec in specs):
        from .kprobe_sessions import pair_sessions
        specs = pair_sessions(specs, world)
    return ScriptSpec(specs, maps, unit.sites, unit.errors, unit.probes, unit.globals, checked.config, checked.source,
                      list(checked.diagnostics.items), describe_gate(checked, unit.probes), unit.groups, calls,
                      checked.asks_for_processes)


def _number_probes(unit: Unit, plans: list[tuple[CheckedProbe, Plan]]) -> list[tuple[CheckedProbe, Plan]]:
    """Number the attach points: those of one name (places of a usdt probe, a probe of two clauses) have one number."""
    known: dict[str, int] = {}
    for _, planned in plans:
        planned.numbers = [known.setdefault(a.name, len(known)) for a in planned.attach]
    unit.probes = list(known)
    return plans


def probes_that_stop(checked: CheckedScript) -> list[CheckedProbe]:
    """The probes whose exit() keeps other programs from running: all that may run before ``end``, unless that is a
    single ``begin``."""
    probes = [p for p in checked.probes if p.attach[0].kind != "end" and not KINDS[p.attach[0].kind].exercise]
    return probes if [p.attach[0].kind for p in probes] != ["begin"] else []


def detaches_slowly(checked: CheckedScript, world: World) -> bool:
    """Whether the kernel will take seconds to detach: many functions that share no link. Then the programs are
    told to do nothing any more, the results are shown, and detaching comes last."""
    ways = [a.method for p in checked.probes for a in p.attach]
    alone = {way for way in set(ways) if KINDS[way].multi and not world.has_feature(KINDS[way].multi)}
    return sum(way in alone for way in ways) > MOST_SLOW_LINKS


def _emit_code(lo: Lower, planned: Plan) -> SymbolicProgram:
    items, depth = emit_program(lo.program, lo.unit.feature("isa_v4"), lo.unit.feature("spilled_bounds"),
                                lo.byte_order)
    # Loops stay apart: the verifier follows each of their rounds by itself, and would do so for all that comes before.
    alone = len(lo.program.functions) > 1 or lo.uses_cookies and serves_all(planned.method) \
        or any(find_loops(function) for function in lo.program.functions)
    return SymbolicProgram(items, depth, planned.key, alone)


def _assemble_program(parts: list[tuple[Lower, Plan, SymbolicProgram]], show: Show | None) -> ProgramSpec:
    """One program of one clause or several."""
    lo, planned, _ = parts[0]
    whole = join_programs([emitted for _, _, emitted in parts])
    code = assemble(whole.items, [f.name for f in lo.program.functions],
                    lambda: lo.unit.feature("long_jumps"), lo.byte_order)
    different = serves_all(planned.method)  # the clauses' attach points, of which the program asks which it is
    served = [plan for _, plan, _ in (parts if different else parts[:1])]
    attach = [point for plan in served for point in plan.attach]
    if show is not None:
        show("dis", f"; {lo.program.name}: {', '.join(a.name for a in attach[:3])}"
                    f"{' ...' if len(attach) > 3 else ''}, {whole.depth} bytes of stack\n"
                    + format_listing(code.code, code.relocations, code.lines, lo.byte_order))
    name = program_name(attach, planned.method.partition(":")[2])
    return ProgramSpec(name, lo.context.program, code.code, attach, code.relocations, code.lines,
                       planned.method, 0, 0, lo.first_probe, any(part.uses_cookies for part, _, _ in parts),
                       functions=[(at, label if at else name) for at, label in code.functions],
                       numbers=[number for plan in served for number in plan.numbers],
                       clauses=0 if planned.helps else 1 if different else len(parts),
                       kernel_stacks=any(part.reads_kernel_stacks for part, _, _ in parts),
                       registers=any(part.reads_registers for part, _, _ in parts),
                       separate={f.name: len(f.params) for f in lo.program.functions if f.separate})
