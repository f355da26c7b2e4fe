"""Which Sonde this is."""

from __future__ import annotations

import os

__version__ = "0.2.0"


def installed_state(folder: str) -> tuple[int, int]:
    """Inode and time (ns) of what an installer wrote when it installed the package in ``folder``: others after each
    installation. (0, 0) for a source tree."""
    try:
        status = os.stat(record_path(folder))
    except OSError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns


def record_path(folder: str) -> str:
    """Where it wrote its name."""
    return os.path.join(os.path.dirname(folder), f"sonde_tracer-{__version__}.dist-info", "INSTALLER")
