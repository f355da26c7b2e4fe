"""Lower limits of this process, within those that it has been given."""

from __future__ import annotations

import resource


def lower_limit(kind: int, most: int, later: int | None = None) -> None:
    """Set a limit (``resource.RLIMIT_...``) to ``most``, or to what this process may have at most where that is less;
    up to ``later`` it may be raised again. OSError if that fails."""
    hard = resource.getrlimit(kind)[1]
    wanted = [most, most if later is None else later]
    soft, last = [each if hard == resource.RLIM_INFINITY else min(each, hard) for each in wanted]
    resource.setrlimit(kind, (soft, last))
