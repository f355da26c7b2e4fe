"""``sonde flame --diff``: two files of folded stacks as one flame graph."""

from __future__ import annotations

import os

from ...runtime.provenance import NOTHING_LOST
from ..units import scale_value
from . import svg
from .flamegraph import flame_graph
from .stacks import read_comments, read_folded, read_unit


def flame_diff(before: str, after: str) -> str:
    """The SVG file of ``after``, coloured by the change of each frame's share since ``before``; SondeError for a file
    that is not folded."""
    then, now = read_folded(before), read_folded(after)
    units = read_unit(before), read_unit(after)
    weights = [scale_value(sum(folded.values()), unit) for folded, unit in zip((then, now), units)]
    title = f"{os.path.basename(after)}: {weights[1]}, compared with {os.path.basename(before)}: {weights[0]}"
    return flame_graph(now, title, then, 1, units[1], _about_both(("before", before), ("after", after)))


def _about_both(*files: tuple[str, str]) -> svg.About:
    """What the files say of their runs: two lines on which each was, then what was lost (View.comments)."""
    about = svg.About([], [])
    for when, path in files:
        run, lost = (comments := read_comments(path))[:2], comments[2:]
        about.foot += [f"{when}: {line}" for line in run or [f"{path} does not say of which run it is"]]
        about.lost += [f"Incomplete {when}: {line}" for line in lost if line != NOTHING_LOST]
    return about
