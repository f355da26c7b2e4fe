"""``sonde top``: its page; the view itself is monitor.show()."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from ..options import Parsed

PAGE = """\
top: a full-screen view of a running script or tool: its maps as tables that can be sorted and searched

USAGE
  sonde top [options] FILE | TOOL | -e PROGRAM [parameters]
  sonde top RECORDING [FILE | -e PROGRAM]

  Each map that the script prints has a tab; the last tab has what each probe costs. ? shows the keys, q ends. A
  recording (sonde record) is shown with a slider in time: Left and Right go a step, Page Up and Page Down ten, Home and
  End to its ends, Space plays it as fast as it happened. With FILE or -e a script is asked of it, as with sonde replay.

OPTIONS
  --every SECONDS   how often the maps are read (1)

COLUMNS
  those of the tool, or the keys and values of the maps; /s what was added in the last second

EXAMPLE
  # sonde top -e 'tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }'
  # sonde top trace.sonde

NEEDS
  a terminal, and the Python package textual

NOTES
  When it ends, the maps are printed as they are without it. What maps held is in a recording for the moments at which
  the script printed them, for its end, and, of those that can be drawn over time, for each second; a script that is
  asked has them at any time.
"""


def is_recording(path: str) -> bool:
    """Whether the file is a recording, by its first bytes."""
    from ...recording.container import MAGIC
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC) - 1) == MAGIC[:-1]
    except OSError:
        return False


def look_back(parsed: Parsed) -> int:
    """``sonde top RECORDING``; the exit status."""
    from ...base.memory_budget import Memory
    from ...errors import UsageError
    from ..display_choice import parse_memory
    from ..watched_run import show_recording
    from .replay import open_trace, set_zone
    for key in parsed.options.keys() - {"e", "memory", "no-warnings", "verbose"}:
        raise UsageError(f"sonde top of a recording has no {'-' if len(key) == 1 else '--'}{key}: the run is over")
    memory = parse_memory(parsed.get("memory")) if parsed.has("memory") else Memory()
    trace = open_trace(parsed, parsed.words, memory, "top")
    trace.options.warnings = not parsed.has("no-warnings")
    set_zone(trace.recording.facts.zone)
    return show_recording(trace)


def main(parsed: Parsed) -> NoReturn:
    """UsageError: nothing was named that could be shown."""
    from ...errors import UsageError
    raise UsageError(f"sonde {parsed.command or parsed.first} needs a script, a tool, or -e PROGRAM",
                     [f"sonde {parsed.command or parsed.first} --help explains"])
