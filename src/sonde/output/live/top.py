"""``sonde top``: a full-screen view of a running script, with Textual (the extra ``ui``)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Click
from textual.widgets import DataTable, Footer, Input, RichLog, Static

from ...base.end_request import Ending
from ..stream import NONE, Stream
from .fitting import PAD, fit_columns, fit_pieces, shorten_cell
from .model import LiveRow, LiveTable, Snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..views.csv import CellValue

_BLOCKS = "▁▂▃▄▅▆▇█"
_SPARK, _LEAST_SPARK = 24, 8  # characters of a sparkline
_NARROW = 110      # columns of a terminal below which the histogram is under the table, not beside it
_FLAT = 30         # lines of one in which the text does not come up by itself beside a table
_BAR = 18          # characters of the longest bar
_COSTS = "costs"   # the tab of the programs' figures
_PAUSED = "paused: the tracing goes on"


class _Output:
    """The terminal as the file that Textual writes to. One that takes nothing is waited for until the run was to end
    (``ending``); when it is gone, ``gone`` is called."""

    def __init__(self, descriptor: int, ending: Ending, gone: Callable[[], object]) -> None:
        self._stream = Stream(descriptor, NONE, ending)
        self._gone = gone

    def write(self, text: str) -> int:
        try:
            self._stream.write(text.encode("utf-8", "replace"))
        except OSError:
            self._gone()
        return len(text)

    def flush(self) -> None:
        """Nothing is held."""

    def fileno(self) -> int:
        return self._stream.descriptor

    def close(self) -> None:
        self._stream.close()


class _Driver(LinuxDriver):
    """Ends at once: Textual's own waits for its input thread, which looks up each 100 ms, twice at the end."""

    def __init__(self, app: App[None], **more: Any) -> None:
        super().__init__(app, **more)
        if isinstance(app, TopApp):
            self._output = _Output(1, app.ending, app.quit_tracing)
            self._file = self._output  # type: ignore[assignment]

    def close(self) -> None:
        super().close()
        self._output.close()

    def disable_input(self) -> None:
        leaving = isinstance(self._app, TopApp) and self._app.leaving  # else Ctrl-Z: the thread must have ended
        if leaving:
            self._key_thread = None  # nothing to join
        super().disable_input()
        if leaving:
            self.exit_event.set()  # which the other one cleared: the thread sees it at its next look

    def run_input_thread(self) -> None:
        try:
            super().run_input_thread()
        except RuntimeError:  # a key that came after the end: its event loop has been closed
            if not self.exit_event.is_set():
                raise


HELP = """\
Tab, Shift-Tab   the next table, the one before    s        sort by the next column
Space            hold the picture; it traces on    r        reverse the order
/                rows that contain a text          Escape   all rows again
h                the histogram of the chosen row   l        what the script prints
?                take this away                    q        end, and print the maps

A map that the script clears shows its last interval, any other what it has since the start and
what it gains per second. The last line has what was lost, and what the programs cost."""


