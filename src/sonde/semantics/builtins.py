"""Builtins: names that stand for a value of the event. One row each; the rest follows from the row.

A row's ``type`` is a type or a rule ``(context, node) -> Type | None``. In the tree a builtin is a ``Name`` or, in its
call form, a ``Call`` of the same name; ``Call.data`` is a dict with what the call form chose:

nsecs          {"clock": boot | monotonic | tai | sw_tai}
pid tid        {"namespace": curr_ns | init}
kstack ustack  {} (mode and limit are in the type)
ppid pcomm ... {"task": the expression of a task_struct pointer} if one was given
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..arch import ARCHES
from ..language.ast import Call, Expr, Name, StrLiteral
from ..language.diagnostics import nearest_names
from ..record import Record
from ..types import (
    BOOL,
    CTX,
    INT64,
    KERNEL,
    UINT8,
    UINT32,
    UINT64,
    VOID,
    Pointer,
    Stack,
    StackCopy,
    Str,
    Struct,
    Symbol,
    Tuple,
    Type,
    USym,
)
from . import convert
from .config import STACK_MODES
from .context import CheckContext
from .providers import KINDS

FUNCTIONS = ("kprobe", "kretprobe", "fentry", "fexit", "uprobe", "uretprobe")
REGISTERS = ("kprobe", "kretprobe", "uprobe", "uretprobe", "usdt", "profile", "software", "hardware", "watchpoint")
CLOCKS = ("boot", "monotonic", "tai", "sw_tai")
STACK_LIMIT = 127  # /proc/sys/kernel/perf_event_max_stack


class Builtin(Record):
    """A row. ``probes``: the kinds it works in (all if empty). ``pure``: the same during one run of a program.

    ``arguments``: what its call form may name; ``call`` reads them.
    """

    name: str
    type: Any  # Type | Callable[[Context, Expr], Type | None]
    documentation: str
    pure: bool = True
    probes: tuple[str, ...] = ()
    call: Any = None  # Callable[[Context, Call], Type | None] | None
    arguments: str = ""
    clock: bool = False


# --- rules ------------------------------------------------------------------------------------------------


def _type_of_args(context: CheckContext, node: Expr) -> Type | None:
    struct = context.program.args
    if struct is None and "no_args" in context.program.attach.extra:
        why, hints = context.program.attach.extra["no_args"]
        context.error("no-args", f'Could not parse arguments of "{context.program.attach.name}": {why}', node, hints)
    elif struct is None:
        context.error("no-args", f"The args of {context.program.attach.name} are not known", node,
                      ["use arg0, arg1 ... with a cast"] if context.program.kind in ("uprobe", "kprobe") else [])
    return struct


def _type_of_retval(context: CheckContext, node: Expr) -> Type | None:
    if context.program.kind == "uretprobe":
        typed = context.program.attach.extra.get("result")
        return typed if isinstance(typed, Type) else UINT64
    if context.program.kind != "fexit":
        return UINT64
    extra = context.program.attach.extra
    if "result" in extra and extra["result"] is None:
        context.error("no-retval", f"{context.program.attach.event} returns nothing (void)", node)
        return None
    found = extra.get("result")
    return found if isinstance(found, Type) else UINT64


def _type_of_argument(context: CheckContext, node: Expr) -> Type | None:
    if context.program.kind != "usdt":
        return INT64
    known = context.program.attach.extra["arguments"]
    shown = context.program.attach.name
    number = int(node.name.removeprefix("__builtin_")[3:]) if isinstance(node, (Name, Call)) else 0
    if number >= len(known):
        context.error("no-argument", f"{shown} has {len(known)} argument{'s' if len(known) != 1 else ''}", node)
    elif known[number].kind == "unknown":
        context.error("no-argument", f"arg{number} of {shown} is where a program cannot read it: {known[number].text}",
                      node)
    else:
        return INT64
    return None


def _type_of_ctx(context: CheckContext, node: Expr) -> Type:
    """Of an iterator the kernel's struct, of any other program nothing that has members."""
    kind = context.program.attach
    struct = context.world.find_struct(f"bpf_iter__{kind.event}") if kind.kind == "iter" else None
    return Pointer(struct or VOID, CTX)


def _type_of_func(context: CheckContext, node: Expr) -> Type | None:
    if not knows_function(context, node):
        return None
    return USym() if context.program.kind in ("uprobe", "uretprobe") else Symbol("ksym")


