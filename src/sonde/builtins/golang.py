"""Go's goroutines.

The running goroutine is described by a struct ``g`` of Go's runtime. Functions that get their arguments in registers
have its address in one, too; elsewhere it is in the thread's own memory, right below the thread pointer (cmd/link and
runtime/rt0, for Linux). The scheduler and signal handlers have one of their own, whose number is 0.
"""

from __future__ import annotations

from ..arch.go_versions import goid_offset, uses_stack
from ..compiler.ir import BasicBlock, Operand, Reg
from ..compiler.lower import memory
from ..compiler.lower.calls import Builtin
from ..compiler.lower.core import Lower
from ..compiler.lower.probes.contexts import arch_of
from ..compiler.lower.state import Mem
from ..compiler.lower.tasks import current_task, task_memory
from ..language.ast import Call, Choice, Expr, Reference
from ..semantics import convert
from ..semantics.context import CheckContext
from ..semantics.go_probes import goroutine_ways, has_thread_pointer
from ..spec import UserDetail
from ..types import UINT64, USER, Int, Pointer, Struct, Type

_BELOW = 8                # bytes from there to the thread pointer
_OF_THREAD, _FIRST = 48, 0  # the members g.m and m.g0, in any version


class Goroutine(Choice):
    """Where its number is in ``g``, whose address is the value ``of``; without that of the running one, ``by_register``
    if a register has its address."""

    offset: int
    by_register: bool
    of: Expr | None = None


class GoroutineWays(Choice):
    """How the running goroutine is found, tried in order."""

    by_register: bool
    by_thread: bool


def _check_call(context: CheckContext, node: Call) -> Type | None:
    """goid(g)."""
    if len(node.args) != 1:
        context.error("arity", convert.no_match(node.name), node)
        return None
    type, offset = context.check_value(node.args[0]), _find_offset(context, node)
    if type is None or offset is None:
        return None
    if not isinstance(type, Int | Pointer):
        context.error("bad-argument", f"goid() expects the address of a struct g ({convert.type_name(type)} provided)",
                      node)
        return None
    node.choice = Goroutine(offset[0], False, node.args[0])
    return UINT64


def _check_goid(context: CheckContext, node: Reference) -> Type | None:
    known = _find_offset(context, node)
    if known is None:
        return None
    offset, by_register = known
    if not by_register and not has_thread_pointer(context.world):
        context.error("missing-feature", "goid finds the goroutine of a thread on x86_64 only, by the kernel's BTF, "
                      "where no register has it", node)
        return None
    node.choice = Goroutine(offset, by_register)
    return UINT64


def _find_offset(context: CheckContext, node: Reference) -> tuple[int, bool] | None:
    """Where the number is in ``g``, and whether a register has the address of that; None if it is not known."""
    attach = context.program.attach
    version = attach.detail.go if isinstance(attach.detail, UserDetail) else ""
    path, by_register = attach.target, bool(version) and not uses_stack(version, context.world.arch)
    if not version and context.options.pid:
        path = next(iter(context.world.find_binaries("", context.options.pid)), "")
        version = context.world.go_version(path) if path else ""
    if not version:
        context.error("no-goroutine", f"goid is the number of a goroutine: {attach.name} is in no Go program", node, [
            "it works in uprobes of Go programs, and with -p PID of one in other probes"])
        return None
    offset = goid_offset(version)
    if offset is None:
        offset = _described_offset(context, path)
    if offset is None:
        context.error("no-goroutine", f"there is no telling where {version} has a goroutine's number: {path} has no "
                      "debug information of it", node)
        return None
    return offset, by_register and not attach.event.endswith(".abi0")


def _check_goroutine(context: CheckContext, node: Reference) -> Type:
    """Where no way leads to a goroutine there is none, which costs nothing."""
    by_register, by_thread = goroutine_ways(context.world, context.program.attach)
    node.const = None if by_register or by_thread else 0
    node.choice = GoroutineWays(by_register, by_thread)
    return UINT64


def _described_offset(context: CheckContext, path: str) -> int | None:
    struct = context.world.user_type(path, "struct runtime.g")
    field = struct.field("goid") if isinstance(struct, Struct) else None
    return field.offset if field is not None else None


