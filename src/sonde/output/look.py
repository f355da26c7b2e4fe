"""One look for all drawings and pages: fonts, colours as CSS variables for light, dark and paper, and scripts."""

from __future__ import annotations

import os

from ..base.package_files import FOLDER, read_shipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MONO = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
SANS = "system-ui, sans-serif"

# name -> on a light screen, on a dark one, printed
COLOURS = {
    "paper": ("#ffffff", "#14171c", "#ffffff"),
    "ink": ("#1b1f24", "#e8ebf0", "#000000"),
    "soft": ("#5b6470", "#a3adba", "#444444"),   # what is said beside the matter
    "line": ("#d5dae0", "#353c47", "#bbbbbb"),
    "mark": ("#eef2f7", "#1f252e", "#eeeeee"),   # a chosen row, a button
    "bar": ("#4c8dc9", "#5f9fdb", "#4c8dc9"),
    "found": ("#e6189b", "#ff5cc0", "#e6189b"),  # by a search
    "lost": ("#c5221f", "#ff8077", "#c5221f"),
}
# The same of pages; c1 to c8 are those of lines over time.
PAGE_COLOURS = {
    "ground": ("#f3f5f8", "#0d1014", "#ffffff"),  # behind the cards, which are paper
    "edge": ("#868f9b", "#6b7684", "#777777"),    # around what can be operated
    "focus": ("#1a6fc4", "#7db8f2", "#000000"),
    "live": ("#1a7f37", "#57c26d", "#000000"),
    "held": ("#8a5a00", "#e3b341", "#000000"),
    "c1": ("#2270b8", "#6cb2f0", "#2270b8"), "c2": ("#b8500c", "#f0985a", "#b8500c"),
    "c3": ("#1b7f3b", "#5ec27a", "#1b7f3b"), "c4": ("#9a2fae", "#d48be4", "#9a2fae"),
    "c5": ("#0b7583", "#4fc1cf", "#0b7583"), "c6": ("#b3273f", "#f27f92", "#b3273f"),
    "c7": ("#5b4fc4", "#a79df5", "#5b4fc4"), "c8": ("#7a6a00", "#d3c04e", "#7a6a00"),
}
# Of heat maps, from the least to the most: on a light screen, on a dark one.
HEAT_LIGHT = ("#fff3c7", "#fee39b", "#fdcd72", "#fbb254", "#f79244", "#ee7239", "#dd5236", "#c23539", "#9d1f40",
              "#701040")
HEAT_DARK = ("#241640", "#3a1a5c", "#561f6c", "#742871", "#95346c", "#b7445f", "#d55b4c", "#ec7a3c", "#f8a444",
             "#fce07c")


def colours(selector: str, table: Mapping[str, Sequence[str]] = COLOURS) -> str:
    """The rules that give the elements of ``selector`` the colours, by the desktop's mode and on paper."""
    light, dark, paper = [" ".join([f"--{name}: {shades[way]};" for name, shades in table.items()])
                          for way in range(3)]
    return (f"{selector} {{ {light} }}\n@media (prefers-color-scheme: dark) {{ {selector} {{ {dark} }} }}\n"
            f"@media print {{ {selector} {{ {paper} }} .control {{ display: none; }} }}\n")


WORDS = ".lost { fill: var(--lost); color: var(--lost); font-weight: 600; }\n.soft { color: var(--soft); }\n"


def page_style() -> str:
    """The rules of a page: colours, type, cards, tables."""
    heat = {"heat": (" ".join(HEAT_LIGHT), " ".join(HEAT_DARK), " ".join(HEAT_LIGHT))}
    fonts = f":root {{ --mono: {MONO}; --sans: {SANS}; color-scheme: light dark; }}\n"
    return colours(":root", {**COLOURS, **PAGE_COLOURS, **heat}) + fonts + WORDS + read_asset("page.css")


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
