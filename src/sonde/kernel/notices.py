"""What is noticed on the way and people should know: said once, where the program that runs wants it."""

from __future__ import annotations

from collections.abc import Callable


def _warn(message: str) -> None:
    import warnings

    warnings.warn(message, RuntimeWarning, stacklevel=3)


tell: Callable[[str], object] = _warn
hurried: Callable[[], bool] = bool  # whether the run is to end, and nothing may take long any more


def notice(message: str) -> None:
    """Say it; parts of it may come from others' files, so nothing in it controls a terminal."""
    tell("".join([c if c.isprintable() else ascii(c)[1:-1] for c in message]))
