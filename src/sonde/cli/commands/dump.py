"""``sonde dump``: asks a flight for its records."""

from __future__ import annotations

import sys

from ...errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
dump: have a flight recorder give out what it holds

USAGE
  sonde dump [NAME [WHY]]

  Asks the flight called NAME (a run with --flight) for a dump, and says what came of it. Without NAME it lists the
  flights that there are. The dump goes where the flight puts its dumps; WHY stands at its head.

COLUMNS
  NAME   the tool, or the script's file; "sonde" for one of -e
  PID    the flight's process, which stands for its name where that is not enough

EXAMPLE
  # sonde --flight 30s --flight-to /var/tmp/opens opensnoop &
  # sonde dump
  NAME                 PID
  opensnoop            4711
  # sonde dump opensnoop "users complain"
  Dump 1 (sonde dump: users complain): 2214 records in /var/tmp/opens/opensnoop.0001.txt

NEEDS
  to be root, or the user whose flight it is

NOTES
  docs/flight.md tells what a flight is. kill -USR2 PID asks for a dump too.
"""
TAKES = set[str]()


def main(parsed: Parsed) -> int:
    """Ask, or list; the exit status."""
    from ...library.flight.asking import ask_for_dump, find_flight, list_flights
    from ...output.text import terminal_safe
    words = [*parsed.words[1:], *parsed.rest]
    if len(words) > 2 or parsed.has("e"):
        raise UsageError("sonde dump takes a flight and a reason", ["sonde dump --help explains"])
    if not words:
        rows = [("NAME", "PID"), *[(flying.name, str(flying.pid)) for flying in list_flights()]]
        sys.stdout.write("".join([f"{name:<20} {pid}\n" for name, pid in rows]))
        return 0
    sentence = ask_for_dump(find_flight(words[0]), words[1] if len(words) > 1 else "")
    sys.stdout.write(terminal_safe(sentence) + "\n")
    return 0
