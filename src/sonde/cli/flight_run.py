"""The loop of a flight: armed, asleep until a dump is requested, and armed again."""

from __future__ import annotations

import os
import select
import time

from ..base.sd_notify import tell_manager
from ..library.flight.asking import DumpRequest, Listener
from ..library.flight.condition import MapCondition
from ..library.flight.reading import PAUSE, carry_out, check_records, take_dump
from ..library.run_loop import RunLoop
from ..library.traced_run import TracedRun
from ..output import Output, Printer, make_output
from ..output.losses import report_losses
from ..runtime.flight.flight_memory import FlightMemory
from ..runtime.records.batch import Raw
from ..spec import ScriptSpec
from .flight_dumps import DumpFolder, make_printer, print_dump, read_maps, write_dump
from .flight_settings import settings_of
from .options import Parsed
from .requests import open_output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def check_flight(parsed: Parsed, spec: ScriptSpec) -> None:
    """UsageError for a script that cannot fly, or that lacks what --when is about."""
    if parsed.has("when"):
        MapCondition(parsed.get("when"), spec)
    check_records(spec)


def fly(trace: TracedRun, parsed: Parsed, announce: Callable[[TracedRun, Parsed, Output], object]) -> int:
    """Attach, ``announce`` that, write dumps until the end, print the output of ``end``, maps and losses."""
    check_flight(parsed, trace.spec)
    descriptor = open_output(parsed)
    out = make_output("json" if parsed.get("format") == "json" else "text", descriptor, 2, parsed.get("B", "line"),
                      parsed.has("quiet"), trace.ending)
    trace.keeps_maps = False
    settings = settings_of(parsed)
    folder = DumpFolder(settings) if settings.folder else None
    listener = Listener(settings.name)
    try:
        with trace:
            announce(trace, parsed, out)
            return 0 if parsed.has("dry-run") else Flight(trace, parsed, out, folder, listener).run()
    finally:
        listener.close()
        if folder is not None:
            folder.close()
        out.flush(True)
        out.close()
        if descriptor != 1:
            os.close(descriptor)


class Flight:
    """A script in flight."""

    def __init__(self, trace: TracedRun, parsed: Parsed, out: Output, folder: DumpFolder | None,
                 listener: Listener) -> None:
        self._trace, self._parsed, self._out, self._folder, self._listener = trace, parsed, out, folder, listener
        self._settings = settings_of(parsed)
        self._condition = MapCondition(parsed.get("when"), trace.spec) if parsed.has("when") else None
        self._printer: Printer = make_printer(trace, parsed, out)
        self._made = 0
        self._number = self._folder.next_number() if self._folder is not None else 1
        self._armed_at = 0.0  # monotonic: when the script or the condition may ask again
        self._held = 0        # times that they asked before
        self._rests = False   # dump() waits for permission to ask again

    @property
    def _memory(self) -> FlightMemory:
        memory = self._trace.session.flight
        assert memory is not None  # the script is compiled for it
        return memory

    def run(self) -> int:
        """Run until the script has ended; the exit status."""
        trace, session, out, parsed = self._trace, self._trace.session, self._out, self._parsed
        if self._listener.problem:
            out.write_note(f"WARNING: sonde dump cannot reach this flight: {self._listener.problem}")
        self._wait_for_dumps()
        tell_manager("STOPPING=1")
        for records in trace.drain_batches():
            self._handle_records(records, self._printer)
        if self._settings.form != "recording":
            self._printer.print_final_maps()
        if trace.options.warnings:
            report_losses(out, session.losses(), reads=True, count_reads=parsed.has("warnings"))
        if parsed.has("stats"):
            from ..runtime.costs.statistics import probe_costs
            out.report_statistics(probe_costs(session))
        self._held += self._memory.take_held_dumps()
        if not parsed.has("quiet"):
            more = f"; {self._held} more were asked for within {PAUSE:g} s of another" if self._held else ""
            out.write_note(f"{self._made} dump{'' if self._made == 1 else 's'}{more}")
        out.flush(True)
        return session.status if session.reason == "exit" else 0

    def _wait_for_dumps(self) -> None:
        session = self._trace.session
        waiting, resting = select.poll(), select.poll()
        waiting.register(session.waiting.fileno(), select.POLLIN)
        resting.register(session.waiting.record_fileno(), select.POLLIN)
        for each in (waiting, resting):
            each.register(self._listener.fileno(), select.POLLIN)
        loop = RunLoop(self._trace)
        while not session.done:
            waiting.poll(self._seconds_to_sleep())
            resting.poll(int(1000 * session.waiting.rest))
            self._handle_records(loop.read(0), None)
            if self._memory.dump_requested:
                self._memory.dump_requested = False
                self._dump("", "SIGUSR2")
            if loop.maps_requested:
                self._printer.print_maps()
                self._out.flush()
            for request in self._listener.accept_requests():
                self._answer(request)
            if self._condition is not None and self._condition.begins(self._trace.take_map):
                self._dump_unless_held(self._condition.text, "--when")
            self._arm()

    def _seconds_to_sleep(self) -> int | None:
        """The time to sleep in milliseconds, rounded up; None: until something happens."""
        waits = [self._condition.wait] if self._condition is not None else []
        waits += [max(0.0, self._armed_at - time.monotonic())] if self._rests else []
        return int(1000 * min(waits)) + 1 if waits else None

    def _handle_records(self, records: Iterable[Raw], printer: Printer | None) -> None:
        """Do what programs ask of user space. While the script flies (no printer), maps are not printed, but what is to
        be cleared or zeroed is."""
        trace = self._trace
        for record in records:
            if printer is not None and trace.spec.sites[record[0]].kind != "dump":
                printer.print_records((record,), trace.act_on_site)
                continue
            why = carry_out(trace, record)
            if why is not None:
                self._rests = True
                self._dump_unless_held(why, "dump()")

    def _arm(self) -> None:
        """Let the script ask again, if it is time."""
        if self._rests and time.monotonic() >= self._armed_at:
            self._rests = False
            self._held += self._memory.take_held_dumps()

    def _dump_unless_held(self, why: str, by: str) -> None:
        if time.monotonic() < self._armed_at:
            self._held += 1
            return
        self._dump(why, by)
        self._armed_at = time.monotonic() + PAUSE

    def _answer(self, request: DumpRequest) -> None:
        request.answer(self._dump(request.why, "sonde dump"))

    def _dump(self, why: str, by: str) -> str:
        """Make a dump; a sentence that reports it."""
        trace, contents = self._trace, read_maps(self._trace)
        dump = take_dump(trace, self._settings.window, self._number, why, by)
        head = f"Dump {dump.number} ({by}{f': {why}' if why else ''}): {dump.count} records"
        if self._folder is None:
            print_dump(trace, dump, contents, self._out, self._printer)
        else:
            try:
                head += " in " + write_dump(trace, self._parsed, dump, contents, self._folder)
            except OSError as error:  # a full disk: there may be room for the next
                head += f", which could not be written to {self._folder.path}: {error.strerror}"
                self._out.write_note(f"ERROR: {head}")
                return head
            if not self._parsed.has("quiet"):
                self._out.write_note(head)
        self._number += 1
        self._made += 1
        return head
