"""From the attach points of a script to programs: expansion, limits, and which can share a program."""

from __future__ import annotations

from ..kinds import KINDS
from ..language.ast import AttachPoint, Clause
from ..language.diagnostics import Diagnostics
from ..source import WARNING
from ..spec import Attach, Config
from ..types import Struct
from .context import ProbeProgram
from .finder import ProbeFinder, WrittenPoint
from .kernel_probes import choose_kinds
from .nodes import Use, copy_tree, followed_results
from .object_probes import check_mixed
from .probe_names import mark_names, takes_name
from .providers import BY_KIND, find_provider
from .ruled_out import is_ruled_out
from .script_options import Options
from .typed import CheckedProbe
from .user_probes import has_typed_result, resolve_user_results
from .world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from .callees import Language


def expand_programs(clauses: Sequence[Clause], world: World, options: Options, config: Config, language: Language,
                    diagnostics: Diagnostics) -> list[ProbeProgram]:
    """Every program that the clauses need, in order. Each has a tree of its own."""
    finder = ProbeFinder(world, options, config, diagnostics)
    finder.written = [_note_written(clause, point) for clause in clauses for point in clause.points if point.parts]
    keep = _probe_filter(options, diagnostics)
    programs: list[ProbeProgram] = []
    total = 0
    if any("probe" in point.use.names for point in finder.written):
        mark_names(clauses, language)
    for clause in clauses:
        if is_ruled_out(clause.predicate, world, options, config, language.functions):
            continue
        expanded = [[a for a in of_point if (KINDS[a.kind].own or keep(a.name)) and in_mode(a.kind, options)]
                    for of_point in _expand_all(finder, clause)]
        attach = [a for of_point in expanded for a in of_point]
        choose_kinds(finder, attach)
        total += sum([_count_probes(finder, of_point) for of_point in expanded])
        if total > config.max_probes:
            _report_too_many(total, clause is clauses[-1], config, diagnostics)
            return programs
        for probe in _share_programs(clause, attach, world):
            programs.append(ProbeProgram(probe, probe.attach[0].kind, len(programs)))
    finder.warn_of_untraceable()
    check_mixed([a for p in programs for a in p.probe.attach], diagnostics)
    _check_limits(clauses, programs, total, config, diagnostics)
    return programs


def _note_written(clause: Clause, point: AttachPoint) -> WrittenPoint:
    provider = find_provider(point.parts[0])
    return WrittenPoint(provider.name if provider else "kprobe", point.parts[-1], Use([clause.predicate, clause.body]),
                   len(clause.points))


def _expand_all(finder: ProbeFinder, clause: Clause) -> list[list[Attach]]:
    """The attach points that exist, for each attach point of a clause."""
    finder.use = Use([clause.predicate, clause.body])
    finder.unmatched, finder.points = [], len(clause.points)
    reported = len(finder.diagnostics.items)
    points = [point for point in clause.points if not point.missing or any(point.parts)] or clause.points
    attach = [expand_attach_point(finder, point) for point in points]
    fine = all(d.severity == WARNING for d in finder.diagnostics.items[reported:])
    if not any(attach) and fine:
        finder.report_empty_clause(clause.points)
    return attach


def _count_probes(finder: ProbeFinder, attach: list[Attach]) -> int:
    """How many probes an attach point counts as for ``max_probes``. As in bpftrace, functions that share one link count
    as one, unless the script asks for the name of each."""
    together = [a for a in attach if a.wild and KINDS[a.kind].multi in ("kprobe_multi", "uprobe_multi")
                and "probe" not in finder.use.names and finder.world.has_feature(KINDS[a.kind].multi)]
    return len(attach) - len(together) + len({a.target if KINDS[a.kind].user else "" for a in together})


def in_mode(kind: str, options: Options) -> bool:
    """Whether a kind of probe belongs to this run: tests and benchmarks run by themselves, without the others."""
    if options.mode:
        return kind in ("begin", "end", options.mode)
    return options.compile_only or options.exercises or not KINDS[kind].exercise


