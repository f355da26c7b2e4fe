"""``fn name($a: T): T { ... }``: functions of the script, which become BPF functions of the programs that call them."""

from __future__ import annotations

from ..language.ast import Call, Clause, Expr, Name, Return, ScratchVar, Subprogram, TypeSyntax, Variable
from ..language.diagnostics import Diagnostics
from ..types import Aggregate, NoneType, Pointer, Tuple, Type
from . import convert
from .context import CheckContext, MapState, ProbeProgram, VarState
from .expressions import resolve_type
from .nodes import copy_tree, walk_nodes
from .typed import CheckedFunction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

REGISTERS = 5  # that arguments are passed in: r1 to r5


def declare_subprograms(context: CheckContext, functions: Sequence[Subprogram], macros: set[str],
                        diagnostics: Diagnostics) -> None:
    """Make the script's functions known."""
    for item in functions:
        if item.name in context.subprograms or item.name in macros:
            diagnostics.error("redefinition", f"Redefinition of function: {item.name}", item.span)
        elif item.name in context.functions or item.name in context.builtins:
            diagnostics.error("redefinition", f"'{item.name}' is a function of the language", item.span,
                              ["choose another name"])
        else:
            context.subprograms[item.name] = item


def check_subprogram_call(context: CheckContext, node: Call) -> Type | None:
    """The type of a call of a function of the script, which is checked with the first program that calls it."""
    written = context.subprograms[node.name]
    if node.name in context.calling:
        chain = " → ".join([*context.calling[context.calling.index(node.name):], node.name])
        context.error("recursion", f"{node.name}() calls itself: {chain}", node, ["a program must end: use a loop"])
        return None
    if len(node.args) != len(written.params):
        wants = convert.argument_count_text(len(written.params))
        context.error("arity", f"{node.name}() requires {wants} ({len(node.args)} provided)", node)
        return None
    made = _instantiate_subprogram(context, written)
    if made is None:
        return None
    for parameter, arg in zip(made.params, node.args):
        if isinstance(arg, TypeSyntax):
            context.error("bad-argument", convert.NO_TYPE, arg)
            continue
        type = context.check_value(arg, f"{node.name}()")
        if type is not None and isinstance(parameter, VarState) and parameter.fixed:
            context.assign_variable(parameter, type, arg, arg.const)
            _into_same_memory(context, node, parameter, type, arg)
    node.callee = made
    return made.result


def _into_same_memory(context: CheckContext, node: Call, parameter: VarState, type: Type, arg: Expr) -> None:
    """A pointer parameter points into the memory that the first call gives it: its declaration does not say."""
    have = parameter.inferred
    if not isinstance(have, Pointer) or not isinstance(type, Pointer):
        return
    space = context.pointer_space(type)
    if not have.space:
        parameter.inferred = parameter.type = Pointer(have.to, space)
        context.changed = True
    elif have.space != space:
        context.error("mixed-memory", f"{node.name}() is given pointers into {have.space} and into {space} memory", arg,
                      ["write a function for each"])


def _instantiate_subprogram(context: CheckContext, written: Subprogram, space: str = "") -> CheckedFunction | None:
    """The function as the current program has it, checked once in each pass. ``space``: what its parameters point
    into, if no call says it."""
    functions = context.program.probe.functions
    made = functions.get(written.name)
    if made is None:
        result = resolve_type(context, written.returns, context.program.space) if written.returns is not None else None
        if written.returns is not None and result is None:
            return None
        if isinstance(result, Aggregate) or result is not None and not isinstance(result, NoneType) and not result.size:
            context.error("bad-return", f"a function cannot return '{convert.type_name(result)}'",
                          written.returns or written)
            return None
        clause = Clause(written.span, [], None, copy_tree(written.body))
        made = functions[written.name] = CheckedFunction(
            written.name, clause, [], result if result is not None else NoneType(), _needs_frame(context, written))
    if written.name not in context.visited:
        context.visited.add(written.name)
        _check_form(context, written, made)
        _check_body(context, written, made, space)
    return made


# What only the probe that calls a function can decide, or what it gives to it.
PROBE_DECIDES = frozenset(("builtin-probe", "function-probe", "mixed-memory", "no-args", "no-argument", "no-retval"))


