"""Where an instruction passes control to, as plain data."""

from __future__ import annotations

from ..base.record import Value

PLAIN, RETURN, JUMP, BRANCH, INDIRECT, UNKNOWN = "", "return", "jump", "branch", "indirect", "unknown"
WITHIN, OUTSIDE = "within", "outside"  # of an indirect jump: it stays in its function, or leaves it, by what it is


class Flow(Value):
    """What an instruction does to control. A "call" is PLAIN, since control comes back. ``target`` of a JUMP or BRANCH
    is an offset in the code that was given; UNKNOWN is a way to return at which no probe can be set."""

    kind: str
    target: int = 0


class JumpTable(Value):
    """The table of an indirect jump: its elements of ``size`` bytes are addresses, or are ``relative`` to the table.
    ``at`` is an offset in the code that was given, or an address where it is ``absolute``. With ``by_got`` it is
    relative to the global offset table, and so are ``relative`` elements."""

    at: int
    size: int
    relative: bool = False
    absolute: bool = False
    by_got: bool = False
