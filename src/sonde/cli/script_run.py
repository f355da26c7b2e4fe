"""A run from the command line: records printed as they arrive, until the end."""

from __future__ import annotations

import os

from ..base.sd_notify import tell_manager
from ..errors import UsageError
from .display_choice import is_watched
from .options import Parsed
from .requests import open_output

_LOOK = 0.5  # s: between looks at groups of rows that may be whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..base.end_request import Ending
    from ..library.traced_run import TracedRun
    from ..output import Output, Printer
    from ..output.progress import Progress
    from ..output.unseen import UntracedChildren
    from ..output.views import Showing
    from .watched_run import Follower


def run(trace: TracedRun, parsed: Parsed) -> int:
    """Attach, print until the end, print maps and losses, detach."""
    from ..output import make_output
    _set_process_name("sonde")
    if parsed.has("flight"):
        from .flight_run import fly
        return fly(trace, parsed, _announce_run)
    if parsed.command:
        from .watched_run import show_live
        return show_live(trace, parsed)
    showing = _showing(trace, parsed)
    descriptor = open_output(parsed)
    follower = _follower(trace, parsed, showing)
    if follower is not None and follower.screen is not None:
        out: Output = follower.screen
        if showing is not None:
            showing.text = out
            showing.open(descriptor)
    elif showing is not None:
        out = showing.open(descriptor)
    else:
        out = make_output(parsed.get("format", "text"), descriptor, 2, parsed.get("B", "line"), parsed.has("quiet"),
                          trace.ending)
    # Views and recordings read maps before they are emptied; what comes after --count blocks does not happen.
    trace.clears_at_once = parsed.get("format", "text") in ("text", "json") and not parsed.has("count")
    try:
        with trace:
            return _print_all(trace, parsed, out, showing, follower)
    finally:
        if follower is not None and follower.screen is not None:
            follower.screen.leave_screen()
        out.flush(True)
        out.close()
        if showing is not None:
            showing.close()
        if descriptor != 1:
            os.close(descriptor)


def _showing(trace: TracedRun, parsed: Parsed) -> Showing | None:
    """The view of -f, if it asks for one and the script has what it shows."""
    name = parsed.get("format", "text")
    if name in ("text", "json", "recording"):
        return None
    from ..output.views import Showing
    if trace.options.mode:
        raise UsageError("tests and benchmarks are printed as text or json")
    return Showing(name, trace.spec, parsed.get("output"), parsed.has("quiet"), parsed.get("title"), parsed.get("unit"),
                   trace.ending, trace.memory, parsed.columns, parsed.get("lines-form"), parsed.get("lines-file"))


def _set_process_name(name: str) -> None:
    """Set the name that ps shows, and by which scripts leave out the tracer (``comm``)."""
    try:
        with open("/proc/self/comm", "w", encoding="utf-8") as file:
            file.write(name)
    except OSError:
        pass


def _raise_priority(ending: Ending) -> None:
    """Raise our priority: detaching must finish within a second on a busy machine. A priority that the user has chosen
    stays."""
    if os.getpriority(os.PRIO_PROCESS, 0) == 0:
        try:
            os.setpriority(os.PRIO_PROCESS, 0, -20)
            ending.first = True
        except PermissionError:
            pass


def _follower(trace: TracedRun, parsed: Parsed, showing: Showing | None) -> Follower | None:
    """The run loop of what is redrawn, counted or looked at; None if records are just to be printed."""
    if not is_watched(parsed) or trace.options.mode:
        return None
    from . import watched_run
    sample = showing.sample_maps if showing is not None else None
    if sample is not None and trace.keeps_samples(sample):
        sample = None
    return watched_run.Follower(trace, parsed, watched_run.make_blocks(trace, parsed, showing), sample)


def _print_all(trace: TracedRun, parsed: Parsed, out: Output, showing: Showing | None = None,
               follower: Follower | None = None) -> int:
    from ..output.losses import report_losses, report_unfinished
    from ..output.unseen import EmptyPicture, UntracedChildren
    session = trace.session
    printer = _make_printer(trace, parsed, out, showing)
    printer.is_incomplete = session.is_incomplete
    trace.keeps_maps = False
    children = UntracedChildren(trace.process if trace.options.warnings and not trace.options.is_followed else None)
    if os.isatty(2) and not parsed.has("quiet"):
        trace.when_reading(_reading_bar())
    _announce_run(trace, parsed, out)
    children.warn(out)
    if parsed.has("dry-run"):
        return 0
    if trace.options.mode:
        return _rehearse(trace, printer, out, parsed.get("format", "text"))
    if follower is not None:
        follower.run_loop(printer, out.flush)
        _prepare_end(trace, out, children)
        follower.print_rest(printer)
    else:
        _follow(trace, printer, out, showing)
        _prepare_end(trace, out, children)
        for records in trace.drain_batches():
            printer.print_batches(records, trace.act_on_site)
    printer.print_final_maps()
    if showing is not None:
        showing.finish(trace.provenance)
    if trace.options.warnings:
        report_losses(out, session.losses(), reads=True, count_reads=parsed.has("warnings"))
        report_unfinished(out, printer.commands_left)
    if showing is None and parsed.has("output") and session.losses():
        out.write_provenance(trace.provenance)
    if parsed.has("stats"):
        from ..runtime.costs.statistics import probe_costs
        out.report_statistics(probe_costs(session))
    if session.detaching:
        out.write_note(f"Detaching {session.detaching} probes, which this kernel does one by one ...")
    status = session.status & 0xFF if session.reason == "exit" else 0
    if showing is not None and showing.is_empty:
        EmptyPicture(trace.provenance.seconds, trace.process, session.reason, trace.spec, children.count,
                     trace.options.is_followed).report(out)
        status = status or 1
    out.flush(True)
    return status


