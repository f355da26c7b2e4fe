"""``sonde record``: its page; what it means is in :mod:`sonde.invocation` and :mod:`sonde.recording`."""

from __future__ import annotations

from .top import main as main

PAGE = """\
record: keep what a script or a tool hands over in a file, to be shown later in any form

USAGE
  sonde record [options] FILE | TOOL | -e PROGRAM [parameters] -o RECORDING

  Prints nothing until it ends; sonde replay RECORDING then prints what the run would have printed. The same as
  -f recording. --record RECORDING keeps a run that is printed or drawn as well.

OPTIONS
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
