"""Syntax → typed program: the one entry of this room."""

from __future__ import annotations

from ..language.ast import (
    Assign,
    Binary,
    BlockExpr,
    Call,
    Expr,
    ExprStmt,
    If,
    MapDecl,
    MapRef,
    Script,
    StrLiteral,
    TupleExpr,
    Variable,
)
from ..language.comments import MapComments
from ..language.diagnostics import Diagnostics, nearest_names
from ..language.map_sizes import MAP_SIZES
from ..source import ERROR, Diagnostic, Source, Span
from ..types import Bool, Enum, Float, Int, Pointer, Str, Tuple, Type
from . import attach
from .by import show_groups
from .callees import Functions, Language, settles_branch
from .config import read_config
from .context import AssignmentSite, CheckContext, MapState, ProbeProgram, VarState
from .convert import plain_type
from .ctypes_ import TypeNames
from .expression_rules import check_expression
from .macros import expand_macros
from .naming import name_keys, what_end_does
from .nodes import Tree, copy_tree, walk_nodes
from .probe_facts import gather_facts
from .process_questions import asks_for_processes
from .script_options import Options
from .size import MOST_VISITS, check_size, check_values
from .statements import check_statements
from .subprograms import check_uncalled, declare_subprograms
from .typed import CheckedProbe, CheckedScript, EmptyMap, ScriptMap
from .world import World

MAP_KINDS = ("hash", "lruhash", "percpuhash", "percpulruhash")
FEW = 4  # maps and variables that one assignment reads
MATCHING = ("enter_call", "return_call", "leave_calls", "end_calls", "tell_left")
MAX_PASSES = 200  # far more than any chain of maps that feed one another


def check_script(script: Script, source: Source, world: World, options: Options, diagnostics: Diagnostics,
                 language: Language) -> CheckedScript:
    """The typed program of a parsed script, by the names that the language has.

    Raises :class:`~sonde.errors.CompileError` with every finding.
    """
    asks = bool(options.cpid) and asks_for_processes(script)
    matches_calls = any(isinstance(node, Call) and node.name in MATCHING for node in walk_nodes(script.clauses))
    context, findings = annotate_script(script, world, options, diagnostics, language)
    programs = context.programs
    unseen = diagnostics.has_errors or any(item.code == "type-too-large" for item in findings)  # and so what maps hold
    for item in findings:
        if not (unseen and item.code == "undefined-map"):
            diagnostics._add_once(item)
    if script.functions:
        context.diagnostics, context.explaining = diagnostics, True
        check_uncalled(context)
    if diagnostics.has_errors:
        from .finding_order import sort_findings
        diagnostics.keep_only(sort_findings(diagnostics.items))
        _report_missing_types(world, diagnostics)
    diagnostics.raise_if_errors()
    used = {node.name for node in walk_nodes([script.clauses, script.functions]) if isinstance(node, MapRef)}
    for declared in script.map_decls:
        if declared.name not in used and options.warnings:
            diagnostics.warning("unused-map", f"Unused map: {declared.name}", declared.span)
    for program in programs:
        _prune_program(program)
    maps = _final_maps(context, script)
    _check_keys(maps, world, diagnostics)
    check_values([*[p.probe.clause for p in programs], *[f.body for f in script.functions]], maps.values(), diagnostics)
    diagnostics.raise_if_errors()
    probes = [p.probe for p in programs if not _is_settled_away(p.probe)] or [p.probe for p in programs]
    for probe in probes:
        probe.facts = gather_facts(probe)
    if options.discreet:
        from .forged_addresses import report_forged
        report_forged([*[probe.trees for probe in probes], *[function.body for function in script.functions]],
                      script.definitions, diagnostics)
        diagnostics.raise_if_errors()
    return CheckedScript(source, probes, maps, context.config, options, diagnostics,
                         asks, matches_calls)