def check_uncalled(context: CheckContext) -> None:
    """Check the functions that no program calls: their errors are reported, and they fill no maps."""
    from ..spec import Attach
    from .typed import CheckedProbe
    called = {name for program in context.programs for name in program.probe.functions}
    maps, diagnostics = context.maps, context.diagnostics
    for written in [f for name, f in context.subprograms.items() if name not in called]:
        clause = Clause(written.span, [], None, [])
        program = ProbeProgram(CheckedProbe(clause, [Attach("begin", "begin", "", "")], None, []), "begin", len(maps))
        context.maps = {name: MapState(*state.values()) for name, state in maps.items()}
        for context.passes in range(PASSES):
            context.diagnostics, context.changed = Diagnostics(), False
            context.begin_program(program)
            _instantiate_subprogram(context, written, program.space)
            if not context.changed:
                break
        for item in context.diagnostics.items:
            if item.code not in PROBE_DECIDES:
                diagnostics._add_once(item)
    context.maps, context.diagnostics = maps, diagnostics


PASSES = 20  # far more than the types of one function need


def _check_form(context: CheckContext, written: Subprogram, made: CheckedFunction) -> None:
    most = REGISTERS - made.frame - made.by_address
    if len(written.params) > most:
        context.error("too-many-parameters", f"{written.name}() has {len(written.params)} parameters; "
                      f"{most} is the limit" + (" for one that uses builtins or functions" if made.frame else "")
                      + (f" and returns '{convert.type_name(made.result)}'" if made.by_address else ""),
                      written, ["pass a pointer, or keep some of them in a map"])
    if not isinstance(made.result, NoneType) and not any(isinstance(n, Return) for n in walk_nodes(written.body)):
        context.error("no-return", f"{written.name}() is to return '{convert.type_name(made.result)}' and never does",
                      written)


def _needs_frame(context: CheckContext, written: Subprogram) -> bool:
    """Whether the function must reach the program that it is called in: its context, or its end."""
    pending, seen = [written], {written.name}
    while pending:
        for node in walk_nodes(pending.pop().body):
            called = context.subprograms.get(node.name) if isinstance(node, Call) else None
            if called is None and (isinstance(node, Call) or isinstance(node, Name) and node.name in context.builtins):
                return True
            if called is not None and called.name not in seen:
                seen.add(called.name)
                pending.append(called)
    return False


def _check_body(context: CheckContext, written: Subprogram, made: CheckedFunction, space: str) -> None:
    saved = (context.scopes, context.loops, context.whiles, context.aggregate, context.function)
    context.scopes, context.loops, context.whiles, context.aggregate, context.function = [{}], 0, 0, None, made
    context.calling.append(written.name)
    parameters: Sequence[ScratchVar | Variable] = made.params or [copy_tree(p.target) for p in written.params]
    states = []
    for item, target in zip(written.params, parameters):
        if isinstance(target, Variable):
            state = context.declare_variable(target)
        else:
            assert isinstance(target, VarState)
            state = target
        context.scopes[0][state.name] = state
        if isinstance(target, VarState):
            context.program.probe.variables.append(state)
        if state.inferred is None and item.declared is not None:
            declared = resolve_type(context, item.declared, space)
            if isinstance(declared, (Aggregate, NoneType)):
                context.error("bad-parameter", f"'{convert.type_name(declared)}' cannot be a parameter", item)
            elif declared is not None:
                state.inferred, state.type, state.fixed = declared, convert.plain_type(declared), True
                context.changed = True
        states.append(state)
    made.params = list(states)
    if all(state.inferred is not None and not _is_placeless(state.inferred) for state in states):
        context.statements(context, made.clause.body)
    context.calling.pop()
    context.scopes, context.loops, context.whiles, context.aggregate, context.function = saved


def _is_placeless(type: Type) -> bool:
    """Whether it is a pointer into unknown memory."""
    return isinstance(type, Pointer) and not type.space


def check_return(context: CheckContext, node: Return) -> None:
    """``return`` in a function."""
    made = context.function
    assert made is not None
    if isinstance(made.result, NoneType):
        if node.value is not None:
            context.error("bad-return", f"{made.name}() has no result", node.value,
                          [f"declare it: fn {made.name}(...): uint64"])
        return
    if node.value is None:
        context.error("bad-return", f"{made.name}() returns '{convert.type_name(made.result)}'", node)
        return
    type = context.check_value(node.value, "return")
    if type is None:
        return
    if isinstance(made.result, Tuple) and isinstance(type, Tuple):
        merged = convert.merge_types(made.result, type)
        if merged is not None and convert.plain_type(merged) == made.result:
            return
    number, wants = convert.as_int(type), convert.as_int(made.result)
    if (number is None) != (wants is None) or number is None and convert.merge_types(made.result, type) is None:
        context.error("bad-return", f"{made.name}() returns '{convert.type_name(made.result)}', not "
                      f"'{convert.type_name(type)}'", node.value)
