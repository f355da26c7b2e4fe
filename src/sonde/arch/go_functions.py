"""What Go's functions begin with."""

from __future__ import annotations

from ..base import regex_cache
from .row import Arch

MOST_CHECK = 48  # bytes


def stack_check_length(arch: Arch, code: bytes) -> int:
    """Bytes of the check whether the stack is large enough, with which most functions begin; 0 if this one has none."""
    match = regex_cache.match("(?s)" + arch.go_stack_check, code.decode("latin-1")) if arch.go_stack_check else None
    return match.end() if match else 0
