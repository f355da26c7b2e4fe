"""``sonde export``: passes what a script collects to Prometheus, an OpenTelemetry collector, or Parquet files."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack

from ...base.numbers import parse_whole
from ...base.sd_notify import tell_manager
from ...errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ...exporters import Exporter
    from ...exporters.metrics import Family, Gatherer
    from ...library.traced_run import TracedRun
    from ...output import Output
    from ...runtime.records.batch import Batch, Records
    from ...source import Source
    from ...spec import MapSpec
    from ..options import Parsed

PAGE = """\
export: give what a script or a tool collects to Prometheus, OpenTelemetry or Parquet

USAGE
  sonde export --prometheus [ADDRESS] SCRIPT [parameters]
  sonde export --otlp [URL] [--interval SECONDS] SCRIPT [parameters]
  sonde export --otlp-logs [URL] SCRIPT [parameters]
  sonde export --otlp-profiles [URL] [--interval SECONDS] SCRIPT [parameters]
  sonde export --parquet FILE SCRIPT [parameters]

  SCRIPT is a file, a tool, or -e PROGRAM; -p and -c work as everywhere. Runs until Ctrl-C, SIGTERM, or exit().
  Several of them may be given together.

OPTIONS
  --prometheus [ADDRESS]   serve http://ADDRESS/metrics (127.0.0.1:9941); read anew for each scrape
  --otlp [URL]             send to a collector (http://127.0.0.1:4318/v1/metrics), and once more at the end; what is
                           missing in URL is as here: HOST:4318 is http://HOST:4318/v1/metrics
  --otlp-logs [URL]        send what a tool or printf() prints, row by row, as log records
                           (http://127.0.0.1:4318/v1/logs)
  --otlp-profiles [URL]    send maps keyed by stacks to a collector as a profile: when the run ends or, with --interval,
                           also meanwhile, each time of what came since
                           (http://127.0.0.1:4318/v1development/profiles); alpha, as OTLP's profiles are
  --interval SECONDS       between two sendings of --otlp (10), or two profiles
  --parquet FILE           write events and maps; with several tables FILE.events.parquet, FILE.MAP.parquet ...
  --keys NUMBER            label sets of each map (1000); what comes later counts as "other"
  --prefix NAME            metrics are called sonde_NAME_MAP (the file's or tool's name)

COLUMNS
  sonde_SCRIPT_MAP_UNIT       the map: count() and unsigned sum() as counter, hist() and lhist() as histogram, stats()
                              as summary, other numbers as gauge
  sonde_trace_lost_events     by probe: events that found the ring full
  sonde_trace_skipped_events  by probe: the kernel did not run the program
  sonde_trace_withheld_events   by probe: skipped since --budget was spent
  sonde_trace_detached_seconds  for how long probes were detached for --budget: what came then is not counted
  sonde_trace_failures        by kind and line: map full, failed reads, lost stacks ...
  sonde_trace_info            1, with the labels command, host and kernel
  sonde_trace_start_time_seconds  when everything had been attached, in seconds since 1970
  sonde_trace_traced_seconds  for how long it has been
  sonde_trace_other_keys      by map: keys that count as "other" for want of label sets

EXAMPLE
  # sonde export --prometheus -e 'tracepoint:raw_syscalls:sys_enter { @calls[comm] = count(); }'
  Serving metrics on http://127.0.0.1:9941/metrics
  # curl -s http://127.0.0.1:9941/metrics
  sonde_calls_total{comm="cron"} 14.0
  sonde_calls_total{comm="sshd"} 2371.0

NEEDS
  the Python packages of the extra `export`, but for --otlp-logs and --otlp-profiles; without them it is said how to
  get them

NOTES
  Labels are called as the script names its keys (// @sent[COMM, PORT]: bytes, or so in COLUMNS), or as they are
  written (comm, args.ret -> ret). For their sums, histograms keep one word more in the kernel than in other runs. What
  a script prints and clears at intervals is added up. `sonde unit` makes a systemd service of it. A map whose values
  are no numbers is left out, and said; and so are, silently, maps that the script clears in `end` and never prints: it
  keeps them for itself.
"""

TARGETS = ("prometheus", "otlp", "otlp-logs", "otlp-profiles", "parquet")


def main(parsed: Parsed) -> int:
    """Trace and export; the exit status."""
    from .. import requests
    exports = requested_exports(parsed)
    source, params = requests.program_of(parsed)
    if source is None:
        return 0
    options, process = requests.options_and_process(parsed, params)
    options.timed, options.sums = True, "prometheus" in exports or "otlp" in exports
    trace = requests.new_trace(source, options, process, parsed)
    for warning in trace.spec.warnings if options.warnings else []:
        requests.print_to_stderr(warning.render())
    with trace:
        return _run_export(trace, parsed, exports)


def requested_exports(parsed: Parsed) -> dict[str, str]:
    """The exporters with their arguments; puts the script at the head of ``parsed.words``."""
    own = parsed.command_options
    del parsed.words[0]
    for name in TARGETS[:-1]:
        word = own.get(name, "")
        if word and "://" not in word and not _is_address(word):
            if parsed.has("e"):
                raise UsageError(f"--{name} takes an address, not '{word}'", ["for example collector:4318"])
            parsed.words.insert(0, word)  # it was the script already
            own[name] = ""
    exports: dict[str, str] = {name: own.pop(name) for name in TARGETS if name in own}
    if not exports:
        raise UsageError("export where to? --prometheus, --otlp, --otlp-logs, --otlp-profiles or --parquet FILE",
                         ["sonde export --help explains"])
    if "interval" in own and "otlp-profiles" in exports:
        exports["period"] = own["interval"]
    exports["interval"], exports["keys"] = own.pop("interval", "10"), own.pop("keys", "1000")
    if not _is_decimal(exports["interval"]) or not 0.1 <= float(exports["interval"]) <= 86400:
        raise UsageError(f"--interval takes a number of seconds from 0.1 to 86400, not '{exports['interval']}'")
    if not parse_whole(exports["keys"]):
        raise UsageError(f"--keys takes a whole number from 1 up, not '{exports['keys']}'")
    if "prefix" in own:
        exports["prefix"] = own.pop("prefix")
    return exports


def _is_decimal(text: str) -> bool:
    return text.isascii() and text.replace(".", "", 1).isdigit()


def _is_address(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    return parse_whole(port) is not None and not os.path.exists(text) and bool(colon or not host)


def script_name(source: Source) -> str:
    """The name of a file or tool; "" for -e and standard input."""
    return "" if source.name == "stdin" else os.path.splitext(os.path.basename(source.name))[0]


def _run_export(trace: TracedRun, parsed: Parsed, exports: dict[str, str]) -> int:
    from ...exporters.metrics import Gatherer, explain_emptiness
    from ...output import make_output
    from .. import requests
    lock = threading.Lock()
    prefix = exports.get("prefix", script_name(trace.source))
    gatherer = Gatherer(trace.spec, trace.take_map, lambda: trace.losses, prefix, int(exports["keys"]),
                        lambda: trace.provenance)
    if "prometheus" in exports or "otlp" in exports:
        if gatherer.left_out:
            names = ", ".join(gatherer.left_out)
            requests.print_to_stderr(f"WARNING: no metrics of {names}: the values are no numbers")
        for line in explain_emptiness(trace.spec, script_name(trace.source)):
            requests.print_to_stderr(line)
    out = make_output("text", 1, 2, parsed.get("B", "line"), parsed.has("quiet"), trace.ending)
    exporters = _make_exporters(trace, gatherer, exports, lock)
    try:
        if not parsed.has("quiet"):
            for exporter in exporters:
                out.write_note(exporter.start_message())
        out.report_attached(len(trace.spec.probes))
        tell_manager("READY=1")
        status = _run_exporters(trace, gatherer, exporters, out, lock)
    finally:
        tell_manager("STOPPING=1")
        with ExitStack() as ending:  # all of them, whatever one says
            for exporter in exporters:
                ending.callback(exporter.finish)
        for line in [line for each in exporters for line in each.end_messages()]:
            out.write_note(line)
    return status or int(any(exporter.failed for exporter in exporters))


def _make_exporters(trace: TracedRun, gatherer: Gatherer, exports: dict[str, str],
                    lock: AbstractContextManager[object]) -> list[Exporter]:
    def gather_families() -> list[Family]:
        with lock:
            return gatherer.gather_families()

    made: list[Exporter] = []
    try:
        if "parquet" in exports:
            from ...exporters.parquet import ParquetExporter as Parquet
            made.append(Parquet(exports["parquet"], trace.spec, lambda ns: int(trace.context.wall_clock(ns, "boot")),
                                lambda: trace.provenance))
        if "prometheus" in exports:
            from ...exporters.prometheus import PrometheusExporter as Prometheus
            made.append(Prometheus(exports["prometheus"], gather_families))
        if any(name.startswith("otlp") for name in exports):
            _add_senders(made, trace, gather_families, exports, lock)
    except BaseException:
        for exporter in made:
            exporter.finish()
        raise
    return made


def _add_senders(made: list[Exporter], trace: TracedRun, gather: Callable[[], list[Family]], exports: dict[str, str],
                 lock: AbstractContextManager[object]) -> None:
    """Make the exporters to a collector."""
    from ...exporters.resource import Resource
    from .. import requests
    name, tell = script_name(trace.source), requests.print_to_stderr
    options = trace.options
    facts = Resource(name, trace.provenance.command, options.pid or options.cpid, options.group).facts

    def losses() -> list[str]:
        with lock:
            return trace.losses.sentences

    if "otlp" in exports:
        from ...exporters.otlp import OtlpExporter as Otlp
        made.append(Otlp(exports["otlp"], gather, float(exports["interval"]), tell, facts))
    if "otlp-logs" in exports:
        from ...exporters.otlp_logs import LogsExporter as Logs
        made.append(Logs(exports["otlp-logs"], trace.spec, trace.context, facts, losses, tell, name))
    if "otlp-profiles" in exports:
        from ...exporters.otlp_profiles import ProfilesExporter as Profiles
        made.append(Profiles(exports["otlp-profiles"], trace.spec, trace.memory.views, lambda: trace.provenance, tell,
                             facts, float(exports.get("period", "0"))))


def _run_exporters(trace: TracedRun, gatherer: Gatherer, exporters: list[Exporter], out: Output,
                   lock: AbstractContextManager[object]) -> int:
    """Run the exporters until the script ends. Readers and writers of the maps hold the lock."""
    from time import time_ns

    from ...library.run_loop import RunLoop
    from ...output.losses import report_losses
    session = trace.session
    session.tell = out.write_note
    handlers, of_many = _make_handlers(trace, gatherer, exporters, out), _compile_rows(trace, exporters)
    for records in RunLoop(trace, longest_wait=lambda: 1.0):
        _handle_records(handlers, of_many, records, lock)
        for exporter in exporters:
            if maps := exporter.due_maps():
                with lock:
                    for named in maps:
                        _export_map(gatherer, exporters, named, "clear", time_ns())
                    exporter.end_period()
        out.flush()
    for records in trace.drain_batches():
        _handle_records(handlers, of_many, records, lock)
    with lock:
        for named in trace.spec.shown_maps:
            items = trace.take_map(named.name)
            for exporter in exporters:
                exporter.export_map(named, items, time_ns())
                exporter.add_map(named, items, "final")
    report_losses(out, session.losses())
    out.flush(True)
    return session.status if session.reason == "exit" else 0


def _export_map(gatherer: Gatherer, exporters: list[Exporter], named: MapSpec, then: str, shown: int) -> None:
    """Give a map to all exporters, with what happens to it now; ``shown``: when the script showed it (ns since 1970),
    or 0."""
    items = gatherer.read_map(named.name, then)
    for exporter in exporters:
        exporter.add_map(named, items, then)
        if shown:
            exporter.export_map(named, items, shown)


def _compile_rows(trace: TracedRun, exporters: list[Exporter]) -> dict[int, Callable[[Batch], object]]:
    """The functions for many records of a site, by site, where the one exporter that takes events has such."""
    takers = [exporter for exporter in exporters if exporter.takes_events]
    made = {index: takers[0].compile_rows(index, trace.context) for index in range(len(trace.spec.sites))} \
        if len(takers) == 1 else {}
    return {index: handle for index, handle in made.items() if handle is not None}


def _handle_records(handlers: list[Callable[[bytes, int], object]], of_many: dict[int, Callable[[Batch], object]],
                    records: Records, lock: AbstractContextManager[object]) -> None:
    for batch in records.batches:
        handle = of_many.get(batch.sites) if isinstance(batch.sites, int) and len(batch) > 1 else None
        if handle is not None:
            handle(batch)
            continue
        for site, buffer, offset in batch:
            with lock:
                handlers[site](buffer, offset)


def _make_handlers(trace: TracedRun, gatherer: Gatherer, exporters: list[Exporter],
                   out: Output) -> list[Callable[[bytes, int], object]]:
    """The handlers of records, by site: maps go to the exporters, text to standard output."""
    from ...output import Printer
    from ...runtime.records.events import EventDecoder
    decode = EventDecoder(trace.spec, trace.context).decode
    plain = Printer(trace.spec, trace.context, out, trace.take_map, trace.options.warnings).handlers
    takers = [exporter for exporter in exporters if exporter.takes_events]

    def make_handler(index: int) -> Callable[[bytes, int], object]:
        from ...library.data_frames import is_row
        site = trace.spec.sites[index]
        if site.kind in ("print_map", "clear", "zero"):
            then = site.data.get("then") or "" if site.kind == "print_map" else site.kind
            named = trace.spec.find_map(site.data["map"])

            def export_map(buffer: bytes, offset: int) -> None:
                if site.kind != "print_map" and not trace.knows_map(named.name):
                    return
                shown = site.kind == "print_map" or then == "clear" and named.at_end == "shows"
                when = trace.context.wall_clock(decode(buffer, offset).time, "boot") if shown else 0
                _export_map(gatherer, exporters, named, then, int(when))
            return export_map
        if takers and is_row(site):
            of_takers = [exporter.row_handler(index, site, decode) for exporter in takers]

            def export_row(buffer: bytes, offset: int) -> None:
                for handle in of_takers:
                    handle(buffer, offset)
            return export_row if len(of_takers) > 1 else of_takers[0]
        return plain[index] or (lambda buffer, offset: None)
    return [make_handler(index) for index in range(len(trace.spec.sites))]
