"""Scratch variables: in a register, or in memory where something must reach them there."""

from __future__ import annotations

from ....language.ast import Expr, MapRef, Variable
from ....semantics.nodes import walk_nodes
from ....types import Scalar, Type
from ...ir import Operand, Reg
from .. import memory
from ..core import Lower
from ..state import Mem


def replace_value(lo: Lower, target: Variable | MapRef, value: Expr, mem: Mem, type: Type) -> None:
    """Write a new value over that of ``target``, in place unless it is made of the old one."""
    if isinstance(value, (Variable, MapRef)) or not any(_is_same_target(target, node) for node in walk_nodes(value)):
        lo.write_value(value, mem, type)
        return
    with lo.scope():
        made = lo.temp(type.size)
        lo.write_value(value, made, type)
        memory.copy_bytes(lo, made, mem, type.size)


def _is_same_target(target: Variable | MapRef, node: object) -> bool:
    if isinstance(target, Variable):
        return isinstance(node, Variable) and node.slot is target.slot
    return isinstance(node, MapRef) and node.name == target.name


def assign_variable(lo: Lower, target: Variable, value: Operand) -> None:
    """Set a scalar variable."""
    home = lo.state.variables.get(id(target.slot))
    if home is None:
        home = Mem(lo.b.slot(8, target.name)) if id(target.slot) in lo.probe.facts.addressed else \
            lo.b.function.reg(f"${target.name}")
        lo.state.variables[id(target.slot)] = home
    value = lo.normalise(value, target.slot.type)
    if isinstance(home, Reg):
        lo.b.set(home, value)
        return
    if id(target.slot) in lo.state.sharing.obscured and isinstance(value, Reg):
        value = lo.b.alu("add", value, lo.b.load(lo.unit.global_word("zero"), 0, 8))
    lo.store_value(home, target.slot.type, value)


def set_variable(lo: Lower, target: Variable, value: Expr | None) -> None:
    """``$x = value``; without a value it becomes zero."""
    type = target.slot.type
    if isinstance(type, Scalar):
        assign_variable(lo, target, lo.stored_value(value) if value is not None else 0)
        return
    mem = lo.state.variables.get(id(target.slot))
    if mem is None:
        slot = lo.b.slot(type.size, target.name)
        mem = lo.state.variables[id(target.slot)] = Mem(slot)
    assert isinstance(mem, Mem)
    if value is None:
        memory.clear_bytes(lo, mem, type.size)
    else:
        replace_value(lo, target, value, mem, type)
