"""Runs that are watched: blocks redrawn in place, maps read every second, ``sonde top`` and ``sonde serve``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable

from ..base.sd_notify import tell_manager
from ..errors import UsageError
from ..kernel.clocks import boot_time
from ..language.comments import column_descriptions
from ..library.run_loop import RunLoop
from ..output.live.full_screen import require_screen, run_app_beside
from .display_choice import count, counts_down, every, pictures, redraws, runs_tests, whole_number
from .options import Parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..library.traced_run import TracedRun
    from ..output import Output, Printer
    from ..output.live.blocks import Blocks, Counter
    from ..output.live.model import Snapshot
    from ..output.progress import Progress
    from ..output.views import Showing
    from ..recording.replay import ReplayTrace
    from ..runtime.losses import Losses
    from ..spec import ScriptSpec

LOOK = 0.25           # s: so often the terminal's size is looked at while nothing happens
_SETTLED = 100_000_000  # ns after the begin of a block in which all of it has come

_Records = Iterable[tuple[int, bytes, int]]


def make_blocks(trace: TracedRun, parsed: Parsed, showing: Showing | None) -> Blocks | None:
    """The output that redraws, if this run does."""
    title = _run_title(parsed)
    if showing is not None:
        if not pictures(parsed):
            return None
        from ..output.live.blocks import Blocks
        return Blocks(trace.spec, title, parsed.has("quiet"), 2, showing.render_picture, trace.ending)
    if not redraws(parsed):
        return None
    from ..output.live.blocks import Blocks
    return Blocks(trace.spec, title, parsed.has("quiet"), ending=trace.ending)


def _run_title(parsed: Parsed) -> str:
    """What is running, for headings."""
    return parsed.tool or (os.path.basename(parsed.words[0]) if parsed.words and not parsed.has("e") else "sonde")


class Follower:
    """The run loop of a watched run: ``handle`` prints one record."""

    def __init__(self, trace: TracedRun, parsed: Parsed, screen: Blocks | None,
                 sample: Callable[[], object] | None) -> None:
        from ..output.live.blocks import Counter
        self.trace = trace
        self.screen = screen
        self.sample = sample
        self._counter: Counter = screen.counter if screen is not None else Counter(trace.spec)
        self._most = count(parsed)
        if self._most and not self._counter.periods:
            raise UsageError("--count counts what interval probes print, and this script has none")
        self._every = every(parsed)
        self._next = time.monotonic() + self._every
        self._enough = False
        drawn = parsed.command or screen is not None and pictures(parsed)
        self._bar = None if drawn else _make_bar(parsed)
        self._seconds = parsed.seconds
        self._started = 0.0
        self._time = 0

    def run_loop(self, printer: Printer, flush: Callable[[], object]) -> None:
        """Until the script has ended; what is left is for :meth:`print_rest`."""
        session = self.trace.session
        self._started = time.monotonic()
        loop = RunLoop(self.trace, longest_wait=self._longest_wait)
        for records in loop:
            if self._bar is not None and (records or session.done):
                self._bar.clear_bar()
            self._print_records(printer, records)
            if loop.maps_requested and self.sample is None:  # else the maps are to be seen
                printer.print_maps()
            flush()
            self._look_at_maps()
            if self._most and self._has_settled():
                session.request_end("count")

    def print_rest(self, printer: Printer) -> None:
        """Detach, and print what is left: after --count only what ``end`` prints."""
        if self._bar is not None:
            self._bar.clear_bar()
        records, enough = self.trace.drain_records(), self._enough
        self._print_records(printer, (each for each in records if not enough or self._probe_of_record(each) == "end"))
        for _ in records:  # what is left of a block that is one too many
            pass
        if self.screen is not None:
            self.screen.leave_screen()

    def _longest_wait(self) -> float:
        wait = LOOK if self.screen is not None or self._most or self._bar is not None else 3600.0
        if self.sample is not None:
            wait = min(wait, LOOK, max(0.0, self._next - time.monotonic()))
        return wait

    def _look_at_maps(self) -> None:
        now = time.monotonic()
        if self.sample is not None and now >= self._next:
            self.sample()
            done = time.monotonic()
            self._next = max(self._next + self._every, done + 4 * (done - now))  # a fifth of the time, at most
        if self.screen is not None:
            self.screen.set_losses(losses_in_words(self.trace.session.losses()))
            self.screen.draw_if_changed()
        if self._bar is not None and not self.trace.session.done and not (self.screen and self._counter.blocks):
            self._bar.show_progress("tracing", now - self._started, self._seconds, "s", True)

    def _has_settled(self) -> bool:
        """Have all blocks that were asked for come whole?"""
        if self._counter.blocks < self._most:
            return False
        self._enough = self._enough or boot_time() - self._counter.begun > _SETTLED
        return self._enough

    def _probe_of_record(self, record: tuple[int, bytes, int]) -> str:
        _, buffer, offset = record
        number = int.from_bytes(buffer[offset + 4:offset + 8], sys.byteorder)
        return self.trace.spec.probes[number] if number < len(self.trace.spec.probes) else ""

    def _print_records(self, printer: Printer, records: _Records) -> None:
        for record in records:
            _, buffer, offset = record
            if not self._accepts_record(self._probe_of_record(record), buffer, offset):
                return
            printer.print_records((record,), self.trace.act_on_site)

    def _accepts_record(self, probe: str, buffer: bytes, offset: int) -> bool:
        """Note where a record comes from; False if it belongs to a block that is one too many."""
        self._time = int.from_bytes(buffer[offset + 8:offset + 16], sys.byteorder) or self._time
        if self.screen is not None:
            self.screen.switch_probe(probe, self._time)
        elif probe in self._counter.periods:
            self._counter.is_new(probe, self._time)
        if self._most and self._counter.blocks > self._most:
            self._enough = True
            self.trace.session.request_end("count")
            return False
        return True


def _make_bar(parsed: Parsed) -> Progress | None:
    from ..output.progress import make_progress
    return make_progress(parsed.has("quiet")) if counts_down(parsed) else None


def losses_in_words(losses: Losses) -> str:
    """All that was lost, in a line; "" if nothing was."""
    parts = [(sum(n for _, n in losses.records), "events lost"),
             (sum(n for site, n in losses.errors if site.kind == "map_full"), "updates found a map full"),
             (sum(n for site, n in losses.errors if site.kind not in ("map_full", "read")), "warnings"),
             (sum(n for _, n in losses.skipped), "skipped by the kernel"), (losses.late, "out of order"),
             (sum(n for _, n in losses.withheld.events) if losses.withheld else 0, "skipped for the budget"),
             (losses.withheld.detached_ns // 1_000_000_000 if losses.withheld else 0, "s not traced for the budget")]
    return ", ".join([f"{n} {what}" for n, what in parts if n])


# --- top and serve ----------------------------------------------------------------------------------------


class LiveRun:
    """A run whose model is shown by something else than text, until :meth:`finish` prints what is left."""

    def __init__(self, trace: TracedRun, parsed: Parsed, publish: Callable[[Snapshot], object]) -> None:
        from ..output.live.model import Model, ModelPrinter
        self.trace = trace
        self.parsed = parsed
        self.publish = publish
        title = f"sonde {_run_title(parsed)}" if _run_title(parsed) != "sonde" else "sonde"
        self.model = Model(trace.spec, title, parsed.tool, parsed.columns,
                           descriptions=column_descriptions(trace.spec.source.text))
        self.printer = ModelPrinter(trace.spec, trace.context, trace.take_map, self.model, trace.options.warnings)
        self.follower = Follower(trace, parsed, None, self.publish_state)

    def publish_state(self, ended: str = "") -> None:
        """Read the maps and publish what there is."""
        self.model.read_maps(self.trace.take_map)
        self.publish(self.model.take_snapshot(self.trace.session, ended))

    def trace_session(self) -> None:
        """Trace until the session is done, in the thread that calls this."""
        for warning in self.trace.session.warnings:
            self.model.out.write_note(f"WARNING: {warning.message}")
        self.trace.session.tell = self.model.out.write_note
        self.publish_state()
        self.follower.run_loop(self.printer, self.model.gather_text)
        self.publish_state(_ENDS.get(self.trace.session.reason, self.trace.session.reason))

    def finish_run(self, out: Output) -> int:
        """Detach; print what ``end`` prints, the maps and the losses."""
        from ..output import Printer
        from ..output.losses import report_losses
        trace = self.trace
        printer = Printer(trace.spec, trace.context, out, trace.take_map, trace.options.warnings)
        printer.is_incomplete = trace.session.is_incomplete
        self.follower.print_rest(printer)
        printer.print_final_maps()
        if trace.options.warnings:
            report_losses(out, trace.session.losses(), reads=True, count_reads=trace.options.count_reads)
        out.flush(True)
        return trace.session.status if trace.session.reason == "exit" else 0


# How a session's reason reads on the screen.
_ENDS = {"exit": "the script called exit()", "signal": "interrupted", "child": "the command has ended",
         "process": "the process has ended", "count": "--count", "quit": "quit", "iterators": "all has been read"}


def show_live(trace: TracedRun, parsed: Parsed) -> int:
    """``sonde top`` and ``sonde serve``."""
    from ..output import make_output
    if parsed.get("format", "text") not in ("text", "json") or runs_tests(parsed) or parsed.has("dry-run"):
        raise UsageError(f"sonde {parsed.command} shows a running script; -f, --test, --bench and --dry-run have no "
                         "place there")
    port = whole_number(parsed, "port", 0)
    every(parsed)
    from .requests import open_output
    descriptor = open_output(parsed)
    out = make_output(parsed.get("format", "text"), descriptor, 2, parsed.get("B", "line"), parsed.has("quiet"),
                      trace.ending)
    try:
        trace.keeps_maps = False
        with trace:
            out.report_attached(trace.session.attached)
            tell_manager("READY=1")
            if parsed.command == "serve":
                return _show_in_browser(trace, parsed, out, port)
            return _show_on_terminal(trace, parsed, out)
    finally:
        tell_manager("STOPPING=1")
        out.flush(True)
        out.close()
        if descriptor != 1:
            os.close(descriptor)


def _show_in_browser(trace: TracedRun, parsed: Parsed, out: Output, port: int) -> int:
    from ..output.live.serve import PageServer
    server = PageServer(port)
    try:
        shown = LiveRun(trace, parsed, server.publish_snapshot)
        out.write_note(f"Serving on {server.url} until Ctrl-C")
        if shows_nothing(trace.spec):
            out.write_note("WARNING: the script prints nothing and keeps no maps: the page stays empty")
        shown.trace_session()
    finally:
        server.close()
    return shown.finish_run(out)


def shows_nothing(spec: ScriptSpec) -> bool:
    """Whether a script has neither maps nor anything that it prints."""
    return not spec.shown_maps and all(site.control for site in spec.sites)


def _show_on_terminal(trace: TracedRun, parsed: Parsed, out: Output) -> int:
    with require_screen("sonde serve, or the program by itself"):
        from ..output.live.top import TopApp
    app = TopApp(lambda: trace.session.request_end("quit"), trace.ending)
    shown = LiveRun(trace, parsed, app.show_snapshot)

    def trace_session() -> None:
        shown.trace_session()
        if trace.session.reason == "signal":
            app.give_up()

    run_app_beside(app, "sonde-session", trace_session, lambda: trace.session.request_end("quit"))
    return shown.finish_run(out)


def _reading_bar() -> Callable[[int, int], None]:
    from ..output.progress import make_progress
    bar = make_progress()

    def tell(done: int, whole: int) -> None:
        if bar is not None:
            bar.show_progress("reading the recording", done >> 10, whole >> 10, "KiB")
            if done >= whole:
                bar.clear_bar()
    return tell


def show_recording(trace: ReplayTrace) -> int:
    """``sonde top`` over a recording: read whole, and shown with a slider."""
    from ..recording.pictures import read_frames
    with require_screen("sonde replay"):
        from ..output.live.slider import SliderApp
    facts = trace.recording.facts
    with trace:
        title = f"sonde {facts.tool or facts.title or 'recording'}"
        app = SliderApp(read_frames(trace, title, facts.tool, facts.columns, _reading_bar()))
        app.run()
        if app.failure is not None:
            raise app.failure
    return 0
