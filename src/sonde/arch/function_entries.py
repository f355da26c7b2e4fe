"""Where a probe of a function's beginning is set."""

from __future__ import annotations

from ..base import regex_cache
from .row import Arch

MOST_CHECK = 48  # bytes


def stack_check_length(arch: Arch, code: bytes) -> int:
    """Bytes of the check whether the stack is large enough, with which most functions of Go begin; 0 if this one has
    none. Up to the jump by which it ends, where a probe is set there."""
    match = regex_cache.match("(?s)" + arch.go_stack_check, code.decode("latin-1")) if arch.go_stack_check else None
    return 0 if match is None else match.start("jump") if arch.go_check_taken is not None else match.end()


def marker_length(arch: Arch, code: bytes) -> int:
    """Bytes of the instruction with which a function begins that does nothing, where a probe behind it costs less."""
    match = regex_cache.match("(?s)" + arch.entry_marker, code.decode("latin-1")) if arch.entry_marker else None
    return match.end() if match else 0
