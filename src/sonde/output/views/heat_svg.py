"""Heat maps as SVG: cells with tooltips, and beside them the histogram of all columns or of a clicked one."""

from __future__ import annotations

from collections.abc import Sequence

from ..look import HEAT_DARK, HEAT_LIGHT, read_asset
from . import svg
from .heat import Heat, local_time, squeeze_columns

WIDTH, LEFT, RIGHT, PANEL = 1200, 130, 16, 190
TOP, ROW, FOOT, GAP = 34, 17, 34, 22
LEVELS = 10
MOST_COLUMNS = 600
_LABEL = 18  # characters that fit beside the rows


def _palette_css(colours: Sequence[str]) -> str:
    return "\n".join(f".heat{i} {{ fill: {colour}; }}" for i, colour in enumerate(colours, 1))


STYLE = f"""
{_palette_css(HEAT_LIGHT)}
@media (prefers-color-scheme: dark) {{ {_palette_css(HEAT_DARK)} }}
@media print {{ {_palette_css(HEAT_LIGHT)} }}
.column {{ cursor: pointer; }}
.column .all {{ fill: var(--ink); opacity: 0; }}
.column:hover .all, .column.chosen .all {{ opacity: .12; }}
.edge {{ fill: none; stroke: var(--line); }}
.bar {{ fill: var(--bar); }}
"""


def heat_document(heats: Sequence[Heat], title: str, about: svg.About | None = None) -> str:
    """A whole SVG file with all heat maps, one above the other."""
    body, height = _draw_heats(heats)
    return svg.svg_document(WIDTH, height, STYLE, read_asset("heat.js"), body, title, about)


def heat_element(heats: Sequence[Heat], title: str) -> str:
    """The same as an element for a page, which has style and script once."""
    body, height = _draw_heats(heats)
    return svg.svg_element(WIDTH, height, "", body, title)


def _draw_heats(heats: Sequence[Heat]) -> tuple[list[str], int]:
    body, y = [], 0
    for heat in heats:
        body.append(_draw_heat(squeeze_columns(heat, MOST_COLUMNS), y))
        y += TOP + ROW * len(heat.rows) + FOOT + GAP
    if not heats:
        body.append(f'<text class="soft" x="{WIDTH // 2}" y="40" text-anchor="middle" font-size="13">'
                    "no values were collected</text>")
    return body, max(y, 80)


def _draw_heat(heat: Heat, y: int) -> str:
    width = WIDTH - LEFT - RIGHT - PANEL - 20
    step = min(width / len(heat.columns), 40.0)
    height = ROW * len(heat.rows)
    columns = [_draw_column(heat, i, step) for i in range(len(heat.columns))]
    labels = [f'<text x="{LEFT - 6}" y="{_row_y(heat, row) + 12}" text-anchor="end" font-size="11">'
              f"{svg.escape_markup(cut_label(each))}</text>\n" for row, each in enumerate(heat.row_labels)]
    right = LEFT + step * len(heat.columns)
    return (f'<g class="heat" transform="translate(0,{y})" data-panel="{PANEL}">\n'
            f'<text x="{LEFT}" y="22" font-size="15">{svg.escape_markup(heat.title)}</text>\n'
            f'{"".join(labels)}{"".join(columns)}<rect class="edge" x="{LEFT}" y="{TOP}" '
            f'width="{svg.format_coordinate(step * len(heat.columns))}" height="{height}"/>\n'
            f'<text class="soft" x="{LEFT}" y="{TOP + height + 16}" font-size="11">'
            f'{local_time(heat.columns[0].time)}</text>'
            f'<text class="soft" x="{svg.format_coordinate(max(right, LEFT + 130))}" y="{TOP + height + 16}" '
            f'text-anchor="end" font-size="11">{local_time(heat.columns[-1].time)}</text>\n'
            f"{_draw_legend(heat, TOP + height + 31)}{_draw_panel(heat, right)}</g>\n")


def _row_y(heat: Heat, row: int) -> int:
    """Least values are at the bottom."""
    return TOP + ROW * (len(heat.rows) - 1 - row)


def cut_label(text: str) -> str:
    """As much of a label as fits beside the rows."""
    return text if len(text) <= _LABEL else text[:_LABEL - 1] + "…"


def _draw_column(heat: Heat, index: int, step: float) -> str:
    column, labels = heat.columns[index], heat.row_spans
    x, when = svg.format_coordinate(LEFT + index * step), local_time(column.time)
    width = svg.format_coordinate(step)
    all = sum(count or 0 for count in column.counts)
    shares = ["" if heat.series or not count else f" of {all:,} ({count / all:.2%})" for count in column.counts]
    depths = [heat.colour_depth(count, LEVELS) for count in column.counts]
    cells = [f'<rect class="heat{depths[row]}" x="{x}" y="{_row_y(heat, row)}" width="{width}" '
             f'height="{ROW}" data-count="{count}"><title>{when} {svg.escape_markup(labels[row])}'
             f": {heat.say_cell(count)}{shares[row]}</title></rect>"
             for row, count in enumerate(column.counts) if depths[row]]
    counts = " ".join(["-" if count is None else str(count) for count in column.counts])
    texts = svg.escape_markup("|".join(map(heat.say_cell, column.counts)))
    return (f'<g class="column" data-said="{texts}" data-time="{when}" data-counts="{counts}" '
            f'data-percentiles="{heat.percentiles(column.counts)}">'
            f'<rect class="all" x="{x}" y="{TOP}" width="{width}" height="{ROW * len(heat.rows)}"/>{"".join(cells)}'
            "</g>\n")


def _draw_legend(heat: Heat, y: int) -> str:
    x = LEFT + 30  # on a line of its own, below the times
    cells = [f'<rect class="heat{i}" x="{x + 14 * i}" y="{y - 9}" width="14" height="10"/>'
             for i in range(1, LEVELS + 1)]
    low, most = heat.scale_ends
    return (f'<text class="soft" x="{x + 8}" y="{y}" text-anchor="end" font-size="11">{low}</text>{"".join(cells)}'
            f'<text class="soft" x="{x + 14 * LEVELS + 20}" y="{y}" font-size="11">{most}</text>\n')


def _draw_panel(heat: Heat, right: float) -> str:
    """The histogram, beside the cells, which end at ``right``."""
    totals, labels = heat.row_totals, [svg.escape_markup(label) for label in heat.row_spans]
    most = max([*totals, 1])
    x = min(WIDTH - RIGHT - PANEL, round(max(right, LEFT + 300)) + 60)
    bars = [
        f'<rect class="bar" x="{x}" y="{_row_y(heat, row) + 2}" '
        f'width="{svg.format_coordinate(max(0, count) / most * PANEL)}" '
        f'height="{ROW - 4}" data-count="{count}" data-span="{labels[row]}">'
        f"<title>{labels[row]}: {heat.say_cell(count)}</title></rect>\n" for row, count in enumerate(totals)]
    caption = "greatest of each" if heat.series else f"all columns: {sum(totals):,} values"
    return (f'<text class="soft caption" x="{x}" y="22" font-size="12">{caption}</text>\n'
            f'<text class="soft percentiles" x="{x + PANEL}" y="{TOP + ROW * len(heat.rows) + 30}" font-size="11" '
            f'text-anchor="end">'
            f'{heat.percentiles(totals)}</text>\n{"".join(bars)}')
