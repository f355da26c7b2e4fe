"""iter: the context is a kernel struct that points to the current object."""

from __future__ import annotations

from ....types import KERNEL, Pointer, Struct, StructField
from ...compilation import Unit
from ...ir import BasicBlock, Operand
from .. import family, memory
from ..core import Lower
from .contexts import Context


class IteratorContext(Context):
    """One task reads the iterator, so no two runs overlap. At the end the program runs once without an object."""

    program = "tracing"
    filters_pid = False
    beneath = "test run"

    def shares(self, unit: Unit) -> bool:
        return False

    def prologue(self, lo: Lower, leave: BasicBlock) -> None:
        """At the end all pointers are 0; the verifier lets none be used that was not compared. -p chooses by task."""
        struct = lo.world.find_struct(f"bpf_iter__{lo.attach[0].event}")
        for at in object_offsets(struct) if struct is not None else [8]:
            there = lo.b.block("object")
            lo.b.branch("jne", lo.b.load(lo.context_pointer(), at, 8, pure=True), 0, there, leave)
            lo.b.start(there)
        if struct is not None and (lo.unit.options.pid or lo.unit.options.family):
            self._only_ours(lo, struct, leave)

    def _only_ours(self, lo: Lower, context: Struct, leave: BasicBlock) -> None:
        """Leave for tasks of other processes than that of -p, or than those that --follow follows."""
        where, task = context.field("task"), lo.world.find_struct("task_struct")
        group = task.field("tgid") if task is not None else None
        assert where is not None and task is not None and group is not None
        current, ours = self.pointer(lo, where, task.btf_id), lo.b.block("ours")
        if lo.unit.options.family:
            family.branch_on_task(lo, current, ours, leave)
        else:
            mem = memory.locate_pointee(lo, current, Pointer(task, KERNEL))
            lo.b.branch("jeq", memory.read_field(lo, mem, group), lo.unit.options.pid, ours, leave)
        lo.b.start(ours)

    def pointer(self, lo: Lower, field: StructField, btf_id: int) -> Operand:
        """A typed pointer of the context."""
        value = lo.b.load(lo.context_pointer(), field.offset, 8, pure=True)
        if memory.typed_loads(lo):
            lo.state.typed[value] = btf_id
        return value


def object_offsets(struct: Struct) -> list[int]:
    """Where the pointers to the object are (task and file, say): all but ``meta``."""
    fields = [struct.field(name) for name in struct.field_names() if name != "meta"]
    return [f.offset for f in fields if f is not None and isinstance(f.type, Pointer)]
