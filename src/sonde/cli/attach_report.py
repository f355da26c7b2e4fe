"""``-v``: how a script is attached, and what this does not see."""

from __future__ import annotations

from ..compiling import live_world
from ..library.traced_run import TracedRun
from ..spec import ProgramSpec, UserDetail, describe_method

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..output import Output

MOST = 20  # functions of a program whose inlined calls are looked for


def report_methods(trace: TracedRun, out: Output) -> None:
    """How each program is attached, and what it costs in instructions."""
    for program in trace.spec.programs:
        point = program.attach[0]
        names = ", ".join(a.name for a in program.attach[:3]) + (" ..." if len(program.attach) > 3 else "")
        method = describe_method(program.method) or program.type
        if program.parts:
            names += f" and {program.parts[1].attach[0].name} ..."
            method = "by kprobe.session, entry and return in one program"
        elif not program.clauses and point.exits:
            count = sum([len(each.exits) for each in program.attach])
            method = f"calls that end with a jump to another function noted at {count} instruction{'s' * (count > 1)}"
        elif not program.clauses:
            method = f"its arguments kept by a {program.method} at the function's entry"
        elif point.exits:
            count = sum([len(each.exits) for each in program.attach])
            method = f"at {count} return instruction{'s' if count > 1 else ''}, which touches no stack"
        elif point.way:
            why = "which attaches many at once" if point.reason == "many" else \
                "which misses no call" if point.reason == "exact" else \
                "which costs less" if point.reason == "cheap" else f"for this kernel has no {point.kind}"
            method = f"by {program.method}, {why}"
        if (program.method or point.kind) == "kretprobe" and not live_world().has_feature("probe_misses"):
            method += " (with more calls under way than CPUs some are missed, and this kernel does not count them)"
        out.write_note(f"{names}: {method}, {len(program.code) // 8} instructions")
        _say_what_is_inlined(program, trace.options.warnings, out)


def _say_what_is_inlined(program: ProgramSpec, warned: bool, out: Output) -> None:
    """A function that has code of its own may be inlined into others all the same; a probe does not see that. Where a
    probe names one that has copies by its file's own debug information, there has been a warning."""
    world = live_world()
    for point in program.attach[:MOST]:
        whole = point.event and isinstance(point.detail, UserDetail) and point.detail.entry
        if whole and warned and not point.wild and world.inlined_copies(point.target, point.event, own=True):
            continue
        copies = world.inlined_copies(point.target, point.event) if whole else None
        if copies is not None and copies.callers:
            out.write_note(f"{point.name}: not seen are the calls that are inlined into {copies.format_callers()}")
