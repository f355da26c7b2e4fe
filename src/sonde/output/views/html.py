"""``-f html``: everything that a script collected on one page: maps, histograms, stacks, heat maps and its text."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ...runtime.maps.aggregates import Histogram
from ...runtime.records.events import Event
from ...runtime.records.values import Items, ScriptValue, StackTrace, to_text
from ...spec import EventSite, MapSpec, ScriptSpec
from ..look import MONO, SANS, TABLES, read_asset
from ..text import element_label, sort_items
from ..units import map_symbol, value_heads
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

STYLE = f"""
body {{ font-family: {SANS}; margin: 1.5rem auto; max-width: 1240px; padding: 0 1rem; }}
body {{ background: var(--paper); color: var(--ink); }}
h1 {{ font-size: 1.4rem; }} h2 {{ font-size: 1.1rem; font-family: {MONO}; margin: 2rem 0 .5rem; }}
h3 {{ font-size: 1rem; font-family: {MONO}; margin: 1.2rem 0 .3rem; }}
{TABLES}th {{ cursor: pointer; }}
pre {{ font: 13px {MONO}; max-height: 40rem; overflow: auto; border: 1px solid var(--line); padding: .5rem; }}
input {{ font: inherit; background: var(--paper); color: var(--ink); border: 1px solid var(--line); }}
@media print {{ input {{ display: none; }} pre {{ max-height: none; }} }}
"""


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
        style = STYLE + FLAME_STYLE + HEAT_STYLE
        self.write(svg.html_page(title, style, self._page_body(title), read_asset("tables.js", "flame.js", "heat.js")))

    def _page_body(self, title: str) -> Iterator[str]:
        yield f"<h1>{svg.escape_markup(title)}</h1>\n{svg.run_html(self.run)}"
        for name, folder in sorted(self._folders.items()):
            unit = weight_symbol(self.spec.find_map(name))
            yield f"<h2>{svg.escape_markup(name)}</h2>\n{flame_element(folder.folded, name, folder.heads, unit)}\n"
        for name, collector in sorted(self._heats.items()):
            heats = collector.heats
            yield f"<h2>{svg.escape_markup(collector.title)}</h2>\n{heat_element(heats[:MOST_MAPS], name)}\n"
            if len(heats) > MOST_MAPS:
                yield f'<p class="soft">and {len(heats) - MOST_MAPS} more keys with fewer values</p>\n'
        for name, (spec, totals) in sorted(self._totals.items()):
            yield f"<h2>{svg.escape_markup(name)}</h2>\n"
            yield f'<p class="soft">{svg.escape_markup(spec.about)}</p>\n' if spec.about else ""
            yield from map_elements(spec, sort_items(totals.latest))
        if self._text:
            yield f"<h2>output</h2>\n<pre>{svg.escape_lines(''.join(self._text))}</pre>\n"
            if self._cut:
                yield f'<p class="soft">the last {len(self._text)} lines</p>\n'


def map_elements(spec: MapSpec, items: Items) -> Iterator[str]:
    """A map as HTML: a histogram for each key, or a table."""
    if not items:
        yield '<p class="soft">empty</p>\n'
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
    title = svg.escape_markup(f"{name} ({symbol})" if symbol else name)
    return (f'<h3>{title}</h3><p class="soft">{histogram.total:,} values: '
            f"{percentiles(symbol, list(histogram))}</p><table>{''.join(rows)}</table>\n")


def _table_html(spec: MapSpec, items: Items) -> Iterator[str]:
    keys, values = key_columns(spec), value_columns(spec)
    yield '<input type="search" placeholder="filter" aria-label="filter"/>' if len(items) > 10 else ""
    heads = "".join(f"<th>{svg.escape_markup(name)}</th>" for name in keys + value_heads(spec, values))
    yield f'<table class="map"><thead><tr>{heads}</tr></thead><tbody>\n'
    for key, value in reversed(items[-MOST_ROWS:]):
        for row in value_rows(value, len(values)):
            yield f"<tr>{''.join([_cell_html(cell) for cell in (*key_parts(key), *row)])}</tr>\n"
    yield "</tbody></table>\n"
    if len(items) > MOST_ROWS:
        yield f'<p class="soft">the {MOST_ROWS} greatest of {len(items)}</p>\n'


def _cell_html(value: ScriptValue | float) -> str:
    if type(value) is int:
        return f'<td class="number">{value}</td>'
    text = value.render(0).strip("\n") if isinstance(value, StackTrace) \
        else str(value if isinstance(value, float) else cell_value(value))
    return f"<td>{svg.escape_lines(text)}</td>"
