"""Returns of functions that end with a jump to another function, which returns in their place.

At the jump, the call is noted under its process and the stack pointer, which no other call under way there shares. At
the return instructions of the functions that the jump may lead to, a call noted for that stack pointer returns. One
that is left without a return, by an exception for example, leaves its note. So a function that is entered looks for
one: it is the call's own if a jump has just been made, and otherwise the rest of an earlier call.
"""

from __future__ import annotations

from ....base.function_ends import TailCalls
from ....spec import Attach, MapSpec, UserDetail, detail_of
from ... import helpers as h
from ...compilation import Unit
from ...ir import BasicBlock, MapFd, Reg
from ..core import Lower
from ..state import Mem
from .contexts import JUMPS, TAIL_RETURNS, Context, ReturnInstructionContext, UserFunctionContext, traced_arch

MOST_CALLS = 16384
JUMPED, ENTERED = 1, 2  # what is noted of a call


def tail_programs(unit: Unit, attach: list[Attach]) -> list[tuple[Context, list[Attach], bool]]:
    """The further programs for a clause with functions whose calls others may return for: (context, attach points,
    whether it runs the clause).

    The kernel runs the newest probe of an instruction first, and attaches the last of the programs first. So the
    function that returns comes before those that jumped to it, of which the one comes first that leads to the fewest.
    """
    name = f"__tails{sum(known.startswith('__tails') for known in unit.maps)}"
    outermost = sorted(attach, key=lambda point: -sum([len(calls.entries) for calls in _tails_of(point)]))
    tails = [(point, calls) for point in outermost for calls in _tails_of(point)]
    if any(calls.jumps for _, calls in tails):
        unit.internal(name, lambda: MapSpec(name, "lru_hash", 16, 8, MOST_CALLS))
    return [(TailReturnContext(name), [_at(point, calls.path, calls.returns) for point, calls in tails], True),
            (TailJumpContext(name), [_at(point, calls.path, calls.jumps) for point, calls in tails], False),
            (TailOnwardContext(name), [_at(point, calls.path, calls.onward) for point, calls in tails], False),
            (TailEntryContext(name), [_at(point, calls.path, calls.entries) for point, calls in tails], False),
            (UnseenJumpContext(), [_at(point, calls.path, calls.unseen) for point, calls in tails], False)]


def _tails_of(point: Attach) -> tuple[TailCalls, ...]:
    return detail_of(point, UserDetail).tails


def _at(point: Attach, path: str, offsets: tuple[int, ...]) -> Attach:
    """An attach point, at other instructions."""
    moved, detail = Attach(*point.values()), UserDetail(*detail_of(point, UserDetail).values())
    detail.exits, detail.tails = offsets, ()
    moved.target, moved.detail = path, detail
    return moved


class _TailContext(ReturnInstructionContext):
    """One of the programs for such calls: those noted are in the map ``calls``, by process, attach point, and stack
    pointer."""

    def __init__(self, calls: str) -> None:
        self.calls = calls

    def fresh(self) -> Context:
        return type(self)(self.calls)

    def key(self, lo: Lower) -> Mem:
        """Of the call that may be under way."""
        key = lo.temp(16, "call")
        process = lo.b.alu("rsh", lo.b.call(h.PID_TGID, [], "pid_tgid", pure=True), 32)
        lo.b.store(key.base, key.off, lo.b.alu("or", lo.b.alu("lsh", process, 32), lo.probe_index()))
        lo.b.store(key.base, key.off + 8, UserFunctionContext.register(self, lo, traced_arch(lo).stack_pointer))
        return key

    def note(self, lo: Lower, key: Mem, state: int) -> None:
        """Note a call."""
        value = lo.temp(8, "state")
        lo.b.store(value.base, value.off, state)
        result = lo.b.call(h.MAP_UPDATE, [MapFd(self.calls), lo.operand_address(key), lo.operand_address(value), 0],
                           "map_update_elem")
        lo.on_failure(result, "return_missed", "map_update_elem")

    def look_up(self, lo: Lower, key: Mem, none: BasicBlock) -> Reg:
        """What is noted of the call; goes to ``none`` where nothing is."""
        noted, at = lo.b.block("noted"), lo.b.call(h.MAP_LOOKUP, [MapFd(self.calls), lo.operand_address(key)],
                                                   "map_lookup_elem")
        lo.b.branch("jne", at, 0, noted, none)
        lo.b.start(noted)
        return at

    def forget(self, lo: Lower, key: Mem) -> None:
        lo.b.call(h.MAP_DELETE, [MapFd(self.calls), lo.operand_address(key)], "map_delete_elem")


class TailJumpContext(_TailContext):
    """At jumps to other functions."""

    counter = JUMPS

    def begin(self, lo: Lower, leave: BasicBlock) -> None:
        with lo.scope():
            self.note(lo, self.key(lo), JUMPED)


class TailEntryContext(_TailContext):
    """At the beginnings of functions that are jumped to."""

    counter = None

    def begin(self, lo: Lower, leave: BasicBlock) -> None:
        with lo.scope():
            key = self.key(lo)
            at = self.look_up(lo, key, leave)
            jumped, over = lo.b.block("jumped"), lo.b.block("over", cold=True)
            lo.b.branch("jeq", lo.b.load(at, 0, 8), JUMPED, jumped, over)
            lo.b.start(over)
            self.forget(lo, key)
            lo.b.jump(leave)
            lo.b.start(jumped)
            lo.b.store(at, 0, ENTERED)


class TailOnwardContext(_TailContext):
    """At the jumps of these functions to further ones."""

    counter = None

    def begin(self, lo: Lower, leave: BasicBlock) -> None:
        with lo.scope():
            lo.b.store(self.look_up(lo, self.key(lo), leave), 0, JUMPED)


class TailReturnContext(_TailContext):
    """At the return instructions of these functions: runs the clause for a call that they return for."""

    counter = TAIL_RETURNS

    def prologue(self, lo: Lower, leave: BasicBlock) -> None:
        with lo.scope():
            key = self.key(lo)
            self.look_up(lo, key, leave)
            self.forget(lo, key)


class UnseenJumpContext(ReturnInstructionContext):
    """At jumps to functions that are not known."""

    def begin(self, lo: Lower, leave: BasicBlock) -> None:
        lo.count_error("tail_unseen")
