"""What a fleet collected, as the command for one host shows it: text, JSON, views and Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...output import Output, json_kind, unset_aggregate
from ...output.json import JsonOutput, quote_json
from ...output.stream import FULL, LINE, NONE, Stream
from ...output.text import TextOutput, encode_text, terminal_safe
from ...runtime.provenance import Provenance
from ...runtime.records.values import Clock, to_text
from ...spec import MapSpec, ScriptSpec
from ...types import Aggregate
from ..state.gathered import group_by_reason
from ..state.results import HostEvent, MergedPrint, merged_spec
from ..transport.hosts import fold_names

if TYPE_CHECKING:
    from ...exporters.parquet import ParquetExporter
    from ...output.views.view import View
    from ..state.gathered import FleetState
    from ..state.member import Member

HOST = "HOST"        # the column of a tool's rows
ABOUT = ("host", "probe")  # an event's columns in tables, besides what it printed
MOST_REASONS = 10       # reasons for which hosts are said to be missing at once
_LONGEST = 1 << 16  # bytes of a line that is not yet at its end


class Presenter:
    """Prints text; the other forms are made of it."""

    needs_args = False

    def __init__(self, fleet: FleetState, descriptor: int, quiet: bool = False) -> None:
        self.fleet = fleet
        self.quiet = quiet
        self.out = self._make_output(descriptor)
        self._is_file = descriptor not in (1, 2)
        self._width = 0  # of the longest name of a host that is there
        self._open: dict[str, bytes] = {}  # by host: a line that has not ended
        self._context = WallClock(fleet)
        self._shown: dict[str, MapSpec] = {}  # maps that go elsewhere, as they are when merged

    def _make_output(self, descriptor: int) -> Output:
        return TextOutput(Stream(descriptor, LINE), Stream(2, NONE), self.quiet)

    def begin(self, spec: ScriptSpec) -> None:
        """All hosts that will take part are known, and what the script looks like there."""

    def show(self, item: HostEvent | MergedPrint) -> None:
        """What is printed while the script runs."""
        if isinstance(item, MergedPrint):
            self.show_print(item)
        else:
            self.show_event(item)

    def show_print(self, item: MergedPrint) -> None:
        """A print(@map) of all hosts; one without keys that was never set is zero, as on one host."""
        data, named = item.site.data, self._spec().find_map(item.name)
        unset = unset_aggregate(named.value) if named.key is None and isinstance(named.value, Aggregate) else []
        pairs = item.pairs or unset
        if len(item.hosts) < item.of:
            self.out.write_note(f"WARNING: {item.name} is of {len(item.hosts)} of {item.of} hosts")
        self.out.write_map(item.name, pairs, data.get("top", 0), data.get("div", 1), json_kind(named),
                           item.incomplete)

    def show_event(self, event: HostEvent) -> None:
        """What a host prints: whole lines, with its name in front; headings, which all have in common, without."""
        site = self._spec().sites[event.site] if event.site < len(self._spec().sites) else None
        if site is not None and "severity" in site.data:
            self.out.report_located(site.data["severity"], f"{event.host or 'all'}: ".encode() + event.text, site.span)
            return
        if lines := self.take_lines(event):
            self.print_lines(lines)

    def take_lines(self, event: HostEvent) -> str:
        """The lines that are whole with what a host prints, its name in front of each."""
        text = encode_text(to_text(event.args[0]) + "\n") if event.kind == "print" and event.args else event.text
        name = event.host
        whole, _, rest = (self._open.pop(name, b"") + text).rpartition(b"\n")
        if len(rest) > _LONGEST:
            whole, rest = whole + b"\n" + rest if whole else rest, b""
        if rest:
            self._open[name] = rest
        return self._name_lines(name, whole) if whole or text.endswith(b"\n") else ""

    def _name_lines(self, name: str, text: bytes) -> str:
        self._width = self._width or max([len(member.name) for member in self.fleet.members if member.spec is not None])
        lead = f"{name:<{self._width}} "
        lines = [lead + line.decode("utf-8", "surrogateescape") for line in text.split(b"\n")]
        return "\n".join([line.rstrip(" ") if not line.strip() else line for line in lines]) + "\n"

    def print_open_lines(self) -> None:
        """What has not come to the end of its line, and will not."""
        for name, text in sorted(self._open.items()):
            self.print_lines(self._name_lines(name, text))
        self._open.clear()

    def print_lines(self, text: str) -> None:
        """Whole lines."""
        self.out.write_text(encode_text(self._make_safe(text)))

    def _make_safe(self, text: str) -> str:
        """Nothing that a host sends steers the terminal, also not what its script itself would print."""
        escape = getattr(self.out, "escape_lines", None)
        return escape(text) if escape else text

    def sample(self) -> None:
        """A window has passed."""

    def say_missing(self, members: Sequence[Member]) -> None:
        """Hosts that had begun are missing from now on."""
        groups = group_by_reason(members)
        for names, reason, count in groups[:MOST_REASONS]:
            self.out.write_note(f"WARNING: {names} {'is' if count == 1 else 'are'} missing from now on: {reason}")
        if left := sum([count for _, _, count in groups[MOST_REASONS:]]):
            self.out.write_note(f"WARNING: and {left} more hosts")

    def say_present(self, members: Sequence[Member]) -> None:
        """Hosts that were silent are not any more."""
        names = ", ".join(fold_names([member.name for member in members]))
        self.out.write_note(f"{names} {'is' if len(members) == 1 else 'are'} there again")

    def finish(self) -> None:
        """All has come: the state of the fleet, the maps, what was lost."""
        self.print_open_lines()
        fleet, results = self.fleet, self.fleet.results
        maps = [named for named in self._final_maps() if named.name not in self._shown]
        if maps:
            self.out.write_separator()
        self.write_state()
        for named in maps:
            self.out.write_map(named.name, results.pairs_of(named.name), kind=json_kind(named),
                               incomplete=results.is_incomplete(named.name))
        self.write_outliers()
        for line in fleet.describe_losses():
            self.out.write_note(line)
        if self._is_file and (fleet.missing or fleet.lost or any(fleet.describe_losses())):
            self.out.write_provenance(describe_fleet_run(fleet, "sonde fleet"))
        self.out.flush(True)

    def write_state(self) -> None:
        """The line of who is in the result; quiet is not silent about what is missing."""
        if not self.quiet or self.fleet.missing or self.fleet.lost:
            self.out.write_note(self.fleet.describe_state())

    def _spec(self) -> ScriptSpec:
        spec = self.fleet.results.spec
        assert spec is not None
        return spec

    def _final_maps(self) -> list[MapSpec]:
        spec = self.fleet.results.spec
        return spec.shown_maps if spec is not None and spec.config.print_maps_on_exit else []

    def write_outliers(self) -> None:
        """The hosts by how far they are from the rest, for each map of which that can be said."""
        for name, distance, ranked in self._ranked_maps():
            rows = ", ".join([f"{host} {value:.3f}" for host, value in ranked[:10]])
            self.out.write_text(encode_text(f"{name}, farthest from the rest ({distance}): {rows}\n"))

    def _ranked_maps(self) -> Iterator[tuple[str, str, list[tuple[str, float]]]]:
        for named in self._final_maps():
            distance, ranked = self.fleet.results.rank_hosts(named.name)
            if ranked:
                yield named.name, distance, ranked

    def close(self) -> None:
        """Let everything out."""
        self.out.flush(True)
        self.out.close()


class JsonPresenter(Presenter):
    """An object a line, with the host's name where it is of one."""

    def _make_output(self, descriptor: int) -> Output:
        self._objects = Stream(descriptor, LINE)
        return HostJsonOutput(self._objects, Stream(2, NONE), self.quiet)

    def show_print(self, item: MergedPrint) -> None:
        out = self.out
        assert isinstance(out, HostJsonOutput)
        out.hosts = len(item.hosts)
        super().show_print(item)
        out.hosts = 0

    def show_event(self, event: HostEvent) -> None:
        out = self.out
        assert isinstance(out, HostJsonOutput)
        out.host = event.host
        text = event.text.decode("utf-8", "surrogateescape")
        if event.cells:
            out.write_row(event.cells, self._spec().sites[event.site].table)
        elif event.heading:
            out.write_heading(event.heading)
        elif event.kind == "print":
            out.write_value(event.args[0] if event.args else None)
        elif event.kind == "time":
            out.write_time(text)
        elif event.kind == "join":
            out.write_joined(text.removesuffix("\n"))
        elif event.kind == "cat":
            out.write_file_content(event.text)
        elif event.kind == "system":
            out.write_command_output(event.text)
        else:
            out.write_text(event.text)
        out.host = ""

    def write_state(self) -> None:
        fleet = self.fleet
        missing = ", ".join([f"{quote_json(member.name)}: {quote_json(member.reason)}" for member in fleet.missing])
        self._write_object("fleet", f'"hosts": {len(fleet.members)}, "complete": {len(fleet.complete)}, '
                                    f'"missing": {{{missing}}}, "seconds": {fleet.seconds:.6f}, '
                                    f'"clock_error_ns": {fleet.clock_error}, "lost": {fleet.lost}')

    def write_outliers(self) -> None:
        for name, distance, ranked in self._ranked_maps():
            rows = ", ".join([f"{quote_json(host)}: {value:.6f}" for host, value in ranked])
            self._write_object("outliers", f'"map": {quote_json(name)}, "distance": {quote_json(distance)}, '
                                           f'"hosts": {{{rows}}}')

    def _write_object(self, kind: str, members: str) -> None:
        self._objects.write(encode_text(f'{{"type": "{kind}", "data": {{{members}}}}}\n'))