def knows_function(context: CheckContext, node: Expr) -> bool:
    """Whether a program can learn which function it was attached to: at a user function's return that is gone from the
    registers, and older kernels do not tell."""
    if context.program.kind != "uretprobe" or context.world.has_feature("uretprobe_func"):
        return True
    context.error("missing-feature", "this kernel does not tell programs the function of a uretprobe (Linux 6.7)", node,
                  ["probe has its name"])
    return False


def probe_type(context: CheckContext) -> str:
    """The kind of the probe; begin and end are special."""
    kind = context.program.kind
    return "special" if kind in ("begin", "end", "self") else kind


def _type_of_probetype(context: CheckContext, node: Expr) -> Type:
    node.const = probe_type(context)
    return Str(len(node.const) + 1)


def _type_of_ncpus(context: CheckContext, node: Expr) -> Type:
    node.const = context.world.cpus
    return UINT64


def _type_of_task(context: CheckContext, node: Expr) -> Type:
    struct = context.world.find_struct("task_struct")
    return Pointer(struct, KERNEL) if struct is not None else UINT64


def _type_of_config(context: CheckContext, node: Expr) -> Type:
    """A record; ``config.name`` is folded where the member is checked."""
    return Tuple(tuple([BOOL if isinstance(value, bool) else UINT64 if isinstance(value, int)
                        else Str(len(value.encode()) + 1) for value in context.config.values()]),
                 context.config._fields)


def _stack_typer(user: bool) -> Callable[[CheckContext, Expr], Type]:
    return lambda context, node: Stack(user, context.config.stack_mode, STACK_LIMIT)


def _type_of_stack_copy(context: CheckContext, node: Expr) -> Type | None:
    if not context.world.has_feature("helper_task_pt_regs"):
        context.error("missing-feature", "dw_ustack needs a kernel that tells programs a task's registers (Linux 5.15)",
                      node)
        return None
    return StackCopy(True, context.config.stack_mode, STACK_LIMIT, ARCHES[context.world.arch].pt_regs_size)


def _x86_only(context: CheckContext, node: Expr) -> Type | None:
    if context.world.arch == "x86_64":
        return UINT8
    context.error("not-on-this-cpu", f"'usermode' builtin is only supported on x86_64, not on {context.world.arch}",
                  node)
    return None


# --- call forms -------------------------------------------------------------------------------------------


def _word_argument(node: Any) -> str:
    return node.name if isinstance(node, Name) else node.value if isinstance(node, StrLiteral) else ""


def _choice_checker(key: str, allowed: tuple[str, ...]) -> Callable[[CheckContext, Call], Type | None]:
    def check_choice(context: CheckContext, node: Call) -> Type | None:
        word = _word_argument(node.args[0])
        if len(node.args) > 1:
            context.error("arity", f"{node.name}() takes up to one argument ({len(node.args)} provided)", node)
            return None
        if word not in allowed:
            _report_no_choice(context, node, key, word, allowed)
            return None
        node.args[0].type = VOID
        node.data = {key: word}
        return type_of(context, BUILTINS[node.name], node)
    return check_choice


def _report_no_choice(context: CheckContext, node: Call, key: str, word: str, allowed: tuple[str, ...]) -> None:
    given = node.args[0]
    clock = key == "clock"
    hints = [f"did you mean {c}?" for c in nearest_names(word, allowed)[:1]] if word else []
    if isinstance(given, Name):
        context.error("bad-argument", f"Invalid timestamp mode: {word}" if clock else
                      f"Invalid PID namespace mode: {word} (expects: curr_ns or init)", given, hints)
        return
    type = context.check_value(given)
    if type is not None:
        context.error("bad-argument",
                      f"{node.name}() only supports timestamp_mode arguments ({convert.kind_of_type(type)} "
                      "provided)" if clock else f"{node.name}() only supports curr_ns and init as the argument", node,
                      [f"one of: {', '.join(allowed)}"])


