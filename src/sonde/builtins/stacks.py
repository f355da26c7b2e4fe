"""Stacks."""

from __future__ import annotations

from ..arch import ARCHES
from ..compiler.lower.calls import Builtin
from ..compiler.lower.core import Lower
from ..compiler.lower.stacks import python, traces, unwinding
from ..compiler.lower.state import Mem
from ..kinds import KINDS
from ..language.ast import Call, Cast, Expr, Name, Reference
from ..semantics.builtins import STACK_LIMIT
from ..semantics.config import STACK_MODES
from ..semantics.context import CheckContext, unwinding_obstacle
from ..semantics.world import World
from ..types import (
    PYTHON,
    THREAD_STACKS,
    VOID,
    Bool,
    Stack,
    StackCopy,
    Tuple,
    Type,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

COST = 1200  # all frames are hashed, one round each


def _stack_typer(user: bool) -> Callable[[CheckContext, Expr], Type]:
    return lambda context, node: Stack(user, context.config.stack_mode, STACK_LIMIT)


def _type_of_stack_copy(context: CheckContext, node: Reference) -> Type | None:
    own = KINDS[context.program.kind].user  # the context is the registers
    if not own and not context.world.has_feature("helper_task_pt_regs"):
        context.error("missing-feature", "dw_ustack needs a kernel that tells programs a task's registers (Linux 5.15)",
                      node)
        return None
    return StackCopy(True, context.config.stack_mode, STACK_LIMIT, ARCHES[context.world.arch].pt_regs_size)


def _check_stack_call(context: CheckContext, node: Call) -> Type | None:
    mode, limit = context.config.stack_mode, STACK_LIMIT
    rest = list(node.args)
    if len(rest) == 2 and not isinstance(rest[0], Name):
        context.error("arity", "Expected stack mode as first argument", node)
        return None
    if rest and isinstance(rest[0], Name) and rest[0].name in STACK_MODES:
        mode = rest.pop(0).name
        node.args[0].type = VOID
    if len(node.args) > 2:
        context.error("arity", f"{node.name}() takes up to 2 arguments ({len(node.args)} provided)", node)
        return None
    if rest:
        given = rest.pop(0)
        known = isinstance(given, Name) and (given.name in context.types.constants or given.name in context.defines)
        if isinstance(given, Name) and not known and given.name not in context.builtins:
            context.error("bad-argument", f"Error parsing stack mode: {node.name}: Invalid value for stack_mode: valid "
                          "values are bpftrace, raw, perf, and build_id.", given)
            return None
        if context.check_expression(given) is None:
            return None
        if not isinstance(given.const, int) or isinstance(given.type, Bool) or isinstance(given, Cast):
            context.error("not-constant", f"{node.name}: invalid limit value", node, ["it must be a literal integer"])
            return None
        limit = given.const
    if rest:
        context.error("arity", "Expected stack mode as first argument", node)
    if limit < 0:
        context.error("bad-argument", f"{node.name}: invalid limit value", node, [f"it is at most {STACK_LIMIT}"])
        return None
    limit = min(limit, STACK_LIMIT)  # the kernel keeps no more
    if mode == "build_id" and node.name == "kstack":
        context.error("bad-argument", "'build_id' stack mode can only be used for ustack", node)
        return None
    if node.name == "dw_ustack":
        copy = _type_of_stack_copy(context, node)
        return StackCopy(True, mode, limit, copy.registers) if isinstance(copy, StackCopy) else None
    return Stack(node.name == "ustack", mode, limit)


def python_obstacle(world: World) -> str:
    """What keeps pystack from working; "" if nothing does."""
    task, thread = world.find_struct("task_struct"), world.find_struct("thread_struct")
    pointer = ARCHES[world.arch].thread_pointer
    if not pointer or task is None or thread is None or thread.field(pointer) is None:
        return "pystack finds the current thread on x86_64 only, by the kernel's BTF"
    return "" if world.has_feature("bpf_loop") else "pystack needs loops in programs: bpf_loop (Linux 5.17)"


def _type_of_python_stack(context: CheckContext, node: Reference) -> Type | None:
    obstacle = python_obstacle(context.world)
    if obstacle:
        context.error("missing-feature", obstacle, node)
        return None
    return Stack(True, PYTHON, STACK_LIMIT)


def _check_python_call(context: CheckContext, node: Call) -> Type | None:
    if _type_of_python_stack(context, node) is None:
        return None
    limit = _check_limit(context, node)
    return Stack(True, PYTHON, limit) if limit is not None else None


def _type_of_thread_stacks(context: CheckContext, node: Reference, limit: int = STACK_LIMIT) -> Type:
    stacks = [Stack(False, limit=limit), Stack(True, limit=limit)]
    if not python_obstacle(context.world):
        stacks.append(Stack(True, PYTHON, limit))
    return Tuple(tuple(stacks), THREAD_STACKS[:len(stacks)])


def _check_thread_stacks_call(context: CheckContext, node: Call) -> Type | None:
    limit = _check_limit(context, node)
    return _type_of_thread_stacks(context, node, limit) if limit is not None else None


def _check_limit(context: CheckContext, node: Call) -> int | None:
    """Check the limit, a call's only argument."""
    if len(node.args) > 1:
        context.error("arity", f"{node.name}() takes up to one argument ({len(node.args)} provided)", node)
        return None
    limit = node.args[0]
    if context.check_expression(limit) is None:
        return None
    if not isinstance(limit.const, int) or limit.const <= 0:
        context.error("bad-argument", f"{node.name}: invalid limit value", limit,
                      [f"it is between 1 and {STACK_LIMIT}"])
        return None
    return min(limit.const, STACK_LIMIT)


def _write_thread_stacks(lo: Lower, node: Reference, mem: Mem, type: Type) -> None:
    assert isinstance(node.type, Tuple)
    by_tables = not unwinding_obstacle(lo.world)
    for part, offset in zip(node.type.of, node.type.offsets):
        assert isinstance(part, Stack)
        write = python.write_stack if part.mode == PYTHON else \
            unwinding.write_stack if part.user and by_tables else traces.write_stack
        write(lo, part, mem.at(offset))


def _write_stack(lo: Lower, node: Reference, mem: Mem, type: Type) -> None:
    assert isinstance(node.type, Stack)
    if isinstance(node.type, StackCopy):
        traces.write_copy(lo, node.type, mem)
    elif node.name == "dw_ustack":
        unwinding.write_stack(lo, node.type, mem)
    elif node.type.mode == PYTHON:
        python.write_stack(lo, node.type, mem)
    else:
        traces.write_stack(lo, node.type, mem)



ROWS = (
    Builtin("kstack", _stack_typer(False), "Stack of kernel functions.", call=_check_stack_call,
            arguments="[mode,] [limit]", cost=COST, value=_write_stack),
    Builtin("ustack", _stack_typer(True), "Stack of user functions.", call=_check_stack_call,
            arguments="[mode,] [limit]", cost=COST, value=_write_stack),
    Builtin("dw_ustack", _type_of_stack_copy,
            "Stack of user functions, unwound by the tables of the program's files, which "
            "needs no frame pointers.",
            call=_check_stack_call, arguments="[mode,] [limit]", cost=COST, value=_write_stack),
    Builtin("pystack", _type_of_python_stack,
            "Stack of the Python functions that the current thread runs (CPython 3.11 to 3.14, x86_64).",
            call=_check_python_call, arguments="limit", cost=COST, value=_write_stack),
    Builtin("stack", _type_of_thread_stacks,
            "The thread's stack as a profiler shows it: the kernel's functions, then the program's, those of Python in "
            "the place of the interpreter's own.",
            call=_check_thread_stacks_call, arguments="limit", cost=COST, value=_write_thread_stacks),
)
