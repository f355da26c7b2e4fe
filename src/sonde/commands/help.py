"""``sonde help``: the help of all, or of one tool or command."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..errors import UsageError

if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
help: the help of Sonde, or of one of its tools and commands

USAGE
  sonde help [NAME]

  The same as `sonde NAME --help`.

EXAMPLE
  # sonde help tcplife

NEEDS
  nothing

NOTES
  `man sonde` and `man sonde-tcplife` have the same pages, where Sonde was installed by pip or pipx.
"""
TAKES = set[str]()


def main(parsed: Parsed) -> int:
    """Print it; the exit status."""
    from .. import tools
    from ..aliases import own_words
    from ..language.diagnostics import nearest_names
    from ..options import usage_text
    from . import COMMANDS, command_page
    if len(parsed.words) < 2:
        sys.stdout.write(usage_text())
        return 0
    name = own_words(parsed.words[1])[0]
    found = command_page(name) if name in COMMANDS else tools.find_tool(name)
    if found is None:
        raise UsageError(f"there is no tool or command {name}",
                         [f"did you mean {c}?" for c in nearest_names(name, [*tools.tool_names(), *COMMANDS])[:1]]
                         or ["sonde tools lists the tools"])
    sys.stdout.write(tools.tool_help(found))
    return 0
