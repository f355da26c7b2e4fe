"""``sonde version``."""

from __future__ import annotations

import sys

from ...base.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Parsed

PAGE = f"""\
version: the version of Sonde

USAGE
  sonde version

  The same as `sonde --version`; `sonde --info` has the kernel too.

EXAMPLE
  # sonde version
  sonde v{__version__}

NEEDS
  nothing
"""
TAKES = set[str]()


def main(parsed: Parsed) -> int:
    """Print it; the exit status."""
    sys.stdout.write(f"sonde v{__version__}\n")
    return 0
