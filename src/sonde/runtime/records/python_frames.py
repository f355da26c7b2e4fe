"""Native and Python frames of a thread as one stack."""

from __future__ import annotations

from ...base.fast_stdlib import TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_T = TypeVar("_T")
EVALUATES = "_PyEval_EvalFrame"  # how the interpreter's functions that run Python's code begin
_INTERPRETER = ("_PyEval_", "PyEval_")  # and those that call them


def merge_python_frames(native: Sequence[_T], names: Sequence[str], python: Sequence[_T],
                        entered: Sequence[bool]) -> list[_T]:
    """A thread's native and Python frames as one stack, innermost first.

    Each native frame of the interpreter (by ``names``) is replaced by the Python functions that it runs, up to the one
    for which C called it (``entered``); native frames between them are C functions that Python called. If the two do
    not match (the stack was truncated, or not unwound to its end), the only native frames are those that the innermost
    Python function called; if no interpreter frame is seen, it is the innermost one alone. Frames below the outermost
    interpreter frame are left out."""
    if not python:
        return list(native)
    evaluating = [at for at, name in enumerate(names) if name.startswith(EVALUATES)]
    inner = evaluating[0] if evaluating else min(len(native), 1)
    if len(entered) != len(python) or sum(entered) != len(evaluating) or not entered[-1]:
        return [*native[:inner], *python]
    merged, ends = list(native[:inner]), iter([*evaluating[1:], 0])
    for frame, is_entered in zip(python, entered):
        merged.append(frame)
        if is_entered:
            end = next(ends)
            merged += [native[at] for at in range(inner + 1, end) if not names[at].startswith(_INTERPRETER)]
            inner = end
    return merged
