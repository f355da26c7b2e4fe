"""Where functions of programs end, as plain data."""

from __future__ import annotations

from .record import Record


class TailCalls(Record):
    """Jumps of a user function to others, which return in its place, as offsets in the function's file: the ``jumps``
    that are followed, and the ``unseen`` ones, to functions that are not known. Of the functions in the file ``path``
    that the followed ones lead to the first instructions (``entries``), the jumps ``onward`` to further ones, and the
    return instructions."""

    path: str
    jumps: tuple[int, ...] = ()
    entries: tuple[int, ...] = ()
    onward: tuple[int, ...] = ()
    returns: tuple[int, ...] = ()
    unseen: tuple[int, ...] = ()


class FunctionEnds(Record):
    """Where a user function ends: offsets in the file of its return ``instructions``, and of its ``jumps`` to other
    functions, which return in its place, but for those that are followed: the ``tails``. Where not all of them are
    known, the ``problem``, a key of semantics.returns.PROBLEMS. ``imports`` are those of the jumps that lead to
    functions of other files, with their names; ``repeats`` says that it jumps to its first instruction."""

    instructions: tuple[int, ...] = ()
    jumps: tuple[int, ...] = ()
    problem: str = ""
    tails: TailCalls | None = None
    imports: tuple[tuple[int, str], ...] = ()
    repeats: bool = False
