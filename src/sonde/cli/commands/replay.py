"""``sonde replay``: what a recorded run printed, or any other form of it."""

from __future__ import annotations

import os
import time

from ...errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...base.json_checks import Json
    from ...base.memory_budget import Memory
    from ...fleet.recording import FleetRecording
    from ...recording.replay import Recording, ReplayTrace
    from ...spec import ScriptSpec
    from ..options import Parsed

PAGE = """\
replay: what a recorded run printed, or its flame graph, heat map, table ..., without the machine that it ran on

USAGE
  sonde replay [-f FORMAT] [-o FILE] RECORDING
  sonde replay --parquet FILE RECORDING
  sonde replay RECORDING FILE | -e PROGRAM

  Prints the same bytes as the run did, in any format of -f: the run itself may have been recorded in another one. It
  needs no rights and asks the kernel nothing. With FILE or -e a script is evaluated over events that sonde record
  --events has kept, with the answers that it would have had beside the recording. Of the recording of a fleet the hosts
  can be kept apart, whether or not the run did.

OPTIONS
  --parquet FILE    write events and maps as sonde export --parquet does
  --by host         of a fleet: keep hosts apart
  --outliers        of a fleet: rank the hosts by how far their distribution is from the rest

COLUMNS
  those of the script or tool

EXAMPLE
  # sonde record -o calls.sonde -e 'tracepoint:raw_syscalls:sys_enter { @[comm] = count(); } interval:s:1 { exit(); }'
  # sonde replay calls.sonde
  @[cron]: 14
  @[sshd]: 371
  # sonde replay -f json calls.sonde
  {"type": "attached_probes", "count": 2, "data": {"probes": 2}}
  {"type": "map", "data": {"@": {"cron": 14, "sshd": 371}}}

NEEDS
  nothing

NOTES
  A file that ends early, as after a crash, is shown as far as it is whole, and the status is 1. One that was changed is
  refused from the damaged block on. Commands of system() are not run again, and files of cat() not read: their output
  is in the recording. Times of day are those of the recorded machine's zone.
"""

_OF_FLEETS = {"by", "outliers"}
_ALLOWED = {"format", "heatmap", "output", "B", "quiet", "no-warnings", "memory", "no-redraw", "verbose", "e"}


def main(parsed: Parsed) -> int:
    """Replay; the exit status."""
    from ...base.memory_budget import Memory
    from ...recording.replay import reporting_damage
    from .. import script_run
    from ..display_choice import parse_memory
    refuse_options(parsed, _ALLOWED)
    if parsed.get("format") == "recording":
        raise UsageError("it is a recording already")
    from ...fleet.recording import is_of_fleet
    if parsed.words[1:] and is_of_fleet(parsed.words[1]):
        return _replay_fleet(parsed)
    for name in _OF_FLEETS & parsed.named.keys():
        raise UsageError(f"--{name} is of a fleet's recording, and {parsed.words[1]} is none" if parsed.words[1:] else
                         "sonde replay takes a recording", ["sonde replay --help explains"])
    memory = parse_memory(parsed.get("memory")) if parsed.has("memory") else Memory()
    trace = open_trace(parsed, parsed.words[1:], memory, "replay")
    recording = trace.recording
    with reporting_damage(recording.name):
        trace.options.warnings = not parsed.has("no-warnings")
        _take_over_facts(parsed, recording)
        if os.isatty(1) and not parsed.has("output"):
            _make_terminal_safe(trace.spec)
        if "parquet" in parsed.named:
            return _export(trace, parsed)
        status = script_run.run(trace, parsed)
    return _report_gaps(recording, status)


def _replay_fleet(parsed: Parsed) -> int:
    """What a fleet's run showed, or any other form of it; the exit status."""
    from ...fleet.recording import open_fleet
    from ...fleet.views.following import FleetRun
    from ...fleet.views.forms import make_presenter
    from ...recording.replay import reporting_damage
    from ..requests import open_output
    path, parquet = parsed.words[1], parsed.named.get("parquet", "")
    if parsed.words[2:] or parsed.has("e") or parsed.rest:
        raise UsageError(f"{path} was recorded of a fleet, which has no events that could be asked")
    if parsed.named.get("by", "host") != "host":
        raise UsageError(f"--by host, not --by {parsed.named['by']}")
    with reporting_damage(path), open_fleet(path, "by" in parsed.named, "outliers" in parsed.named) as fleet:
        facts, by_host = fleet.recording.facts, fleet.results.by_host
        set_zone(facts.zone)
        form = "parquet" if parquet else parsed.get("format", "text")
        presenter = make_presenter(fleet, form, parquet or parsed.get("output"), open_output(parsed), facts.title,
                                   by_host, parsed.has("quiet"))
        try:
            with FleetRun(fleet, presenter, parsed.has("quiet")) as run:
                if run.await_beginning():
                    run.follow_to_end()
                return _report_end(fleet.recording, run.finish_run())
        finally:
            presenter.close()


