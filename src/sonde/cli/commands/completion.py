"""``sonde completion``: the script that completes command lines in a shell."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ...errors import UsageError

if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
completion: the script by which a shell completes the command lines of Sonde

USAGE
  sonde completion SHELL

  SHELL is bash, zsh or fish. Completes tools, commands, their options, formats, processes, containers, what sonde help
  knows, and probes: after -l, and in programs of -e.

EXAMPLE
  # sonde completion bash > /usr/local/share/bash-completion/completions/sonde
  # sonde completion zsh > /usr/local/share/zsh/site-functions/_sonde
  # sonde completion fish > ~/.config/fish/completions/sonde.fish

NEEDS
  nothing

NOTES
  The wheel of Sonde has the scripts. Each asks this Sonde what could stand at the cursor, by
  `sonde completion SHELL -- WORDS`. Tracepoints and functions are completed for who may read the kernel's lists of
  them: root.
"""
TAKES = set[str]()


def main(parsed: Parsed) -> int:
    """Print the script, or the answer that it asks for; the exit status."""
    from ..completion.shells import SCRIPTS, answer_shell
    shell = parsed.words[1] if len(parsed.words) == 2 else ""
    if shell not in SCRIPTS:
        raise UsageError("sonde completion takes the name of a shell", ["the shells are: " + ", ".join(SCRIPTS)])
    sys.stdout.write(answer_shell(shell, parsed.rest) if parsed.rest else SCRIPTS[shell])
    return 0