class HostJsonOutput(JsonOutput):
    """Objects with the member ``host``, or for a print() of a map how many ``hosts``, while that is set."""

    host = ""
    hosts = 0  # that are in a map

    def _write_message(self, kind: str, data: str, more: str = "") -> None:
        where = f', "host": {quote_json(self.host)}' if self.host else f', "hosts": {self.hosts}' if self.hosts else ""
        super()._write_message(kind, data, where + more)


class ViewPresenter(Presenter):
    """A view of -f; what it does not show is printed as text on standard error."""

    needs_args = True

    def __init__(self, fleet: FleetState, form: str, descriptor: int, path: str, title: str, by_host: bool,
                 quiet: bool = False) -> None:
        super().__init__(fleet, 1 if path else 2, quiet)
        self._form, self._path, self._title, self._by_host = form, path, title, by_host
        self._columns = [HOST, *fleet.request.columns] if fleet.request.columns else []
        self._stream = Stream(descriptor, FULL)
        self._fed: View | None = None  # once it has begun

    @property
    def _view(self) -> View:
        assert self._fed is not None
        return self._fed

    def begin(self, spec: ScriptSpec) -> None:
        from ...output.views import check_view, view_target
        self._merged = merged_spec(spec, self._by_host)
        target = view_target(self._stream.descriptor, self._path, self._title)
        target.table, target.lead = tuple(self._columns), ("host",)
        self._fed = check_view(self._form, self._merged)(self._merged, self._context, self._write, target)
        self._shown = {m.name: m for m in self._merged.shown_maps if self._view.shows_map(m, self._merged)}

    def _write(self, content: str | bytes) -> None:
        self._stream.write(content if isinstance(content, bytes) else encode_text(content))
        self._stream.flush()

    def show_print(self, item: MergedPrint) -> None:
        if item.name in self._shown:
            self._view.add_map(self._shown[item.name], item.pairs, item.time, item.site.data.get("then") or "")
        else:
            super().show_print(item)

    def show_event(self, event: HostEvent) -> None:
        site = self._spec().sites[event.site]
        rows = bool(self._columns) and site.kind == "printf"
        if rows and not event.cells and not event.heading or not rows and not self._view.shows_event(site):
            super().show_event(event)
            return
        if event.heading:
            self._view.heading((HOST, *event.heading), site.table)
        elif event.cells:
            self._view.row([(HOST, event.host, False), *event.cells], event.time, event.probe, site.table)
        else:
            self._view.add_event(event, site, self._make_safe(self.take_lines(event)))

    def sample(self) -> None:
        for name, named in self._shown.items() if self._fed is not None else ():
            if self._view.wants_samples(named):
                self._view.add_map(named, self.fleet.results.pairs_of(name), self.fleet.now, "")

    def finish(self) -> None:
        if self._fed is not None:
            for name in [named.name for named in self._final_maps() if named.name in self._shown]:
                self._view.add_map(self._shown[name], self.fleet.results.pairs_of(name), self.fleet.now, "final")
            self._view.run = describe_fleet_run(self.fleet, self._title)
            self._view.finish()
        super().finish()

    def close(self) -> None:
        self._stream.flush(True)
        self._stream.close()
        super().close()


