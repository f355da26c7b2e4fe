"""``sonde doctor``: which tools work here, how, and what keeps the others from working.

Every tool is compiled for the kernel; nothing is loaded or attached, but the CPU's counters are tried.
"""

from __future__ import annotations

import os
import sys

from ... import compiling, tools
from ...base.record import Record
from ...errors import SondeError
from ...kinds import KINDS
from ...output.progress import Progress, make_progress, track_progress
from ...semantics.script_options import Options
from ...source import ERROR
from ..script_names import read_script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...semantics.world import World
    from ...spec import ProgramSpec, ScriptSpec
    from ..options import Parsed

PAGE = """\
doctor: which tools work on this kernel, by what probes, and what keeps the others from it

USAGE
  sonde doctor [--btf FILE]

  Compiles every tool; nothing is loaded or attached, but counters of the CPU are tried. The status is 0 if all of
  them work. `sonde tools --check` is the same.

OPTIONS
  --btf FILE   for the kernel whose BTF this is, instead of the running one

COLUMNS
  TOOL     its name
  VERDICT  the kinds of probes that it has here, or what is missing

EXAMPLE
  # sonde doctor
  biolatency  works: raw tracepoint
  ...
  83 of 83 tools work on this kernel (6.12.0).

NEEDS
  the rights that tracing needs, as root has them: what is not permitted can be found out by no trial

NOTES
  With --btf, what takes a trial (kprobes, and where fentry may attach) is taken for allowed.
"""
TAKES = {"btf", "check"}


def main(parsed: Parsed) -> int:
    """Examine and report; the exit status."""
    from ...base.installation import as_root
    from .. import requests
    btf = parsed.named.pop("btf", "") or parsed.get("btf")
    parsed.options |= {"btf": btf} if btf else {}
    allowed = bool(btf) or may_trace()
    if not allowed:
        requests.print_to_stderr(f"WARNING: this user may not trace, so that nothing can be tried\nHINT: {as_root()}")
    kernel = requests.permitted(requests.kernel_of(parsed), parsed)
    text, all_work = build_report(kernel, btf, allowed, make_progress(parsed.has("quiet")))
    sys.stdout.write(text)
    return 0 if all_work else 1


def may_trace() -> bool:
    """Whether the caller may create maps, the least that tracing needs."""
    from ...kernel import syscalls
    from ...layouts.uapi import MAP_TYPES
    try:
        syscalls.map_create(MAP_TYPES["percpu_array"], 4, 8, 1, 0, "may_trace").close()
    except SondeError:
        return False
    return os.geteuid() == 0 or _has_capabilities()


def _has_capabilities() -> bool:
    """CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        word = next((line.split()[1] for line in file if line.startswith("CapEff:")), "0")
    held = int(word, 16)
    return bool(held >> 21 & 1 or held >> 38 & 1 and held >> 39 & 1)


class Verdict(Record):
    """``how`` names the kinds of probes that serve the tool, in order; ``why`` what is missing if it does not work."""

    name: str
    works: bool
    methods: list[str]
    why: list[str] = []


def examine_tool(tool: tools.Tool, world: World, here: bool = True) -> Verdict:
    """Compile ``tool`` for the kernel that ``world`` describes; if that is the one that runs ``here``, try the CPU's
    counters that it needs."""
    try:
        options = Options(params=tool.sample_arguments, env=compiling.script_environment())
        spec = compiling.compile(read_script(tool.path), options, world)
        if here:
            _try_counters(spec)
    except SondeError as error:
        needs = tool.needs_in(world.release)
        return Verdict(tool.name, False, [], [*_failure_reasons(tool, error), *([needs] if needs else [])])
    return Verdict(tool.name, True, methods(spec), [warning.message for warning in spec.warnings])


def _try_counters(spec: ScriptSpec) -> None:
    """AttachError if this machine does not have one."""
    from ...runtime.attach.links import try_counter
    for program in spec.programs:
        for point in program.attach:
            if point.kind == "hardware":
                try_counter(point)


def _failure_reasons(tool: tools.Tool, error: SondeError) -> list[str]:
    """The first error with its hints, after what the whole kernel lacks, and where the others are told."""
    first, *others = [each for each in getattr(error, "diagnostics", ()) if each.severity == ERROR] or [error]
    lines = sorted([first.message, *first.hints], key=lambda line: not line.startswith("this kernel"))
    return [*lines, f"and more: sonde -v {tool.name} tells of each"] if others else lines


def methods(spec: ScriptSpec) -> list[str]:
    """The kinds of probes that a script is attached by: raw tracepoint, fentry, kprobe, uprobe ...; interval if it has
    no other."""
    kinds = sorted({_method(program) for program in spec.programs} - {""})
    return kinds or sorted({program.attach[0].kind for program in spec.programs
                            if not KINDS[program.attach[0].kind].session})


def _method(program: ProgramSpec) -> str:
    kind = KINDS[program.attach[0].kind]
    if kind.exempt and not kind.iterates:
        return ""
    if program.method.partition(":")[0] == "raw" or kind.name == "rawtracepoint":
        return "raw tracepoint"
    return program.attach[0].method


def build_report(world: World, btf: str = "", allowed: bool = True, bar: Progress | None = None) -> tuple[str, bool]:
    """What ``sonde doctor`` prints, and whether every tool works. ``btf`` is the file that ``world`` knows its kernel
    from, if it is not this machine: what needs a trial (kprobes, and where fentry may attach) is assumed then. For a
    user who is not ``allowed`` to trace no tool works, though it may compile."""
    world.find_struct("task_struct")  # a file that is no BTF is one error, not one for each tool
    verdicts = [examine_tool(tool, world, here=not btf)
             for tool in track_progress(bar, tools.all_tools(), "compiling", "tools", 1)]
    width = max(len(verdict.name) for verdict in verdicts)
    lines = []
    for verdict in verdicts:
        works = "works" if allowed else "not permitted, may work for root"
        state = f"{works}: {', '.join(verdict.methods)}" if verdict.works else f"does not work: {verdict.why[0]}"
        lines.append(f"{verdict.name:{width}}  {state}")
        more = verdict.why if verdict.works else verdict.why[1:]
        lines += [f"{'':{width}}    {line}" for line in more]
    working = sum(verdict.works for verdict in verdicts)
    if not allowed:
        lines.append(f"0 of {len(verdicts)} tools work for this user; what works for root, root can find out.")
        return "".join(line + "\n" for line in lines), False
    lines.append(f"{working} of {len(verdicts)} tools work on this kernel ({world.release})." if not btf else
                 f"{working} of {len(verdicts)} tools compile for the kernel of {btf}; whether it allows their probes, "
                 "only that kernel can tell.")
    return "".join(line + "\n" for line in lines), working == len(verdicts)
