"""Threads and tasks of Python programs."""

from __future__ import annotations

from ..compiler.ir import BasicBlock, Operand
from ..compiler.lower.calls import Builtin
from ..compiler.lower.core import Lower
from ..compiler.lower.stacks import python_gil, python_task_names, python_tasks
from ..compiler.lower.state import Mem
from ..language.ast import Reference
from ..semantics.context import CheckContext
from ..types import UINT64, Str, Type
from .stacks import python_obstacle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

COST = 800


def _typer(type: Type) -> Callable[[CheckContext, Reference], Type | None]:
    def check(context: CheckContext, node: Reference) -> Type | None:
        obstacle = python_obstacle(context.world)
        if obstacle:
            context.error("missing-feature", obstacle.replace("pystack", node.name), node)
            return None
        return type
    return check


def _number(find: Callable[[Lower, BasicBlock], Operand]) -> Callable[[Lower, Reference], Operand]:
    """What ``find`` finds; 0 where it goes to the block that it is given."""
    def lower(lo: Lower, node: Reference) -> Operand:
        result, none = lo.b.function.reg(node.name), lo.b.block("none")
        lo.b.set(result, 0)
        lo.b.set(result, find(lo, none))
        lo.b.start(none)
        return result
    return lower


def _write_name(lo: Lower, node: Reference, into: Mem) -> None:
    python_task_names.write_name(lo, into)


ROWS = (
    Builtin("pytask", _typer(Str(python_task_names.CAPACITY)),
            "Name of the task that asyncio runs in the current thread (CPython 3.11 to 3.14, x86_64); \"\" if it runs "
            "none.", cost=COST, text=_write_name),
    Builtin("pytask_id", _typer(UINT64),
            "What `id(task)` is in the program of that task, a uint64; 0 if there is none.", cost=COST,
            scalar=_number(lambda lo, none: python_tasks.find_task(lo, none).get("task"))),
    Builtin("pythread", _typer(UINT64),
            "Address of the current thread's state in its Python interpreter (`PyThreadState`), a uint64; 0 if it has "
            "none.", cost=COST, scalar=_number(lambda lo, none: python_gil.find_state(lo, none).get("mine"))),
    Builtin("pygil", _typer(UINT64),
            "Address of the lock of the current thread's Python interpreter, the GIL, a uint64; 0 if there is none.",
            cost=COST, scalar=_number(python_gil.find_lock)),
)
