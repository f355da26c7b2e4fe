"""What a live view shows, in a terminal or a browser: tables of maps, the text, losses, costs.

A :class:`Model` belongs to the thread that runs the session; the :class:`Snapshot` that it makes is plain data, which
other threads may read because it is never changed again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING

from ...base.record import Record
from ...kinds import SITE_KINDS
from ...runtime.costs.statistics import probe_costs
from ...runtime.maps.aggregates import Histogram, Stats
from ...runtime.maps.series import Series
from ...runtime.records.values import DecodingContext, Item, Items, ScriptValue
from ...spec import EventSite, MapSpec, ScriptSpec
from ...types import Aggregate
from .. import Handler, Printer, Take
from ..losses import report_losses
from ..outside import Outside
from ..table_rows import RowCell, Rows, has_tables
from ..text import TextOutput, element_label, encode_text, sort_items, terminal_safe
from ..units import Heading, column_heading, map_symbol, scale_value, unit_origin, value_headings
from ..views.csv import CellValue, cell_value, key_columns, utf8, value_columns, value_rows
from ..views.heat import bucket_label
from ..views.view import key_parts
from .blocks import Tail, TextCollector
from .moments import Moment, Moments
from .screen import COLOUR

if TYPE_CHECKING:
    from ...runtime.session import Session

MOST_ROWS = 500   # of a table: those with the greatest values
MOST_BUCKETS = 119  # of a row: the last ones
MOST_LINES = 2000  # of the text that is kept
HISTORY = 60      # values of a sparkline
MOST_FOLLOWED = 20_000  # keys of a map; more than that come and go too fast to be followed
MOST_HISTORIES = 5_000   # sparklines of all maps together
LONGEST_LINE = 4096      # characters; what is printed without a line end is cut
_QUANTILES = (0.5, 0.9, 0.99)


class LiveRow(Record):
    """A row: ``cells`` are numbers and texts, ``spark`` the last values over time (None where there was none),
    ``buckets`` (range, count) of a histogram and (time, value) of a series, else empty."""

    id: str
    cells: tuple[CellValue, ...]
    spark: tuple[int | float | None, ...] = ()
    buckets: tuple[tuple[str, int | None], ...] = ()


class LiveTable(Record):
    """A map, or what a tool prints. ``rows`` are the first ``len(rows)`` of ``total``, greatest value first.

    ``symbols`` are the units in which the cells of each column are scaled, ``symbol`` that of the map. ``moments`` are
    the looks at the map since the snapshot before, of values in the unit ``drawn``; ``about`` is what the script says
    of it.
    """

    name: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[LiveRow, ...]
    total: int
    symbols: tuple[str, ...] = ()
    symbol: str = ""
    drawn: str = ""
    about: str = ""
    moments: tuple[Moment, ...] = ()

    def cell_text(self, column: int, value: CellValue) -> str:
        """A cell as it is shown."""
        symbol = self.symbols[column] if column < len(self.symbols) else ""
        return scale_value(value, symbol) if symbol and isinstance(value, (int, float)) else str(value)


class LiveCost(Record):
    """What a program did since the last look: ``share`` of one CPU, 0 .. 1; runs and skipped since the start."""

    name: str
    runs: int
    ns_per_run: float
    share: float
    skipped: int


class Snapshot(Record):
    """All that is shown at one moment. ``lines`` are the last of the text; ``written`` counts all that there were."""

    title: str
    elapsed: float
    tables: tuple[LiveTable, ...]
    lines: tuple[str, ...]
    written: int
    losses: tuple[str, ...]
    costs: tuple[LiveCost, ...]
    ended: str = ""
    state: str = ""  # of a fleet: who is in it, in a line; its programs' costs are the hosts' matter

    @property
    def share(self) -> float:
        """Of one CPU, all programs together."""
        return sum(cost.share for cost in self.costs)


class _MapState:
    """A map between two looks."""

    def __init__(self, spec: MapSpec, most: int, clock: Callable[[], float]) -> None:
        self.spec = spec
        self._clock = clock
        self.most = most  # histories
        self.kind = spec.value.kind if isinstance(spec.value, Aggregate) else ""
        self.grows = isinstance(spec.value, Aggregate) and spec.value.row.total
        self.by_interval = False  # the script prints or clears it, so its contents come in portions
        self.items: list[Item] = []
        self.histories: dict[ScriptValue, deque[int | float | None]] = {}  # by key, as all of these
        self.before: dict[ScriptValue, int | float | None] = {}
        self.rates: dict[ScriptValue, float] = {}
        self.seen = 0.0
        self.symbol = map_symbol(spec)
        self.moments = Moments()

    def update_items(self, items: Items, portion: bool, elapsed: float = 0.0) -> None:
        """The contents now, seconds after the start; a ``portion`` is what came since the one before it."""
        now = self._clock()
        passed, self.seen = now - self.seen if self.seen else 0.0, now
        if portion and not self.by_interval:
            self.by_interval, self.before = True, {}
        self.items = list(items)
        self.rates = {}
        if len(self.items) > MOST_FOLLOWED:
            self.histories, self.before, self.seen = {}, {}, 0.0
            self.moments.forget()
            return
        weights = {key: value_weight(value) for key, value in self.items}
        if self.grows and not self.by_interval:
            self._remember_history(self._gains_since(weights, passed), passed)
            self.moments.add_look(elapsed, self.items, weights, self.rates, self.before if passed else None)
            self.before = weights
        elif self.kind == "tseries":
            self.moments.add_intervals(elapsed, time.time_ns(), self.items)
        else:
            self._remember_history(weights, 0.0)
            self.moments.add_look(elapsed, self.items, weights, weights, {})

    def _gains_since(self, weights: dict[ScriptValue, int | float | None], passed: float
                     ) -> dict[ScriptValue, int | float | None]:
        """What each key has gained since the last look; a value that became less has started again from 0."""
        gains: dict[ScriptValue, int | float | None] = {}
        for key, value in weights.items():
            before = self.before.get(key)
            if before is None:
                before = 0 if passed else value
            gains[key] = None if value is None or before is None else value - before if value >= before else value
        return gains

    def _remember_history(self, values: dict[ScriptValue, int | float | None], passed: float) -> None:
        """Append ``values`` to the history; they are gains if a time has ``passed``."""
        if len(self.histories.keys() | values.keys()) > self.most:  # those that are gone make room
            self.histories = {key: history for key, history in self.histories.items() if key in values}
        for key in self.histories.keys() - values.keys():
            if any(self.histories[key]):
                self.histories[key].append(None)
            else:
                del self.histories[key]
        for key in sorted(values, key=lambda key: -(values[key] or 0)):
            if key in self.histories or len(self.histories) < self.most:
                self.histories.setdefault(key, deque(maxlen=HISTORY)).append(values[key])
            if passed:
                self.rates[key] = (values[key] or 0) / passed

    def build_table(self) -> LiveTable:
        shown = sort_items(self.items)[-MOST_ROWS:]
        rates = self.grows and not self.by_interval
        rate = (Heading("per s", self._drawn_symbol() if self.kind == "sum" and self.symbol else ""),) if rates else ()
        heads = (*[Heading(name) for name in key_columns(self.spec)], *_value_headings(self.spec, self.kind), *rate)
        rows = [self._build_row(key, value, rates) for key, value in reversed(shown)]
        note = "of the last interval" if self.by_interval else "since the start" if rates else "now"
        unit = unit_origin(self.spec)
        return LiveTable(self.spec.name, f"{note}, {unit}" if unit else note, tuple([head.text for head in heads]),
                         tuple(rows), len(self.items), tuple([head.symbol for head in heads]), self.symbol,
                         self._drawn_symbol(), self.spec.about, self.moments.take())

    def _drawn_symbol(self) -> str:
        """The unit of what is drawn over time: gains per second, or values; of histograms and stats how many came."""
        counts = isinstance(self.spec.value, Aggregate) and (self.spec.value.row.buckets or self.kind == "stats")
        return ("" if counts else self.symbol) + ("/s" if self.grows and not self.by_interval else "")

    def _build_row(self, key: ScriptValue, value: ScriptValue, rates: bool) -> LiveRow:
        name = terminal_safe(utf8(element_label("", key)))
        cells = [clean_cell(part) for part in key_parts(key)] + _value_cells(value, self.spec, self.kind)
        if rates:
            cells.append(round(self.rates.get(key, 0.0), 1))
        spark = tuple(self.histories.get(key, ()))
        if isinstance(value, Histogram):
            buckets = list(value)
            shown = [(bucket_label(b, self.symbol), b.count) for b in buckets[-MOST_BUCKETS:]]
            return LiveRow(name, tuple(cells), spark, _after_others(shown, len(buckets)))
        if isinstance(value, Series):
            points = value.points
            last = [(value.format_time(p.start), p.value) for p in points[-MOST_BUCKETS:]]
            return LiveRow(name, tuple(cells), tuple([p.value for p in points][-HISTORY:]),
                           _after_others(last, len(points)))
        return LiveRow(name, tuple(cells), spark)


def _after_others(shown: Sequence[tuple[str, int | None]], total: int) -> tuple[tuple[str, int | None], ...]:
    """The last of so many buckets; those before them are counted in the first line."""
    return (*([(f"... {total - len(shown)} before", None)] if total > len(shown) else []), *shown)


def value_weight(value: ScriptValue) -> int | float | None:
    """The number by which a value's changes are followed; None if it is none."""
    if isinstance(value, Histogram):
        return value.total
    if isinstance(value, Stats):
        return value.count
    if isinstance(value, Series):
        return None
    return value if type(value) is int or type(value) is float and value - value == 0 else None