def annotate_script(script: Script, world: World, options: Options, diagnostics: Diagnostics,
                    language: Language) -> tuple[CheckContext, list[Diagnostic]]:
    """What is known of a parsed script after its programs' trees have got their types, as far as these are right; and
    what the last visit of the programs has reported. Findings about anything else are added to ``diagnostics``."""
    config = read_config(script.config, options.env, world, diagnostics)
    types = TypeNames(world, diagnostics, script.includes, script.unread)
    types.define_types(script.definitions)
    expand_macros([*script.clauses, *script.functions], script.macros, script.tables, language, diagnostics)
    _check_group_columns(script, config.group_rows, diagnostics)
    if options.by and not show_groups([script.clauses, script.functions], options.by, language.functions):
        diagnostics.error("no-process-names", "no names of processes are shown here that --by "
                          f"{options.by} could take the place of", None, [f"a script can ask for {options.by} itself"])
    programs = attach.expand_programs(script.clauses, world, options, config, language, diagnostics)
    context = CheckContext(world, options, config, types, script.defines, language)
    context.evaluate, context.statements = check_expression, check_statements
    context.diagnostics = diagnostics
    for imported in script.imports:
        context.report_unstable(imported, "import_statement", config.unstable_import_statement)
    context.clauses, context.programs = script.clauses, programs
    declare_subprograms(context, script.functions, {m.name for m in script.macros}, diagnostics)
    _declare_maps(context, script.map_decls, diagnostics)
    trees: list[Tree] = [*[p.probe.clause for p in programs], *[f.body for f in script.functions]]
    parts = check_size(trees, diagnostics)
    if options.named:
        _known_parameters(script, options, language.functions, diagnostics)
    return context, _settle_types(context, programs, min(MOST_VISITS // (parts + 1), MAX_PASSES)).items


def _check_group_columns(script: Script, names: str, diagnostics: Diagnostics) -> None:
    """Report columns of ``group_rows`` that no table has all of."""
    columns = [[column.name for column in table.columns] for table in script.tables]
    if names and not any(set(names.split()) <= set(each) for each in columns):
        span = next((entry.span for entry in script.config if entry.name.lower().endswith("group_rows")), None)
        diagnostics.error("config-value", f"group_rows: no table has the columns {names}", span)


WANT_TYPES = ("unknown-type", "not-a-struct", "missing-probe")


def _report_missing_types(world: World, diagnostics: Diagnostics) -> None:
    """If the kernel has no type information, say so: the names are not misspelled."""
    wanting = [item for item in diagnostics.items if item.severity == "ERROR" and item.code in WANT_TYPES]
    if wanting and world.find_struct("task_struct") is None:
        wanting[0].hints = [f"kernel {world.release} has no type information (BTF): it takes CONFIG_DEBUG_INFO_BTF, "
                            "a file with it (--btf FILE), or definitions in the script", *wanting[0].hints]


def _known_parameters(script: Script, options: Options, functions: Functions, diagnostics: Diagnostics) -> None:
    """Report parameters given after -- that the script does not have."""
    named = {node.args[0].value for node in walk_nodes([script.clauses, script.macros, script.tables, script.functions])
             if isinstance(node, Call) and node.name in functions and functions[node.name].parameter
             and node.args and isinstance(node.args[0], StrLiteral)}
    unknown = [given for given in options.named if given not in named]
    if unknown:
        hints = [f"did you mean --{close}?" for given in unknown for close in nearest_names(given, named)[:1]]
        hints.append(f"expected program options: {', '.join(f'--{known}' for known in sorted(named))}" if named
                     else "no custom program options defined.")
        diagnostics.error("unknown-parameter", "unexpected program command line options: "
                          + ", ".join([f"--{given}" for given in unknown]), None, hints)


def _declare_maps(context: CheckContext, declarations: list[MapDecl], diagnostics: Diagnostics) -> None:
    for item in declarations:
        state = context.map_state(item)
        state.kind, state.entries, state.unit = item.kind, item.entries, item.unit
        state.on_demand = item.unit > MAP_SIZES["max_keys"]
        if item.unit and context.config.map_keys_asked:
            state.entries = item.entries * context.config.map_keys_asked // item.unit
        if item.kind and item.kind not in MAP_KINDS:
            diagnostics.error("unknown-map-kind", f"Invalid bpf map type: {item.kind}", item.span,
                              [f"Valid map types: {', '.join(MAP_KINDS)}"])
        elif item.kind and item.entries < 1:
            diagnostics.error("bad-argument", f"{item.kind}() expects a number of entries of at least 1", item.span)


def _settle_types(context: CheckContext, programs: list[ProbeProgram], most_passes: int) -> Diagnostics:
    """Visit every program until no variable or map changes its type; the findings of the last visit count.

    Types only ever grow (wider integers, longer strings), so this ends.
    """
    for context.passes in range(most_passes):
        _check_programs(context, programs)
        if not context.changed and not _fill_only_read(context):
            if context.diagnostics.has_errors:
                context.explaining = True
                _check_programs(context, programs)
            return context.diagnostics
        _follow_changes(context)
    unknown = next((item.span for item in context.diagnostics.items if item.severity == ERROR), None)
    context.diagnostics = Diagnostics()
    context.diagnostics.error("unsettled", "the types of this script's maps and variables depend on themselves, or on "
                              "one another in too long a chain", unknown)
    return context.diagnostics


def _fill_only_read(context: CheckContext) -> bool:
    """Give maps that are read but never filled the values that code which is left out would store in them, else
    numbers; whether there were any. A map whose assignment has an error does not count as one."""
    failed = any(item.severity == ERROR and item.code not in ("undefined-map", "no-value")
                 for item in context.diagnostics.items)
    assigned = {item.node.target.name for item in context.assigned if failed and isinstance(item.node.target, MapRef)}
    filled = [state for state in context.only_read if state.name not in assigned]
    for state in filled:
        left_out = context.find_left_out(state.name)
        state.inferred_value = _type_left_out(context, left_out.value if isinstance(left_out, Assign) else None)
    return bool(filled)


def _type_left_out(context: CheckContext, value: Expr | None) -> Type:
    """The type of an expression that no program evaluates, as far as it can be known without its probe; else int8."""
    if isinstance(value, TupleExpr):
        return Tuple(tuple([_type_left_out(context, item) for item in value.items]), tuple(value.names))
    if value is None or any(isinstance(node, MapRef | BlockExpr) for node in walk_nodes(value)):
        return Int(8)
    shown, changed = context.diagnostics, context.changed
    context.diagnostics = context.types.diagnostics = Diagnostics()
    try:
        type = context.check_expression(copy_tree(value))
    finally:
        context.diagnostics = context.types.diagnostics = shown
        context.changed = changed
    return type if isinstance(type, Int | Bool | Enum | Float | Str | Pointer) else Int(8)


def _check_programs(context: CheckContext, programs: list[ProbeProgram]) -> None:
    context.diagnostics = context.types.diagnostics = Diagnostics()
    context.changed = False
    context.retyped, context.assigned, context.only_read = [], [], []
    for state in context.maps.values():
        state.read, state.programs = False, {}
    for program in programs:
        _check_program(context, program)


def _follow_changes(context: CheckContext) -> None:
    """Check once more the assignments that read a map or variable whose type has changed, and those that read their
    targets. Otherwise each link in a chain of assignments would take a pass over the whole script."""
    readers: dict[str | VarState, list[AssignmentSite]] = {}
    for assigned in context.assigned if context.retyped else ():
        for name in _sources(assigned.node):
            readers.setdefault(name, []).append(assigned)
    while context.retyped:
        for assigned in readers.pop(context.retyped.pop(), ()):
            context.program, context.scopes = assigned.program, assigned.scopes
            check_statements(context, [assigned.node])


def _sources(node: Assign) -> set[str | VarState]:
    """The maps and variables that an assignment reads; empty if there are many, or if calls or blocks decide its
    type."""
    sources: set[str | VarState] = set()
    for part in walk_nodes([node.target.key if isinstance(node.target, MapRef) else None, node.value]):
        if isinstance(part, (Call, BlockExpr)):
            return set()
        if isinstance(part, MapRef):
            sources.add(part.name)
        elif isinstance(part, Variable) and isinstance(part.slot, VarState):
            sources.add(part.slot)
    return sources if len(sources) <= FEW else set()


def _check_program(context: CheckContext, program: ProbeProgram) -> None:
    context.begin_program(program)
    clause = program.probe.clause
    if clause.predicate is not None:
        type = context.check_value(clause.predicate, "a predicate")
        if type is not None:
            inner = clause.predicate.span
            text = inner.source.text
            slashes = Span(inner.source, text.rfind("/", 0, inner.start), text.find("/", inner.end) + 1)
            context.check_condition(clause.predicate, type, slashes)
    check_statements(context, clause.body)
    for variable in program.probe.variables if not context.diagnostics.has_errors else ():
        if isinstance(variable, VarState) and not variable.given:
            context.warning("never-assigned", f"Variable ${variable.name} was never assigned to.", variable.span)


def _prune_program(program: ProbeProgram) -> None:
    """Remove the branches that a constant condition rules out (they were not checked), and statements without
    effect."""
    probe = program.probe
    if _never_holds(probe.clause.predicate):
        probe.clause.body = []
    for node in walk_nodes([probe.clause, *[f.clause for f in probe.functions.values()]]):
        if isinstance(node, If) and node.cond.const is not None:
            if node.cond.const:
                node.other = []
            else:
                node.then = []
        for value in node.values():
            if isinstance(value, list) and any(_does_nothing(item) for item in value):
                value[:] = [item for item in value if not _does_nothing(item)]


def _is_settled_away(probe: CheckedProbe) -> bool:
    """Whether parameters, or what the kernel has, make the predicate always false: nothing needs to be attached."""
    predicate = probe.clause.predicate
    while isinstance(predicate, Binary) and predicate.op == "&&" and predicate.const is None:
        predicate = predicate.left
    return predicate is not None and predicate.const == 0 and settles_branch(predicate)


def _never_holds(predicate: Expr | None) -> bool:
    """Whether a predicate is false whatever happens at run time."""
    while isinstance(predicate, Binary) and predicate.op == "&&" and predicate.const is None:
        predicate = predicate.left
    return predicate is not None and predicate.const == 0


def _does_nothing(node: object) -> bool:
    """Whether a statement prints or empties a map that nothing can fill."""
    return isinstance(node, ExprStmt) and isinstance(node.expr, Call) and isinstance(node.expr.choice, EmptyMap)


def _final_maps(context: CheckContext, script: Script) -> dict[str, ScriptMap]:
    """The maps that hold something, by name, with their final types."""
    labels = name_keys([program.probe.trees for program in context.programs])
    at_end, comments = what_end_does(script, context.functions), MapComments(context.options.named)
    return {name: _finish_map(state, labels.get(name, ()), at_end.get(name, ""), comments)
            for name, state in context.maps.items() if state.inferred_value is not None}


LONGEST_KEY = 512  # bytes, before Linux 5.11 (MAX_BPF_STACK)


def _check_keys(maps: dict[str, ScriptMap], world: World, diagnostics: Diagnostics) -> None:
    for held in maps.values():
        if held.key is not None and held.key.size > LONGEST_KEY and not world.has_feature("long_keys"):
            diagnostics.error("missing-feature", f"The keys of {held.name} have {held.key.size} bytes, and this kernel "
                              f"takes no more than {LONGEST_KEY} (Linux 5.11)", held.span,
                              ["set max_strlen, or give str() a length"])


def _finish_map(state: MapState, labels: tuple[str, ...], at_end: str, comments: MapComments) -> ScriptMap:
    assert state.inferred_value is not None
    key = plain_type(state.inferred_key) if state.inferred_key is not None else None
    return ScriptMap(state.name, key, plain_type(state.inferred_value), state.span, state.kind, state.entries,
                     len(state.programs), state.read, labels, at_end, state.unit, state.on_demand,
                     comments.describe_map(state.name, state.span.source.text, state.span.start))
