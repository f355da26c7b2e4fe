"""Checking calls: arity and kinds of arguments by the function's row, then the row's own rule."""

from __future__ import annotations

from typing import Any

from ..language.ast import Call, MapRef, Name, StrLiteral, TypeSyntax, Variable
from ..language.diagnostics import nearest_names
from ..types import Aggregate, Array, Bool, Buf, Enum, Inet, Int, MacAddr, NoneType, Pointer, Stack, Str, Struct, Type
from . import convert
from .builtins import BUILTINS, check_builtin_call, find_builtin
from .context import CheckContext
from .expressions import text_type
from .functions import FUNCTIONS, FunctionRow
from .operators import PROBE

_KINDS: dict[str, Any] = {
    "int": (Int, Enum, Bool), "integer": (Int, Enum, Bool), "ptr": (Pointer,), "str": (Str,), "buf": (Buf,),
    "array": (Array,), "bool": (Bool,), "stack": (Stack,), "struct": (Struct,), "inet": (Inet,), "mac": (MacAddr,),
}
_KIND_WORDS = {"ptr": "pointer", "str": "string", "buf": "buffer", "map": "a map", "literal": "a string literal",
               "var": "a scratch variable", "type": "a type", "key": "a map with a key", "word": "a name"}
_UNCHECKED = ("map", "key", "var", "type", "word", "raw")  # arguments that are not values


def check_call(context: CheckContext, node: Call) -> Type | None:
    """The type of a call's value; VOID if it has none."""
    if node.name in context.subprograms:
        from .subprograms import check_subprogram_call
        return check_subprogram_call(context, node)
    row = FUNCTIONS.get(node.name)
    if row is None or (not node.args and node.name in BUILTINS):
        builtin = find_builtin(node.name)
        if builtin is not None:
            return check_builtin_call(context, builtin, node)
    if row is None:
        _report_unknown_function(context, node)
        return None
    if row.aggregate and context.aggregate is not node:
        context.error("aggregate-value", f"{node.name}() must be assigned directly to a map", node,
                      [f"as in: @x = {node.name}({'...' if node.args else ''})"])
        return None
    if row.macro and not _check_arity(context, row, node):
        return None
    if row.unsafe and not context.options.unsafe:
        why = "is unsafe. To use you need the --unsafe flag" if row.macro else \
            "is an unsafe function being used in safe mode"
        context.error("unsafe", f"{node.name}() {why}", node, ["run with --unsafe if you know what it does"])
    if row.probes and context.program.kind not in row.probes:
        wrong = _PLACES.get(node.name, f'{node.name} can not be used with "{context.program.kind}" probes')
        context.error("function-probe", wrong, node, [f"it works in: {', '.join(row.probes)}"])
        return None
    if not _check_arity(context, row, node):
        return None
    types = _check_arguments(context, row, node)
    if types is not None and context.program.attach.extra.get("pin"):
        if row.sends or row.aggregate:
            return _check_in_pin(context, row, node, types)
    if types is None:
        return row.result if isinstance(row.result, Type) else None
    if row.rule is not None:
        found = row.rule(context, node, types)
        assert found is None or isinstance(found, Type)
        return found
    assert isinstance(row.result, Type)
    return row.result


def _check_in_pin(context: CheckContext, row: FunctionRow, node: Call, types: list[Type | None]) -> Type | None:
    """A call that takes Sonde, in an iterator that runs when somebody reads its pin: printf() writes what is read."""
    if node.name == "printf":
        from .action_rules import check_debugf
        return check_debugf(context, node, types)
    context.error("iter-pin", f"{node.name}() has no effect in a pinned iterator: Sonde does not run when it is read",
                  node, ["printf() writes what is read from the pin"])
    return None


def _report_unknown_function(context: CheckContext, node: Call) -> None:
    instead = _OLD_NAMES.get(node.name)
    if instead:
        context.error("unknown-function", f"Unknown function: '{node.name}'", node, [f"use {instead}"])
        return
    close = nearest_names(node.name, [*FUNCTIONS, *BUILTINS, *context.subprograms])
    context.error("unknown-function", f"Unknown function: '{node.name}'", node,
                  [f"did you mean {c}()?" for c in close[:1]])


_OLD_NAMES = {"quantize": "hist()", "lquantize": "lhist()", "sym": "ksym() or usym()", "ustr": "str(uptr(p))"}


def _parse_parameters(row: FunctionRow) -> tuple[list[tuple[str, list[str], bool]], bool]:
    """The row's parameters as (name, kinds, optional), and whether more arguments may follow."""
    found, more = [], False
    for text in row.params:
        if text == "...":
            more = True
            continue
        name, _, kinds = text.rstrip("?").partition(":")
        found.append((name, kinds.split("|"), text.endswith("?")))
    return found, more


