"""Printing: formatted text, values and maps, the time, files, the output of commands."""

from __future__ import annotations

from ..compiler.lower import records
from ..compiler.lower.calls import Function
from ..compiler.lower.core import Lower
from ..compiler.lower.kernel_printf import seq_printf, trace_printf
from ..compiler.lower.state import Mem
from ..language.ast import (
    Call,
    Cast,
    Choice,
    Expr,
    IntLiteral,
    MapRef,
    RowCall,
    RuledOut,
    StrLiteral,
    Ternary,
    TypeSyntax,
)
from ..semantics import convert
from ..semantics.builtins import ClockChoice
from ..semantics.callees import Types, choice_of
from ..semantics.calls import check_whole_map
from ..semantics.context import ARGUMENT, CheckContext
from ..semantics.expressions import is_context
from ..semantics.formats import check_format
from ..semantics.library_texts import keep_number
from ..semantics.tables import lay_out_columns
from ..semantics.typed import WholeMap
from ..spec import Column, FormatPart
from ..types import (
    VOID,
    Aggregate,
    NoneType,
    Str,
    Timestamp,
    Type,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..spec import SiteData


class Format(Choice):
    """What is printed, part by part; of a table its name and columns."""

    parts: list[FormatPart]
    table: str = ""
    columns: list[Column] = []


def check_formatted(context: CheckContext, node: Call, types: Types) -> Type | None:
    parts = check_format(context, node)
    if parts is None:
        return None
    node.choice = Format(parts) if not isinstance(node, RowCall) else Format(*lay_out_columns(node))
    return VOID


def _formatted_record(kind: str, severity: str = "") -> Callable[[Lower, Call], None]:
    def lower(lo: Lower, call: Call) -> None:
        data = _own_texts(call)
        if severity:
            data["severity"] = severity
        records.send_record(lo, kind, call.args[1:], parts=choice_of(call, Format).parts, data=data)
    return lower


def _lower_printf(lo: Lower, call: Call) -> None:
    if lo.attach[0].pin:
        seq_printf(lo, choice_of(call, Format).parts, call.args[1:])
        return
    format = choice_of(call, Format)
    data = _own_texts(call)
    if format.table:
        data["table"] = format.table
    records.send_record(lo, "printf", call.args[1:], parts=format.parts, columns=format.columns, data=data)


def _own_texts(call: Call) -> SiteData:
    """Which arguments are constant texts and characters of the script: they are printed as they are."""
    own = [number for number, arg in enumerate(call.args[1:]) if isinstance(arg, Expr) and _is_own(arg)]
    return {"own": own} if own else {}


def _is_own(node: Expr) -> bool:
    if isinstance(node, Ternary):
        return node.then is not None and _is_own(node.then) and _is_own(node.other)
    return isinstance(node, IntLiteral | StrLiteral | RuledOut)


def _lower_debugf(lo: Lower, call: Call) -> None:
    trace_printf(lo, choice_of(call, Format).parts, call.args[1:])


PRINTK_ARGUMENTS = 12  # MAX_BPRINTF_VARARGS in include/linux/bpf.h


def check_debugf(context: CheckContext, node: Call, types: Types) -> Type | None:
    context.warning("not-for-production", "The debugf() builtin is not recommended for production use. For "
                    "more information see bpf_trace_printk in bpf-helpers(7).", node)
    if len(node.args) > 4 and not context.world.has_feature("helper_trace_vprintk"):
        context.error("missing-feature", "this kernel prints no more than three values at once (Linux 5.16)", node)
    return _check_kernel_printf(context, node, "; printf() knows all")


def _check_seq_printf(context: CheckContext, node: Call, types: Types) -> Type | None:
    return _check_kernel_printf(context, node)


def _check_kernel_printf(context: CheckContext, node: Call, instead: str = "") -> Type | None:
    """The kernel's own printf takes integers, pointers and strings."""
    parts = check_format(context, node)
    if parts is None:
        return None
    if len(node.args) > PRINTK_ARGUMENTS + 1:
        context.error("arity", f"{node.name}() prints at most {PRINTK_ARGUMENTS} values", node)
        return None
    for part, arg in zip([p for p in parts if p.conversion], node.args[1:]):
        fits = part.conversion in "diuxXpc" and len(part.conversion) == 1 or isinstance(arg.type, Str)
        if not fits or "." in part.spec or "#" in part.spec:
            context.error("format-type", f"{node.name}: the kernel cannot print "
                          f"%{part.spec}{part.conversion} of '{convert.kind_of_type(arg.type)}'", arg,
                          [f"it knows %d %u %x %p %c, and %s of strings, with a width{instead}"])
            return None
    node.choice = Format(parts)
    return VOID


# --- values and maps ------------------------------------------------------------------------------------


def check_print(context: CheckContext, node: Call, types: Types) -> Type | None:
    target = node.args[0]
    if isinstance(target, TypeSyntax):
        context.error("bad-argument", convert.NO_TYPE, target)
        return None
    if isinstance(target, MapRef) and target.key is None:
        return _check_print_map(context, node, target)
    if len(node.args) > 1:
        if _limits(context, node) is None:
            return None
        context.error("arity", f"Non-map print() only takes 1 argument, {len(node.args)} found", node)
        return None
    if isinstance(target, MapRef):
        return _check_print_element(context, target)
    type = context.check_value(target, ARGUMENT)
    if isinstance(type, NoneType):
        context.error("no-value", "none type passed to print() is not printable", node)
    elif type is not None and not is_context(target, type):
        node.args[0] = context.with_texts(target)
        keep_number(target, type)
    elif type is not None:
        context.error("bad-argument", f"{convert.type_name(type)} type passed to print() is not printable", node)
    return None if type is None else VOID


def _check_print_map(context: CheckContext, node: Call, target: MapRef) -> Type | None:
    limits = _limits(context, node)
    held = context.aggregate_in(target)
    if context.loops > context.unrolled:
        context.advise("print-in-loop", "Due to it's asynchronous nature using 'print()' in a loop can lead to "
                       "unexpected behavior. The map will likely be updated before the runtime can 'print' it.", node)
    if limits and held is not None and held.kind == "stats":  # what is printed heeds them, there as here
        context.advise("print-arguments", "print()'s top and div arguments are ignored when used on stats() maps.",
                       node)
    return None if limits is None else check_whole_map(context, target, node, VOID, *limits)


def _limits(context: CheckContext, node: Call) -> list[int] | None:
    """How many keys to print, and the divisor for values."""
    limits: list[int] = []
    for arg in node.args[1:]:
        given = context.check_expression(arg)
        if given is None:
            return None
        if not isinstance(arg.const, int):
            context.error("not-constant", f"print() expects a int literal ({convert.kind_of_type(given)} provided)",
                          node)
            return None
        limits.append(arg.const)
    return [max(0, limit) for limit in limits[:1]] + limits[1:]


def _check_print_element(context: CheckContext, target: MapRef) -> Type | None:
    """Check one element of an aggregate: an integer for count and its like; for hist the tree keeps the Aggregate
    type."""
    state = context.use_map(target)
    value = context.element_value(state, target)
    if value is None:
        return None
    if isinstance(value, Aggregate):
        state.read = True
        value = convert.read_type(value) or value
    target.type = convert.plain_type(value)
    return VOID


def _lower_print(lo: Lower, call: Call) -> None:
    target = call.args[0]
    if isinstance(call.choice, WholeMap):
        records.request_print(lo, call.choice)
    elif isinstance(target, MapRef) and isinstance(target.type, Aggregate):  # user space merges the CPUs' values
        assert target.key is not None
        records.send_record(lo, "print", [target.key], data={"map": target.name})
    else:
        own = isinstance(target.type, Str) and _is_own(target)
        records.send_record(lo, "print", [target], data={"own": [0]} if own else {})


# --- time -----------------------------------------------------------------------------------------------


def _lower_time(lo: Lower, call: Call) -> None:
    format = call.args[0].const if call.args else "%H:%M:%S\n"
    records.send_record(lo, "time", [], data={"format": format}, stamp=True)


def check_strftime(context: CheckContext, node: Call, types: Types) -> Type | None:
    given = node.args[1]
    if isinstance(given.const, int) and given.const < 0 and not isinstance(given, Cast):
        context.error("bad-argument", "strftime() does not accept negative timestamps", node)
    clock = given.choice.clock if isinstance(given, Call) and isinstance(given.choice, ClockChoice) else "boot"
    return Timestamp(node.args[0].const, "tai" if clock == "sw_tai" else clock)


def _write_strftime(lo: Lower, call: Call, mem: Mem, type: Type) -> None:
    lo.b.store(mem.base, mem.off, lo.scalar_value(call.args[1]))


def _lower_nstat(lo: Lower, call: Call) -> None:
    records.send_record(lo, "nstat", [])



ROWS = (
    Function("printf", ("format:literal", "..."), VOID, "Print formatted values.", 'printf("%s %d\\n", comm, pid)',
             check_formatted, sends="data", pinned=_check_seq_printf, statement=_lower_printf),
    Function("print", ("value:raw", "top:raw?", "div:raw?"), VOID, "Print a value or a whole map.", "print(@x, 5)",
             check_print, sends="data", on_map="print", statement=_lower_print),
    Function("errorf", ("format:literal", "..."), VOID, "Print formatted values as an error of this line.",
             'errorf("odd size %d", $n)', check_formatted, sends="data",
             statement=_formatted_record("printf", severity="ERROR")),
    Function("warnf", ("format:literal", "..."), VOID, "Print formatted values as a warning of this line.",
             'warnf("odd size %d", $n)', check_formatted, sends="data",
             statement=_formatted_record("printf", severity="WARNING")),
    Function("debugf", ("format:literal", "..."), VOID, "Print to the kernel's trace_pipe.", 'debugf("%d", pid)',
             check_debugf, statement=_lower_debugf),
    Function("cat", ("format:literal", "..."), VOID, "Print a file.", 'cat("/proc/%d/maps", pid)', check_formatted,
             sends="data", statement=_formatted_record("cat")),
    Function("system", ("format:literal", "..."), VOID, "Run a command.", 'system("ps -p %d", pid)', check_formatted,
             sends="data", unsafe=True, statement=_formatted_record("system")),
    Function("time", ("format:literal?",), VOID, "Print the time of day, by strftime(3).", 'time("%H:%M:%S ")',
             sends="data", statement=_lower_time),
    Function("strftime", ("format:literal", "nanoseconds:int"), None, "A timestamp, formatted when printed; "
             "`%f`, `%k` and `%l` are micro-, nano- and milliseconds of its second.",
             'strftime("%H:%M:%S", nsecs)', check_strftime, named_by=-1, value=_write_strftime),
    Function("nstat", (), VOID, "Print the kernel's network counters that have grown since the start or last time.",
             "nstat()", sends="data", statement=_lower_nstat),
)
