"""``sonde version``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
version: the version of Sonde

USAGE
  sonde version

  The same as `sonde --version`; `sonde --info` has the kernel too.

EXAMPLE
  # sonde version
  sonde v0.1.0

NEEDS
  nothing
"""
TAKES = set[str]()


def main(parsed: Parsed) -> int:
    """Print it; the exit status."""
    from ..main import VERSION
    sys.stdout.write(f"sonde v{VERSION}\n")
    return 0