def clean_cell(value: ScriptValue) -> CellValue:
    """A value as a cell: numbers as they are, texts without anything that could steer a terminal."""
    cell = cell_value(value)
    return terminal_safe(cell) if isinstance(cell, str) else cell


def _value_headings(spec: MapSpec, kind: str) -> tuple[Heading, ...]:
    if isinstance(spec.value, Aggregate) and spec.value.row.buckets:
        return value_headings(spec, ("count", *[f"p{q * 100:g}" for q in _QUANTILES]))
    return value_headings(spec, ("last", "least", "greatest") if kind == "tseries" else value_columns(spec))


def _value_cells(value: ScriptValue, spec: MapSpec, kind: str) -> list[CellValue]:
    if isinstance(value, Histogram):
        return [value.total, *[_round_quantile(value.quantile(q), value.holds_floats) for q in _QUANTILES]]
    if isinstance(value, Series):
        known = [p.value for p in value if p.value is not None]
        return [known[-1], min(known), max(known)] if known else ["", "", ""]
    row = next(value_rows(value, len(value_columns(spec))))
    return [terminal_safe(part) if isinstance(part, str) else part for part in row]


def _round_quantile(quantile: float | None, floats: bool) -> CellValue:
    return "" if quantile is None else float(f"{quantile:.3g}") if floats else round(quantile)