class ParquetPresenter(Presenter):
    """Parquet files, as ``sonde export --parquet`` makes them."""

    needs_args = True

    def __init__(self, fleet: FleetState, path: str, by_host: bool, quiet: bool = False) -> None:
        super().__init__(fleet, 1, quiet)
        self._path, self._by_host = path, by_host
        self._opened: ParquetExporter | None = None  # once it has begun

    @property
    def _exporter(self) -> ParquetExporter:
        assert self._opened is not None
        return self._opened

    def begin(self, spec: ScriptSpec) -> None:
        from ...exporters import parquet
        self._merged = merged_spec(spec, self._by_host)
        self._opened = parquet.ParquetExporter(self._path, self._merged, lambda wall: wall,
                                               lambda: describe_fleet_run(self.fleet, self._path), ABOUT)
        self._shown = {m.name: m for m in self._merged.shown_maps}

    def show_print(self, item: MergedPrint) -> None:
        self._exporter.export_map(self._merged.find_map(item.name), item.pairs, item.time)

    def show_event(self, event: HostEvent) -> None:
        from ...library.data_frames import is_row
        site = self._spec().sites[event.site]
        if is_row(site):
            self._exporter.export_event(event, site)
        else:
            super().show_event(event)

    def finish(self) -> None:
        if self._opened is not None:
            for named in self._final_maps():
                pairs = self.fleet.results.pairs_of(named.name)
                self._exporter.export_map(self._merged.find_map(named.name), pairs, self.fleet.now)
            self._exporter.finish()
        super().finish()
        for message in self._exporter.end_messages() if self._opened is not None else ():
            self.out.write_note(message)


class WallClock(Clock):
    """For views: times are Unix nanoseconds already."""

    def __init__(self, fleet: FleetState) -> None:
        self._fleet = fleet

    def wall_clock(self, nanoseconds: int, clock: str) -> int:
        return nanoseconds

    def boot_time(self) -> int:
        return self._fleet.now


def describe_fleet_run(fleet: FleetState, command: str) -> Provenance:
    """Which run a file shows, with the state of the fleet and all losses."""
    kernels = dict.fromkeys(member.kernel for member in fleet.members if member.kernel)
    lost = [fleet.describe_state(100)] if fleet.missing or fleet.lost else []
    return Provenance(terminal_safe(command), f"{len(fleet.complete)} of {len(fleet.members)} hosts",
                      terminal_safe(", ".join(kernels)), fleet.started_at, round(fleet.seconds, 3),
                      [terminal_safe(line) for line in [*lost, *fleet.describe_losses()]])
