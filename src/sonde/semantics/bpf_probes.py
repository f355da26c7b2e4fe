"""fentry and fexit on loaded BPF programs: ``fentry:bpf:function``, ``fentry:bpf:ID:function``, and
``fentry:bpf:TYPE:function``, the functions of programs of a type that the kernel calls; all with wildcards."""

from __future__ import annotations

from ..base.wildcards import bpf_matcher
from ..language.ast import AttachPoint
from ..spec import Attach, BpfFunction, KernelDetail
from .finder import ProbeFinder, is_pattern, pattern_matcher


def expand_bpf_function(finder: ProbeFinder, point: AttachPoint, kind: str, parts: list[str]) -> list[Attach]:
    """The functions of loaded BPF programs that ``parts`` (after the ``bpf``) match. Several programs may have one of
    that name."""
    if not 1 <= len(parts) <= 2 or not all(parts):
        return finder.error("probe-form", f"{kind} probes on BPF programs are written {kind}:bpf:[id:]function", point,
                            ["a type of program may stand for the id: xdp, sched_cls"])
    number, name = parts if len(parts) == 2 else ("*", parts[0])
    if not finder.world.has_feature("fentry"):
        return finder.report_missing(point, [
            f"this kernel ({finder.world.release}) has no fentry",
            "with kernel.bpf_stats_enabled=1, bpftool prog show tells every program's runs and time"],
            wild=len(parts) == 1)
    every = finder.world.bpf_functions()
    in_programs, in_name = bpf_matcher(number), pattern_matcher(name)
    chosen = [each for each in every if in_programs(each.program, each.type) and in_name(each.name)]
    wild = len(chosen) > 1 or is_pattern(name)
    attach = [a for each in chosen if not each.obstacle if (a := _make_attach(finder, kind, each, wild)) is not None]
    if attach:
        _warn_of_left_out(finder, point, chosen)
        return attach
    if chosen:
        return finder.report_missing(point, [chosen[0].obstacle or f"program {chosen[0].program} has just gone"])
    return finder.report_missing(point, ["no loaded BPF program has such a function",
                                         *_near_bpf_functions(finder, kind, name, every)],
                                 "" if is_pattern(f"{number}:{name}") else f"No matches for {kind} bpf:{name}.",
                                 wild=len(parts) == 1)


def _warn_of_left_out(finder: ProbeFinder, point: AttachPoint, chosen: list[BpfFunction]) -> None:
    """Tell once which programs a pattern means that the kernel attaches nothing to."""
    left = [each for each in chosen if each.obstacle and each.program not in finder.left_out]
    finder.left_out.update(each.program for each in left)
    if left and finder.options.warnings:
        names = ", ".join(f"{each.name} ({each.program})" for each in left[:3])
        more = f" and {len(left) - 3} more" if len(left) > 3 else ""
        finder.diagnostics.warning("untraceable", "left out, since the kernel attaches to no such program: "
                                   f"{names}{more}", point.span, [left[0].obstacle])


def _make_attach(finder: ProbeFinder, kind: str, function: BpfFunction, wild: bool) -> Attach | None:
    """None if the program ended meanwhile."""
    target = f"bpf:{function.program}"
    known = finder.world.kernel_function(function.name, target)
    if known is None:
        return None
    return Attach(kind, f"{kind}:{target}:{function.name}", target, function.name, pid=finder.options.lone_process,
                  detail=KernelDetail(known.id, target, known.result), wild=wild)


def _near_bpf_functions(finder: ProbeFinder, kind: str, name: str, every: list[BpfFunction]) -> list[str]:
    usable = [each for each in every if not each.obstacle]
    elsewhere = [f"program {each.program} has it: {kind}:bpf:{each.program}:{name}" for each in usable
                 if each.name == name][:3]
    return elsewhere or finder.did_you_mean(f"{kind}:bpf:", name, {each.name for each in usable}) or [
        f"list them with: sonde -l '{kind}:bpf:*'" if every else "no BPF program is loaded"]
