"""Checking statements."""

from __future__ import annotations

from ..language import ast
from ..source import Span
from ..types import INT64, Aggregate, Bool, Int, NoneType, Pointer, Struct, Tuple, Type
from . import convert
from .callees import is_written, row_of, settles_branch
from .context import ARGUMENT, AssignmentSite, CheckContext, MapState, callback_hints
from .expressions import resolve_type
from .operators import binary_type, changed_type
from .subprograms import check_return

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..language.ast import Stmt

MOST_ROUNDS = 500_000  # that a verifier gets through which follows each: of two instructions


def check_statements(context: CheckContext, body: Sequence[Stmt]) -> None:
    """Each statement, in the current scope."""
    last: Stmt | None = None
    for statement in body:
        if isinstance(last, (ast.Return, ast.Break, ast.Continue)) or _is_exit(last):
            context.warning("unreachable", "Unreachable statement.", _whole_span(statement))
        last = statement
        rule = _RULES.get(type(statement))
        if rule is None:
            context.error("not-supported", "this statement is not supported here", statement)
        else:
            rule(context, statement)


def _is_exit(node: Stmt | None) -> bool:
    """Whether a statement is ``exit();``, after which a program does not go on."""
    row = row_of(node.expr) if isinstance(node, ast.ExprStmt) else None
    return row is not None and row.ends


def _whole_span(node: ast.Stmt) -> Span:
    """A statement's span, with the semicolon after it if there is one."""
    source, end = node.span.source, node.span.end
    plain = isinstance(node, (ast.ExprStmt, ast.Return, ast.Break, ast.Continue)) and source.text[end:end + 1] == ";"
    return Span(source, node.span.start, end + plain)


def _check_scoped(context: CheckContext, body: Sequence[Stmt]) -> None:
    context.scopes.append({})
    check_statements(context, body)
    context.scopes.pop()


def _check_expr_statement(context: CheckContext, node: ast.ExprStmt) -> None:
    type = context.check_expression(node.expr)
    if type is not None and not node.discard:
        for idle in _idle_branches(context, node.expr):
            # With its semicolon, as there, where it has one that is part of it.
            whole = idle is node.expr and node.span.end > idle.span.end and not node.span.text.startswith(("$", "@"))
            at = node if whole else idle.to if isinstance(idle, ast.Cast) else idle
            context.warning("discarded", "Return value discarded.", at,
                            ["_ = ... says that it is meant"])


def _idle_branches(context: CheckContext, node: ast.Expr) -> list[ast.Expr]:
    """The parts without effect of an expression statement: itself, or one or both values of a ternary."""
    if isinstance(node, ast.Ternary):
        branches = [node.other] if node.then is None else [node.then, node.other]
        return [idle for branch in branches if not isinstance(branch, ast.RuledOut)
                for idle in _idle_branches(context, branch)]
    return [node] if _is_idle(context, node) else []


def _is_idle(context: CheckContext, node: ast.Expr) -> bool:
    """Whether an expression statement has no effect."""
    if isinstance(node, ast.BlockExpr):  # of a block, and so of a macro, the value of a step is another thing
        return node.value is not None and (_is_step(node.value) or _is_idle(context, node.value))
    if isinstance(node, ast.Call):
        row = row_of(node)
        return not isinstance(node.type, NoneType) and not (row is not None and row.acts) \
            and node.name not in context.subprograms
    return not _is_step(node)


def _is_step(node: ast.Expr) -> bool:
    return isinstance(node, ast.Unary) and node.op in ("++", "--")


# --- assignment -------------------------------------------------------------------------------------------


def _check_assign(context: CheckContext, node: ast.Assign) -> None:
    if context.function is None:
        context.assigned.append(AssignmentSite(node, context.program, context.scopes[:]))
    if isinstance(node.target, ast.MapRef):
        _check_assign_map(context, node, node.target)
    elif isinstance(node.target, ast.Variable):
        _check_assign_variable(context, node, node.target)
    else:
        context.error("not-assignable", "only variables and maps can be assigned to", node.target)


def _check_assign_variable(context: CheckContext, node: ast.Assign, target: ast.Variable) -> None:
    state = context.find_variable(target.name)
    compound = node.op != "="
    if compound and state is None:
        context.report_undefined_variable(target)
    value = context.check_value(node.value, "a variable", node)
    if compound:
        if state is None or state.inferred is None:
            if state is not None:
                context.report_untyped(target)
            return
        target.slot, target.type = state, state.type
        if value is not None:
            value = _compound_type(context, node, target, state.inferred, value)
            if value is None:
                return
    if state is None:
        state = context.declare_variable(target)
    target.slot = state
    if value is not None:
        assigned = _operation(node) if compound else node.value
        context.assign_variable(state, value, assigned, assigned.const, node)
    else:
        context.report_no_value(f"${state.name}", state.inferred, node.value, node, state.written)
    target.type = state.type


