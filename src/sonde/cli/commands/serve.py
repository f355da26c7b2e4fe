"""``sonde serve``: its page; the view itself is monitor.show()."""

from __future__ import annotations

PAGE = """\
serve: a running script or tool as a page for a browser on this machine

USAGE
  sonde serve [options] FILE | TOOL | -e PROGRAM [parameters]

  Prints the address, which holds a secret; the page shows maps as tables, histograms and lines as they grow.

OPTIONS
  --port PORT       on 127.0.0.1 (any that is free)
  --every SECONDS   how often the maps are read (1)

COLUMNS
  those of the tool, or the keys and values of the maps

EXAMPLE
  # sonde serve runqlat
  Serving on http://127.0.0.1:36143/p3XJGbUNHrq1WkSd7yRb0A/ until Ctrl-C

NEEDS
  nothing

NOTES
  It listens on the loopback interface alone; from elsewhere: ssh -L 8080:127.0.0.1:PORT HOST
"""
