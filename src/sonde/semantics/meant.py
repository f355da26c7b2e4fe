"""What somebody meant by a name that the language does not have: hints. Many write first what another tracer, C or
Python calls it."""

from __future__ import annotations

from ..language.ast import Expr
from ..language.diagnostics import nearest_names
from ..types import Str
from . import convert
from .providers import BY_KIND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from .context import CheckContext

# Names of values elsewhere (DTrace, SystemTap, bcc, C, Python), and what they are here.
_VALUES = {
    "True": "true", "TRUE": "true", "False": "false", "FALSE": "false", "null": "0", "None": "0", "nil": "0",
    "execname": "comm", "timestamp": "nsecs", "walltimestamp": "nsecs(tai)", "vtimestamp": "nsecs(monotonic)",
    "probefunc": "func", "probename": "probe", "curthread": "curtask", "curpsinfo": "curtask",
    "arg": "arg0", "ret": "retval", "rval": "retval", "returnval": "retval", "pname": "comm", "process": "comm",
    "name": "comm",
    "errno": "args.ret in a sys_exit probe: an error is a negative number",
}
# Functions elsewhere, and what does the same here.
_FUNCTIONS = {
    "quantize": "hist()", "lquantize": "lhist()", "llquantize": "hist(n, bits)", "sym": "ksym() or usym()",
    "ustr": "str(uptr(p))",
    "copyinstr": "str()", "stringof": "str()", "user_string": "str()", "kernel_string": "str()",
    "copyin": "*(TYPE *)address",
    "trace": "print()", "println": "print()", "tracemem": "buf()", "execname": "comm", "stack": "kstack",
    "probefunc": "func",
    "backtrace": "kstack", "print_backtrace": "print(kstack)", "print_ubacktrace": "print(ustack)",
    "pp": "probe", "pn": "probe",
    "bpf_trace_printk": "printf()", "bpf_printk": "printf()", "bpf_ktime_get_ns": "nsecs",
    "bpf_get_current_comm": "comm",
    "bpf_get_current_pid_tgid": "pid and tid", "bpf_get_smp_processor_id": "cpu", "bpf_probe_read_str": "str()",
    "gettimeofday_ns": "nsecs(tai)", "gettimeofday_us": "nsecs(tai) / 1000",
    "puts": "printf()", "echo": "printf()", "fprintf": "errorf() for standard error",
    "strcmp": "==: strings compare with == and !=",
    "average": "avg()", "mean": "avg()", "histogram": "hist()", "append": "a map: @x[key] = value", "exec": "system()",
}


def name_hints(context: CheckContext, name: str) -> list[str]:
    """Hints for a name that means nothing."""
    if name in context.functions:
        return [f"{name}() is a function"]
    if name in {variable for scope in context.scopes for variable in scope}:
        return [f"did you mean ${name}?"]
    if f"@{name}" in context.maps:
        return [f"did you mean @{name}?"]
    args = BY_KIND[context.program.kind].args(context.program.attach, context.world)
    if args is not None and args.field(name) is not None:
        return [f"did you mean args.{name}?"]
    if name in _VALUES:
        return [f"use {_VALUES[name]}"]
    pool = [*context.builtins, *context.types.constants, *context.defines]
    return [f"did you mean {close}?" for close in nearest_names(name, pool)[:1]] or [
        f'text is written in double quotes, "{name}"; a variable has a $, ${name}, and a map an @, @{name}']


def function_hints(context: CheckContext, name: str) -> list[str]:
    """Hints for a function that there is not."""
    if name in _FUNCTIONS:
        return [f"use {_FUNCTIONS[name]}"]
    close = nearest_names(name, [*context.functions, *context.builtins, *context.subprograms], least=0.67)[:1]
    return [f"did you mean {each}{'' if each in context.builtins and each not in context.functions else '()'}?"
            for each in close] or ["sonde help finds functions by their subject: sonde help string"]


def variable_hints(context: CheckContext, name: str, names: Collection[str]) -> list[str]:
    """Hints for a variable that nothing was assigned to."""
    close = nearest_names(name, names)[:1]
    if close:
        return [f"did you mean ${close[0]}?"]
    if name in context.builtins:
        return [f"did you mean {name}? It is a builtin, without the $"]
    if f"@{name}" in context.maps:
        return [f"did you mean @{name}?"]
    return [f"assign it first: ${name} = 0; a value that lasts from one event to the next is in a map, @{name}"]


def comparison_hints(left: Expr, right: Expr) -> list[str]:
    """Hints for two values that cannot be compared: text that was not read, or a number in quotes."""
    for one, other in ((left, right), (right, left)):
        if not isinstance(other.type, Str):
            continue
        if convert.is_text_address(one.type):
            return [f"{one.span.text} is the address of a text, which str({one.span.text}) reads"]
        if convert.as_int(one.type) is None:
            continue
        if isinstance(other.const, str) and other.const.lstrip("-").isdecimal():
            return [f"a number has no quotes: {other.const}"]
        return [f"{one.span.text} is a number, {other.span.text} a string"]
    return []


def elsewhere_hints(context: CheckContext, name: str) -> list[str]:
    """Hints for a builtin that a tracepoint does not have: its arguments have names."""
    args = BY_KIND[context.program.kind].args(context.program.attach, context.world)
    if args is None or not args.fields:
        return []
    names = [field.name for field in args.fields if not field.name.startswith(("__", "common_"))]
    if name == "retval":
        return ["what it returned is args.ret"] if "ret" in names else \
            ["the return has a probe of its own, sys_exit_..., where it is args.ret"]
    kind, values = ("results", "results") if context.program.kind == "uretprobe" else ("args", "arguments")
    return [f"its {values} have names: {kind}.{f', {kind}.'.join(names[:6])}"] if names else []