def _check_stack_call(context: CheckContext, node: Call) -> Type | None:
    mode, limit = context.config.stack_mode, STACK_LIMIT
    rest = list(node.args)
    if rest and isinstance(rest[0], Name) and rest[0].name in STACK_MODES:
        mode = rest.pop(0).name
        node.args[0].type = VOID
    if rest:
        given = rest.pop(0)
        known = isinstance(given, Name) and (given.name in context.types.constants or given.name in context.defines)
        if isinstance(given, Name) and not known:
            context.error("bad-argument", f"Error parsing stack mode: {node.name}: Invalid value for stack_mode: valid "
                          "values are bpftrace, raw, perf, and build_id.", given)
            return None
        if context.check_expression(given) is None:
            return None
        if not isinstance(given.const, int):
            context.error("not-constant", f"{node.name}: invalid limit value", node, ["it must be a literal integer"])
            return None
        limit = given.const
    if rest:
        context.error("arity", "Expected stack mode as first argument" if len(node.args) == 2 else
                      f"{node.name}() takes up to 2 arguments ({len(node.args)} provided)", node)
    if limit <= 0:
        context.error("bad-argument", f"{node.name}: invalid limit value", node,
                      [f"it is between 1 and {STACK_LIMIT}"])
        return None
    limit = min(limit, STACK_LIMIT)  # the kernel keeps no more
    if mode == "build_id" and node.name == "kstack":
        context.error("bad-argument", "'build_id' stack mode can only be used for ustack", node)
        return None
    node.data = {}
    if node.name == "dw_ustack":
        found = _type_of_stack_copy(context, node)
        return StackCopy(True, mode, limit, found.registers) if isinstance(found, StackCopy) else None
    return Stack(node.name == "ustack", mode, limit)


def _check_task_call(context: CheckContext, node: Call) -> Type | None:
    task = node.args[0]
    type = context.check_value(task)
    if type is None:
        return None
    target = type.to if isinstance(type, Pointer) else None
    if len(node.args) > 1 or not isinstance(target, Struct) or target.name != "task_struct":
        context.error("bad-argument",
                      f"{node.name}() expects a struct task_struct pointer ({convert.type_name(type)} provided)",
                      task)
        return None
    node.data = {"task": task}
    return type_of(context, BUILTINS[node.name], node)


def _check_comm_call(context: CheckContext, node: Call) -> Type | None:
    pid = node.args[0]
    type = context.check_value(pid)
    if type is None:
        return None
    if len(node.args) > 1 or convert.as_int(type) is None:
        context.error("bad-argument", f"comm() expects the id of a thread ({convert.type_name(type)} provided)", pid)
        return None
    if not context.world.kfunc_id("bpf_iter_task_new"):
        context.error("missing-feature", "programs of this kernel cannot look for a process (Linux 6.7)", node)
        return None
    node.data = {"pid": pid}
    return Str(16)


# --- the table --------------------------------------------------------------------------------------------

_NAMESPACES = ("curr_ns", "init")

BUILTINS: dict[str, Builtin] = {row.name: row for row in (
    Builtin("args", _type_of_args, "The arguments of the traced function or tracepoint, as a struct.",
            probes=("tracepoint", "rawtracepoint", "fentry", "fexit", "uprobe")),
    Builtin("cgroup", UINT64, "Id of the current task's cgroup (version 2)."),
    Builtin("comm", Str(16), "Name of the current thread, or of the thread with an id.", call=_check_comm_call,
            arguments="[pid]"),
    Builtin("config", _type_of_config, "The configuration variables, as a record."),
    Builtin("cpid", UINT32, "Process id of the child started with -c; 0 if there is none."),
    Builtin("cpu", UINT32, "Number of the CPU on which the program runs."),
    Builtin("ctx", _type_of_ctx, "The program's raw context."),
    Builtin("curtask", _type_of_task, "The current task, a struct task_struct pointer."),
    Builtin("dw_ustack", _type_of_stack_copy,
            "Stack of user functions, unwound by the tables of the program's files, which "
            "needs no frame pointers; for print() and printf().", call=_check_stack_call, arguments="[mode,] [limit]"),
    Builtin("elapsed", UINT64, "Nanoseconds since tracing began.", pure=False, clock=True),
    Builtin("func", _type_of_func, "Name of the traced function.", probes=FUNCTIONS),
    Builtin("gid", UINT32, "Group id of the current task."),
    Builtin("has_cpid", BOOL, "Whether a child was started with -c."),
    Builtin("jiffies", UINT64, "The kernel's jiffies.", pure=False),
    Builtin("kstack", _stack_typer(False), "Stack of kernel functions.", call=_check_stack_call,
            arguments="[mode,] [limit]"),
    Builtin("leader_comm", Str(16), "Name of a task's thread group leader.", call=_check_task_call, arguments="[task]"),
    Builtin("leader_tid", UINT32, "Thread id of a task's thread group leader.", call=_check_task_call,
            arguments="[task]"),
    Builtin("ncpus", _type_of_ncpus, "Number of CPUs."),
    Builtin("nsecs", UINT64, "A timestamp in nanoseconds; by default since boot, time in suspend included.", pure=False,
            clock=True, call=_choice_checker("clock", CLOCKS), arguments="[boot|monotonic|tai|sw_tai]"),
    Builtin("numaid", UINT32, "Number of the NUMA node on which the program runs."),
    Builtin("pcomm", Str(16), "Name of a task's parent.", call=_check_task_call, arguments="[task]"),
    Builtin("pid", UINT32, "Process id, as the PID namespace numbers it that Sonde runs in.",
            call=_choice_checker("namespace", _NAMESPACES), arguments="[curr_ns|init]"),
    Builtin("ppid", UINT32, "Process id of a task's parent.", call=_check_task_call, arguments="[task]"),
    Builtin("probe", Symbol("probe"), "Full name of the probe."),
    Builtin("probetype", _type_of_probetype, "Kind of the probe; \"special\" for begin and end."),
    Builtin("rand", UINT32, "A random number.", pure=False),
    Builtin("retval", _type_of_retval, "Value returned by the traced function.",
            probes=("kretprobe", "uretprobe", "fexit")),
    Builtin("tid", UINT32, "Thread id, as the PID namespace numbers it that Sonde runs in.",
            call=_choice_checker("namespace", _NAMESPACES), arguments="[curr_ns|init]"),
    Builtin("uid", UINT32, "User id of the current task."),
    Builtin("usermode", _x86_only, "1 if the CPU was in user mode, else 0."),
    Builtin("username", Symbol("username"), "Name of the current user; looked up when printed."),
    Builtin("ustack", _stack_typer(True), "Stack of user functions.", call=_check_stack_call,
            arguments="[mode,] [limit]"),
)}

