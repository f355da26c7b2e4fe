"""``-f heatmap``: histograms over time, on a terminal by colour or shading, in a file as SVG or HTML."""

from __future__ import annotations

from collections.abc import Iterator

from ...spec import MapSpec, ScriptSpec
from ..look import page_style, read_asset
from ..text import terminal_safe
from ..units import map_symbol
from . import svg
from .heat import (
    MOST_MAPS,
    Heat,
    HeatCollector,
    colour_level,
    is_histogram,
    is_series,
    latest_columns,
    local_time,
    series_heat,
    squeeze_columns,
)
from .heat_svg import STYLE, heat_document, heat_element
from .html import card
from .view import View as Base
from .view import is_printed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...runtime.records.values import Item, Items

_SHADES = " ░▒▓█"
_RAMP = ((32, 18, 64), (110, 28, 104), (190, 48, 78), (238, 112, 44), (252, 186, 60), (252, 248, 164))  # dark to light
_STEPS = 24
_WIDEST = 4  # characters of a column
_LABEL = 32  # characters of a row's name


class HeatmapView(Base):
    """A heat map for each map of histograms, and for each of its keys: a column for each printing, or where the script
    does not print the map, for each look at it. One for each map of tseries()."""

    needs = "histograms or time series (hist, lhist, tseries)"
    example = "tracepoint:syscalls:sys_exit_read { @ = hist(args.ret); }"

    def prepare(self) -> None:
        self._collectors: dict[str, HeatCollector] = {}
        self._series: dict[str, list[Item]] = {}  # the last that was seen

    @classmethod
    def shows_map(cls, named: MapSpec, spec: ScriptSpec) -> bool:
        return is_histogram(named) or is_series(named)

    def wants_samples(self, named: MapSpec) -> bool:
        return not is_printed(named, self.spec)

    def add_map(self, named: MapSpec, items: Items, time: int, then: str) -> None:
        if not is_series(named):
            self._collector_of(named).add_items(items, self.context.wall_clock(time, "boot"), then)
        elif items or then != "final":
            self._series[named.name] = list(items)

    def on_map_cleared(self, named: MapSpec) -> None:
        if not is_series(named):
            self._collector_of(named).on_map_cleared()

    def _collector_of(self, named: MapSpec) -> HeatCollector:
        return self._collectors.setdefault(named.name, HeatCollector(named.name, self.target.memory, map_symbol(named)))

    def _collected_heats(self) -> list[list[Heat]]:
        """The heat maps, by map."""
        heats = [collector.heats for _, collector in sorted(self._collectors.items())]
        series = [series_heat(name, items) for name, items in sorted(self._series.items())]
        return heats + [[heat] for heat in series if heat is not None]

    @property
    def is_empty(self) -> bool:
        return not any(self._collected_heats())

    def render_picture(self, columns: int, rows: int) -> list[str]:
        picture: list[str] = []
        for heat in [heat for heats in self._collected_heats() for heat in heats[:MOST_MAPS]]:
            lines = "".join(terminal_lines(heat, columns, self.target.colours, True)).splitlines()
            if picture and len(picture) + len(lines) > rows:
                break
            picture += lines
        return picture or ["", "nothing has been collected yet"]

    def finish(self) -> None:
        by_map = self._collected_heats()
        heats = [heat for each in by_map for heat in each[:MOST_MAPS]]
        title = self.entitle("Heat map")
        if self.target.suffix == ".svg":
            self.write(heat_document(heats, title, svg.about_run(self.run)))
        elif self.target.suffix in (".html", ".htm"):
            body = [f"<header><h1>{svg.escape_markup(title)}</h1>\n{svg.run_html(self.run)}</header>\n",
                    '<main class="cards">',
                    *[card(heat.title, [f'<div class="across">{heat_element([heat], title)}</div>'], True)
                      for heat in heats], "</main>"]
            self.write(svg.html_page(title, page_style() + STYLE, body, read_asset("heat.js")))
        else:
            for heat in heats:
                self.write("".join(terminal_lines(heat, self.target.columns, self.target.colours)))
            self.write(self.run_comment())
        left_out = sum(len(each[MOST_MAPS:]) for each in by_map)
        if left_out and self.target.suffix not in (".svg", ".html", ".htm"):
            self.write(f"... and {left_out} more keys with fewer values\n")


def terminal_lines(heat: Heat, width: int, colours: int, moving: bool = False) -> Iterator[str]:
    """A heat map in characters: time from left to right, values upwards. ``moving``: the last columns that fit, instead
    of all of them, added up to as many as fit."""
    labels = [_cut_label(text) for text in heat.row_labels]
    gutter = max(map(len, labels)) + 1
    room = max(8, width - gutter - 2)
    heat = latest_columns(heat, room // 2) if moving else squeeze_columns(heat, room)
    wide = 2 if moving else max(1, min(_WIDEST, room // max(1, len(heat.columns))))
    yield f"{terminal_safe(heat.name)}:\n"
    for row in reversed(range(len(heat.rows))):
        cells = [_draw_cell(heat.colour_depth(column.counts[row], _STEPS if colours else len(_SHADES) - 1), wide,
                            colours)
                 for column in heat.columns]
        yield f"{labels[row]:<{gutter}}|{''.join(cells)}{_PLAIN if colours else ''}|\n"
    first, last = local_time(heat.columns[0].time), local_time(heat.columns[-1].time)
    breadth = wide * len(heat.columns)
    axis = f"{first}{last:>{breadth - len(first)}}" if breadth > len(first) + len(last) else last
    yield f"{'':<{gutter}} {axis}\n{'':<{gutter}} {_draw_legend(heat, colours)}\n\n"


def _cut_label(text: str) -> str:
    text = terminal_safe(text)
    return text if len(text) <= _LABEL else text[:_LABEL - 1] + "…"


_PLAIN = "\x1b[0m"


def _draw_cell(step: int, wide: int, colours: int) -> str:
    if not colours:
        return _SHADES[step] * wide
    if not step:
        return f"{_PLAIN}{' ' * wide}"
    return f"\x1b[48;{_sgr_colour(ramp_colour((step - 1) / (_STEPS - 1)), colours)}m{' ' * wide}"


def ramp_colour(share: float) -> tuple[int, int, int]:
    """The colour (red, green, blue) of a share between 0 and 1."""
    at = share * (len(_RAMP) - 1)
    index = min(int(at), len(_RAMP) - 2)
    low, high, part = _RAMP[index], _RAMP[index + 1], at - index
    red, green, blue = [round(a + (b - a) * part) for a, b in zip(low, high)]
    return red, green, blue


def _sgr_colour(rgb: tuple[int, int, int], colours: int) -> str:
    """SGR parameters: the colour itself, or the nearest of the terminal's cube of 6 x 6 x 6."""
    if colours > 256:
        return "2;{};{};{}".format(*rgb)
    red, green, blue = [round(part / 51) for part in rgb]
    return f"5;{16 + 36 * red + 6 * green + blue}"


def _draw_legend(heat: Heat, colours: int) -> str:
    low, most = heat.scale_ends
    if not colours:
        return f"{low} {_SHADES[1:]} {most}"
    cells = [_draw_cell(colour_level(max(1, round(100 * (i / 12) ** 2)), 100, _STEPS), 1, colours)
             for i in range(1, 13)]
    return f"{low} {''.join(cells)}{_PLAIN} {most}"
