"""Where a function returns that ends with jumps to others: at their return instructions, or those of functions that
they jump to in turn.

A jump is followed if all is known of the functions that it may lead to: where they end, and that each jump of theirs
leads to another such function, and not back to the first one, whose calls would then end several at a time. None of
them may jump to its own first instruction, since a probe there could not tell a new call.
"""

from __future__ import annotations

from ...base.record import Value
from .function_problems import TAIL, UnknownEndError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MOST_FUNCTIONS = 64   # that a jump leads to
MOST_RETURNS = 1024  # of a function, in others


# A jump to another function: its address, that of the function, or 0 and the name of one in another file, or 0 and "".
Jump = tuple[int, int, str]


class Ends(Value):
    """Where a function ends: the addresses of its return instructions; its jumps to other functions; and whether a
    jump in it leads to its first instruction."""

    returns: list[int]
    jumps: list[Jump]
    repeats: bool = False


class TailCalls(Value):
    """The jumps of a function that are followed, and of the functions that they lead to the first instructions, the
    jumps to further ones, and the return instructions."""

    jumps: list[int]
    entries: list[int]
    onward: list[int]
    returns: list[int]


def follow_tail_calls(ends_of: Callable[[int], Ends], address: int, jumps: list[Jump]) -> TailCalls:
    """Follow the jumps of the function at an address as far as all is known. ``ends_of`` raises UnknownEndError."""
    followed: list[int] = []
    functions: dict[int, Ends] = {}
    for at, target, _ in jumps:
        try:
            reached = _functions_reached(ends_of, address, target)
        except UnknownEndError:
            continue
        if sum([len(ends.returns) for ends in {**functions, **reached}.values()]) <= MOST_RETURNS:
            followed.append(at)
            functions |= reached
    every = functions.values()
    return TailCalls(followed, sorted(functions), sorted([at for ends in every for at, _, _ in ends.jumps]),
                     sorted([at for ends in every for at in ends.returns]))


def _functions_reached(ends_of: Callable[[int], Ends], address: int, target: int) -> dict[int, Ends]:
    """The functions that a jump to ``target`` may lead to. UnknownEndError where it cannot be followed."""
    reached: dict[int, Ends] = {}
    waiting = [target]
    while waiting:
        function = waiting.pop()
        if function in reached:
            continue
        if function in (0, address) or len(reached) == MOST_FUNCTIONS:
            raise UnknownEndError(TAIL)
        ends = reached[function] = ends_of(function)
        if ends.repeats:
            raise UnknownEndError(TAIL)
        waiting += [target for _, target, _ in ends.jumps]
    return reached