ARGUMENT = Builtin("argN", _type_of_argument,
                   "Argument N of the traced function, from the registers; arg0 is the first.",
                   probes=("kprobe", "uprobe", "usdt", "rawtracepoint"))
_ARGUMENT_NAME = re.compile(r"arg(\d{1,3})\Z")


def find_builtin(name: str) -> Builtin | None:
    """The row of ``name``; ``arg0`` ... share one. ``__builtin_pid`` is ``pid``."""
    if name.startswith("__builtin_"):
        name = name[10:]
    return BUILTINS.get(name) or (ARGUMENT if _ARGUMENT_NAME.match(name) else None)


def is_clock(node: object) -> bool:
    """Whether a node reads a clock."""
    row = find_builtin(node.name) if isinstance(node, (Name, Call)) else None
    return row is not None and row.clock


def type_of(context: CheckContext, row: Builtin, node: Expr) -> Type | None:
    """The row's type here, or None after saying why it has none."""
    kind = context.program.kind
    if row.probes and kind not in row.probes:
        shown = node.name if isinstance(node, (Name, Call)) else row.name
        context.error("builtin-probe", f"The {shown} builtin {_only_with(context, shown)}", node,
                      [f"it works in: {', '.join(p for p in KINDS if p in row.probes)}"])
        return None
    found = row.type(context, node) if callable(row.type) else row.type
    assert found is None or isinstance(found, Type)
    return found


def _only_with(context: CheckContext, name: str) -> str:
    """With which probes a builtin cannot be used, or can, as bpftrace says it."""
    if name == "args":
        return "can only be used with tracepoint, rawtracepoint, fentry/fexit, and uprobe probes " \
            f"({probe_type(context)} used here)"
    if _ARGUMENT_NAME.match(name):
        return "can only be used with 'kprobes', 'uprobes' and 'usdt' probes"
    if name == "retval":
        instead = " (try to use args.ret instead)" if context.program.attach.target == "syscalls" else ""
        return f"can only be used with 'kretprobe' and 'uretprobe' and 'fentry' probes{instead}"
    return f"can not be used with '{context.program.kind}' probes"


def check_builtin_call(context: CheckContext, row: Builtin, node: Call) -> Type | None:
    """``pid()``, ``nsecs(tai)``, ``kstack(perf, 3)`` ..."""
    if not node.args:
        node.data = {}
        return type_of(context, row, node)
    if row.call is None:
        context.error("arity", convert.no_match(node.name), node, [f"{node.name}() takes no arguments"])
        return None
    found = row.call(context, node)
    assert found is None or isinstance(found, Type)
    return found
