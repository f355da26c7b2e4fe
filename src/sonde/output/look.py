"""One look for all drawings and pages: fonts, colours as CSS variables for light, dark and paper, and scripts."""

from __future__ import annotations

import os

from ..base.package_files import FOLDER, read_shipped

MONO = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
SANS = "system-ui, sans-serif"

# name -> on a light screen, on a dark one, printed
COLOURS = {
    "paper": ("#ffffff", "#14171c", "#ffffff"),
    "ink": ("#1b1f24", "#e8ebf0", "#000000"),
    "soft": ("#6b7480", "#98a2b0", "#444444"),   # what is said beside the matter
    "line": ("#d5dae0", "#353c47", "#bbbbbb"),
    "mark": ("#eef2f7", "#1f252e", "#eeeeee"),   # a chosen row, a button
    "bar": ("#4c8dc9", "#5f9fdb", "#4c8dc9"),
    "found": ("#e6189b", "#ff5cc0", "#e6189b"),  # by a search
    "lost": ("#c5221f", "#ff8077", "#c5221f"),
}


def colours(selector: str) -> str:
    """The rules that give the elements of ``selector`` the colours, by the desktop's mode and on paper."""
    light, dark, paper = [" ".join([f"--{name}: {shades[way]};" for name, shades in COLOURS.items()])
                          for way in range(3)]
    return (f"{selector} {{ {light} }}\n@media (prefers-color-scheme: dark) {{ {selector} {{ {dark} }} }}\n"
            f"@media print {{ {selector} {{ {paper} }} .control {{ display: none; }} }}\n")


WORDS = ".lost { fill: var(--lost); color: var(--lost); font-weight: 600; }\n.soft { color: var(--soft); }\n"
TABLES = f"""table {{ border-collapse: collapse; font: 13px {MONO}; }}
th, td {{ text-align: left; padding: .15rem .8rem .15rem 0; border-bottom: 1px solid var(--line); }}
th, td {{ white-space: pre-wrap; vertical-align: top; overflow-wrap: anywhere; }}
td.number {{ text-align: right; font-variant-numeric: tabular-nums; }}
td.bar {{ width: 24rem; }}
td.bar i {{ display: block; background: var(--bar); height: .8em; }}
p.soft {{ font-size: 13px; }}
"""


def within(selector: str, rules: str) -> str:
    """Rules, one to a line, for what is within the elements of ``selector``."""
    return "".join([", ".join([f"{selector} {each}" for each in head.split(", ")]) + f" {{{body}\n"
                    for head, _, body in [line.partition(" {") for line in rules.splitlines()]])


def read_asset(*names: str) -> str:
    """Files of ``assets``, one after the other. They are fixed text: nothing of a traced program is put into them."""
    return "".join([read_shipped(os.path.join(FOLDER, "output", "assets", name)).decode() for name in names])
