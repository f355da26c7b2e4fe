"""Arguments at a function's return, for fexit that a kretprobe serves.

A kretprobe has the registers of the return, which no longer hold the arguments. A kprobe at the function's entry keeps
those that the clause reads, under the stack pointer: no two calls that are under way have the same one, and a call has
it again when it returns. A call whose arguments were not kept, because it had begun before the probes were attached, is
none of the clause's, as with fexit itself.
"""

from __future__ import annotations

from ...record import Record
from ...semantics.typed import CheckedProbe
from ...spec import MapSpec
from ...types import StructField
from .. import helpers as h
from ..ir import BasicBlock, MapFd, Operand
from ..unit import Unit
from .contexts import Context, KernelFunctionContext, arch_of
from .core import Lower
from .state import Mem

MOST_CALLS = 16384  # of a function, that are under way


class Kept(Record):
    """The map that has the arguments of calls under way, and their numbers."""

    map: str
    numbers: list[int]


def keep_arguments(unit: Unit, probe: CheckedProbe, used: set[str] | None) -> Kept:
    """Room for the arguments that a clause reads (None: all of them)."""
    fields = probe.args.fields if probe.args is not None else ()
    numbers = [field.offset // 8 for field in fields if used is None or field.name in used]
    name = f"__args{sum(known.startswith('__args') for known in unit.maps)}"
    size = 8 * max(len(numbers), 1)
    unit.internal(name, lambda: MapSpec(name, "hash", 8, size, MOST_CALLS, unit.flags_for(MOST_CALLS * (8 + size))))
    return Kept(name, numbers)


class _WithArguments(KernelFunctionContext):
    """One half of such an fexit. Functions that call one another last have the same stack pointer: each has programs
    of its own."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept

    def shares(self, unit: Unit) -> bool:
        return False

    def fresh(self) -> Context:
        return type(self)(self.kept)

    def write_key(self, lo: Lower, pointer: Operand) -> Mem:
        key = lo.temp(8, "call")
        lo.b.store(key.base, key.off, pointer)
        return key


class KeepingContext(_WithArguments):
    """The entry."""

    def begin(self, lo: Lower, leave: BasicBlock) -> None:
        with lo.scope():
            values = lo.temp(lo.unit.maps[self.kept.map].value_size, "arguments")
            for at, number in enumerate(self.kept.numbers):
                lo.b.store(values.base, values.off + 8 * at, self.arg(lo, number))
            key = self.write_key(lo, self.register(lo, arch_of(lo).stack_pointer))
            result = lo.b.call(h.MAP_UPDATE, [MapFd(self.kept.map), lo.operand_address(key), lo.operand_address(values),
                                              h.UPDATE_ANY], "map_update_elem")
            lo.on_failure(result, "args_lost", "map_update_elem", bits=h.MAP_RESULT)


class KeptContext(_WithArguments):
    """The return."""

    def __init__(self, kept: Kept) -> None:
        super().__init__(kept)
        self.kept_words = len(kept.numbers)

    def begin(self, lo: Lower, leave: BasicBlock) -> None:
        row = arch_of(lo)
        popped = 8 if row.link_register is None else 0  # by the return: its address
        found = lo.b.block("kept")
        with lo.scope():
            key = self.write_key(lo, lo.b.alu("sub", self.register(lo, row.stack_pointer), popped))
            values = lo.b.call(h.MAP_LOOKUP, [MapFd(self.kept.map), lo.operand_address(key)], "map_lookup_elem")
            lo.b.branch("jne", values, 0, found, leave)
            lo.b.start(found)
            self.values = [lo.b.load(values, 8 * at, 8) for at in range(len(self.kept.numbers))]
            for at, value in enumerate(self.values if lo.state.frame is not None else ()):
                lo.b.store(lo.frame.base, lo.frame.off + lo.state.sharing.kept_offset + 8 * at, value)
            lo.b.call(h.MAP_DELETE, [MapFd(self.kept.map), lo.operand_address(key)], "map_delete_elem")

    def argument(self, lo: Lower, field: StructField) -> Operand | Mem:
        at = self.kept.numbers.index(field.offset // 8)
        value = lo.b.load(lo.frame.base, lo.frame.off + lo.state.sharing.kept_offset + 8 * at, 8) \
            if lo.state.frame is not None else self.values[at]
        return lo.normalise(value, field.type)
