"""fentry and fexit on loaded BPF programs: ``fentry:bpf:function``, ``fentry:bpf:ID:function``, both with wildcards."""

from __future__ import annotations

from ..language.ast import AttachPoint
from ..spec import Attach, KernelDetail
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
    chosen = [(n, f, attachable) for n, f, attachable in every if in_number(str(n)) and in_name(f)]
    wild = len(chosen) > 1 or is_pattern(name)
    attach = [a for a in [_make_attach(finder, kind, n, f, wild) for n, f, attachable in chosen if attachable] if a]
    if attach:
        return attach
    if chosen:
        return finder.report_missing(point, [f"program {chosen[0][0]} was loaded without function information (BTF), "
                                             "and the kernel attaches to none that was"])
    return finder.report_missing(point, ["no loaded BPF program has such a function",
                                         *_near_bpf_functions(finder, kind, name, every)],
                                 "" if is_pattern(f"{number}:{name}") else f"No matches for {kind} bpf:{name}.",
                                 wild=len(parts) == 1)


def _make_attach(finder: ProbeFinder, kind: str, number: int, function: str, wild: bool) -> Attach | None:
    """None if the program ended meanwhile."""
    target = f"bpf:{number}"
    known = finder.world.kernel_function(function, target)
    if known is None:
        return None
    return Attach(kind, f"{kind}:{target}:{function}", target, function, pid=finder.options.pid,
                  detail=KernelDetail(known.id, target, known.result), wild=wild)


def _near_bpf_functions(finder: ProbeFinder, kind: str, name: str, every: list[tuple[int, str, bool]]) -> list[str]:
    usable = [(n, f) for n, f, attachable in every if attachable]
    elsewhere = [f"program {n} has it: {kind}:bpf:{n}:{f}" for n, f in usable if f == name][:3]
    return elsewhere or finder.did_you_mean(f"{kind}:bpf:", name, {f for _, f in usable}) or [
        f"list them with: sonde -l '{kind}:bpf:*'" if every else "no BPF program is loaded"]
