"""What is noticed on the way and people should know: said once, where the program that runs wants it."""

from __future__ import annotations

from ..ending import Ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _issue_warning(message: str) -> None:
    import warnings

    warnings.warn(message, RuntimeWarning, stacklevel=3)


tell: Callable[[str], object] = _issue_warning
_endings: list[Ending] = []  # of the runs that foreign files are read for


def follow_ending(ending: Ending) -> None:
    """Foreign files are read for one more run; those that are over do not count any more."""
    _endings[:] = [*[other for other in _endings if not other.over], ending]


def is_hurried() -> bool:
    """Whether a run is to end, and nothing may take long any more."""
    return any(ending.is_overdue(0) for ending in _endings)


def show_notice(message: str) -> None:
    """Say it; parts of it may come from others' files, so nothing in it controls a terminal."""
    tell("".join([c if c.isprintable() else ascii(c)[1:-1] for c in message]))