class ToolTable:
    """The rows that a tool prints under its heading: the last block, or the last rows where the heading comes once."""

    def __init__(self, name: str, descriptions: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.columns: tuple[str, ...] = ()
        self._descriptions = descriptions or {}
        self._rows: deque[LiveRow] = deque(maxlen=MOST_ROWS)
        self._headings = 0
        self._count = 0

    def write_heading(self, names: Sequence[str]) -> None:
        """A heading begins a block."""
        self.columns = tuple(names)
        self._rows.clear()
        self._headings += 1
        self._count = 0

    def write_row(self, cells: Sequence[RowCell]) -> None:
        """(column, text, whether it is a number) of each cell."""
        names = tuple([name for name, _, _ in cells])
        if names != self.columns:
            self.write_heading(names)
        self._count += 1
        self._rows.append(LiveRow(str(self._count), tuple([_parse_cell(text) if number else terminal_safe(text)
                                                           for _, text, number in cells])))

    @property
    def is_by_block(self) -> bool:
        """Whether the heading comes again and again, and the rows below it are one block of many."""
        return self._headings > 1

    def build_table(self) -> LiveTable:
        note = "the last block" if self.is_by_block else "the last rows"
        rows = tuple(self._rows) if self.is_by_block else tuple(reversed(self._rows))
        heads = [column_heading(name, self._descriptions.get(name, "")) for name in self.columns]
        return LiveTable(self.name, note, tuple([head.text for head in heads]), rows, self._count,
                         tuple([head.symbol for head in heads]))


class ToolTables:
    """The same of each table that a script declares, by name: a sink of rows. ``name`` is the tool's, which stands for
    the table's where there is only one."""

    def __init__(self, name: str, descriptions: Mapping[str, str], alone: bool = False) -> None:
        self._alone = alone
        self._name = name
        self._descriptions = descriptions
        self._tables: dict[str, ToolTable] = {}

    def write_heading(self, names: Sequence[str], table: str = "") -> None:
        self._table_of(table).write_heading(names)

    def write_row(self, cells: Sequence[RowCell], table: str = "") -> None:
        self._table_of(table).write_row(cells)

    def write_text(self, text: bytes) -> None:
        """What is no row is seen as text."""

    def build_tables(self) -> list[LiveTable]:
        """Those that have rows, or as long as none has the first."""
        built = [table.build_table() for table in self._tables.values() if table.columns]
        return [table for table in built if table.rows] or built[:1]

    def _table_of(self, name: str) -> ToolTable:
        return self._tables.setdefault(name, ToolTable(self._name if self._alone and self._name else
                                                        name or self._name, self._descriptions))


def _parse_cell(text: str) -> CellValue:
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return terminal_safe(text)


class Model:
    """Collects what a run shows. ``out`` is the output for all that is text; ``descriptions`` are what the script says
    of its columns."""

    def __init__(self, spec: ScriptSpec, title: str, tool: str = "", columns: Sequence[str] = (),
                 clock: Callable[[], float] = time.monotonic, descriptions: Mapping[str, str] | None = None) -> None:
        self.spec = spec
        self._clock = clock
        self.title = title
        self._stream = TextCollector(1)
        self._notes = TextCollector(2)
        self.out = TextOutput(self._stream, self._notes, True)
        self.out.escape_lines = terminal_safe
        self._lines = Tail(MOST_LINES)
        self._written = 0
        self._rest = ""
        shown = sorted(spec.shown_maps, key=_map_rank)
        self._maps = {m.name: _MapState(m, MOST_HISTORIES // len(shown), clock) for m in shown}
        declared = {site.table for site in spec.sites if site.table}
        self.tool = ToolTables(tool, descriptions or {}, len(declared) == 1) if columns or declared else None
        self.columns = list(columns)
        self._started = clock()
        self._spent: dict[int, int] = {}  # nanoseconds until the last look, by number of the program
        self._looked = 0.0

    def update_map(self, name: str, items: Items) -> None:
        """What the script has just taken out of a map."""
        if name in self._maps:
            self._maps[name].update_items(items, True, self._clock() - self._started)

    def read_maps(self, take: Take, known: Container[str] | None = None) -> None:
        """Read the maps that the script does not print or clear itself; of them only those that are ``known``."""
        for name, state in self._maps.items():
            if not state.by_interval and (known is None or name in known):
                state.update_items(take(name, ""), False, self._clock() - self._started)

    def take_snapshot(self, session: Session, ended: str = "") -> Snapshot:
        """What there is now; ``ended`` says why there will be no more."""
        return self.make_snapshot(_loss_lines(session), self._program_costs(session), ended)

    def make_snapshot(self, losses: Sequence[str], costs: Sequence[LiveCost] = (), ended: str = "", state: str = "",
                      more: Sequence[LiveTable] = ()) -> Snapshot:
        """A snapshot of other sources than a session: with a fleet's ``state``, and ``more`` tables after the maps."""
        self.gather_text()
        tables = [each.build_table() for each in self._maps.values()]
        if self.tool is not None:
            tables = [*self.tool.build_tables(), *tables]
        return Snapshot(self.title, self._clock() - self._started, (*tables, *more), tuple(self._lines.pieces),
                        self._written, tuple(losses), tuple(costs), ended, state)

    def gather_text(self) -> None:
        """Collect what has been printed."""
        text = self._rest + self._stream.take_text() + self._notes.take_text()
        *lines, self._rest = text.split("\n")
        if len(self._rest) > LONGEST_LINE:
            lines.append(self._rest)
            self._rest = ""
        self._lines.add_pieces([_clean_line(line[:LONGEST_LINE]) for line in lines])
        self._written += len(lines)

    def _program_costs(self, session: Session) -> list[LiveCost]:
        if not session.programs:
            return []
        now = self._clock()
        passed, self._looked = (now - self._looked if self._looked else 0.0), now
        costs = []
        for index, cost in enumerate(probe_costs(session)):
            spent, self._spent[index] = self._spent.get(index, 0), cost.time_ns
            share = (cost.time_ns - spent) / (passed * 1e9) if passed else 0.0
            more = f" and {cost.points - 1} more" if cost.points > 1 else ""
            costs.append(LiveCost(cost.probe + more, cost.runs, cost.mean, share, cost.skipped))
        return costs


def _clean_line(line: str) -> str:
    """A line without colours, and without anything else that could steer a terminal."""
    return terminal_safe(COLOUR.sub("", encode_text(line).decode("utf-8", "replace")))


def _map_rank(spec: MapSpec) -> tuple[bool, str]:
    """Aggregates before what scripts mostly keep for themselves."""
    return not isinstance(spec.value, Aggregate), spec.name


def _loss_lines(session: Session) -> list[str]:
    """What was lost, as the lines that would be printed at the end."""
    notes = TextCollector(2)
    report_losses(TextOutput(TextCollector(1), notes), session.losses(), reads=False)
    return [line for line in notes.take_text().splitlines() if line.strip()]


class ModelPrinter(Printer):
    """Feeds a model: maps become tables, what a tool prints rows, all else text."""

    joins_lines = False

    def __init__(self, spec: ScriptSpec, context: DecodingContext, take: Take, model: Model,
                 warnings: bool = True, outside: Outside | None = None) -> None:
        self.model = model
        self._parsed = Rows(model.columns, context, model.tool, has_tables(spec)) if model.tool is not None else None
        super().__init__(spec, context, model.out, take, warnings, outside=outside)

    def _site_handler(self, site: EventSite) -> Handler | None:
        name = site.data.get("map", "")
        if SITE_KINDS[site.kind].of_map and name.startswith("@"):
            then, take, model = site.then, self.take, self.model
            if not then:  # it is looked at anyway
                return lambda buffer, offset: None
            return lambda buffer, offset: model.update_map(name, take(name, then))
        return super()._site_handler(site)

    def _printf_handler(self, site: EventSite) -> Handler:
        plain = super()._printf_handler(site)
        if self._parsed is None or site.data.get("severity"):
            return plain
        parsed = self._parsed.row_handler(site)

        def feed_record(buffer: bytes, offset: int) -> None:
            plain(buffer, offset)
            parsed(buffer, offset)
        return feed_record