def _prepare_end(trace: TracedRun, out: Output, children: UntracedChildren) -> None:
    _raise_priority(trace.ending)
    tell_manager("STOPPING=1")
    children.warn(out)


def _make_printer(trace: TracedRun, parsed: Parsed, out: Output, showing: Showing | None) -> Printer:
    from ..output import Printer
    warnings = trace.options.warnings
    if showing is not None:
        printer: Printer = showing.make_printer(trace.spec, trace.context, trace.take_map, trace.act_on_site, warnings,
                                                trace.outside)
    elif parsed.get("format") == "recording":
        from ..recording.recorder import KeepingPrinter
        printer = KeepingPrinter(trace.spec, trace.context, out, trace.take_map, warnings, outside=trace.outside)
    else:
        columns = parsed.columns if parsed.get("format") == "json" else ()
        printer = Printer(trace.spec, trace.context, out, trace.take_map, warnings, columns, trace.outside)
    printer.ending = trace.ending
    if trace.spec.config.group_rows and parsed.get("format") != "recording":
        printer.group_rows(trace.memory.views)
    return printer


def _announce_run(trace: TracedRun, parsed: Parsed, out: Output) -> None:
    """Print the session's warnings and what is attached; the session prints what it reports later."""
    _say_warnings(trace, parsed, out)
    trace.session.tell = out.write_note
    if trace.options.warnings:
        trace.session.tell_full = out.report_full_map
    if not parsed.has("dry-run"):
        _say_attached(trace, parsed, out)


def _say_warnings(trace: TracedRun, parsed: Parsed, out: Output) -> None:
    """Print the warnings of loading and attaching."""
    for warning in trace.session.warnings:
        out.write_note(f"WARNING: {warning.message}")
        for hint in warning.hints if parsed.has("verbose") else []:
            out.write_note(f"HINT: {hint}")
    if trace.retried is not None and parsed.has("verbose"):
        out.write_note(f"compiled again, more plainly: {trace.retried.cause}")


def _say_attached(trace: TracedRun, parsed: Parsed, out: Output) -> None:
    """To people, to test suites that wait for it, to the service manager."""
    if not trace.options.mode:
        out.report_attached(trace.session.attached)
        out.flush()
    if os.environ.get("__BPFTRACE_NOTIFY_PROBES_ATTACHED"):
        out.write_text(b"__BPFTRACE_NOTIFY_PROBES_ATTACHED\n")
        out.flush(True)
    tell_manager("READY=1")
    if parsed.has("verbose"):
        from .attach_report import report_methods
        from .memory_report import report_memory
        report_methods(trace, out)
        report_memory(trace, out)
    for path in trace.session.pinned:
        out.write_note(f"Pinned: cat {path} runs it; rm {path} removes it")


def _reading_bar() -> Callable[[str, int, int], None]:
    """Says how far the reading of a large map is."""
    bars: list[Progress | None] = []

    def tell(name: str, done: int, whole: int) -> None:
        from ..output.progress import make_progress
        bar = bars[0] if bars else make_progress()
        bars[:] = [bar]
        if bar is not None:
            bar.show_progress(f"reading {name}", done, whole, "keys")
            if done >= whole:
                bar.clear_bar()
    return tell


def _follow(trace: TracedRun, printer: Printer, out: Output, showing: Showing | None) -> None:
    """Print what comes until the script has ended."""
    from ..library.run_loop import RunLoop
    groups = printer.groups
    loop = RunLoop(trace, longest_wait=None if groups is None else lambda: _LOOK)
    for records in loop:
        printer.print_batches(records, trace.act_on_site)
        if groups is not None and not records:
            groups.print_quiet(trace.context.boot_time())
        if loop.maps_requested and showing is None:  # a view is made once, at the end
            printer.print_maps()
        out.flush()


def _rehearse(trace: TracedRun, printer: Printer, out: Output, form: str) -> int:
    """Run tests or benchmarks between begin and end."""
    from . import tests_and_benchmarks
    printer.print_records(trace.next_records(0), trace.act_on_site)
    tests = trace.options.mode == "test"
    status = (tests_and_benchmarks.run_tests if tests else tests_and_benchmarks.run_benchmarks)(trace, out, form)
    printer.print_records(trace.drain_records(), trace.act_on_site)
    out.write_separator()
    return status
