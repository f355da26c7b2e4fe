"""The event: its arguments, its probe, what it returned."""

from __future__ import annotations

from ..compiler.ir import Operand
from ..compiler.lower import tasks
from ..compiler.lower.calls import Builtin
from ..compiler.lower.core import Lower
from ..compiler.lower.state import Mem
from ..kinds import KINDS, kinds_with
from ..language.ast import Choice, Reference
from ..semantics import convert
from ..semantics.builtins import knows_function, probe_type
from ..semantics.callees import argument_number
from ..semantics.context import CheckContext
from ..semantics.user_probes import has_typed_result, user_places
from ..spec import KernelDetail, StaticDetail, UserDetail, detail_of
from ..types import (
    CTX,
    INT64,
    UINT8,
    UINT64,
    VOID,
    Float,
    Pointer,
    Real,
    Scalar,
    StructField,
    Symbol,
    Type,
    USym,
)

FUNCTIONS = kinds_with("function")


class FirstResult(Choice):
    """The first of a Go function's results."""

    field: StructField


def _type_of_results(context: CheckContext, node: Reference) -> Type | None:
    attach = context.program.attach
    prototype = detail_of(attach, UserDetail).prototype
    if context.program.args is None or not context.program.args.fields:
        problem = prototype.problem if prototype is not None and prototype.problem else "it has none that can be read"
        context.error("no-args", f'Could not parse results of "{attach.name}": {problem}', node,
                      prototype.hints if prototype is not None else [])
        return None
    return context.program.args


def _type_of_args(context: CheckContext, node: Reference) -> Type | None:
    struct = context.program.args
    detail = context.program.attach.detail
    prototype = detail.prototype if isinstance(detail, UserDetail) else None
    if struct is None and prototype is not None:
        context.error("no-args", f'Could not parse arguments of "{context.program.attach.name}": {prototype.problem}',
                      node, prototype.hints)
    elif struct is None:
        context.error("no-args", f"The args of {context.program.attach.name} are not known", node,
                      ["use arg0, arg1 ... with a cast"] if KINDS[context.program.kind].registers else [])
    return struct


def _type_of_retval(context: CheckContext, node: Reference) -> Type | None:
    detail = context.program.attach.detail
    kind = KINDS[context.program.kind]
    first = _go_result(context, node)
    if first is not None and (not node.as_number or isinstance(first.type, (Scalar, Pointer))):
        node.choice = FirstResult(first)
        return first.type
    if isinstance(detail, UserDetail) and kind.user and kind.returns and _returns_float(context, node, detail):
        return None
    if isinstance(detail, KernelDetail) and kind.typed and detail.result is None:
        context.error("no-retval", f"{context.program.attach.event} returns nothing (void)", node)
        return None
    return context.program.attach.result or UINT64 if kind.typed or kind.user and node.followed else UINT64


def _go_result(context: CheckContext, node: Reference) -> StructField | None:
    """The first result of a Go function, as far as debug information tells it; None of others."""
    attach = context.program.attach
    if context.program.args is None or not has_typed_result(attach):
        return None
    first, location = next(iter(user_places(attach).items()), ("", None))
    if location is None:
        context.error("no-retval", f"{attach.event} returns nothing", node)
    elif location.kind == "unknown":
        context.error("no-retval", f"{first}, the first result of {attach.event}, {location.why}", node)
    return context.program.args.field(first)


def _returns_float(context: CheckContext, node: Reference, detail: UserDetail) -> bool:
    """Whether a function returns a floating-point number, by its own file's debug information; which is said. Of a
    pattern's functions nothing is asked."""
    attach = context.program.attach
    if detail.pattern or not detail.entry:
        return False
    result = context.world.user_prototype(attach.target, attach.offset, own=True).result
    if not isinstance(result, (Float, Real)):
        return False
    context.error("no-retval", f"{attach.event} returns a {result}, in a register for floating-point numbers, which "
                  "programs cannot read", node,
                  ["what it stores in memory can be read: *(double *)arg0 at a probe where a pointer to it is known"])
    return True


def _type_of_argument(context: CheckContext, node: Reference) -> Type | None:
    if context.program.kind == "rawtracepoint":
        return _type_of_raw_argument(context, node)
    if context.program.kind != "usdt":
        return UINT64
    known = detail_of(context.program.attach, StaticDetail).arguments
    shown = context.program.attach.name
    number = argument_number(node)
    node.const = None
    if number >= len(known):  # as in bpftrace, where a pattern may match probes of fewer
        context.warning("no-argument", f"{shown} has {len(known)} argument{'s' if len(known) != 1 else ''}: "
                        f"arg{number} is 0", node)
        node.const = 0
        return INT64
    if known[number].kind == "unknown":
        context.error("no-argument", f"arg{number} of {shown} is where a program cannot read it: {known[number].text}",
                      node)
    else:
        return INT64
    return None


