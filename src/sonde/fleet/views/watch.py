"""``sonde top`` and ``sonde serve`` over a fleet: its state in a line, its merged maps, its hosts as a table."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from ...base.end_request import Ending
from ...base.sd_notify import tell_manager
from ...language.comments import column_descriptions
from ...output import Output
from ...output.live.full_screen import require_screen, run_app_beside
from ...output.live.model import MOST_ROWS, LiveRow, LiveTable, Model, Snapshot, ToolTable, clean_cell
from ...spec import ScriptSpec
from ..state.gathered import FleetState
from ..state.member import TRACING, Member
from ..state.results import HostEvent, MergedPrint, merged_spec
from .following import FleetRun
from .show import HOST, Presenter

NAMED = 3           # hosts that the line on top names as missing; the table has them all
_ENDS = {"exit": "the script called exit()", "seconds": "the time is over", "stop": "quit"}
_COLUMNS = ("host", "state", "windows", "lost", "± ms", "heard s ago", "kernel", "why")


class WatchedPresenter(Presenter):
    """Feeds a model, and publishes what is to be seen; when all has come, ``final`` prints it."""

    def __init__(self, final: Presenter, title: str, tool: str, by_host: bool) -> None:
        self.final = final
        self._title, self._tool, self._by_host = title, tool, by_host
        self._made: Model | None = None  # once it has begun
        self._hosts: dict[str, ToolTable] = {}  # what each host's tool prints
        self._descriptions: dict[str, str] = {}  # of its columns
        self._rows = ToolTable(tool)             # the same of all, one after another
        self._at_end: dict[object, HostEvent | MergedPrint] = {}  # the latest print of each map, and what `end` prints
        self.publish: Callable[[Snapshot], object] = _nobody
        super().__init__(final.fleet, 1, final.quiet)

    def _make_output(self, descriptor: int) -> Output:
        return self.final.out

    @property
    def _model(self) -> Model:
        assert self._made is not None
        return self._made

    def begin(self, spec: ScriptSpec) -> None:
        self.final.begin(spec)
        self._made = Model(merged_spec(spec, self._by_host), self._title)
        self.out = self._made.out
        self._descriptions = column_descriptions(spec.source.text)
        self._rows = ToolTable(self._tool, self._descriptions)

    def show_print(self, item: MergedPrint) -> None:
        self._at_end.pop(item.name, None)
        self._at_end[item.name] = item
        if item.site.data.get("then"):
            self._model.update_map(item.name, item.pairs)

    def show_event(self, event: HostEvent) -> None:
        if event.probe == "end":
            self._at_end[len(self._at_end), event.host] = event
            return
        if event.heading or event.cells:
            table = self._hosts.setdefault(event.host, ToolTable(self._tool, self._descriptions))
            if event.heading:
                table.write_heading(event.heading)
            else:
                table.write_row(event.cells)
                self._rows.write_row([(HOST, event.host, False), *event.cells])
        super().show_event(event)

    def sample(self) -> None:
        self.publish_state("")

    def publish_state(self, ended: str) -> None:
        """Read the maps, and publish what there is."""
        results = self.fleet.results
        self._model.read_maps(lambda name, then: results.pairs_of(name))
        made = self._model.make_snapshot([*self.fleet.describe_losses()], (), ended,
                                         self.fleet.describe_state(NAMED), [host_table(self.fleet)])
        made.tables = (*self._join_rows(), *made.tables)
        self.publish(made)

    def _join_rows(self) -> list[LiveTable]:
        """What the tool prints on all hosts: each host's last block, one after the other, or the last rows."""
        if not any(table.is_by_block for table in self._hosts.values()):
            return [self._rows.build_table()] if self._rows.columns else []
        rows: list[LiveRow] = []
        columns: tuple[str, ...] = ()
        symbols: tuple[str, ...] = ()
        note, total = "", 0
        for host in sorted(self._hosts):
            table = self._hosts[host].build_table()
            columns, symbols = (columns, symbols) if columns else (table.columns, table.symbols)
            if table.columns == columns:
                rows += [LiveRow(f"{host} {row.id}", (clean_cell(host), *row.cells)) for row in table.rows]
                note, total = table.note, total + table.total
        return [LiveTable(self._tool, note, (HOST, *columns), tuple(rows[:MOST_ROWS]), total,
                          ("", *symbols))] if columns else []

    def finish(self) -> None:
        self.out = self.final.out
        for item in self._at_end.values():
            self.final.show(item)
        self.final.finish()

    def close(self) -> None:
        self.final.close()


def _nobody(snapshot: Snapshot) -> None:
    """Nobody looks on yet."""


def host_table(fleet: FleetState) -> LiveTable:
    """A row for each host, those that are missing first, then those from which nothing has come for longest."""
    now = monotonic()
    members = sorted(fleet.members, key=lambda member: (not member.is_absent, member.heard))
    return LiveTable("hosts", "the fleet", _COLUMNS,
                     tuple([_host_row(member, now) for member in members[:MOST_ROWS]]), len(members))


def _host_row(member: Member, now: float) -> LiveRow:
    known = member.clock.error < 1 << 61
    heard = round(max(0.0, now - member.heard), 1) if member.state == TRACING else ""
    return LiveRow(member.name, (clean_cell(member.name), member.state, member.windows, member.lost,
                                 round(member.clock.error / 1e6, 1) if known else "", heard, clean_cell(member.kernel),
                                 clean_cell(member.reason)))


def watch_in_browser(run: FleetRun, shown: WatchedPresenter, port: int) -> int:
    """``sonde serve``: until the end; the exit status."""
    from ...output.live.serve import PageServer
    server = PageServer(port)
    try:
        if not run.await_beginning():
            return run.finish_run()
        shown.publish = server.publish_snapshot
        shown.final.out.write_note(f"Serving on {server.url} until Ctrl-C")
        shown.final.out.flush(True)
        tell_manager("READY=1")
        run.follow_to_end()
        shown.publish_state(_describe_end(run))
    finally:
        tell_manager("STOPPING=1")
        server.close()
    return run.finish_run()


def watch_on_terminal(run: FleetRun, shown: WatchedPresenter) -> int:
    """``sonde top``: until the end or ``q``; the exit status."""
    with require_screen("sonde serve, or sonde fleet by itself"):
        from ...output.live.top import TopApp
    if not run.await_beginning():
        return run.finish_run()
    ending = Ending()

    def request_end() -> None:
        ending.request_end()
        run.fleet.ask_end()
    app = TopApp(request_end, ending)
    shown.publish = app.show_snapshot

    def follow_run() -> None:
        run.follow_to_end()
        shown.publish_state(_describe_end(run))
        if run.interrupted:
            app.give_up()

    run_app_beside(app, "sonde-fleet", follow_run, request_end)
    return run.finish_run()


def _describe_end(run: FleetRun) -> str:
    """Why there will be no more, as the screen has it."""
    if run.interrupted:
        return "interrupted"
    if not run.fleet.complete:
        return "all hosts are missing"
    return _ENDS.get(run.fleet.reason, run.fleet.reason)