def _check_arity(context: CheckContext, row: FunctionRow, node: Call) -> bool:
    params, more = _parse_parameters(row)
    least, given = len([p for p in params if not p[2]]), len(node.args)
    if least <= given and (more or given <= len(params)):
        return True
    if least == len(params) and not more:
        wants = f"requires {convert.argument_count_text(least)}"
    elif given < least:
        wants = f"requires at least {convert.argument_count_text(least)}"
    else:
        wants = f"takes up to {convert.argument_count_text(len(params))}"
    wrong, hints = f"{node.name}() {wants} ({given} provided)", [f"as in: {row.example}"]
    if row.macro:
        wrong, hints = convert.no_match(node.name), [wrong, *hints]
    context.error("arity", wrong, node, hints)
    return False


def _check_arguments(context: CheckContext, row: FunctionRow, node: Call) -> list[Type | None] | None:
    """The arguments' types (None for what is no value), or None if one is wrong or not known yet."""
    params, _ = _parse_parameters(row)
    types: list[Type | None] = []
    good = True
    for at, arg in enumerate(node.args):
        kinds = params[at][1] if at < len(params) else ["raw"]
        if kinds[0] in _UNCHECKED:
            good = _check_form(context, node, arg, kinds) and good
            types.append(None)
            continue
        if isinstance(arg, TypeSyntax):
            context.error("bad-argument", convert.NO_TYPE, arg)
            good = False
            continue
        type = text_type(arg) if kinds == ["literal"] and isinstance(arg, StrLiteral) \
            else context.check_value(arg, f"{node.name}()")
        if type == PROBE and "str" in kinds and isinstance(arg, (Name, Call)):
            type = _probe_as_text(context, arg)
        types.append(type)
        if type is None:
            good = False
        elif not _matches_kind(type, arg, kinds):
            _report_wrong_kind(context, node, params[at][0], kinds, type)
            good = False
    return types if good else None


def _probe_as_text(context: CheckContext, node: Name | Call) -> Type:
    """The name of the attach point, which a clause that takes it for a string has one of: see attach.py."""
    node.const = context.program.attach.name
    node.type = Str(len(node.const.encode("utf-8", "surrogateescape")) + 1)
    return node.type


def _check_form(context: CheckContext, node: Call, arg: Any, kinds: list[str]) -> bool:
    """Arguments that name something."""
    fine = {"map": isinstance(arg, MapRef), "key": isinstance(arg, MapRef), "var": isinstance(arg, Variable),
            "type": isinstance(arg, TypeSyntax)}
    if kinds == ["raw"] or any(fine.get(kind, True) for kind in kinds):
        return True
    wants = " or ".join(_KIND_WORDS[kind] for kind in kinds)
    context.error("bad-argument", f"{node.name}() expects {wants} argument", arg)
    return False


def _matches_kind(type: Type, arg: Any, kinds: list[str]) -> bool:
    for kind in kinds:
        if kind == "any" and not isinstance(type, (NoneType, Aggregate)):
            return True
        if kind == "literal" and isinstance(arg.const, str) or kind == "number" and isinstance(arg.const, int):
            return True
        if kind in _KINDS and isinstance(type, _KINDS[kind]):
            return True
    return False


def _report_wrong_kind(context: CheckContext, node: Call, param: str, kinds: list[str], given: Type) -> None:
    hints = ["str() makes a string of a pointer"] if kinds[0] == "str" and isinstance(given, Pointer) else []
    shown = convert.type_name(given) if kinds == ["integer"] else convert.kind_of_type(given)
    if f"{node.name} {param}" in _WANTS:
        wrong = _WANTS[f"{node.name} {param}"].format(given=shown)
    elif kinds == ["number"]:
        wrong = f"{node.name}: invalid {param} value (must be non-negative literal)"
    elif kinds == ["literal"]:
        wrong = f"{node.name}() expects a string literal ({shown} provided)"
    else:
        wants = " or ".join(_KIND_WORDS.get(kind, kind) for kind in kinds)
        wrong = f"{node.name}() only supports {wants} arguments ({shown} provided)"
    context.error("bad-argument", wrong, node, hints)


_WANTS = {  # where bpftrace says it in words of its own
    "hist bits": "hist: invalid bits value, need integer literal", "lhist step": "lhist: invalid step value",
    "strncmp length": "Builtin strncmp requires a non-negative literal",
    "ksym address": "ksym() expects an integer or pointer argument",
    "usym address": "usym() expects an integer or pointer argument",
    "pton text": "pton() expects an string literal at the first argument",
    "ntop address": "ntop() expects an integer or array argument, got {given}",
    "path path": "path() only supports pointer or C type argument ({given} provided)",
    "path length": "path: invalid size value, need non-negative literal",
}
_PLACES = {"path": "The path function can only be used with 'fentry', 'fexit', 'iter' probes"}  # likewise
