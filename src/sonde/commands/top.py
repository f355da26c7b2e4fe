"""``sonde top``: its page; the view itself is monitor.show()."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
top: a full-screen view of a running script or tool: its maps as tables that can be sorted and searched

USAGE
  sonde top [options] FILE | TOOL | -e PROGRAM [parameters]

  Each map that the script prints has a tab; the last tab has what each probe costs. ? shows the keys, q ends.

OPTIONS
  --every SECONDS   how often the maps are read (1)

COLUMNS
  those of the tool, or the keys and values of the maps; /s what was added in the last second

EXAMPLE
  # sonde top -e 'tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }'

NEEDS
  a terminal, and the Python package textual

NOTES
  When it ends, the maps are printed as they are without it.
"""


def main(parsed: Parsed) -> NoReturn:
    """Nothing was named that could be shown."""
    from ..errors import UsageError
    raise UsageError(f"sonde {parsed.command or parsed.first} needs a script, a tool, or -e PROGRAM",
                     [f"sonde {parsed.command or parsed.first} --help explains"])