def _check_assign_map(context: CheckContext, node: ast.Assign, target: ast.MapRef) -> None:
    state = context.use_map(target)
    value = _value_for_map(context, node, state)
    if value is None:
        return
    if node.op != "=":
        fresh = convert.literal_type(0) if isinstance(value, Pointer) else INT64
        have = fresh if state.inferred_value is None else state.inferred_value
        result = _compound_type(context, node, target, have, value)
        if result is None:
            return
        if isinstance(result, Pointer) and not isinstance(have, Pointer):
            context.report_mismatch(target.name, result, have, node)
            return
        value = result
    context.assign_map(state, value, node)
    target.type = None if state.inferred_value is None else convert.plain_type(state.inferred_value)


def _compound_type(context: CheckContext, node: ast.Assign, target: ast.Variable | ast.MapRef, have: Type, value: Type,
                   ) -> Type | None:
    """Type of ``x op value`` in ``x op= value``, which of two numbers is one; so it is no value for anything else."""
    number, given = convert.as_int(have), convert.as_int(value)
    if number is None and not isinstance(have, Pointer) or isinstance(have, Bool):
        name = f"${target.name}" if isinstance(target, ast.Variable) else target.name
        hints = [f"it is changed by assigning {have.kind}() again"] if isinstance(have, Aggregate) else []
        context.report_mismatch(name, changed_type(node.op[0], have, value), have, node, hints=hints)
        return None
    if number is not None and given is None and not isinstance(value, Pointer):
        have = Int(64, number.signed)
    return binary_type(context, _operation(node), node.op, (target, have), (node.value, value))


def _operation(node: ast.Assign) -> ast.Binary:
    """The operation of ``x op= y``; its span is what follows ``x``."""
    target, value = node.target, node.value
    operator = target.span.source.text[target.span.end:value.span.start]
    start = target.span.end + len(operator) - len(operator.lstrip())
    return ast.Binary(Span(value.span.source, start, value.span.end), op=node.op, left=target, right=value)


def _value_for_map(context: CheckContext, node: ast.Assign, state: MapState) -> Type | None:
    """The value's type; an aggregate function may stand here and nowhere else."""
    value = node.value
    if _copies_aggregate(context, node):
        return None
    row = context.functions.get(value.name) if isinstance(value, ast.Call) else None
    if row is None or not row.aggregate:
        type = context.check_value(value, "a map", node)
        if isinstance(type, Struct):
            node.value = value = context.with_texts(value)
            return value.type
        if type is None:
            context.report_no_value(state.name, state.inferred_value, value, node)
        return type
    if node.op != "=":
        context.error("aggregate-value", f"{row.name}() must be assigned directly to a map", value)
        return None
    context.aggregate = value
    type = context.check_value(value, "a map", node)
    context.aggregate = None
    return type


_AGGREGATES = {"count": "count()", "lhist": "lhist(rand %10, 0, 10, 1)", "tseries": "tseries(rand %10, 10s, 1)",
               "stats": "stats(arg2)"}


def _copies_aggregate(context: CheckContext, node: ast.Assign) -> bool:
    """``@b = @a`` of an aggregate: what is meant, its state or the number that it stands for?"""
    value = node.value
    have = context.map_state(value).inferred_value if isinstance(value, ast.MapRef) and node.op == "=" else None
    if not isinstance(have, Aggregate):
        return False
    assert isinstance(node.target, ast.MapRef) and isinstance(value, ast.MapRef)
    target = node.target.name
    if convert.as_int(context.map_state(node.target).inferred_value) is not None \
        and convert.read_type(have) is not None:
        return False  # a map of numbers takes the number
    hint = f"Add a cast to integer if you want the value of the aggregate, e.g. `{target} = (int64){value.name};`."
    context.error("aggregate-value", f"Map value '{have}' cannot be assigned from one map to another. The function "
                  f"that returns this type must be called directly e.g. `{target} = "
                  f"{_AGGREGATES.get(have.kind, f'{have.kind}(retval)')};`.", node,
                  [hint] if convert.read_type(have) is not None else [])
    return True


