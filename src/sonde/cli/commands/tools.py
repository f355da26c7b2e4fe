"""``sonde tools``: the shipped tools, one line each."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
tools: the tools that come with Sonde, a line for each

USAGE
  sonde tools [--check] [QUESTION]

  `sonde NAME --help` has a tool's own page. With a question, in any words: the tools that answer it.

OPTIONS
  --check   which of them work on this kernel: the same as sonde doctor

COLUMNS
  TOOL     what is typed after sonde
  PURPOSE  what it shows

EXAMPLE
  # sonde tools
  ...
  tcplife         lives of TCP connections: ends, bytes both ways, duration
  ...

NEEDS
  nothing

NOTES
  Each is a script in the language of all others; `sonde NAME -d types` shows it.
"""
TAKES = {"btf", "check"}


def main(parsed: Parsed) -> int:
    """List them, or examine them; the exit status."""
    if parsed.named.pop("check", "") or parsed.has("check"):
        from . import doctor
        return doctor.main(parsed)
    if question := " ".join(parsed.words[1:]):
        from ..search.answering import answer_question
        sys.stdout.write(answer_question(question, tools_only=True))
        return 0
    from ...tools import tool_listing
    sys.stdout.write(tool_listing())
    return 0
