"""``-f heatmap``: histograms over time, on a terminal by colour or shading, in a file as SVG or HTML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...spec import MapSpec, ScriptSpec
from ..text import terminal_safe
from . import svg
from .heat import MOST_MAPS, Collector, Heat, clock, level, shows_heat, span, squeezed
from .heat_svg import SCRIPT, STYLE, heat_document, heat_element
from .view import Items
from .view import View as Base

_SHADES = " ░▒▓█"
_RAMP = ((32, 18, 64), (110, 28, 104), (190, 48, 78), (238, 112, 44), (252, 186, 60), (252, 248, 164))  # dark to light
_STEPS = 24
_WIDEST = 4  # characters of a column


class View(Base):
    """A heat map for each map of histograms that is printed at intervals, and for each of its keys."""

    needs = "histograms that are printed at intervals"
    example = "tracepoint:syscalls:sys_exit_read { @ = hist(args.ret); } interval:s:1 { print(@); clear(@); }"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._collectors: dict[str, Collector] = {}

    @classmethod
    def shows_map(cls, named: MapSpec, spec: ScriptSpec) -> bool:
        return shows_heat(named, spec)

    def map(self, named: MapSpec, items: Items, time: int, then: str) -> None:
        self._collector(named).add(items, self.context.wall_clock(time, "boot"), then)

    def cleared(self, named: MapSpec) -> None:
        self._collector(named).cleared()

    def _collector(self, named: MapSpec) -> Collector:
        return self._collectors.setdefault(named.name, Collector(named.name))

    def finish(self) -> None:
        found = [collector.heats for _, collector in sorted(self._collectors.items())]
        heats = [heat for each in found for heat in each[:MOST_MAPS]]
        title = self.target.title or "Heat map"
        if self.target.suffix == ".svg":
            self.write(heat_document(heats, title))
        elif self.target.suffix in (".html", ".htm"):
            body = [f"<h1>{svg.escape(title)}</h1>", *[heat_element([heat], title) for heat in heats]]
            self.write(svg.page(title, STYLE + "body { font-family: sans-serif; margin: 1em; background: var(--paper); "
                                "color: var(--ink); }", body, SCRIPT))
        else:
            for heat in heats:
                self.write("".join(terminal_lines(heat, self.target.columns, self.target.colours)))
        left_out = sum(len(each[MOST_MAPS:]) for each in found)
        if left_out and self.target.suffix not in (".svg", ".html", ".htm"):
            self.write(f"... and {left_out} more keys with fewer values\n")


def terminal_lines(heat: Heat, width: int, colours: int) -> Iterator[str]:
    """A heat map in characters: time from left to right, values upwards."""
    labels = [span(row) for row in heat.rows]
    gutter = max(map(len, labels)) + 1
    room = max(8, width - gutter - 2)
    heat = squeezed(heat, room)
    wide = max(1, min(_WIDEST, room // max(1, len(heat.columns))))
    most = heat.most
    yield f"{terminal_safe(heat.name)}:\n"
    for row in reversed(range(len(heat.rows))):
        cells = [_cell(column.counts[row], most, wide, colours) for column in heat.columns]
        yield f"{labels[row]:<{gutter}}|{''.join(cells)}{_PLAIN if colours else ''}|\n"
    first, last = clock(heat.columns[0].time), clock(heat.columns[-1].time)
    breadth = wide * len(heat.columns)
    axis = f"{first}{last:>{breadth - len(first)}}" if breadth > len(first) + len(last) else last
    yield f"{'':<{gutter}} {axis}\n{'':<{gutter}} {_legend(most, colours)}\n\n"


_PLAIN = "\x1b[0m"


def _cell(count: int, most: int, wide: int, colours: int) -> str:
    if not colours:
        return _SHADES[level(count, most, len(_SHADES) - 1)] * wide
    step = level(count, most, _STEPS)
    if not step:
        return f"{_PLAIN}{' ' * wide}"
    return f"\x1b[48;{_colour(ramp((step - 1) / (_STEPS - 1)), colours)}m{' ' * wide}"


def ramp(share: float) -> tuple[int, int, int]:
    """The colour (red, green, blue) of a share between 0 and 1."""
    at = share * (len(_RAMP) - 1)
    index = min(int(at), len(_RAMP) - 2)
    low, high, part = _RAMP[index], _RAMP[index + 1], at - index
    red, green, blue = [round(a + (b - a) * part) for a, b in zip(low, high)]
    return red, green, blue


def _colour(rgb: tuple[int, int, int], colours: int) -> str:
    """SGR parameters: the colour itself, or the nearest of the terminal's cube of 6 x 6 x 6."""
    if colours > 256:
        return "2;{};{};{}".format(*rgb)
    red, green, blue = [round(part / 51) for part in rgb]
    return f"5;{16 + 36 * red + 6 * green + blue}"


def _legend(most: int, colours: int) -> str:
    if not colours:
        return f"0 {_SHADES[1:]} {most}"
    cells = [_cell(max(1, round(most * (i / 12) ** 2)), most, 1, colours) for i in range(1, 13)]
    return f"1 {''.join(cells)}{_PLAIN} {most}"
