"""``sonde flame --diff``: two files of folded stacks as one flame graph."""

from __future__ import annotations

import os

from .flamegraph import flame_graph
from .stacks import read_folded


def flame_diff(before: str, after: str) -> str:
    """The SVG file of ``after``, coloured by the change of each frame's share since ``before``; SondeError for a file
    that is not folded."""
    title = f"{os.path.basename(after)}, compared with {os.path.basename(before)}"
    return flame_graph(read_folded(after), title, read_folded(before))
