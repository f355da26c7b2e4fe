"""Arguments at a function's return, for fexit that a kretprobe serves.

At the return, the registers no longer hold the arguments. So a kprobe at the function's entry saves those that the
clause reads, together with the stack pointer, which has the same value at the return. They are stored under the page
that the stack pointer points into. A page has one user at a time, and the calls whose frames begin in it end in the
reverse order of their beginnings. So a saved call that does not lie above a new one has ended, and its return was
missed: the kernel has few records for calls under way.

A call that began before the probes were attached has no saved arguments. The clause does not see it, as with fexit.
"""

from __future__ import annotations

from ....base.record import Record
from ....layouts.uapi import BPF_F_NO_PREALLOC
from ....semantics.typed import CheckedProbe
from ....spec import MapSpec
from ....types import StructField
from ... import helpers as h
from ...compilation import Unit
from ...ir import BasicBlock, MapFd, Operand, Reg
from ..core import Lower
from ..state import Mem
from .contexts import Context, KernelFunctionContext, arch_of

PAGE_SHIFT = 12     # no kernel's pages are smaller, nor are parts of them stacks
MOST_PAGES = 16384  # of stacks, for each function; a quarter where all of them get their memory at once
MOST_CALLS = 4      # of a function whose frames begin in one page


class EntryArguments(Record):
    """Where the arguments of calls under way are stored: in ``map`` under the page, for each of MOST_CALLS calls,
    outermost first, its stack pointer and the arguments with these ``numbers``. A stack pointer of 0 ends them."""

    map: str
    numbers: list[int]

    @property
    def stride(self) -> int:
        return 8 + 8 * len(self.numbers)


def keep_arguments(unit: Unit, probe: CheckedProbe, used: set[str] | None) -> EntryArguments:
    """Room for the arguments that a clause reads (None: all of them)."""
    fields = probe.args.fields if probe.args is not None else ()
    name = f"__args{sum(known.startswith('__args') for known in unit.maps)}"
    saved = EntryArguments(name, [field.offset // 8 for field in fields if used is None or field.name in used])
    pages, flags = (MOST_PAGES, BPF_F_NO_PREALLOC) if unit.allocates else (MOST_PAGES // 4, 0)
    unit.internal(name, lambda: MapSpec(name, "hash", 8, (MOST_CALLS + 1) * saved.stride, pages, flags))
    return saved


class _PairedContext(KernelFunctionContext):
    """The context of one half of the pair. Functions that end in a tail call share a stack pointer, so each has
    programs of its own."""

    def __init__(self, saved: EntryArguments) -> None:
        self.saved = saved

    def shares(self, unit: Unit) -> bool:
        return False

    def fresh(self) -> Context:
        return type(self)(self.saved)

    def look_up(self, lo: Lower, pointer: Operand) -> tuple[Reg, Mem]:
        """The address of what is saved for the page that ``pointer`` points into, or 0, and the key."""
        key = lo.temp(8, "page")
        lo.b.store(key.base, key.off, lo.b.alu("rsh", pointer, PAGE_SHIFT))
        return lo.b.call(h.MAP_LOOKUP, [MapFd(self.saved.map), lo.operand_address(key)], "map_lookup_elem"), key

    def find_call(self, lo: Lower, calls: Reg, condition: str, pointer: Operand, none: BasicBlock) -> Reg:
        """The first of the saved calls whose stack pointer meets the condition with ``pointer``."""
        at, match = lo.b.function.reg("call"), lo.b.block("found")
        for number in range(MOST_CALLS):
            fits, other = lo.b.block("fits"), none if number + 1 == MOST_CALLS else lo.b.block("next")
            lo.b.branch(condition, lo.b.load(calls, number * self.saved.stride, 8), pointer, fits, other)
            lo.b.start(fits)
            lo.b.set(at, lo.b.alu("add", calls, number * self.saved.stride))
            lo.b.jump(match)
            if other is not none:
                lo.b.start(other)
        lo.b.start(match)
        return at


class EntryContext(_PairedContext):
    """The context of the program at the function's entry."""

    def begin(self, lo: Lower, leave: BasicBlock) -> None:
        lost = lo.b.block("lost", cold=True)
        with lo.scope():
            pointer = self.register(lo, arch_of(lo).stack_pointer)
            at = self.find_call(lo, self._make_room(lo, pointer, lost), "jle", pointer, lost)
            if not lo.unit.feature("probe_misses"):  # else the kernel tells of them
                self._count_missed(lo, at)
            lo.b.store(at, 0, pointer)
            for index, number in enumerate(self.saved.numbers):
                lo.b.store(at, 8 + 8 * index, self.arg(lo, number))
            lo.b.store(at, self.saved.stride, 0)
        lo.b.jump(leave)
        lo.b.start(lost)
        lo.count_error("args_lost")
        lo.b.jump(leave)
        lo.b.start(lo.b.block("kept"))

    def _make_room(self, lo: Lower, pointer: Operand, lost: BasicBlock) -> Reg:
        """The address of what is saved for the page, inserted if it was missing."""
        calls = lo.b.function.reg("calls")
        first, key = self.look_up(lo, pointer)
        missing, made, have = lo.b.block("missing", cold=True), lo.b.block("made", cold=True), lo.b.block("have")
        lo.b.set(calls, first)
        lo.b.branch("jeq", first, 0, missing, have)
        lo.b.start(missing)
        zeros = lo.unit.zero(lo.unit.maps[self.saved.map].value_size)
        lo.b.call(h.MAP_UPDATE, [MapFd(self.saved.map), lo.operand_address(key), zeros, h.UPDATE_NEW],
                  "map_update_elem")
        second, _ = self.look_up(lo, pointer)
        lo.b.branch("jeq", second, 0, lost, made)
        lo.b.start(made)
        lo.b.set(calls, second)
        lo.b.jump(have)
        lo.b.start(have)
        return calls

    def _count_missed(self, lo: Lower, at: Reg) -> None:
        missed, on = lo.b.block("missed", cold=True), lo.b.block("on")
        lo.b.branch("jne", lo.b.load(at, 0, 8), 0, missed, on)
        lo.b.start(missed)
        lo.count_error("return_missed")
        lo.b.jump(on)
        lo.b.start(on)


class ReturnContext(_PairedContext):
    """The context of the program at the function's return."""

    def __init__(self, saved: EntryArguments) -> None:
        super().__init__(saved)
        self.saved_words = len(saved.numbers)

    def begin(self, lo: Lower, leave: BasicBlock) -> None:
        row = arch_of(lo)
        popped = 8 if row.link_register is None else 0  # by the return: its address
        pointer, have = lo.b.alu("sub", self.register(lo, row.stack_pointer), popped), lo.b.block("have")
        with lo.scope():
            calls, _ = self.look_up(lo, pointer)
        lo.b.branch("jne", calls, 0, have, leave)
        lo.b.start(have)
        at = self.find_call(lo, calls, "jeq", pointer, leave)
        self.values = [lo.b.load(at, 8 + 8 * index, 8) for index in range(self.saved_words)]
        for index, value in enumerate(self.values if lo.state.frame is not None else ()):
            lo.b.store(lo.frame.base, lo.frame.off + lo.state.sharing.saved_offset + 8 * index, value)
        lo.b.store(at, 0, 0)

    def argument(self, lo: Lower, field: StructField) -> Operand | Mem:
        index = self.saved.numbers.index(field.offset // 8)
        value = lo.b.load(lo.frame.base, lo.frame.off + lo.state.sharing.saved_offset + 8 * index, 8) \
            if lo.state.frame is not None else self.values[index]
        return lo.normalise(value, field.type)
