"""Loops over kernel objects: NAME_new(), NAME_next() until it returns NULL, NAME_destroy() on every way out."""

from __future__ import annotations

from ....language.ast import Assign, Call, For, Unary, Variable
from ....layouts.uapi import BPF_TASK_ITER_ALL_THREADS
from ....semantics.nodes import walk_nodes
from ....semantics.object_loops import ObjectLoop, is_current
from ....types import Pointer, Struct, round_up
from ... import helpers as h
from ...ir import Operand, Reg
from .. import memory
from ..core import Lower
from ..state import LoopTargets, Mem
from .variables import assign_variable


def lower_object_loop(lo: Lower, stmt: For) -> None:
    call = stmt.start
    assert isinstance(call, Call) and isinstance(call.type, Pointer) and isinstance(call.type.to, Struct)
    row = call.callee
    assert isinstance(row, ObjectLoop)
    arguments, process = _arguments(lo, call, row)
    slot = lo.b.slot(row.size, "iterator")
    slot.pinned = True
    where = lo.operand_address(Mem(slot))
    lo.b.kfunc(lo.world.kfunc_id(f"{row.kfuncs}_new"), [where, *arguments], "iterator_new")
    lo.forget()
    lo.state.last_time = None
    head, body, leave = (lo.b.block(name) for name in ("objects", "object", "leave"))
    lo.b.start(head)
    item = lo.b.kfunc(lo.world.kfunc_id(f"{row.kfuncs}_next"), [where], "iterator_next")
    lo.b.branch("jne", item, 0, body, leave)
    lo.b.start(body)
    lo.state.typed[item] = call.type.to.btf_id
    if process is not None:
        same = lo.b.block("same")
        lo.b.branch("jeq", _process_of(lo, item, call.type), process, same, head)
        lo.b.start(same)
    assign_variable(lo, stmt.variable, item)
    _forget_values(lo, stmt)
    lo.state.iterators.append((lo.world.kfunc_id(f"{row.kfuncs}_destroy"), where))
    lo.state.loops.append(LoopTargets(leave, head))
    with lo.region():
        lo.lower_block(stmt.body)
    lo.state.loops.pop()
    if not lo.b.closed:
        lo.b.jump(head)
    lo.forget()
    lo.b.start(leave)
    lo.destroy_iterator(*lo.state.iterators.pop())


def _arguments(lo: Lower, call: Call, row: ObjectLoop) -> tuple[list[Operand], Operand | None]:
    """The iterator's arguments after its state, and the process to filter for, if all threads are visited: the kernel
    accepts only the current task there, because the verifier trusts no other."""
    if not row.of_task:
        return [0, row.last], None
    if is_current(call.args[0]):
        return [lo.b.call(h.TASK_BTF, [], "current_task_btf"), row.last], None
    task = lo.scalar_value(call.args[0])
    if row.trusted:
        return [task, row.last], None
    assert isinstance(call.args[0].type, Pointer)
    return [0, BPF_TASK_ITER_ALL_THREADS], _process_of(lo, task, call.args[0].type)


def _process_of(lo: Lower, task: Operand, type: Pointer) -> Operand:
    assert isinstance(type.to, Struct)
    group = type.to.field("tgid")
    assert group is not None
    return memory.read_field(lo, memory.locate_pointee(lo, task, type), group)


def _forget_values(lo: Lower, stmt: For) -> None:
    """Make the variables that rounds change unknown to the verifier; else no round would look like another to it."""
    zero = None
    for node in _changed_variables(stmt):
        home, type = lo.state.variables.get(id(node.slot)), node.slot.type
        if home is None or isinstance(type, Pointer):
            continue
        zero = zero or lo.b.load(lo.unit.global_word("zero"), 0, 8)
        if isinstance(home, Reg):
            lo.b.set(home, lo.b.alu("add", home, zero))
            continue
        for at in range(home.off, home.off + round_up(type.size, 8), 8):
            lo.b.store(home.base, at, lo.b.alu("add", lo.b.load(home.base, at), zero))


def _changed_variables(stmt: For) -> list[Variable]:
    """The variables that the body may assign to, each once."""
    changed: dict[int, Variable] = {}
    for node in walk_nodes(stmt.body):
        targets = [node.target] if isinstance(node, Assign) else [node.operand] if isinstance(node, Unary) else \
            node.args if isinstance(node, Call) else []
        changed |= {id(target.slot): target for target in targets if isinstance(target, Variable)}
    return [changed[key] for key in changed if key != id(stmt.variable.slot)]