def _lower_goid(lo: Lower, node: Reference) -> Operand:
    assert isinstance(node.choice, Goroutine)
    if node.choice.of is not None:
        return _read(lo, lo.scalar_value(node.choice.of), node.choice.offset)
    if node.choice.by_register:
        register = arch_of(lo).go_goroutine
        assert register is not None
        return _read(lo, lo.context.register(lo, register), node.choice.offset)
    return _goid_of_thread(lo, node.choice.offset)


def _goid_of_thread(lo: Lower, offset: int) -> Operand:
    """The number, by the thread's own memory; 0 if that has no ``g``: a thread that C code started."""
    result, some, own, on = lo.b.function.reg("goid"), lo.b.block("some"), lo.b.block("own"), lo.b.block("on")
    lo.b.set(result, 0)
    goroutine = _read(lo, _thread_pointer(lo), -_BELOW)
    lo.b.branch("jne", goroutine, 0, some, on)
    lo.b.start(some)
    machine = _read(lo, goroutine, _OF_THREAD)
    lo.b.branch("jeq", _read(lo, _read(lo, machine, _FIRST), _OF_THREAD), machine, own, on)
    lo.b.start(own)
    lo.b.set(result, _read(lo, goroutine, offset))
    lo.b.jump(on)
    lo.b.start(on)
    return result


def _thread_pointer(lo: Lower) -> Operand:
    thread = lo.world.find_struct("thread_struct")
    field = thread.field(arch_of(lo).thread_pointer) if thread is not None else None
    assert field is not None
    return memory.read_scalar(lo, task_memory(lo, current_task(lo), "thread").at(field.offset), UINT64)


def _lower_goroutine(lo: Lower, node: Reference) -> Operand:
    """The first candidate on whose stack the thread runs: functions in assembly may use the register for other things,
    and while C runs, no candidate's stack is in use."""
    assert isinstance(node.choice, GoroutineWays)
    result, done = lo.b.function.reg("goroutine"), lo.b.block("done")
    if node.choice.by_register:
        register = arch_of(lo).go_goroutine
        assert register is not None
        _take_if_running(lo, result, lo.context.register(lo, register), done)
    if node.choice.by_thread:
        with lo.scope():
            slot = lo.temp(8)
            memory.read_memory(lo, USER, slot, 8, lo.b.alu("sub", _thread_pointer(lo), _BELOW))
            _take_if_running(lo, result, lo.b.load(slot.base, slot.off), done)
    lo.b.set(result, 0)
    lo.b.jump(done)
    lo.b.start(done)
    return result


def _take_if_running(lo: Lower, result: Reg, candidate: Operand, done: BasicBlock) -> None:
    """Go to ``done`` with the candidate as result if it is a ``g`` with the stack pointer on its stack, which its first
    two members are the ends of. A failed read leaves zeros."""
    taken, above, other = lo.b.block("taken"), lo.b.block("above"), lo.b.block("other")
    with lo.scope():
        ends = lo.temp(16)
        memory.read_memory(lo, USER, ends, 16, candidate)
        stack = lo.context.register(lo, arch_of(lo).stack_pointer)
        lo.b.branch("jgt", stack, lo.b.load(ends.base, ends.off), above, other)
        lo.b.start(above)
        lo.b.branch("jlt", stack, lo.b.load(ends.base, ends.off + 8), taken, other)
    lo.b.start(taken)
    lo.b.set(result, candidate)
    lo.b.jump(done)
    lo.b.start(other)


def _read(lo: Lower, address: Operand, offset: int) -> Operand:
    base = address if isinstance(address, Reg) else lo.b.alu("add", address, 0)
    assert isinstance(base, Reg)
    return memory.read_scalar(lo, Mem(base, offset, USER), UINT64)


ROWS = (
    Builtin("goid", _check_goid, "Number of the running goroutine of a Go program, a uint64; 0 for the scheduler's "
            "own. With the address of a struct `g` that of another.", call=_check_call, arguments="[g]",
            scalar=_lower_goid),
    Builtin("goroutine", _check_goroutine, "Address of the running goroutine's struct `g` in a probe of a Go function; "
            "0 elsewhere.", scalar=_lower_goroutine),
)
