"""Checking calls: arity and kinds of arguments by the function's row, then the row's own rule."""

from __future__ import annotations

from ..language.ast import Call, Expr, FloatLiteral, MapRef, Name, Node, StrLiteral, TypeSyntax, Variable
from ..types import (
    VOID,
    Aggregate,
    Array,
    Bool,
    Buf,
    Enum,
    Float,
    Inet,
    Int,
    MacAddr,
    NoneType,
    Pointer,
    Stack,
    Str,
    Struct,
    Symbol,
    Type,
)
from . import convert
from .builtins import check_builtin_call, probe_type
from .callees import FunctionRow, Parameter
from .context import ARGUMENT, CheckContext
from .expressions import text_type
from .typed import EmptyMap, WholeMap

_KINDS: dict[str, tuple[type[Type], ...]] = {
    "int": (Int, Enum), "integer": (Int, Enum), "ptr": (Pointer,), "str": (Str,), "text": (Str,), "buf": (Buf,),
    "float": (Float,), "array": (Array,), "bool": (Bool,), "stack": (Stack,), "struct": (Struct,), "inet": (Inet,),
    "mac": (MacAddr,),
}
_KIND_WORDS = {"ptr": "pointer", "str": "string", "buf": "buffer", "map": "a map", "literal": "a string literal",
               "var": "a scratch variable", "type": "a type", "key": "a map with a key", "word": "a name"}
_UNCHECKED = ("map", "key", "var", "type", "word", "raw")  # arguments that are not values


def check_call(context: CheckContext, node: Call) -> Type | None:
    """The type of a call's value; VOID if it has none."""
    node.choice = None
    if node.name in context.subprograms:
        from .subprograms import check_subprogram_call
        return check_subprogram_call(context, node)
    row = context.functions.get(node.name)
    if row is None or (not node.args and node.name in context.builtins):
        builtin = context.builtins.get(node.name)
        if builtin is not None:
            return check_builtin_call(context, builtin, node)
    if row is None:
        _check_for_faults(context, node)
        _report_unknown_function(context, node)
        return None
    node.callee = row
    if row.aggregate and context.aggregate is not node:
        context.error("aggregate-value", f"{node.name}() must be assigned directly to a map", node,
                      [f"as in: @x = {node.name}({'...' if node.args else ''})"])
        return _check_for_faults(context, node)
    if row.macro and not _has_arity(row, node):
        _report_arity(context, row, node)
        return _check_for_faults(context, node)
    if row.probes and context.program.kind not in row.probes:
        _report_probe(context, row, node)
        if _has_arity(row, node):
            _check_for_faults(context, node)
            return row.result
    if row.unsafe and not context.options.unsafe:
        why = "is unsafe. To use you need the --unsafe flag" if row.macro else \
            "is an unsafe function being used in safe mode"
        context.error("unsafe", f"{node.name}() {why}", node, ["run with --unsafe if you know what it does"])
    if not _has_arity(row, node):
        _check_for_faults(context, node)
        _report_arity(context, row, node)
        return None
    types = _check_arguments(context, row, node)
    if types is not None and context.program.attach.pin:
        if row.sends or row.aggregate:
            return _check_in_pin(context, row, node, types)
    if types is None:
        return row.result
    return row.rule(context, node, types) if row.rule is not None else row.result


def _report_probe(context: CheckContext, row: FunctionRow, node: Call) -> None:
    kind = context.program.kind
    wrong = row.wrong.get(kind) or row.wrong.get("probe", '{name} can not be used with "{kind}" probes')
    context.error("function-probe", wrong.format(name=node.name, kind=kind, type=probe_type(context)), node,
                  [f"it works in: {', '.join(row.probes)}"])


def _check_for_faults(context: CheckContext, node: Call) -> Type | None:
    """Report errors within the arguments of a call that is wrong itself."""
    for arg in node.args:
        if isinstance(arg, (Name, Variable, Call)):
            context.check_expression(arg)
    return None


def _check_in_pin(context: CheckContext, row: FunctionRow, node: Call, types: list[Type | None]) -> Type | None:
    """A call that takes Sonde, in an iterator that runs when somebody reads its pin: printf() writes what is read."""
    if row.pinned is not None:
        return row.pinned(context, node, types)
    context.error("iter-pin", f"{node.name}() has no effect in a pinned iterator: Sonde does not run when it is read",
                  node, ["printf() writes what is read from the pin"])
    return None


def _report_unknown_function(context: CheckContext, node: Call) -> None:
    from .meant import function_hints
    context.error("unknown-function", f"Unknown function: '{node.name}'", node, function_hints(context, node.name))


def _has_arity(row: FunctionRow, node: Call) -> bool:
    given = len(node.args)
    return row.least_arguments <= given and (row.takes_more or given <= len(row.parameters))


def _report_arity(context: CheckContext, row: FunctionRow, node: Call) -> None:
    params, more = row.parameters, row.takes_more
    least, given = row.least_arguments, len(node.args)
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


