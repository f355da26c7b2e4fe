"""iter: the context is a struct of the kernel's that points to the object at hand."""

from __future__ import annotations

from ...types import Pointer, Struct
from ..ir import Block
from ..unit import Unit
from .contexts import Context
from .core import Lower


class Iterated(Context):
    """One task reads the iterator, so no two runs overlap. At the end the program runs once without an object."""

    program = "tracing"
    filters_pid = False

    def shares(self, unit: Unit) -> bool:
        return False

    def prologue(self, lo: Lower, leave: Block) -> None:
        """At the end all pointers are 0; and the verifier lets none be used that was not compared."""
        struct = lo.world.struct(f"bpf_iter__{lo.attach[0].event}")
        for at in object_offsets(struct) if struct is not None else [8]:
            found = lo.b.block("object")
            lo.b.branch("jne", lo.b.load(lo.context_pointer(), at, 8, pure=True), 0, found, leave)
            lo.b.start(found)


def object_offsets(struct: Struct) -> list[int]:
    """Where the pointers to the object are (task and file, say): all but ``meta``."""
    fields = [struct.field(name) for name in struct.field_names() if name != "meta"]
    return [f.offset for f in fields if f is not None and isinstance(f.type, Pointer)]
