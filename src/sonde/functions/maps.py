"""Whole maps and their elements."""

from __future__ import annotations

from ..compiler import helpers as h
from ..compiler.ir import BasicBlock, MapFd, Operand
from ..compiler.lower import memory, records
from ..compiler.lower.calls import Function
from ..compiler.lower.control.ordering import evaluate_once, must_run_first
from ..compiler.lower.control.variables import set_variable
from ..compiler.lower.core import Lower
from ..compiler.lower.maps import access
from ..compiler.lower.state import FunctionState
from ..language.ast import (
    Call,
    Choice,
    Expr,
    MapRef,
    Variable,
)
from ..semantics import convert
from ..semantics.callees import Types, choice_of
from ..semantics.calls import check_whole_map
from ..semantics.context import CheckContext, callback_hints, fold_constant
from ..semantics.go_types import length_of
from ..semantics.typed import Element, WholeMap
from ..types import (
    BOOL,
    INT64,
    NOTHING,
    VOID,
    Aggregate,
    Int,
    Stack,
    Type,
)


class Length(Choice):
    """len() of a value of Go's: the expression that has it."""

    value: Expr


def check_clear(context: CheckContext, node: Call, types: Types) -> Type | None:
    return check_whole_map(context, node.args[0], node)


def _request_for_map(lo: Lower, call: Call) -> None:
    """clear() and zero() are done by user space."""
    name = choice_of(call, WholeMap).map
    lo.forget(name)
    records.send_control_record(lo, call.name, {"map": name})


# --- elements -------------------------------------------------------------------------------------------


def _check_element(context: CheckContext, node: Call, target: MapRef, key: Expr | None) -> bool:
    """The map and key of delete(), has_key(), find()."""
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
    node.choice = Element(target.name, key)
    value = context.map_value_type(state, target)
    if value is not None:
        target.type = convert.plain_type(value)
    return value is not None


def check_delete(context: CheckContext, node: Call, types: Types) -> Type | None:
    """``delete(@x, k)`` and the older ``delete(@x[k])``."""
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


def _delete_statement(lo: Lower, call: Call) -> None:
    element = choice_of(call, Element)
    access.delete_key(lo, element.map, element.key)


def _lower_delete(lo: Lower, call: Call) -> Operand:
    """1 if the key was there: the helper answers 0 or a negative error."""
    element = choice_of(call, Element)
    result = access.delete_key(lo, element.map, element.key)
    return 1 if isinstance(result, int) else lo.flag("jeq", result, 0, h.MAP_RESULT)


def check_has_key(context: CheckContext, node: Call, types: Types) -> Type | None:
    if node.args[0].key is not None:
        context.error("bad-argument", convert.no_match(node.name), node, ["the first argument is a whole map"])
        return None
    return BOOL if _check_element(context, node, node.args[0], node.args[1]) else None


def _branch_on_key(lo: Lower, call: Call, yes: BasicBlock, no: BasicBlock) -> None:
    element = choice_of(call, Element)
    assert element.key is not None
    access.branch_on_key(lo, element.map, element.key, yes, no)


def check_is_scalar(context: CheckContext, node: Call, types: Types) -> Type | None:
    """A constant: whether a map has no keys."""
    target = node.args[0]
    if not isinstance(target, MapRef) or target.key is not None:
        context.error("bad-argument", "is_scalar() expects a map for the first argument", node)
        return None
    state = context.map_state(target)
    if context.map_value_type(state, target) is None:
        return None
    return fold_constant(node, int(not state.keyed), BOOL)


def check_find(context: CheckContext, node: Call, types: Types) -> Type | None:
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


def _lower_find(lo: Lower, call: Call) -> Operand:
    """find(@m, k, $v): look up once, keep the value."""
    name, key = choice_of(call, Element).map, choice_of(call, Element).key
    assert key is not None
    if must_run_first(key):
        key = evaluate_once(lo, key)
    ref = MapRef(call.span, name=name, key=key)
    ref.type = lo.unit.checked.maps[name].value
    target = call.args[2]
    assert isinstance(target, Variable)
    present = lo.b.function.reg("found")
    if id(target.slot) not in lo.state.variables or target.slot.span == target.span:  # declared here
        set_variable(lo, target, None)
    lo.b.set(present, 0)
    have, on = lo.b.block("have"), lo.b.block("on")
    with lo.region():
        access.branch_on_key(lo, name, key, have, on)
        lo.b.start(have)
        set_variable(lo, target, ref)
        lo.b.set(present, 1)
    lo.b.start(on)
    return present


# --- lengths --------------------------------------------------------------------------------------------


