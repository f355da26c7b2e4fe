"""Which jumps of user functions to others are followed: their returns are then seen where the others return."""

from __future__ import annotations

from ..base.function_ends import FunctionEnds, TailCalls
from ..spec import Attach, UserDetail, detail_of
from .finder import ProbeFinder

MOST_PROBED = 4096  # instructions of other functions
MOST_SHARED = 16    # functions for which one return instruction is probed

Jumps = tuple[int, ...]


class TailFollower:
    """Follows the jumps of the functions of one attach point in a script."""

    def __init__(self, finder: ProbeFinder) -> None:
        self._finder = finder
        self._probed = 0
        self._shared: dict[tuple[str, int], int] = {}
        self._imports: dict[tuple[str, str], list[TailCalls] | None] = {}
        self.lacks_process = False  # without which jumps to other files are not followed

    def follow(self, item: Attach, function: FunctionEnds) -> tuple[tuple[TailCalls, ...], Jumps]:
        """What of a function's jumps is followed, and those that are not: none of Go's, whose functions may be on
        another stack when they return, nor where too much would have to be probed."""
        own = function.tails or TailCalls("")
        own.path = item.target
        imports = {at: calls for at, name in function.imports
                   if (calls := self._import(item.target, name)) is not None}
        calls = _merge([own, *[each for calls in imports.values() for each in calls]])
        calls[0].jumps = tuple(sorted(own.jumps + tuple(imports)))
        every = tuple(sorted(function.jumps + own.jumps))
        if not calls[0].jumps or detail_of(item, UserDetail).go or not self._can_probe(calls):
            return (), every
        return tuple(calls), tuple([at for at in every if at not in calls[0].jumps])

    def _can_probe(self, calls: list[TailCalls]) -> bool:
        """Whether that is not too much, all together; then it is noted."""
        size = sum([len(each.entries) + len(each.onward) + len(each.returns) for each in calls])
        returns = [(each.path, at) for each in calls for at in each.returns]
        if self._probed + size > MOST_PROBED or any(self._shared.get(key, 0) == MOST_SHARED for key in returns):
            return False
        self._probed += size
        self._shared.update({key: self._shared.get(key, 0) + 1 for key in returns})
        return True

    def _import(self, path: str, name: str) -> list[TailCalls] | None:
        """What a jump to a function of another file leads to, by its name there. None where it is not followed: where
        all processes that use the file would pay for it, and where ``func`` is wanted, which is told by distances in
        one file."""
        key = path, name
        if key not in self._imports:
            self.lacks_process |= not self._finder.options.own_process
            follows = not self.lacks_process and "func" not in self._finder.use.names
            self._imports[key] = self._follow_import(path, name) if follows else None
        return self._imports[key]

    def _follow_import(self, path: str, name: str) -> list[TailCalls] | None:
        world = self._finder.world
        known = world.find_import(path, name, self._finder.options.pid)
        if known is None:
            return None
        library, offsets = known
        calls: list[TailCalls] = []
        for offset, ends in zip(offsets, world.function_ends(library, offsets)):
            if ends.problem or ends.jumps or ends.repeats:
                return None
            calls.append(TailCalls(library, (), (offset,), (), ends.instructions))
            if ends.tails is not None:
                calls.append(TailCalls(library, (), ends.tails.entries, ends.tails.jumps + ends.tails.onward,
                                       ends.tails.returns))
        return calls


def _merge(calls: list[TailCalls]) -> list[TailCalls]:
    """One for each file, in order, with each place once."""
    by_path: dict[str, list[TailCalls]] = {}
    for each in calls:
        by_path.setdefault(each.path, []).append(each)
    return [TailCalls(path, (), *[tuple(sorted({at for each in group for at in getattr(each, part)}))
                                  for part in ("entries", "onward", "returns")]) for path, group in by_path.items()]
