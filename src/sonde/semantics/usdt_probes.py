"""Static probes of user programs: ``usdt:path:[provider:]name``."""

from __future__ import annotations

from ..language.ast import AttachPoint
from ..spec import Attach, StaticDetail
from .finder import ProbeFinder, is_pattern, pattern_matcher
from .user_probes import report_no_file, unreadable_hints


def expand_usdt(finder: ProbeFinder, point: AttachPoint, parts: list[str]) -> list[Attach]:
    """Every location of every matching probe; with a process (-p) the path may be ``*`` or be left out."""
    if len(parts) == 1 and parts[0] and finder.options.pid:
        parts = ["*", *parts]
    if 2 <= len(parts) <= 3 and not parts[0] and not finder.options.pid:
        return finder.error("probe-form", "usdt probe must specify at least path or pid to probe. To target all "
                            "paths/pids set the path to '*'.", point)
    if not 2 <= len(parts) <= 3:
        return finder.report_part_count(point, "2 or 3", "usdt:path:[provider:]name",
                                        "the path may be a library's name: usdt:libc:setjmp; with -p it may be *")
    if not parts[-1]:
        return finder.error("probe-form", "usdt probe must have a target function or wildcard", point)
    path, provider, name = parts[0] or "*", parts[1] if len(parts) == 3 else "*", parts[-1]
    paths = finder.world.find_binaries(path, finder.options.pid)
    if not paths:
        return report_no_file(finder, point, path)
    attach = [a for file in paths for a in _probes_in_file(finder, file, provider or "*", name)]
    if attach:
        return attach
    known = sorted({f"{p.provider}:{p.name}" for file in paths for p in finder.world.usdt_probes(file)})
    shown = f"{provider}:{name}" if len(parts) == 3 else name
    candidates = known if len(parts) == 3 else sorted({k.partition(":")[2] for k in known})
    problems = [problem for file in paths for problem in unreadable_hints(finder, file)]
    return finder.report_missing(point, problems or finder.did_you_mean(
        f"usdt:{path}:", shown, candidates) or ([] if known else ["the file has no static probes (.note.stapsdt)"]),
        wild=is_pattern(provider or "*"), shown=f"{path}:{name}")


def _probes_in_file(finder: ProbeFinder, path: str, provider: str, name: str) -> list[Attach]:
    in_provider, in_name, bits = pattern_matcher(provider), pattern_matcher(name), finder.world.user_bits(path)
    return [Attach("usdt", f"usdt:{path}:{p.provider}:{p.name}", path, f"{p.provider}:{p.name}", p.offset,
                   pid=finder.options.own_process, detail=StaticDetail(p.semaphore, p.arguments, bits))
            for p in finder.world.usdt_probes(path) if in_provider(p.provider) and in_name(p.name)]