def _type_of_raw_argument(context: CheckContext, node: Reference) -> Type | None:
    """The kernel attaches no program that reads beyond its arguments (bpf_probe_register(),
    kernel/trace/bpf_trace.c)."""
    attach = context.program.attach
    known = context.world.raw_tracepoint_args(attach.event)
    names = known.field_names() if known is not None else ()
    if known is not None and argument_number(node) >= len(names):
        context.error("no-argument", f"{attach.name} has {len(names)} argument{'s' if len(names) != 1 else ''}", node,
                      [f"its arguments are: {', '.join(names)}"] if names else [])
        return None
    return UINT64


def _type_of_ctx(context: CheckContext, node: Reference) -> Type | None:
    """The struct that the kernel gives to programs of the kind."""
    attach = context.program.attach
    kind = KINDS[attach.kind]
    name = f"bpf_iter__{attach.event}" if kind.iterates else _CONTEXTS.get(kind.programs)
    if name is None:
        context.error("builtin-probe", "Use args instead of ctx in tracepoint" if kind.name == "tracepoint" else
                      f"The ctx builtin can not be used with '{kind.name}' probes", node)
        return None
    return Pointer(context.world.find_struct(name) or VOID, CTX)


_CONTEXTS: dict[tuple[str, ...], str] = {("kprobe",): "pt_regs", ("perf_event",): "bpf_perf_event_data"}


def _type_of_func(context: CheckContext, node: Reference) -> Type | None:
    if not knows_function(context, node):
        return None
    return USym() if KINDS[context.program.kind].user else Symbol("ksym")


def _type_of_probe(context: CheckContext, node: Reference) -> Type:
    if not node.as_text:
        return Symbol("probe")
    node.const = context.program.attach.name
    return convert.known_text(node.const)


def _type_of_probetype(context: CheckContext, node: Reference) -> Type:
    node.const = probe_type(context)
    return convert.known_text(node.const)


def _write_func(lo: Lower, node: Reference, mem: Mem, type: Type) -> None:
    tasks.write_user_symbol(lo, tasks.traced_address(lo), mem)


def _lower_ctx(lo: Lower, node: Reference) -> Operand:
    lo.reads_registers = True
    return lo.context_pointer()


def _lower_retval(lo: Lower, node: Reference) -> Operand:
    if isinstance(node.choice, FirstResult):
        value: Operand | Mem = lo.context.argument(lo, node.choice.field)
        assert not isinstance(value, Mem)
        return value
    return lo.normalise(lo.context.retval(lo), node.type)


def _locate_retval(lo: Lower, node: Reference) -> Mem | None:
    value = lo.context.argument(lo, node.choice.field) if isinstance(node.choice, FirstResult) else None
    return value if isinstance(value, Mem) else None


ROWS = (
    Builtin("args", _type_of_args, "The arguments of the traced function or tracepoint, as a struct.",
            misuse="can only be used with tracepoint, rawtracepoint, fentry/fexit, and uprobe probes "
                   "({type} used here)",
            probes=("tracepoint", "rawtracepoint", "fentry", "fexit", "uprobe")),
    Builtin("arg0", _type_of_argument,
            "First argument of the traced function, from the registers, a uint64 (usdt: int64); arg1 is the second, "
            "and so on. Also at `fentry:bpf` and `fexit:bpf`, where each program names its arguments as it likes.",
            probes=("kprobe", "uprobe", "usdt", "rawtracepoint"), of_programs=True,
            misuse="can only be used with 'kprobes', 'uprobes' and 'usdt' probes",
            scalar=lambda lo, node: lo.context.arg(lo, argument_number(node))),
    Builtin("retval", _type_of_retval, "Value returned by the traced function, a uint64; of its "
            "own type at fexit, and in `retval->x` and `*retval` of user functions with debug information; of a Go "
            "function with debug information the first result, of its own type.",
            probes=("kretprobe", "uretprobe", "fexit"),
            misuse="can only be used with 'kretprobe' and 'uretprobe' and 'fentry' probes{instead}",
            scalar=_lower_retval, locate=_locate_retval),
    Builtin("results", _type_of_results, "The results of a Go function, as a struct; those without a name are `r0`, "
            "`r1` ..., by their positions.", probes=("uretprobe",),
            misuse="can only be used with uretprobes of Go functions ({type} used here)"),
    Builtin("ctx", _type_of_ctx, "The struct that the kernel gives to the program: an iterator's object, `pt_regs` in "
            "functions' probes, `bpf_perf_event_data` in timers' and counters'.",
            scalar=_lower_ctx),
    Builtin("func", _type_of_func, "Name of the traced function.", probes=FUNCTIONS,
            scalar=lambda lo, node: tasks.traced_address(lo), value=_write_func),
    Builtin("probe", _type_of_probe, "Full name of the probe: a string.", scalar=lambda lo, node: lo.probe_index()),
    Builtin("probetype", _type_of_probetype, "Kind of the probe; \"special\" for begin and end."),
    Builtin("usermode", UINT8, "1 if the CPU was in user mode, else 0.",
            scalar=lambda lo, node: lo.context.usermode(lo)),
)
