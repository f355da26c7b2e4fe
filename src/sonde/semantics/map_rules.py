"""The type rules of functions that work on maps: print() and clear(), delete() and find(), count() and its like."""

from __future__ import annotations

from ..language.ast import Call, Expr, MapRef, TypeSyntax, Variable
from ..types import BOOL, INT64, VOID, Aggregate, Stack, Type
from . import convert
from .context import CheckContext
from .rules import Rule, Types

# --- whole maps -------------------------------------------------------------------------------------------


def check_print(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: {"map": name, "top": n, "div": n} for a whole map, {} for a value."""
    target = node.args[0]
    if isinstance(target, TypeSyntax):
        context.error("bad-argument", convert.NO_TYPE, target)
        return None
    if isinstance(target, MapRef) and target.key is None:
        return _check_print_map(context, node, target)
    if len(node.args) > 1:
        context.error("arity", f"Non-map print() only takes 1 argument, {len(node.args)} found", node)
        return None
    node.data = {}
    if isinstance(target, MapRef):
        return _check_print_element(context, target)
    found = context.check_value(target, "print()")
    return None if found is None else VOID


def _check_print_map(context: CheckContext, node: Call, target: MapRef) -> Type | None:
    limits = []
    for arg in node.args[1:]:
        given = context.check_expression(arg)
        if given is None:
            return None
        if not isinstance(arg.const, int) or arg.const < 0:
            context.error("not-constant", f"print() expects a int literal ({convert.kind_of_type(given)} provided)",
                          node)
            return None
        limits.append(arg.const)
    top, div = [*limits, 0, 0][:2]
    node.data = {"map": target.name, "top": top, "div": div}
    return check_whole_map(context, target, node)


def _check_print_element(context: CheckContext, target: MapRef) -> Type | None:
    """One element of an aggregate: an integer for count and its like, for hist the tree keeps the Aggregate type."""
    state = context.use_map(target)
    value = context.element_value(state, target)
    if value is None:
        return None
    if isinstance(value, Aggregate):
        state.read = True
        value = convert.read_type(value) or value
    target.type = convert.plain_type(value)
    return VOID


UNFILLED = {"map": ""}  # Call.data of print(@x), clear(@x), zero(@x) where no code of this run fills @x: left out


def check_whole_map(context: CheckContext, target: MapRef, node: Call, value: Type = VOID) -> Type | None:
    """A map named as a whole; it must exist, if only in code that does not run here."""
    if target.key is not None:
        context.error("bad-argument", f"{node.name}() expects a map argument", target,
                      [f"the whole map is {target.name}"])
        return None
    state = context.map_state(target)
    if state.inferred_value is None and value == VOID and context.find_left_out(state.name) is not None:
        node.data = dict(UNFILLED)
        return value
    found = context.map_value_type(state, target)
    if found is None:
        return None
    target.type = convert.plain_type(found)
    return value


def check_clear(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: {"map": name}."""
    node.data = {"map": node.args[0].name}
    return check_whole_map(context, node.args[0], node)


# --- elements ---------------------------------------------------------------------------------------------


def _check_element(context: CheckContext, node: Call, target: MapRef, key: Expr | None) -> bool:
    """The map and key of delete(), has_key(), find(): ``node.data`` gets {"map", "key"}."""
    state = context.map_state(target)
    if state.keyed is (key is None):
        many = "two arguments" if key is not None else "a single argument"
        call = f"delete() with {many}" if node.name == "delete" else f"{node.name}()"
        wants = "explicit keys (non-scalar map)" if key is not None else "out explicit keys (scalar map)"
        context.error("map-key", f"call to {call} expects a map with{' ' * (key is not None)}{wants}", node)
        return False
    context.check_key_form(state, key is not None, target)
    if key is not None:
        context.add_key(state, context.check_value(key, "a map key"), key, target if target.key is key else key)
    node.data = {"map": target.name, "key": key}
    found = context.map_value_type(state, target)
    if found is not None:
        target.type = convert.plain_type(found)
    return found is not None


def check_delete(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: {"map": name, "key": expression or None}; for ``delete(@x, k)`` and the older ``delete(@x[k])``."""
    target = node.args[0]
    if len(node.args) == 2 and target.key is not None:
        context.error("bad-argument", convert.no_match(node.name), node, ["as in delete(@x, key)"])
        return None
    if len(node.args) == 1 and target.key is not None:
        key = target.key
    else:
        key = node.args[1] if len(node.args) == 2 else None
    context.map_state(target).programs[context.program.index] = True
    return BOOL if _check_element(context, node, target, key) else None


def check_has_key(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: {"map": name, "key": expression}."""
    if node.args[0].key is not None:
        context.error("bad-argument", convert.no_match(node.name), node, ["the first argument is a whole map"])
        return None
    return BOOL if _check_element(context, node, node.args[0], node.args[1]) else None


def check_find(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: {"map": name, "key": expression}; the third argument is a Variable with its slot."""
    if check_has_key(context, node, types) is None:
        return None
    value = context.map_state(node.args[0]).inferred_value
    target = node.args[2]
    assert isinstance(target, Variable) and value is not None
    readable = convert.read_type(value)
    if readable is None:
        context.error("aggregate-value", f"'{value}' cannot be kept in a variable", target)
        return None
    if isinstance(value, Aggregate):
        context.map_state(node.args[0]).read = True
    state = context.find_variable(target.name) or context.declare_variable(target)
    target.slot = state
    context.assign_variable(state, readable, target)
    target.type = state.type
    return BOOL


def check_len(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: {"map": name} for a map, {} for a stack."""
    target = node.args[0]
    if isinstance(target, MapRef) and target.key is None:
        state = context.map_state(target)
        if not isinstance(state.inferred_value, Stack) or state.keyed:
            node.data = {"map": target.name}
            if state.keyed is False:
                context.error("map-key", "call to len() expects a map with explicit keys (non-scalar map)", node)
                return None
            return check_whole_map(context, target, node, INT64)
    found = context.check_value(target, "len()")
    node.data = {}
    if found is None or isinstance(found, Stack):
        return None if found is None else INT64
    context.error("bad-argument", "call to len() expects a map, ustack, or kstack", node)
    return None


def aggregate_rule(kind: str) -> Rule:
    """count(), sum(n) ...: only as the value of ``@x = ...``."""
    def check_aggregate(context: CheckContext, node: Call, types: Types) -> Type | None:
        return _aggregate_type(context, node, kind, types)
    return check_aggregate


def _aggregate_type(context: CheckContext, node: Call, kind: str, types: Types) -> Type | None:
    number = convert.as_int(types[0]) if types else None
    signed = number is None or number.signed or kind in ("hist", "lhist")
    numbers = [arg.const for arg in node.args[1:]]
    if kind == "hist":
        bits = numbers[0] if numbers else 0
        if not 0 <= bits <= 5:
            context.error("bad-argument", f"hist: bits {bits} must be 0..5", node)
            return None
        return Aggregate(kind, signed, bits)
    if kind == "tseries":
        return _check_series(context, node, signed)
    if kind != "lhist":
        return Aggregate(kind, signed)
    low, high, step = numbers
    problem = (f"lhist: invalid {'min' if low < 0 else 'max'} value (must be non-negative literal)"
               if low < 0 or high < 0 else "lhist: invalid step value" if step < 0
               else f"lhist() step must be >= 1 ({step} provided)" if step < 1
               else f"lhist() min must be less than max (provided min {low} and max {high})" if high <= low
               else f"lhist() too many buckets, must be <= 1000 (would need {(high - low) // step})"
               if (high - low) // step > 1000
               else f"lhist() step is too large for the given range (provided step {step} for range {high - low})"
               if step > high - low else "")
    if problem:
        context.error("bad-argument", problem, node)
        return None
    return Aggregate(kind, signed, 0, low, high - (high - low) % step, step)  # the last bucket is whole


AGGREGATIONS = ("avg", "max", "min", "sum")
MAX_INTERVALS = 1_000_000  # as the kernel bounds a per-CPU value: see MAX_PER_CPU


def _check_series(context: CheckContext, node: Call, signed: bool) -> Type | None:
    """tseries(n, interval, count[, agg])."""
    interval, count = node.args[1].const, node.args[2].const
    agg = node.args[3].const if len(node.args) > 3 else ""
    report_unstable(context, node, "tseries", context.config.unstable_tseries)
    for word, number in (("interval_ns", interval), ("num_intervals", count)):
        if number < 1:
            context.error("bad-argument", f"tseries: invalid {word} value (must be non-negative literal)" if number else
                          f"tseries() {word} must be >= 1 (0 provided)", node)
            return None
    if count > MAX_INTERVALS:
        context.error("bad-argument", f"tseries() num_intervals must be < {MAX_INTERVALS} ({count} provided)", node)
    elif agg not in ("", *AGGREGATIONS):
        context.error("bad-argument", f"tseries() expects one of the following aggregation functions: "
                      f"{', '.join(AGGREGATIONS)} (\"{agg}\" provided)", node)
    else:
        return Aggregate("tseries", signed, 0, interval, count, 1, agg)
    return None


def report_unstable(context: CheckContext, node: Expr, feature: str, policy: str) -> None:
    """Say what the configuration wants said about a feature that may still change."""
    hint = [f"or set BPFTRACE_UNSTABLE_{feature.upper()}=enable"]
    if policy == "error":
        context.error("unstable", f"{feature} feature is not enabled by default. To enable this unstable feature, set "
                      f"the config flag to enable. unstable_{feature}=enable", node, hint)
    elif policy == "warn":
        context.warning("unstable", f"Script is using an unstable feature: {feature}. To prevent this warning you must "
                        f"explicitly enable it in the config e.g. unstable_{feature}=enable", None)