def _check_declaration(context: CheckContext, node: ast.VarDecl) -> None:
    """``let $x``; a declaration may not hide another variable."""
    name = node.target.name
    head = Span(node.span.source, node.span.start, node.target.span.end)  # without the value
    if context.find_variable(name) is not None:
        context.error("redeclared", f"Variable ${name} was already declared. Variable shadowing is not allowed.",
                      head)
    value = context.check_value(node.value, "a variable", node) if node.value is not None else None
    declared = None
    if node.declared is not None:
        space = value.space if isinstance(value, Pointer) else ""  # a type says nothing of the memory pointed into
        declared = resolve_type(context, node.declared, space or context.program.space)
        if isinstance(declared, (NoneType, Aggregate)):
            context.error("unknown-type", f"Invalid variable declaration type: {declared}", node.declared)
            return
        if declared is None:
            return
    state = context.declare_variable(node.target)
    state.span = head
    if declared is not None:
        open_ended = node.declared is not None and node.declared.base == "string" and not node.declared.dims
        state.fixed = not open_ended
        state.written = convert.written_name(declared, node.declared) if node.declared is not None else ""
        if state.inferred is None:
            state.inferred, state.type = declared, convert.plain_type(declared)
            context.changed = True
    if node.value is not None and value is not None:
        context.assign_variable(state, value, node.value, node.value.const, at=node)
    elif node.value is not None:
        context.report_no_value(f"${state.name}", state.inferred if state.written else None, node.value, node,
                                state.written)
    node.target.type = state.type


# --- control ----------------------------------------------------------------------------------------------


def _check_condition(context: CheckContext, node: ast.Expr, at: ast.Node) -> None:
    type = context.check_value(node, "a condition")
    if type is not None:
        context.check_condition(node, type, at)


def _check_if(context: CheckContext, node: ast.If) -> None:
    """Check both branches, though one that a constant condition rules out is removed at the end; one that ``comptime``
    or the like rules out is not checked."""
    _check_condition(context, node.cond, node)
    taken = node.cond.const if settles_branch(node.cond) else None
    if taken is None or taken:
        _check_scoped(context, node.then)
    if taken is None or not taken:
        _check_scoped(context, node.other)


def _check_while(context: CheckContext, node: ast.While) -> None:
    if context.whiles == 0:
        context.advise("deprecated", "While loops are deprecated and may be removed in the future.", node, [
            "For loops support ranges (e.g. `for ($x : $start..$end) { ... }`), and can be used in place of while. "
            "These are more easily proven to be bounded by the verifier."])
    type = context.check_value(node.cond, "a loop")
    if type is not None and not convert.can_be_condition(type) and not isinstance(node.cond, ast.StrLiteral):
        # bpftrace takes what lies in memory for true: it tests the address. Histograms have none.
        true = not isinstance(type, Aggregate) or type.kind == "stats"
        node.cond = ast.BoolLiteral(node.cond.span, value=true)
        context.check_value(node.cond)
    context.whiles += 1
    _check_loop_body(context, node.body)
    context.whiles -= 1


def _check_loop_body(context: CheckContext, body: Sequence[Stmt], rounds: int = 1) -> None:
    context.loops, outside, context.rounds = context.loops + 1, context.rounds, context.rounds * max(rounds, 1)
    _check_scoped(context, body)
    context.loops, context.rounds = context.loops - 1, outside


def _check_unroll(context: CheckContext, node: ast.Unroll) -> None:
    context.check_value(node.count, "unroll()")
    count = node.count.const if is_written(node.count, ast.SizeOf, ast.OffsetOf, ast.Name) else None
    if not isinstance(count, int) or count < 0 or isinstance(node.count.type, Bool):
        context.error("not-constant", "invalid unroll value", node, ["it must be known when compiling"])
    elif not 1 <= count <= 100:
        context.error("bad-unroll", f"unroll {'maximum value is 100' if count > 100 else 'minimum value is 1'}", node)
    context.unrolled += 1
    _check_loop_body(context, node.body, count if isinstance(count, int) else 1)
    context.unrolled -= 1


def _check_for(context: CheckContext, node: ast.For) -> None:
    over_objects = node.end is None and isinstance(node.start, ast.Call)
    type = _object_type(context, node) if over_objects else \
        _range_type(context, node) if node.end is not None else _pair_type(context, node)
    if context.find_variable(node.variable.name) is not None:
        context.error("redeclared", f"Loop declaration shadows existing variable: ${node.variable.name}", node.variable)
    context.scopes.append({})
    state = context.declare_variable(node.variable)
    state.aggregated = isinstance(node.start, ast.MapRef) and context.aggregate_in(node.start) is not None
    if over_objects:
        context.tasks.add(id(state))
    if type is not None:
        context.assign_variable(state, type, node.variable)
        node.variable.type = state.type
    _check_loop_body(context, node.body, _check_rounds(context, node) if node.end is not None else 1)
    context.scopes.pop()


