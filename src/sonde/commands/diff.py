"""``sonde diff``: what differs between runs, and whether that is more than noise."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ..errors import SondeError, UsageError

if TYPE_CHECKING:
    from ..comparing.runs import Run
    from ..options import Parsed

PAGE = """\
diff: what differs between two runs, by how much, and whether that is more than the noise between repeats

USAGE
  sonde diff [--fail-if CONDITION] [--values NAMES] [-f json] BEFORE AFTER
  sonde diff --baseline COMMAND -c COMMAND [--repeat N] FILE | TOOL | -e PROGRAM [parameters]

  BEFORE and AFTER are recordings (sonde record), or what -f json wrote; or folders of such files, which are repeats
  of the same. With --baseline the script is run beside both commands, N times each, by turns.

OPTIONS
  --baseline COMMAND     the command to compare with that of -c
  --repeat N             so many runs of each (5)
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

NEEDS
  nothing for files; what the script needs for --baseline

NOTES
  Counts are compared by the second, those of runs that ended with their command (-c) as they are. With one run on each
  side only the noise within a run is known: events are taken to be independent of one another, which bursts are not;
  sums and averages are then shown, not tested. docs/recording.md has the tests by name. What of a map is cleared while
  the script runs is added up in a recording; of JSON the last contents count. sonde flame --diff compares stacks.
"""

_FILES = {"format", "output", "quiet", "memory", "verbose"}


def main(parsed: Parsed) -> int:
    """Compare; 0, or 2 if a condition of --fail-if holds."""
    from ..comparing.findings import compare_runs
    from ..comparing.report import parse_condition, report_json, report_text
    from ..invocation import open_output
    named = parsed.named
    condition = parse_condition(named["fail-if"]) if "fail-if" in named else None
    form = parsed.get("format", "text")
    if form not in ("text", "json"):
        raise UsageError(f"sonde diff prints text or json, not {form}", ["sonde flame --diff draws flame graphs"])
    before, after = _run_both(parsed) if "baseline" in named else _read_both(parsed)
    findings = compare_runs(before, after)
    failed = [f"{finding.label}" for finding in findings if condition is not None and condition.holds(finding)]
    text = report_json(findings, before, after, failed) if form == "json" else report_text(findings, before, after)
    descriptor = open_output(parsed)
    with open(descriptor, "w", encoding="utf-8", errors="replace", closefd=descriptor != 1) as file:
        file.write(text)
    if failed and condition is not None:
        from ..invocation import print_to_stderr
        print_to_stderr(f"ERROR: {condition.text}: {', '.join(failed[:10])}")
        return 2
    return 0


def _fields(parsed: Parsed) -> list[str]:
    return [name for name in parsed.named.get("values", "").split(",") if name]


def _read_both(parsed: Parsed) -> tuple[list[Run], list[Run]]:
    from .replay import refuse_options
    refuse_options(parsed, _FILES)
    if len(parsed.words) != 3 or parsed.rest or "repeat" in parsed.named:
        raise UsageError("sonde diff takes two recordings, or --baseline COMMAND -c COMMAND and a script",
                         ["sonde diff --help explains"])
    return _read_side(parsed, parsed.words[1]), _read_side(parsed, parsed.words[2])


def _read_side(parsed: Parsed, path: str) -> list[Run]:
    """The runs in a file, or in all files of a folder."""
    from ..comparing.runs import read_run
    from ..memory import Memory, parse_memory
    memory = parse_memory(parsed.get("memory")) if parsed.has("memory") else Memory()
    paths = sorted([os.path.join(path, name) for name in os.listdir(path)]) if os.path.isdir(path) else [path]
    if not paths:
        raise SondeError(f"{path} has no runs in it")
    return [read_run(each, _fields(parsed), memory) for each in paths]


def _run_both(parsed: Parsed) -> tuple[list[Run], list[Run]]:
    """Record the script beside both commands, by turns: what changes with time meets both."""
    from tempfile import TemporaryDirectory

    from ..comparing.runs import read_run
    from .generated import number_option
    if not parsed.has("cmd") or len(parsed.words) < 2 and not parsed.has("e"):
        raise UsageError("--baseline COMMAND needs -c COMMAND, and a script to run beside both",
                         ["sonde diff --help explains"])
    repeats = number_option(parsed.named, "repeat", 5, 1000)
    sides: tuple[list[Run], list[Run]] = [], []
    with TemporaryDirectory(prefix="sonde-diff-") as folder:
        for number in range(repeats):
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                path = os.path.join(folder, f"{number}.{side}")
                _record_run(parsed, parsed.get("cmd") if side else parsed.named["baseline"], path)
                sides[side].append(read_run(path, _fields(parsed)))
                os.unlink(path)
    return sides


def _record_run(parsed: Parsed, command: str, path: str) -> None:
    import subprocess
    from shlex import split

    from ..installed import command_path
    passed = [word for key in ("warnings", "no-warnings", "unsafe") if parsed.has(key) for word in [f"--{key}"]]
    script = ["-e", parsed.get("e")] if parsed.has("e") else []
    words = [*split(command_path()), "record", "-q", "-o", path, "-c", command, *passed, *script, *parsed.words[1:],
             *(["--", *parsed.rest] if parsed.rest else [])]
    subprocess.run(words, stdout=sys.stderr, check=False)
    if not os.path.exists(path):  # a status of its own is the command's affair
        raise SondeError(f"the run beside {command!r} could not be recorded")