def expand_attach_point(finder: ProbeFinder, point: AttachPoint) -> list[Attach]:
    """One attach point as written → the attach points that exist. A parameter may just name kernel functions."""
    if not point.parts or not point.parts[0]:
        return finder.error("probe-form", "No attach points for probe", point)
    provider = find_provider(point.parts[0])
    if provider is None and point.given and len(point.parts) == 1:
        return expand_attach_point(finder,
                                   AttachPoint(point.span, f"kprobe:{point.text}", ["kprobe", *point.parts],
                                               point.alias))
    if provider is None:
        from .meant_probes import kind_hints
        return finder.error("unknown-probe", f"Invalid probe type: {point.parts[0]}", point, kind_hints(finder, point))
    if not _is_allowed(provider.name, finder.options):
        return finder.error("forbidden-probe", f"the policy does not allow {provider.name} probes", point,
                            [f"allowed are {', '.join(finder.options.kinds)}"])
    return provider.expand_point(finder, point)


def _is_allowed(kind: str, options: Options) -> bool:
    return not options.kinds or kind in options.kinds or KINDS[kind].own or kind == "interval"


def _probe_filter(options: Options, diagnostics: Diagnostics) -> Callable[[str], object]:
    if not options.probe_filter:
        return lambda name: True
    import re
    try:
        return re.compile(options.probe_filter).search
    except re.error as problem:
        diagnostics.error("probe-filter", f"Invalid --probe-filter regex '{options.probe_filter}': {problem}", None)
        return lambda name: True


def _report_too_many(total: int, all_seen: bool, config: Config, diagnostics: Diagnostics) -> None:
    diagnostics.error("too-many-probes", f"Can't attach to {'' if all_seen else 'at least '}{total} probes because it "
                      f"exceeds the current limit of {config.max_probes} probes.", None,
                      ["raise it with the max_probes config variable or BPFTRACE_MAX_PROBES, but it may slow the "
                       "system down"])


def _why_none(clauses: Sequence[Clause]) -> str:
    """The message where nothing is attached: perhaps the script has tests or benchmarks only, which were not asked
    for."""
    kinds = {provider.name for clause in clauses for point in clause.points
             if point.parts and (provider := find_provider(point.parts[0]))}
    return "No probes attached; use --test to run test probes." if "test" in kinds else \
        "No probes attached; use --bench to run benchmark probes." if "bench" in kinds else "No probes to attach"


def _check_limits(clauses: Sequence[Clause], programs: list[ProbeProgram], total: int, config: Config,
                  diagnostics: Diagnostics) -> None:
    if total == 0 and not diagnostics.has_errors:
        diagnostics.error("no-probes", _why_none(clauses), None)
    if len(programs) > config.max_bpf_progs:
        diagnostics.error("too-many-programs", f"The script needs {len(programs)} programs; the limit is "
                          f"{config.max_bpf_progs}.", None, ["raise it with the max_bpf_progs config variable"])


def _share_programs(clause: Clause, attach: list[Attach], world: World) -> list[CheckedProbe]:
    """Programs of one clause: attach points share one where nothing that the clause uses differs."""
    use = Use([clause.predicate, clause.body])
    followed = followed_results([clause.predicate, clause.body]) if "retval" in use.names else []
    for node in followed:
        node.followed = True
    if followed:
        resolve_user_results(attach, world)
    by_name = "probe" in use.names and takes_name(clause)
    groups: dict[Hashable, CheckedProbe] = {}
    for item in attach:
        provider, kind = BY_KIND[item.kind], KINDS[item.kind]
        if use.uses_args or "retval" in use.names and has_typed_result(item):
            args = provider.args(item, world)
            item.args = args and Struct(f"{item.name}_args", args.bytes, args.load, alignment=args.alignment)
        key = (item.kind, provider.layout(item, use), item.way,
               repr(item.result) if "retval" in use.names and (kind.typed or kind.user) else None,
               (item.target, item.offset) if "uaddr" in use.names else None, item.name if by_name else None)
        if key in groups:
            groups[key].attach.append(item)
        else:
            tree = copy_tree(clause) if groups else clause
            groups[key] = CheckedProbe(tree, [item], item.args, [])
    return list(groups.values())