def _check_rounds(context: CheckContext, node: ast.For) -> int:
    """How many rounds a range has; 1 if that is not known. Without bpf_loop() the verifier follows every round, up to a
    million instructions of a program (BPF_COMPLEXITY_LIMIT_INSNS)."""
    assert node.end is not None
    start, end = node.start.const, node.end.const
    rounds = end - start if isinstance(start, int) and isinstance(end, int) else 1
    if context.world.has_feature("bpf_loop"):
        return rounds
    if not isinstance(start, int) or not isinstance(end, int):
        context.error("missing-feature", "programs of this kernel cannot loop over a range whose ends are not constant "
                      "(Linux 5.17)", node.end if isinstance(start, int) else node.start, callback_hints(context.world))
    elif rounds * context.rounds > MOST_ROUNDS:
        context.error("missing-feature", f"programs of this kernel cannot loop {rounds * context.rounds} times (Linux "
                      "5.17)", node.start, callback_hints(context.world))
    return rounds


def _object_type(context: CheckContext, node: ast.For) -> Type | None:
    from .object_loops import check_object_loop
    assert isinstance(node.start, ast.Call)
    return check_object_loop(context, node.start)


def _range_type(context: CheckContext, node: ast.For) -> Type | None:
    assert node.end is not None
    ends = []
    for end in (node.start, node.end):
        type = context.check_value(end, ARGUMENT)
        number = convert.as_int(context.aggregate_of(end) or type)
        if type is not None and (number is None or isinstance(type, Bool)):
            which = "start" if end is node.start else "end"
            head = Span(node.span.source, node.span.start, node.end.span.end)
            context.error("bad-range", f"Loop range requires an integer for the {which} value", head)
        ends.append(number)
    if ends[0] is None or ends[1] is None:
        return None
    return convert.merge_ints(ends[0], ends[1])


def _pair_type(context: CheckContext, node: ast.For) -> Type | None:
    if not isinstance(node.start, ast.MapRef) or node.start.key is not None:
        context.error("bad-range", "for iterates over a whole map, or a range such as 0..10", node.start)
        return None
    state = context.map_state(node.start)
    value = context.map_value_type(state, node.start)
    if value is None:
        return None
    if state.keyed is False:
        context.error("map-key", f"{state.name} has no explicit keys (scalar map), and cannot be used for iteration",
                      node.start)
        return None
    if state.inferred_key is None:
        context.error("undefined-map", f"Undefined map: {state.name}", node.start)
        return None
    if not context.world.has_feature("for_each_map_elem"):
        context.error("missing-feature", "programs of this kernel cannot go through a map (Linux 5.13)", node.start,
                      callback_hints(context.world))
        return None
    node.start.type = convert.plain_type(value)
    if isinstance(value, Aggregate):
        state.read = True
        value = convert.read_type(value)
        if value is None:
            context.error("aggregate-value", f"Loop expression does not support type: {node.start.type}", node.start,
                          [f"print({state.name}) shows them"])
            return None
    return Tuple((state.inferred_key, value))


def _check_jump(context: CheckContext, node: ast.Break | ast.Continue) -> None:
    if context.loops == 0:
        word = "break" if isinstance(node, ast.Break) else "continue"
        context.error("outside-loop", f"'{word}' statement is not allowed in a probe", _whole_span(node))


def _check_return_statement(context: CheckContext, node: ast.Return) -> None:
    if context.function is not None:
        check_return(context, node)
        return
    if node.value is None:
        return
    type = context.check_value(node.value, "return")
    type = context.aggregate_of(node.value) or type
    if type is not None and (convert.as_int(type) is None or isinstance(type, Bool)):
        context.error("bad-return", f"Probe return values can only be integers. Found {convert.type_name(type)}",
                      _whole_span(node))


_RULES: dict[type, Callable[..., None]] = {
    ast.ExprStmt: _check_expr_statement, ast.Assign: _check_assign, ast.VarDecl: _check_declaration, ast.If: _check_if,
    ast.While: _check_while,
    ast.Unroll: _check_unroll, ast.For: _check_for, ast.Break: _check_jump, ast.Continue: _check_jump,
    ast.Return: _check_return_statement,
    ast.Block: lambda context, node: _check_scoped(context, node.body),
}