def check_len(context: CheckContext, node: Call, types: Types) -> Type | None:
    target = node.args[0]
    if isinstance(target, MapRef) and target.key is None:
        state = context.map_state(target)
        if not isinstance(state.inferred_value, Stack) or state.keyed:
            if state.keyed is False:
                context.error("map-key", "call to len() expects a map with explicit keys (non-scalar map)", node)
                return None
            if not context.world.has_feature("for_each_map_elem"):
                context.error("missing-feature", "programs of this kernel cannot count keys (Linux 5.13)", node,
                              callback_hints(context.world))
                return None
            if state.inferred_value is None:
                context.error("undefined-map", f"Unknown map: {state.name}", node)
                return None
            return check_whole_map(context, target, node, INT64)
    type = context.check_value(target, "len()")
    if type is None or isinstance(type, Stack):
        return None if type is None or context.keep_stacks(type, target) is None else INT64
    length = length_of(target, type)
    if length is not None and context.check_value(length) is not None:
        node.choice = Length(length)
        return INT64
    context.error("bad-argument", "call to len() expects a map, ustack, or kstack", node)
    return None


def _lower_len(lo: Lower, call: Call) -> Operand:
    if isinstance(call.choice, Length):
        return lo.scalar_value(call.choice.value)
    if not isinstance(call.choice, WholeMap):  # a stack
        stack = call.args[0]
        assert isinstance(stack.type, Stack)
        count = lo.b.function.reg("frames")
        lo.b.set(count, memory.read_scalar(lo, lo.place_value(stack).at(12), Int(32, False)))
        long, on = lo.b.block("long"), lo.b.block("on")  # a few more of the kernel's are taken: see write_stack()
        lo.b.branch("jle", count, stack.type.limit, on, long)
        lo.b.start(long)
        lo.b.set(count, stack.type.limit)
        lo.b.start(on)
        return count
    name = call.choice.map
    if lo.unit.maps[name].memory:
        return 1
    total = _count_elements(lo, name)
    short = lo.unit.maps[name].short
    return lo.b.alu("add", total, _count_elements(lo, short)) if short else total


def _count_elements(lo: Lower, name: str) -> Operand:
    """bpf_for_each_map_elem() with a callback that does nothing: it returns how many elements it visited."""
    function = lo.add_function(f"visit{len(lo.program.functions)}", 4)
    with lo.building(FunctionState(function, outer=lo.state)):
        lo.b.exit(0)
    return lo.b.call(h.FOR_EACH_MAP, [MapFd(name), lo.b.callback(function.name), 0, 0], "for_each_map_elem")



ROWS = (
    Function("clear", ("map:map",), VOID, "Empty a map.", "clear(@x)", check_clear, sends="control", on_map="clear",
             statement=_request_for_map),
    Function("zero", ("map:map",), VOID, "Set every value of a map to 0.", "zero(@x)", check_clear, sends="control",
             on_map="zero", statement=_request_for_map),
    Function("delete", ("map:map", "key:raw?"), BOOL, "Remove a key from a map; false if it was not there.",
             "delete(@x, tid)", check_delete, on_map="delete", macro=True, acts=True, statement=_delete_statement,
             scalar=_lower_delete),
    Function("has_key", ("map:map", "key:raw"), BOOL, "Whether a map has a key.", "has_key(@x, tid)", check_has_key,
             on_map="look", macro=True, condition=_branch_on_key),
    Function("has_keys", ("map:map",), BOOL, "Whether a map has any keys; before Linux 5.13 always true.",
             "has_keys(@x)", library="maps"),
    Function("in_order", ("map:map", "rows:int", "pair:var", "row:raw"), NOTHING,
             "Run an action for the keys with the largest values, at most so many, the largest first, and delete them.",
             "in_order(@x, 20, $pair, print($pair.0))", library="maps"),
    Function("tell_more", ("map:map",), NOTHING, "Delete all remaining keys, and print how many in_order() left.",
             "tell_more(@x)", library="maps"),
    Function("find", ("map:map", "key:raw", "value:var"), BOOL, "Look a key up and keep its value, in one step.",
             "find(@x, tid, $start)", check_find, on_map="look", macro=True, acts=True, scalar=_lower_find),
    Function("is_scalar", ("map:raw",), BOOL, "Whether a map has no keys.", "is_scalar(@x)", check_is_scalar),
    Function("len", ("of:raw",), INT64, "Number of keys of a map or frames of a stack; length of a string, slice, map "
             "or channel of Go's.", "len(@x)", check_len,
             on_map="look", macro=True, scalar=_lower_len),
)
