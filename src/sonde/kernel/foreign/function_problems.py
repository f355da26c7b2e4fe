"""Why it is not known where a function ends: keys of semantics.returns.PROBLEMS."""

from __future__ import annotations

NO_FUNCTION, UNREADABLE, OVERLAPS, COMPUTED, TAIL, NEVER, TOO_LARGE, OTHER_CPU, UNPROBED = PROBLEMS = (
    "no function", "unreadable", "overlaps", "computed", "tail", "never", "too large", "other cpu", "unprobed")


class UnknownEndError(Exception):
    """It is not known where the function returns: one of PROBLEMS."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
