"""``sonde diff``: what differs between runs, and whether that is more than noise."""

from __future__ import annotations

import os
import sys

from ...errors import SondeError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...comparing.runs import Run
    from ..options import Parsed

PAGE = """\
diff: what differs between two runs, by how much, and whether that is more than the noise between repeats

USAGE
  sonde diff [--fail-if CONDITION] [--values NAMES] [-f json] BEFORE AFTER
  sonde diff --baseline COMMAND -c COMMAND [--repeat N] FILE | TOOL | -e PROGRAM [parameters]
  sonde diff --duration TIME --change COMMAND [--undo COMMAND] [--repeat N] FILE | TOOL | -e PROGRAM [parameters]
  sonde diff --duration TIME --baseline PATH [--repeat N] FILE | TOOL | -e PROGRAM [parameters]

  BEFORE and AFTER are recordings (sonde record), or what -f json wrote; or folders of such files, which are repeats
  of the same. With --baseline and -c the script is run beside both commands, N times each, by turns. With --duration
  it is run for so long, of whatever happens on this machine: N times before a change and N times after it (with --undo
  by turns); or N times now, to be compared with the recordings in PATH.

OPTIONS
  --baseline WHAT        the command to compare with that of -c; with --duration a recording, or a folder of them
  --repeat N             so many runs of each (5)
  --duration TIME        how long a run takes: 10s, 500ms, 2m
  --change COMMAND       what is done between the runs before and those after
  --undo COMMAND         what takes that back, so that runs before and after can take turns
  --values NAMES         numbers that printf() sends, or columns of a tool, to compare as distributions: us,bytes
  --fail-if CONDITION    status 2 if it holds by more than noise: 'p99 > 1.1x', '@reads count < -20%', 'value > 2x'

COLUMNS
  p     the chance that noise alone differs so much, adjusted for the number of tests; changed means 0.05 at most
  p50   half of the values lie below; p90, p99 likewise

EXAMPLE
  # sonde diff before.sonde after.sonde
  before: sonde record -o before.sonde -c ./work ... on host (Linux 6.12), 2026-01-08 10:00:00 +0100, traced for 2.0 s
  after : sonde record -o after.sonde -c ./work ... on host (Linux 6.12), 2026-01-08 10:05:00 +0100, traced for 2.0 s

    @usecs: p50 12 -> 13.2 (+10%), p90 15.1 -> 16.6 (+9.9%), p99 ...; 1000 and 1000 values  p = 3e-09 (Mann-Whitney)

  # sonde diff --duration 10s --change 'sysctl -q vm.swappiness=10' --undo 'sysctl -q vm.swappiness=60' biolatency
  # sonde diff --duration 10s --baseline yesterday/ --fail-if 'p99 > 1.2x' biolatency

NEEDS
  nothing for files; what the script needs for --baseline and --change

NOTES
  Counts are compared by the second, those of runs that ended with their command (-c) as they are. With one run on each
  side only the noise within a run is known: events are taken to be independent of one another, which bursts are not;
  sums and averages are then shown, not tested. docs/recording.md has the tests by name. What of a map is cleared while
  the script runs is added up in a recording; of JSON the last contents count. sonde flame --diff compares stacks.
"""

_FILES = {"format", "output", "quiet", "memory", "verbose"}


def main(parsed: Parsed) -> int:
    """Compare; the exit status: 0, or 2 if a condition of --fail-if holds."""
    from ...comparing.findings import compare_runs
    from ...comparing.report import parse_condition, report_json, report_text
    from ..requests import open_output
    named = parsed.named
    condition = parse_condition(named["fail-if"]) if "fail-if" in named else None
    form = parsed.get("format", "text")
    if form not in ("text", "json"):
        raise UsageError(f"sonde diff prints text or json, not {form}", ["sonde flame --diff draws flame graphs"])
    before, after = _run_now(parsed) if "duration" in named or "change" in named or "undo" in named \
        else _run_both(parsed) if "baseline" in named else _read_both(parsed)
    findings = compare_runs(before, after)
    failed = [f"{finding.label}" for finding in findings if condition is not None and condition.holds(finding)]
    text = report_json(findings, before, after, failed) if form == "json" else report_text(findings, before, after)
    descriptor = open_output(parsed)
    with open(descriptor, "w", encoding="utf-8", errors="replace", closefd=descriptor != 1) as file:
        file.write(text)
    if failed and condition is not None:
        from ..requests import print_to_stderr
        print_to_stderr(f"ERROR: {condition.text}: {', '.join(failed[:10])}")
        return 2
    return 0


def _fields(parsed: Parsed) -> list[str]:
    return [name for name in parsed.named.get("values", "").split(",") if name]


def _read_both(parsed: Parsed) -> tuple[list[Run], list[Run]]:
    from .replay import refuse_options
    refuse_options(parsed, _FILES)
    if len(parsed.words) != 3 or parsed.rest or "repeat" in parsed.named:
        raise UsageError("sonde diff takes two recordings, or --baseline COMMAND -c COMMAND and a script, or "
                         "--duration TIME --change COMMAND and a script", ["sonde diff --help explains"])
    return _read_side(parsed, parsed.words[1]), _read_side(parsed, parsed.words[2])