def _check_arguments(context: CheckContext, row: FunctionRow, node: Call) -> list[Type | None] | None:
    """The arguments' types (None for what is no value), or None if one is wrong or not known yet."""
    params = row.parameters
    types: list[Type | None] = []
    good = True
    for at, arg in enumerate(node.args):
        kinds = params[at].kinds if at < len(params) else ["raw"]
        if kinds[0] in _UNCHECKED:
            good = _check_form(context, row, node, arg, kinds) and good
            types.append(None)
            continue
        if isinstance(arg, TypeSyntax):
            context.error("bad-argument", convert.NO_TYPE, arg)
            good = False
            continue
        type = text_type(arg) if kinds == ["literal"] and isinstance(arg, StrLiteral) \
            else context.check_value(arg, ARGUMENT)
        if isinstance(type, Struct) and not {"str", "text"}.isdisjoint(kinds):
            arg = node.args[at] = context.with_texts(arg)
            type = arg.type
        elif "text" in kinds and _points_to_text(type):
            arg = node.args[at] = Call(arg.span, name="str", args=[arg])
            type = context.check_value(arg, ARGUMENT)
        types.append(type)
        if type is None:
            good = False
        elif isinstance(type, NoneType) and "any" in kinds:
            context.error("no-value", f"Value 'void' cannot be used for {ARGUMENT}.", arg)
            good = False
        elif not _matches_kind(type if row.macro or "any" in kinds else context.aggregate_of(arg) or type, arg, kinds):
            _report_wrong_kind(context, row, node, params[at], context.aggregate_of(arg) or type)
            good = False
    return types if good else None


def _points_to_text(type: Type | None) -> bool:
    """Whether an argument where a string is expected stands for str() of it: a pointer to characters, or an array of
    them."""
    target = type.to if isinstance(type, Pointer) else type.of if isinstance(type, Array) else None
    return isinstance(target, Int) and target.bits == 8


def _check_form(context: CheckContext, row: FunctionRow, node: Call, arg: Node, kinds: list[str]) -> bool:
    """Check arguments that name something."""
    fine = {"map": isinstance(arg, MapRef), "key": isinstance(arg, MapRef), "var": isinstance(arg, Variable),
            "type": isinstance(arg, TypeSyntax)}
    if kinds == ["raw"] or any(fine.get(kind, True) for kind in kinds):
        return True
    wants = " or ".join(_KIND_WORDS[kind] for kind in kinds)
    wrong = f"{node.name}() expects {wants} argument"
    if row.macro:
        context.error("bad-argument", convert.no_match(node.name), node, [wrong])
    else:
        _check_for_faults(context, node)
        context.error("bad-argument", wrong, arg)
    return False


def _matches_kind(type: Type, arg: Expr, kinds: list[str]) -> bool:
    for kind in kinds:
        if kind == "any" and not isinstance(type, (NoneType, Aggregate)):
            return True
        if kind == "literal" and isinstance(arg.const, str) or kind == "number" and isinstance(arg.const, int):
            return True
        if kind == "fraction" and isinstance(arg, FloatLiteral):
            return True
        if kind in _KINDS and isinstance(type, _KINDS[kind]):
            return True
    return False


def _report_wrong_kind(context: CheckContext, row: FunctionRow, node: Call, param: Parameter, given: Type) -> None:
    kinds = [kind for kind in param.kinds if kind not in ("float", "fraction")] or ["float"]  # as bpftrace has it
    hints = ["str() makes a string of a pointer"] if kinds[0] == "str" and isinstance(given, Pointer) else \
        ["it is a number whose name is looked up when it is printed"] if isinstance(given, Symbol) else \
        ["scaled(x, 1000) is x in thousandths, an integer"] if isinstance(given, Float) else []
    shown = convert.type_name(given) if kinds == ["integer"] else convert.kind_of_type(given)
    if isinstance(given, NoneType):
        hints = [f"{row.name}() wants a value there"]
    if node.name == "getopt":
        context.error("bad-argument", "First argument to 'getopt' must be a string literal.", node.args[0])
        return
    if param.name in row.wrong:  # where bpftrace says it in words of its own
        wrong = row.wrong[param.name].format(given=shown, kind=convert.kind_of_type(given),
                                             type=convert.type_name(given))
    elif kinds == ["text"]:
        wrong = "string-like pointers must point to a char-like type" if isinstance(given, Pointer) else \
            "string-like values must be either strings, arrays or pointers"
    elif kinds == ["number"]:
        wrong = f"{node.name}: invalid {param.name} value (must be non-negative literal)"
    elif kinds == ["literal"]:
        hints = hints or _quote_hints(node)
        wrong = f"{node.name}() expects a string literal ({shown} provided)"
    else:
        wants = " or ".join(_KIND_WORDS.get(kind, kind) for kind in kinds)
        wrong = f"{node.name}() only supports {wants} arguments ({shown} provided)"
    context.error("bad-argument", wrong, node, hints or [f"as in: {row.example}"])


def _quote_hints(node: Call) -> list[str]:
    """Hints for a call that has a character literal where it needs a string."""
    written = [arg.span.text for arg in node.args if isinstance(arg, Expr)]
    return ["strings are written in double quotes, 'x' is the number of a character: "
            f"{node.name}(\"...\")"] if any(text.startswith("'") for text in written) else []


# --- maps that are named as a whole -----------------------------------------------------------------------


def check_whole_map(context: CheckContext, target: MapRef, node: Call, value: Type = VOID, top: int = 0, div: int = 0
                    ) -> Type | None:
    """``value``, if the call is about an existing map, even one that only code that does not run here fills."""
    if target.key is not None:
        context.error("bad-argument", f"{node.name}() expects a map argument", target,
                      [f"the whole map is {target.name}"])
        return None
    state = context.map_state(target)
    if state.inferred_value is None and value == VOID and context.find_left_out(state.name) is not None:
        node.choice = EmptyMap()
        return value
    node.choice = WholeMap(target.name, top, div)
    map_value = context.map_value_type(state, target)
    if map_value is None:
        return None
    target.type = convert.plain_type(map_value)
    return value
