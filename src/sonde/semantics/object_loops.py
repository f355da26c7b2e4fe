"""``for ($t : iter_task()) { ... }``: loops over kernel objects, by open-coded iterators (Linux 6.7).

They are in bpftrace's development branch, and may change: the configuration variable unstable_iter says what happens
when a script uses one.
"""

from __future__ import annotations

from ..language.ast import Call, Callee, Expr, Name, Variable
from ..language.diagnostics import nearest_names
from ..layouts.uapi import BPF_TASK_ITER_ALL_PROCS, BPF_TASK_ITER_ALL_THREADS, BPF_TASK_ITER_PROC_THREADS
from ..types import KERNEL, Pointer, Struct, Type
from . import convert
from .context import CheckContext


class ObjectLoop(Callee):
    """An iterator. ``kfuncs`` is what the names of its three functions begin with, ``size`` the bytes of its state;
    ``last`` is the last argument of its beginning (kernel/bpf/task_iter.c)."""

    kfuncs: str
    size: int
    yields: str              # the struct that the variable points to
    last: int
    of_task: bool = False    # it is given a task
    trusted: bool = False    # one that the verifier knows for a task


OBJECT_LOOPS = {row.name: row for row in (
    ObjectLoop("iter_task", "bpf_iter_task", 24, "task_struct", BPF_TASK_ITER_ALL_PROCS),
    ObjectLoop("iter_threads", "bpf_iter_task", 24, "task_struct", BPF_TASK_ITER_ALL_THREADS),
    ObjectLoop("iter_task_threads", "bpf_iter_task", 24, "task_struct", BPF_TASK_ITER_PROC_THREADS, True),
    ObjectLoop("iter_task_vma", "bpf_iter_task_vma", 8, "vm_area_struct", 0, True, True),  # from address 0 on
)}


def check_object_loop(context: CheckContext, node: Call) -> Type | None:
    """The type of the variable of a loop over what ``node`` calls."""
    row = OBJECT_LOOPS.get(node.name)
    if row is None:
        context.error("unknown-function", f"Unknown iterator: '{node.name}'", node,
                      [f"did you mean {close}()?" for close in nearest_names(node.name, OBJECT_LOOPS)[:1]])
        return None
    node.callee = row
    context.report_unstable(node, "iter", context.config.unstable_iter)
    if len(node.args) != row.of_task:
        context.error("arity", f"{node.name}() requires {'one argument' if row.of_task else 'no arguments'} "
                      f"({len(node.args)} provided)", node)
        return None
    if row.of_task and not _check_task(context, node, row.trusted):
        return None
    struct = context.world.find_struct(row.yields)
    if struct is None or not context.world.has_feature(f"kfunc_{row.kfuncs}_new"):
        context.error("missing-feature", f"programs of this kernel cannot loop over {node.name}() (Linux 6.7)", node)
        return None
    node.type = Pointer(struct, KERNEL)
    return node.type


def is_current(argument: Expr) -> bool:
    return isinstance(argument, Name) and argument.name == "curtask"


def _check_task(context: CheckContext, node: Call, trusted: bool) -> bool:
    """Whether the argument is a task; ``trusted``: one that the verifier accepts as a trusted pointer."""
    argument = node.args[0]
    type = context.check_value(argument)
    if type is None:
        return False
    is_task = isinstance(type, Pointer) and isinstance(type.to, Struct) and type.to.name == "task_struct"
    state = context.find_variable(argument.name) if isinstance(argument, Variable) else None
    if is_task and (not trusted or is_current(argument) or id(state) in context.tasks):
        return True
    wanted = "curtask or the variable of a loop over tasks" if trusted else "a struct task_struct pointer"
    context.error("bad-argument", f"{node.name}() expects {wanted} ({convert.type_name(type)} provided)", argument)
    return False