def _read_side(parsed: Parsed, path: str) -> list[Run]:
    """The runs in a file, or in all files of a folder."""
    from ...base.memory_budget import Memory
    from ...comparing.runs import read_run
    from ..display_choice import parse_memory
    memory = parse_memory(parsed.get("memory")) if parsed.has("memory") else Memory()
    paths = sorted([os.path.join(path, name) for name in os.listdir(path)]) if os.path.isdir(path) else [path]
    if not paths:
        raise SondeError(f"{path} has no runs in it")
    return [read_run(each, _fields(parsed), memory) for each in paths]


def _run_both(parsed: Parsed) -> tuple[list[Run], list[Run]]:
    """Record the script beside both commands in turn: what changes with time affects both."""
    if not parsed.has("cmd") or not _has_script(parsed):
        raise UsageError("--baseline COMMAND needs -c COMMAND, and a script to run beside both",
                         ["of the whole machine, without commands: --duration 10s", "sonde diff --help explains"])
    from functools import partial

    from ...comparing.live import record_beside
    commands = parsed.named["baseline"], parsed.get("cmd")
    with _Runs(parsed) as runs:
        for number in range(runs.repeats):
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                runs.add(side, partial(record_beside, commands[side], _script(parsed)))
    return runs.sides


def _run_now(parsed: Parsed) -> tuple[list[Run], list[Run]]:
    """Record the script for a given time each: before and after a change, or to compare with recordings."""
    from functools import partial

    from ...comparing.live import record_for
    from ...library.flight.settings import parse_duration
    named = parsed.named
    if parsed.has("cmd") or "duration" not in named or not _has_script(parsed) \
            or ("change" in named) == ("baseline" in named) or "undo" in named and "change" not in named:
        raise UsageError("--duration TIME goes with --change COMMAND or with --baseline RECORDINGS, and with a script",
                         ["sonde diff --help explains"])
    seconds = parse_duration(named["duration"], "--duration") / 1e9
    baseline = _read_side(parsed, named["baseline"]) if "baseline" in named else []
    with _Runs(parsed) as runs:
        def run(side: int) -> None:
            runs.add(side, partial(record_for, seconds, _script(parsed)))
        if baseline:
            runs.sides[0].extend(baseline)
            for _ in range(runs.repeats):
                run(1)
        elif "undo" in named:
            _take_turns(run, named["change"], named["undo"], runs.repeats)
        else:
            for side in [0] * runs.repeats + [1] * runs.repeats:
                if side and not runs.sides[1]:
                    _carry_out("change", named["change"])
                run(side)
    return runs.sides


def _take_turns(run: Callable[[int], None], change: str, undo: str, repeats: int) -> None:
    """Runs before and after, in turn; what ``change`` did is undone at the end, also after an error."""
    changed = False
    try:
        for number in range(2 * repeats):
            side = number % 2 if number // 2 % 2 == 0 else 1 - number % 2
            if bool(side) != changed:
                _carry_out(*("change", change) if side else ("undo", undo))
                changed = bool(side)
            run(side)
    finally:
        if changed:
            _carry_out("undo", undo)


def _carry_out(option: str, command: str) -> None:
    import subprocess
    status = subprocess.run(["/bin/sh", "-c", command], stdout=sys.stderr, check=False).returncode
    if status:
        raise SondeError(f"--{option} {command!r} ended with status {status}")


def _has_script(parsed: Parsed) -> bool:
    return len(parsed.words) > 1 or parsed.has("e")


def _script(parsed: Parsed) -> list[str]:
    """The words that say what to record."""
    passed = [word for key in ("warnings", "no-warnings", "unsafe") if parsed.has(key) for word in [f"--{key}"]]
    script = ["-e", parsed.get("e")] if parsed.has("e") else []
    return [*passed, *script, *parsed.words[1:], *(["--", *parsed.rest] if parsed.rest else [])]


class _Runs:
    """Runs that are made now, each in a file that is read at once and removed."""

    def __init__(self, parsed: Parsed) -> None:
        from ...base.memory_budget import Memory
        from ..display_choice import parse_memory
        from .generated import number_option
        self.repeats = number_option(parsed.named, "repeat", 5, 1000)
        self.sides: tuple[list[Run], list[Run]] = [], []
        self._fields = _fields(parsed)
        self._memory = parse_memory(parsed.get("memory")) if parsed.has("memory") else Memory()

    def __enter__(self) -> _Runs:
        from tempfile import TemporaryDirectory
        self._folder = TemporaryDirectory(prefix="sonde-diff-")
        return self

    def __exit__(self, *exc: object) -> None:
        self._folder.cleanup()

    def add(self, side: int, record: Callable[[str], object]) -> None:
        """Make another run of a side."""
        from ...comparing.runs import read_run
        path = os.path.join(self._folder.name, "run")
        record(path)
        self.sides[side].append(read_run(path, self._fields, self._memory))
        os.unlink(path)
