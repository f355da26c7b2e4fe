"""Notices to the user about what happens along the way: each shown once, where the running program wants it."""

from __future__ import annotations

from ..base.end_request import Ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _issue_warning(message: str) -> None:
    import warnings

    warnings.warn(message.removeprefix("WARNING: "), RuntimeWarning, stacklevel=3)


tell: Callable[[str], object] = _issue_warning
_endings: list[Ending] = []  # of the runs for which foreign files are read


def follow_ending(ending: Ending) -> None:
    """Note that foreign files are read for one more run; those that are over no longer count."""
    _endings[:] = [*[other for other in _endings if not other.over], ending]


def is_hurried() -> bool:
    """Whether a run is to end, so that nothing may take long any more."""
    return any(ending.is_overdue(0) for ending in _endings)


def show_notice(message: str) -> None:
    """Show a notice; parts of it may come from foreign files, so control characters are neutralised."""
    tell("".join([c if c.isprintable() else ascii(c)[1:-1] for c in message]))