def open_trace(parsed: Parsed, words: list[str], memory: Memory, command: str) -> ReplayTrace:
    """The recording that the words name, or the script that queries it."""
    from ...recording.queries import open_question
    from ...recording.replay import open_replay
    from ...semantics.script_options import Options
    from ...source import Source
    from ..script_names import read_script
    if len(words) not in ((1,) if parsed.has("e") else (1, 2)) or parsed.rest:
        raise UsageError(f"sonde {command} takes one recording, and perhaps a script that is asked of it",
                         [f"sonde {command} --help explains"])
    if parsed.has("e"):
        return open_question(words[0], Source("stdin", parsed.get("e")), Options(), memory)
    return open_question(words[0], read_script(words[1]), Options(), memory) if words[1:] \
        else open_replay(words[0], memory)


def refuse_options(parsed: Parsed, allowed: set[str]) -> None:
    """UsageError for an option that does not apply to a run that is over."""
    for key in parsed.options.keys() - allowed:
        dashes = "-" if len(key) == 1 else "--"
        raise UsageError(f"sonde {parsed.words[0]} has no {dashes}{key}: the run is over",
                         [f"sonde {parsed.words[0]} --help explains"])


def _take_over_facts(parsed: Parsed, recording: Recording) -> None:
    """Adopt what the run's command line said, and its machine's time zone."""
    from ..requests import print_to_stderr
    facts = recording.facts
    parsed.columns, parsed.tool = facts.columns, facts.tool
    for key, text in (("title", facts.title), ("unit", facts.unit)):
        if text:
            parsed.options.setdefault(key, text)
    parsed.options.setdefault("no-redraw", "yes")
    set_zone(facts.zone)
    for text in facts.warnings if not parsed.has("no-warnings") else []:
        print_to_stderr(text)


def _make_terminal_safe(spec: ScriptSpec) -> None:
    """A recording may be anybody's: neutralise terminal control characters in what its script prints."""
    from ...output.text import terminal_safe
    for site in spec.sites:
        for part in site.parts:
            part.literal = terminal_safe(part.literal)
        if "format" in site.data:
            site.data["format"] = terminal_safe(site.data["format"])
        if "separator" in site.data:
            site.data["separator"] = terminal_safe(site.data["separator"])


def set_zone(zone: Json) -> None:
    """Set local time to that of the recorded machine: [name, seconds east of Greenwich]."""
    if not isinstance(zone, list) or list(map(type, zone)) != [str, int] or abs(zone[1]) > 24 * 3600:
        return
    name = zone[0] if zone[0].isascii() and zone[0].replace("+", "").replace("-", "").isalnum() \
        and 3 <= len(zone[0]) <= 8 else "REC"
    minutes, seconds = divmod(abs(zone[1]), 60)
    os.environ["TZ"] = f"<{name}>{'-' if zone[1] > 0 else ''}{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    time.tzset()


def _export(trace: ReplayTrace, parsed: Parsed) -> int:
    from .export import _run_export
    exports = {"parquet": parsed.named.pop("parquet"), "interval": "10", "keys": "1000"}
    with trace:
        status = _run_export(trace, parsed, exports)
    return _report_gaps(trace.recording, status)


def _report_end(recording: Recording | FleetRecording, status: int, also: str = "") -> int:
    """Report a file without an end; the exit status."""
    from ..requests import print_to_stderr
    if recording.truncated:
        print_to_stderr(f"ERROR: {recording.name} ends before the run did: what came later is missing{also}")
        return 1
    return status


def _report_gaps(recording: Recording, status: int) -> int:
    """Report what the recording does not have; the exit status."""
    from ..requests import print_to_stderr
    status = _report_end(recording, status, ", and so are the final maps")
    left_out = recording.end.left_out if recording.end is not None else 0
    if left_out:
        print_to_stderr("WARNING: the recording had no room for some names, or output of commands")
    return status
