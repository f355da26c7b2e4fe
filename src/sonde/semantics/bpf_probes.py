"""fentry and fexit on loaded BPF programs: ``fentry:bpf:function``, ``fentry:bpf:ID:function``, both with wildcards."""

from __future__ import annotations

from ..language.ast import AttachPoint
from ..spec import Attach, BpfFunction, KernelDetail
from .finder import ProbeFinder, is_pattern, pattern_matcher


def expand_bpf_function(finder: ProbeFinder, point: AttachPoint, kind: str, parts: list[str]) -> list[Attach]:
    """The functions of loaded BPF programs that ``parts`` (after the ``bpf``) match. Several programs may have one of
    that name."""
    if not 1 <= len(parts) <= 2 or not all(parts):
        return finder.error("probe-form", f"{kind} probes on BPF programs are written {kind}:bpf:[id:]function", point)
    number, name = parts if len(parts) == 2 else ("*", parts[0])
    if not finder.world.has_feature("fentry"):
        return finder.report_missing(point, [
            f"this kernel ({finder.world.release}) has no fentry",
            "with kernel.bpf_stats_enabled=1, bpftool prog show tells every program's runs and time"],
            wild=len(parts) == 1)
    every = finder.world.bpf_functions()
    in_number, in_name = pattern_matcher(number), pattern_matcher(name)
    chosen = [each for each in every if in_number(str(each.program)) and in_name(each.name)]
    wild = len(chosen) > 1 or is_pattern(name)
    attach = [a for each in chosen if each.attachable if (a := _make_attach(finder, kind, each, wild)) is not None]
    if attach:
        return attach
    if chosen:
        return finder.report_missing(point, [f"program {chosen[0].program} was loaded without function information "
                                             "(BTF), and the kernel attaches to none that was"])
    return finder.report_missing(point, ["no loaded BPF program has such a function",
                                         *_near_bpf_functions(finder, kind, name, every)],
                                 "" if is_pattern(f"{number}:{name}") else f"No matches for {kind} bpf:{name}.",
                                 wild=len(parts) == 1)


def _make_attach(finder: ProbeFinder, kind: str, function: BpfFunction, wild: bool) -> Attach | None:
    """None if the program ended meanwhile."""
    target = f"bpf:{function.program}"
    known = finder.world.kernel_function(function.name, target)
    if known is None:
        return None
    return Attach(kind, f"{kind}:{target}:{function.name}", target, function.name, pid=finder.options.lone_process,
                  detail=KernelDetail(known.id, target, known.result), wild=wild)


def _near_bpf_functions(finder: ProbeFinder, kind: str, name: str, every: list[BpfFunction]) -> list[str]:
    usable = [each for each in every if each.attachable]
    elsewhere = [f"program {each.program} has it: {kind}:bpf:{each.program}:{name}" for each in usable
                 if each.name == name][:3]
    return elsewhere or finder.did_you_mean(f"{kind}:bpf:", name, {each.name for each in usable}) or [
        f"list them with: sonde -l '{kind}:bpf:*'" if every else "no BPF program is loaded"]
