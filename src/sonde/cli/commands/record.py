"""``sonde record``: its page; the code is in :mod:`sonde.cli.requests` and :mod:`sonde.recording`."""

from __future__ import annotations

from ...errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
record: keep what a script or a tool hands over in a file, to be shown later in any form

USAGE
  sonde record [options] FILE | TOOL | -e PROGRAM [parameters] -o RECORDING
  sonde record --events PROBE[,PROBE] [-p PID | -c COMMAND] -o RECORDING

  Prints nothing until it ends; sonde replay RECORDING then prints what the run would have printed. The same as
  -f recording. --record RECORDING keeps a run that is printed or drawn as well.

  With --events every event of the tracepoints is kept, with its arguments, and time, process, thread, CPU, user and
  name: sonde replay -e answers scripts from that which nobody had thought of when it happened.

OPTIONS
  --events PROBES   tracepoints, also as patterns: tracepoint:syscalls:sys_enter_read,tracepoint:sched:*
  --every SECONDS   how often histograms are looked at that the script does not print, for heat maps (1)

COLUMNS
  none: what is kept are the events, the contents of maps whenever they were printed and at the end, the names of
  functions, users and control groups as they were then, what was lost, and which run it was

EXAMPLE
  # sonde record -o opens.sonde opensnoop
  ^C
  # sonde replay opens.sonde
  PID     COMM               FD ERR PATH
  2199    cron                3   0 /etc/passwd

NEEDS
  what the script needs; sonde replay needs nothing

NOTES
  The file is readable up to the last second even if Sonde is killed. A printf() takes 5 to 20 bytes an event. It is
  as confidential as what was traced. docs/recording.md has the format. --count is no option of it.
"""


def main(parsed: Parsed) -> int:
    """Record events whole; the exit status."""
    from ...compiling import live_world
    from ...recording.events import events_script
    from ..requests import ask_for_recording
    from .generated import run_script
    if not parsed.has("events"):
        raise UsageError("sonde record needs a script, a tool, -e PROGRAM, or --events PROBES",
                         ["sonde record --help explains"])
    ask_for_recording(parsed)
    return run_script("events", events_script(parsed.get("events"), live_world()), parsed)
