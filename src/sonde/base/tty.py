"""Terminals."""

from __future__ import annotations

import os


def can_draw_on(descriptor: int) -> bool:
    """Whether a descriptor is a terminal with a cursor that moves."""
    return os.isatty(descriptor) and os.environ.get("TERM", "dumb") != "dumb"