class TopApp(App[None]):
    """Shows the snapshots given to :meth:`show_snapshot`, from any thread; ``stop`` is called when the user quits or
    the terminal is gone. ``ending``: when the run was asked to end."""

    CSS = """
    #head { height: 1; background: $primary; color: $text; padding: 0 1; }
    #fleet { height: auto; max-height: 3; padding: 0 1; background: $panel; display: none; }
    #fleet.shown { display: block; }
    #tabs { height: 1; padding: 0 1; }
    #status { height: auto; max-height: 3; padding: 0 1; background: $panel; }
    #status.lost { background: $error; color: $text; }
    #main { height: 1fr; }
    #table { width: 1fr; }
    #side { width: 52; border-left: solid $panel; padding: 0 1; display: none; }
    .narrow #body { layout: vertical; }
    .narrow #table { width: 100%; height: 1fr; }
    .narrow #side { width: 100%; height: 50%; border-left: none; border-top: solid $panel; }
    #side.shown { display: block; }
    #log { height: 30%; border-top: solid $panel; display: none; }
    #log.shown { display: block; }
    #filter { display: none; height: 3; }
    #filter.shown { display: block; }
    #help { display: none; height: auto; padding: 1 2; background: $panel; }
    #help.shown { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "help", key_display="?"), Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", "quit", show=False, priority=True), Binding("space", "pause", "pause"),
        Binding("tab", "next", "next", priority=True),
        Binding("shift+tab", "previous", "table before", show=False, priority=True),
        Binding("s", "sort", "sort"), Binding("r", "reverse", "flip"), Binding("slash", "filter", "find"),
        Binding("l", "log", "text"), Binding("h", "side", "bars"),
        Binding("escape", "unfilter", "no filter", show=False)]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, stop: Callable[[], object], ending: Ending) -> None:
        super().__init__(driver_class=_Driver)
        self._stop = stop
        self.ending = ending
        self._lock = threading.Lock()
        self._latest: Snapshot | None = None  # as the session's thread left it
        self._shown: Snapshot | None = None
        self._paused = False
        self._table = ""
        self._sort: dict[str, tuple[int, bool]] = {}  # by table: column (-1: as it comes), downwards
        self._filter = ""
        self._written = 0
        self._names: list[str] = []
        self._rows: list[LiveRow] = []
        self._columns: tuple[tuple[str, int], ...] = ()  # heading and width of each
        self._shown_columns: list[int] = []  # of the columns that are shown, among the table's
        self._has_side = True
        self._over = False
        self.leaving = False
        self._has_turned = False  # has the user chosen a table?
        self._title = ""
        self._notes: list[str] = []  # on the rows, the most important first
        self.failure: Exception | None = None  # a mistake of the view's own

    def exit(self, *args: Any, **more: Any) -> None:
        self.leaving = True
        super().exit(*args, **more)

    def _handle_exception(self, error: Exception) -> None:
        """Leave with the error instead of Textual's picture of it; the command line says what it was."""
        self.failure = self.failure or error
        self.exit()

    def compose(self) -> ComposeResult:
        yield Static("", id="head", markup=False)
        yield Static("", id="fleet", markup=False)
        yield Static("", id="tabs", markup=False)
        yield Input(placeholder="show rows that contain ...", id="filter")
        yield Static(HELP, id="help", markup=False)
        with Vertical(id="main"):
            with Horizontal(id="body"):
                yield DataTable(id="table", cursor_type="row", zebra_stripes=True)
                yield Static("", id="side", markup=False)
            yield RichLog(id="log", markup=False, highlight=False, wrap=True, max_lines=2000)
        yield Static("", id="status", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(DataTable).focus()
        self.set_interval(0.1, self._show_latest)

    def action_help(self) -> None:
        """Show the keys, or take them away."""
        self.query_one("#help").toggle_class("shown")

    # from the session's thread

    def give_up(self) -> None:
        """There will be no more: give the terminal back."""
        self._over = True

    def quit_tracing(self) -> None:
        """The same, and end the run. From any thread."""
        self._stop()
        self._over = True

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """The next snapshot."""
        with self._lock:
            self._latest = snapshot

    # pictures

    async def _show_latest(self) -> None:
        with self._lock:
            latest = self._latest
        if self._over:
            return self.exit()
        if latest is not None and latest is not self._shown and (not self._paused or latest.ended):
            self._shown = latest
            await self._draw_all()

    async def on_resize(self) -> None:
        """Another size, another layout."""
        self.screen.set_class(self.size.width < _NARROW, "narrow")
        await self._draw_all()

    async def _draw_all(self) -> None:
        snapshot = self._shown
        if snapshot is None:
            return
        self._title = snapshot.title
        self._draw_tabs([*[table.name for table in snapshot.tables], *([] if snapshot.state else [_COSTS])])
        self._draw_table(self._current_table(snapshot))
        self._draw_log(snapshot)
        self._draw_status(snapshot)

    def _draw_tabs(self, names: list[str]) -> None:
        """The tables' names in a line, the one that is shown in reverse."""
        self._names = names
        if self._table not in names or not self._has_turned:
            self._table = names[0]  # a tool's own table comes first, once it has printed its heading
        line = Text(no_wrap=True)
        for name in names:
            line.append(f" {name} ", "reverse" if name == self._table else "")
        self.query_one("#tabs", Static).update(line)

    def _current_table(self, snapshot: Snapshot) -> LiveTable:
        chosen = next((table for table in snapshot.tables if table.name == self._table), None)
        return chosen or _cost_table(snapshot)

    def _draw_table(self, table: LiveTable) -> None:
        widget = self.query_one(DataTable)
        column, down = self._sort.get(table.name, (-1, True))
        rows = [row for row in table.rows if self._filter in _row_text(table, row).lower()]
        if 0 <= column < len(table.columns):
            rows.sort(key=lambda row: _sort_key(row.cells[column]), reverse=down)
        chosen = self._chosen_row()
        heads = [f"{name}{' ' + '↑↓'[down] if i == column else ''}" for i, name in enumerate(table.columns)]
        left_out = self._draw_columns(table, heads, rows, column)
        self._rows = rows
        at = next((i for i, row in enumerate(rows) if row.id == chosen), None)
        if rows:
            widget.move_cursor(row=at if at is not None else min(widget.cursor_row, len(rows) - 1), animate=False)
        self._notes = _describe_rows(table, "" if table.name in self._title.split() else table.name, len(rows),
                                     self._filter, left_out)
        self._draw_side()

    def _draw_columns(self, table: LiveTable, heads: list[str], rows: Sequence[LiveRow], sorted_by: int) -> list[str]:
        """The table in the room that there is; the headings for which there is none."""
        widget = self.query_one(DataTable)
        widths, texts = _natural_widths(table, heads, rows)
        room = self.size.width - 2 - (54 if self._has_room_beside(rows) else 0)  # of its scroll bar, of the histogram
        sparks = any(row.spark for row in rows)
        over = min(_SPARK, max(_LEAST_SPARK, room - sum(widths) - PAD * len(widths) - PAD)) if sparks else 0
        fitted = fit_columns(widths, texts, room - over - PAD * sparks, {0, sorted_by})
        left_out = [head for head, width in zip(heads, fitted) if not width]
        if left_out and sparks:  # the numbers before the picture
            fitted, over = fit_columns(widths, texts, room, {0, sorted_by}), 0
            left_out = [*[head for head, width in zip(heads, fitted) if not width], "over time"]
        self._shown_columns = [index for index, width in enumerate(fitted) if width]
        columns = ((table.name, 0), *[(heads[index], fitted[index]) for index in self._shown_columns],
                   *([("over time", max(over, len("over time")))] if over else []))
        widget.clear(columns=columns != self._columns)
        for index, (head, width) in enumerate(columns[1:] if columns != self._columns else ()):
            widget.add_column(Text(shorten_cell(head, width)), key=str(index), width=width)
        self._columns = columns
        for row in rows:
            cells = [_table_cell(table, index, row.cells[index], fitted[index]) for index in self._shown_columns]
            widget.add_row(*cells, *([Text(draw_sparkline(row.spark, over), style="cyan")] if over else []))
        return left_out

    def _has_room_beside(self, rows: Sequence[LiveRow]) -> bool:
        """Whether the histogram of a row stands beside the table."""
        return self._has_side and self.size.width >= _NARROW and any(row.buckets for row in rows)

    def _chosen_row(self) -> str:
        """The id of the row that the cursor is on; "" before one was chosen."""
        at = self.query_one(DataTable).cursor_row
        return self._rows[at].id if 0 < at < len(self._rows) else ""

    def _draw_side(self) -> None:
        side = self.query_one("#side", Static)
        at = self.query_one(DataTable).cursor_row
        row = self._rows[at] if 0 <= at < len(self._rows) else None
        shown = row is not None and bool(row.buckets) and self._has_side
        side.set_class(shown, "shown")
        if shown and row is not None:
            height = self.query_one("#main").size.height
            room = max(4, (height // 2 if self.size.width < _NARROW else height) - 3)
            side.update(Text(f"{row.id or self._table}\n{draw_chart(row.buckets, room)}"))

    def _draw_log(self, snapshot: Snapshot) -> None:
        log = self.query_one(RichLog)
        new = min(snapshot.written - self._written, len(snapshot.lines))
        if self._written == 0 and new and (self.size.height >= _FLAT or not snapshot.tables):
            log.set_class(True, "shown")
        for line in snapshot.lines[len(snapshot.lines) - new:] if new > 0 else ():
            log.write(Text(line))
        self._written = snapshot.written

    def _draw_status(self, snapshot: Snapshot) -> None:
        minutes, seconds = divmod(int(snapshot.elapsed), 60)
        state = f"ended: {snapshot.ended}" if snapshot.ended else _PAUSED if self._paused else "live"
        room = self.size.width - 2
        self.query_one("#head", Static).update(
            fit_pieces([snapshot.title, f"{minutes}:{seconds:02}", state, *self._notes], room))
        fleet = self.query_one("#fleet", Static)
        fleet.set_class(bool(snapshot.state), "shown")
        fleet.update(snapshot.state)
        status = self.query_one("#status", Static)
        status.set_class(bool(snapshot.losses), "lost")
        if snapshot.state:
            status.update(" · ".join(snapshot.losses) or "nothing lost")
            return
        busiest = max(snapshot.costs, key=lambda cost: cost.share, default=None)
        costs = [f"costs {snapshot.share:.2%} of a CPU"]
        if busiest is not None and busiest.runs:
            costs.append(f"most in {shorten_cell(busiest.name, 40)}: {busiest.runs} runs of "
                         f"{busiest.ns_per_run:.0f} ns")
        lost = " · ".join(snapshot.losses)
        status.update(f"{lost}\n{fit_pieces(costs, room)}" if lost else
                      fit_pieces(["nothing lost", *costs], room, "  |  "))

    # what the user does

    async def action_quit(self) -> None:
        self._stop()
        self.exit()

    async def action_pause(self) -> None:
        self._paused = not self._paused
        await self._draw_all()
        if not self._paused:
            await self._show_latest()

    async def action_sort(self) -> None:
        """By the next column; after the last one as the rows come."""
        table = self._shown_table()
        if table is not None:
            column, _ = self._sort.get(table.name, (-1, True))
            following = next((index for index in self._shown_columns if index > column), -1)
            self._sort[table.name] = (following, True)
            await self._draw_all()

    async def action_reverse(self) -> None:
        table = self._shown_table()
        if table is not None:
            column, down = self._sort.get(table.name, (-1, True))
            self._sort[table.name] = (max(column, 0), not down)
            await self._draw_all()

    def _shown_table(self) -> LiveTable | None:
        return self._current_table(self._shown) if self._shown is not None else None

    async def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        table = self._shown_table()
        if table is not None and event.column_index < len(self._shown_columns):
            index = self._shown_columns[event.column_index]
            column, down = self._sort.get(table.name, (-1, True))
            self._sort[table.name] = (index, not down if column == index else True)
            await self._draw_all()

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        self._draw_side()

    async def on_click(self, event: Click) -> None:
        """A click on a table's name shows it."""
        if event.widget is self.query_one("#tabs", Static):
            at = event.x - 1
            for name in self._names:
                if 0 <= at < len(name) + 2:
                    self._table, self._has_turned = name, True
                    await self._draw_all()
                at -= len(name) + 2

    async def action_next(self) -> None:
        await self._turn_table(1)

    async def action_previous(self) -> None:
        await self._turn_table(-1)

    async def _turn_table(self, by: int) -> None:
        if self._names:
            self._has_turned = True
            self._table = self._names[(self._names.index(self._table) + by) % len(self._names)]
            await self._draw_all()

    def action_log(self) -> None:
        self.query_one(RichLog).toggle_class("shown")

    def action_side(self) -> None:
        self._has_side = not self._has_side
        self._draw_side()

    def action_filter(self) -> None:
        field = self.query_one(Input)
        field.set_class(True, "shown")
        self.set_focus(field)

    async def action_unfilter(self) -> None:
        self.query_one(Input).value = ""
        await self.on_input_submitted()

    async def on_input_changed(self, event: Input.Changed) -> None:
        self._filter = event.value.lower()
        await self._draw_all()

    async def on_input_submitted(self) -> None:
        field = self.query_one(Input)
        field.set_class(bool(field.value), "shown")
        self.query_one(DataTable).focus()


def _cost_table(snapshot: Snapshot) -> LiveTable:
    rows = [LiveRow(str(i), (cost.name, cost.runs, round(cost.ns_per_run), round(cost.share * 100, 3), cost.skipped))
            for i, cost in enumerate(snapshot.costs)]
    return LiveTable(_COSTS, "of the programs in the kernel", ("probe", "runs", "ns per run", "% of a CPU", "skipped"),
                     tuple(rows), len(rows))


def _row_text(table: LiveTable, row: LiveRow) -> str:
    """What a search looks in: the cells as they are, and as they are shown."""
    return " ".join([*map(str, row.cells), *[table.cell_text(index, cell) for index, cell in enumerate(row.cells)]])


def _sort_key(value: CellValue) -> tuple[bool, CellValue]:
    """Numbers before texts."""
    return (False, value) if isinstance(value, (int, float)) else (True, value)


def _natural_widths(table: LiveTable, heads: Sequence[str], rows: Sequence[LiveRow]) -> tuple[list[int], list[bool]]:
    """The width of each column, and whether it has texts, which can be shortened."""
    columns = [[row.cells[index] for row in rows if index < len(row.cells)] for index in range(len(heads))]
    return ([max([len(head), *[len(table.cell_text(index, cell)) for cell in cells]])
             for index, (head, cells) in enumerate(zip(heads, columns))],
            [any(isinstance(cell, str) for cell in cells) for cells in columns])


def _describe_rows(table: LiveTable, name: str, matching: int, wanted: str, left_out: list[str]) -> list[str]:
    """What is shown of a table: how many rows, of what, and the columns for which there is no room."""
    shown = len(table.rows)
    rows = f"{table.total} row{'' if table.total == 1 else 's'}" if shown == table.total else \
        f"{shown} of {table.total} rows"
    match = f", {matching} match {wanted!r}" if wanted else ""
    columns = f"{len(left_out)} column{'' if len(left_out) == 1 else 's'} left out" if left_out else ""
    return [columns, f"{name}{name and '  '}{table.note}, {rows}{match}", ", ".join(left_out)]


def _table_cell(table: LiveTable, column: int, value: CellValue, width: int) -> Text:
    number, text = isinstance(value, (int, float)), table.cell_text(column, value)
    return Text(text if number else shorten_cell(text, width), justify="right" if number else "left", no_wrap=True)


def draw_sparkline(values: Sequence[int | float | None], width: int = _SPARK) -> str:
    """The last values as blocks of eight heights, from 0 or the least to the greatest; blank where there is none."""
    shown = values[-width:]
    known = [value for value in shown if value is not None]
    low, high = min([*known, 0]), max([*known, 0])
    steps = len(_BLOCKS) - 1
    return "".join([" " if v is None else _BLOCKS[int((v - low) * steps // (high - low)) if high > low else 0]
                    for v in shown]).rjust(width)


def draw_chart(buckets: Sequence[tuple[str, int | None]], room: int) -> str:
    """A histogram's ranges, or a series' last intervals, with counts and bars, in a number of lines."""
    shown = buckets[-room:]
    most = max([count or 0 for _, count in buckets], default=0)
    wide = max([len(name) for name, _ in shown], default=0)
    lines = [f"{name:<{wide}} {'' if count is None else count:>9} "
             f"{'█' * (max(0, count or 0) * _BAR // most if most > 0 else 0)}" for name, count in shown]
    if len(shown) < len(buckets):
        lines.insert(0, f"... {len(buckets) - len(shown)} lines before")
    return "\n".join(lines)
