"""``-f html``: everything that a script collected on one page: maps, histograms, stacks, heat maps and its text."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from ...runtime.maps.aggregates import Histogram
from ...runtime.records.events import Event
from ...runtime.records.values import Items, ScriptValue, StackTrace, to_text
from ...spec import EventSite, MapSpec, ScriptSpec
from ..look import page_style, read_asset
from ..text import element_label, sort_items
from ..units import map_symbol, scale_value, unit_origin, value_headings
from . import svg
from .csv import cell_value, key_columns, value_columns, value_rows
from .flamegraph import STYLE as FLAME_STYLE
from .flamegraph import flame_element
from .heat import MOST_MAPS, HeatCollector, bucket_label, percentiles, shows_heat
from .heat_svg import STYLE as HEAT_STYLE
from .heat_svg import heat_element
from .stacks import Folder, shows_stacks, weight_symbol
from .view import Totals, key_parts
from .view import View as Base

MOST_LINES, MOST_CHARACTERS = 5000, 2 << 20  # of the script's text: the last ones
MOST_ROWS = 2000   # of a map: those with the greatest values

class HtmlView(Base):
    """Collects, and writes the page at the end."""

    needs = "maps or events"
    example = "tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }"
    keeps_text = True

    def prepare(self) -> None:
        self._text: deque[str] = deque()
        self._characters = 0  # of it
        self._cut = False     # is it only the end of what was printed?
        self._folders: dict[str, Folder] = {}
        self._heats: dict[str, HeatCollector] = {}
        self._totals: dict[str, tuple[MapSpec, Totals]] = {}

    @classmethod
    def shows_map(cls, named: MapSpec, spec: ScriptSpec) -> bool:
        return True

    @classmethod
    def shows_event(cls, site: EventSite) -> bool:
        return site.shows

    def add_map(self, named: MapSpec, items: Items, time: int, then: str) -> None:
        if shows_stacks(named):
            self._folders.setdefault(named.name, Folder([named.name], self.target.memory)).add_items(named, items, then)
        elif shows_heat(named, self.spec):
            heat = self._heats.setdefault(named.name, HeatCollector(named.name, self.target.memory, map_symbol(named)))
            heat.add_items(items, self.context.wall_clock(time, "boot"), then)
        else:
            totals = self._totals.setdefault(named.name, (named, Totals(self.target.memory)))[1]
            if then in ("clear", "zero"):  # a table shows the last state of what is no total
                totals.latest = list(items)
            elif then != "final" or items:
                totals.add_items(items, then)

    def on_map_cleared(self, named: MapSpec) -> None:
        if named.name in self._folders:
            self._folders[named.name].on_map_cleared(named)
        if named.name in self._heats:
            self._heats[named.name].on_map_cleared()

    def add_event(self, event: Event, site: EventSite, text: str) -> None:
        line = text if text or site.kind == "printf" else to_text(event.args[0]) + "\n"
        self._text.append(line)
        self._characters += len(line)
        while len(self._text) > MOST_LINES or self._characters > MOST_CHARACTERS and len(self._text) > 1:
            self._characters -= len(self._text.popleft())
            self._cut = True

    def finish(self) -> None:
        title = self.entitle("sonde")
        script = read_asset("scale.js", "tables.js", "flame.js", "heat.js")
        self.write(svg.html_page(title, page_style() + FLAME_STYLE + HEAT_STYLE, self._page_body(title), script))

    def _page_body(self, title: str) -> Iterator[str]:
        yield f"<header><h1>{svg.escape_markup(title)}</h1>\n{svg.run_html(self.run)}</header>\n"
        yield '<main class="cards">\n'
        for name, folder in sorted(self._folders.items()):
            unit = weight_symbol(self.spec.find_map(name))
            graph = flame_element(folder.folded, name, folder.heads, unit)
            yield card(name, [f'<div class="across">{graph}</div>'], True)
        for name, collector in sorted(self._heats.items()):
            heats = collector.heats
            more = f"and {len(heats) - MOST_MAPS} more keys with fewer values" if len(heats) > MOST_MAPS else ""
            yield card(collector.title, [f'<div class="across">{heat_element(heats[:MOST_MAPS], name)}</div>',
                                         _soft(more)], True)
        for name, (spec, totals) in sorted(self._totals.items()):
            yield card(name, [_soft(unit_origin(spec)), _soft(spec.about),
                              *map_elements(spec, sort_items(totals.latest))])
        if self._text:
            yield card("output", [f'<pre tabindex="0">{svg.escape_lines("".join(self._text))}</pre>',
                                  _soft(f"the last {len(self._text)} lines" if self._cut else "")], True)
        yield "</main>"


def card(title: str, body: Iterable[str], wide: bool = False) -> str:
    """A part of the page, as wide as the page or as others are."""
    look = "card wide" if wide else "card"
    return f'<section class="{look}"><h2>{svg.escape_markup(title)}</h2>\n{"".join(body)}\n</section>\n'


def _soft(text: str) -> str:
    """A line beside the matter; nothing if it is empty."""
    return f'<p class="soft">{svg.escape_markup(text)}</p>\n' if text else ""


def map_elements(spec: MapSpec, items: Items) -> Iterator[str]:
    """A map as HTML: a histogram for each key, or a table."""
    if not items:
        yield _soft("empty")
    elif isinstance(items[0][1], Histogram):
        for key, value in items[-MOST_ROWS:]:
            if isinstance(value, Histogram):
                yield _histogram_html(element_label(spec.name, key), value, map_symbol(spec))
    else:
        yield from _table_html(spec, items)


def _histogram_html(name: str, histogram: Histogram, symbol: str) -> str:
    most = max([bucket.count for bucket in histogram], default=1) or 1
    rows, until, total = [], 0, histogram.total or 1
    for bucket in histogram:
        until += bucket.count
        tip = f"{bucket.count:,} of {histogram.total:,} ({bucket.count / total:.2%}); {until / total:.2%} up to here"
        rows.append(f'<tr title="{tip}"><td class="number">{svg.escape_markup(bucket_label(bucket, symbol))}</td>'
                    f'<td class="number">{bucket.count:,}</td><td class="bar">'
                    f'<i style="width:{100 * bucket.count / most:.1f}%"></i></td></tr>\n')
    summary = f"{histogram.total:,} values: {percentiles(symbol, list(histogram))}"
    return (f'<h3>{svg.escape_markup(name)}</h3>{_soft(summary)}'
            f'<div class="across"><table>{"".join(rows)}</table></div>\n')


def _table_html(spec: MapSpec, items: Items) -> Iterator[str]:
    keys, values = key_columns(spec), value_columns(spec)
    headings = value_headings(spec, values)
    yield '<input type="search" placeholder="filter" aria-label="filter"/>' if len(items) > 10 else ""
    heads = "".join([f"<th>{svg.escape_markup(name)}</th>" for name in (*keys, *[each.text for each in headings])])
    yield ('<div class="scroll" tabindex="0"><table class="map"><thead><tr>'
           f"{heads}</tr></thead><tbody>\n")
    symbols = ["" for _ in keys] + [heading.symbol for heading in headings]
    for key, value in reversed(items[-MOST_ROWS:]):
        for row in value_rows(value, len(values)):
            cells = [_cell_html(cell, symbol) for cell, symbol in zip((*key_parts(key), *row), symbols, strict=True)]
            yield f"<tr>{''.join(cells)}</tr>\n"
    yield "</tbody></table></div>\n"
    if len(items) > MOST_ROWS:
        yield _soft(f"the {MOST_ROWS} greatest of {len(items)}")


def _cell_html(value: ScriptValue | float, symbol: str) -> str:
    """A cell; of a number in a unit the scaled one, and the exact one under the mouse."""
    if symbol and isinstance(value, (int, float)):
        return f'<td class="number" data-value="{value}" title="{value:,} {symbol}">{scale_value(value, symbol)}</td>'
    if type(value) is int:
        return f'<td class="number">{value}</td>'
    text = value.render(0).strip("\n") if isinstance(value, StackTrace) \
        else str(value if isinstance(value, float) else cell_value(value))
    return f"<td>{svg.escape_lines(text)}</td>"
